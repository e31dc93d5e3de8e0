"""A dynamic program over (count, sum) that decides which lattice values have an average nearest a target.

It covers only what can still beat the best choice known: sums in a band around the target, as bits, with the first item
that reached each, so that the subset can be read back.
Guarantee: the optimum; held by tests/subset/test_lattice.py against brute force.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.subset.bits import count_ones
from vestige.subset.lattice import (
    LatticeTarget,
    compute_residual,
    find_nearest_sum,
    find_useful_sums,
    make_target,
    narrow_steps,
)
from vestige.subset.workspace import Workspace
from vestige.types import Ints, Words

Places = NDArray[np.int16]

_MOST_ITEMS = 2**15 - 1
_ONE = np.uint64(1)


class _Plan(NamedTuple):
    """What a dynamic program must cover to decide whether any choice is nearer than the best known.

    Attributes:
        first: the first step that can be in a nearer choice.
        split: the first of these above the target.
        last: one past the last.
        most: the largest number of steps in a nearer choice; 0 if there is none.
        lowest: the smallest partial sum of offsets (steps less the target) of a nearer choice.
        highest: the largest partial sum.
        end: the largest final sum of a nearer choice.
        hope: number of steps of the nearest conceivable choice.
        total: their sum.
    """

    first: int
    split: int
    last: int
    most: int
    lowest: float
    highest: float
    end: float
    hope: int
    total: int


@kernel
def _make_plan(workspace: Workspace, n: int, goal: LatticeTarget, best: float) -> _Plan:
    """Return the plan for choices nearer than `best`: the union of what each count needs."""
    steps, totals = workspace.steps, workspace.totals
    first, last, most, low_end, high_end, count, total = n, 0, 0, np.inf, -np.inf, 0, 0
    nearest = np.inf
    for c in range(1, n + 1):
        low, high = find_useful_sums(totals, n, c, goal, best)
        if low > high:
            continue
        start, stop = narrow_steps(steps, totals, n, c, low, high)
        if start == stop:
            continue
        first, last, most = min(first, start), max(last, stop), c
        low_end = min(low_end, (low - c * goal.whole) - c * goal.part)
        high_end = max(high_end, (high - c * goal.whole) - c * goal.part)
        wanted = find_nearest_sum(totals, n, c, goal)
        if compute_residual(goal, c, wanted) < nearest:
            nearest, count, total = compute_residual(goal, c, wanted), c, wanted
    split = first
    while split < last and steps[split] - goal.whole <= goal.part:
        split += 1
    peak = 0.0
    for k in range(min(most, last - split) + 1):  # k steps above the target, and at most most - k below
        m = min(most - k, split - first)
        above = (totals[last] - totals[last - k] - k * goal.whole) - k * goal.part
        below_it = m * goal.part - (totals[first + m] - totals[first] - m * goal.whole)
        peak = max(peak, min(above, below_it + high_end))
    return _Plan(first, split, last, most, min(0.0, low_end) - 1.0, peak + 1.0, high_end + 1.0, count, total)


@kernel
def _add_item(source: Words, sums: Words, reached_by: Places, shift: int, words: int, item: int) -> None:
    """Add to the first `words` of `sums` those of `source` plus `shift`; record the item that reached each new sum.

    Both arrays have a word of zeros before and after, so that no shift needs a special case.
    """
    hop, bit = shift >> 6, np.uint64(shift & 63)
    for w in range(max(0, hop), min(words, len(source) - 1 + hop)):
        word = (source[w - hop + 1] << bit) | ((source[w - hop] >> _ONE) >> (np.uint64(63) - bit))
        fresh = word & ~sums[w + 1]
        sums[w + 1] |= fresh
        while fresh:
            reached_by[64 * w + count_ones((fresh & (~fresh + _ONE)) - _ONE)] = item
            fresh &= fresh - _ONE


@kernel
def _find_origin(plan: _Plan, goal: LatticeTarget, count: int) -> int:
    """Return the sum, less `whole` each, that bit 0 of a count's sums represents."""
    return int(np.floor(count * goal.part + plan.lowest))


@kernel
def _is_reached(sums: Words, plan: _Plan, goal: LatticeTarget, count: int, total: int) -> bool:
    """Return whether `count` steps reach the sum `total`; False outside the band."""
    place = total - count * goal.whole - _find_origin(plan, goal, count)
    if place < 0 or place >= 64 * (sums.shape[1] - 2):
        return False
    return bool((sums[count, 1 + (place >> 6)] >> np.uint64(place & 63)) & _ONE)


@kernel
def _fill_table(steps: Ints, plan: _Plan, goal: LatticeTarget, sums: Words, reached_by: Places) -> None:
    """Set bit s of `sums[c]` if c steps reach the sum s on a path that can end nearer than the best.

    Steps above the target come first, in increasing order, so that sums grow late; then those below, the farthest
    first, so that sums that are too high to come down again need not be followed. `_find_origin` tells which sum bit 0
    is.
    """
    sums[0, 1 + (-_find_origin(plan, goal, 0) >> 6)] = _ONE << np.uint64(-_find_origin(plan, goal, 0) & 63)
    height, fall = 1.0, plan.end
    for i in range(plan.first, plan.split):
        fall += goal.part - (steps[i] - goal.whole)
    size = plan.last - plan.first
    for turn in range(size):
        i = plan.split + turn if plan.split + turn < plan.last else plan.first + turn - (plan.last - plan.split)
        offset = (steps[i] - goal.whole) - goal.part
        if offset > 0.0:
            height += offset
        else:
            fall += offset
        top = min(plan.highest, height, fall) - plan.lowest + 2.0
        words = min(sums.shape[1] - 2, (np.int64(max(top, 0.0)) >> 6) + 1)
        for c in range(min(turn, plan.most - 1), -1, -1):
            shift = steps[i] - goal.whole - (_find_origin(plan, goal, c + 1) - _find_origin(plan, goal, c))
            _add_item(sums[c], sums[c + 1], reached_by[c + 1], shift, words, i - plan.first)
        if _is_reached(sums, plan, goal, plan.hope, plan.total):
            return


@kernel
def _read_back(
    workspace: Workspace, n: int, plan: _Plan, goal: LatticeTarget, reached_by: Places, count: int, total: int
) -> None:
    """Mark the `count` steps by which the sum `total` was first reached, from the last item to the first."""
    for i in range(n):
        workspace.inside[i] = False
    while count > 0:
        item = plan.first + reached_by[count, total - count * goal.whole - _find_origin(plan, goal, count)]
        workspace.inside[item] = True
        count, total = count - 1, total - workspace.steps[item]


@kernel
def solve_dynamic_program(
    workspace: Workspace, n: int, target: float, limit: int, base: int = 0, forced_count: int = 0
) -> int:
    """Mark the optimum in the workspace, after `search_counts`.

    The program keeps only sums in a band. The offsets of a nearer choice, those above the target first, add up to a
    peak and then only fall to the end; the peak is at most the sum of the offsets above the target, and at most that of
    those below it plus the end. So no partial sum is below both the smallest end and 0, or above that peak.

    Args:
        workspace: as `search_counts` left it.
        n: number of steps.
        target: the wanted average, in steps.
        limit: largest number of cells of the table.
        base: sum of the steps that must be in.
        forced_count: number of steps that must be in.

    Returns:
        0 if the optimum is proven; otherwise the number of cells needed, which is above `limit`.
    """
    goal = make_target(workspace.steps, n, target, base, forced_count)
    count, total = 0, 0
    for i in range(n):
        if workspace.inside[i]:
            count, total = count + 1, total + workspace.steps[i]
    best, best_count, best_total = compute_residual(goal, count, total), 0, 0
    plan = _make_plan(workspace, n, goal, best)
    if plan.most == 0:
        return 0
    width = int(plan.highest - plan.lowest + 2.0) // 64 + 1
    cells = (plan.most + 1) * width * 64
    if cells > limit or plan.last - plan.first > _MOST_ITEMS:
        return cells
    sums = np.zeros((plan.most + 1, width + 2), np.uint64)
    reached_by = np.empty((plan.most + 1, width * 64), np.int16)
    _fill_table(workspace.steps, plan, goal, sums, reached_by)
    for c in range(1, plan.most + 1):
        low, high = find_useful_sums(workspace.totals, n, c, goal, best)
        origin = _find_origin(plan, goal, c) + c * goal.whole
        for s in range(max(low, origin), min(high + 1, origin + 64 * width)):
            if _is_reached(sums, plan, goal, c, s) and compute_residual(goal, c, s) < best:
                best, best_count, best_total = compute_residual(goal, c, s), c, s
    if best_count > 0:
        _read_back(workspace, n, plan, goal, reached_by, best_count, best_total)
    return 0
