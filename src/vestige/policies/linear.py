"""Least squares over the whole stream, kept in presence bits.

Section 4 of Immorlica et al. (2024) takes gradient steps. Least squares needs only the averages of `x_i x_j` and
`x_i y`; keeping these makes the answer that of all records (see `vestige.statistics.least_squares` for the form
that they are kept in). With an intercept, they are taken about the means: then columns that lie far from zero cost no
digits.
Guarantee: within 5% of the all-data error; held by tests/policies/test_linear.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vestige import statistics
from vestige.errors import NoAnswerError, ParameterError
from vestige.policies.encoded import MOST_PRODUCTS, Spelled, check_half_life, largest_for
from vestige.policies.rounding import note_rounding
from vestige.policy import Answer
from vestige.records import Clock, Records
from vestige.types import Floats
from vestige.validation import check_bool, check_int

_USELESS = 0.01
"""Where the coefficients may be off by more than this share of themselves through rounding, there is no answer."""
_NOTEWORTHY = 1e-4
_COLLINEAR = 10.0
"""Up to this condition number, digits are lost by rounding alone: then errors tell how many count."""


@dataclass(frozen=True, eq=False)
class LinearAnswer(Answer):
    """A fitted linear model.

    Attributes:
        value: the coefficients; shape (dim,), or (outputs, dim) for several outputs.
        intercept: a float, or of shape (outputs,); 0 for a model without.
        standard_errors: of the coefficients, for records that are independent and noise of one variance; like `value`.
        intercept_error: the standard error of the intercept.
        noise: the variance of what the model leaves; a float, or of shape (outputs,).
        condition: the condition number of the predictors, each scaled to unit length.
    """

    intercept: float | Floats
    standard_errors: Floats
    intercept_error: float | Floats
    noise: float | Floats
    condition: float

    def predict(self, x: ArrayLike) -> Floats:
        """The outputs at each row of `x`; the paper's prediction query.

        Args:
            x: shape (dim,) or (n, dim).
        """
        rows = np.asarray(x, np.float64)
        dim = np.shape(self.value)[-1]
        if rows.ndim not in (1, 2) or rows.shape[-1] != dim:
            raise ParameterError(f"x has shape {rows.shape}; needs ({dim},) or (n, {dim})")
        predicted: Floats = rows @ np.asarray(self.value).T + self.intercept
        return predicted


@dataclass(frozen=True)
class LinearRegression(Spelled):
    """The least-squares fit to everything that ever arrived.

    Args:
        dim: predictors per record. Rows are `(x_1 .. x_dim, y_1 .. y_outputs)`.
        intercept: whether the model has a constant.
        outputs: how many responses are fitted to the same predictors.
        half_life: after so many records, a record counts half as much; for streams that drift.

    >>> from vestige import Stream
    >>> x = np.random.default_rng(0).normal(size=(100_000, 2))
    >>> y = x @ [2.0, -1.0] + 3.0 + np.random.default_rng(1).normal(size=100_000)
    >>> stream = Stream(LinearRegression(2), retention=1024, seed=0)
    >>> _ = stream.extend(np.column_stack([x, y]))
    >>> fit = stream.estimate()
    >>> fit.value.round(2), round(fit.intercept, 2), fit.standard_errors.round(4)
    (array([ 2., -1.]), 3.0, array([0.0031, 0.0032]))
    >>> fit.predict([1.0, 1.0]).round(1)
    np.float64(4.0)
    """

    dim: int = 1
    intercept: bool = True
    outputs: int = 1
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MOST_PRODUCTS)
        check_int("outputs", self.outputs, 1, MOST_PRODUCTS)
        check_bool("intercept", self.intercept)
        check_half_life(self.half_life)

    @property
    def columns(self) -> int:
        """Predictors, then outputs."""
        return self.dim + self.outputs

    @property
    def statistic(self) -> statistics.LeastSquares:
        """The fit, and how the predictors vary."""
        return statistics.LeastSquares(self.dim, self.outputs, self.intercept)

    @property
    def max_magnitude(self) -> float:
        """So that no power overflows."""
        return largest_for(2)

    def fit(self, clock: Clock, retained: Records) -> statistics.Fit:
        """The fit that these records say, the shortest where they do not determine it; without errors or questions."""
        return self.statistic.fit(self._tracked(clock, retained))

    def conclude(self, estimate: Floats, worth: float, rounding: float) -> LinearAnswer:
        """The fit, its standard errors, and whether the predictors can tell it."""
        fit = self.statistic.fit(estimate)
        lengths = np.sqrt(np.maximum(fit.predictors.diagonal(), 0.0))
        if not lengths.all():
            column = int(np.flatnonzero(lengths == 0.0)[0])
            raise NoAnswerError(f"predictor {column} (counted from 0) is constant so far; drop it, or wait for more")
        sizes, axes = np.linalg.eigh(fit.predictors / np.outer(lengths, lengths))
        condition = float(sizes[-1] / sizes[0]) if sizes[0] > 0.0 else np.inf
        if condition * rounding > _USELESS and condition > _COLLINEAR:
            raise NoAnswerError(
                f"the predictors are collinear so far (condition number {condition:.1g}, and their products are kept "
                f"to a share of {rounding:.1g}); drop a predictor that follows from the others, wait for more records, "
                "or use a larger retention"
            )
        inverse = (axes / sizes) @ axes.T / np.outer(lengths, lengths)
        known = self.dim + int(self.intercept)
        noise = fit.noise * worth / max(worth - known, 1.0)
        offset, leverage = np.zeros(self.outputs), 0.0
        if self.intercept:
            at = fit.means[: self.dim]
            offset, leverage = fit.means[self.dim :] - at @ fit.slopes, 1.0 + float(at @ inverse @ at)
        errors = np.sqrt(np.outer(noise, inverse.diagonal()) / worth)
        of_offset = np.sqrt(noise * leverage / worth)
        rounded = self._note_rounding(fit, errors, of_offset, worth, rounding) if worth > known else ()
        return LinearAnswer(
            self._shaped(np.ascontiguousarray(fit.slopes.T)),
            self._scalar(offset),
            self._shaped(errors),
            self._scalar(of_offset),
            self._scalar(noise),
            condition,
            notes=_notes(condition, rounding, enough=worth > known) + rounded,
            missed=bool(rounded),
        )

    def _note_rounding(
        self, fit: statistics.Fit, errors: Floats, of_offset: Floats, worth: float, rounding: float
    ) -> tuple[str, ...]:
        """Whether rounding counts: in a coefficient, the noise, a mean, about which products are taken, or the offset.

        Each mean and each slope is rounded on its own, so that what they put the offset off by adds up as squares do.
        """
        spread = fit.predictors.diagonal()
        at, outputs = np.split(fit.means, [self.dim])
        offset = np.sqrt(outputs**2 + 2.0 * ((at[:, None] * fit.slopes) ** 2).sum(axis=0))
        numbers = (fit.slopes.T.ravel(), at, offset, fit.noise)
        said = (errors.ravel(), np.sqrt(spread / worth), of_offset, fit.noise * np.sqrt(2.0 / worth))
        return note_rounding(np.concatenate(numbers), np.concatenate(said), rounding)

    def _shaped(self, table: Floats) -> Floats:
        return table[0] if self.outputs == 1 else table

    def _scalar(self, numbers: Floats) -> float | Floats:
        return float(numbers[0]) if self.outputs == 1 else numbers


def _notes(condition: float, rounding: float, *, enough: bool) -> tuple[str, ...]:
    notes = []
    if condition * rounding > _NOTEWORTHY and condition > _COLLINEAR:
        notes.append(
            f"The predictors are nearly collinear (condition number {condition:.1g}), and their products are kept to a "
            f"share of {rounding:.1g}: a larger retention would keep more digits."
        )
    if not enough:
        notes.append("There are no more records than coefficients: the fit is exact, and its errors say nothing.")
    return tuple(notes)
