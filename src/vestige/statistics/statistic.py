"""The contract of a statistic: a vector of numbers, and how a batch moves it.

Section 3.1 of Immorlica et al. (2024): a step of size eta_t on a loss whose minimum is what is wanted. For an average
the loss is |s - theta|^2 / 2, and the share of the new records in all as the step size makes it the exact one.
How far one record moves the numbers is their influence (Hampel, "The influence curve and its role in robust
estimation", 1974, https://doi.org/10.1080/01621459.1974.10482962), which planning needs.
Guarantee: the steps compose to the statistic of every prefix; held by tests/test_statistics.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from vestige.errors import ParameterError
from vestige.types import Bools, Floats, Ints

_NUDGE = 1e-4
_DIFFERENCES = 2.0**-30
"""Derivatives by differences are known to far less than this share of them."""


@dataclass(frozen=True, slots=True)
class Statistic(ABC):
    """Numbers that the records of a batch move; subclass it to track others."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of numbers that are encoded."""

    @abstractmethod
    def step(self, estimate: Floats | None, values: Floats, weights: Floats, share: float) -> Floats:
        """Compute the numbers after more records.

        Args:
            estimate: the numbers before them, or None where there are none; shape (size,).
            values: the records in the order of their rounds; shape (n, columns).
            weights: what each counts among these; shape (n,).
            share: what all of these count among all records so far; 1 where there are none before them.

        Returns:
            the numbers after them; shape (size,).

        Raises:
            DataError: the numbers cannot be computed from these records, such as a loss that is not finite.
        """

    @property
    def locations(self) -> Ints:
        """The column whose values each number moves with, such as its mean; -1 where it moves with none.

        If the values of a column that is listed are all larger by some number, the numbers that move with it are larger
        by as much, and all others are the same. The arithmetic is then about a record that is held, so that no digits
        are lost far from zero. By default no column is listed; shape (size,).
        """
        return np.full(self.size, -1)

    def move(
        self, before: tuple[Floats, Floats] | None, values: Floats, weights: Floats, share: float
    ) -> tuple[Floats, Floats]:
        """Compute the numbers after more records, each as the sum of two floats.

        Args:
            before: the numbers before them, and what is to be added to these; None where there are none.
            values: see `step`.
            weights: see `step`.
            share: see `step`.

        Returns:
            the numbers after them, and what is to be added to these; both of shape (size,).

        Raises:
            DataError: see `step`.
        """
        origin = self.find_origin(values, None if before is None else before[0])
        base = self.spread_origin(origin)
        estimate = None if before is None else (before[0] - base) + before[1]
        made = self.step(estimate, values - origin, weights, share)
        total = base + made
        part = total - base
        return total, np.where(base == 0.0, 0.0, (base - (total - part)) + (made - part))  # Knuth's TwoSum

    def find_origin(self, values: Floats, numbers: Floats | None = None) -> Floats:
        """Find what differences are taken from: the numbers that move with the values, or else the first values.

        Args:
            values: records; shape (n, columns).
            numbers: those before these records; None if they are not known; shape (size,).

        Returns:
            a value for each column, zero where no number moves with it, or where its number is not known and no record
            has it; shape (columns,).
        """
        numbered, columns = _find_moving(self)
        origin = np.zeros(values.shape[1])
        if not len(values):
            return origin
        first = values[0, columns]
        if np.isnan(first).any():
            listed = values[:, columns]
            first = listed[(~np.isnan(listed)).argmax(axis=0), np.arange(listed.shape[1])]
        if numbers is not None:
            known = numbers[numbered]
            first = np.where(known == 0.0, first, known)
        origin[columns] = np.where(np.isnan(first), 0.0, first)
        return origin

    def spread_origin(self, origin: Floats) -> Floats:
        """Find the origin of each number, zero where it moves with no column; see `find_origin`.

        Args:
            origin: shape (columns,).

        Returns:
            shape (size,).
        """
        numbered, columns = _find_moving(self)
        spread = np.zeros(self.size)
        spread[numbered] = origin[columns]
        return spread

    def merge(self, parts: Floats, shares: Floats) -> Floats:  # noqa: ARG002
        """Compute the numbers of all records from those of several parts of them.

        Args:
            parts: the numbers of each part; shape (parts, size).
            shares: what the records of each part count among all; they add up to 1; shape (parts,).

        Returns:
            the numbers of all; shape (size,).

        Raises:
            ParameterError: it does not say how, as by default, or the numbers of parts do not determine those of all.
        """
        raise ParameterError(
            f"{type(self).__name__} does not say how the numbers of parts of the records are merged, so that estimates "
            "of it cannot be combined; define its merge"
        )

    def influence(self, values: Floats) -> tuple[Floats, Floats] | None:  # noqa: ARG002
        """Compute what records come to, and how far each of them moves each number.

        Args:
            values: a sample of records; shape (n, columns).

        Returns:
            the numbers of the sample, shape (size,); and how far each record moves them, times the number of records,
            shape (n, size). None where that cannot be said beforehand.
        """
        return None

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Find how far rounding may put off what `influence` computes, on whichever processor.

        A word counts only if it is read alike with these errors. What adds up plain averages rounds off is left out:
        it is far below 2^-40 of them, which every word must bear.

        Args:
            values: the records; shape (n, columns).
            numbers: what `influence` says they come to; shape (size,).
            moves: and how far each of them moves that; shape (n, size).

        Returns:
            the errors of the numbers, shape (size,), and of the moves, shape (n, size); infinite where a number may as
            well be another one.
        """
        return np.zeros_like(numbers), np.zeros_like(moves)

    def find_moves(self, values: Floats, numbers: Floats) -> Floats | None:
        """Find how far records move the numbers of all records that these are some of.

        Args:
            values: some of the records; shape (n, columns).
            numbers: the numbers of all of them; shape (size,).

        Returns:
            how far each moves each number, times the number of records; shape (n, size). None where that cannot be
            said.
        """
        said = self.influence(values)
        return None if said is None else said[0] - numbers + said[1]

    def find_deviations(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the numbers of all records, as a root mean square.

        Args:
            values: some of the records; shape (n, columns).
            numbers: the numbers of all of them; shape (size,).

        Returns:
            the distances, shape (size,); infinite where records say nothing of a number.
        """
        apart = self.find_moves(values, numbers)
        if apart is None:
            return np.full(self.size, np.inf)
        largest = np.maximum(np.abs(apart).max(axis=0), np.finfo(np.float64).tiny)
        deviations: Floats = largest * np.sqrt(((apart / largest) ** 2).mean(axis=0))
        return deviations

    def find_exact_limits(self, numbers: Floats) -> Floats:
        """Find how far off numbers still count as exact, whatever the records say of them.

        If all squared deviations are equal, a variance has no error beside which it could be rounded. What only says
        how large errors are may be off by a small share of itself all the same.

        Args:
            numbers: shape (size,).

        Returns:
            the distances, zero by default; shape (size,).
        """
        return np.zeros_like(numbers)

    def find_known_scales(self, values: Floats) -> Floats:  # noqa: ARG002
        """Find the standard deviations of what a record says that are known beforehand, such as that of an indicator.

        A word is written in units of them; elsewhere the kept records say it, which those that are all alike cannot.

        Args:
            values: the records that are kept; shape (n, columns).

        Returns:
            the deviations, nan where they are not known; shape (size,).
        """
        return np.full(self.size, np.nan)

    def norms(self, values: Floats) -> Floats | None:  # noqa: ARG002
        """Compute the norm of what is averaged of each record, which `Private` clips.

        Args:
            values: a sample of records; shape (n, columns).

        Returns:
            the norms, shape (n,); None where the statistic is not made of averages.
        """
        return None


@cache
def _find_moving(statistic: Statistic) -> tuple[Ints | slice, Ints | slice]:
    """The numbers that move with a column, and these columns; of several numbers of a column, the first is the last."""
    places = statistic.locations
    numbered = np.flatnonzero(places >= 0)
    count = len(numbered)
    if np.array_equal(numbered, np.arange(count)) and np.array_equal(places[:count], np.arange(count)):
        return slice(count), slice(count)
    return numbered[::-1], places[numbered][::-1]


@dataclass(frozen=True, slots=True, eq=False)
class Extent:
    """How far apart the atoms of two records can be, each in units of its largest magnitude.

    Attributes:
        magnitudes: the largest magnitude of each atom; infinite where values need a bound; shape (size,).
        signed: which atoms may be negative; shape (size,).
        square_diameter: the square of the largest distance between the atoms of two records.
        square_norm: the square of the largest distance of the atoms of a record from zero.
    """

    magnitudes: Floats
    signed: Bools
    square_diameter: int
    square_norm: int

    @classmethod
    def of_box(cls, magnitudes: Floats, signed: Bools) -> Extent:
        """Make the extent of atoms that lie anywhere between their limits.

        Args:
            magnitudes: see `Extent`.
            signed: see `Extent`.

        Returns:
            the extent.

        Example:
            >>> Extent.of_box(np.array([3.0, 9.0]), np.array([True, False])).square_diameter
            5
        """
        return cls(magnitudes, signed, int((1 + 3 * signed).sum()), len(signed))

    @classmethod
    def join(cls, parts: Sequence[Extent]) -> Extent:
        """Join the extents of atoms that are side by side.

        Args:
            parts: the extents.

        Returns:
            the extent of all.

        Example:
            >>> Extent.join([Extent.of_box(np.ones(1), np.ones(1, np.bool_))] * 2).square_norm
            2
        """
        return cls(
            np.concatenate([np.empty(0), *(part.magnitudes for part in parts)]),
            np.concatenate([np.empty(0, np.bool_), *(part.signed for part in parts)]),
            sum(part.square_diameter for part in parts),
            sum(part.square_norm for part in parts),
        )


@dataclass(frozen=True, slots=True)
class Averages(Statistic):
    """A statistic that follows from plain averages, one for each number: of the values, or of products and powers."""

    @abstractmethod
    def atoms(self, values: Floats) -> Floats:
        """Compute what is averaged of each record.

        Args:
            values: shape (n, columns).

        Returns:
            the atoms; shape (n, size).
        """

    @property
    def takes_centres(self) -> bool:
        """Whether the numbers follow from atoms of values about any centre, as where means are among them."""
        return False

    @abstractmethod
    def from_averages(self, averages: Floats, centres: Floats | float = 0.0) -> Floats:
        """Compute the numbers that are tracked from the averages of the atoms, which may carry noise.

        Args:
            averages: shape (size,).
            centres: what was subtracted from the values of each column before; zeros unless `takes_centres`; shape
                (columns,), or a number for all of them.

        Returns:
            the numbers; shape (size,).
        """

    def influence(self, values: Floats) -> tuple[Floats, Floats]:
        """Compute what records come to, and how far each of them moves each number; see `Statistic.influence`."""
        numbers = self.step(None, values, np.ones(len(values)), 1.0)
        atoms = self.atoms(values)
        averages = atoms.mean(axis=0)
        moves = atoms - averages
        return numbers, moves @ differentiate(self.from_averages, averages, moves).T

    def find_influence_errors(self, values: Floats, numbers: Floats, moves: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Find how far differences are from derivatives; see `Statistic.find_influence_errors`."""
        return np.zeros_like(numbers), _DIFFERENCES * np.abs(moves)

    def limit_atoms(self, values: Floats, bounds: Floats, centres: Floats) -> Floats:
        """Compute what is averaged of each record where values are cut off at bounds about centres, if it matters.

        A subclass whose atoms are indicators overrides it: they are within their limits whatever the values are.

        Args:
            values: shape (n, columns).
            bounds: see `find_extent`.
            centres: see `from_averages`.

        Returns:
            the atoms of the distances from the centres; shape (n, size).
        """
        return self.atoms(np.clip(values - centres, -bounds, bounds))

    def find_extent(self, bounds: Floats) -> Extent | None:  # noqa: ARG002
        """Find how far apart the atoms of two records can be, whose values are within bounds.

        Args:
            bounds: the largest magnitude of a value of each column, infinite without a bound; shape (columns,).

        Returns:
            the extent; None where it is not known.
        """
        return None

    def find_usual_deviations(self, numbers: Floats) -> Floats:
        """Find about how far what a record says is from the numbers, from the numbers alone.

        It is what is known where no record of a batch has the values. A subclass that tracks variances overrides it.

        Args:
            numbers: shape (size,).

        Returns:
            the distances, zero where nothing is known, so that all rounding is marked as off; shape (size,).
        """
        return np.zeros_like(numbers)

    def find_moves(self, values: Floats, numbers: Floats) -> Floats:
        """Find how far records move the numbers of all records, as far as these records know; see `Statistic`."""
        said, moves = self.influence(values)
        return said - numbers + moves

    def norms(self, values: Floats) -> Floats:
        """Compute the norm of the atoms of each record; see `Statistic.norms`."""
        norms: Floats = np.linalg.norm(self.atoms(values), axis=1)
        return norms


@dataclass(frozen=True, slots=True)
class Packing(Statistic):
    """A statistic that says itself how its numbers are packed into bits, so that some may be coarse.

    Attributes:
        TRIES: how often a channel tries to write numbers.
    """

    TRIES: ClassVar[int] = 8

    @abstractmethod
    def pack(self, numbers: Floats, off: bool, rows: int, free: int, rng: np.random.Generator) -> Bools:
        """Pack numbers into the bits of a word.

        Args:
            numbers: shape (size,).
            off: whether they are marked as off already.
            rows: the number of bits.
            free: how many of them can be chosen; the others come out at random.
            rng: of this batch alone, for rounding.

        Returns:
            the bits, of which the first is one; shape (rows,).
        """

    @abstractmethod
    def unpack(self, message: Bools, values: Floats) -> tuple[Floats, bool]:
        """Unpack the numbers of a word.

        Args:
            message: the bits; shape (rows,).
            values: the records that are kept; shape (n, columns).

        Returns:
            the numbers, shape (size,), and whether they are marked as off.
        """

    @abstractmethod
    def is_read(self, numbers: Floats, message: Bools, values: Floats) -> bool:
        """Tell whether numbers are read from their word with the records that it keeps.

        Args:
            numbers: shape (size,).
            message: what `pack` makes of them; shape (rows,).
            values: the records that are kept; shape (n, columns).

        Returns:
            whether they are.
        """

    @abstractmethod
    def settle(self, numbers: Floats, values: Floats, attempt: int) -> Floats:
        """Give equal numbers that are read more easily, if `is_read` says no.

        Args:
            numbers: shape (size,).
            values: the records that can be kept; shape (n, columns).
            attempt: how often it was tried before; what the last but one gives must be read from any records.

        Returns:
            the numbers; shape (size,).
        """


def merge_averages(parts: Floats, shares: Floats) -> Floats:
    """Merge the averages of parts of the records into those of all: no digits are lost where they are far from zero.

    Args:
        parts: the averages of each part; shape (parts, size).
        shares: what the records of each part count among all; shape (parts,).

    Returns:
        the averages of all; shape (size,).

    Example:
        >>> merge_averages(np.array([[1.0], [4.0]]), np.array([0.75, 0.25]))
        array([1.75])
    """
    largest = parts[shares.argmax()]
    merged: Floats = largest + shares @ (parts - largest)
    return merged


def differentiate(function: Callable[[Floats], Floats], at: Floats, moves: Floats) -> Floats:
    """Compute by differences how far each entry of a vector moves each entry of a function's result.

    Args:
        function: from a vector of shape (entries,) to one of shape (results,).
        at: the vector; shape (entries,).
        moves: moves of it, whose size says how small a difference to take; shape (n, entries).

    Returns:
        the derivatives; shape (results, entries).

    Example:
        >>> differentiate(lambda x: x**2, np.array([3.0]), np.ones((1, 1))).round(6)
        array([[6.]])
    """
    nudges = _NUDGE * np.sqrt((moves**2).mean(axis=0))
    nudges = np.where(nudges > 0.0, nudges, _NUDGE)
    columns = []
    for i, nudge in enumerate(nudges):
        apart = np.zeros(len(at))
        apart[i] = nudge
        columns.append((function(at + apart) - function(at - apart)) / (2.0 * nudge))
    return np.array(columns).T
