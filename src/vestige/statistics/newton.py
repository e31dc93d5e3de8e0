"""Parameters that minimise an average loss, moved by one Newton step a batch.

The stochastic Newton method (Bercu, Godichon, Portier 2020, https://doi.org/10.1137/19M1261717): a step of the share of
the batch in all records, along the batch's gradient through the inverse of the loss's curvature, has the error of the
minimum over all records, without a step size to tune. The batch is split in eight, and the gradient of each part goes
through the curvature of the others: from the same records, their product would be biased. The first batch is fitted
outright, so that the steps start near the end.
Guarantee: within 20% of the error of a fit to all records; held by tests/policies/test_descent.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from vestige.errors import DataError, ParameterError
from vestige.statistics.statistic import Statistic
from vestige.types import Floats

_ITERATIONS = 100
_SHORTENINGS = 30
_LEAST_CURVATURE = 1e-8
_LEAST_SQUARE = 1e-12
"""Of gradients, each scaled to unit length: where they are less in a direction, there is none to tell deviations by."""
_LEAST_LENGTH = 1e-150
_FOLDS = 8
_FEWEST = 4
"""Records per parameter by which to tell whether the loss is flat."""
_ENOUGH = 16
"""Records per parameter that a step needs; a batch has at least 28."""


class Model(ABC):
    """A loss over records, averaged with weights that sum to one, with its derivatives.

    Example:
        >>> class Squared(Model):
        ...     start = np.zeros(1)
        ...     def loss(self, parameters, values, weights):
        ...         return float(weights @ (values[:, 0] - parameters[0]) ** 2) / 2
        ...     def gradients(self, parameters, values):
        ...         return parameters[0] - values
        ...     def curvature(self, parameters, values, weights):
        ...         return np.ones((1, 1))
        >>> Descent(Squared()).step(None, np.array([[1.0], [3.0]]), np.ones(2), 1.0)
        array([2.])
    """

    @property
    @abstractmethod
    def start(self) -> Floats:
        """The parameters before any record."""

    @abstractmethod
    def loss(self, parameters: Floats, values: Floats, weights: Floats) -> float:
        """Compute the average loss.

        Args:
            parameters: shape (size,).
            values: the records; shape (n, columns).
            weights: their weights, which sum to one; shape (n,).

        Returns:
            the loss.
        """

    @property
    def idle(self) -> Floats:
        """The projection on directions in which no record's loss ever changes; shape (size, size)."""
        return np.zeros((len(self.start), len(self.start)))

    @abstractmethod
    def gradients(self, parameters: Floats, values: Floats) -> Floats:
        """Compute the gradient of the loss of each record.

        Args:
            parameters: shape (size,).
            values: the records; shape (n, columns).

        Returns:
            the gradients; shape (n, size).
        """

    def gradient(self, parameters: Floats, values: Floats, weights: Floats) -> Floats:
        """Compute the gradient of the average loss.

        Args:
            parameters: shape (size,).
            values: the records; shape (n, columns).
            weights: their weights, which sum to one; shape (n,).

        Returns:
            the gradient; shape (size,).
        """
        average: Floats = weights @ self.gradients(parameters, values)
        return average

    @abstractmethod
    def curvature(self, parameters: Floats, values: Floats, weights: Floats) -> Floats:
        """Compute the second derivatives of the average loss.

        Args:
            parameters: shape (size,).
            values: the records; shape (n, columns).
            weights: their weights, which sum to one; shape (n,).

        Returns:
            the matrix; shape (size, size).
        """


@dataclass(frozen=True, slots=True)
class Descent(Statistic):
    """The parameters of a model that minimise its average loss.

    Attributes:
        model: the loss and its derivatives.
    """

    model: Model

    @property
    def size(self) -> int:
        """The number of parameters."""
        return len(self.model.start)

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the parameters after these records, unchanged if these are too few; see `Statistic.step`."""
        parts = weights / weights.sum()
        if estimate is not None and len(values) < _ENOUGH * self.size:
            return np.array(estimate)
        if estimate is None:
            moved = self._fit(values, parts)
        else:
            moved = self._shorten(estimate, share * self._find_direction(estimate, values, parts), values, parts)
        if not np.isfinite(moved).all():
            raise DataError("the loss is not finite on these records; scale the columns, or start nearer")
        return moved

    def merge(self, parts: Floats, shares: Floats) -> Floats:  # noqa: ARG002
        """Refuse: parameters that minimise the loss of each part do not say which minimise that of all."""
        raise ParameterError(
            "estimates that minimise a loss, such as those of LogisticRegression and CustomLoss, cannot be combined: "
            "the minima of parts of the records do not determine that of all of them; keep these records in one stream"
        )

    def is_flat(self, at: Floats, values: Floats) -> bool:
        """Tell whether the loss is so flat in a direction that steps in it are cut short.

        Args:
            at: the parameters; shape (size,).
            values: the records; shape (n, columns).

        Returns:
            whether it is; False if there are too few records.
        """
        if len(values) < _FEWEST * self.size:
            return False
        bend = self.model.curvature(at, values, np.full(len(values), 1.0 / len(values)))
        sizes = np.abs(np.linalg.eigvalsh(bend + self.model.idle * np.abs(bend).max()))
        return bool(sizes.min() < _LEAST_CURVATURE * sizes.max())

    def count_deviations(self, at: Floats, values: Floats) -> float:
        """Count the deviations that the parameters, each on its own, amount to in the direction where that is most.

        The deviation is that of a fit for each root of the number of its records: where H is the curvature and G the
        average square of gradients, parameters vary as H^-1 G H^-1 (Huber, "The behavior of maximum likelihood
        estimates under nonstandard conditions", 1967). So parameters that are off by a share of each, independently,
        are off by that share times this, in such deviations.

        Args:
            at: the parameters; shape (size,).
            values: the records; shape (n, columns).

        Returns:
            the number of deviations.
        """
        gradients = self.model.gradients(at, values)
        bend = self.model.curvature(at, values, np.full(len(values), 1.0 / len(values)))
        lengths = np.maximum(np.sqrt((gradients**2).mean(axis=0)), _LEAST_LENGTH)
        scaled = gradients / lengths
        idle = self.model.idle * (lengths.max() / lengths) * (lengths.max() / lengths[:, None])
        sizes, axes = np.linalg.eigh(scaled.T @ scaled / len(values) + idle)
        rotated = axes.T @ (bend * at / lengths[:, None]) / np.sqrt(np.maximum(sizes, _LEAST_SQUARE))[:, None]
        return float(np.linalg.norm(rotated, 2))

    def find_deviations(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the parameters, as a root mean square; see `Statistic.find_deviations`."""
        gradients = self.model.gradients(numbers, values)
        bend = self.model.curvature(numbers, values, np.full(len(values), 1.0 / len(values)))
        if not (np.isfinite(gradients).all() and np.isfinite(bend).all()):
            return np.full(self.size, np.inf)
        moves = _solve(bend, gradients.T)
        deviations: Floats = np.sqrt((moves**2).mean(axis=1))
        return deviations

    def _find_direction(self, at: Floats, values: Floats, weights: Floats) -> Floats:
        """Newton's direction, with the gradient of each part of the records through the curvature of the others."""
        folds = [slice(i, None, _FOLDS) for i in range(min(_FOLDS, len(values)))]
        shares = np.array([weights[fold].sum() for fold in folds])
        within = [weights[fold] / share for fold, share in zip(folds, shares, strict=True)]
        bends = np.array([self.model.curvature(at, values[f], w) for f, w in zip(folds, within, strict=True)])
        whole = np.tensordot(shares, bends, 1)
        direction = np.zeros(len(at))
        for fold, share, inside, bend in zip(folds, shares, within, bends, strict=True):
            others = (whole - share * bend) / (1.0 - share) if len(folds) > 1 else bend
            direction += share * _solve(others, self.model.gradient(at, values[fold], inside))
        return direction

    def _shorten(self, at: Floats, step: Floats, values: Floats, weights: Floats) -> Floats:
        """The parameters less the step, or less a part of it where all of it would more than double the loss."""
        before = self.model.loss(at, values, weights)
        for _ in range(_SHORTENINGS):
            after = self.model.loss(at - step, values, weights)
            if after <= before + abs(before):
                return at - step
            step = step / 2.0
        return at

    def _fit(self, values: Floats, weights: Floats) -> Floats:
        """The parameters that fit these records best, from the start, by Newton's method with shortened steps."""
        at = self.model.start
        before = self.model.loss(at, values, weights)
        for _ in range(_ITERATIONS):
            step = _solve(self.model.curvature(at, values, weights), self.model.gradient(at, values, weights))
            for _ in range(_SHORTENINGS):
                after = self.model.loss(at - step, values, weights)
                if after <= before:
                    break
                step = step / 2.0
            else:
                return at
            at = at - step
            if before - after <= 1e-12 * abs(before):
                return at
            before = after
        return at


def _solve(bend: Floats, gradient: Floats) -> Floats:
    """A gradient, or several in columns, through the inverse of the curvature, made positive: it leads downhill."""
    if not (np.isfinite(bend).all() and np.isfinite(gradient).all()):
        raise DataError("the gradient is not finite on these records; scale the columns, or start nearer")
    sizes, axes = np.linalg.eigh(bend)
    sizes = np.maximum(np.abs(sizes), max(_LEAST_CURVATURE * float(np.abs(sizes).max()), 1e-300))
    made: Floats = axes @ ((axes.T @ gradient).T / sizes).T
    return made
