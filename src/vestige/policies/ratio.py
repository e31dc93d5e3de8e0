"""The mean of one column over the mean of another, over the whole stream, kept in a word.

Its standard error is that of the delta method: the deviation of numerator - ratio * denominator, over the mean of the
denominator and the root of the number of records (Cochran 1977, "Sampling Techniques", section 6.3). What is encoded is
the ratio itself and what its error needs; see `vestige.statistics.ratio`.
Guarantee: numpy's ratio of means on the whole stream; held by tests/policies/test_ratio.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vestige import statistics
from vestige.errors import NoAnswerError
from vestige.estimate import Estimate
from vestige.policies.base import Encoded, check_half_life, find_max_magnitude
from vestige.policies.report import Report, format_number
from vestige.types import Floats

_NEAR_ZERO = 5.0
_NEAR = (
    "The mean of the denominator is within five of its standard errors of zero, so that the ratio and its standard "
    "error cannot be trusted; use a denominator whose mean is farther from zero."
)
_EXACT = (
    "The ratio leaves nothing that could be told from rounding: a standard error of zero means that it is exact, or "
    "nearly so."
)


@dataclass(frozen=True, eq=False)
class RatioEstimate(Estimate):
    """A ratio of two means.

    Attributes:
        value: the mean of the numerator over that of the denominator.
        standard_error: the standard error of the ratio by the delta method, for independent records.
        numerator: the mean of the numerator.
        denominator: the mean of the denominator.
    """

    value: float
    standard_error: float
    numerator: float
    denominator: float


@dataclass(frozen=True)
class Ratio(Encoded[RatioEstimate]):
    """The mean of the first column over the mean of the second, of everything that ever arrived.

    Args:
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: the half-life is out of range.

    Example:
        >>> from vestige import Stream
        >>> rng = np.random.default_rng(0)
        >>> visits = rng.poisson(3.0, 100_000) + 1.0
        >>> spent = 20.0 * visits + rng.normal(0.0, 5.0, 100_000)
        >>> stream = Stream(Ratio(), retention=640, seed=0)
        >>> _ = stream.extend(np.column_stack([spent, visits]))
        >>> estimate = stream.estimate()
        >>> abs(estimate.value - spent.sum() / visits.sum()) < 1e-9
        np.True_
        >>> round(estimate.value, 3), round(estimate.standard_error, 4)
        (20.006, 0.004)
    """

    name: ClassVar[str] = "ratio"
    min_columns: ClassVar[int] = 2
    max_columns: ClassVar[int | None] = 2

    half_life: float | None = None

    def __post_init__(self) -> None:
        check_half_life(self.half_life)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Ratio:  # noqa: ARG003
        """Make the ratio of two columns; see `NamedPolicy.from_columns`."""
        return cls(half_life)

    @property
    def columns(self) -> int:
        """Two: the numerator and the denominator."""
        return 2

    @property
    def statistic(self) -> statistics.Ratio:
        """The ratio, and what its error needs."""
        return statistics.Ratio()

    @property
    def max_magnitude(self) -> float:
        """The largest value whose squares do not overflow, whatever the ratio is."""
        return find_max_magnitude(4)

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Name the ratio by its columns; see `NamedPolicy.labels`."""
        return (" per ".join(columns) or "ratio",)

    def report(self, estimate: RatioEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the ratio; see `NamedPolicy.report`."""
        (label,) = self.labels(columns)
        rows = (
            (label, format_number(estimate.value), f"{estimate.standard_error:.2g}"),
            (f"mean of {columns[0]}", format_number(estimate.numerator), ""),
            (f"mean of {columns[1]}", format_number(estimate.denominator), ""),
        )
        facts: dict[str, object] = {
            "value": {label: estimate.value},
            "standard_error": estimate.standard_error,
            "numerator": estimate.numerator,
            "denominator": estimate.denominator,
        }
        return Report("ratio", ("", "value", "standard error"), rows, facts)

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> RatioEstimate:  # noqa: ARG002
        """Give the ratio and its error; see `Encoded.conclude`.

        Args:
            numbers: what the statistic tracks; shape (5,).
            worth: the number of equally weighted records that it rests on.
            rounding: not used: it is noted where it matters.

        Returns:
            the ratio.

        Raises:
            NoAnswerError: the denominator is zero in all records.
        """
        mean, ratio, variance, _, square = map(float, numbers)
        if mean == 0.0:
            raise NoAnswerError("the denominator is 0 in all records so far, so that there is no ratio; push others")
        error = np.sqrt(max(square, 0.0) / worth) / abs(mean)
        near = abs(mean) < _NEAR_ZERO * np.sqrt(max(variance, 0.0) / worth)
        notes = (*((_NEAR,) if near else ()), *(() if error > 0.0 else (_EXACT,)))
        return RatioEstimate(ratio, float(error), ratio * mean, mean, notes=notes)
