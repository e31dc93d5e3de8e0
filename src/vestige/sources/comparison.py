"""Held records compared with their rows: the witnesses that a file is still the one that was read.

Each held record knows the number of its row, and must be found there again.
Guarantee: a row that is still held and has changed is found; held by tests/ingest/test_replaced_files.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from vestige.sources.block import Block
from vestige.sources.held import HeldRows
from vestige.types import Bools, Floats, Ints, Times


class RowComparison:
    """Compares held records with the rows of a source.

    Args:
        held: the records, of all streams together.
        pseudonym: function from a subject to its pseudonym in the store.
        other_key: last row whose subject cannot be compared, since it was hashed with another key.
    """

    def __init__(self, held: HeldRows, pseudonym: Callable[[str], str], other_key: int = 0) -> None:
        self._held, self._pseudonym, self._other_key = held, pseudonym, other_key
        self._order = np.argsort(held.rows, kind="stable")
        self._rows = held.rows[self._order]
        self._read = 0

    def find_difference(self, blocks: Iterable[Block], furthest: int) -> int | None:
        """Find the first row that is not the same as when it was read.

        Args:
            blocks: source from its first row on.
            furthest: number of rows that were read before; a source that ends earlier differs after its last row.

        Returns:
            The number of the row; None if all rows that are held are the same.
        """
        for block in blocks:
            different = self._find_in(block)
            if different is not None or block.read >= furthest:
                return different
        return self._read + 1 if self._read < furthest else None

    def _find_in(self, block: Block) -> int | None:
        """Find the first row of a block that differs."""
        first, last = np.searchsorted(self._rows, [self._read, block.read], side="right")
        self._read = block.read
        rows, chosen = self._rows[first:last], self._order[first:last]
        if not len(rows):
            return None
        at = np.searchsorted(block.numbers, rows)
        same: Bools = np.append(block.numbers, 0)[at] == rows  # a row that is not there any more is not the same
        same[same] = self._compare(block, at[same], rows[same], chosen[same])
        return None if same.all() else int(rows[~same][0])

    def _compare(self, block: Block, at: Ints, rows: Ints, chosen: Ints) -> Bools:
        """Compare records with the rows at which they should be."""
        held, values = self._held, self._held.values[chosen]
        given = held.read(block.select_rows(at))
        same = np.asarray(((given == values) | (np.isnan(given) & np.isnan(values))).all(axis=1), np.bool_)
        if block.times is not None:
            same &= block.times[at] == held.times[chosen]
        if block.subjects is not None:
            pairs = zip(rows.tolist(), held.subjects[chosen], block.subjects[at], strict=True)
            same_subjects = [
                subject is None or row <= self._other_key or (text is not None and self._pseudonym(text) == subject)
                for row, subject, text in pairs
            ]
            same &= np.array(same_subjects, np.bool_)
        if block.keys is not None and block.codes is not None:
            same &= held.find_streams(block.keys)[block.codes[at]] == held.streams[chosen]
        return same


def measure_presence(held: HeldRows, blocks: Iterable[Block]) -> float:
    """Measure which share of held records are rows of a source, at whatever places.

    Args:
        held: the records.
        blocks: the source from its first row on.

    Returns:
        The share, by values and times.
    """
    left, columns = None, held.values
    total = present = 0
    for block in blocks:
        times = None if block.times is None else block.times
        if left is None:
            left = Counter(_pack(columns, None if times is None else held.times))
            total = left.total()
        rows = set(_pack(held.read(block.select_rows(np.arange(len(block.numbers)))), times))
        for row in left.keys() & rows:
            present += left.pop(row)
    return present / max(total, 1)


def _pack(values: Floats, times: Times | None) -> list[bytes]:
    """Each row as bytes; equal rows give equal ones."""
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    parts = [plain] if times is None else [plain, times.astype("M8[us]").view(np.float64)[:, np.newaxis]]
    return [row.tobytes() for row in np.hstack(parts)]


UNCHECKED = "so whether the file was replaced could not be checked"
"""How a note ends that tells of a source of which no record is held."""


def explain_uncompared(rows: int) -> str:
    """Say that a source was read before, but none of its records is held.

    Args:
        rows: number of rows that were read before.

    Returns:
        A clause.

    Example:
        >>> explain_uncompared(500)
        'rows 1 to 500 were read before, but none is held, so whether the file was replaced could not be checked'
    """
    read = (
        "row 1 was read before, but it is not held"
        if rows == 1
        else f"rows 1 to {rows:,} were read before, but none is held"
    )
    return f"{read}, {UNCHECKED}"


def explain_difference(row: int) -> str:
    """Say that a row of a source has changed.

    Args:
        row: number of the row.

    Returns:
        The end of a sentence about the source.

    Example:
        >>> explain_difference(7)
        'has changed in row 7 since it was read'
    """
    return f"has changed in row {row:,} since it was read"
