"""A subset of many numbers whose average is within a tolerance of a target: the search that streams use.

Up to 24 free numbers are chosen, half from each side of the target and nearest first. The subset sums of nine of them
are stored in buckets; the sums of the others are generated one by one and look up their opposite, until an average is
near enough (meet in the middle of Horowitz and Sahni, 1974, https://doi.org/10.1145/321812.321823, made anytime). A
bitmap tells where a lookup would be in vain, which is nearly everywhere. If the tolerance is missed, another choice of
free numbers is tried. For data on a lattice, the exchanges of `lattice` are tried first.
Guarantee: never farther than the nearest single number, and the optimum for at most 24 numbers; held by
tests/subset/test_subset.py.
"""

from __future__ import annotations

import math

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import draw_below
from vestige.subset.bits import count_ones
from vestige.subset.lattice import find_nearest_fraction, find_scale, search_counts, write_steps
from vestige.subset.workspace import CELLS, LISTED, PAIRED, Workspace, make_workspace, write_sort_order
from vestige.types import Bools, Floats

CHOICES = 8
_HOPELESS = 0.02
_FEWEST_CELLS = 8192.0
"""With fewer cells than this, a match is found so soon that marking takes longer than it saves."""
_ROUNDING = 1e-12
"""Upper bound on the rounding error of a sum, as a fraction of the span of all sums."""
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LAST = np.uint64(63)


@kernel
def compute_average(values: Floats, mask: Bools) -> float:
    """Return the average of the values that `mask` selects; nan if it selects none.

    Differences from the first value are summed, so that a common offset costs no digits.
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
def _choose_free(workspace: Workspace, n: int, split: int, choice: int, key: np.uint64) -> int:
    """Write free numbers into the workspace, half from each side of `split`: the nearest, or random ones.

    Those before `split` in sort order lie below the target. A side that is short is filled from the other. The sides
    alternate, so that both the listed and the paired numbers come from both. Returns how many are free.
    """
    size = min(n, LISTED + PAIRED)
    lower = min(split, max(size // 2, size - (n - split)))
    upper = size - lower
    order, spare, free = workspace.order, workspace.spare, workspace.free
    for side in range(2):
        take, there = (lower, split) if side == 0 else (upper, n - split)
        pool = take if choice == 0 else min(there, 2 * take)
        for i in range(pool):
            spare[i] = order[split - 1 - i] if side == 0 else order[split + i]
        for i in range(take):
            j = i if choice == 0 else i + draw_below(key, 100 * choice + 50 * side + i, pool - i)
            spare[i], spare[j] = spare[j], spare[i]
            place = 2 * i + side
            if i >= min(lower, upper):
                place = 2 * min(lower, upper) + i - min(lower, upper)
            free[place] = spare[i]
    return size


@kernel
def _list_sums(workspace: Workspace, listed: int) -> tuple[float, float]:
    """Store the subset sums of the first free numbers in buckets; return the smallest sum and buckets per unit."""
    offsets, free, sums, subsets, starts = (
        workspace.offsets,
        workspace.free,
        workspace.sums,
        workspace.subsets,
        workspace.starts,
    )
    size = 1 << listed
    sums[0] = 0.0
    least, most = 0.0, 0.0
    for j in range(listed):
        item = offsets[free[j]]
        least += min(item, 0.0)
        most += max(item, 0.0)
        for mask in range(1 << j):
            sums[(1 << j) + mask] = sums[mask] + item
    scale = (size - 1) / (most - least) if most > least else 0.0
    if not scale < np.inf:
        scale = 0.0
    for bucket in range(size + 1):
        starts[bucket] = 0
    for mask in range(size):
        starts[np.int64((sums[mask] - least) * scale) + 1] += 1
    for bucket in range(size):
        starts[bucket + 1] += starts[bucket]
    for mask in range(size - 1, -1, -1):  # each bucket is filled from its end; its start is then the one before
        bucket = int((sums[mask] - least) * scale)
        starts[bucket + 1] -= 1
        subsets[starts[bucket + 1]] = mask
    for bucket in range(size):
        starts[bucket] = starts[bucket + 1]
    starts[size] = size
    return least, scale


@kernel
def _mark_sums(workspace: Workspace, size: int, least: float, scale: float, limit: float) -> float:
    """Mark the cells within `limit` of the listed sums; return the cells per unit, 0 if all are marked.

    Cell 2 begins at the smallest sum; the cells before it, and the last one, are for sums outside the range.
    """
    span = (size - 1) / scale if scale > 0.0 else 0.0
    near = limit + _ROUNDING * span
    cells = min(CELLS - 8.0, span / (2.0 * near)) if near > 0.0 else 0.0
    fine = cells / span if cells >= _FEWEST_CELLS else 0.0
    if not 0.0 < fine < np.inf:
        workspace.marks[:] = ~np.uint64(0)
        return 0.0
    workspace.marks[:] = 0
    for mask in range(size):
        at = workspace.sums[mask] - least
        first, last = np.uint64((at - near) * fine + 2.0), np.uint64((at + near) * fine + 2.0)
        workspace.marks[first >> _SIX] |= _ONE << (first & _LAST)
        workspace.marks[last >> _SIX] |= _ONE << (last & _LAST)
    return fine


@kernel
def _pair_sums(workspace: Workspace, listed: int, size: int, best: float, tolerance: float) -> tuple[float, np.uint64]:
    """Return the nearest average of free numbers and its bit mask, 0 if none beats `best`; stop at `tolerance`.

    A sum can beat the best average so far only if it is below `best * size`, so lookups reach no further than that.
    """
    least, scale = _list_sums(workspace, listed)
    offsets, free, sums, subsets, starts = (
        workspace.offsets,
        workspace.free,
        workspace.sums,
        workspace.subsets,
        workspace.starts,
    )
    half = (size - listed) // 2
    rest = size - listed - half
    workspace.low[0], workspace.high[0] = 0.0, 0.0
    for j in range(half):
        for mask in range(1 << j):
            workspace.low[(1 << j) + mask] = workspace.low[mask] + offsets[free[listed + j]]
    for j in range(rest):
        for mask in range(1 << j):
            workspace.high[(1 << j) + mask] = workspace.high[mask] + offsets[free[listed + half + j]]
    best_mask = np.uint64(0)
    limit = best * size
    buckets = float(1 << listed)
    fine = _mark_sums(workspace, 1 << listed, least, scale, limit)
    for outer in range(1 << rest):
        for inner in range(1 << half):
            other = workspace.high[outer] + workspace.low[inner]
            at = (-other - least) * fine + 2.0
            at = at if at > 0.0 else 0.0  # also where it is nan
            cell = np.uint64(at if at < CELLS else CELLS)
            if not (workspace.marks[cell >> _SIX] >> (cell & _LAST)) & _ONE:
                continue
            first, last = (-other - least - limit) * scale, (-other - least + limit) * scale
            if last < 0.0 or first >= buckets:
                continue
            for slot in range(starts[int(max(first, 0.0))], starts[int(min(last, buckets - 1.0)) + 1]):
                distance = abs(sums[subsets[slot]] + other)
                if distance < limit:
                    word = np.uint64(subsets[slot]) | (np.uint64((outer << half) | inner) << np.uint64(listed))
                    count = count_ones(word)
                    if count > 0 and distance < best * count:
                        best, best_mask, limit = distance / count, word, distance / count * size
            if best <= tolerance:  # all of the window was weighed, so that neither sign is preferred
                return best, best_mask
    return best, best_mask


@kernel
def _estimate_hits(workspace: Workspace, size: int, tolerance: float) -> float:
    """Return the expected number of subsets of the free numbers within `tolerance`, for normally distributed sums."""
    squares = 0.0
    for j in range(size):
        offset = workspace.offsets[workspace.free[j]]
        squares += offset * offset
    if not 0.0 < squares < np.inf:
        return np.inf
    return 2.0**size * tolerance * size / (math.sqrt(2.0 * math.pi * squares / 4.0))


@kernel
def _try_lattice(
    values: Floats,
    n: int,
    target: float,
    low: float,
    tolerance: float,
    key: np.uint64,
    persist: bool,
    best: float,
    workspace: Workspace,
    mask: Bools,
) -> tuple[float, bool]:
    """Mark what lattice exchanges find, if nearer than `best`; return the residual and whether to stop."""
    scale = find_scale(values, n)
    if scale == 0.0:
        return best, False
    _, spacing = write_steps(values, n, scale, workspace)
    goal = ((target - values[workspace.order[0]]) + low) * scale / spacing
    dense = workspace.steps[n - 1] <= n * n  # in a sparse lattice, a given difference rarely occurs
    if not persist and find_nearest_fraction(goal, n if dense else LISTED + PAIRED) * spacing > tolerance * scale:
        return best, True
    if not dense:
        return best, False
    left = search_counts(workspace, n, goal, key, 0, 0)
    total, count = 0.0, 0
    for i in range(n):
        if workspace.inside[i]:
            total += workspace.offsets[workspace.order[i]]
            count += 1
    if abs(total) / count < best:
        best = abs(total) / count
        for i in range(n):
            mask[workspace.order[i]] = workspace.inside[i]
    return best, left == 0 or best <= tolerance


@kernel
def find_near_average(
    values: Floats,
    n: int,
    target: float,
    low: float,
    tolerance: float,
    key: np.uint64,
    persist: bool,
    workspace: Workspace,
    mask: Bools,
) -> None:
    """Mark in `mask` a nonempty subset of numbers whose average is near `target`.

    Args:
        values: the numbers; shape (n,) or longer.
        n: number of values to use.
        target: the wanted average.
        low: what is to be added to it, which a float cannot hold beside it.
        tolerance: residual at which the search stops.
        key: key of the random choices.
        persist: whether to search even where the tolerance is unlikely to be reached.
        workspace: work space for `n` numbers or more.
        mask: receives the subset; shape (n,) or longer.
    """
    offsets, order = workspace.offsets, workspace.order
    for i in range(n):
        offsets[i] = (values[i] - target) - low
        mask[i] = False
    write_sort_order(offsets, n, order, workspace.spare)
    split = 0
    while split < n and offsets[order[split]] < 0.0:
        split += 1
    nearest = order[0] if split == 0 else order[split - 1]
    if 0 < split < n and offsets[order[split]] < -offsets[nearest]:
        nearest = order[split]
    best = abs(offsets[nearest])
    mask[nearest] = True
    if split in (0, n) or best <= tolerance:  # all on one side: no average is nearer than the nearest number
        return
    best, done = _try_lattice(values, n, target, low, tolerance, key, persist, best, workspace, mask)
    if done:
        return
    for choice in range(CHOICES):
        size = _choose_free(workspace, n, split, choice, key)
        if not persist and _estimate_hits(workspace, size, tolerance) < _HOPELESS:
            return
        listed = min(LISTED, size // 2)
        wanted = best if persist else min(best, 2.0 * tolerance)  # a narrow window from the start
        nearer, word = _pair_sums(workspace, listed, size, wanted, tolerance)
        if word:
            best = nearer
            for i in range(n):
                mask[i] = False
            for j in range(size):
                mask[workspace.free[j]] = (word >> np.uint64(j)) & np.uint64(1) == np.uint64(1)
        if best <= tolerance or size == n:
            return


@kernel
def find_near_averages(values: Floats, targets: Floats, tolerance: float, seed: int, masks: Bools) -> None:
    """Apply `find_near_average` to each row of `values`, with the key `seed + i` for row i, into row i of `masks`."""
    n = values.shape[1]
    workspace = make_workspace(n)
    for i in range(len(values)):
        find_near_average(values[i], n, targets[i], 0.0, tolerance, np.uint64(seed + i), True, workspace, masks[i])
