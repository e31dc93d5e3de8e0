"""Logistic regression over the whole stream: parameters in a word, one Newton step a batch.

The outlook of Immorlica et al. (2024), Section 5, names classification. See `vestige.statistics.newton`.
Guarantee: log-loss within 1% and squared error within 20% of a fit to all records; held by
tests/policies/test_descent.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from vestige import statistics
from vestige.clock import Clock
from vestige.errors import DataError, ParameterError
from vestige.estimate import Estimate, read_inputs
from vestige.policies.base import MAX_PRODUCT_COLUMNS, check_half_life
from vestige.policies.minimum import Minimum
from vestige.policies.report import Report, format_number
from vestige.records import Records
from vestige.types import Floats
from vestige.validation import check_float, check_int

DEFAULT_L2 = 1e-12
"""The default penalty, here and in the adapters: it makes separable classes have a finite answer and nothing more, so
that the answer is that of all records; 1e-6 would shrink the coefficient of a column of standard deviation 1e-4 to a
hundredth."""
_LEAST_WEIGHT, _LEAST_SHARE = 1e-100, 1e-9
"""Of a record that says something, and of a curvature that is added so that it has a root."""
_MOST_GROWTH = 16.0
"""Of what one of the records before is taken to say, in one batch."""


@dataclass(frozen=True, eq=False)
class LogisticEstimate(Estimate):
    """A fitted classifier.

    Attributes:
        value: the coefficients; shape (dim,) for two classes, else (classes, dim).
        intercept: a float for two classes, else of shape (classes,).
        standard_errors: the standard errors of the coefficients, for independent records; of the shape of `value`.
        intercept_error: the standard error of the intercept.
    """

    errors: ClassVar[Mapping[str, str]] = {"standard_errors": "value", "intercept_error": "intercept"}

    value: Floats
    intercept: float | Floats
    standard_errors: Floats
    intercept_error: float | Floats

    def list_numbers(self) -> Iterator[dict[str, Any]]:
        """List the intercepts, then the coefficients; see `Estimate.list_numbers`."""
        values, errors = np.atleast_1d(self.intercept).tolist(), np.atleast_1d(self.intercept_error).tolist()
        labels = ("(intercept)",) if len(values) == 1 else (f"(intercept) {i}" for i in range(len(values)))
        for label, value, error in zip(labels, values, errors, strict=True):
            yield {"metric": label, "value": value, "standard_error": error}
        for number, error in zip(super().list_numbers(), np.ravel(self.standard_errors).tolist(), strict=True):
            yield {**number, "standard_error": error}

    def predict_proba(self, x: ArrayLike) -> Floats:
        """Predict the probability of each class at each row of `x`.

        Args:
            x: shape (n, dim); the columns of a data frame go by the names of those of the stream.

        Returns:
            the probabilities; shape (n, classes).

        Raises:
            ParameterError: `x` has another shape.
        """
        dim = np.shape(self.value)[-1]
        rows = read_inputs(x, self.column_names[:dim])
        if rows.ndim != 2 or rows.shape[1] != dim:
            raise ParameterError(f"x has shape {rows.shape}; needs (n, {dim})")
        scores: Floats = rows @ np.asarray(self.value).T + self.intercept
        return _softmax(scores if scores.ndim == 2 else np.column_stack([np.zeros(len(rows)), scores]))

    def predict(self, x: ArrayLike) -> Floats:
        """Predict the most likely class at each row of `x`.

        Args:
            x: shape (n, dim); the columns of a data frame go by the names of those of the stream.

        Returns:
            the classes, counted from 0; shape (n,).

        Raises:
            ParameterError: `x` has another shape.
        """
        likeliest: Floats = self.predict_proba(x).argmax(axis=1).astype(np.float64)
        return likeliest


def _sigmoid(scores: Floats) -> Floats:
    small = np.exp(-np.abs(scores))
    result: Floats = np.where(scores >= 0.0, 1.0, small) / (1.0 + small)
    return result


def _softmax(scores: Floats) -> Floats:
    grown: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: Floats = grown / grown.sum(axis=1, keepdims=True)
    return result


@dataclass(frozen=True)
class _Logistic(statistics.Model):
    """The logistic loss: a row of parameters (intercept, coefficients) for each class but one.

    Of two classes it is that of the second; of more, rows are those of orthogonal contrasts, which say all there is.
    """

    is_likelihood = True

    dim: int
    classes: int
    l2: float

    @property
    def centred(self) -> int:  # type: ignore[override]
        """All predictors may be taken about centres."""
        return self.dim

    @property
    def start(self) -> Floats:
        """No class is likelier than another."""
        return np.zeros((self.classes - 1) * (self.dim + 1))

    @property
    def penalty(self) -> Floats:
        """The penalty of each parameter, none on intercepts."""
        penalty = np.full((self.classes - 1, self.dim + 1), self.l2)
        penalty[:, 0] = 0.0
        return penalty.ravel()

    @property
    def contrasts(self) -> Floats:
        """What the score of each class is of the scores of the rows; shape (classes, classes - 1)."""
        if self.classes == 2:
            return np.array([[0.0], [1.0]])
        made = np.triu(np.ones((self.classes, self.classes)))[:, 1:]
        made[np.arange(1, self.classes), np.arange(self.classes - 1)] = -np.arange(1.0, self.classes)
        result: Floats = made / np.linalg.norm(made, axis=0)
        return result

    def loss(self, parameters: Floats, values: Floats, weights: Floats) -> float:
        """The average log-loss."""
        scores, said = self._score(parameters, values), values[:, self.dim]
        if self.classes == 2:
            return float(weights @ (np.logaddexp(0.0, scores[:, 0]) - said * scores[:, 0]))
        scores = scores @ self.contrasts.T
        largest = scores.max(axis=1)
        whole = largest + np.log(np.exp(scores - largest[:, None]).sum(axis=1))
        return float(weights @ (whole - scores[np.arange(len(said)), said.astype(np.intp)]))

    def gradients(self, parameters: Floats, values: Floats) -> Floats:
        """Differences of chances and classes, times each predictor."""
        scores, said = self._score(parameters, values), values[:, self.dim]
        if self.classes == 2:
            return (_sigmoid(scores) - said[:, None]) * self._design(values)
        gaps = (_softmax(scores @ self.contrasts.T) - np.eye(self.classes)[said.astype(np.intp)]) @ self.contrasts
        result: Floats = (gaps[:, :, None] * self._design(values)[:, None, :]).reshape(len(values), -1)
        return result

    def curvature(self, parameters: Floats, values: Floats, weights: Floats) -> Floats:
        """Its second derivatives."""
        scores, design = self._score(parameters, values), self._design(values)
        if self.classes == 2:
            chances = _sigmoid(scores[:, 0])
            curved: Floats = (design * (weights * chances * (1.0 - chances))[:, None]).T @ design
            return curved
        contrasts, chances = self.contrasts, _softmax(scores @ self.contrasts.T)
        means = chances @ contrasts
        size, rows = self.dim + 1, self.classes - 1
        whole = np.empty((rows * size, rows * size))
        for i in range(rows):
            for j in range(i + 1):
                weight = weights * (chances @ (contrasts[:, i] * contrasts[:, j]) - means[:, i] * means[:, j])
                block = (design * weight[:, None]).T @ design
                whole[i * size : (i + 1) * size, j * size : (j + 1) * size] = block
                whole[j * size : (j + 1) * size, i * size : (i + 1) * size] = block
        return whole

    def move_curvature(self, bend: Floats, old: Floats, new: Floats) -> Floats | None:
        """The records are taken to be as many on both sides of their mean along each axis of their spread."""
        dim, rows = self.dim, self.classes - 1
        one = bend.reshape(rows, dim + 1, rows, dim + 1).trace(axis1=0, axis2=2)
        whole = float(one[0, 0])
        if not whole > 0.0:
            return None
        middle = one[0, 1:] / whole
        sizes, axes = np.linalg.eigh(one[1:, 1:] / whole - np.outer(middle, middle))
        apart = (axes * np.sqrt(dim * np.maximum(sizes, 0.0))).T
        points = np.zeros((2 * dim, dim + 1))
        points[:, :dim] = np.concatenate([middle + apart, middle - apart])
        before, after = (np.maximum(self._weigh(at, points), _LEAST_WEIGHT) for at in (old, new))
        weights = whole / (2 * dim) / before
        less = np.clip(after / before, 1.0 / _MOST_GROWTH, _MOST_GROWTH) / (after / before)
        moved = self.curvature(new, points, weights * less)
        if self.classes == 2:
            return moved
        # of several classes, points do not make the whole curvature, which is turned as theirs is
        small = np.diag(np.maximum(bend.diagonal(), _LEAST_WEIGHT)) * _LEAST_SHARE
        try:
            roots = [np.linalg.cholesky(part + small) for part in (self.curvature(old, points, weights), moved)]
        except np.linalg.LinAlgError:
            return None
        turn = np.linalg.solve(roots[0].T, roots[1].T).T
        turned: Floats = turn @ bend @ turn.T
        return turned

    def _weigh(self, parameters: Floats, values: Floats) -> Floats:
        """How much a record says: the variance of what its class is believed to be; shape (n,)."""
        scores = self._score(parameters, values)
        if self.classes == 2:
            small = np.exp(-np.abs(scores[:, 0]))
            said: Floats = small / (1.0 + small) ** 2
            return said
        chances, contrasts = _softmax(scores @ self.contrasts.T), self.contrasts
        left: Floats = chances @ (contrasts**2).sum(axis=1) - ((chances @ contrasts) ** 2).sum(axis=1)
        return left

    def find_shift(self, by: Floats) -> Floats:
        """Each intercept rises by what its coefficients say of the shift."""
        one = np.eye(self.dim + 1)
        one[0, 1:] = by
        return np.kron(np.eye(self.classes - 1), one).astype(np.float64)

    def _design(self, values: Floats) -> Floats:
        design = np.empty((len(values), self.dim + 1))
        design[:, 0], design[:, 1:] = 1.0, values[:, : self.dim]
        return design

    def _score(self, parameters: Floats, values: Floats) -> Floats:
        """The score of each row of parameters at each record; shape (n, rows)."""
        table = parameters.reshape(self.classes - 1, self.dim + 1)
        scores: Floats = values[:, : self.dim] @ table[:, 1:].T + table[:, 0]
        return scores


@dataclass(frozen=True)
class LogisticRegression(Minimum[LogisticEstimate]):
    """Logistic regression on everything that ever arrived.

    Args:
        dim: the number of predictors per record. Rows are `(x_1 .. x_dim, class)`, with classes 0, 1, ...
        classes: the number of classes.
        l2: the penalty on squared coefficients: `l2 / 2 * |coefficients|^2` is added to the average log-loss;
            scikit-learn's `C` on n records is `1 / (l2 * n)`.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from vestige import Stream
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(50_000, 2))
        >>> y = rng.random(50_000) < 1 / (1 + np.exp(-x @ [1.0, -2.0]))
        >>> stream = Stream(LogisticRegression(2), retention=512, seed=0)
        >>> _ = stream.extend(np.column_stack([x, y]))
        >>> stream.estimate().value.round(1), stream.estimate().predict([[1.0, -1.0]])
        (array([ 1., -2.]), array([1.]))
    """

    name: ClassVar[str] = "logistic"
    min_targets: ClassVar[int] = 1
    max_targets: ClassVar[int | None] = 1

    dim: int = 1
    classes: int = 2
    l2: float = DEFAULT_L2
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MAX_PRODUCT_COLUMNS)
        check_int("classes", self.classes, 2, MAX_PRODUCT_COLUMNS)
        check_float("l2", self.l2, lambda n: 0.0 <= n < np.inf, "0 or more")
        check_half_life(self.half_life)

    @classmethod
    def from_columns(cls, columns: int, targets: int, channel: str, half_life: float | None) -> LogisticRegression:  # noqa: ARG003
        """Make the classifier of one target by a number of columns; see `Encoded.from_columns`."""
        return cls(columns, half_life=half_life)

    @property
    def columns(self) -> int:
        """The number of predictors, and one for the class."""
        return self.dim + 1

    @property
    def statistic(self) -> statistics.Descent[_Logistic]:
        """The parameters, and the curvature of their loss."""
        return statistics.Descent(_Logistic(self.dim, self.classes, self.l2), self.half_life is not None)

    def check_rows(self, rows: Floats) -> None:
        """Refuse rows whose class is not one of 0, 1, ...; see `Policy.check_rows`."""
        classes = rows[:, self.dim]
        wrong = (classes != np.floor(classes)) | (classes < 0.0) | (classes >= self.classes)
        if wrong.any():
            raise DataError(
                f"row {int(wrong.argmax())} of {len(rows)} (counted from 0) has no class: the last column must be a "
                f"whole number from 0 to {self.classes - 1}; number the classes, or raise `classes`: nothing of this "
                "call was taken"
            )

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Name each coefficient by its column; see `Encoded.labels`."""
        return tuple(columns[: self.dim]) if self.classes == 2 else ()

    def report(self, estimate: LogisticEstimate, columns: Sequence[str]) -> Report:
        """Make a table of coefficients and odds ratios; see `Encoded.report`."""
        if self.classes > 2:
            return super().report(estimate, columns)
        names = ["(intercept)", *columns[: self.dim]]
        terms = dict(zip(names, [estimate.intercept, *estimate.value.tolist()], strict=True))
        errors = dict(zip(names, [estimate.intercept_error, *estimate.standard_errors.tolist()], strict=True))
        rows = tuple(
            (term, format_number(value), format_number(errors[term]), f"{np.exp(min(value, 700.0)):.6g}")
            for term, value in terms.items()
        )
        header = ("term", "coefficient", "standard error", "odds ratio")
        whole: dict[str, object] = {"value": terms, "standard_errors": errors}
        return Report(f"logistic regression of {columns[self.dim]} = 1", header, rows, whole)

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:
        """Draw records whose class is 1 where a normal number is positive; see `Encoded.draw_rows`."""
        rows = super().draw_rows(rng, count, mean)
        rows[:, -1] = rows[:, -1] > 0.0
        return rows

    def fit(self, clock: Clock, retained: Records) -> Floats:
        """Read the score of each class off records, without standard errors.

        Args:
            clock: the public clock.
            retained: the records that are held.

        Returns:
            the intercept of each class, then its coefficients; of two classes, those of the first are zero; shape
            (classes, dim + 1).
        """
        return self._find_scores(self._compute_numbers(clock, retained))

    def _find_scores(self, numbers: Floats) -> Floats:
        table = self.statistic.find_parameters(numbers).reshape(-1, self.dim + 1)
        scores: Floats = self.statistic.model.contrasts @ table
        return scores

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> LogisticEstimate:  # noqa: ARG002
        """Give the parameters by class, and their standard errors; see `Encoded.conclude`."""
        statistic = self.statistic
        contrasts, size, table = statistic.model.contrasts, self.dim + 1, self._find_scores(numbers)
        spread = statistic.find_covariance(numbers, worth).reshape(self.classes - 1, size, self.classes - 1, size)
        errors = np.sqrt(np.maximum(np.einsum("ki,iaja,kj->ka", contrasts, spread, contrasts), 0.0))
        if self.classes == 2:
            return LogisticEstimate(table[1, 1:], float(table[1, 0]), errors[1, 1:], float(errors[1, 0]))
        return LogisticEstimate(table[:, 1:], table[:, 0], errors[:, 1:], errors[:, 0])
