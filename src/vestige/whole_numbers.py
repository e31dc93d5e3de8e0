"""Whole numbers beyond 2^53, of which floats hold only some: which are exact, and codes that keep all of them apart.

A code is a float nearer to zero than 2^-511; values that lie there are refused where there are codes. Its bits are the
number itself, from 2^53 up to below 4.59 10^18, which ids that count and times in nanoseconds are; or 53 bits of the
hash that texts have, for negative and larger ones. So two different numbers have one code only if both are hashed, with
a probability of 2^-53.
Guarantee: codes are those of Python's whole numbers in every way in; held by tests/test_whole_numbers.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vestige.types import Bools, Floats

WholeNumbers = Literal["refused", "coded", "floored"]
"""What becomes of whole numbers beyond 2^53 in a column: they are refused unless a float holds them; or codes; or the
next float that is not above them, which no float lies between, so that they are in the right bin."""
SAFE = 2**53 - 1
"""The largest whole number that is not the float of another one too."""
REFUSED = float(np.finfo(np.float64).max)
"""Stands for a whole number that is refused; no policy takes such a large one."""
TOO_SMALL = -REFUSED
"""Stands for a float that would be taken for a code."""
LARGEST_EXACT = 2**62 - 2**54
"""Whole numbers below it, from 2^53 on, have codes that say them."""
_NEAR = 2.0**-511
"""Codes are nearer to zero."""
_HASHES, _GAP, _SIGN = 1 << 52, 1 << 61, 1 << 63
_WRITTEN = re.compile(r"\s*([+-]?\d+)(?:\.0*)?\s*")


def is_wide(table: NDArray[Any]) -> bool:
    """Tell whether an array has numbers beyond those that are floats without doubt.

    Args:
        table: numbers of any kind.

    Returns:
        Whether it has.

    Example:
        >>> is_wide(np.array([1, 2**53])), is_wide(np.array([1.5, np.nan]))
        (True, False)
    """
    if table.dtype.kind not in "iuf" or (table.dtype.kind in "iu" and table.dtype.itemsize < 8) or not table.size:
        return False
    if table.dtype.kind == "f":
        return bool((np.abs(table) > SAFE).any())
    return bool(table.max() > SAFE or table.min() < -SAFE)


def read_column(column: NDArray[Any], kind: WholeNumbers) -> Floats:
    """Read a column of numbers as floats.

    Args:
        column: whole numbers, floats, or objects that are either, or None where one is missing; shape (n,).
        kind: what becomes of whole numbers beyond 2^53.

    Returns:
        The floats, nan where missing; shape (n,).

    Raises:
        TypeError: an object is not a number.
        ValueError: the same.

    Example:
        >>> read_column(np.array([3, 2**53 + 1]), "refused")[1] == REFUSED
        np.True_
        >>> [decode(code) for code in read_column(np.array([3, 2**53 + 1]), "coded").tolist()]
        [3.0, 9007199254740993]
    """
    if column.dtype.kind in "iu":
        return _read_integers(column, kind)
    if column.dtype.kind != "O":
        return column.astype(np.float64)
    return np.array([_read_one(value, kind) for value in column.tolist()], np.float64)


def _read_integers(column: NDArray[Any], kind: WholeNumbers) -> Floats:
    floats: Floats = column.astype(np.float64)
    wide = column > SAFE
    if column.dtype.kind == "i":
        wide |= column < -SAFE
    if not wide.any():
        return floats
    numbers = column[wide]
    if kind == "refused":
        floats[wide] = np.where(_find_exact(numbers), floats[wide], REFUSED)
    elif kind == "coded":
        floats[wide] = _code_integers(numbers)
    else:
        floats[wide] = [_floor(number) for number in numbers.tolist()]
    return floats


def _find_exact(numbers: NDArray[Any]) -> Bools:
    """Which 64-bit numbers have no more than 53 bits between the first and the last that is set."""
    size = np.abs(numbers).view(np.uint64) if numbers.dtype.kind == "i" else numbers.astype(np.uint64)
    found: Bools = (size >> np.uint64(53)) < (size & (~size + np.uint64(1)))
    return found


def _code_integers(numbers: NDArray[Any]) -> Floats:
    """Codes of 64-bit numbers beyond `SAFE`."""
    codes = np.empty(len(numbers))
    exact = (numbers > SAFE) & (numbers < LARGEST_EXACT)
    payload = numbers[exact].astype(np.uint64) + np.uint64(2 * _HASHES)
    payload += np.where(payload >= _GAP, np.uint64(_HASHES), np.uint64(0))
    codes[exact] = ((payload & np.uint64(_GAP - 1)) | ((payload >> np.uint64(61)) << np.uint64(63))).view(np.float64)
    if not exact.all():
        others, places = np.unique(numbers[~exact], return_inverse=True)
        codes[~exact] = np.array([_hash(number) for number in others.tolist()])[places]
    return codes


def _hash(number: int) -> float:
    digest = int.from_bytes(blake2b(str(number).encode(), digest_size=8).digest()) >> 11
    return float(np.uint64(_HASHES + digest).view(np.float64))


def _read_one(value: Any, kind: WholeNumbers) -> float:
    if value is None:
        return np.nan
    number = _find_whole(value)
    if number is None or -SAFE <= number <= SAFE:
        return float(value)
    if kind == "coded":
        if SAFE < number < LARGEST_EXACT:
            return float(_code_integers(np.array([number]))[0])
        return _hash(number)
    try:
        return _floor(number) if kind == "floored" or int(float(number)) == number else REFUSED
    except OverflowError:
        return REFUSED


def _find_whole(value: Any) -> int | None:
    """The whole number that an exact number is; None for another one, and for a float."""
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Fraction) or (isinstance(value, Decimal) and value.is_finite() and value.adjusted() < 400):
        return int(value) if value == int(value) else None
    return None


def _floor(number: int) -> float:
    found = float(number)
    return found if found <= number else float(np.nextafter(found, -np.inf))


def parse_number(text: str) -> int | float:
    """Read a number as it is written: digits, perhaps with zeros after a point, are a whole number.

    Args:
        text: a number.

    Returns:
        The number.

    Example:
        >>> parse_number("9007199254740993.0"), parse_number("9.007199254740993e15"), parse_number("007")
        (9007199254740993, 9007199254740992.0, 7)
    """
    written = _WRITTEN.fullmatch(text)
    return float(text) if written is None else int(written[1])


def decode(value: float) -> float | int | str:
    """Give the number that a value of a statistic stands for.

    Args:
        value: a float, or a code.

    Returns:
        The float as it is; the whole number of a code; of one that is hashed, the first 52 bits of its hash in a text.

    Example:
        >>> codes = read_column(np.array([2**61, -(2**60), 7]), "coded")
        >>> [decode(code) for code in codes.tolist()]
        [2305843009213693952, 'whole number with BLAKE2b 2293e7b3c7793', 7.0]
    """
    bits = int(np.float64(value).view(np.uint64))
    size = bits & (_SIGN - 1)
    if size >= _GAP or not size:
        return value
    payload = size | (_GAP if bits & _SIGN else 0)
    if payload < 4 * _HASHES:
        return f"whole number with BLAKE2b {payload - _HASHES >> 1:013x}"
    return payload - (_HASHES if payload >= _GAP else 0) - 2 * _HASHES


def find_codes(values: Floats) -> Bools:
    """Find what is a code among values, or would be taken for one.

    Args:
        values: floats, or codes.

    Returns:
        One flag each.

    Example:
        >>> find_codes(np.array([0.0, 1e-100, 1e-200, np.nan])).tolist()
        [False, False, True, False]
    """
    found: Bools = (values != 0.0) & (np.abs(values) < _NEAR)
    return found


def decode_all(values: Floats) -> NDArray[Any]:
    """Give what values stand for; see `decode`.

    Args:
        values: floats, or codes; shape (n,).

    Returns:
        The values as they are if there is no code among them, else an array of objects; shape (n,).

    Example:
        >>> decode_all(read_column(np.array([7, 2**60]), "coded"))
        array([7, 1152921504606846976], dtype=object)
    """
    if not find_codes(values).any():
        return values
    found = np.empty(len(values), np.object_)
    found[:] = [_tidy(decode(value)) for value in values.tolist()]
    return found


def _tidy(value: float | int | str) -> float | int | str:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def to_plain(value: Any) -> Any:
    """Convert a value for JSON, many readers of which make floats of all numbers.

    Args:
        value: a value.

    Returns:
        The digits of a whole number beyond 2^53 as text; anything else as it is.

    Example:
        >>> to_plain(2**53 - 1), to_plain(2**53 + 1), to_plain(0.5)
        (9007199254740991, '9007199254740993', 0.5)
    """
    return str(value) if isinstance(value, int) and abs(value) > SAFE else value


def stack_columns(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Make rows of columns without rounding whole numbers.

    Args:
        columns: of the same length.

    Returns:
        Whole numbers if all columns hold these, else floats, or objects if some hold whole numbers beyond 2^53.

    Example:
        >>> stack_columns([np.array([1.5]), np.array([2**60 + 1])])
        array([[1.5, 1152921504606846977]], dtype=object)
    """
    kinds = {column.dtype for column in columns}
    if len(kinds) == 1 or not any(column.dtype.kind == "O" or is_wide(column) for column in columns):
        return np.column_stack(columns)
    return np.column_stack([column.astype(np.object_) for column in columns])
