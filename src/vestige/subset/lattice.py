"""The subset whose average is nearest a target when all values lie on a lattice (whole minutes, cents).

No average of c lattice values is nearer the target than the nearest multiple of 1/c that c of them could sum to. So
counts are tried in the order of that bound, and for each count a subset with exactly that sum is sought: the window of
c neighbours in sorted order with the nearest sum below, then exchanges that add what is missing. Once no bound is
nearer than the best subset found, that subset is the proven optimum. Where exchanges fail, a dynamic program over
(count, sum) decides; it follows only sums that can end nearer than the best subset found.
Guarantee: 0 is returned only if the optimum is proven, up to 2^-51 of a step; held by tests/subset/test_lattice.py
against brute force.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import draw_below
from vestige.subset.workspace import Workspace
from vestige.types import Bools, Floats, Ints

_MAX_EXCHANGES = 48
_MAX_SUMS = 16
_TIE = 2.0**-51
"""Averages that differ by less, in lattice steps, are equal but for rounding."""
_DECIMALS = 4
_LARGEST = 2.0**40


@kernel
def find_scale(values: Floats, n: int) -> float:
    """Return the power of ten that makes the first `n` values whole numbers, or 0 if none up to 10^4 does."""
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
def write_steps(values: Floats, n: int, scale: float, workspace: Workspace) -> tuple[float, float]:
    """Write the sorted values into the workspace's steps: multiples of a common spacing above the smallest value.

    Returns the smallest value and the spacing, both in units of 1/scale.
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
def find_nearest_fraction(target: float, most: int) -> float:
    """Return how near `target` an average of up to `most` whole numbers can be."""
    best = np.inf
    for c in range(1, most + 1):
        best = min(best, abs(np.rint(c * target) / c - target))
    return best


class LatticeTarget(NamedTuple):
    """A target on the lattice and the forced steps, in a form that keeps all digits of deviations.

    Choosing c steps of sum s misses by (lead + s - c * whole) - (forced_count + c) * part: whole numbers, and one
    product.

    Attributes:
        whole: the whole number nearest the target.
        part: the target less `whole`, without rounding.
        lead: the sum of the forced steps, less `whole` each.
        forced_count: number of forced steps.
    """

    whole: int
    part: float
    lead: int
    forced_count: int


@kernel
def make_target(steps: Ints, n: int, target: float, base: int, forced_count: int) -> LatticeTarget:
    """Return the lattice target; one beyond all averages is moved to a point there, which preserves the order."""
    low, high = np.inf, -np.inf
    if n > 0:
        low, high = np.float64(steps[0]), np.float64(steps[n - 1])
    if forced_count > 0:
        low, high = min(low, np.floor(base / forced_count) - 1.0), max(high, np.ceil(base / forced_count) + 1.0)
    target = min(max(target, low), high)
    whole = int(np.rint(target))
    return LatticeTarget(whole, target - whole, base - forced_count * whole, forced_count)


@kernel
def compute_residual(goal: LatticeTarget, count: int, total: int) -> float:
    """Return the distance from the target of the average of `count` steps of sum `total` and the forced steps."""
    with_all = goal.forced_count + count
    return abs((goal.lead + total - count * goal.whole) - with_all * goal.part) / with_all


@kernel
def find_nearest_sum(totals: Ints, n: int, count: int, goal: LatticeTarget) -> int:
    """Return the sum that brings the average of `count` steps nearest, limited to the range of such sums."""
    wanted = int(np.rint((goal.forced_count + count) * goal.part)) + count * goal.whole - goal.lead
    return max(int(totals[count]), min(wanted, int(totals[n] - totals[n - count])))


@kernel
def find_useful_sums(totals: Ints, n: int, count: int, goal: LatticeTarget, best: float) -> tuple[int, int]:
    """Return the smallest and the largest sum for which the average of `count` steps is nearer than `best`."""
    with_all = goal.forced_count + count
    middle, radius, shift = with_all * goal.part, (best - _TIE) * with_all, count * goal.whole - goal.lead
    low = int(np.ceil(middle - radius)) + shift
    high = int(np.floor(middle + radius)) + shift
    return max(low, totals[count]), min(high, totals[n] - totals[n - count])


@kernel
def narrow_steps(steps: Ints, totals: Ints, n: int, count: int, low: int, high: int) -> tuple[int, int]:
    """Return the range of steps that can be among `count` steps with a sum in `low` .. `high`; empty if there are none.

    A step cannot be if it is too large even with the smallest others, or too small even with the largest; each step
    that is dropped may allow the next to be dropped. For two records this is the two-pointer search, hence complete.
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
def _find_exchange(
    steps: Ints, inside: Bools, first: int, last: int, missing: int, lean: float
) -> tuple[int, int, int]:
    """Return which step to remove and which to add so that the sum grows by about `missing`, and the remaining excess.

    Of the exchanges tried, `over + lean` is nearest zero. Since `steps` is sorted, two pointers find each `missing`.
    """
    removed, added = first, first
    best, best_removed, best_added, best_over = np.inf, -1, -1, 0
    while True:
        while removed < last and not inside[removed]:
            removed += 1
        while added < last and inside[added]:
            added += 1
        if last in (removed, added):
            return best_removed, best_added, best_over
        over = steps[added] - steps[removed] - missing
        if abs(over + lean) < best:
            best, best_removed, best_added, best_over = abs(over + lean), removed, added, over
        if over == 0:
            return removed, added, 0
        if over < 0:
            added += 1
        else:
            removed += 1


@kernel
def _find_window(totals: Ints, first: int, last: int, count: int, wanted: int) -> int:
    """Return the start of the last run of `count` neighbours with a sum of at most `wanted`; the first has one."""
    low, high = first, last - count
    while low < high:
        middle = (low + high + 1) // 2
        if totals[middle + count] - totals[middle] <= wanted:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _save_choice(workspace: Workspace, n: int, removed: int, added: int) -> None:
    """Save the present choice in `spare`, with one step exchanged (none if negative)."""
    for i in range(n):
        workspace.spare[i] = workspace.inside[i]
    if removed >= 0:
        workspace.spare[removed], workspace.spare[added] = 0, 1


@kernel
def _try_exchanges(
    workspace: Workspace,
    n: int,
    first: int,
    last: int,
    count: int,
    wanted: int,
    goal: LatticeTarget,
    best: float,
    key: np.uint64,
) -> float:
    """Save `count` of the steps `first` .. `last` - 1 with a sum of about `wanted`, if nearer than `best`.

    First neighbours with one exchange; then with one more, drawn at random before it. Returns the residual.
    """
    steps, totals, inside = workspace.steps, workspace.totals, workspace.inside
    start = _find_window(totals, first, last, count, wanted)
    lean = (goal.lead + wanted - count * goal.whole) - (goal.forced_count + count) * goal.part
    others = last - first - count
    for i in range(n):
        inside[i] = start <= i < start + count
    for attempt in range(_MAX_EXCHANGES):
        missing = wanted - (totals[start + count] - totals[start])
        removed, added = -1, -1
        if attempt > 0:
            removed = start + int(draw_below(key, 2 * attempt, count))
            added = first + int(draw_below(key, 2 * attempt + 1, others))
            if added >= start:
                added += count
            inside[removed], inside[added] = False, True
            missing -= steps[added] - steps[removed]
        out, into, over = -1, -1, -missing
        if missing != 0 and others > 0:
            out, into, over = _find_exchange(steps, inside, first, last, missing, lean)
        residual = compute_residual(goal, count, wanted + over)
        if residual < best:
            best = residual
            _save_choice(workspace, n, out, into)
        if over == 0 or others == 0:
            break
        if attempt > 0:
            inside[removed], inside[added] = True, False
    return best


@kernel
def _try_count(workspace: Workspace, n: int, count: int, goal: LatticeTarget, best: float, key: np.uint64) -> float:
    """Save `count` steps whose average is nearer than `best`, if exchanges find them; return the residual.

    The bound of the count is raised to that of the nearest sum that is neither reached nor proven unreachable.
    """
    steps, totals, bounds = workspace.steps, workspace.totals, workspace.bounds
    bounds[count - 1] = np.inf
    low, high = find_useful_sums(totals, n, count, goal, best)
    first, last = narrow_steps(steps, totals, n, count, low, high)
    if first == last:
        return best
    wanted = find_nearest_sum(totals, n, count, goal)
    under, over = wanted - 1, wanted + 1
    for _ in range(_MAX_SUMS):
        start, stop = narrow_steps(steps, totals, n, count, wanted, wanted)
        if start < stop:
            first, last = start, stop
            break
        if under < low and over > high:
            return best
        if under >= low and (
            over > high or compute_residual(goal, count, under) <= compute_residual(goal, count, over)
        ):
            wanted, under = under, under - 1
        else:
            wanted, over = over, over + 1
    bounds[count - 1] = compute_residual(goal, count, wanted)
    return _try_exchanges(workspace, n, first, last, count, wanted, goal, best, key)


@kernel
def _initialize(workspace: Workspace, n: int, goal: LatticeTarget) -> float:
    """Prepare sums and bounds; save the best choice of one step, or of none with forced ones; return its residual."""
    steps, totals, bounds, ranks = workspace.steps, workspace.totals, workspace.bounds, workspace.ranks
    best, nearest = np.inf, -1
    if goal.forced_count > 0:
        best = compute_residual(goal, 0, 0)
    totals[0] = 0
    for i in range(n):
        totals[i + 1] = totals[i] + steps[i]
        workspace.spare[i] = 0
        if compute_residual(goal, 1, steps[i]) < best:
            best, nearest = compute_residual(goal, 1, steps[i]), i
    if nearest >= 0:
        workspace.spare[nearest] = 1
    for c in range(1, n + 1):
        bounds[c - 1] = compute_residual(goal, c, find_nearest_sum(totals, n, c, goal))
        ranks[c - 1] = c - 1
    if n > 0:
        bounds[0] = np.inf
    return best


@kernel
def search_counts(
    workspace: Workspace, n: int, target: float, key: np.uint64, base: int = 0, forced_count: int = 0
) -> int:
    """Mark in the workspace a choice of its `n` sorted steps whose average is near `target`.

    Counts are tried in the order of their bounds, until the next bound is not nearer than the best choice.

    Args:
        workspace: its `steps` are the sorted steps; its `inside` receives the choice.
        n: number of steps.
        target: the wanted average, in steps.
        key: key of the random exchanges.
        base: sum of the steps that must be in, which are not among the `n`.
        forced_count: number of steps that must be in; if it is 0, the choice is nonempty.

    Returns:
        The number of counts that might still give a nearer average; 0 proves the optimum.
    """
    goal = make_target(workspace.steps, n, target, base, forced_count)
    best = _initialize(workspace, n, goal)
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
        best = _try_count(workspace, n, count, goal, best, key + np.uint64(count))
        tried += 1
    for i in range(n):
        workspace.inside[i] = workspace.spare[i] == 1
    left = 0
    for rank in range(tried):
        left += bounds[ranks[rank]] < best - _TIE
    return left
