"""The subset whose average is nearest a target when all values lie on a lattice (whole minutes, cents).

No average of c lattice values is nearer the target than the nearest multiple of 1/c, so the counts are tried in the
order of that bound, and for each count a subset with just that sum is sought: the window of c neighbours in sorted
order whose sum is nearest below, then exchanges that add what is missing. A hit at the first count is the proven
optimum. Where exchanges fail, a dynamic programme over (count, sum) decides.
Guarantee: `exact` is said only where proven; held by tests/subset/test_subset.py against brute force.
"""

from __future__ import annotations

import numpy as np

from vestige.compiling import kernel
from vestige.records import Bools, Floats, Ints
from vestige.subset.words import below

_EXCHANGES = 24
_DECIMALS = 4
_LARGEST = 2.0**40


@kernel
def scale_of(values: Floats) -> float:
    """The power of ten that makes whole numbers of all `values`, or 0 if none up to 10^4 does."""
    scale = 1.0
    for _ in range(_DECIMALS + 1):
        whole = True
        for value in values:
            scaled = value * scale
            if not abs(scaled) < _LARGEST or abs(scaled - np.rint(scaled)) > 1e-15 * abs(scaled):
                whole = False
                break
        if whole:
            return scale
        scale *= 10.0
    return 0.0


@kernel
def steps_of(values: Floats, scale: float) -> tuple[Ints, int]:
    """`values` in whole steps of their common spacing above the smallest, and that spacing in units of 1/scale."""
    n = len(values)
    steps = np.empty(n, np.int64)
    for i in range(n):
        steps[i] = np.int64(np.rint(values[i] * scale))
    lowest = steps.min()
    spacing = 0
    for i in range(n):
        steps[i] -= lowest
        a, b = spacing, steps[i]
        while b:
            a, b = b, a % b
        spacing = a
    if spacing > 1:
        steps //= spacing
    return steps, max(spacing, 1)


@kernel
def _exchange(steps: Ints, inside: Bools, missing: int) -> bool:
    """Swap one record in for one out so that the sum grows by `missing`, if any pair does; `steps` is sorted."""
    n = len(steps)
    leaver, comer = 0, 0
    while leaver < n and comer < n:
        if not inside[leaver]:
            leaver += 1
            continue
        if inside[comer]:
            comer += 1
            continue
        gap = steps[comer] - steps[leaver] - missing
        if gap == 0:
            inside[leaver], inside[comer] = False, True
            return True
        if gap < 0:
            comer += 1
        else:
            leaver += 1
    return False


@kernel
def _window(sums: Ints, count: int, wanted: int) -> int:
    """Where the last run of `count` neighbours starts whose sum does not exceed `wanted`; the first never does."""
    low, high = 0, len(sums) - 1 - count
    while low < high:
        middle = (low + high + 1) // 2
        if sums[middle + count] - sums[middle] <= wanted:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _reach(steps: Ints, sums: Ints, count: int, wanted: int, key: np.uint64, inside: Bools) -> bool:
    """Mark `count` of the sorted `steps` that sum to `wanted`, if exchanges find them."""
    n = len(steps)
    start = _window(sums, count, wanted)
    for attempt in range(_EXCHANGES):
        inside[:] = False
        inside[start : start + count] = True
        missing = wanted - (sums[start + count] - sums[start])
        if missing == 0:
            return True
        if count == n:
            return False
        if attempt > 0:
            leaver = start + below(key, 2 * attempt, count)
            comer = below(key, 2 * attempt + 1, n - count)
            if comer >= start:
                comer += count
            inside[leaver], inside[comer] = False, True
            missing -= steps[comer] - steps[leaver]
            if missing == 0:
                return True
        if _exchange(steps, inside, missing):
            return True
    return False


@kernel
def _by_bound(sums: Ints, target: float) -> tuple[Ints, Ints]:
    """The counts 1..n, most promising first, and for each the sum that would bring its average nearest `target`.

    No sum of c records lies below that of the c smallest or above that of the c largest.
    """
    n = len(sums) - 1
    wanted, bounds = np.empty(n, np.int64), np.empty(n)
    for c in range(1, n + 1):
        wanted[c - 1] = min(max(np.int64(np.rint(c * target)), sums[c]), sums[n] - sums[n - c])
        bounds[c - 1] = abs(wanted[c - 1] / c - target)
    order = np.argsort(bounds, kind="mergesort")
    return order + 1, wanted[order]


@kernel
def exchange_search(steps: Ints, target: float, key: np.uint64) -> tuple[Bools, bool]:
    """Some of the sorted `steps` whose average is near `target`, and whether it is proven the nearest.

    The counts are tried in the order of their bounds, so a success at the first is the optimum. An empty mask means
    that exchanges reached no bound.
    """
    n = len(steps)
    sums = np.zeros(n + 1, np.int64)
    sums[1:] = np.cumsum(steps)
    counts, wanted = _by_bound(sums, target)
    inside = np.zeros(n, np.bool_)
    for rank in range(n):
        if _reach(steps, sums, counts[rank], wanted[rank], key + np.uint64(counts[rank]), inside):
            return inside, rank == 0
    inside[:] = False
    return inside, False


@kernel
def complete(steps: Ints, target: float) -> Bools:
    """The sorted `steps` whose average is nearest `target`, by a dynamic programme over (count, sum).

    `reached[c, s]` is the first record with which c records can sum to s, so the subset can be read back: the rest
    of it was reached by earlier records.
    """
    n = len(steps)
    total = steps.sum()
    reached = np.full((n + 1, total + 1), np.int32(n), np.int32)
    reached[0, 0] = -1
    sum_so_far = 0
    for i in range(n):
        step = steps[i]
        sum_so_far += step
        for c in range(i, -1, -1):
            for s in range(sum_so_far - step, -1, -1):
                if reached[c, s] < i and reached[c + 1, s + step] == n:
                    reached[c + 1, s + step] = i
    best, best_count, best_sum = np.inf, 0, 0
    for c in range(1, n + 1):
        for s in range(total + 1):
            if reached[c, s] < n and abs(s / c - target) < best:
                best, best_count, best_sum = abs(s / c - target), c, s
    inside = np.zeros(n, np.bool_)
    while best_count > 0:
        i = reached[best_count, best_sum]
        inside[i] = True
        best_count, best_sum = best_count - 1, best_sum - steps[i]
    return inside
