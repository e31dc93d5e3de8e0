"""Averages that one record can move only by a fixed amount: what `Private` adds noise to.

Either the vector of the atoms of a record is shortened to a length (`Clipped`), or each value is cut off at a bound of
its own (`Bounded`), so that each atom lies between limits that follow from those; the indicator of a bin does whatever
the value is, and is that of the value as it is. Both are summed in whole numbers.
Step 2 of the proof in docs/privacy.md, and its lemma on several metrics.
Guarantee: replacing one record moves the sums by at most twice the steps of the grid, in whole numbers; held by
tests/policies/test_private_bundle.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt

import numpy as np

from vestige.statistics.averages import Mean
from vestige.statistics.present import Joint, Present
from vestige.statistics.statistic import Averages, Statistic, merge_averages
from vestige.types import Bools, Floats, Ints


@dataclass(frozen=True)
class Limited(Statistic):
    """Averages of the atoms of another statistic, within limits that do not depend on the data.

    Attributes:
        of: the other statistic.
    """

    of: Averages

    @property
    def size(self) -> int:
        """The number of averages of the other statistic."""
        return self.of.size

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest distance of a record from zero; replacing a record moves a sum by at most twice this."""

    @property
    @abstractmethod
    def limit(self) -> float:
        """The largest magnitude of a number."""

    @property
    @abstractmethod
    def least_limit(self) -> float:
        """The smallest of the largest magnitudes of all numbers."""

    @property
    @abstractmethod
    def scales(self) -> Floats:
        """The averages of the other statistic, over these numbers; shape (size,)."""

    @abstractmethod
    def limit_atoms(self, values: Floats) -> Floats:
        """Compute what is averaged of each record.

        Args:
            values: shape (n, columns).

        Returns:
            shape (n, size).
        """

    @abstractmethod
    def sum_on_grid(self, values: Floats, present: Bools, steps: int, sums: Ints) -> int:
        """Write exact sums into `sums`, in steps of `reach / steps`, which no record moves by more than `2 * steps`.

        Args:
            values: shape (n, columns).
            present: which rounds have a record; shape (n,).
            steps: the number of steps of the grid.
            sums: shape (size,).

        Returns:
            the number of records.
        """

    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the averages over all records so far; see `Statistic.step`."""
        return Mean(self.size).step(estimate, self.limit_atoms(values), weights, share)

    def merge(self, parts: Floats, shares: Floats) -> Floats:
        """Average the parts; see `Statistic.merge`."""
        return merge_averages(parts, shares)

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute the averages, and how far each record is from them; see `Statistic.influence`."""
        atoms = self.limit_atoms(values)
        averages: Floats = atoms.mean(axis=0)
        return averages, atoms - averages


@dataclass(frozen=True)
class Clipped(Limited):
    """The averages of another statistic, with the atoms of each record shortened to a bound.

    Attributes:
        bound: the greatest length of the atoms of a record.
    """

    bound: float

    @property
    def reach(self) -> float:
        """The bound."""
        return self.bound

    @property
    def limit(self) -> float:
        """The bound."""
        return self.bound

    @property
    def least_limit(self) -> float:
        """The bound."""
        return self.bound

    @property
    def scales(self) -> Floats:
        """One each: the numbers are the averages."""
        return np.ones(self.size)

    def limit_atoms(self, values: Floats) -> Floats:
        """Shorten the atoms; see `Limited.limit_atoms`."""
        from vestige.statistics.kernels import clip  # noqa: PLC0415

        return clip(self.of.atoms(values), self.bound)

    def sum_on_grid(self, values: Floats, present: Bools, steps: int, sums: Ints) -> int:
        """Sum the shortened atoms; see `Limited.sum_on_grid`."""
        from vestige.noise.sums import sum_on_grid  # noqa: PLC0415

        return sum_on_grid(self.of.atoms(values), present, self.bound, steps, sums)


@dataclass(frozen=True)
class Bounded(Limited):
    """The averages of another statistic of values that are cut off at bounds, each in units of its own.

    The units are such that noise of one deviation in all numbers hides a record; the groups of a bundle have equal
    parts of it.

    Attributes:
        bounds: the largest distance of the values of each column from its centre; infinite where none is needed.
        steps: the number of steps of the grid.
        centres: the centre of each column; empty if all are zero.
    """

    bounds: tuple[float, ...]
    steps: int
    centres: tuple[float, ...] = ()

    @property
    def reach(self) -> float:
        """One: the numbers have the units of the noise."""
        return 1.0

    @cached_property
    def limit(self) -> float:
        """The largest of the limits of all numbers."""
        return float(self._limits.max()) / self.steps

    @cached_property
    def least_limit(self) -> float:
        """The smallest of the limits of all numbers."""
        return float(self._limits.min()) / self.steps

    @cached_property
    def scales(self) -> Floats:
        """The magnitude of an average where its number is at its limit, over that limit; shape (size,)."""
        magnitudes = np.concatenate([group.magnitudes for group in self._groups])
        return magnitudes * (self.steps / self._limits)

    def limit_atoms(self, values: Floats) -> Floats:
        """Compute the atoms of the values within the bounds, in the units of the noise; see `Limited.limit_atoms`."""
        return self.of.limit_atoms(values, np.array(self.bounds), np.array(self._centres)) / self.scales

    def sum_on_grid(self, values: Floats, present: Bools, steps: int, sums: Ints) -> int:
        """Sum the atoms, each between whole limits of its own; see `Limited.sum_on_grid`."""
        from vestige.noise.sums import sum_in_limits  # noqa: PLC0415

        return sum_in_limits(self.limit_atoms(values) * steps, present, self._lows, self._limits, sums)

    def find_unbounded(self) -> list[int] | None:
        """Find the columns that need a bound and have none.

        Returns:
            the columns, counted from 0; None where a statistic does not say how far its atoms reach.
        """
        found: set[int] = set()
        for columns, part in self._split():
            bounds = np.array([self.bounds[column] for column in columns])
            extent = _find_inner(part).find_extent(bounds)
            if extent is None:
                return None
            if not np.isfinite(extent.magnitudes).all():
                found |= {column for column in columns if not np.isfinite(self.bounds[column])}
        return sorted(found)

    def find_fixed(self) -> list[int]:
        """Find the columns that have a centre beside zero, and a statistic that takes none.

        Returns:
            the columns, counted from 0.
        """
        fixed = (column for columns, part in self._split() if not part.takes_centres for column in columns)
        return sorted({column for column in fixed if self._centres[column]})

    @property
    def _centres(self) -> tuple[float, ...]:
        return self.centres or (0.0,) * len(self.bounds)

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        """The grid of each group: the squares of what a record moves each by add up to that of all."""
        parts = self._split()
        share = isqrt(self.steps**2 // len(parts))
        bounds = np.array(self.bounds)
        return tuple(_lay_grid(part, bounds[list(columns)], share) for columns, part in parts)

    @cached_property
    def _limits(self) -> Ints:
        return np.concatenate([group.limits for group in self._groups])

    @cached_property
    def _lows(self) -> Ints:
        return np.concatenate([np.where(group.signed, -group.limits, 0) for group in self._groups])

    def _split(self) -> Sequence[tuple[tuple[int, ...], Averages]]:
        """The groups of columns of a bundle, or all columns as one."""
        if isinstance(self.of, Joint):
            return self.of.parts
        return ((tuple(range(len(self.bounds))), self.of),)


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The grid of one group of columns.

    Attributes:
        magnitudes: the largest magnitude of each atom; shape (size,).
        signed: which atoms may be negative; shape (size,).
        limits: the largest magnitude of each atom, in steps; shape (size,).
    """

    magnitudes: Floats
    signed: Bools
    limits: Ints


def _lay_grid(part: Averages, bounds: Floats, steps: int) -> _Group:
    """Choose the steps of each atom of a group, so that replacing a record moves its sums by at most twice `steps`.

    Let each atom have `limit` steps, two records that have the values be up to D limits apart, and one up to N limits
    from zero, where one that lacks them is. Then D limit <= 2 steps is needed. The indicator of presence has p steps:
    p^2 + (N limit)^2 <= (2 steps)^2 is needed for a record that has the values in place of one that lacks them. All of
    it is checked in whole numbers.
    """
    extent = _find_inner(part).find_extent(bounds)
    assert extent is not None  # noqa: S101  # `Private` has asked
    whole = (2 * steps) ** 2
    if not isinstance(part, Present):
        limit = isqrt(whole // extent.square_diameter)
        return _Group(extent.magnitudes, extent.signed, np.full(len(extent.magnitudes), limit))
    limit = isqrt(whole // max(extent.square_diameter, extent.square_norm + 1))
    presence = isqrt(whole - extent.square_norm * limit**2)
    return _Group(
        np.concatenate(([1.0], extent.magnitudes)),
        np.concatenate(([False], extent.signed)),
        np.concatenate(([presence], np.full(len(extent.magnitudes), limit))).astype(np.int64),
    )


def _find_inner(part: Averages) -> Averages:
    """The statistic of the records that have all values."""
    return part.of if isinstance(part, Present) else part
