"""Least squares over the whole stream, kept in a word.

Section 4 of Immorlica et al. (2024) takes gradient steps. Least squares needs only the averages of `x_i x_j` and
`x_i y`; keeping these makes the answer that of all records (see `vestige.statistics.least_squares` for the form
that they are kept in). With an intercept, they are taken about the means: then columns that lie far from zero cost no
digits.
Guarantee: within 5% of the all-data error; held by tests/policies/test_linear.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from vestige import statistics
from vestige.clock import Clock
from vestige.errors import NoAnswerError, ParameterError
from vestige.estimate import Estimate, read_inputs
from vestige.policies.base import MAX_PRODUCT_COLUMNS, Basis, Encoded, check_half_life, find_max_magnitude
from vestige.policies.report import Remark, Report, format_number
from vestige.policies.rounding import SMALLEST
from vestige.records import Records
from vestige.types import Floats
from vestige.validation import check_bool, check_int

_USELESS = 0.01
"""If rounding may put the coefficients off by more than this share of themselves, there is no answer."""
_NOTEWORTHY = 5e-4
_LEAST_ROUNDING = 1e-12
"""What adding up products of many records rounds off, at least."""
_COLLINEAR = 10.0
"""Up to this condition number, digits are lost by rounding alone, which is noted with the errors."""


@dataclass(frozen=True, eq=False)
class LinearEstimate(Estimate):
    """A fitted linear model.

    Attributes:
        value: the coefficients; shape (dim,), or (outputs, dim) for several outputs.
        intercept: a float, or of shape (outputs,); 0 for a model without an intercept.
        standard_errors: the standard errors of the coefficients, for independent records and noise of one variance;
            of the shape of `value`.
        intercept_error: the standard error of the intercept.
        noise: the variance of the residuals; a float, or of shape (outputs,).
        condition: the condition number of the predictors, each scaled to unit length; that of the held records if the
            encoded answer has missed its target.
    """

    errors: ClassVar[Mapping[str, str]] = {"standard_errors": "value", "intercept_error": "intercept"}

    value: Floats
    intercept: float | Floats
    standard_errors: Floats
    intercept_error: float | Floats
    noise: float | Floats
    condition: float

    def list_numbers(self) -> Iterator[dict[str, Any]]:
        """List the intercept of each output, then the coefficients; see `Estimate.list_numbers`."""
        values, errors = np.atleast_1d(self.intercept), np.atleast_1d(self.intercept_error)
        targets = self.column_names[np.shape(self.value)[-1] :] or tuple(str(i + 1) for i in range(len(values)))
        for target, value, error in zip(targets, values.tolist(), errors.tolist(), strict=True):
            yield {"metric": f"{target} by (intercept)", "value": value, "standard_error": error}
        for number, error in zip(super().list_numbers(), np.ravel(self.standard_errors).tolist(), strict=True):
            yield {**number, "standard_error": error}

    def predict(self, x: ArrayLike) -> Floats:
        """Predict the outputs at each row of `x`: the prediction query of Immorlica et al. (2024).

        Args:
            x: shape (dim,) or (n, dim); the columns of a data frame go by the names of those of the stream.

        Returns:
            the outputs; shape () or (n,), or with a last axis of the outputs if there are several.

        Raises:
            ParameterError: `x` has another shape.
        """
        dim = np.shape(self.value)[-1]
        rows = read_inputs(x, self.column_names[:dim])
        if rows.ndim not in (1, 2) or rows.shape[-1] != dim:
            raise ParameterError(f"x has shape {rows.shape}; needs ({dim},) or (n, {dim})")
        predicted: Floats = rows @ np.asarray(self.value).T + self.intercept
        return predicted


@dataclass(frozen=True)
class LinearRegression(Encoded[LinearEstimate]):
    """The least-squares fit to everything that ever arrived.

    Args:
        dim: the number of predictors per record. Rows are `(x_1 .. x_dim, y_1 .. y_outputs)`.
        intercept: whether the model has a constant.
        outputs: the number of responses that are fitted to the same predictors.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: an argument is out of range.

    Example:
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

    name: ClassVar[str] = "regression"
    min_targets: ClassVar[int] = 1
    max_targets: ClassVar[int | None] = None

    dim: int = 1
    intercept: bool = True
    outputs: int = 1
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MAX_PRODUCT_COLUMNS)
        check_int("outputs", self.outputs, 1, MAX_PRODUCT_COLUMNS)
        check_bool("intercept", self.intercept)
        check_half_life(self.half_life)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> LinearRegression:  # noqa: ARG003
        """Make the fit of targets to a number of columns; see `Encoded.from_columns`."""
        return cls(columns, outputs=targets, half_life=half_life)

    @property
    def columns(self) -> int:
        """The number of predictors and outputs."""
        return self.dim + self.outputs

    @property
    def statistic(self) -> statistics.LeastSquares:
        """The fit, and how the predictors vary."""
        return statistics.LeastSquares(self.dim, self.outputs, self.intercept)

    @property
    def max_magnitude(self) -> float:
        """The largest value whose powers do not overflow."""
        return find_max_magnitude(2)

    @property
    def answered_means(self) -> int:
        """The number of means that an answer includes: one for each output."""
        return self.outputs

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Name each coefficient by its target and its column; see `Encoded.labels`."""
        return tuple(f"{target} by {column}" for target in columns[self.dim :] for column in columns[: self.dim])

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:
        """Draw records whose outputs follow the sum of the predictors, with noise of deviation 1.

        See `Encoded.draw_rows`.
        """
        rows = super().draw_rows(rng, count, mean)
        rows[:, self.dim :] += rows[:, : self.dim].sum(axis=1, keepdims=True) - mean
        return rows

    def report(self, estimate: LinearEstimate, columns: Sequence[str]) -> Report:
        """Make a table of the coefficients; see `Encoded.report`."""
        slopes, errors = np.atleast_2d(estimate.value), np.atleast_2d(estimate.standard_errors)
        offsets, offset_errors = np.atleast_1d(estimate.intercept), np.atleast_1d(estimate.intercept_error)
        terms, noises = ["(intercept)", *columns[: self.dim]], np.atleast_1d(estimate.noise)
        rows: list[tuple[str, ...]] = []
        facts: dict[str, object] = {}
        for k, target in enumerate(columns[self.dim :]):
            values, spreads = [offsets[k], *slopes[k]], [offset_errors[k], *errors[k]]
            for term, value, spread in zip(terms, values, spreads, strict=True):
                t = value / spread if spread > 0.0 else np.nan
                rows.append((target, term, format_number(value), format_number(spread), f"{t:.2f}"))
            facts[target] = {
                "coefficients": dict(zip(terms, map(float, values), strict=True)),
                "standard_errors": dict(zip(terms, map(float, spreads), strict=True)),
                "noise": float(noises[k]),
            }
        residual = ", ".join(format_number(float(np.sqrt(value))) for value in noises)
        condition = f"Condition number of the predictors: {estimate.condition:.3g}."
        header = ("target", "term", "coefficient", "standard error", "t value")
        whole = {"value": facts, "condition": estimate.condition}
        remarks = (Remark(f"Residual standard error: {residual}. {condition}"),)
        return Report("least squares", header, tuple(rows), whole, remarks)

    def fit(self, clock: Clock, retained: Records) -> statistics.Fit:
        """Read the fit off records, the shortest where they do not determine it; without standard errors.

        Args:
            clock: the public clock.
            retained: the records that are held.

        Returns:
            the fit.
        """
        return self.statistic.fit(self._compute_numbers(clock, retained))

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> LinearEstimate:
        """Give the fit, its standard errors, and whether the predictors determine it; see `Encoded.conclude`."""
        fit = self.statistic.fit(numbers)
        _check_variances(fit.predictors.diagonal())
        lengths, sizes, axes, condition = _decompose(fit.predictors)
        rounding = max(rounding, _LEAST_ROUNDING)
        if condition * rounding > _USELESS and condition > _COLLINEAR:
            raise NoAnswerError(
                f"the predictors are collinear so far (condition number {condition:.1g}; their products are rounded "
                f"to {rounding:.1g} of their deviations); drop a predictor that follows from the others, wait for "
                "more records, or use a larger retention"
            )
        inverse = (axes / sizes) @ axes.T / np.outer(lengths, lengths)
        known = self.dim + int(self.intercept)
        noise = fit.noise * (worth / max(worth - known, 1.0))
        offset, leverage = np.zeros(self.outputs), 0.0
        if self.intercept:
            at = fit.means[: self.dim]
            offset, leverage = fit.means[self.dim :] - at @ fit.slopes, 1.0 + float(at @ inverse @ at)
        errors = np.outer(np.sqrt(noise), np.sqrt(inverse.diagonal() / worth))  # products of squares may overflow
        of_offset = np.sqrt(noise) * np.sqrt(leverage / worth)
        return LinearEstimate(
            self._to_shape(np.ascontiguousarray(fit.slopes.T)),
            self._to_scalar(offset),
            self._to_shape(errors),
            self._to_scalar(of_offset),
            self._to_scalar(noise),
            condition,
            notes=_list_notes(condition, rounding, enough=worth > known, exact=not fit.noise.all()),
        )

    def conclude_merged(self, merged: Basis, parts: Sequence[LinearEstimate]) -> LinearEstimate:  # noqa: ARG002
        """Give the fit; where a part missed its target, its products are taken to be off by a standard error.

        See `Encoded.conclude_merged`.
        """
        off = 1.0 / np.sqrt(merged.worth) if merged.notes else 0.0
        return self.conclude(merged.numbers, merged.worth, max(merged.rounding, float(off)))

    def _conclude_off(
        self,
        numbers: Floats,
        worth: float,
        rounding: float,  # noqa: ARG002
        clock: Clock,  # noqa: ARG002
        retained: Records,
    ) -> LinearEstimate:
        """The same where numbers are off by a standard error or more: so are eigenvalues, and no condition is known.

        The held records tell the condition instead, of those predictors that vary among them.
        """
        _check_variances(self.statistic.fit(numbers).predictors.diagonal())
        rows = retained.values[:, : self.dim]
        rows = rows[:, (rows != rows[0]).any(axis=0)]
        rows = rows - rows.mean(axis=0) if self.intercept else rows
        condition = _decompose(rows.T @ rows)[-1] if rows.size else np.inf
        try:
            made = self.conclude(numbers, worth, 0.0) if condition <= np.sqrt(worth) else None
        except NoAnswerError:
            made = None
        if made is None:
            raise NoAnswerError(
                f"the predictors cannot be told apart at this precision (condition number {condition:.1g} of the held "
                "records; the encoded answer has missed its target and may be off by more than a standard error); drop "
                "a predictor that nearly follows from the others or is nearly constant, or use a larger retention"
            )
        return replace(made, condition=condition)

    def _to_shape(self, table: Floats) -> Floats:
        return table[0] if self.outputs == 1 else table

    def _to_scalar(self, numbers: Floats) -> float | Floats:
        return float(numbers[0]) if self.outputs == 1 else numbers


def _check_variances(variances: Floats) -> None:
    """Refuse a predictor that is constant, or varies so little that its variance has no inverse."""
    constant = np.flatnonzero(variances < SMALLEST)
    if len(constant):
        what = "is constant so far" if variances[constant[0]] == 0.0 else "cannot be told from a constant so far"
        raise NoAnswerError(f"predictor {constant[0]} (counted from 0) {what}; drop it, or wait for more records")


def _decompose(predictors: Floats) -> tuple[Floats, Floats, Floats, float]:
    """The lengths of predictors; and, scaled to length 1, eigenvalues, axes and condition number of their products."""
    lengths = np.sqrt(predictors.diagonal())
    sizes, axes = np.linalg.eigh(predictors / np.outer(lengths, lengths))
    return lengths, sizes, axes, float(sizes[-1] / sizes[0]) if sizes[0] > 0.0 else np.inf


def _list_notes(condition: float, rounding: float, *, enough: bool, exact: bool) -> tuple[str, ...]:
    notes = []
    if condition * rounding > _NOTEWORTHY and condition > _COLLINEAR:
        notes.append(
            f"The predictors are nearly collinear (condition number {condition:.1g}), and their products are rounded "
            f"to {rounding:.1g} of their deviations; a larger retention keeps more digits."
        )
    if exact and enough:
        notes.append(
            "The fit leaves nothing that could be told from rounding: standard errors of zero mean that it is exact, "
            "or nearly so."
        )
    if not enough:
        notes.append(
            "There are no more records than coefficients: the fit is exact, and its standard errors mean nothing."
        )
    return tuple(notes)
