"""A loss over records with its derivatives: what `vestige.statistics.Descent` minimises.

Guarantee: derivatives are those of the loss; held by tests/policies/test_descent.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from vestige.types import Floats


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
        >>> from vestige.statistics import Descent
        >>> descent = Descent(Squared())
        >>> descent.read_state(descent.step(None, np.array([[1.0], [3.0]]), np.ones(2), 1.0)).parameters.round(2)
        array([2.])
    """

    is_likelihood: bool = False
    """Whether the variance of gradients is the curvature, as that of a likelihood is."""
    centred: int = 0
    """The number of first columns that may be taken about centres; see `shift`."""

    @property
    @abstractmethod
    def start(self) -> Floats:
        """The parameters before any record."""

    @property
    def penalty(self) -> Floats:
        """What half of the square of each parameter adds to the average loss; shape (size,)."""
        return np.zeros(len(self.start))

    @abstractmethod
    def loss(self, parameters: Floats, values: Floats, weights: Floats) -> float:
        """Compute the average loss, without the penalty.

        Args:
            parameters: shape (size,).
            values: the records; shape (n, columns).
            weights: their weights, which sum to one; shape (n,).

        Returns:
            the loss.
        """

    @abstractmethod
    def gradients(self, parameters: Floats, values: Floats) -> Floats:
        """Compute the gradient of the loss of each record.

        Args:
            parameters: shape (size,).
            values: the records; shape (n, columns).

        Returns:
            the gradients; shape (n, size).
        """

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

    def move_curvature(self, bend: Floats, old: Floats, new: Floats) -> Floats | None:  # noqa: ARG002
        """Compute the curvature of records at other parameters, as far as it tells where the records lie.

        Args:
            bend: the curvature of the sum of their losses; shape (size, size).
            old: where it is that; shape (size,).
            new: the other parameters; shape (size,).

        Returns:
            the curvature there, shape (size, size); None if it cannot be told, as of a loss that is not known.
        """
        return None

    def find_shift(self, by: Floats) -> Floats:  # noqa: ARG002
        """Find the matrix that turns parameters for records into those for the same records less a shift.

        Args:
            by: what is subtracted from the first columns; shape (centred,).

        Returns:
            the matrix; shape (size, size).
        """
        return np.eye(len(self.start))
