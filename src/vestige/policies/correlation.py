"""Correlations of the whole stream, from the means and covariances that a word keeps.

What is encoded is that of `Covariance`. The standard error of a correlation r from n independent records is
(1 - r^2) / sqrt(n) if the columns are normal together (Pearson and Filon 1898, https://doi.org/10.1098/rsta.1898.0007);
heavy tails make it larger, since it depends on fourth moments, which are not kept.
Guarantee: numpy's correlations on the whole stream; held by tests/policies/test_correlation.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np

from vestige import statistics
from vestige.errors import NoAnswerError
from vestige.estimate import Estimate
from vestige.noise import Noise
from vestige.policies.base import MAX_PRODUCT_COLUMNS, NOISE_LEFT_OUT, Encoded, check_half_life, find_max_magnitude
from vestige.policies.report import Remark, Report, format_number
from vestige.policies.rounding import SMALLEST, TAILS, find_correlation_rounding, note_correlations
from vestige.types import Floats
from vestige.validation import check_int


@dataclass(frozen=True, eq=False)
class CorrelationEstimate(Estimate):
    """The correlations of several columns.

    Attributes:
        value: the correlation matrix, with ones on its diagonal; shape (dim, dim).
        standard_error: the standard error of each, for independent records that are normal together, with what rounding
            adds to it; shape (dim, dim).
        mean: the mean of each column; shape (dim,).
        deviation: the standard deviation of each column (divided by n); shape (dim,).
    """

    value: Floats
    standard_error: Floats
    mean: Floats
    deviation: Floats


@dataclass(frozen=True)
class Correlation(Encoded[CorrelationEstimate]):
    """The correlation matrix of everything that ever arrived.

    Args:
        dim: the number of values per record, 2 or more.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> stream = Stream(Correlation(2), retention=640, seed=0)
        >>> _ = stream.extend(np.random.default_rng(0).normal(size=(100_000, 2)) @ [[1.0, 1.0], [0.0, 1.0]])
        >>> estimate = stream.estimate()
        >>> estimate.value.round(2)
        array([[1.  , 0.71],
               [0.71, 1.  ]])
        >>> estimate.standard_error[0, 1].round(5)
        np.float64(0.00159)
    """

    name: ClassVar[str] = "correlation"
    min_columns: ClassVar[int] = 2

    dim: int = 2
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 2, MAX_PRODUCT_COLUMNS)
        check_half_life(self.half_life)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> Correlation:  # noqa: ARG003
        """Make the correlations of a number of columns; see `NamedPolicy.from_columns`."""
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
        """Name each correlation by its two columns; see `NamedPolicy.labels`."""
        return tuple(f"{one} with {other}" for one in columns for other in columns)

    def report(self, estimate: CorrelationEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the correlations; see `NamedPolicy.report`."""
        rows = tuple(
            (name, *(format_number(value) for value in row)) for name, row in zip(columns, estimate.value, strict=True)
        )
        facts = {
            "columns": list(columns),
            "value": estimate.value.tolist(),
            "standard_error": estimate.standard_error.tolist(),
        }
        largest = float(estimate.standard_error.max())
        remarks = (
            Remark(f"Standard errors are up to {largest:.2g}, for independent records that are normal together."),
        )
        return Report("correlations", ("column", *columns), rows, facts, remarks)

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> CorrelationEstimate:
        """Give the matrix, from covariances; see `Encoded.conclude`.

        Args:
            numbers: the means, then the covariances; shape (size,).
            worth: the number of equally weighted records that they rest on.
            rounding: how far each number may be off, in standard deviations of a record.

        Returns:
            the correlations, from -1 to 1; missed where rounding puts them off by more than half of their errors.

        Raises:
            NoAnswerError: a column does not vary.
        """
        free, deviation = self._correlate(numbers)
        value = np.clip(free, -1.0, 1.0)
        error = np.hypot((1.0 - value**2) / np.sqrt(worth), find_correlation_rounding(value, rounding))
        notes = note_correlations(value, rounding, worth, TAILS)
        mean = np.array(numbers[: self.dim])
        return CorrelationEstimate(value, error, mean, deviation, notes=notes, missed=bool(notes))

    def conclude_freely(self, numbers: Floats, worth: float) -> Floats:  # noqa: ARG002
        """Give the correlations, beyond 1 where the numbers say so; see `Encoded.conclude_freely`."""
        return self._correlate(numbers)[0].ravel()

    def conclude_noisy(
        self,
        averages: Floats,
        noise: Noise,
        worth: float,
        rounding: float,  # noqa: ARG002
        centres: Floats | float = 0.0,
    ) -> CorrelationEstimate:
        """Give the matrix, with errors that noise has where it carries a correlation beyond 1 too; see `Encoded`.

        Rounding is left out: it is far below the noise, or marked.
        """
        made = super().conclude_noisy(averages, noise, worth, 0.0, centres)
        if NOISE_LEFT_OUT in made.notes:
            return made
        noisy = noise.propagate(
            lambda at: self._correlate(self.statistic.from_averages(at, centres))[0].ravel(), averages
        )
        sampled = (1.0 - made.value**2) / np.sqrt(worth)
        return replace(made, standard_error=np.hypot(sampled, noisy.reshape(sampled.shape)))

    def _correlate(self, numbers: Floats) -> tuple[Floats, Floats]:
        """The correlations, which rounding or noise may carry beyond 1, and the deviations."""
        matrix = np.empty((self.dim, self.dim))
        for (i, j), product in zip(self.statistic.pairs, numbers[self.dim :], strict=True):
            matrix[i, j] = matrix[j, i] = product
        variances = matrix.diagonal()
        constant = np.flatnonzero(variances < SMALLEST)
        if len(constant):
            raise NoAnswerError(
                f"column {constant[0] + 1} of {self.dim} has no correlation: all its records are alike, or differ by "
                "so little that squares of the differences underflow; leave it out or use a smaller unit"
            )
        deviation = np.sqrt(variances)
        free = matrix / deviation / deviation[:, None]
        np.fill_diagonal(free, 1.0)
        return free, deviation
