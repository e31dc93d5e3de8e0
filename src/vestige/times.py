"""Times of whole columns: ISO 8601, dates or Unix seconds in, microseconds of UTC out.

A time without a zone is UTC. What one row means never depends on the rows beside it. What cannot be read raises
`pyarrow.ArrowInvalid`, whose text may quote the value: show it to nobody, and ask `first_unreadable` for the row.
"""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv, types

Times = NDArray[np.datetime64]

ACCEPTED = "ISO 8601 such as 2024-05-31T12:30:00Z (without a zone: UTC), dates such as 2024-05-31, and Unix seconds"
_ISO = (
    r"^(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<clock>\d{2}(?::\d{2}){0,2})(?:(?P<fraction>\.\d{1,6})\d*)? ?(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?$"
)
_MISSING = pa.array(csv.ConvertOptions().null_values)
_NOTATIONS = (pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.float64())
_PROBE = 64
_MICROSECONDS = 1_000_000
_MOST_SECONDS = 2**63 / _MICROSECONDS


def parsed(column: pa.Array) -> Times:
    """The times in a column of timestamps, dates, Unix seconds or text; NaT where one is missing."""
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_timestamp(kind) or types.is_date(kind):
        return _from_instants(column)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _from_seconds(column)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind):
        return _from_text(spelled(compute.cast(column, pa.string())))
    raise pa.ArrowInvalid(f"{kind} is no kind of time")


def first_unreadable(column: pa.Array) -> int:
    """The index of the first time that cannot be read, in a column that has one."""
    start, n = 0, len(column)
    while n > 1:
        half = n // 2
        if _readable(column.slice(start, half)):
            start, n = start + half, n - half
        else:
            n = half
    return start


def spelled(text: pa.Array) -> pa.Array:
    """The text without blanks around it; null where it says that a value is missing, such as NA."""
    text = compute.utf8_trim_whitespace(text)
    return compute.if_else(compute.is_in(text, value_set=_MISSING), None, text)


def _readable(column: pa.Array) -> bool:
    try:
        parsed(column)
    except pa.ArrowInvalid:
        return False
    return True


def _from_instants(column: pa.Array) -> Times:
    """Timestamps and dates; a zone only says how to show them. Below a microsecond is cut off."""
    target = pa.timestamp("us", getattr(column.type, "tz", None))
    made = compute.cast(column, options=compute.CastOptions(target, allow_time_truncate=True))
    return cast(Times, made.to_numpy(zero_copy_only=False))


def _from_seconds(column: pa.Array) -> Times:
    seconds = compute.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if (np.abs(seconds) >= _MOST_SECONDS).any():
        raise pa.ArrowInvalid("beyond the range of times")
    whole = np.floor(seconds)  # taken apart, so that no digit is lost to the size of the whole
    missing = np.isnan(seconds)
    made = np.where(missing, 0.0, whole).astype(np.int64) * _MICROSECONDS
    made += np.where(missing, 0.0, np.rint((seconds - whole) * _MICROSECONDS)).astype(np.int64)
    return np.where(missing, np.datetime64("NaT"), made.view("datetime64[us]"))


def _from_text(text: pa.Array) -> Times:
    """The quick ways fit a column in one notation, the last way fits any."""
    for kind in _NOTATIONS:
        with suppress(pa.ArrowInvalid):
            compute.cast(text.slice(0, _PROBE), kind)  # since a cast that fails takes 30 times as long
            return parsed(compute.cast(text, kind))
    return _from_mixed(text)


def _from_mixed(text: pa.Array) -> Times:
    """ISO 8601 brought into one form, and numbers where the text has not its shape."""
    parts = compute.extract_regex(text, _ISO)
    day, clock, fraction, zone = (compute.struct_field(parts, i) for i in range(4))
    form = (day, "T", _or(clock, "00"), fraction, _or(zone, "Z"), "")
    instants = _from_instants(compute.cast(compute.binary_join_element_wise(*form), pa.timestamp("us", "UTC")))
    others = compute.if_else(parts.is_valid(), None, text)
    return np.where(np.isnat(instants), _from_seconds(compute.cast(others, pa.float64())), instants)


def _or(text: pa.Array, instead: str) -> pa.Array:
    return compute.if_else(compute.equal(text, ""), instead, text)
