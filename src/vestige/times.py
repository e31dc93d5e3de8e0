"""Times: UTC, to the microsecond, in the years that a calendar has.

Beyond those years numpy overflows silently, and it drops zones, so every time from outside passes through here.
Guarantee: one moment gives one time, however its zone is written; held by tests/test_zones.py.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.errors import ParameterError
from vestige.types import Bools
from vestige.validation import show_value

EPOCH, TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
"""The origin and the unit of times."""
NO_TIME = np.datetime64("NaT", "us")
"""The time of a record that has none."""
_UNITS = {"day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
_LETTERS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
"""Seconds in each unit of a duration as text."""
_FIRST_YEAR, _LAST_YEAR = 1 - 1970, 9999 - 1970


def wall_clock() -> datetime:
    """Return the present time of the machine, in UTC.

    Returns:
        The time.

    Example:
        >>> wall_clock().tzname()
        'UTC'
    """
    return datetime.now(UTC)


def to_utc(moment: datetime) -> datetime:
    """Convert a time to UTC; a time without a zone is taken as UTC.

    Args:
        moment: the time.

    Returns:
        The same moment in UTC.

    Raises:
        ParameterError: it is not a time, or is outside the years 1 to 9999.

    Example:
        >>> to_utc(datetime.fromisoformat("2024-01-01T11:01-07:00")).isoformat()
        '2024-01-01T18:01:00+00:00'
    """
    if not isinstance(moment, datetime):
        raise ParameterError(f"at={show_value(moment)} is not a time; pass a datetime")
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise ParameterError(f"at={moment} is beyond the years 1 to 9999 in UTC; pass a time within them") from None


def to_ticks(moment: datetime) -> int:
    """Convert a time to microseconds since 1970.

    Args:
        moment: the time.

    Returns:
        The number of microseconds.

    Raises:
        ParameterError: it is not a time, or is outside the years 1 to 9999.

    Example:
        >>> to_ticks(datetime(1970, 1, 1, 0, 0, 1))
        1000000
    """
    return (to_utc(moment) - EPOCH) // TICK


def parse_duration(text: str) -> timedelta:
    """Read a duration: a number and a unit.

    Args:
        text: such as 30d, 36h, 90m, 45s, 2w or 3y; a year has 365 days.

    Returns:
        The duration.

    Raises:
        ParameterError: it is not a duration, or is too long.

    Example:
        >>> parse_duration("36h")
        datetime.timedelta(days=1, seconds=43200)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdwy])", text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ParameterError(
            f"{show_value(text)} is not a duration; write a number and a unit, such as 30d, 36h, 90m, 2w or 3y"
        )
    try:
        return timedelta(seconds=_LETTERS[match[2]] * float(match[1]))
    except OverflowError:
        raise ParameterError(f"{text!r} is too long; use less than 999999999 days") from None


def format_duration(duration: timedelta) -> str:
    """Format a duration for people.

    Args:
        duration: the duration, not negative.

    Returns:
        A text in days, hours, minutes and seconds, without those that are zero.

    Example:
        >>> format_duration(timedelta(days=30)), format_duration(timedelta(hours=36)), format_duration(timedelta())
        ('30 days', '1 day 12 hours', '0 seconds')
        >>> format_duration(timedelta(minutes=1, milliseconds=1500))
        '1 minute 1.5 seconds'
    """
    shown = []
    for name, unit in _UNITS.items():
        count, duration = divmod(duration, unit)
        shown.append(_count(count, name))
    shown.append(_count(round(duration.total_seconds(), 6), "second"))
    return " ".join(filter(None, shown)) or "0 seconds"


def _count(number: float, noun: str) -> str:
    return f"{number:.10g} {noun}{'' if number == 1 else 's'}" if number else ""


def add_duration(moment: datetime, duration: timedelta) -> datetime:
    """Add a duration to a time.

    Args:
        moment: the time, in UTC.
        duration: the duration, not negative.

    Returns:
        The sum, or the last possible time if the sum is beyond it.

    Example:
        >>> add_duration(EPOCH, timedelta.max).year
        9999
    """
    last = datetime.max.replace(tzinfo=UTC)
    return moment + duration if duration < last - moment else last


def make_missing_times(n: int) -> NDArray[np.datetime64]:
    """Make the times of n records that have none; faster than `np.full`.

    Args:
        n: number of records.

    Returns:
        Not-a-time for each; shape (n,).

    Example:
        >>> make_missing_times(2)
        array(['NaT', 'NaT'], dtype='datetime64[us]')
    """
    times = np.empty(n, NO_TIME.dtype)
    times.fill(NO_TIME)
    return times


def find_beyond_calendar(times: NDArray[np.datetime64]) -> Bools:
    """Find the times outside the years 1 to 9999, which are wrong once converted to microseconds.

    Args:
        times: in any unit.

    Returns:
        One flag per time; False where there is none.

    Example:
        >>> find_beyond_calendar(np.array(["2024", "10000", "NaT"], "datetime64[Y]"))
        array([False,  True, False])
    """
    years = times.astype("datetime64[Y]").view(np.int64)
    beyond: Bools = ~np.isnat(times) & ((years < _FIRST_YEAR) | (years > _LAST_YEAR))
    return beyond
