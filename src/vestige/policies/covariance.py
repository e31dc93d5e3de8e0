"""Means and covariances of the whole stream, kept in a word.

What is encoded is the means and the products of each pair of columns about them, so that no digits are lost where the
means are large; see `vestige.statistics.moments`.
Guarantee: numpy's values on the whole stream; held by tests/policies/test_moments.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, ClassVar

import numpy as np

from vestige import statistics
from vestige.estimate import Estimate
from vestige.policies.base import MAX_PRODUCT_COLUMNS, Encoded, check_half_life, find_max_magnitude
from vestige.policies.report import Remark, Report, format_number
from vestige.policies.rounding import note_alike, note_correlations
from vestige.types import Floats
from vestige.validation import check_int


@dataclass(frozen=True, eq=False)
class CovarianceEstimate(Estimate):
    """The covariances of several columns.

    Attributes:
        value: the covariance matrix (divided by n); shape (dim, dim).
        mean: the mean of each column; shape (dim,).
        correlation: the correlation matrix, nan beside a column that is constant; shape (dim, dim).
        standard_error: the standard error of each mean, for independent records; shape (dim,).
    """

    errors: ClassVar[Mapping[str, str]] = {"standard_error": "mean"}

    value: Floats
    mean: Floats
    correlation: Floats
    standard_error: Floats

    def list_numbers(self) -> Iterator[dict[str, Any]]:
        """List the means, then the covariances; see `Estimate.list_numbers`."""
        names = self.column_names or tuple(str(i + 1) for i in range(len(self.mean)))
        for name, value, error in zip(names, self.mean.tolist(), self.standard_error.tolist(), strict=True):
            yield {"metric": f"mean of {name}", "value": value, "standard_error": error}
        yield from super().list_numbers()


@dataclass(frozen=True)
class Covariance(Encoded[CovarianceEstimate]):
    """The covariance matrix of everything that ever arrived.

    Args:
        dim: the number of values per record.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Covariance(2), retention=512, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).normal(size=(100_000, 2)) @ [[1.0, 1.0], [0.0, 1.0]])
        >>> stream.estimate().value.round(1)
        array([[1., 1.],
               [1., 2.]])
        >>> stream.estimate().correlation[0, 1].round(2)
        np.float64(0.71)
    """

    name: ClassVar[str] = "covariance"

    dim: int = 2
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MAX_PRODUCT_COLUMNS)
        check_half_life(self.half_life)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Covariance:  # noqa: ARG003
        """Make the covariances of a number of columns; see `Encoded.from_columns`."""
        return cls(columns, half_life=half_life)

    @property
    def columns(self) -> int:
        """The number of dimensions."""
        return self.dim

    @property
    def statistic(self) -> statistics.Products:
        """The means, and the products of each pair of columns about them."""
        return statistics.Products(self.dim, tuple(combinations_with_replacement(range(self.dim), 2)), centred=True)

    @property
    def max_magnitude(self) -> float:
        """The largest value whose powers do not overflow."""
        return find_max_magnitude(2)

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Name each covariance by its two columns; see `Encoded.labels`."""
        return tuple(f"{one} with {other}" for one in columns for other in columns)

    def report(self, estimate: CovarianceEstimate, columns: Sequence[str]) -> Report:
        """Make a table of means and covariances; see `Encoded.report`."""
        rows = tuple(
            (name, format_number(mean), *(format_number(value) for value in row))
            for name, mean, row in zip(columns, estimate.mean, estimate.value, strict=True)
        )
        correlation = [[None if np.isnan(value) else value for value in row] for row in estimate.correlation.tolist()]
        facts = {
            "columns": list(columns),
            "value": estimate.value.tolist(),
            "correlation": correlation,
            "mean": estimate.mean.tolist(),
        }
        return Report("covariances", ("column", "mean", *columns), rows, facts, (Remark("covariances: divided by n."),))

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> CovarianceEstimate:
        """Give the matrix, from its upper half; see `Encoded.conclude`."""
        matrix = np.empty((self.dim, self.dim))
        for (i, j), product in zip(self.statistic.pairs, numbers[self.dim :], strict=True):
            matrix[i, j] = matrix[j, i] = product
        spread = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = matrix / np.outer(spread, spread)
        error, mean, off = (
            spread / np.sqrt(worth),
            np.array(numbers[: self.dim]),
            note_correlations(correlation, rounding, worth),
        )
        notes = (*note_alike(matrix.diagonal()), *off)
        return CovarianceEstimate(matrix, mean, correlation, error, notes=notes, missed=bool(off))
