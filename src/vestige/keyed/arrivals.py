"""Rows by key as the user passes them: which of them can be taken, where one key's trouble is not that of others.

Guarantee: a key is refused if its own `Stream.extend` would refuse its rows, with the same error; held by
tests/keyed/test_take.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.errors import DataError
from vestige.policy import Policy
from vestige.stream.arrivals import (
    Arrivals,
    Time,
    check_table,
    find_fine,
    label_rows,
    read_subject,
    read_table,
    read_time,
    repeat_now,
)
from vestige.stream.deadlines import check_times, find_ahead
from vestige.stream.frames import open_frame
from vestige.stream.rules import Rules
from vestige.times import NO_TIME, find_beyond_calendar
from vestige.types import Bools, Floats, Ints

UNKNOWN = -(2**63)
"""A time that is not known."""
_LARGEST_NUMBER = 2**63 - 1


@dataclass(frozen=True)
class RawRows:
    """Columns that were read, of which single rows may still be refused.

    Attributes:
        table: the values; shape (n, columns).
        times: as they were passed, one per row; None if there are none.
        subjects: as they were passed, one per row; None if there are none.
        new: the same rows with their labels, but for those of rows that are refused.
        refused: which rows cannot be taken, as far as that depends on each of them alone; shape (n,).
    """

    table: Floats
    times: NDArray[Any] | None
    subjects: NDArray[np.object_] | None
    new: Arrivals
    refused: Bools


def read_raw_rows(
    rules: Rules,
    rows: ArrayLike | Iterable[object],
    times: Iterable[Time | None] | NDArray[np.datetime64] | None,
    subjects: Iterable[str | None] | NDArray[np.object_] | None,
    numbers: Ints | None,
    pseudonym: Callable[[str], str],
    now: int,
) -> RawRows:
    """Read columns, and find the rows that cannot be taken.

    Args:
        rules: the rules of each stream.
        rows: shape (n, columns), or (n,) in one dimension.
        times: one per row, or None.
        subjects: one per row, or None.
        numbers: source and row of each record, or None; see `vestige.Records.numbers`.
        pseudonym: gives the name that is kept in place of a subject.
        now: the machine's time, in microseconds since 1970.

    Returns:
        The columns.

    Raises:
        DataError: one of them is not a column, or has another number of entries.
    """
    table = read_table(rows, rules.policy)
    refused = np.zeros(len(table), np.bool_)
    np.any(~find_fine(table, rules.policy), axis=1, out=refused)
    new = Arrivals(table, numbers=read_numbers(numbers, len(table)))
    who = when = None
    if subjects is not None:
        who = _open_labels("subjects", subjects, len(table))
        new.subjects = _read_each(who, lambda subject: read_subject(subject, pseudonym), None, refused)
    if times is not None:
        when = _open_labels("times", times, len(table))
        new.times = _read_times(when, refused)
    if rules.is_timed:
        new.times = repeat_now(len(table)) if new.times is None else new.times
        refused |= np.isnat(new.times) | find_ahead(rules.limits, new.times, now)
    return RawRows(table, when, who, new, refused)


def read_numbers(numbers: object, n: int) -> Ints | None:
    """Read the numbers of rows.

    Args:
        numbers: source and row of each record, or None; see `vestige.Records.numbers`.
        n: number of rows.

    Returns:
        The numbers; None if there are none.

    Raises:
        DataError: they are not whole numbers from 0 up, one per row.

    Example:
        >>> read_numbers([1, 2], 2)
        array([1, 2])
    """
    if numbers is None:
        return None
    try:
        found = np.asarray(numbers)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.shape != (n,) or (n and found.dtype.kind not in "iu"):
        raise DataError(f"numbers are not {n} whole numbers; pass one per row, or none at all")
    if n and (found.min() < 0 or found.max() > _LARGEST_NUMBER):
        raise DataError("numbers has one below 0 or beyond 63 bits; pass those of vestige.Records.numbers")
    return found.astype(np.int64)


def find_refused(rules: Rules, raw: RawRows, keys: Ints, count: int, newest: Ints | None) -> Bools:
    """Find the keys whose rows are refused.

    Args:
        rules: the rules of each stream.
        raw: the rows.
        keys: the number of the stream of each row; shape (n,).
        count: number of streams.
        newest: newest time that is known of each stream, in microseconds since 1970, or `UNKNOWN`; None if rows may be
            in any order.

    Returns:
        One flag per stream.
    """
    found = np.zeros(count, np.bool_)
    found[keys[raw.refused]] = True
    if newest is not None and raw.new.times is not None:
        from vestige.keyed.deadline_kernels import mark_disorder  # noqa: PLC0415

        mark_disorder(keys, raw.new.times.view(np.int64), newest.copy(), found)
    if rules.policy.checks_rows:
        left = np.flatnonzero(~found[keys])
        _mark_unfit(rules.policy, raw.table, left[np.argsort(keys[left], kind="stable")], keys, found)
    return found


def find_problem(rules: Rules, raw: RawRows, here: Ints, newest: int | None, now: int) -> Exception:
    """Find what the `Stream` of a key says to its rows, which are refused.

    Args:
        rules: the rules of the stream.
        raw: the rows.
        here: which of them are rows of the key.
        newest: newest time that is known of the stream, in microseconds since 1970.
        now: the machine's time, in microseconds since 1970.

    Returns:
        The error.
    """
    times, subjects = (None if labels is None else labels[here] for labels in (raw.times, raw.subjects))
    try:
        check_table(raw.table[here], rules.policy)
        part = label_rows(raw.table[here], times, subjects)
        if rules.is_timed:
            when = repeat_now(len(here)) if part.times is None else part.times
            check_times(rules.limits, when, newest, now)
    except Exception as problem:  # the policy's may be of any kind
        return problem.with_traceback(None)
    return DataError("its rows cannot be taken together with those of other streams; pass them in a call of their own")


def find_unfit(policy: Policy[Any], table: Floats) -> Bools:
    """Find the rows that a policy refuses, each by itself.

    Args:
        policy: says which rows it can take.
        table: the rows; shape (n, columns).

    Returns:
        One flag per row.

    Example:
        >>> from vestige import LogisticRegression
        >>> find_unfit(LogisticRegression(1), np.array([[0.5, 1.0], [0.5, 7.0]])).tolist()
        [False, True]
    """
    found = np.zeros(len(table), np.bool_)
    if len(table) and policy.checks_rows:
        rows = np.arange(len(table))
        _mark_unfit(policy, table, rows, rows, found)
    return found


def _mark_unfit(policy: Policy, table: Floats, order: Ints, keys: Ints, found: Bools) -> None:
    """Mark the keys whose rows the policy refuses; `order` has the rows, those of each key together."""
    if not len(order):
        return
    try:
        policy.check_rows(table[order])
    except Exception:  # the policy's may be of any kind
        borders = np.flatnonzero(np.diff(keys[order])) + 1
        if not len(borders):
            found[keys[order[0]]] = True
            return
        middle = borders[len(borders) // 2]
        _mark_unfit(policy, table, order[:middle], keys, found)
        _mark_unfit(policy, table, order[middle:], keys, found)


def _open_labels(name: str, labels: Any, n: int) -> NDArray[Any]:
    """Labels as an array with one entry per row, each as it was passed."""
    labels = open_frame(labels)
    is_scalar = isinstance(labels, np.ndarray) and not labels.ndim
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable) or is_scalar:
        raise DataError(f"{name} is a {type(labels).__name__}; pass one per row, or none at all")
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "MO":
        entries = labels
    else:
        listed = list(labels)
        entries = np.empty(len(listed), np.object_)
        entries[:] = listed
    if entries.shape != (n,):
        raise DataError(f"{name} has {len(entries)} entries for {n} rows; pass one per row, or none at all")
    return entries


def _read_each(labels: NDArray[Any], read: Callable[[Any], object], blank: object, refused: Bools) -> NDArray[Any]:
    """Read labels one by one; where one cannot be read, its row is marked as refused."""
    made = np.full(len(labels), blank, np.object_)
    for row, label in enumerate(labels):
        try:
            made[row] = read(label)
        except DataError:
            refused[row] = True
    return made


def _read_times(times: NDArray[Any], refused: Bools) -> NDArray[np.datetime64]:
    """Read times; where one cannot be read, its row is marked as refused."""
    if times.dtype.kind == "M":
        beyond = find_beyond_calendar(times)
        refused |= beyond
        return np.where(beyond, NO_TIME.astype(times.dtype), times).astype("datetime64[us]")
    return _read_each(times, read_time, NO_TIME, refused).astype("datetime64[us]")
