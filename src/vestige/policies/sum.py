"""All-time totals: the means of the whole stream, kept in a word, times the number of records that the clock counts.

The clock says exactly how many records count, so a total is off by that many times what rounding put its mean off by.
The variances are kept too, since rounding is relative to them; see `vestige.channels.residues`.
Guarantee: numpy's sums over the whole stream, within the error that the estimate states; held by
tests/policies/test_sum.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from vestige import statistics
from vestige.estimate import Estimate
from vestige.noise import Noise
from vestige.policies.base import MAX_COLUMNS, Basis, Encoded, find_max_magnitude
from vestige.policies.named_policy import refuse_half_life
from vestige.policies.report import Report, format_number
from vestige.policies.rounding import LAST_DIGITS, SMALLEST, bound_rounding
from vestige.types import Floats
from vestige.validation import check_int

_UNSEEN = math.sqrt(SMALLEST)
"""Records may deviate by as much although their variance is zero, since squares underflow."""


@dataclass(frozen=True, eq=False)
class SumEstimate(Estimate):
    """The total of each column.

    Attributes:
        value: the total; a float in one dimension, otherwise an array.
        mean: the mean of each column.
        encoding_error: how far encoding may have put the total off, whatever the order and the tails of the data,
            unless the estimate says that it `missed`. It has room for what rarely happens, and is wide where batches
            are small: up to five standard errors. See `vestige.policies.rounding.bound_rounding`.
        standard_error: how far the totals of as many other records would vary, if records are independent.
        has_noise: whether noise was added, which `standard_error` includes and `encoding_error` does not.

    Example:
        >>> estimate = SumEstimate(100.0, 5.0, 0.25, 2.0)
        >>> estimate.lower, estimate.upper
        (99.75, 100.25)
    """

    mean: float | Floats
    encoding_error: float | Floats
    standard_error: float | Floats
    has_noise: bool = False

    @property
    def lower(self) -> float | Floats | None:
        """The total of all records is at least this; None if there is noise, or the answer has missed."""
        return None if self.has_noise or self.missed else self.value - self.encoding_error

    @property
    def upper(self) -> float | Floats | None:
        """The total of all records is at most this; None if there is noise, or the answer has missed."""
        return None if self.has_noise or self.missed else self.value + self.encoding_error


@dataclass(frozen=True)
class Sum(Encoded[SumEstimate]):
    """The total of every record that ever arrived, out of a window of them.

    Args:
        dim: the number of values per record.

    Raises:
        ParameterError: the number of values is out of range.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Sum(), retention=256, seed=0)
        >>> _ = stream.extend(range(1, 10_001))
        >>> estimate = stream.estimate()
        >>> round(estimate.value, 1), estimate.oldest_age < 256
        (50005000.0, True)
        >>> estimate.encoding_error < 1e-5 * estimate.standard_error
        True
    """

    name: ClassVar[str] = "sum"

    dim: int = 1

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MAX_COLUMNS)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Sum:  # noqa: ARG003
        """Make the totals of a number of columns; see `NamedPolicy.from_columns`."""
        refuse_half_life(cls.name, half_life)
        return cls(columns)

    @property
    def columns(self) -> int:
        """The number of dimensions."""
        return self.dim

    @property
    def statistic(self) -> statistics.Products:
        """The means and the variances."""
        return statistics.Products(self.dim, tuple((i, i) for i in range(self.dim)), centred=True)

    @property
    def max_magnitude(self) -> float:
        """The largest value whose square does not overflow."""
        return find_max_magnitude(2)

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Name each total by its column; see `NamedPolicy.labels`."""
        return tuple(columns)

    def report(self, estimate: SumEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the totals; see `NamedPolicy.report`."""
        totals, errors = np.atleast_1d(estimate.value).tolist(), np.atleast_1d(estimate.encoding_error).tolist()
        rows = tuple(
            (name, format_number(total), f"{error:.2g}")
            for name, total, error in zip(columns, totals, errors, strict=True)
        )
        facts: dict[str, object] = {
            "value": dict(zip(columns, totals, strict=True)),
            "encoding_error": dict(zip(columns, errors, strict=True)),
        }
        return Report("sum", ("column", "sum", "encoding error"), rows, facts)

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> SumEstimate:
        """Give the totals, floats in one dimension, otherwise arrays; see `Encoded.conclude`."""
        mean, deviation = np.array(numbers[: self.dim]), np.sqrt(np.maximum(numbers[self.dim :], 0.0))
        error = deviation * np.sqrt(worth)
        most = np.maximum(deviation, _UNSEEN) * np.sqrt(worth)
        off = bound_rounding(rounding, worth, self.margin) * most + worth * LAST_DIGITS * np.abs(mean)
        if self.dim == 1:
            return SumEstimate(float(mean[0] * worth), float(mean[0]), float(off[0]), float(error[0]))
        return SumEstimate(mean * worth, mean, off, error)

    def conclude_merged(self, merged: Basis, parts: Sequence[SumEstimate]) -> SumEstimate:
        """Add up totals and how far encoding may have put them off; see `Encoded.conclude_merged`."""
        made = super().conclude_merged(merged, parts)
        total, off = (_add_up([getattr(part, name) for part in parts]) for name in ("value", "encoding_error"))
        return replace(made, value=total, mean=total / merged.worth, encoding_error=off)

    def conclude_noisy(
        self, averages: Floats, noise: Noise, worth: float, rounding: float, centres: Floats | float = 0.0
    ) -> SumEstimate:
        """Give the totals without bounds, which do not hold with noise; see `Encoded.conclude_noisy`."""
        return replace(super().conclude_noisy(averages, noise, worth, rounding, centres), has_noise=True)


def _add_up(numbers: Sequence[float | Floats]) -> float | Floats:
    """The exact sums, rounded once."""
    sums = np.array([math.fsum(column) for column in np.array(numbers).reshape(len(numbers), -1).T.tolist()])
    return sums if np.ndim(numbers[0]) else float(sums[0])
