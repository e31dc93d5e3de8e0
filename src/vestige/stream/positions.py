"""Positions: how far each source was read, and which of its rows the records are.

Guarantee: numbers of rows are the same however rows are split into calls; held by tests/stream/test_stream.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vestige.errors import DataError, ParameterError
from vestige.records import LARGEST_ROW, LARGEST_SLOT
from vestige.store import Position
from vestige.types import Ints


def check_numbers(position: Position, numbers: Ints | None, mark: bytes, n: int) -> Ints:
    """Check the numbers that rows have in their source.

    Args:
        position: how far the source was read.
        numbers: of the rows, counted from 1 and increasing; None for those that follow the position.
        mark: identifies the source.
        n: number of rows.

    Returns:
        One number per row.

    Raises:
        DataError: there is not one number per row.
        ParameterError: the numbers do not increase from 1, are too large, or the mark is too long.
    """
    Position(position.rows, mark)  # checks the mark
    if numbers is None:
        numbers = np.arange(position.rows + 1, position.rows + n + 1)
    try:
        given = np.asarray(numbers)
    except ValueError:  # lists of different lengths
        given = np.empty(0, np.int64)
    if given.shape != (n,):
        raise DataError(f"numbers has shape {given.shape} for {n} rows; pass one per row, or none at all")
    if n and (given.dtype.kind not in "iu" or given[0] < 1 or (given[1:] <= given[:-1]).any()):
        raise ParameterError("numbers are not whole numbers from 1 up that increase; pass those of the rows")
    if n and given[-1] > LARGEST_ROW:
        raise ParameterError(f"numbers end beyond row {LARGEST_ROW:,}; read the rest under the name of another source")
    return given.astype(np.int64)


def find_slot(positions: Mapping[str, Position], source: str) -> int:
    """Find the slot by which records know a source.

    Args:
        positions: of all sources that were read.
        source: its name.

    Returns:
        Its slot, or the smallest that is free; 0 if all are taken.
    """
    if source in positions and positions[source].slot:
        return positions[source].slot
    taken = {position.slot for position in positions.values()}
    return next((slot for slot in range(1, LARGEST_SLOT + 1) if slot not in taken), 0)
