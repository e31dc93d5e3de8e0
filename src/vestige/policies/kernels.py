"""Kernels of summaries that count: what one record does to a quantile summary, and to a table of frequent values.

Both take records one at a time, so that rows in one call or in several lead to the same state.
Guarantee: held by tests/policies/test_quantiles.py and tests/policies/test_top_k.py.
"""

from __future__ import annotations

from vestige._numba import kernel
from vestige.types import Floats, Ints

_MAX_COUNT = 1 << 62


@kernel
def summarize(rows: Floats, values: Floats, gains: Ints, slacks: Ints, single: Ints, used: int) -> int:
    """Add records to a quantile summary of Greenwald and Khanna (2001), which has one place more than it may fill.

    Let F(v) be the number of records up to v. Then the sum of `gains` up to an entry is at most F of its value, and at
    least F less its slack. `single` is 1 where all that an entry gained are records of its very value.

    Args:
        rows: the records; shape (n,).
        values: the values of the entries, in ascending order; shape (size + 1,).
        gains: how much each adds to the lower bound of F; shape (size + 1,).
        slacks: how much higher F may be; shape (size + 1,).
        single: see above; shape (size + 1,).
        used: the number of entries.

    Returns:
        the number of entries after them.
    """
    size = len(values) - 1
    for x in rows:
        low, high = 0, used
        while low < high:
            middle = (low + high) // 2
            if values[middle] < x:
                low = middle + 1
            else:
                high = middle
        if low < used and values[low] == x:
            gains[low] += 1
            continue
        slack = 0
        if 0 < low < used:  # all but one of the records of the next entry may lie below x, or none if it is single
            slack = slacks[low] if single[low] else gains[low] + slacks[low] - 1
        for i in range(used, low, -1):
            values[i], gains[i], slacks[i], single[i] = values[i - 1], gains[i - 1], slacks[i - 1], single[i - 1]
        values[low], gains[low], slacks[low], single[low] = x, 1, slack, 1
        used += 1
        if used > size:  # merge the entry whose absence is felt least into the next; both ends stay
            least, cost = 1, _MAX_COUNT
            for i in range(1, used - 1):
                merged = gains[i] + gains[i + 1] + slacks[i + 1]
                if merged < cost:
                    least, cost = i, merged
            gains[least + 1] += gains[least]
            single[least + 1] = 0
            used -= 1
            for i in range(least, used):
                values[i], gains[i], slacks[i], single[i] = values[i + 1], gains[i + 1], slacks[i + 1], single[i + 1]
    return used


@kernel
def count_frequent(rows: Floats, values: Floats, counts: Ints, errors: Ints, used: int) -> int:
    """Add records to a table of counters, the Space-Saving of Metwally, Agrawal and El Abbadi (2005).

    A value that has no counter takes over the smallest one, the first of them, and its count.

    Args:
        rows: the records; shape (n,).
        values: the value of each counter; shape (size,).
        counts: upper bounds of how often each value has arrived; shape (size,).
        errors: how much too high they may be; shape (size,).
        used: the number of counters in use.

    Returns:
        the number of counters in use after them.
    """
    for x in rows:
        found = -1
        for i in range(used):
            if values[i] == x:
                found = i
                break
        if found < 0 and used < len(values):
            found = used
            used += 1
            values[found], counts[found], errors[found] = x, 0, 0
        elif found < 0:
            found = 0
            for i in range(1, used):
                if counts[i] < counts[found]:
                    found = i
            values[found], errors[found] = x, counts[found]
        counts[found] += 1
    return used
