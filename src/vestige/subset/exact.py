"""One dimension, exactly: the numbers are converted to fixed point, and the method that suits their count is chosen.

Guarantee: the nearest average of all allowed subsets, or the first within the tolerance; held by
tests/subset/test_subset.py against brute force.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.subset.fixed_point import to_fixed
from vestige.subset.four_list import search_four_lists
from vestige.subset.meet_in_middle import meet_in_middle
from vestige.types import Bools, Floats, Ints

_SORTED_LIMIT = 22
_ONE = np.uint64(1)


@kernel
def _choose_one_sided(offsets: Ints, base: int, forced_count: int) -> tuple[bool, np.uint64]:
    """Return whether all numbers lie on one side of the target, and the best subset, as a bit mask, if so.

    Then the nearest numbers are best, and every count of them is tried.
    """
    least, most = base, base
    for offset in offsets:
        least, most = min(least, offset), max(most, offset)
    if least < 0 < most:
        return False, np.uint64(0)
    order = np.argsort(np.abs(offsets))
    word, best, total = np.uint64(0), np.uint64(0), abs(base)
    nearest = total / forced_count if forced_count else np.inf
    for k in range(len(order)):
        total += abs(offsets[order[k]])
        word |= _ONE << np.uint64(order[k])
        if total < nearest * (forced_count + k + 1):
            nearest, best = total / (forced_count + k + 1), word
    return True, best


@kernel
def _find_nearest_single(offsets: Ints, base: int, forced_count: int) -> tuple[float, np.uint64]:
    """Return the residual of the best single number with the forced ones, or of these alone; and the bit mask."""
    best, word = (abs(base) / forced_count if forced_count else np.inf), np.uint64(0)
    for i in range(len(offsets)):
        if abs(base + offsets[i]) < best * (forced_count + 1):
            best, word = abs(base + offsets[i]) / (forced_count + 1), _ONE << np.uint64(i)
    return best, word


@kernel
def find_nearest_exactly(values: Floats, forced: Bools, free: Bools, target: float, tolerance: float) -> Bools:
    """Return the mask of the best nonempty subset of up to 48 numbers.

    Args:
        values: the numbers; shape (n,).
        forced: which must be in the subset; shape (n,).
        free: which may be in the subset, at most 48; shape (n,).
        target: the wanted average.
        tolerance: residual at which the search stops.

    Returns:
        The mask; shape (n,).
    """
    used = np.flatnonzero(forced | free)
    fixed, unit = to_fixed(values[used], target)
    offsets = fixed[free[used]]
    base, forced_count = fixed[forced[used]].sum(), forced.sum()
    is_one_sided, word = _choose_one_sided(offsets, base, forced_count)
    if not is_one_sided:
        proven = False
        if len(offsets) > _SORTED_LIMIT:
            best, alone = _find_nearest_single(offsets, base, forced_count)
            word, proven = search_four_lists(offsets, base, forced_count, best, tolerance / unit)
            word = word if word else alone
        if not proven:
            word = meet_in_middle(offsets, base, forced_count, tolerance / unit)
    mask = forced.copy()
    place = 0
    for i in range(len(values)):
        if free[i]:
            mask[i] = (word >> np.uint64(place)) & _ONE == _ONE
            place += 1
    return mask
