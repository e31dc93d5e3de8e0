"""Mean, variance, skewness, kurtosis and covariances of the whole stream, kept in presence bits.

The paper's outlook (Section 5) names higher moments. What is encoded is the mean and the moments about it: no digits
are lost where the mean is large, and nothing is remembered to centre by.
Guarantee: numpy's values on the whole stream; held by tests/policies/test_moments.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from vestige import statistics
from vestige.errors import ParameterError
from vestige.policies.encoded import MOST_PRODUCTS, Spelled, check_half_life, largest_for
from vestige.policies.rounding import SMALLEST, note_alike, note_rounding, product_errors
from vestige.policy import Answer
from vestige.types import Floats
from vestige.validation import check_int

_HIGHEST = 4
_SHAPELESS = {2: "", 3: "skewness has no value", 4: "skewness and kurtosis have no value"}


@dataclass(frozen=True, eq=False)
class MomentsAnswer(Answer):
    """The moments of one column.

    Attributes:
        value: mean, variance, skewness and kurtosis, as far as the order goes.
        mean: the mean.
        variance: the mean square of the distances from it (divided by n).
        skewness: the third moment over the variance to the power of 3/2; None below order 3, nan for a constant.
        kurtosis: the fourth moment over the squared variance (3 for normal data); None below order 4, nan for a
            constant.
        standard_error: of the mean, for records that are independent.
        variance_error: the standard error of the variance, likewise; None below order 4.
    """

    mean: float
    variance: float
    skewness: float | None
    kurtosis: float | None
    standard_error: float
    variance_error: float | None


@dataclass(frozen=True)
class Moments(Spelled):
    """The moments of one column of everything that ever arrived.

    Args:
        order: how many: 2 gives mean and variance, 3 the skewness too, 4 the kurtosis too.
        half_life: after so many records, a record counts half as much; for streams that drift.

    >>> from vestige import Stream
    >>> stream = Stream(Moments(), retention=512, seed=0)
    >>> _ = stream.extend(np.random.default_rng(0).exponential(size=100_000))
    >>> estimate = stream.estimate()
    >>> estimate.value.round(2)
    array([1.  , 1.  , 2.01, 9.11])
    >>> round(estimate.standard_error, 5), estimate.held <= 512
    (0.00317, True)
    """

    order: int = 4
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_int("order", self.order, 2)
        if self.order > _HIGHEST:
            raise ParameterError(f"order={self.order} is above {_HIGHEST}; use 2, 3 or 4")
        check_half_life(self.half_life)

    @property
    def statistic(self) -> statistics.Moments:
        """The mean, and the moments about it."""
        return statistics.Moments(self.order)

    @property
    def max_magnitude(self) -> float:
        """So that no power overflows."""
        return largest_for(self.order)

    def conclude(self, estimate: Floats, worth: float, rounding: float) -> MomentsAnswer:
        """From central moments to what statisticians call by name."""
        mean, variance = float(estimate[0]), max(float(estimate[1]), 0.0)
        told = variance ** (self.order / 2) >= SMALLEST
        scale = np.sqrt(variance) if told else np.nan
        skewness = float(estimate[2] / scale**3) if self.order > 2 else None
        kurtosis = float(estimate[3] / scale**4) if self.order > 3 else None
        error = None
        if self.order > 3:
            error = float(np.sqrt(max(float(estimate[3]) - variance**2, 0.0) / worth))
        known = [number for number in (mean, variance, skewness, kurtosis) if number is not None]
        value = np.array(known if told else known[:2])
        notes = note_alike(np.array([variance]), "" if told else _SHAPELESS[self.order])
        of_mean = float(np.sqrt(variance / worth))
        errors = np.array([of_mean, variance * np.sqrt(2.0 / worth) if error is None else error])
        rounded = note_rounding(estimate[:2], errors, rounding)
        return MomentsAnswer(
            value, mean, variance, skewness, kurtosis, of_mean, error, notes=notes + rounded, missed=bool(rounded)
        )


@dataclass(frozen=True, eq=False)
class CovarianceAnswer(Answer):
    """The covariances of several columns.

    Attributes:
        value: the covariance matrix (divided by n); shape (dim, dim).
        mean: shape (dim,).
        correlation: nan beside a column that is constant; shape (dim, dim).
        standard_error: of each mean, for records that are independent; shape (dim,).
    """

    mean: Floats
    correlation: Floats
    standard_error: Floats


@dataclass(frozen=True)
class Covariance(Spelled):
    """The covariance matrix of everything that ever arrived.

    Args:
        dim: values per record.
        half_life: after so many records, a record counts half as much; for streams that drift.

    >>> from vestige import Stream
    >>> stream = Stream(Covariance(2), retention=512, seed=0)
    >>> _ = stream.extend(np.random.default_rng(0).normal(size=(100_000, 2)) @ [[1.0, 1.0], [0.0, 1.0]])
    >>> stream.estimate().value.round(1)
    array([[1., 1.],
           [1., 2.]])
    >>> stream.estimate().correlation[0, 1].round(2)
    np.float64(0.71)
    """

    dim: int = 2
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MOST_PRODUCTS)
        check_half_life(self.half_life)

    @property
    def columns(self) -> int:
        """As many as dimensions."""
        return self.dim

    @property
    def statistic(self) -> statistics.Products:
        """The means, and the products of each pair of columns about them."""
        return statistics.Products(self.dim, tuple(combinations_with_replacement(range(self.dim), 2)), centred=True)

    @property
    def max_magnitude(self) -> float:
        """So that no power overflows."""
        return largest_for(2)

    def conclude(self, estimate: Floats, worth: float, rounding: float) -> CovarianceAnswer:
        """The matrix, from its upper half."""
        matrix = np.empty((self.dim, self.dim))
        for (i, j), product in zip(self.statistic.pairs, estimate[self.dim :], strict=True):
            matrix[i, j] = matrix[j, i] = product
        spread = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = matrix / np.outer(spread, spread)
        error, (first, second) = spread / np.sqrt(worth), np.array(self.statistic.pairs, np.intp).T
        errors = product_errors(estimate[self.dim :], spread[first] ** 2, spread[second] ** 2, worth)
        rounded = note_rounding(estimate, np.concatenate((error, errors)), rounding)
        notes = note_alike(matrix.diagonal()) + rounded
        return CovarianceAnswer(
            matrix, np.array(estimate[: self.dim]), correlation, error, notes=notes, missed=bool(rounded)
        )
