"""Logistic regression and models of one's own: parameters in presence bits, one Newton step a batch.

The paper's outlook (Section 5) names non-linear regression and classification. See `vestige.statistics.newton`.
Guarantee: log-loss within 1% and squared error within 20% of a fit to all records; held by
tests/policies/test_descent.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from vestige import statistics
from vestige.errors import DataError, ParameterError
from vestige.policies.encoded import MOST_COLUMNS, MOST_PRODUCTS, Spelled, check_half_life
from vestige.policies.rounding import EXACT, note_rounding
from vestige.policy import Answer
from vestige.records import Clock, Records
from vestige.types import Floats
from vestige.validation import check_float, check_int

_FLAT = (
    "The fit cannot be trusted: in the records held, the loss is so flat in one direction that steps there are cut "
    "short, as where the mean of a predictor lies more than about 100 deviations from zero; centre and scale the "
    "columns first."
)


@dataclass(frozen=True, eq=False)
class LogisticAnswer(Answer):
    """A fitted classifier.

    Attributes:
        value: the coefficients; shape (dim,) for two classes, else (classes, dim).
        intercept: a float for two classes, else of shape (classes,).
    """

    intercept: float | Floats

    def predict_proba(self, x: ArrayLike) -> Floats:
        """The probability of each class at each row of `x`; shape (n, classes).

        Args:
            x: shape (n, dim).
        """
        rows = np.asarray(x, np.float64)
        dim = np.shape(self.value)[-1]
        if rows.ndim != 2 or rows.shape[1] != dim:
            raise ParameterError(f"x has shape {rows.shape}; needs (n, {dim})")
        scores: Floats = rows @ np.asarray(self.value).T + self.intercept
        return _softmax(scores if scores.ndim == 2 else np.column_stack([np.zeros(len(rows)), scores]))

    def predict(self, x: ArrayLike) -> Floats:
        """The likeliest class at each row of `x`: 0, 1, ...; shape (n,)."""
        likeliest: Floats = self.predict_proba(x).argmax(axis=1).astype(np.float64)
        return likeliest


def _softmax(scores: Floats) -> Floats:
    grown: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    made: Floats = grown / grown.sum(axis=1, keepdims=True)
    return made


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

    def _penalty(self) -> Floats:
        """The penalty of each parameter; on intercepts none, or a trace where else they were not determined."""
        penalty = np.full((self.rows, self.dim + 1), self.l2)
        penalty[:, 0] = 0.0 if self.rows == 1 else 1e-9
        return penalty.ravel()

    def _probabilities(self, parameters: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Rows with a one in front; the probability of each class; which class each is."""
        design = np.column_stack([np.ones(len(values)), values[:, : self.dim]])
        scores = design @ parameters.reshape(self.rows, self.dim + 1).T
        if self.rows == 1:
            scores = np.column_stack([np.zeros(len(values)), scores])
        return design, _softmax(scores), np.eye(self.classes)[values[:, self.dim].astype(np.intp)]

    def loss(self, parameters: Floats, values: Floats, weights: Floats) -> float:
        """The average log-loss, and the penalty."""
        _, chances, said = self._probabilities(parameters, values)
        likely = np.maximum((chances * said).sum(axis=1), 1e-300)
        return float(-(weights @ np.log(likely)) + 0.5 * (self._penalty() @ parameters**2))

    def gradient(self, parameters: Floats, values: Floats, weights: Floats) -> Floats:
        """Its gradient, without one for each record."""
        design, chances, said = self._probabilities(parameters, values)
        gaps = (chances - said)[:, -self.rows :] * weights[:, None]
        made: Floats = (gaps.T @ design).ravel() + self._penalty() * parameters
        return made

    def gradients(self, parameters: Floats, values: Floats) -> Floats:
        """Differences of chances and classes, times each predictor; and the penalty's."""
        design, chances, said = self._probabilities(parameters, values)
        gaps = (chances - said)[:, -self.rows :]
        made: Floats = (gaps[:, :, None] * design[:, None, :]).reshape(len(values), -1)
        return made + self._penalty() * parameters

    def curvature(self, parameters: Floats, values: Floats, weights: Floats) -> Floats:
        """Its second derivatives."""
        design, chances, _ = self._probabilities(parameters, values)
        chances = chances[:, -self.rows :]
        width = self.dim + 1
        made = np.diag(self._penalty())
        for i in range(self.rows):
            for j in range(self.rows):
                weight = weights * chances[:, i] * ((i == j) - chances[:, j])
                made[i * width : (i + 1) * width, j * width : (j + 1) * width] += (design * weight[:, None]).T @ design
        return made


class _Descended(Spelled):
    """Parameters by Newton steps, and whether these and their rounding lead to where they should."""

    @property
    @abstractmethod
    def statistic(self) -> statistics.Descent:
        """The parameters."""

    def answer(self, clock: Clock, retained: Records) -> float | Floats | Answer:
        """The parameters, and whether the loss of the records held is too flat, or rounding too coarse, to trust them.

        Before they drifted here, parameters may have been rounded when they were others; see `policies.rounding`.
        """
        made = super().answer(clock, retained)
        if not clock.encoded:
            return made
        at, rounding = self._tracked(clock, retained), self._rounding(clock, retained)
        notes: tuple[str, ...] = ()
        if rounding > EXACT:
            sizes = np.array([self.statistic.deviations(at, retained.values), np.sqrt(0.5)])
            notes = note_rounding(sizes, np.full(2, self._worth(clock, retained) ** -0.5), rounding)
        if self.statistic.is_flat(at, retained.values):
            notes = (*notes, _FLAT)
        said = made if isinstance(made, Answer) else Answer(made)
        return replace(said, notes=said.notes + notes, missed=True) if notes else made


@dataclass(frozen=True)
class LogisticRegression(_Descended):
    """Logistic regression on everything that ever arrived.

    Args:
        dim: predictors per record. Rows are `(x_1 .. x_dim, class)`, with classes 0, 1, ...
        classes: how many.
        l2: the penalty on squared coefficients: `l2 / 2 * |coefficients|^2` is added to the average log-loss;
            scikit-learn's `C` on n records is `1 / (l2 * n)`.
        half_life: after so many records, a record counts half as much; for streams that drift.

    >>> from vestige import Stream
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50_000, 2))
    >>> y = rng.random(50_000) < 1 / (1 + np.exp(-x @ [1.0, -2.0]))
    >>> stream = Stream(LogisticRegression(2), retention=512, seed=0)
    >>> _ = stream.extend(np.column_stack([x, y]))
    >>> stream.estimate().value.round(1), stream.estimate().predict([[1.0, -1.0]])
    (array([ 1., -2.]), array([1.]))
    """

    dim: int = 1
    classes: int = 2
    l2: float = 1e-6
    half_life: float | None = None

    def __post_init__(self) -> None:
        check_int("dim", self.dim, 1, MOST_PRODUCTS)
        check_int("classes", self.classes, 2, MOST_PRODUCTS)
        check_float("l2", self.l2, lambda n: 0.0 <= n < np.inf, "0 or more")
        check_half_life(self.half_life)

    @property
    def columns(self) -> int:
        """Predictors, then the class."""
        return self.dim + 1

    @property
    def statistic(self) -> statistics.Descent:
        """The parameters."""
        return statistics.Descent(_Logistic(self.dim, self.classes, self.l2))

    def check_rows(self, rows: Floats) -> None:
        """Refuse rows whose class is none."""
        said = rows[:, self.dim]
        wrong = (said != np.floor(said)) | (said < 0.0) | (said >= self.classes)
        if wrong.any():
            raise DataError(
                f"row {int(wrong.argmax())} of {len(rows)} (counted from 0) has no class: the last column must be a "
                f"whole number from 0 to {self.classes - 1}; number the classes, or raise `classes`: nothing of this "
                "call was taken"
            )

    def conclude(self, estimate: Floats, worth: float, rounding: float) -> LogisticAnswer:  # noqa: ARG002
        """The parameters, by class."""
        table = estimate.reshape(-1, self.dim + 1)
        if self.classes == 2:
            return LogisticAnswer(np.array(table[0, 1:]), float(table[0, 0]))
        return LogisticAnswer(np.array(table[:, 1:]), np.array(table[:, 0]))


Loss = Callable[[Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class _Given(statistics.Model):
    """A loss that the user supplies; its curvature is the difference of gradients nearby."""

    function: Loss
    beginning: tuple[float, ...]

    @property
    def start(self) -> Floats:
        """What the user said."""
        return np.array(self.beginning)

    def loss(self, parameters: Floats, values: Floats, weights: Floats) -> float:
        """The average loss; infinite where it is not a number."""
        with np.errstate(all="ignore"):
            loss = float(weights @ self._both(parameters, values)[0])
        return loss if np.isfinite(loss) else np.inf

    def gradients(self, parameters: Floats, values: Floats) -> Floats:
        """As the user says."""
        return self._both(parameters, values)[1]

    def curvature(self, parameters: Floats, values: Floats, weights: Floats) -> Floats:
        """Central differences of the gradient."""
        size = len(parameters)
        made = np.empty((size, size))
        for i in range(size):
            width = 1e-5 * max(abs(parameters[i]), 1e-2)
            apart = np.zeros(size)
            apart[i] = width
            ahead = self.gradient(parameters + apart, values, weights)
            made[i] = (ahead - self.gradient(parameters - apart, values, weights)) / (2.0 * width)
        return (made + made.T) / 2.0

    def _both(self, parameters: Floats, values: Floats) -> tuple[Floats, Floats]:
        losses, gradients = self.function(parameters, values)
        losses, gradients = np.asarray(losses, np.float64), np.asarray(gradients, np.float64)
        if losses.shape != (len(values),) or gradients.shape != (len(values), len(parameters)):
            raise ParameterError(
                f"loss returned arrays of shape {losses.shape} and {gradients.shape} for {len(values)} records; needs "
                f"a loss for each, ({len(values)},), and its gradient, ({len(values)}, {len(parameters)})"
            )
        return losses, gradients


@dataclass(frozen=True)
class CustomLoss(_Descended):
    """The parameters that minimise the average of a loss of your own over everything that ever arrived.

    Args:
        loss: from parameters of shape (size,) and rows of shape (n, columns) to the loss of each row, shape (n,), and
            its gradient, shape (n, size). It must be smooth, and may depend on nothing else.
        start: the parameters to begin with: near enough that going downhill leads to the right valley.
        columns: values per record.
        half_life: after so many records, a record counts half as much; for streams that drift.

    >>> from vestige import Stream
    >>> def decay(parameters, rows):
    ...     x, y = rows.T
    ...     fall = np.exp(-parameters[1] * x)
    ...     gap = parameters[0] * fall - y
    ...     return gap**2 / 2, gap[:, None] * np.column_stack([fall, -parameters[0] * x * fall])
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 4, 50_000)
    >>> stream = Stream(CustomLoss(decay, (1.0, 1.0), columns=2), retention=512, seed=0)
    >>> _ = stream.extend(np.column_stack([x, 3.0 * np.exp(-0.5 * x) + rng.normal(0, 0.1, 50_000)]))
    >>> stream.estimate().value.round(2)
    array([3. , 0.5])
    """

    loss: Loss
    start: tuple[float, ...]
    columns: int = 1
    half_life: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.loss):
            raise ParameterError(f"loss is a {type(self.loss).__name__}; pass a function of parameters and rows")
        object.__setattr__(self, "start", _start(self.start))
        check_int("columns", self.columns, 1, MOST_COLUMNS)
        check_half_life(self.half_life)

    @property
    def statistic(self) -> statistics.Descent:
        """The parameters."""
        return statistics.Descent(_Given(self.loss, self.start))

    def conclude(self, estimate: Floats, worth: float, rounding: float) -> Floats:  # noqa: ARG002
        """The parameters."""
        return np.array(estimate)


def _start(numbers: object) -> tuple[float, ...]:
    """The parameters to begin with, if they are finite numbers."""
    try:
        made = tuple(float(number) for number in numbers)  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        made = ()
    if not made or not np.isfinite(made).all():
        raise ParameterError("start does not hold finite numbers; pass the parameters to begin with")
    return made
