"""Row numbers: one integer says which source a record came from, and which of its rows it is.

Guarantee: they are the same however rows are split into calls; held by tests/stream/test_stream.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vestige.types import Ints

LARGEST_ROW, LARGEST_SLOT = 2**48 - 1, 2**15 - 1
"""A record's number holds the slot of its source in 15 bits and its row in 48."""
ROW_BITS = 48


def number_rows(rows: Ints, slot: int) -> Ints:
    """Number records by the source that they came from, and by their row in it.

    Args:
        rows: row of each record, counted from 1.
        slot: slot of the source; 0 if it has none.

    Returns:
        One number per record; 0 each without a slot.

    Example:
        >>> numbers = number_rows(np.array([7, 8]), 2)
        >>> find_rows(numbers, 2), find_rows(numbers, 1)
        (array([7, 8]), array([0, 0]))
    """
    return rows | (slot << ROW_BITS) if slot else np.zeros_like(rows)


def find_rows(numbers: Ints, slot: int) -> Ints:
    """Find the rows of records in a source.

    Args:
        numbers: of the records; see `number_rows`.
        slot: slot of the source.

    Returns:
        One row per record; 0 for those of another source.

    Example:
        >>> find_rows(number_rows(np.array([7]), 2), 2)
        array([7])
    """
    return np.where((numbers >> ROW_BITS == slot) & (slot > 0), numbers & LARGEST_ROW, 0)


def drop_rows(numbers: Ints, slot: int) -> Ints:
    """Forget which records are rows of a source.

    Args:
        numbers: of the records; see `number_rows`.
        slot: slot of the source.

    Returns:
        The numbers, 0 for records of this source.

    Example:
        >>> drop_rows(number_rows(np.array([7]), 2), 2)
        array([0])
    """
    return np.where(numbers >> ROW_BITS == slot, 0, numbers)


def move_slots(numbers: Ints, slots: Mapping[int, int]) -> Ints:
    """Let records know their sources by other slots.

    Args:
        numbers: of the records; see `number_rows`.
        slots: the new slot for each slot that has changed.

    Returns:
        The new numbers.

    Example:
        >>> find_rows(move_slots(number_rows(np.array([7]), 2), {2: 5}), 5)
        array([7])
    """
    moved, before = numbers.copy(), numbers >> ROW_BITS
    for old, new in slots.items():
        here = before == old
        moved[here] = number_rows(numbers[here] & LARGEST_ROW, new)
    return moved
