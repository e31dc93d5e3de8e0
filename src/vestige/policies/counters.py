"""Tables of values with two counts each, in twenty bytes an entry: the states of quantiles and frequent values.

An entry is a float64 and two whole numbers below 2^48. Entries that are not in use are zero; the first count of one in
use is not.
Guarantee: a table is read as it was written; held by tests/policies/test_top_k.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige.errors import RuleError
from vestige.types import Floats, Ints

ENTRY_BITS = 160
COUNT_BITS = 48
_WIDTH = COUNT_BITS // 8


class Counters(NamedTuple):
    """A table.

    Attributes:
        values: one value for each entry.
        first: its first count.
        second: its second count.
        used: the number of entries in use, which come first.
    """

    values: Floats
    first: Ints
    second: Ints
    used: int


def count_entries(state: bytes) -> int:
    """Count the entries of a table, those that are not in use too.

    Args:
        state: twenty bytes for each entry.

    Returns:
        their number.

    Example:
        >>> count_entries(bytes(40))
        2
    """
    return 8 * len(state) // ENTRY_BITS


def unpack(state: bytes, size: int) -> Counters:
    """Read a table.

    Args:
        state: twenty bytes for each entry.
        size: the number of entries that the arrays have room for.

    Returns:
        the table.

    Example:
        >>> unpack(pack(Counters(np.array([2.5]), np.array([3]), np.array([1]), 1), 2), 2)
        Counters(values=array([2.5, 0. ]), first=array([3, 0]), second=array([1, 0]), used=1)
    """
    entries = np.frombuffer(state, np.uint8).reshape(-1, ENTRY_BITS // 8)
    wide = np.zeros((3, size, 8), np.uint8)
    wide[0, : len(entries)] = entries[:, :8]
    wide[1, : len(entries), :_WIDTH] = entries[:, 8 : 8 + _WIDTH]
    wide[2, : len(entries), :_WIDTH] = entries[:, 8 + _WIDTH :]
    values, first, second = wide.view("<u8").reshape(3, size)
    counts = first.astype(np.int64)
    return Counters(values.view("<f8").astype(np.float64), counts, second.astype(np.int64), int((counts > 0).sum()))


def pack(counters: Counters, size: int) -> bytes:
    """Write a table.

    Args:
        counters: the table; entries beyond those in use are ignored.
        size: the number of entries to write.

    Returns:
        twenty bytes for each entry.

    Raises:
        RuleError: a count does not fit.
    """
    values, first, second, used = counters
    if max(first[:used].max(initial=0), second[:used].max(initial=0)) >> COUNT_BITS:
        raise RuleError(f"a count is above 2^{COUNT_BITS}, which an entry cannot hold; start a new stream")
    entries = np.zeros((size, ENTRY_BITS // 8), np.uint8)
    for numbers, start, width in ((values, 0, 8), (first, 8, _WIDTH), (second, 8 + _WIDTH, _WIDTH)):
        wide = numbers[:used].astype("<f8" if start == 0 else "<i8").view(np.uint8).reshape(used, 8)
        entries[:used, start : start + width] = wide[:, :width]
    return entries.tobytes()
