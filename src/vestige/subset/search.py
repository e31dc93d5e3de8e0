"""Of many numbers, a subset whose average is as near a target as a tolerance asks: the search that streams use.

Up to 24 free numbers are chosen, half from each side of the target and nearest first. The subset sums of nine of them
are listed in buckets; the sums of the others come one by one and look up their opposite, until an average is near
enough (Horowitz and Sahni's meeting in the middle, made anytime). A bitmap says where a lookup would be in vain, which
is nearly everywhere. Where the tolerance is still missed, another choice of free numbers is tried. Data on a lattice go
to the exchanges of `lattice` first.
Guarantee: never farther than the nearest single number, and the optimum for at most 24 numbers; held by
tests/subset/test_subset.py.
"""

from __future__ import annotations

import math

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import below, ones
from vestige.subset.lattice import lay_steps, nearest_fraction, reach_bounds, scale_of
from vestige.subset.workspace import CELLS, LISTED, PAIRED, Workspace, make_workspace, sort_order
from vestige.types import Bools, Floats

CHOICES = 8
_HOPELESS = 0.02
_FEWEST_CELLS = 8192.0
"""Where fewer cells are as wide as the window, a partner is found so soon that marking takes longer than it saves."""
_ROUNDING = 1e-12
"""Of all sums' span, what rounding may come to, and more."""
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LAST = np.uint64(63)


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
def _choose_free(workspace: Workspace, n: int, split: int, choice: int, key: np.uint64) -> int:
    """Write free numbers into the desk, half from each side of `split`: the nearest, or some of twice as many.

    Those before `split` in the desk's order lie below the target. A side that is short is filled from the other. The
    sides alternate, so that both the listed and the paired ones come from both.
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
            j = i if choice == 0 else i + below(key, 100 * choice + 50 * side + i, pool - i)
            spare[i], spare[j] = spare[j], spare[i]
            place = 2 * i + side
            if i >= min(lower, upper):
                place = 2 * min(lower, upper) + i - min(lower, upper)
            free[place] = spare[i]
    return size


@kernel
def _list_sums(workspace: Workspace, listed: int) -> tuple[float, float]:
    """List the sums of all subsets of the first free numbers in buckets; the least sum, and buckets per unit."""
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
    """Mark the cells within `limit` of the listed sums; cells per unit, and 0 if all are marked, for want of room.

    Cell 2 begins at the `least` sum; the cells before it, and the last, are for what lies outside.
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
    """The subset of the free numbers whose average is nearest zero, 0 if none beats `best`; stops at `tolerance`.

    A sum can only beat the best average so far if it is below `best * size`, so it looks no further than that.
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
                    count = ones(word)
                    if count > 0 and distance < best * count:
                        best, best_mask, limit = distance / count, word, distance / count * size
            if best <= tolerance:  # all of the window was weighed, so that neither sign is preferred
                return best, best_mask
    return best, best_mask


@kernel
def _expected_hits(workspace: Workspace, size: int, tolerance: float) -> float:
    """How many subsets of the free numbers should come within `tolerance`, if their sums were normal."""
    squares = 0.0
    for j in range(size):
        squares += workspace.offsets[workspace.free[j]] ** 2
    if not 0.0 < squares < np.inf:
        return np.inf
    return 2.0**size * tolerance * size / (math.sqrt(2.0 * math.pi * squares / 4.0))


@kernel
def _by_exchange(
    values: Floats,
    n: int,
    target: float,
    tolerance: float,
    key: np.uint64,
    persist: bool,
    best: float,
    workspace: Workspace,
    mask: Bools,
) -> tuple[float, bool]:
    """Mark what exchanges on a lattice find, if nearer than `best`; how near, and whether to leave it at that."""
    scale = scale_of(values, n)
    if scale == 0.0:
        return best, False
    least, spacing = lay_steps(values, n, scale, workspace)
    goal = (target * scale - least) / spacing
    dense = workspace.steps[n - 1] <= n * n  # else there are so many values that a given difference is rarely there
    if not persist and nearest_fraction(goal, n if dense else LISTED + PAIRED) * spacing > tolerance * scale:
        return best, True
    if not dense:
        return best, False
    left = reach_bounds(workspace, n, goal, key, 0, 0)
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
def search(
    values: Floats,
    n: int,
    target: float,
    tolerance: float,
    key: np.uint64,
    persist: bool,
    workspace: Workspace,
    mask: Bools,
) -> None:
    """Mark in `mask` a nonempty subset of the first `n` values whose average is near `target`.

    Within `tolerance` if that is found; without `persist` a search that is bound to fail is not begun.
    """
    offsets, order = workspace.offsets, workspace.order
    for i in range(n):
        offsets[i] = values[i] - target
        mask[i] = False
    sort_order(offsets, n, order, workspace.spare)
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
    best, done = _by_exchange(values, n, target, tolerance, key, persist, best, workspace, mask)
    if done:
        return
    for choice in range(CHOICES):
        size = _choose_free(workspace, n, split, choice, key)
        if not persist and _expected_hits(workspace, size, tolerance) < _HOPELESS:
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
def search_many(values: Floats, targets: Floats, tolerance: float, seed: int, masks: Bools) -> None:
    """`search` for each row of `values`; row i of `masks` is its choice, with the key `seed + i`."""
    n = values.shape[1]
    workspace = make_workspace(n)
    for i in range(len(values)):
        search(values[i], n, targets[i], tolerance, np.uint64(seed + i), True, workspace, masks[i])
