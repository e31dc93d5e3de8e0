"""What arrives: rows are checked once, here, and wait in arrays that are wiped when the batch is closed.

An error says where a row is wrong, never what it holds.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.errors import DataError
from vestige.records import Floats, Records

LARGEST = 1e300
"""Larger values would overflow in sums of differences."""

Time = datetime | np.datetime64


def rows_of(rows: ArrayLike, columns: int) -> Floats:
    """`rows` as floats of shape (n, columns), or an error that names what is wrong but no value."""
    try:
        table = np.asarray(rows, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"rows hold something that is not a number; pass numbers, {columns} per record") from None
    if table.ndim == 1 and columns == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] != columns:
        raise DataError(
            f"rows have shape {np.shape(table)}; the policy takes records of {columns} values: (n, {columns})"
        )
    table = np.require(table, requirements=("C", "W"))  # one layout, so that each kernel is compiled once
    fine = np.abs(table) <= LARGEST
    if not fine.all():
        row, column = np.argwhere(~fine)[0]
        raise DataError(
            f"row {row} of {len(table)}, column {column}, is missing, infinite or beyond {LARGEST:g} in magnitude; "
            "drop or fill such records: nothing of this call was taken"
        )
    return table


def instant_of(time: Time | None) -> np.datetime64:
    """A time in UTC to the microsecond; not-a-time where there is none."""
    if time is None:
        return np.datetime64("NaT", "us")
    if isinstance(time, datetime):
        return np.datetime64(time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time, "us")
    return np.datetime64(np.datetime_as_string(time, "us"), "us")


class Appended:
    """The records since the last update, in arrays that are reused and wiped."""

    def __init__(self, size: int, columns: int) -> None:
        empty = Records.none(columns)
        self._columns = {
            name: np.zeros((size, *getattr(empty, name).shape[1:]), getattr(empty, name).dtype)
            for name in Records.__slots__
        }
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, **columns: NDArray[np.generic]) -> None:
        """Add records, given column by column under the names of `Records`."""
        here = slice(self._size, self._size + len(columns["rounds"]))
        for name, column in columns.items():
            self._columns[name][here] = column
        self._size = here.stop

    def records(self) -> Records:
        """A copy of what waits here."""
        return Records._trusted(**{name: column[: self._size].copy() for name, column in self._columns.items()})

    def mark(self, rounds: NDArray[np.int64]) -> int:
        """Mark the records of these rounds as leaving; how many there are."""
        named = np.isin(self._columns["rounds"][: self._size], rounds)
        self._columns["leaving"][: self._size] |= named
        return int(named.sum())

    def clear(self) -> None:
        """Forget everything, and overwrite it."""
        for column in self._columns.values():
            column[: self._size] = np.zeros(1, column.dtype)[0]
        self._size = 0
