"""Noise in averages, and what it makes of an answer: the standard deviation of each number, by the delta method.

To first order, an answer moves by its derivative along each independent source of noise, and the squares add up (Cramér
1946, "Mathematical Methods of Statistics", section 28.4). Derivatives are central differences over a fraction of the
noise itself.
Guarantee: the spread of answers over many streams is the one that is stated; held by tests/policies/test_noise.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vestige.types import Floats

SURE = 5.0
"""Noise is below this many standard deviations but for one number in a million."""
_NUDGE = 2.0**-4


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Independent noise in each of several averages, and noise that moves all of them together.

    Attributes:
        own: the standard deviation of the noise of each average alone; shape (size,).
        common: how far one standard deviation of the noise that they have in common moves each; shape (size,).

    Example:
        >>> noise = Noise(np.array([3.0, 4.0]), np.array([4.0, 0.0]))
        >>> noise.deviations, noise.cumulate()
        (array([5., 4.]), array([5.        , 6.40312424]))
    """

    own: Floats
    common: Floats

    @property
    def deviations(self) -> Floats:
        """The standard deviation of the noise in each average; shape (size,)."""
        return np.hypot(self.own, self.common)

    def cumulate(self) -> Floats:
        """Compute the standard deviation of the noise in each sum of the first averages.

        Returns:
            shape (size,).
        """
        return np.hypot(np.sqrt(np.cumsum(self.own**2)), np.cumsum(self.common))

    def propagate(self, function: Callable[[Floats], Floats], at: Floats) -> Floats:
        """Compute the standard deviation of the noise in the results of a function, to first order.

        Args:
            function: from averages, shape (size,), to results, shape (results,).
            at: the averages; shape (size,).

        Returns:
            shape (results,).

        Example:
            >>> Noise(np.array([0.01, 0.02]), np.zeros(2)).propagate(lambda x: x[:1] * x[1:], np.array([2.0, 3.0]))
            array([0.05])
        """
        total = np.zeros(len(function(at)))
        for direction in self._list_directions():
            apart = function(at + _NUDGE * direction) - function(at - _NUDGE * direction)
            total += (apart / (2.0 * _NUDGE)) ** 2
        return np.sqrt(total)

    def _list_directions(self) -> list[Floats]:
        """How far one standard deviation of each source moves the averages."""
        made = []
        for i in np.flatnonzero(self.own):
            direction = np.zeros(len(self.own))
            direction[i] = self.own[i]
            made.append(direction)
        return [*made, self.common] if self.common.any() else made
