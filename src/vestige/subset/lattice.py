"""The subset whose average is nearest a target when all values lie on a lattice (whole minutes, cents).

No average of c lattice values is nearer the target than the nearest multiple of 1/c that c of them could sum to, so the
counts are tried in the order of that bound, and for each count a subset with just that sum is sought: the window of c
neighbours in sorted order whose sum is nearest below, then exchanges that add what is missing. Once no bound is nearer
than what was found, that is the proven optimum. Where exchanges fail, a dynamic programme over (count, sum) decides; it
follows only what could end nearer than they came.
Guarantee: 0 is returned only where the optimum is proven, up to 2^-51 of a step; held by tests/subset/test_lattice.py
against brute force.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import below
from vestige.subset.workspace import Workspace
from vestige.types import Bools, Floats, Ints

_EXCHANGES = 48
_SUMS = 16
_TIE = 2.0**-51
"""Averages that differ by less, in lattice steps, are equal but for rounding."""
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
def lay_steps(values: Floats, n: int, scale: float, workspace: Workspace) -> tuple[float, float]:
    """Write the values, sorted by the desk's order, into its steps: multiples of a common spacing above the least.

    Returns the least value and the spacing, both in units of 1/scale.
    """
    steps, order = workspace.steps, workspace.order
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


class Aim(NamedTuple):
    """A target on the lattice, and what must be in, so that deviations keep their digits.

    Choosing c steps of sum s misses by (lead + s - c * whole) - (counted + c) * part: whole numbers, and one product.

    Attributes:
        whole: the whole number nearest the target.
        part: the target less that, without rounding.
        lead: the sum of those that must be in, less `whole` each.
        counted: how many must be in.
    """

    whole: int
    part: float
    lead: int
    counted: int


@kernel
def take_aim(steps: Ints, n: int, target: float, base: int, counted: int) -> Aim:
    """The aim at `target`, or where that lies beyond all averages, at some other point there: the order is the same."""
    low, high = np.inf, -np.inf
    if n > 0:
        low, high = np.float64(steps[0]), np.float64(steps[n - 1])
    if counted > 0:
        low, high = min(low, np.floor(base / counted) - 1.0), max(high, np.ceil(base / counted) + 1.0)
    target = min(max(target, low), high)
    whole = int(np.rint(target))
    return Aim(whole, target - whole, base - counted * whole, counted)


@kernel
def residual_of(aim: Aim, count: int, total: int) -> float:
    """How far from the target the average of `count` steps of sum `total` is, with those that must be in."""
    with_all = aim.counted + count
    return abs((aim.lead + total - count * aim.whole) - with_all * aim.part) / with_all


@kernel
def nearest_sum(totals: Ints, n: int, count: int, aim: Aim) -> int:
    """The sum that would bring the average of `count` nearest, if not below all such sums, or above."""
    wanted = int(np.rint((aim.counted + count) * aim.part)) + count * aim.whole - aim.lead
    return max(int(totals[count]), min(wanted, int(totals[n] - totals[n - count])))


@kernel
def useful_sums(totals: Ints, n: int, count: int, aim: Aim, best: float) -> tuple[int, int]:
    """The least and the greatest sum that would bring the average of `count` nearer than `best`."""
    with_all = aim.counted + count
    middle, radius, shift = with_all * aim.part, (best - _TIE) * with_all, count * aim.whole - aim.lead
    low = int(np.ceil(middle - radius)) + shift
    high = int(np.floor(middle + radius)) + shift
    return max(low, totals[count]), min(high, totals[n] - totals[n - count])


@kernel
def narrow(steps: Ints, totals: Ints, n: int, count: int, low: int, high: int) -> tuple[int, int]:
    """The stretch of steps that can be among `count` whose sum is in `low` .. `high`; an empty one if no such are.

    A step cannot if it is too large even with the least others, or too small even with the greatest; each that goes
    makes room for the next to go. For two records this is the search by two pointers, hence complete.
    """
    first, last = 0, n
    while last - first >= count:
        least = totals[first + count] - totals[first]
        most = totals[last] - totals[last - count]
        if least > high or most < low:
            break
        if least - steps[first + count - 1] + steps[last - 1] > high:
            last -= 1
        elif most - steps[last - count] + steps[first] < low:
            first += 1
        else:
            return first, last
    return first, first


@kernel
def _exchange(steps: Ints, inside: Bools, first: int, last: int, missing: int, lean: float) -> tuple[int, int, int]:
    """The records to swap out and in so that the sum grows by `missing`, or nearly; and by how much it then is over.

    Of the swaps met on the way, `over + lean` is nearest zero. `steps` is sorted, so two pointers find each `missing`.
    """
    leaver, comer = first, first
    best, best_leaver, best_comer, best_over = np.inf, -1, -1, 0
    while True:
        while leaver < last and not inside[leaver]:
            leaver += 1
        while comer < last and inside[comer]:
            comer += 1
        if last in (leaver, comer):
            return best_leaver, best_comer, best_over
        over = steps[comer] - steps[leaver] - missing
        if abs(over + lean) < best:
            best, best_leaver, best_comer, best_over = abs(over + lean), leaver, comer, over
        if over == 0:
            return leaver, comer, 0
        if over < 0:
            comer += 1
        else:
            leaver += 1


@kernel
def _window(totals: Ints, first: int, last: int, count: int, wanted: int) -> int:
    """Where the last run of `count` neighbours starts whose sum does not exceed `wanted`; the first never does."""
    low, high = first, last - count
    while low < high:
        middle = (low + high + 1) // 2
        if totals[middle + count] - totals[middle] <= wanted:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _note(workspace: Workspace, n: int, leaver: int, comer: int) -> None:
    """Keep in `spare` what is inside, with one record swapped (none if negative)."""
    for i in range(n):
        workspace.spare[i] = workspace.inside[i]
    if leaver >= 0:
        workspace.spare[leaver], workspace.spare[comer] = 0, 1


@kernel
def _reach(
    workspace: Workspace, n: int, first: int, last: int, count: int, wanted: int, aim: Aim, best: float, key: np.uint64
) -> float:
    """Note `count` of the steps `first` .. `last` - 1 that sum to `wanted`, or nearly, if nearer than `best`; how near.

    Neighbours first, of which one is exchanged; then with another, drawn one exchanged before that.
    """
    steps, totals, inside = workspace.steps, workspace.totals, workspace.inside
    start = _window(totals, first, last, count, wanted)
    lean = (aim.lead + wanted - count * aim.whole) - (aim.counted + count) * aim.part
    others = last - first - count
    for i in range(n):
        inside[i] = start <= i < start + count
    for attempt in range(_EXCHANGES):
        missing = wanted - (totals[start + count] - totals[start])
        leaver, comer = -1, -1
        if attempt > 0:
            leaver = start + int(below(key, 2 * attempt, count))
            comer = first + int(below(key, 2 * attempt + 1, others))
            if comer >= start:
                comer += count
            inside[leaver], inside[comer] = False, True
            missing -= steps[comer] - steps[leaver]
        out, into, over = -1, -1, -missing
        if missing != 0 and others > 0:
            out, into, over = _exchange(steps, inside, first, last, missing, lean)
        residual = residual_of(aim, count, wanted + over)
        if residual < best:
            best = residual
            _note(workspace, n, out, into)
        if over == 0 or others == 0:
            break
        if attempt > 0:
            inside[leaver], inside[comer] = True, False
    return best


@kernel
def _try_count(workspace: Workspace, n: int, count: int, aim: Aim, best: float, key: np.uint64) -> float:
    """Note `count` steps whose average is nearer than `best`, if exchanges find them; how near.

    The count's bound rises to that of the nearest sum that is neither reached nor shown to be out of reach.
    """
    steps, totals, bounds = workspace.steps, workspace.totals, workspace.bounds
    bounds[count - 1] = np.inf
    low, high = useful_sums(totals, n, count, aim, best)
    first, last = narrow(steps, totals, n, count, low, high)
    if first == last:
        return best
    wanted = nearest_sum(totals, n, count, aim)
    under, over = wanted - 1, wanted + 1
    for _ in range(_SUMS):
        start, stop = narrow(steps, totals, n, count, wanted, wanted)
        if start < stop:
            first, last = start, stop
            break
        if under < low and over > high:
            return best
        if under >= low and (over > high or residual_of(aim, count, under) <= residual_of(aim, count, over)):
            wanted, under = under, under - 1
        else:
            wanted, over = over, over + 1
    bounds[count - 1] = residual_of(aim, count, wanted)
    return _reach(workspace, n, first, last, count, wanted, aim, best, key)


@kernel
def _start(workspace: Workspace, n: int, aim: Aim) -> float:
    """Note the best choice of one record, or of none where others must be in; how near. Prepare sums and bounds."""
    steps, totals, bounds, ranks = workspace.steps, workspace.totals, workspace.bounds, workspace.ranks
    best, nearest = np.inf, -1
    if aim.counted > 0:
        best = residual_of(aim, 0, 0)
    totals[0] = 0
    for i in range(n):
        totals[i + 1] = totals[i] + steps[i]
        workspace.spare[i] = 0
        if residual_of(aim, 1, steps[i]) < best:
            best, nearest = residual_of(aim, 1, steps[i]), i
    if nearest >= 0:
        workspace.spare[nearest] = 1
    for c in range(1, n + 1):
        bounds[c - 1] = residual_of(aim, c, nearest_sum(totals, n, c, aim))
        ranks[c - 1] = c - 1
    if n > 0:
        bounds[0] = np.inf
    return best


@kernel
def reach_bounds(workspace: Workspace, n: int, target: float, key: np.uint64, base: int = 0, counted: int = 0) -> int:
    """Mark in the desk those of its `n` sorted steps whose average is near `target`; how many counts may do better.

    `counted` more, of sum `base`, must be in; nothing is marked only where that is best. The counts are tried in the
    order of their bounds, until the next bound is no nearer than what was found. So 0 proves the optimum.
    """
    aim = take_aim(workspace.steps, n, target, base, counted)
    best = _start(workspace, n, aim)
    bounds, ranks = workspace.bounds, workspace.ranks
    tried = 0
    while tried < n:
        least = tried
        for rank in range(tried + 1, n):
            if bounds[ranks[rank]] < bounds[ranks[least]]:
                least = rank
        ranks[tried], ranks[least] = ranks[least], ranks[tried]
        if not bounds[ranks[tried]] < best - _TIE:
            break
        count = ranks[tried] + 1
        best = _try_count(workspace, n, count, aim, best, key + np.uint64(count))
        tried += 1
    for i in range(n):
        workspace.inside[i] = workspace.spare[i] == 1
    left = 0
    for rank in range(tried):
        left += bounds[ranks[rank]] < best - _TIE
    return left
