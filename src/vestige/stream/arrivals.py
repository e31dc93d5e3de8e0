"""Arrivals: rows, times and subjects as the user passes them, checked once, here.

Guarantee: an error says where a row is wrong, never what it holds; held by tests/stream/test_failures.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.errors import DataError
from vestige.policy import Policy
from vestige.stream.frames import NamedRows, find_names, list_columns, open_frame, select_columns
from vestige.times import NO_TIME, find_beyond_calendar, wall_clock
from vestige.types import Bools, Floats, Ints
from vestige.whole_numbers import REFUSED, TOO_SMALL, find_codes, is_wide, read_column

Time = datetime | np.datetime64
L = TypeVar("L")
T = TypeVar("T")


def read_rows(rows: ArrayLike | Iterable[object], policy: Policy) -> Floats:
    """Read rows as an array of floats.

    Args:
        rows: shape (n, columns), or (n,) in one dimension.
        policy: says how many columns there are, and which values it can take.

    Returns:
        Shape (n, columns).

    Raises:
        DataError: a row cannot be taken; the error says where, but shows no value.

    Example:
        >>> from vestige import Mean
        >>> read_rows([1, 2], Mean())
        array([[1.],
               [2.]])
    """
    table = read_table(rows, policy)
    check_table(table, policy)
    return table


def read_sample(rows: ArrayLike | Iterable[object], policy: Policy) -> Floats:
    """Read rows of no stream, whose columns go by the names that the policy has for them.

    Args:
        rows: see `read_rows`; or rows with names.
        policy: says how many columns there are, and which values it can take.

    Returns:
        Shape (n, columns).

    Raises:
        DataError: a row cannot be taken, or a column is not there.

    Example:
        >>> from vestige import Bundle, Mean
        >>> read_sample({"spent": [1.0], "age": [30.0]}, Bundle({"age": Mean(), "spent": Mean()}))
        array([[30.,  1.]])
    """
    return read_rows(select_columns(rows, find_names(policy, {}), policy)[0], policy)


def check_table(table: Floats, policy: Policy) -> None:
    """Refuse rows that a policy cannot take.

    Args:
        table: what `read_table` returned; shape (n, columns).
        policy: says which values it can take.

    Raises:
        DataError: a row cannot be taken; the error says where, but shows no value.

    Example:
        >>> from vestige import Mean
        >>> check_table(np.array([[1.0]]), Mean())
    """
    fine = find_fine(table, policy)
    if not fine.all():
        row, column = (int(place) for place in np.argwhere(~fine)[0])
        raise DataError(
            f"row {row} of {len(table)}, column {column}, {_explain_unfit(table[row, column], column, policy)}: "
            "nothing of this call was taken"
        )
    if len(table):
        policy.check_rows(table)


def _explain_unfit(value: float, column: int, policy: Policy) -> str:
    """Say what is wrong with a value, and what to do, without the value."""
    limit, kind = policy.max_magnitude, policy.read_whole_numbers(column)
    if value == TOO_SMALL:
        return (
            "is nearer to zero than 2^-511, where codes of whole numbers lie (counted from 0); multiply by a constant, "
            "or make it zero"
        )
    if value == REFUSED:
        return (
            "is a whole number beyond 2^53 that no float holds (counted from 0); subtract or divide by a constant, or "
            "make it a float if its last digits do not matter; Distinct and TopK take it as it is"
        )
    if kind == "coded" and limit < abs(value) < np.inf:
        return (
            "is a float beyond 2^53, which may be rounded (counted from 0); pass whole numbers as integers, not as "
            "floats"
        )
    return f"is missing, infinite or beyond {limit:g} in magnitude (counted from 0); drop or fill such records"


def read_table(rows: ArrayLike | Iterable[object], policy: Policy) -> Floats:
    """Read rows as an array of floats, whatever their values are; whole numbers beyond 2^53 as the policy takes them.

    Args:
        rows: shape (n, columns), or (n,) in one dimension.
        policy: says how many values a record has.

    Returns:
        Shape (n, columns).

    Raises:
        DataError: they are not numbers, or not so many a record.

    Example:
        >>> from vestige import Mean
        >>> read_table([1, None], Mean())
        array([[ 1.],
               [nan]])
    """
    columns = policy.columns
    rows, table = _read_numbers(rows, columns)
    if not table.size and table.shape in ((0,), (0, columns)):
        return np.empty((0, columns))
    if table.ndim == 1 and columns == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] != columns:
        raise DataError(
            f"rows have shape {np.shape(table)}; the policy takes records of {columns} values: (n, {columns})"
        )
    small = _find_small(table, policy)
    if not (isinstance(rows, np.ndarray) and rows.dtype.kind == "f") and is_wide(table):
        found = enumerate(list_columns(rows, columns))
        table = np.column_stack([read_column(column, policy.read_whole_numbers(place)) for place, column in found])
    if small is not None:
        table = np.where(small, TOO_SMALL, table)
    return np.require(table, np.float64, ("C", "W"))  # one layout, so that each kernel is compiled once


def _find_small(table: NDArray[Any], policy: Policy) -> Bools | None:
    """Which floats would be taken for codes of whole numbers; None if there are none."""
    if table.dtype.kind != "f" or type(policy).read_whole_numbers is Policy.read_whole_numbers:  # without codes
        return None
    small = find_codes(table)
    if not small.any():
        return None
    small &= np.array([policy.read_whole_numbers(place) == "coded" for place in range(policy.columns)])
    return small


def find_fine(table: Floats, policy: Policy) -> Bools:
    """Find the values that a policy can take, as far as that depends on each value alone.

    Args:
        table: shape (n, columns).
        policy: says which values it can take.

    Returns:
        One flag per value; shape (n, columns).

    Example:
        >>> from vestige import Mean
        >>> find_fine(np.array([[1.0], [np.nan]]), Mean()).tolist()
        [[True], [False]]
    """
    fine: Bools = np.abs(table) <= policy.max_magnitude
    if policy.takes_missing:
        fine |= np.isnan(table)
    return fine


def _read_numbers(rows: ArrayLike | Iterable[object], columns: int) -> tuple[Any, NDArray[Any]]:
    """Rows to read once more if whole numbers are beyond floats, and their numbers; missing ones are nan."""
    problem = DataError(f"rows hold something that is not a number; pass numbers, {columns} per record")
    if isinstance(rows, Mapping | str | bytes) or not (hasattr(rows, "__array__") or isinstance(rows, Iterable)):
        raise problem
    if not (hasattr(rows, "__array__") or isinstance(rows, Sequence)):
        rows = list(cast("Iterable[object]", rows))
    given = rows.values if isinstance(rows, NamedRows) else rows
    try:
        opened = open_frame(given)
        if isinstance(opened, np.ma.MaskedArray):
            given = opened = _fill_missing(opened)
        table = np.asarray(opened)
        if table.dtype.kind == "O" and not any(isinstance(item, str | bytes) for item in table.flat):
            given, table = (table if isinstance(given, list | tuple) else given), _to_floats(table)
    except Exception:  # a foreign object may raise anything
        raise problem from None
    if table.dtype.kind not in "biuf":
        raise problem
    return given, table


def _fill_missing(array: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """An array without a mask, of objects if it has whole numbers beyond floats."""
    if not is_wide(array.data):
        return np.ma.filled(array.astype(np.float64), np.nan)
    made = array.data.astype(np.object_)
    made[np.ma.getmaskarray(array)] = None
    return made


def _to_floats(objects: NDArray[np.object_]) -> Floats:
    """Numbers of other kinds as floats, None as nan; whole numbers beyond all floats as infinite."""
    try:
        return objects.astype(np.float64)
    except OverflowError:
        return np.array([_to_float(value) for value in objects.flat]).reshape(objects.shape)


def _to_float(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf


def read_time(time: Time | None) -> np.datetime64:
    """Read a time.

    Args:
        time: one with a zone, or in UTC; None if there is none.

    Returns:
        The time in UTC to the microsecond; not-a-time where there is none.

    Raises:
        DataError: it is not a time, or is outside the years 1 to 9999.

    Example:
        >>> read_time(datetime.fromisoformat("2024-01-01T11:01-07:00"))
        np.datetime64('2024-01-01T18:01:00.000000')
    """
    if time is None:
        return NO_TIME
    try:
        if isinstance(time, datetime):
            return np.datetime64(time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time, "us")
        if isinstance(time, np.datetime64) and not find_beyond_calendar(np.array([time]))[0]:
            return np.datetime64(time.astype("datetime64[us]"))
    except OverflowError:
        pass
    if isinstance(time, datetime | np.datetime64):
        raise DataError("a time lies outside the years 1 to 9999 in UTC; correct it, or drop the row")
    raise DataError(f"time is a {type(time).__name__}; pass a datetime or a numpy.datetime64")


def read_times(times: Iterable[Time | None] | NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Read times.

    Args:
        times: one per row; None where there is none.

    Returns:
        The times in UTC to the microsecond.

    Raises:
        DataError: one of them is not a time, or is outside the years 1 to 9999.
    """
    times = open_frame(times)
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        return _check_years(times)
    if not _is_list(times):
        raise DataError(f"times is a {type(times).__name__}; pass one datetime or numpy.datetime64 per row")
    return np.array(_read_each(times, read_time), "datetime64[us]")


def _read_each(labels: Iterable[L], read: Callable[[L], T]) -> list[T]:
    """Read labels one by one; an error says of which row."""
    made: list[T] = []
    listed = list(labels)
    try:
        made.extend(map(read, listed))
    except DataError as problem:
        raise DataError(
            f"row {len(made)} of {len(listed)} (counted from 0): {problem}: nothing of this call was taken"
        ) from None
    return made


def _is_list(values: object) -> bool:
    """Whether there is one value per row; an array without dimensions has none."""
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    return isinstance(values, Iterable) and not isinstance(values, str | bytes)


def _check_years(times: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Convert times to microseconds if they lie in the years of a calendar; beyond them numpy overflows silently."""
    beyond = find_beyond_calendar(times)
    if beyond.any():
        raise DataError(
            f"time {int(np.argmax(beyond))} of {times.size} (counted from 0) lies outside the years 1 to 9999; correct "
            "it, or drop the row: nothing of this call was taken"
        )
    return times.astype("datetime64[us]")


def repeat_now(n: int) -> NDArray[np.datetime64]:
    """Repeat the machine's time for records that arrive without one.

    Args:
        n: number of records.

    Returns:
        The time in UTC to the microsecond; shape (n,).
    """
    return np.full(n, read_time(wall_clock()))


@dataclass(slots=True)
class Arrivals:
    """Rows that were checked, with their labels.

    Attributes:
        rows: shape (n, columns).
        times: in UTC to the microsecond; shape (n,).
        subjects: name or pseudonym of each subject; shape (n,).
        numbers: numbers of the rows in their source; shape (n,).
        handled: number of rows that a stream has taken, or found to be too late, for good.
    """

    rows: Floats
    times: NDArray[np.datetime64] | None = None
    subjects: NDArray[np.object_] | None = None
    numbers: Ints | None = None
    handled: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, here: slice | Bools | Ints) -> Arrivals:
        """Select some of the rows.

        Args:
            here: which of them.

        Returns:
            These rows with their labels; views where `here` is a slice.
        """
        return Arrivals(
            self.rows[here],
            None if self.times is None else self.times[here],
            None if self.subjects is None else self.subjects[here],
            None if self.numbers is None else self.numbers[here],
        )


def read_arrivals(
    policy: Policy,
    rows: ArrayLike | Iterable[object],
    times: Iterable[Time | None] | NDArray[np.datetime64] | None,
    subjects: Iterable[str | None] | NDArray[np.object_] | None,
    pseudonym: Callable[[str], str] | None = None,
) -> Arrivals:
    """Read rows with their times and subjects.

    Args:
        policy: says which rows it can take.
        rows: shape (n, columns), or (n,) in one dimension.
        times: one per row, or None.
        subjects: one per row, or None.
        pseudonym: gives the name that is kept in place of a subject; default: the subject itself.

    Returns:
        The rows and labels as arrays.

    Raises:
        DataError: a row or a label cannot be taken.
    """
    return label_rows(read_rows(rows, policy), times, subjects, pseudonym)


def label_rows(
    table: Floats,
    times: Iterable[Time | None] | NDArray[np.datetime64] | None,
    subjects: Iterable[str | None] | NDArray[np.object_] | None,
    pseudonym: Callable[[str], str] | None = None,
) -> Arrivals:
    """Read the times and subjects of rows.

    Args:
        table: the rows; shape (n, columns).
        times: one per row, or None.
        subjects: one per row, or None.
        pseudonym: gives the name that is kept in place of a subject; default: the subject itself.

    Returns:
        The rows and labels as arrays.

    Raises:
        DataError: a label cannot be taken.

    Example:
        >>> label_rows(np.array([[1.5]]), None, ["ada"]).subjects
        array(['ada'], dtype=object)
    """
    when = None if times is None else read_times(times)
    who = None if subjects is None else read_subjects(subjects, pseudonym)
    for name, labels in (("times", when), ("subjects", who)):
        if labels is not None and len(labels) != len(table):
            raise DataError(f"{name} has {len(labels)} entries for {len(table)} rows; pass one per row, or none at all")
    return Arrivals(table, when, who)


def read_subject(subject: str | None, pseudonym: Callable[[str], str] | None = None) -> str | None:
    """Read a subject.

    Args:
        subject: the person or thing that a record is about; None if there is none.
        pseudonym: gives the name that is kept in its place; default: the subject itself.

    Returns:
        The name to keep.

    Raises:
        DataError: it is not a valid text.
    """
    if subject is None:
        return None
    if not isinstance(subject, str):
        raise DataError(f"a subject is a {type(subject).__name__}; pass texts")
    try:
        subject.encode()
    except UnicodeEncodeError:
        raise DataError("a subject is not a valid text, since it has half of a character; correct it") from None
    return subject if pseudonym is None else pseudonym(subject)


def read_subjects(
    subjects: Iterable[str | None] | NDArray[np.object_], pseudonym: Callable[[str], str] | None = None
) -> NDArray[np.object_]:
    """Read subjects; see `read_subject`.

    Args:
        subjects: one per row; None where there is none.
        pseudonym: gives the name that is kept in place of a subject; default: the subject itself.

    Returns:
        The names to keep; shape (n,).

    Raises:
        DataError: one of them is not a valid text.
    """
    subjects = open_frame(subjects)
    if not _is_list(subjects):
        raise DataError(f"subjects is a {type(subjects).__name__}; pass one text or None per row")
    names = _read_each(subjects, lambda subject: read_subject(subject, pseudonym))
    column = np.empty(len(names), np.object_)
    column[:] = names
    return column
