"""Of many numbers, a subset whose average is as near a target as a tolerance asks: the search that streams use.

Data on a lattice go to the exchanges of `lattice`. Otherwise up to 24 free numbers are chosen, half from each side of
the target and nearest first, and `meet` finds their best subset; while the tolerance is missed, more free numbers or
another choice of them are tried.
Guarantee: never farther than the nearest single number; at most 24 numbers means the optimum; held by
tests/subset/test_subset.py.
"""

from __future__ import annotations

import numpy as np

from vestige.compiling import kernel
from vestige.records import Bools, Floats, Ints
from vestige.subset.lattice import exchange_search, scale_of, steps_of
from vestige.subset.meet import meet
from vestige.subset.words import below

FREE = 24
_SIZES = np.array([16, 20, 24, 24, 24, 24])


@kernel
def average_of(values: Floats, mask: Bools) -> float:
    """The plain average of the values that `mask` selects; nan if none.

    Summed as differences from the first, so that a common offset costs no digits.
    """
    pivot, total, count = 0.0, 0.0, 0
    for i in range(len(values)):
        if mask[i]:
            if count == 0:
                pivot = values[i]
            total += values[i] - pivot
            count += 1
    if count == 0:
        return np.nan
    return pivot + total / count


@kernel
def choose_free(order: Ints, split: int, size: int, attempt: int, key: np.uint64) -> Ints:
    """`size` of the sorted numbers, half from each side of `split`: the nearest, or some of the nearest twice as many.

    `order` sorts the numbers; those before `split` lie below the target. A side that is short is filled from the other.
    """
    n = len(order)
    lower = min(split, max(size // 2, size - (n - split)))
    upper = min(n - split, size - lower)
    chosen = np.empty(lower + upper, np.int64)
    for side in range(2):
        take, there = (lower, split) if side == 0 else (upper, n - split)
        pool = take if attempt == 0 else min(there, 2 * take)
        ranks = np.arange(pool)
        for i in range(take):
            j = i if attempt == 0 else i + below(key, 1000 * attempt + 100 * side + i, pool - i)
            ranks[i], ranks[j] = ranks[j], ranks[i]
            chosen[i if side == 0 else lower + i] = order[split - 1 - ranks[i] if side == 0 else split + ranks[i]]
    return chosen


@kernel
def _spread_search(values: Floats, order: Ints, split: int, target: float, tolerance: float, key: np.uint64) -> Bools:
    """The best subset over several choices of free numbers."""
    n = len(values)
    best, best_mask = np.inf, np.zeros(n, np.bool_)
    mask = np.zeros(n, np.bool_)
    for attempt in range(len(_SIZES)):
        size = min(n, _SIZES[attempt])
        free = choose_free(order, split, size, max(0, attempt - 2), key)
        word = meet(values[free] - target, tolerance)
        mask[:] = False
        for j in range(len(free)):
            mask[free[j]] = (word >> np.uint64(j)) & np.uint64(1)
        residual = abs(average_of(values, mask) - target)
        if residual < best:
            best, best_mask[:] = residual, mask
        if best <= tolerance or (size == n and attempt >= 2):
            break
    return best_mask


@kernel
def search(values: Floats, target: float, tolerance: float, key: np.uint64) -> Bools:
    """A nonempty subset of `values`, as a mask, whose average is near `target`: within `tolerance` if that is found."""
    n = len(values)
    offsets = values - target
    order = np.argsort(offsets, kind="mergesort")
    split = 0
    while split < n and offsets[order[split]] < 0.0:
        split += 1
    mask = np.zeros(n, np.bool_)
    if split in (0, n):  # all on one side: every average is at least as far as the nearest number
        mask[order[0] if split == 0 else order[n - 1]] = True
        return mask
    scale = scale_of(values)
    if scale > 0.0:
        steps, spacing = steps_of(values, scale)
        if steps[order[n - 1]] <= n * n:
            lowest = np.rint(values[order[0]] * scale)
            inside, _ = exchange_search(steps[order], (target * scale - lowest) / spacing, key)
            if inside.any():
                mask[order] = inside
                return mask
    return _spread_search(values, order, split, target, tolerance, key)
