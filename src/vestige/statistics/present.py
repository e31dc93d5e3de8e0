"""Statistics of columns that are missing in some records, and of several groups of columns at once.

A missing value is nan. What is tracked is the share of the records that have all values, and the numbers of another
statistic over those records: a ratio of two averages, so that no count outside the records depends on values.
Guarantee: the steps compose to the statistic of the records that have the values, over every prefix; held by
tests/test_statistics.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from vestige.statistics.moments import Products
from vestige.statistics.present_means import LEAST_DEVIATION, PresentMeans
from vestige.statistics.statistic import Averages, Extent
from vestige.types import Bools, Floats, Ints


def find_present(values: Floats) -> Bools:
    """Find the records that have all values.

    Args:
        values: shape (n, columns), nan where a value is missing.

    Returns:
        shape (n,).

    Example:
        >>> find_present(np.array([[1.0, 2.0], [3.0, np.nan]]))
        array([ True, False])
    """
    return ~np.asarray(np.isnan(values).any(axis=1))


@dataclass(frozen=True, slots=True)
class Present(Averages):
    """The share of the records that have all values, then the numbers of those records; zeros while there are none.

    Attributes:
        of: the statistic of the records that have all values.
    """

    of: Averages

    @property
    def size(self) -> int:
        """One more than that of the other statistic."""
        return 1 + self.of.size

    @property
    def locations(self) -> Ints:
        """Those of the other statistic; see `Statistic.locations`."""
        return np.concatenate(([-1], self.of.locations))

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the share and the numbers of all records so far; see `Statistic.step`."""
        present = find_present(values)
        here = float(weights[present].sum() / weights.sum())
        before = 0.0 if estimate is None else max(float(estimate[0]), 0.0)
        total = here if estimate is None else before + share * (here - before)
        numbers = np.zeros(self.of.size) if estimate is None else estimate[1:]
        if here > 0.0:
            known = None if before == 0.0 else numbers
            part = 1.0 if known is None else share * here / total
            numbers = self.of.step(known, values[present], weights[present], part)
        return np.concatenate(([total], numbers))

    def atoms(self, values: Floats) -> Floats:
        """Compute whether the values are there, then the atoms of the other statistic; see `Averages.atoms`."""
        everywhere = np.zeros(values.shape[1])
        return self.limit_atoms(values, everywhere + np.inf, everywhere)

    def limit_atoms(self, values: Floats, bounds: Floats, centres: Floats) -> Floats:
        """Compute the same where values are cut off at bounds; see `Averages.limit_atoms`."""
        present, atoms = find_present(values), np.zeros((len(values), self.size))
        atoms[present, 0] = 1.0
        atoms[present, 1:] = self.of.limit_atoms(values[present], bounds, centres)
        return atoms

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms about any centre: as the other statistic."""
        return self.of.takes_centres

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:
        """Compute the numbers of the records that have the values; see `Averages.from_averages`."""
        share = float(averages[0])
        numbers = self.of.from_averages(averages[1:] / share, centres) if share > 0.0 else np.zeros(self.of.size)
        return np.concatenate(([share], numbers))

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the numbers of the records, and how far each moves them; see `Statistic.influence`."""
        present, moves, numbers = find_present(values), np.zeros((len(values), self.size)), np.zeros(self.size)
        share = numbers[0] = float(present.mean())
        moves[:, 0] = present - share
        said, inner = (
            self.of.influence(values[present]) if share > 0.0 else (np.full(self.of.size, np.nan), moves[:0, 1:])
        )
        if np.isfinite(said).all() and np.isfinite(inner).all():  # else they say nothing, such as one record of a fit
            numbers[1:], moves[present, 1:] = said, inner / share
        return numbers, moves

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """Find those of the records that have the values; see `Statistic.find_influence_errors`."""
        errors, of_moves, present = np.zeros_like(numbers), np.zeros_like(moves), find_present(values)
        share = float(present.mean())
        if moves[:, 1:].any():
            inner = moves[present, 1:] * share
            errors[1:], found = self.of.find_influence_errors(values[present], numbers[1:], inner)
            of_moves[present, 1:] = found / share
        return errors, of_moves

    def find_exact_limits(self, numbers: Floats) -> Floats:
        """Find those of the other statistic; see `Statistic.find_exact_limits`."""
        return np.concatenate(([0.0], self.of.find_exact_limits(numbers[1:])))

    def find_known_scales(self, values: Floats) -> Floats:
        """Find those of the records that have the values, each of which counts for several; see there."""
        present, scales = find_present(values), np.full(self.size, np.nan)
        if present.any():
            scales[1:] = self.of.find_known_scales(values[present]) / np.sqrt(present.mean())
        return scales

    def find_moves(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the numbers of all records; see `Statistic.find_moves`."""
        present, moves = find_present(values), np.zeros((len(values), self.size))
        moves[:, 0] = present - numbers[0]
        if present.any() and numbers[0] > 0.0:
            moves[present, 1:] = self.of.find_moves(values[present], numbers[1:]) / numbers[0]
        return moves

    def find_deviations(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the numbers of all records; see `Statistic.find_deviations`.

        Few records of a batch may have the values, or none. Then it is what the numbers themselves say of how far
        records are from them; as long as that is nothing, a small share of the numbers stands for it.
        """
        deviations = Averages.find_deviations(self, values, numbers)
        if numbers[0] > 0.0:
            known = np.maximum(deviations[1:], self.find_usual_deviations(numbers)[1:])
            deviations[1:] = np.where(known > 0.0, known, LEAST_DEVIATION * np.abs(numbers[1:]))
        return deviations

    def find_usual_deviations(self, numbers: Floats) -> Floats:
        """Find those of the other statistic in records that have the values; see `Averages.find_usual_deviations`."""
        share = min(max(float(numbers[0]), 0.0), 1.0)
        inner = self.of.find_usual_deviations(numbers[1:]) / np.sqrt(share if share > 0.0 else np.inf)
        return np.concatenate(([np.sqrt(share * (1.0 - share))], inner))


@dataclass(frozen=True)
class Joint(Averages):
    """Several statistics side by side, each of columns of its own choice; all of them may miss values.

    Attributes:
        parts: the statistics, each with its columns, counted from 0.
    """

    parts: tuple[tuple[tuple[int, ...], Averages], ...]

    @cached_property
    def size(self) -> int:
        """The sum of those of the parts."""
        return sum(part.size for _, part in self.parts)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where the numbers of each part are."""
        ends = accumulate(part.size for _, part in self.parts)
        return tuple(slice(end - part.size, end) for end, (_, part) in zip(ends, self.parts, strict=True))

    @cached_property
    def locations(self) -> Ints:
        """Those of the parts, in columns where it matters to no part where zero lies; see `Statistic.locations`."""
        found, fixed = [np.empty(0, np.int64)], set()
        for columns, part in self.parts:
            places = part.locations
            found.append(np.where(places >= 0, np.array(columns)[places], -1))
            if not (isinstance(part, Present) and part.of.size == 0):
                fixed |= set(columns) - set(found[-1].tolist())
        places = np.concatenate(found)
        return np.where(np.isin(places, list(fixed)), -1, places)

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the numbers of all parts; see `Statistic.step`."""
        numbers = np.empty(self.size)
        for here, rows, part in self._split(values):
            numbers[here] = part.step(None if estimate is None else estimate[here], rows, weights, share)
        return numbers

    def atoms(self, values: Floats) -> Floats:
        """Compute the atoms of all parts; see `Averages.atoms`."""
        everywhere = np.zeros(values.shape[1])
        return self.limit_atoms(values, everywhere + np.inf, everywhere)

    def limit_atoms(self, values: Floats, bounds: Floats, centres: Floats) -> Floats:
        """Compute the atoms of all parts where values are cut off at bounds; see `Averages.limit_atoms`."""
        atoms = np.empty((len(values), self.size))
        for here, columns, part in self._merged:
            atoms[:, here] = part.limit_atoms(values[:, columns], bounds[columns], centres[columns])
        return atoms

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms about any centre: if those of all parts do."""
        return all(part.takes_centres for _, part in self.parts)

    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:
        """Compute the numbers of all parts; see `Averages.from_averages`."""
        numbers = np.empty(self.size)
        for here, columns, part in self._merged:
            numbers[here] = part.from_averages(averages[here], centres if np.ndim(centres) == 0 else centres[columns])  # type: ignore[index]
        return numbers

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the numbers of all parts, and how far each record moves them; see `Statistic.influence`."""
        numbers, moves = np.empty(self.size), np.empty((len(values), self.size))
        for here, rows, part in self._split(values):
            numbers[here], moves[:, here] = part.influence(rows)
        return numbers, moves

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """Find those of all parts; see `Statistic.find_influence_errors`."""
        errors, of_moves = np.empty(self.size), np.empty(moves.shape)
        for here, rows, part in self._split(values):
            errors[here], of_moves[:, here] = part.find_influence_errors(rows, numbers[here], moves[:, here])
        return errors, of_moves

    def find_moves(self, values: Floats, numbers: Floats) -> Floats:
        """Find those of all parts; see `Statistic.find_moves`."""
        moves = np.empty((len(values), self.size))
        for here, rows, part in self._split(values):
            moves[:, here] = part.find_moves(rows, numbers[here])
        return moves

    def find_deviations(self, values: Floats, numbers: Floats) -> Floats:
        """Find those of all parts; see `Statistic.find_deviations`."""
        deviations = np.empty(self.size)
        for here, rows, part in self._split(values):
            deviations[here] = part.find_deviations(rows, numbers[here])
        return deviations

    def find_exact_limits(self, numbers: Floats) -> Floats:
        """Find those of all parts; see `Statistic.find_exact_limits`."""
        limits = np.empty(self.size)
        for here, (_, part) in zip(self.places, self.parts, strict=True):
            limits[here] = part.find_exact_limits(numbers[here])
        return limits

    def find_known_scales(self, values: Floats) -> Floats:
        """Find those of all parts; see `Statistic.find_known_scales`."""
        scales = np.empty(self.size)
        for here, rows, part in self._split(values):
            scales[here] = part.find_known_scales(rows)
        return scales

    def find_usual_deviations(self, numbers: Floats) -> Floats:
        """Find those of all parts; see `Averages.find_usual_deviations`."""
        deviations = np.empty(self.size)
        for here, _, part in self._merged:
            deviations[here] = part.find_usual_deviations(numbers[here])
        return deviations

    def find_extent(self, bounds: Floats) -> Extent | None:
        """Find those of all parts; see `Averages.find_extent`."""
        found = [part.find_extent(bounds[list(columns)]) for columns, part in self.parts]
        return Extent.join([each for each in found if each is not None]) if None not in found else None

    @cached_property
    def _merged(self) -> tuple[tuple[slice | Ints, list[int], Averages], ...]:
        """Where the numbers of each part are, its columns, and the part; means of single columns are one part."""
        listed = list(zip(self.places, self.parts, strict=True))
        means = [(here, columns[0]) for here, (columns, part) in listed if part == _PRESENT_MEAN]
        found: list[tuple[slice | Ints, list[int], Averages]] = [
            (here, list(columns), part) for here, (columns, part) in listed if part != _PRESENT_MEAN
        ]
        if means:
            places = np.concatenate([np.arange(here.start, here.stop) for here, _ in means])
            found.append((places, [column for _, column in means], PresentMeans(len(means))))
        return tuple(found)

    def _split(self, values: Floats) -> Iterator[tuple[slice | Ints, Floats, Averages]]:
        """The same with the values of the columns."""
        everything = list(range(values.shape[1]))
        return (
            (here, values if columns == everything else values[:, columns], part)
            for here, columns, part in self._merged
        )


_PRESENT_MEAN = Present(Products(1, ((0, 0),), centred=True))
