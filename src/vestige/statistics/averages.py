"""Running averages of the values themselves: after every batch the target is the average of all records so far.

Section 3.1 of Immorlica et al. (2024): a gradient step with step size 1/t on |s - theta|^2 / 2 is the running mean.
Taking all of the batch for the step, and its share in all records as the step size, makes it the exact one.
Guarantee: the steps compose to numpy's mean over every prefix; held by tests/test_statistics.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vestige.statistics.statistic import Averages, Extent, Statistic, merge_averages
from vestige.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class Mean(Averages):
    """The mean of each column.

    Attributes:
        dim: the number of columns.
    """

    dim: int

    @property
    def size(self) -> int:
        """The number of columns."""
        return self.dim

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the mean of all records so far; see `Statistic.step`."""
        return self.move(None if estimate is None else (estimate, np.zeros(self.dim)), values, weights, share)[0]

    @property
    def locations(self) -> Ints:
        """Each number moves with its own column; see `Statistic.locations`."""
        return np.arange(self.dim)

    def move(
        self, before: tuple[Floats, Floats] | None, values: Floats, weights: Floats, share: float
    ) -> tuple[Floats, Floats]:
        """Compute the mean of all records so far; see `Statistic.move`."""
        from vestige.statistics.kernels import move_averages  # noqa: PLC0415

        target, low, spread = np.empty(self.dim), np.empty(self.dim), np.empty(self.dim)
        numbers, rest = (np.zeros(self.dim), np.zeros(self.dim)) if before is None else before
        move_averages(numbers, rest, values, np.ones(len(values), np.bool_), weights, share, target, low, spread)
        return target, low

    def merge(self, parts: Floats, shares: Floats) -> Floats:
        """Average the parts; see `Statistic.merge`."""
        return merge_averages(parts, shares)

    def atoms(self, values: Floats) -> Floats:
        """Give the values themselves; see `Averages.atoms`."""
        return values

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms about any centre: the means do."""
        return True

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:
        """Give the averages themselves; see `Averages.from_averages`."""
        return averages + centres

    def find_extent(self, bounds: Floats) -> Extent:
        """Find the bounds themselves; see `Averages.find_extent`."""
        return Extent.of_box(bounds, np.ones(self.dim, np.bool_))

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the mean, and how far each record is from it; see `Statistic.influence`."""
        apart = values - values.mean(axis=0)
        return self.step(None, values, np.ones(len(values)), 1.0), apart - apart.mean(axis=0)

    def find_moves(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far each record is from the mean; see `Statistic.find_moves`."""
        return values - numbers

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """Find none: these are plain averages; see `Statistic.find_influence_errors`."""
        return Statistic.find_influence_errors(self, values, numbers, moves)
