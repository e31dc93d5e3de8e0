"""In which order the records of a table arrived, and which numbers between them are missing, as far as ids tell.

Ids that count up show what is missing; those of any other kind only show the order of the records that were seen in
some snapshot. Steps and residues that no id ever has are gaps by design: they are taken out, not held against anybody.
Guarantee: positions do not depend on the spacing, the prefix or the storage order of ids; held by
tests/audit/test_numbering.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vestige.types import Bools, Ints

_NUMBERED = re.compile(r"(\D*)0*(\d{1,18})")
_MAX_MODULUS = 16
"""The largest modulus by which ids are searched for residues that none of them has."""
_ENOUGH = 30
"""Number of ids for each residue that are needed to say so."""
_SPARSE = 1_000
"""If a snapshot has fewer than one id in so many numbers, ids do not count records."""
_MAX_SPAN = 5_000_000
"""The most numbers from the first to the last id of a snapshot."""
NOWHERE = -1
"""What stands for the position of a number that is none of those that ids have."""


@dataclass(frozen=True, slots=True, eq=False)
class Numbering:
    """Positions of all records that were seen, in one order.

    Attributes:
        name: "ids" or "arrivals" if positions count the numbers between ids or arrivals too, "ranks" if they only count
            records that were seen.
        positions: position of each record; shape (records,).
        origins: positions before the first record, as far as they can be guessed.
        unseen: positions of the declared records that no snapshot shows; `NOWHERE` where no record could be.
        step: distance of successive ids.
    """

    name: str
    positions: Ints
    origins: tuple[int, ...]
    unseen: Ints
    step: int = 1


def parse_numbers(ids: Sequence[str]) -> Ints | None:
    """Read ids as whole numbers.

    Args:
        ids: ids as text; all may have one and the same prefix.

    Returns:
        The numbers; None if they are not numbers.

    Example:
        >>> parse_numbers(["INV-0007", "INV-0012"])
        array([ 7, 12])
        >>> parse_numbers(["f3a", "99c"])
    """
    matches = [_NUMBERED.fullmatch(text) for text in ids]
    prefixes = {match[1] for match in matches if match is not None}
    if None in matches or len(prefixes) != 1:
        return None
    return np.array([int(match[2]) for match in matches if match is not None], np.int64)


def list_numberings(
    numbers: Ints | None, order: Ints, snapshots: Sequence[Ints], unseen: Ints, name: str = "ids"
) -> list[Numbering]:
    """List the ways to number records, the most telling first.

    Args:
        numbers: ids or arrivals as whole numbers; None if they are not; shape (records,).
        order: the records in order of arrival, as indices; shape (records,).
        snapshots: records of each snapshot, as indices.
        unseen: numbers of the declared records that no snapshot shows.
        name: what the numbers are.

    Returns:
        The positions by id, if ids count records; and by rank among the records that were seen, if that differs.

    Example:
        >>> found = list_numberings(np.array([30, 10, 40]), np.array([1, 0, 2]), [], unseen=np.array([20, 25]))
        >>> [(each.positions.tolist(), each.unseen.tolist()) for each in found]
        [([3, 1, 4], [2, -1]), ([2, 1, 3], [-1, -1])]
    """
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    by_rank = Numbering("ranks", ranks, (0,), np.full(len(unseen), NOWHERE, np.int64))
    if numbers is None or not _follows(numbers, order):
        return [by_rank]
    positions, places, step = _remove_designed_gaps(numbers, unseen)
    if not all(_is_dense(positions[snapshot]) for snapshot in snapshots if len(snapshot)):
        return [by_rank]
    by_id = Numbering(name, positions, _guess_origins(positions), places, step)
    apart = positions[order]
    return [by_id] if len(apart) < 2 or int(np.diff(apart).max()) == 1 else [by_id, by_rank]


def _follows(numbers: Ints, order: Ints) -> bool:
    """Whether ids count up in the order of arrival."""
    return bool((np.diff(numbers[order]) > 0).all())


def _remove_designed_gaps(numbers: Ints, unseen: Ints) -> tuple[Ints, Ints, int]:
    """Positions without the steps and residues that no id has, of records and of others; and the step."""
    step = int(np.gcd.reduce(np.diff(np.unique(numbers)))) if len(np.unique(numbers)) > 1 else 1
    positions, places = numbers // step, unseen // step
    is_possible = (unseen - int(numbers[0])) % step == 0
    modulus = 2
    while modulus <= _MAX_MODULUS:
        residues = np.unique(positions % modulus)
        if len(residues) < modulus and len(positions) >= _ENOUGH * modulus:
            is_possible &= np.isin(places % modulus, residues)
            positions, places = (_squeeze(each, modulus, residues) for each in (positions, places))
            modulus = 2
        else:
            modulus += 1
    return positions, np.where(is_possible, places, NOWHERE), step


def _squeeze(positions: Ints, modulus: int, residues: Ints) -> Ints:
    """Positions without the residues that do not occur."""
    rank: Ints = np.searchsorted(residues, positions % modulus)
    return positions // modulus * len(residues) + rank


def _is_dense(positions: Ints) -> bool:
    span = int(positions.max() - positions.min()) + 1
    return span <= min(_SPARSE * len(positions), _MAX_SPAN)


def _guess_origins(positions: Ints) -> tuple[int, ...]:
    """Positions before the first record: 0 or -1, a power of ten, or before the oldest one that was seen."""
    oldest = int(positions.min())
    powers = [10**k for k in range(1, 18) if 10**k <= oldest]
    guesses = (0, -1, oldest - 1, *(power - shift for power in powers[-2:] for shift in (0, 1)))
    return tuple(dict.fromkeys(guess for guess in guesses if guess < oldest))


def find_missing(positions: Ints) -> Ints:
    """Find the positions that are missing between the oldest and the newest record of a snapshot.

    Args:
        positions: those of its records, sorted.

    Returns:
        The missing positions.

    Example:
        >>> find_missing(np.array([3, 4, 7]))
        array([5, 6])
    """
    absent: Bools = np.ones(int(positions[-1] - positions[0]) + 1, np.bool_)
    absent[positions - positions[0]] = False
    missing: Ints = np.flatnonzero(absent) + positions[0]
    return missing
