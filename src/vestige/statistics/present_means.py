"""Means and variances of many columns that may miss values, all columns at once.

It is `Present(Products(1, ((0, 0),), centred=True))` of each column, computed in arrays over all columns, since calls
for each column would take most of the time of a bundle of many.
Guarantee: the same numbers as of each column by itself, up to rounding; held by tests/test_statistics.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vestige.statistics.statistic import Averages
from vestige.types import Bools, Floats, Ints

_LAST_DIGIT = 2.0**-52
LEAST_DEVIATION = 2.0**-24
"""Numbers whose deviation is not known count as varying by this share: far more than a float of a word is rounded."""


@dataclass(frozen=True, slots=True)
class PresentMeans(Averages):
    """The share of the records that have a value, its mean and its variance, for each column in turn.

    Attributes:
        columns: the number of columns.
    """

    columns: int

    @property
    def size(self) -> int:
        """Three numbers for each column."""
        return 3 * self.columns

    @property
    def locations(self) -> Ints:
        """Each mean moves with its column; see `Statistic.locations`."""
        columns = np.arange(self.columns)
        return np.stack((np.full(self.columns, -1), columns, np.full(self.columns, -1)), axis=1).ravel()

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the numbers of all records so far; see `Statistic.step`."""
        present, total = ~np.isnan(values), weights.sum()
        weighted = weights[:, None] * present
        there = weighted.sum(axis=0)
        here, some = np.where(present.all(axis=0), 1.0, there / total), there > 0.0  # sums may differ in a last digit
        before, mean, variance = np.zeros((3, self.columns)) if estimate is None else estimate.reshape(-1, 3).T
        before = np.maximum(before, 0.0)
        shares = here if estimate is None else before + share * (here - before)
        known = before > 0.0
        pivot = np.where(known, mean, values[present.argmax(axis=0), np.arange(self.columns)])
        weighted /= np.where(some, there, 1.0)
        part = np.where(known & some, share * here / np.where(some, shares, 1.0), 1.0)
        moved = part * (weighted * np.where(present, values - pivot, 0.0)).sum(axis=0)
        new_mean = pivot + moved
        squares = (weighted * np.where(present, values - new_mean, 0.0) ** 2).sum(axis=0)
        old = variance + moved**2
        new_variance = np.where(known, old + part * (squares - old), squares)
        return _interleave(shares, np.where(some, new_mean, mean), np.where(some, new_variance, variance))

    def atoms(self, values: Floats) -> Floats:
        """Compute whether a value is there, the value and its square, zeros where it is not; see `Averages.atoms`."""
        present = ~np.isnan(values)
        there = np.where(present, values, 0.0)
        return np.stack((present, there, there**2), axis=2).reshape(len(values), self.size)

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms about any centre: the means do."""
        return True

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:
        """Compute the numbers of the records that have the values; see `Averages.from_averages`."""
        share, total, squares = averages.reshape(-1, 3).T
        some = share > 0.0
        over = np.where(some, share, 1.0)
        mean = total / over
        return _interleave(share, np.where(some, mean + centres, 0.0), np.where(some, squares / over - mean**2, 0.0))

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the numbers of the records, and how far each moves them; see `Statistic.influence`."""
        numbers = self.step(None, values, np.ones(len(values)), 1.0)
        return numbers, self.find_moves(values, numbers)

    def find_moves(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the numbers of all records; see `Statistic.find_moves`."""
        share, _, variance = numbers.reshape(-1, 3).T
        present, apart = self._center(values, numbers)
        over = np.where(share > 0.0, share, np.inf)
        moves = np.empty((len(values), self.columns, 3))
        moves[:, :, 0] = present - share
        moves[:, :, 1] = apart / over
        moves[:, :, 2] = np.where(present, apart**2 - variance, 0.0) / over
        return moves.reshape(len(values), self.size)

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """Find what the last digits of the means make of variances; see `Statistic.find_influence_errors`."""
        present, apart = self._center(values, numbers)
        share, mean, _ = numbers.reshape(-1, 3).T
        first = values[present.argmax(axis=0), np.arange(self.columns)]
        alike = (~present | (values == first)).all(axis=0)
        off = np.where(alike, 0.0, _LAST_DIGIT * np.abs(mean)) / np.where(share > 0.0, share, np.inf)
        errors = np.zeros((len(values), self.columns, 3))
        errors[:, :, 2] = 2.0 * np.abs(apart) * off
        return np.zeros_like(numbers), errors.reshape(moves.shape)

    def find_deviations(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the numbers, at least as far as variances say; see `Present.find_deviations`."""
        deviations = Averages.find_deviations(self, values, numbers).reshape(-1, 3)
        share, mean, variance = numbers.reshape(-1, 3).T
        known = np.maximum(deviations[:, 1:], self.find_usual_deviations(numbers).reshape(-1, 3)[:, 1:])
        least = LEAST_DEVIATION * np.abs(np.stack((mean, variance), axis=1))
        deviations[:, 1:] = np.where((share > 0.0)[:, None], np.where(known > 0.0, known, least), deviations[:, 1:])
        return deviations.ravel()

    def find_usual_deviations(self, numbers: Floats) -> Floats:
        """Find those of normal records that have the values; see `Averages.find_usual_deviations`."""
        share, _, variance = numbers.reshape(-1, 3).T
        share, spread = np.clip(share, 0.0, 1.0), np.maximum(variance, 0.0)
        over = np.sqrt(np.where(share > 0.0, share, np.inf))
        usual = np.sqrt(spread) / over, np.sqrt(spread**2 + variance**2) / over
        return _interleave(np.sqrt(share * (1.0 - share)), *usual)

    def _center(self, values: Floats, numbers: Floats) -> tuple[Bools, Floats]:
        """Which values are there, and how far they are from the means; zeros where they are not there."""
        present = ~np.isnan(values)
        return present, np.where(present, values - numbers[1::3], 0.0)


def _interleave(shares: Floats, means: Floats, variances: Floats) -> Floats:
    """The numbers of each column in turn."""
    return np.stack((shares, means, variances), axis=1).ravel()
