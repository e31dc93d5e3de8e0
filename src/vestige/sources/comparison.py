"""Held records compared with their rows: the witnesses that a file is still the one that was read.

Each held record knows the number of its row, and must be found there again.
Guarantee: a row that is still held and has changed is found; held by tests/ingest/test_replaced_files.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from vestige.records import Records
from vestige.sources.block import Block
from vestige.types import Bools, Ints


class RowComparison:
    """Compares held records with the rows of a source.

    Args:
        pseudonym: function from a subject to its pseudonym in the store.
        other_key: last row whose subject cannot be compared, since it was hashed with another key.
    """

    def __init__(self, pseudonym: Callable[[str], str], other_key: int = 0) -> None:
        self._pseudonym, self._other_key = pseudonym, other_key
        self._parts: list[tuple[str, Records]] = []
        self._read = 0

    def __len__(self) -> int:
        return sum(len(held) for _, held in self._parts)

    def add(self, key: str, held: Records) -> None:
        """Add records of a stream to compare.

        Args:
            key: key of the stream.
            held: records whose `numbers` are their rows in the source.
        """
        if len(held):
            self._parts.append((key, held))

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
        different = [number for key, held in self._parts for number in self._find_changed(block, key, held)]
        self._read = block.read
        return min(different, default=None)

    def _find_changed(self, block: Block, key: str, held: Records) -> list[int]:
        due = held.where((held.numbers > self._read) & (held.numbers <= block.read))
        if not len(due):
            return []
        at = np.searchsorted(block.numbers, due.numbers)
        exists = np.append(block.numbers, 0)[at] == due.numbers
        same: Bools = exists.copy()
        same[exists] = self._compare(block, key, due.where(exists), at[exists])
        return [int(number) for number in due.numbers[~same]]

    def _compare(self, block: Block, key: str, held: Records, at: Ints) -> Bools:
        """Compare records with the rows at which they should be."""
        rows = block.rows[at]
        missing = np.isnan(rows) & np.isnan(held.values)
        same = np.asarray(((rows == held.values) | missing).all(axis=1), np.bool_)
        if block.times is not None:
            same &= block.times[at] == held.times
        if block.subjects is not None:
            pairs = zip(held.numbers, held.subjects, block.subjects[at], strict=True)
            same_subjects = [
                subject is None or number <= self._other_key or (text is not None and self._pseudonym(text) == subject)
                for number, subject, text in pairs
            ]
            same &= np.array(same_subjects, np.bool_)
        if block.keys is not None and block.codes is not None:
            same &= np.asarray(block.keys[block.codes[at]] == key, np.bool_)
        return same


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
