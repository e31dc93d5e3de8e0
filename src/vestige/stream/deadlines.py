"""Deadlines in time: when a batch must be closed, which records expire, and which times are refused.

These rules are ours. All of them are functions of times and the clock, never of values.
Guarantee: no record is held once it is too old; held by tests/stream/test_times.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import DataError
from vestige.records import Records
from vestige.stream.limits import Limits
from vestige.types import Bools

NEVER = 2**63 - 1
"""A time that never comes."""
_UNKNOWN = -(2**63)
"""A time that is not known, as numpy stores it."""
_PENDING_PARTS, _ENCODED_PARTS = 2, 8
"""A batch is closed early once its oldest record has lived half of `max_age`, or the encoded one has an eighth left.

So a record that is kept then has half of its life before it, and whoever sweeps a stream every eighth of `max_age`
loses nothing that could be saved.
"""
_LAST_PARTS = 16
"""A batch that has too few records for all that is encoded is closed for a part of it in the last sixteenth."""
_DUE_PARTS = 32
"""`Clock.due` is a multiple of `max_age` divided by this."""


def find_due(limits: Limits, times: NDArray[np.datetime64]) -> int | None:
    """Find the deadline of a batch, rounded down to a whole 32nd of `max_age`.

    Args:
        limits: have a `max_age`.
        times: when its records arrived.

    Returns:
        Microseconds since 1970; None if no time is known.
    """
    oldest, step = find_earliest(times), find_step(limits)
    return None if oldest is None else (oldest + limits.age) // step * step


def find_patience(limits: Limits) -> int:
    """Find how long a record may wait before its batch must be closed.

    Args:
        limits: have a `max_age`.

    Returns:
        Microseconds.
    """
    return limits.age // _PENDING_PARTS


def find_warning(limits: Limits) -> int:
    """Find how long before its deadline the encoded batch must be replaced, if it can be.

    Args:
        limits: have a `max_age`.

    Returns:
        Microseconds.
    """
    return limits.age // _ENCODED_PARTS


def find_step(limits: Limits) -> int:
    """Find what deadlines are multiples of.

    Args:
        limits: have a `max_age`.

    Returns:
        Microseconds.
    """
    return limits.age // _DUE_PARTS


def find_next_event(limits: Limits, oldest: int | None, due: int | None) -> int:
    """Find when something must be done for the records that an update kept.

    Args:
        limits: have a `max_age`.
        oldest: earliest time of such a record, in microseconds since 1970.
        due: deadline of the encoded batch.

    Returns:
        Microseconds since 1970; `NEVER` if there is nothing to do.
    """
    events = [] if due is None else [due - find_warning(limits)]
    if oldest is not None:
        events.append(oldest + limits.age)
    return min(events, default=NEVER)


def must_close(limits: Limits, now: int, oldest: int | None, due: int | None) -> bool:
    """Tell whether a batch must be closed early.

    Args:
        limits: have a `max_age`.
        now: microseconds since 1970.
        oldest: earliest time of a record of the batch; None if it has none.
        due: deadline of the encoded batch.

    Returns:
        True once its oldest record has waited long enough, or the encoded batch is nearly due.
    """
    return oldest is not None and now >= min(oldest + find_patience(limits), find_next_event(limits, None, due))


def can_wait(limits: Limits, now: int, oldest: int | None, due: int | None) -> bool:
    """Tell whether a batch that must be closed early may wait for more records, if it has too few for all it encodes.

    Args:
        limits: have a `max_age`.
        now: microseconds since 1970.
        oldest: earliest time of a record of the batch; None if it has none.
        due: deadline of the encoded batch.

    Returns:
        False once its oldest record has lived half of its time, or the encoded batch has a sixteenth left.
    """
    waited = oldest is not None and now >= oldest + find_patience(limits)
    return not waited and (due is None or now < due - limits.age // _LAST_PARTS)


def find_newest(limits: Limits, times: NDArray[np.datetime64], due: int | None) -> int | None:
    """Find the newest time that is known, whichever records were kept.

    It is that of a record since the last update; before one has arrived, the time of the oldest record before it,
    rounded down. So it does not depend on values, and neither does which rows are taken.

    Args:
        limits: have a `max_age`.
        times: of the records since the last update.
        due: deadline of the encoded batch.

    Returns:
        Microseconds since 1970; None if no time is known.
    """
    known = (find_latest(times), None if due is None else due - limits.age)
    return max((time for time in known if time is not None), default=None)


def find_ahead(limits: Limits, times: NDArray[np.datetime64], now: int) -> Bools:
    """Find the times that lie too far ahead.

    Args:
        limits: have a `max_ahead`.
        times: of records.
        now: microseconds since 1970.

    Returns:
        One flag per time.
    """
    assert limits.max_ahead is not None  # noqa: S101  # there is a max_age
    ahead: Bools = times.view(np.int64) > min(now + limits.max_ahead // timedelta(microseconds=1), NEVER)
    return ahead


def check_times(limits: Limits, times: NDArray[np.datetime64], newest: int | None, now: int) -> None:
    """Check that rows with these times can be taken under a `max_age`.

    Args:
        limits: have a `max_age`.
        times: one per row.
        newest: newest time that is known; see `find_newest`.
        now: the machine's time, in microseconds since 1970.

    Raises:
        DataError: a time is missing, too far ahead, or before that of a record that came earlier.
    """
    missing = np.isnat(times)
    if missing.any():
        raise DataError(
            f"times has none for row {int(np.argmax(missing))} (counted from 0), but max_age is set; pass a time for "
            "each record, or no times at all to use the machine's clock: nothing of this call was taken"
        )
    ahead = find_ahead(limits, times, now)
    if ahead.any():
        raise DataError(
            f"the time of row {int(np.argmax(ahead))} of {len(times)} (counted from 0) lies more than "
            f"max_ahead={limits.max_ahead} ahead of the machine's clock, and would erase what is held as too old; "
            "correct it or drop the row, set the clock right, or allow more: nothing of this call was taken"
        )
    if limits.lateness is not None:
        return
    moments = times.view(np.int64)
    backwards = np.diff(moments, prepend=moments[:1] if newest is None else newest) < 0
    if backwards.any():
        raise DataError(
            f"the time of row {int(np.argmax(backwards))} of {len(times)} (counted from 0) lies before that of a "
            "record that came earlier: with max_age a clock cannot run backwards; sort the records by time, set the "
            "clock right, or allow rows to be late with lateness=...: nothing of this call was taken"
        )


def expire(clock: Clock, held: Records, late: Bools, now: int, *, all_or_nothing: bool) -> tuple[Clock, Records]:
    """Erase the records that are too old.

    A record that waits is erased alone and leaves a gap, as after a request: the statistic continues. Where the kept
    records carry the answer only together, all of them are erased with the first, or when their batch is due; then,
    and where nothing was encoded yet, the statistic counts from the first record that is left.

    Args:
        clock: the public clock.
        held: all records that are held.
        late: which of them are too old; shape (held,).
        now: microseconds since 1970.
        all_or_nothing: whether the kept records carry the answer only together.

    Returns:
        The clock, and the records that are left.
    """
    waits = held.rounds > clock.last
    passed = clock.due is not None and clock.due <= now
    lost = all_or_nothing and bool(passed or late[~waits].any())
    if lost or (all_or_nothing and not clock.encoded and late.any()):
        left = held.where(~late & waits)
        return restart_clock(clock, left), left
    return replace(clock, due=None) if passed else clock, held.where(~late)


def restart_clock(clock: Clock, waiting: Records) -> Clock:
    """Start the statistic over from the first of the records that wait, or from the next one that arrives.

    Args:
        clock: the public clock.
        waiting: the records that are left, all of them after the encoded batch.

    Returns:
        A clock with the same `t`.
    """
    start = int(waiting.rounds[0]) if len(waiting) else clock.t + 1
    return Clock(clock.t, first=start, last=start - 1, since=start)


def find_earliest(times: NDArray[np.datetime64]) -> int | None:
    """Find the earliest of these times.

    Args:
        times: not-a-time where unknown.

    Returns:
        Microseconds since 1970; None if no time is known.

    Example:
        >>> find_earliest(np.array(["1970-01-02", "NaT"], "datetime64[us]"))
        86400000000
    """
    moments = times.view(np.int64)
    if len(moments) and moments.min() == _UNKNOWN:
        moments = moments[moments != _UNKNOWN]
    return int(moments.min()) if len(moments) else None


def find_latest(times: NDArray[np.datetime64]) -> int | None:
    """Find the latest of these times.

    Args:
        times: not-a-time where unknown.

    Returns:
        Microseconds since 1970; None if no time is known.
    """
    newest = int(times.view(np.int64).max(initial=_UNKNOWN))
    return None if newest == _UNKNOWN else newest
