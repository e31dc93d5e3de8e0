"""Positions: up to where each source was read, and which of its rows the records are.

A position is opaque: the source makes it, and only the source reads it. Without positions, the rows are counted.
Guarantee: numbers of rows are the same however rows are split into calls; held by tests/stream/test_stream.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np

from vestige.errors import DataError, ParameterError
from vestige.row_numbers import LARGEST_ROW, LARGEST_SLOT
from vestige.store import Position
from vestige.store.position import decode_count, encode_count
from vestige.types import Ints


class CountedPositions(Sequence[bytes]):
    """Positions of a source whose rows are counted, encoded when they are needed.

    Args:
        rows: number of each row in its source.

    Example:
        >>> CountedPositions(np.array([3, 7]))[-1] == encode_count(7)
        True
    """

    def __init__(self, rows: Ints) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> CountedPositions: ...
    def __getitem__(self, index: int | slice) -> bytes | CountedPositions:
        if isinstance(index, slice):
            return CountedPositions(self._rows[index])
        return encode_count(int(self._rows[index]))


def check_positions(
    before: bytes, positions: Sequence[bytes] | None, numbers: Ints | None, n: int
) -> tuple[Ints | None, Sequence[bytes]]:
    """Check the positions and numbers of rows of a source.

    Args:
        before: position up to which the source was read.
        positions: position after each row; None to count the rows.
        numbers: number of each row, from 1 up and increasing; None for those that follow if the rows are counted.
        n: number of rows.

    Returns:
        The numbers, if any, and the positions, one per row each.

    Raises:
        DataError: there is not one number or position per row.
        ParameterError: the numbers do not increase from 1 or are too large, or a position is not bytes or too long.

    Example:
        >>> numbers, positions = check_positions(encode_count(3), None, None, 2)
        >>> numbers, positions[-1] == encode_count(5)
        (array([4, 5]), True)
    """
    if positions is not None:
        if not isinstance(positions, Sequence) or len(positions) != n:
            raise DataError(f"positions are not a sequence with one entry for each of {n} rows; pass one per row")
        for position in (positions[0], positions[-1]) if n else ():
            Position(position)  # checks it
        return None if numbers is None else _check_numbers(numbers, n), positions
    if numbers is None:
        if len(before) not in (0, len(encode_count(0))):
            raise ParameterError("the source was read with positions of its own before; pass positions")
        numbers = np.arange(decode_count(before) + 1, decode_count(before) + n + 1)
    checked = _check_numbers(numbers, n)
    return checked, CountedPositions(checked)


def _check_numbers(numbers: Ints, n: int) -> Ints:
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
