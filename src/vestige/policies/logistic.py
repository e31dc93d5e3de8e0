"""Logistic regression over the whole stream: parameters in a word, one Newton step a batch.

The outlook of Immorlica et al. (2024), Section 5, names classification. See `vestige.statistics.newton`.
Guarantee: log-loss within 1% and squared error within 20% of a fit to all records; held by
tests/policies/test_descent.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from vestige import statistics
from vestige.errors import DataError, ParameterError
from vestige.estimate import Estimate
from vestige.policies.base import MAX_PRODUCT_COLUMNS, check_half_life
from vestige.policies.minimum import Minimum
from vestige.policies.report import Report, format_number
from vestige.types import Floats
from vestige.validation import check_float, check_int

DEFAULT_L2 = 1e-6
"""The default penalty, here and in the adapters: it makes separable classes have a finite answer and nothing more, so
that the answer is that of all records; 1e-4 would shrink coefficients visibly."""


@dataclass(frozen=True, eq=False)
class LogisticEstimate(Estimate):
    """A fitted classifier.

    Attributes:
        value: the coefficients; shape (dim,) for two classes, else (classes, dim).
        intercept: a float for two classes, else of shape (classes,).
    """

    value: Floats
    intercept: float | Floats

    def list_numbers(self) -> Iterator[dict[str, Any]]:
        """List the intercepts, then the coefficients; see `Estimate.list_numbers`."""
        values = np.atleast_1d(self.intercept).tolist()
        labels = ("(intercept)",) if len(values) == 1 else (f"(intercept) {i}" for i in range(len(values)))
        yield from ({"metric": label, "value": value} for label, value in zip(labels, values, strict=True))
        yield from super().list_numbers()

    def predict_proba(self, x: ArrayLike) -> Floats:
        """Predict the probability of each class at each row of `x`.

        Args:
            x: shape (n, dim).

        Returns:
            the probabilities; shape (n, classes).

        Raises:
            ParameterError: `x` has another shape.
        """
        rows = np.asarray(x, np.float64)
        dim = np.shape(self.value)[-1]
        if rows.ndim != 2 or rows.shape[1] != dim:
            raise ParameterError(f"x has shape {rows.shape}; needs (n, {dim})")
        scores: Floats = rows @ np.asarray(self.value).T + self.intercept
        return _softmax(scores if scores.ndim == 2 else np.column_stack([np.zeros(len(rows)), scores]))

    def predict(self, x: ArrayLike) -> Floats:
        """Predict the most likely class at each row of `x`.

        Args:
            x: shape (n, dim).

        Returns:
            the classes, counted from 0; shape (n,).

        Raises:
            ParameterError: `x` has another shape.
        """
        likeliest: Floats = self.predict_proba(x).argmax(axis=1).astype(np.float64)
        return likeliest


def _softmax(scores: Floats) -> Floats:
    grown: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: Floats = grown / grown.sum(axis=1, keepdims=True)
    return result


@dataclass(frozen=True)
class _Logistic(statistics.Model):
    """The logistic loss: one row of parameters (intercept, coefficients) for each class but the first of two."""

    dim: int
    classes: int
    l2: float

    @property
    def rows(self) -> int:
        """How many rows of parameters there are."""
        return 1 if self.classes == 2 else self.classes

    @property
    def start(self) -> Floats:
        """No class is likelier than another."""
        return np.zeros(self.rows * (self.dim + 1))

    @property
    def idle(self) -> Floats:
        """Where each class has a row, what is added to all of them alike."""
        size = self.dim + 1
        return np.kron(np.full((self.rows, self.rows), (self.rows > 1) / self.rows), np.eye(size))

    def _make_penalty(self) -> Floats:
        """The penalty of each parameter; on intercepts none, or a trace where else they were not determined."""
        penalty = np.full((self.rows, self.dim + 1), self.l2)
        penalty[:, 0] = 0.0 if self.rows == 1 else 1e-9
        return penalty.ravel()

    def _compute_probabilities(self, parameters: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Rows with a one in front; the probability of each class; which class each is."""
        design = np.column_stack([np.ones(len(values)), values[:, : self.dim]])
        scores = design @ parameters.reshape(self.rows, self.dim + 1).T
        if self.rows == 1:
            scores = np.column_stack([np.zeros(len(values)), scores])
        return design, _softmax(scores), np.eye(self.classes)[values[:, self.dim].astype(np.intp)]

    def loss(self, parameters: Floats, values: Floats, weights: Floats) -> float:
        """The average log-loss, and the penalty."""
        _, chances, said = self._compute_probabilities(parameters, values)
        likely = np.maximum((chances * said).sum(axis=1), 1e-300)
        return float(-(weights @ np.log(likely)) + 0.5 * (self._make_penalty() @ parameters**2))

    def gradient(self, parameters: Floats, values: Floats, weights: Floats) -> Floats:
        """Its gradient, without one for each record."""
        design, chances, said = self._compute_probabilities(parameters, values)
        gaps = (chances - said)[:, -self.rows :] * weights[:, None]
        result: Floats = (gaps.T @ design).ravel() + self._make_penalty() * parameters
        return result

    def gradients(self, parameters: Floats, values: Floats) -> Floats:
        """Differences of chances and classes, times each predictor; and the penalty's."""
        design, chances, said = self._compute_probabilities(parameters, values)
        gaps = (chances - said)[:, -self.rows :]
        result: Floats = (gaps[:, :, None] * design[:, None, :]).reshape(len(values), -1)
        return result + self._make_penalty() * parameters

    def curvature(self, parameters: Floats, values: Floats, weights: Floats) -> Floats:
        """Its second derivatives."""
        design, chances, _ = self._compute_probabilities(parameters, values)
        chances = chances[:, -self.rows :]
        width = self.dim + 1
        result = np.diag(self._make_penalty())
        for i in range(self.rows):
            for j in range(self.rows):
                weight = weights * chances[:, i] * ((i == j) - chances[:, j])
                result[i * width : (i + 1) * width, j * width : (j + 1) * width] += (
                    design * weight[:, None]
                ).T @ design
        return result


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
    def statistic(self) -> statistics.Descent:
        """The parameters."""
        return statistics.Descent(_Logistic(self.dim, self.classes, self.l2))

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
        values = [estimate.intercept, *estimate.value.tolist()]
        terms = dict(zip(["(intercept)", *columns[: self.dim]], values, strict=True))
        rows = tuple((term, format_number(value), f"{np.exp(min(value, 700.0)):.6g}") for term, value in terms.items())
        header = ("term", "coefficient", "odds ratio")
        return Report(f"logistic regression of {columns[self.dim]} = 1", header, rows, {"value": terms})

    def draw_rows(self, rng: np.random.Generator, count: int, mean: float) -> Floats:
        """Draw records whose class is 1 where a normal number is positive; see `Encoded.draw_rows`."""
        rows = super().draw_rows(rng, count, mean)
        rows[:, -1] = rows[:, -1] > 0.0
        return rows

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> LogisticEstimate:  # noqa: ARG002
        """Give the parameters by class; see `Encoded.conclude`."""
        table = numbers.reshape(-1, self.dim + 1)
        if self.classes == 2:
            return LogisticEstimate(np.array(table[0, 1:]), float(table[0, 0]))
        return LogisticEstimate(np.array(table[:, 1:]), np.array(table[:, 0]))
