"""Time stamps of whole columns: ISO 8601, dates or Unix times in, microseconds of UTC out.

A time without a zone is UTC. A plain number such as 20240531 is a date; any other is a Unix time, in the only unit in
which it lies between 1990 and 2100. If the unit is given, every plain number is a Unix time in that unit. What
cannot be read raises `pyarrow.ArrowInvalid`, whose text may quote the value: do not show it, use `find_unreadable`.
Guarantee: the meaning of a row never depends on the rows beside it; held by tests/sources/test_timestamps.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv, types

from vestige.sources.protocol import Unit
from vestige.types import Ints, Times

ACCEPTED = (
    "ISO 8601 such as 2024-05-31T12:30:00Z (without a zone: UTC), dates such as 2024-05-31 or 20240531, and Unix times "
    "between 1990 and 2100 in s, ms, us or ns; give --time-unit (time_unit) for other numbers"
)
_ISO = (
    r"^(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[Tt ](?P<clock>\d{2}(?::\d{2}){0,2})(?:(?P<fraction>\.\d{1,6})\d*)? ?(?P<zone>[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$"
)
_WHOLE = r"^-?\d{1,19}$"
_BLANKS = "\t\n\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""All blanks of Unicode that are no control characters, but for tabs and line breaks."""
_MISSING = pa.array(csv.ConvertOptions().null_values)
_NOTATIONS = (pa.timestamp("us", "UTC"), pa.timestamp("us"))
_PROBE = 64
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MICROSECONDS = 10**6
_EARLIEST, _LATEST = (int(np.datetime64(year, "s").astype(np.int64)) for year in ("1990", "2100"))
_FIRST, _LAST = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31T23:59:59.999999", "us")
_FIRST_DATE, _LAST_DATE = 19000101, 21001231


def parse_times(column: pa.Array, unit: Unit | None = None) -> Times:
    """Parse a column of time stamps, dates, numbers or text.

    Args:
        column: column to parse.
        unit: unit of plain numbers, which count from 1970; default: inferred for each number on its own.

    Returns:
        The times in UTC; NaT where a value is missing.

    Raises:
        pyarrow.ArrowInvalid: a value cannot be read as a time.

    Example:
        >>> parse_times(pa.array(["2024-05-31T12:30:00+02:00", "20240531", None]))
        array(['2024-05-31T10:30:00.000000', '2024-05-31T00:00:00.000000',
                                      'NaT'], dtype='datetime64[us]')
    """
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_timestamp(kind) or types.is_date(kind):
        times = _from_instants(column)
    elif types.is_integer(kind):
        times = _from_whole(compute.cast(column, pa.int64()), unit)
    elif types.is_floating(kind):
        times = _from_floats(column, unit)
    elif types.is_decimal(kind):
        times = _from_numbers(compute.cast(column, pa.string()), unit)
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind):
        times = _from_text(normalize_text(compute.cast(column, pa.string())), unit)
    else:
        raise pa.ArrowInvalid("this type holds no times")
    if ((times < _FIRST) | (times > _LAST)).any():
        raise pa.ArrowInvalid("beyond the years 1 to 9999")
    return times


def find_unreadable(column: pa.Array, read: Callable[[pa.Array], object]) -> int:
    """Find the first value that cannot be read, in a column that has one.

    Args:
        column: column that `read` rejects.
        read: function that raises `pyarrow.ArrowInvalid` if a value cannot be read.

    Returns:
        The index of the value.

    Example:
        >>> find_unreadable(pa.array(["2024", "2024-05-31", "soon"]).slice(1), parse_times)
        1
    """
    start, n = 0, len(column)
    while n > 1:
        half = n // 2
        try:
            read(column.slice(start, half))
        except pa.ArrowInvalid:
            n = half
        else:
            start, n = start + half, n - half
    return start


def normalize_text(text: pa.Array) -> pa.Array:
    """Remove blanks around texts, and make those null that stand for a missing value.

    Args:
        text: column of text.

    Returns:
        The normalized column.

    Example:
        >>> normalize_text(pa.array([" 1", "NA"])).to_pylist()
        ['1', None]
    """
    text = compute.utf8_trim(text, _BLANKS)
    return compute.if_else(compute.is_in(text, value_set=_MISSING), None, text)


def _from_instants(column: pa.Array) -> Times:
    """Convert time stamps and dates, truncated to microseconds; a zone only says how to show them."""
    target = pa.timestamp("us", getattr(column.type, "tz", None))
    instants = compute.cast(column, options=compute.CastOptions(target, allow_time_truncate=True))
    return cast(Times, instants.to_numpy(zero_copy_only=False))


def _from_whole(column: pa.Array, unit: Unit | None) -> Times:
    """Convert whole numbers exactly, truncated to microseconds."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    numbers = column.fill_null(0).to_numpy()
    times = np.full(len(numbers), np.datetime64("NaT", "us"))
    for each, these in _find_units(numbers, ~missing, unit):
        times[these] = _from_count(numbers[these], each)
    if unit is None:
        dates = ~missing & np.isnat(times)
        times[dates] = _from_dates(numbers[dates])
    return times


def _from_floats(column: pa.Array, unit: Unit | None) -> Times:
    """Convert numbers with a fraction to the nearest microsecond; those without one as whole numbers."""
    numbers = compute.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    missing = np.isnan(numbers)
    whole = np.floor(numbers)
    fits = ~missing & (np.abs(whole) < 2.0**62)
    if (~missing & ~fits).any():
        raise pa.ArrowInvalid("beyond the range of times")
    floor = np.where(fits, whole, 0.0).astype(np.int64)
    times = np.full(len(numbers), np.datetime64("NaT", "us"))
    for each, these in _find_units(floor, fits, unit):
        parts = np.rint((numbers[these] - whole[these]) * (_MICROSECONDS / _PER_SECOND[each])).astype(np.int64)
        times[these] = _from_count(floor[these], each) + parts
    if unit is None:
        dates = fits & np.isnat(times)
        if (numbers[dates] != floor[dates]).any():
            raise pa.ArrowInvalid("not a date")
        times[dates] = _from_dates(floor[dates])
    return times


def _find_units(numbers: Ints, given: NDArray[np.bool_], unit: Unit | None) -> list[tuple[Unit, NDArray[np.bool_]]]:
    """Return each unit with a mask of the numbers in it; some numbers may be in none."""
    if unit is not None:
        return [(unit, given)]
    bounds = ((each, _EARLIEST * scale, _LATEST * scale) for each, scale in _PER_SECOND.items())
    return [(cast(Unit, each), given & (numbers >= low) & (numbers < high)) for each, low, high in bounds]


def _from_count(numbers: Ints, unit: Unit) -> Times:
    """Convert counts of a unit since 1970; an error if they are out of range."""
    if unit == "ns":
        return (numbers // 1_000).view("datetime64[us]")
    scale = _MICROSECONDS // _PER_SECOND[unit]
    if ((numbers <= -(2**62) // scale) | (numbers >= 2**62 // scale)).any():  # the least of all has no magnitude
        raise pa.ArrowInvalid("beyond the range of times")
    return (numbers * scale).view("datetime64[us]")


def _from_dates(numbers: Ints) -> Times:
    """Convert numbers such as 20240531; an error if one is not a date."""
    if ((numbers < _FIRST_DATE) | (numbers > _LAST_DATE)).any():
        raise pa.ArrowInvalid("neither a date nor a plausible Unix time")
    month = numbers // 100 % 100
    months = (numbers // 10_000 - 1970) * 12 + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]") + (numbers % 100 - 1)
    wrong = (month < 1) | (month > 12) | (days.astype("datetime64[M]").astype(np.int64) != months)
    if wrong.any():
        raise pa.ArrowInvalid("not a date")
    return cast(Times, days.astype("datetime64[us]"))


def _from_text(text: pa.Array, unit: Unit | None) -> Times:
    """Convert text: quickly if a column has one notation, else by a slower way that accepts any."""
    for kind in _NOTATIONS:
        with suppress(pa.ArrowInvalid):
            compute.cast(text.slice(0, _PROBE), kind)  # a cast that fails takes 30 times as long
            return _from_instants(compute.cast(text, kind))
    return _from_mixed(text, unit)


def _from_mixed(text: pa.Array, unit: Unit | None) -> Times:
    """Convert ISO 8601 in any form, and numbers where the text is not ISO 8601."""
    parts = compute.extract_regex(text, _ISO)
    day, clock, fraction, zone = (compute.struct_field(parts, i) for i in range(4))
    form = (day, "T", _fill_empty(clock, "00"), fraction, compute.utf8_upper(_fill_empty(zone, "Z")), "")
    instants = _from_instants(compute.cast(compute.binary_join_element_wise(*form), pa.timestamp("us", "UTC")))
    others = compute.if_else(parts.is_valid(), None, text)
    return np.where(np.isnat(instants), _from_numbers(others, unit), instants)


def _from_numbers(text: pa.Array, unit: Unit | None) -> Times:
    """Convert text of plain numbers; those without a fraction exactly."""
    whole = compute.match_substring_regex(text, _WHOLE)
    exact = _from_whole(compute.cast(compute.if_else(whole, text, None), pa.int64()), unit)
    rest = _from_floats(compute.cast(compute.if_else(whole, None, text), pa.float64()), unit)
    return np.where(np.isnat(exact), rest, exact)


def _fill_empty(text: pa.Array, instead: str) -> pa.Array:
    return compute.if_else(compute.equal(text, ""), instead, text)
