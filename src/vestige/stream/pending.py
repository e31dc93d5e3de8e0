"""What arrives: rows are checked once, here, and wait in arrays that are wiped when the batch is closed.

An error says where a row is wrong, never what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.errors import DataError
from vestige.policy import Policy
from vestige.records import NO_TIME, Records
from vestige.types import Bools, Floats, Ints

Time = datetime | np.datetime64
_FIRST_YEAR, _LAST_YEAR = 1 - 1970, 9999 - 1970


def rows_of(rows: ArrayLike | Iterable[object], policy: Policy) -> Floats:
    """`rows` as floats of shape (n, columns) that the policy can take, or an error that says where but no value."""
    columns, largest = policy.columns, policy.max_magnitude
    table = _numbers(rows, columns)
    if not table.size and table.shape in ((0,), (0, columns)):
        return np.empty((0, columns))
    if table.ndim == 1 and columns == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] != columns:
        raise DataError(
            f"rows have shape {np.shape(table)}; the policy takes records of {columns} values: (n, {columns})"
        )
    table = np.require(table, requirements=("C", "W"))  # one layout, so that each kernel is compiled once
    fine = np.abs(table) <= largest
    if not fine.all():
        row, column = np.argwhere(~fine)[0]
        raise DataError(
            f"row {row} of {len(table)}, column {column}, is missing, infinite or beyond {largest:g} in magnitude "
            "(counted from 0); drop or fill such records: nothing of this call was taken"
        )
    policy.check_rows(table)
    return table


def _numbers(rows: ArrayLike | Iterable[object], columns: int) -> Floats:
    """`rows` as an array of floats, missing ones as nan."""
    problem = DataError(f"rows hold something that is not a number; pass numbers, {columns} per record")
    if isinstance(rows, Mapping | str | bytes) or not (hasattr(rows, "__array__") or isinstance(rows, Iterable)):
        raise problem
    if not (hasattr(rows, "__array__") or isinstance(rows, Sequence)):
        rows = list(cast("Iterable[object]", rows))
    if isinstance(rows, np.ma.MaskedArray):
        rows = np.ma.filled(rows.astype(np.float64), np.nan)
    try:
        table = np.asarray(rows)
        if table.dtype.kind == "O" and not any(isinstance(item, str | bytes) for item in table.flat):
            table = table.astype(np.float64)  # numbers of other kinds, and None
    except (TypeError, ValueError, OverflowError):
        raise problem from None
    if table.dtype.kind not in "biuf":
        raise problem
    return table.astype(np.float64, copy=False)


def instant_of(time: Time | None) -> np.datetime64:
    """A time in UTC to the microsecond; not-a-time where there is none."""
    if time is None:
        return NO_TIME
    if isinstance(time, datetime):
        try:
            return np.datetime64(time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time, "us")
        except OverflowError:
            raise DataError("a time lies outside the years 1 to 9999 in UTC; correct it, or drop the row") from None
    if isinstance(time, np.datetime64):
        return np.datetime64(_in_range(np.array([time]))[0], "us")
    raise DataError(f"time is a {type(time).__name__}; pass a datetime or a numpy.datetime64")


def instants_of(times: Iterable[Time | None] | NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Times in UTC to the microsecond."""
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        return _in_range(times)
    if isinstance(times, str | bytes) or not isinstance(times, Iterable):
        raise DataError(f"times is a {type(times).__name__}; pass one datetime or numpy.datetime64 per row")
    return np.array([instant_of(time) for time in times], "datetime64[us]")


def _in_range(times: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Times to the microsecond, if they lie in years that a calendar has; numpy overflows without a word."""
    years = times.astype("datetime64[Y]").view(np.int64)
    beyond = ~np.isnat(times) & ((years < _FIRST_YEAR) | (years > _LAST_YEAR))
    if beyond.any():
        raise DataError(
            f"time {int(np.argmax(beyond))} of {times.size} (counted from 0) lies outside the years 1 to 9999; correct "
            "it, or drop the row: nothing of this call was taken"
        )
    return times.astype("datetime64[us]")


def now_for(n: int) -> NDArray[np.datetime64]:
    """The time of the machine, for n records."""
    return np.full(n, instant_of(datetime.now(UTC)))


def check_known(times: NDArray[np.datetime64]) -> None:
    """Raise a DataError if a time is missing."""
    missing = np.isnat(times)
    if missing.any():
        raise DataError(
            f"times has none for row {int(np.argmax(missing))} (counted from 0), but max_age is set; pass a time for "
            "each record, or none at all to let the clock of the machine count: nothing of this call was taken"
        )


def check_order(times: NDArray[np.datetime64], newest: int | None) -> None:
    """Raise a DataError if a time lies before the one before it, or the first before `newest`."""
    moments = times.view(np.int64)
    backwards = np.diff(moments, prepend=moments[:1] if newest is None else newest) < 0
    if backwards.any():
        raise DataError(
            f"the time of row {int(np.argmax(backwards))} of {len(times)} (counted from 0) lies before that of a "
            "record that came earlier: with max_age a clock cannot run backwards; sort the records by time, set the "
            "clock right, or allow rows to be late with lateness=...: nothing of this call was taken"
        )


@dataclass(slots=True)
class Arrivals:
    """Rows that were checked, and what is known about each.

    Attributes:
        rows: shape (n, columns).
        times: in UTC to the microsecond; shape (n,).
        subjects: what stands for each; shape (n,).
        numbers: those of the rows in their source; shape (n,).
    """

    rows: Floats
    times: NDArray[np.datetime64] | None = None
    subjects: NDArray[np.object_] | None = None
    numbers: Ints | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, here: slice | Bools) -> Arrivals:
        """Some of them."""
        return Arrivals(
            self.rows[here],
            None if self.times is None else self.times[here],
            None if self.subjects is None else self.subjects[here],
            None if self.numbers is None else self.numbers[here],
        )


class Appended:
    """The records since the last update, in arrays that are reused and wiped."""

    def __init__(self, size: int, columns: int, *, quick: bool) -> None:
        self.size = 0
        self.quick = quick and columns == 1
        self.labelled = self.marked = self.holed = False
        self.values = np.zeros((size, columns))
        self.single = self.values[:, 0].data if self.quick else None  # written to twice as fast as an array
        self.leaving = np.zeros(size, np.bool_)
        self.gone = np.zeros(size, np.bool_)
        self.times = np.full(size, NO_TIME)
        self.subjects = np.full(size, None)
        self.numbers = np.zeros(size, np.int64)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "single"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self.single = self.values[:, 0].data if self.quick else None

    def append(self, new: Arrivals) -> None:
        """Add records."""
        here = slice(self.size, self.size + len(new))
        self.size = here.stop  # first of all, so that whoever undoes this wipes what was written of it
        self.labelled |= not (new.times is None and new.subjects is None and new.numbers is None)
        self.values[here] = new.rows
        if new.times is not None:
            self.times[here] = new.times
        if new.subjects is not None:
            self.subjects[here] = new.subjects
        if new.numbers is not None:
            self.numbers[here] = new.numbers

    def arrivals(self) -> Arrivals:
        """What waits here, as rows; not a copy."""
        here = slice(0, self.size)
        if not self.labelled:
            return Arrivals(self.values[here])
        return Arrivals(self.values[here], self.times[here], self.subjects[here], self.numbers[here])

    def label_next(self, time: np.datetime64, subject: str | None) -> None:
        """Say when the next record arrived, and whom it is about."""
        self.labelled = True
        self.times[self.size], self.subjects[self.size] = time, subject

    def records(self, after: int) -> Records:
        """A copy of what waits here, as the records of the rounds after `after`."""
        here = slice(0, self.size)
        rounds = np.arange(after + 1, after + 1 + self.size)
        records = Records._trusted(
            rounds,
            self.values[here].copy(),
            self.leaving[here].copy(),
            self.times[here].copy(),
            self.subjects[here].copy(),
            self.numbers[here].copy(),
        )
        return records.where(~self.gone[here]) if self.holed else records

    def replace(self, records: Records, after: int, size: int) -> None:
        """Hold just these records, of the `size` rounds after `after`."""
        self.clear()
        here = records.rounds - after - 1
        self.values[here], self.leaving[here] = records.values, records.leaving
        self.times[here], self.subjects[here], self.numbers[here] = records.times, records.subjects, records.numbers
        self.gone[:size] = True
        self.gone[here] = False
        self.size, self.labelled = size, size > 0
        self.marked, self.holed = bool(records.leaving.any()), len(records) < size

    @property
    def carriers(self) -> int:
        """How many records there are that may be kept."""
        return self.size - int((self.leaving[: self.size] | self.gone[: self.size]).sum())

    def mark(self, leaving: Bools) -> None:
        """Mark these of the records as leaving, beside those that are."""
        self.leaving[: self.size] |= leaving & ~self.gone[: self.size]
        self.marked = bool(self.leaving[: self.size].any())

    def cut(self, size: int) -> None:
        """Forget all but the first `size` records, and overwrite them."""
        self._wipe(slice(size, self.size))
        self.size = size

    def wipe_next(self) -> None:
        """Overwrite what may have been written of a record that was not taken after all."""
        self._wipe(slice(self.size, self.size + 1))

    def clear(self) -> None:
        """Forget everything, and overwrite it."""
        self._wipe(slice(0, self.size))
        self.size = 0
        self.labelled = self.marked = self.holed = False

    def _wipe(self, here: slice) -> None:
        self.values[here] = 0.0
        if self.marked:
            self.leaving[here] = False
        if self.holed:
            self.gone[here] = False
        if self.labelled:
            self.times[here] = NO_TIME
            self.subjects[here] = None
            self.numbers[here] = 0
