"""Shares of records in bins: averages of indicators, one for each bin.

The bins cover all numbers: what lies below the first edge and what lies at or above the last have bins of their own, so
that the shares add up to 1. The scale of an indicator is known beforehand, so that a bin that is empty in a batch is
written as precisely as the others, and does not coarsen them.
Guarantee: the steps compose to numpy's histogram of every prefix; held by tests/test_statistics.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vestige.statistics.averages import Mean
from vestige.statistics.statistic import Averages, Extent, merge_averages
from vestige.types import Floats

INDICATOR = 0.5
"""The standard deviation that an indicator has at most."""
_LEAST_DEVIATION = 2.0**-6
"""Misses are judged as if each bin had at least one record in 4,096: rounding is absolute, and one word says all."""


@dataclass(frozen=True, slots=True)
class Shares(Averages):
    """The share of the records in each bin.

    Attributes:
        edges: the borders between bins, ascending; a value that equals an edge belongs to the bin above it.
    """

    edges: tuple[float, ...]

    @property
    def size(self) -> int:
        """One bin more than there are edges."""
        return len(self.edges) + 1

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the shares of all records so far; see `Statistic.step`."""
        return Mean(self.size).step(estimate, self.atoms(values), weights, share)

    def merge(self, parts: Floats, shares: Floats) -> Floats:
        """Average the parts; see `Statistic.merge`."""
        return merge_averages(parts, shares)

    def atoms(self, values: Floats) -> Floats:
        """Compute which bin each record is in: one where it is, zeros elsewhere; see `Averages.atoms`."""
        bins = np.searchsorted(np.array(self.edges), values[:, 0], side="right")
        atoms = np.zeros((len(values), self.size))
        atoms[np.arange(len(values)), bins] = 1.0
        return atoms

    def limit_atoms(self, values: Floats, bounds: Floats, centres: Floats) -> Floats:  # noqa: ARG002
        """Compute which bin each record is in, of its value as it is; see `Averages.limit_atoms`."""
        return self.atoms(values)

    def find_extent(self, bounds: Floats) -> Extent:  # noqa: ARG002
        """Find that of indicators, whatever the values are: two records differ in two of them at most."""
        return Extent(np.ones(self.size), np.zeros(self.size, np.bool_), 2, 1)

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms about any centre: they do not depend on one."""
        return True

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:  # noqa: ARG002
        """Give the averages themselves; see `Averages.from_averages`."""
        return averages

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the shares, and how far each record is from them; see `Statistic.influence`."""
        atoms = self.atoms(values)
        shares: Floats = atoms.mean(axis=0)
        return shares, atoms - shares

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Find none: counts are exact; see `Statistic.find_influence_errors`."""
        return np.zeros_like(numbers), np.zeros_like(moves)

    def find_known_scales(self, values: Floats) -> Floats:  # noqa: ARG002
        """Give that of an indicator for all; see `Statistic.find_known_scales`."""
        return np.full(self.size, INDICATOR)

    def find_deviations(self, values: Floats, numbers: Floats) -> Floats:  # noqa: ARG002
        """Find those of indicators with these shares; see `Statistic.find_deviations`."""
        return self.find_usual_deviations(numbers)

    def find_usual_deviations(self, numbers: Floats) -> Floats:
        """Find those of indicators with these shares; see `Averages.find_usual_deviations`."""
        shares = np.clip(numbers, 0.0, 1.0)
        deviations: Floats = np.maximum(np.sqrt(shares * (1.0 - shares)), _LEAST_DEVIATION)
        return deviations
