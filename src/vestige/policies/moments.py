"""Mean, variance, skewness and kurtosis of the whole stream, kept in a word.

The outlook of Immorlica et al. (2024), Section 5, names higher moments. What is encoded is the mean and the moments
about it: no digits are lost where the mean is large, and nothing is remembered to centre by.
Guarantee: numpy's values on the whole stream; held by tests/policies/test_moments.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np

from vestige import statistics
from vestige.errors import ParameterError
from vestige.estimate import Estimate
from vestige.policies.base import Encoded, check_half_life, find_max_magnitude
from vestige.policies.report import Remark, Report, format_number
from vestige.policies.rounding import SMALLEST, note_alike
from vestige.types import Floats
from vestige.validation import check_int

_MAX_ORDER = 4
_NAMES = ("mean", "variance", "skewness", "kurtosis")
_SHAPELESS = {2: "", 3: "skewness has no value", 4: "skewness and kurtosis have no value"}


@dataclass(frozen=True, eq=False)
class MomentsEstimate(Estimate):
    """The moments of one column.

    Attributes:
        value: mean, variance, skewness and kurtosis, as far as the order goes.
        mean: the mean.
        variance: the mean square of the distances from it (divided by n).
        skewness: the third moment over the variance to the power of 3/2; None below order 3, nan for a constant.
        kurtosis: the fourth moment over the squared variance (3 for normal data); None below order 4, nan for a
            constant.
        standard_error: the standard error of the mean, for independent records.
        variance_error: the standard error of the variance, likewise; None below order 4.
    """

    errors: ClassVar[Mapping[str, str]] = {"standard_error": "mean", "variance_error": "variance"}

    value: Floats
    mean: float
    variance: float
    skewness: float | None
    kurtosis: float | None
    standard_error: float
    variance_error: float | None

    def list_numbers(self) -> Iterator[dict[str, Any]]:
        """List the moments, with the standard errors of mean and variance; see `Estimate.list_numbers`."""
        errors = (self.standard_error, self.variance_error)
        for number, error in zip_longest(super().list_numbers(), errors[: len(self.value)]):
            yield {**number, "standard_error": error}


@dataclass(frozen=True)
class Moments(Encoded[MomentsEstimate]):
    """The moments of one column of everything that ever arrived.

    Args:
        order: the highest moment: 2 gives mean and variance, 3 the skewness too, 4 the kurtosis too.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Moments(), retention=512, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).exponential(size=100_000))
        >>> estimate = stream.estimate()
        >>> estimate.value.round(2)
        array([1.  , 1.  , 2.01, 9.11])
        >>> round(estimate.standard_error, 5), estimate.held <= 512
        (0.00317, True)
    """

    name: ClassVar[str] = "moments"
    max_columns: ClassVar[int | None] = 1

    order: int = 4
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_int("order", self.order, 2)
        if self.order > _MAX_ORDER:
            raise ParameterError(f"order={self.order} is above {_MAX_ORDER}; use 2, 3 or 4")
        check_half_life(self.half_life)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Moments:  # noqa: ARG003
        """Make the moments of one column; see `Encoded.from_columns`."""
        return cls(half_life=half_life)

    @property
    def statistic(self) -> statistics.Moments:
        """The mean, and the moments about it."""
        return statistics.Moments(self.order)

    @property
    def max_magnitude(self) -> float:
        """The largest value whose powers do not overflow."""
        return find_max_magnitude(self.order)

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Name the moments; see `Encoded.labels`."""
        return _NAMES[: self.order]

    def report(self, estimate: MomentsEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the moments; see `Encoded.report`."""
        facts = {
            "mean": estimate.mean,
            "standard_error": estimate.standard_error,
            "variance": estimate.variance,
            "standard_deviation": float(np.sqrt(estimate.variance)),
            "skewness": estimate.skewness,
            "kurtosis": estimate.kurtosis,
        }
        moments = {name: value for name, value in facts.items() if value is not None}
        rows = tuple((name.replace("_", " "), format_number(value)) for name, value in moments.items())
        value = {name: None if np.isnan(number) else number for name, number in moments.items()}
        remarks = (Remark("kurtosis: 3 for normal data; variance: divided by n."),)
        return Report("moments", ("moment", *columns), rows, {"value": value}, remarks)

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> MomentsEstimate:  # noqa: ARG002
        """Give the moments that statisticians call by name, from those about the mean; see `Encoded.conclude`."""
        mean, variance = float(numbers[0]), max(float(numbers[1]), 0.0)
        has_shape = variance ** (self.order / 2) >= SMALLEST
        scale = np.sqrt(variance) if has_shape else np.nan
        skewness = float(numbers[2] / scale**3) if self.order > 2 else None
        kurtosis = float(numbers[3] / scale**4) if self.order > 3 else None
        error = None
        if self.order > 3:
            error = float(np.sqrt(max(float(numbers[3]) - variance**2, 0.0) / worth))
        moments = [number for number in (mean, variance, skewness, kurtosis) if number is not None]
        value = np.array(moments if has_shape else moments[:2])
        notes = note_alike(np.array([variance]), "" if has_shape else _SHAPELESS[self.order])
        mean_error = float(np.sqrt(variance / worth))
        return MomentsEstimate(value, mean, variance, skewness, kurtosis, mean_error, error, notes=notes)
