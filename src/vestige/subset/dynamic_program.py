"""A dynamic programme over (count, sum) that decides which lattice values have an average nearest a target.

It covers only what could still beat the best choice known: sums in a band around the target, as bits, with the first
record that reached each, so that the subset can be read back.
Guarantee: the optimum; held by tests/subset/test_lattice.py against brute force.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.random.kernels import ones
from vestige.subset.lattice import Aim, narrow, nearest_sum, residual_of, take_aim, useful_sums
from vestige.subset.workspace import Workspace
from vestige.types import Ints, Words

Places = NDArray[np.int16]

_MOST_ITEMS = 2**15 - 1
_ONE = np.uint64(1)


class _Plan(NamedTuple):
    """What a dynamic programme must cover to decide whether any choice is nearer than the best known.

    Attributes:
        first: the first step that can be in a nearer choice.
        split: the first of these above the target.
        last: one past the last.
        most: the most steps a nearer choice can have; 0 if there is none.
        lowest: the least sum of offsets (steps less the target) on the way to a nearer choice.
        highest: the greatest.
        end: the greatest that a nearer choice ends with.
        hope: how many steps the nearest choice conceivable has.
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
def _plan(workspace: Workspace, n: int, aim: Aim, best: float) -> _Plan:
    """The plan for choices nearer than `best`: the union of what each count needs."""
    steps, totals = workspace.steps, workspace.totals
    first, last, most, low_end, high_end, count, total = n, 0, 0, np.inf, -np.inf, 0, 0
    nearest = np.inf
    for c in range(1, n + 1):
        low, high = useful_sums(totals, n, c, aim, best)
        if low > high:
            continue
        start, stop = narrow(steps, totals, n, c, low, high)
        if start == stop:
            continue
        first, last, most = min(first, start), max(last, stop), c
        low_end = min(low_end, (low - c * aim.whole) - c * aim.part)
        high_end = max(high_end, (high - c * aim.whole) - c * aim.part)
        wanted = nearest_sum(totals, n, c, aim)
        if residual_of(aim, c, wanted) < nearest:
            nearest, count, total = residual_of(aim, c, wanted), c, wanted
    split = first
    while split < last and steps[split] - aim.whole <= aim.part:
        split += 1
    peak = 0.0
    for k in range(min(most, last - split) + 1):  # k above the target; at most so many below must outweigh them
        m = min(most - k, split - first)
        above = (totals[last] - totals[last - k] - k * aim.whole) - k * aim.part
        below_it = m * aim.part - (totals[first + m] - totals[first] - m * aim.whole)
        peak = max(peak, min(above, below_it + high_end))
    return _Plan(first, split, last, most, min(0.0, low_end) - 1.0, peak + 1.0, high_end + 1.0, count, total)


@kernel
def _add(source: Words, sums: Words, reached_by: Places, shift: int, words: int, item: int) -> None:
    """Add to the first `words` of `sums` those of `source` plus `shift`; note for each new one what item reached it.

    Both have a word of zeros before and after, so that no shift needs a special case.
    """
    hop, bit = shift >> 6, np.uint64(shift & 63)
    for w in range(max(0, hop), min(words, len(source) - 1 + hop)):
        word = (source[w - hop + 1] << bit) | ((source[w - hop] >> _ONE) >> (np.uint64(63) - bit))
        fresh = word & ~sums[w + 1]
        sums[w + 1] |= fresh
        while fresh:
            reached_by[64 * w + ones((fresh & (~fresh + _ONE)) - _ONE)] = item
            fresh &= fresh - _ONE


@kernel
def _origin(plan: _Plan, aim: Aim, count: int) -> int:
    """The sum, less `whole` each, that bit 0 of a count's sums stands for."""
    return int(np.floor(count * aim.part + plan.lowest))


@kernel
def _holds(sums: Words, plan: _Plan, aim: Aim, count: int, total: int) -> bool:
    """Whether `count` steps were found to reach the sum `total`; never one outside the band."""
    place = total - count * aim.whole - _origin(plan, aim, count)
    if place < 0 or place >= 64 * (sums.shape[1] - 2):
        return False
    return bool((sums[count, 1 + (place >> 6)] >> np.uint64(place & 63)) & _ONE)


@kernel
def _programme(steps: Ints, plan: _Plan, aim: Aim, sums: Words, reached_by: Places) -> None:
    """Set bit s of `sums[c]` if c steps reach the sum s (see `_origin`) on a way that can end nearer than the best.

    Steps above the target come first, in increasing order, so that the reach grows late; then those below, the
    farthest first, so that what is too high to come down again soon need not be followed.
    """
    sums[0, 1 + (-_origin(plan, aim, 0) >> 6)] = _ONE << np.uint64(-_origin(plan, aim, 0) & 63)
    height, fall = 1.0, plan.end
    for i in range(plan.first, plan.split):
        fall += aim.part - (steps[i] - aim.whole)
    size = plan.last - plan.first
    for turn in range(size):
        i = plan.split + turn if plan.split + turn < plan.last else plan.first + turn - (plan.last - plan.split)
        offset = (steps[i] - aim.whole) - aim.part
        if offset > 0.0:
            height += offset
        else:
            fall += offset
        top = min(plan.highest, height, fall) - plan.lowest + 2.0
        words = min(sums.shape[1] - 2, (np.int64(max(top, 0.0)) >> 6) + 1)
        for c in range(min(turn, plan.most - 1), -1, -1):
            shift = steps[i] - aim.whole - (_origin(plan, aim, c + 1) - _origin(plan, aim, c))
            _add(sums[c], sums[c + 1], reached_by[c + 1], shift, words, i - plan.first)
        if _holds(sums, plan, aim, plan.hope, plan.total):
            return


@kernel
def _read_back(workspace: Workspace, n: int, plan: _Plan, aim: Aim, reached_by: Places, count: int, total: int) -> None:
    """Mark the `count` steps by which the sum `total` was first reached: each by the rest, with earlier ones only."""
    for i in range(n):
        workspace.inside[i] = False
    while count > 0:
        item = plan.first + reached_by[count, total - count * aim.whole - _origin(plan, aim, count)]
        workspace.inside[item] = True
        count, total = count - 1, total - workspace.steps[item]


@kernel
def settle(workspace: Workspace, n: int, target: float, limit: int, base: int = 0, counted: int = 0) -> int:
    """After `reach_bounds`: mark the optimum in the desk. 0 if proven, else how many cells, above `limit`, it takes.

    A dynamic programme over (count, sum) that keeps sums in a band only. The offsets of a nearer choice, those above
    the target first, add up to a peak and then only fall to the end; the peak is at most what there is above the
    target, and at most what there is below it plus the end. So no sum on the way is below both the least end and 0,
    or above that peak.
    """
    aim = take_aim(workspace.steps, n, target, base, counted)
    count, total = 0, 0
    for i in range(n):
        if workspace.inside[i]:
            count, total = count + 1, total + workspace.steps[i]
    best, best_count, best_total = residual_of(aim, count, total), 0, 0
    plan = _plan(workspace, n, aim, best)
    if plan.most == 0:
        return 0
    width = int(plan.highest - plan.lowest + 2.0) // 64 + 1
    cells = (plan.most + 1) * width * 64
    if cells > limit or plan.last - plan.first > _MOST_ITEMS:
        return cells
    sums = np.zeros((plan.most + 1, width + 2), np.uint64)
    reached_by = np.empty((plan.most + 1, width * 64), np.int16)
    _programme(workspace.steps, plan, aim, sums, reached_by)
    for c in range(1, plan.most + 1):
        low, high = useful_sums(workspace.totals, n, c, aim, best)
        origin = _origin(plan, aim, c) + c * aim.whole
        for s in range(max(low, origin), min(high + 1, origin + 64 * width)):
            if _holds(sums, plan, aim, c, s) and residual_of(aim, c, s) < best:
                best, best_count, best_total = residual_of(aim, c, s), c, s
    if best_count > 0:
        _read_back(workspace, n, plan, aim, reached_by, best_count, best_total)
    return 0
