"""One dimension, exactly: the numbers are made whole, and the method that suits their number is chosen.

Guarantee: the nearest average of all allowed choices, or the first within the tolerance; held by
tests/subset/test_subset.py against brute force.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.subset.fixed_point import to_fixed
from vestige.subset.meet_in_middle import meet
from vestige.subset.schroeppel_shamir import sieve
from vestige.types import Bools, Floats, Ints

_SORTED_LIMIT = 22
_ONE = np.uint64(1)


@kernel
def _all_on_one_side(offsets: Ints, base: int, counted: int) -> tuple[bool, np.uint64]:
    """Whether all lie on one side of the target; then the nearest ones are best, and how many of them is tried out."""
    least, most = base, base
    for offset in offsets:
        least, most = min(least, offset), max(most, offset)
    if least < 0 < most:
        return False, np.uint64(0)
    order = np.argsort(np.abs(offsets))
    word, best, total = np.uint64(0), np.uint64(0), abs(base)
    nearest = total / counted if counted else np.inf
    for k in range(len(order)):
        total += abs(offsets[order[k]])
        word |= _ONE << np.uint64(order[k])
        if total < nearest * (counted + k + 1):
            nearest, best = total / (counted + k + 1), word
    return True, best


@kernel
def _nearest_alone(offsets: Ints, base: int, counted: int) -> tuple[float, np.uint64]:
    """The best single number beside those that must be in, or these alone: how near, and which."""
    best, word = (abs(base) / counted if counted else np.inf), np.uint64(0)
    for i in range(len(offsets)):
        if abs(base + offsets[i]) < best * (counted + 1):
            best, word = abs(base + offsets[i]) / (counted + 1), _ONE << np.uint64(i)
    return best, word


@kernel
def nearest_exactly(values: Floats, forced: Bools, free: Bools, target: float, tolerance: float) -> Bools:
    """Which of up to 48 `free` values, beside those that are `forced`, to choose; nonempty."""
    used = np.flatnonzero(forced | free)
    fixed, unit = to_fixed(values[used], target)
    offsets = fixed[free[used]]
    base, counted = fixed[forced[used]].sum(), forced.sum()
    settled, word = _all_on_one_side(offsets, base, counted)
    if not settled:
        proven = False
        if len(offsets) > _SORTED_LIMIT:
            best, alone = _nearest_alone(offsets, base, counted)
            word, proven = sieve(offsets, base, counted, best, tolerance / unit)
            word = word if word else alone
        if not proven:
            word = meet(offsets, base, counted, tolerance / unit)
    mask = forced.copy()
    place = 0
    for i in range(len(values)):
        if free[i]:
            mask[i] = (word >> np.uint64(place)) & _ONE == _ONE
            place += 1
    return mask
