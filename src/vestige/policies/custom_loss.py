"""The minimum of a loss of your own over the whole stream: parameters in a word, one Newton step a batch.

The outlook of Immorlica et al. (2024), Section 5, names non-linear regression. See `vestige.statistics.newton`.
Guarantee: squared error within 20% of a fit to all records; held by tests/policies/test_descent.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vestige import statistics
from vestige.errors import ParameterError
from vestige.estimate import Estimate
from vestige.policies.base import MAX_COLUMNS, check_half_life
from vestige.policies.minimum import Minimum
from vestige.types import Floats
from vestige.validation import check_int

Loss = Callable[[Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class _FunctionModel(statistics.Model):
    """A loss that the user supplies; its curvature is the difference of gradients nearby."""

    function: Loss
    beginning: tuple[float, ...]

    @property
    def start(self) -> Floats:
        """The parameters to begin with."""
        return np.array(self.beginning)

    def loss(self, parameters: Floats, values: Floats, weights: Floats) -> float:
        """The average loss; infinite where it is not a number."""
        with np.errstate(all="ignore"):
            loss = float(weights @ self._evaluate(parameters, values)[0])
        return loss if np.isfinite(loss) else np.inf

    def gradients(self, parameters: Floats, values: Floats) -> Floats:
        """The gradient of each record, from the function."""
        return self._evaluate(parameters, values)[1]

    def curvature(self, parameters: Floats, values: Floats, weights: Floats) -> Floats:
        """Central differences of the gradient, near enough for the parameters that a record leaves possible."""
        widths = 1e-5 * np.maximum(np.abs(parameters), 1e-2)
        made = self._differentiate(parameters, values, weights, widths)
        fine = 1e-2 / np.sqrt(np.maximum(np.abs(made.diagonal()), 1e-300))
        if (widths > fine).any():
            made = self._differentiate(parameters, values, weights, np.minimum(widths, fine))
        return (made + made.T) / 2.0

    def _differentiate(self, parameters: Floats, values: Floats, weights: Floats, widths: Floats) -> Floats:
        made = np.empty((len(parameters), len(parameters)))
        for i, apart in enumerate(np.diag(widths)):
            ahead = weights @ self.gradients(parameters + apart, values)
            made[i] = (ahead - weights @ self.gradients(parameters - apart, values)) / (2.0 * widths[i])
        return made

    def _evaluate(self, parameters: Floats, values: Floats) -> tuple[Floats, Floats]:
        losses, gradients = self.function(parameters, values)
        losses, gradients = np.asarray(losses, np.float64), np.asarray(gradients, np.float64)
        if losses.shape != (len(values),) or gradients.shape != (len(values), len(parameters)):
            raise ParameterError(
                f"loss returned arrays of shape {losses.shape} and {gradients.shape} for {len(values)} records; needs "
                f"a loss for each, ({len(values)},), and its gradient, ({len(values)}, {len(parameters)})"
            )
        return losses, gradients


@dataclass(frozen=True, eq=False)
class ParametersEstimate(Estimate):
    """The parameters that minimise a loss.

    Attributes:
        value: the parameters; shape (size,).
        standard_error: their standard errors, for independent records: gradients vary among them as they do, whatever
            the loss is; see docs/policies.md. Shape (size,).
    """

    value: Floats
    standard_error: Floats


@dataclass(frozen=True)
class CustomLoss(Minimum[ParametersEstimate]):
    """The parameters that minimise the average of a loss of your own over everything that ever arrived.

    Args:
        loss: a function of parameters of shape (size,) and rows of shape (n, columns) that returns the loss of each
            row, shape (n,), and its gradient, shape (n, size). It must be smooth, and may depend on nothing else.
        start: the parameters to begin with: near enough that going downhill leads to the right minimum.
        columns: the number of values per record.
        half_life: after this number of records, a record counts half as much; for streams that drift.

    Raises:
        ParameterError: an argument is out of range.

    Example:
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

    loss: Loss = field(repr=False)
    start: tuple[float, ...]
    columns: int = 1
    half_life: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.loss):
            raise ParameterError(f"loss is a {type(self.loss).__name__}; pass a function of parameters and rows")
        object.__setattr__(self, "start", _check_start(self.start))
        check_int("columns", self.columns, 1, MAX_COLUMNS)
        check_half_life(self.half_life)

    @property
    def statistic(self) -> statistics.Descent[_FunctionModel]:
        """The parameters, and the curvature of their loss."""
        return statistics.Descent(_FunctionModel(self.loss, self.start), self.half_life is not None)

    def conclude(self, numbers: Floats, worth: float, rounding: float) -> ParametersEstimate:  # noqa: ARG002
        """Give the parameters and their standard errors; see `Encoded.conclude`."""
        statistic = self.statistic
        errors = np.sqrt(statistic.find_covariance(numbers, worth).diagonal())
        return ParametersEstimate(statistic.find_parameters(numbers), errors)


def _check_start(numbers: object) -> tuple[float, ...]:
    """The parameters to begin with, if they are finite numbers."""
    try:
        result = tuple(float(number) for number in numbers)  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        result = ()
    if not result or not np.isfinite(result).all():
        raise ParameterError("start is not a sequence of finite numbers; pass the parameters to begin with")
    return result
