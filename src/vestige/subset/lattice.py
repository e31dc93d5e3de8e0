"""The subset whose average is nearest a target when all values lie on a lattice (whole minutes, cents).

No average of c lattice values is nearer the target than the nearest multiple of 1/c that c of them could sum to, so the
counts are tried in the order of that bound, and for each count a subset with just that sum is sought: the window of c
neighbours in sorted order whose sum is nearest below, then exchanges that add what is missing. A hit at the first count
is the proven optimum. Where exchanges fail, a dynamic programme over (count, sum) decides.
Guarantee: `exact` is said only where proven; held by tests/subset/test_subset.py against brute force.
"""

from __future__ import annotations

import numpy as np

from vestige.compiling import kernel
from vestige.records import Bools, Floats, Ints
from vestige.subset.desk import Desk, sort_order
from vestige.subset.words import below

_EXCHANGES = 24
_DECIMALS = 4
_LARGEST = 2.0**40


@kernel
def scale_of(values: Floats, n: int) -> float:
    """The power of ten that makes whole numbers of the first `n` values, or 0 if none up to 10^4 does."""
    scale = 1.0
    for _ in range(_DECIMALS + 1):
        whole = True
        for i in range(n):
            scaled = values[i] * scale
            if not abs(scaled) < _LARGEST or abs(scaled - np.rint(scaled)) > 1e-15 * abs(scaled):
                whole = False
                break
        if whole:
            return scale
        scale *= 10.0
    return 0.0


@kernel
def lay_steps(values: Floats, n: int, scale: float, desk: Desk) -> tuple[float, float]:
    """Write the values, sorted by the desk's order, into its steps: multiples of a common spacing above the least.

    Returns the least value and the spacing, both in units of 1/scale.
    """
    steps, order = desk.steps, desk.order
    least = np.int64(np.rint(values[order[0]] * scale))
    spacing = np.int64(0)
    for i in range(n):
        steps[i] = np.int64(np.rint(values[order[i]] * scale)) - least
        a, b = spacing, steps[i]
        while b:
            a, b = b, a % b
        spacing = a
    spacing = max(spacing, np.int64(1))
    for i in range(n):
        steps[i] //= spacing
    return np.float64(least), np.float64(spacing)


@kernel
def nearest_fraction(target: float, most: int) -> float:
    """How near `target` an average of up to `most` whole numbers can be."""
    best = np.inf
    for c in range(1, most + 1):
        best = min(best, abs(np.rint(c * target) / c - target))
    return best


@kernel
def _exchange(steps: Ints, n: int, inside: Bools, missing: int) -> bool:
    """Swap one record in for one out so that the sum grows by `missing`, if any pair does; `steps` is sorted."""
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
def _window(totals: Ints, n: int, count: int, wanted: int) -> int:
    """Where the last run of `count` neighbours starts whose sum does not exceed `wanted`; the first never does."""
    low, high = 0, n - count
    while low < high:
        middle = (low + high + 1) // 2
        if totals[middle + count] - totals[middle] <= wanted:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _reach(desk: Desk, n: int, count: int, wanted: int, key: np.uint64) -> bool:
    """Mark `count` of the desk's sorted steps that sum to `wanted`, if exchanges find them."""
    steps, totals, inside = desk.steps, desk.totals, desk.inside
    start = _window(totals, n, count, wanted)
    for attempt in range(_EXCHANGES):
        for i in range(n):
            inside[i] = start <= i < start + count
        missing = wanted - (totals[start + count] - totals[start])
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
        if _exchange(steps, n, inside, missing):
            return True
    return False


@kernel
def reach_bounds(desk: Desk, n: int, target: float, key: np.uint64) -> int:
    """Mark in the desk those of its `n` sorted steps whose average is near `target`; how many counts promised more.

    The counts are tried in the order of their bounds, so 0 proves the optimum; n means that no bound was reached.
    No sum of c records lies below that of the c smallest or above that of the c largest.
    """
    totals, wanted, bounds = desk.totals, desk.wanted, desk.bounds
    totals[0] = 0
    for i in range(n):
        totals[i + 1] = totals[i] + desk.steps[i]
    for c in range(1, n + 1):
        wanted[c - 1] = min(max(np.int64(np.rint(c * target)), totals[c]), totals[n] - totals[n - c])
        bounds[c - 1] = abs(wanted[c - 1] / c - target)
    sort_order(bounds, n, desk.ranks, desk.spare)
    for rank in range(n):
        count = desk.ranks[rank] + 1
        if _reach(desk, n, count, wanted[count - 1], key + np.uint64(count)):
            return rank
    return n


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
