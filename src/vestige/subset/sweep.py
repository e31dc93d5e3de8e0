"""The nearest average in several dimensions where a grid does not help: far targets, equal vectors, many dimensions.

Pairs of sums of both halves are swept in the order of one key: a coordinate, or the excess over the best average along
the direction in which the target lies outside.
Guarantee: exact; held by tests/subset/test_grid.py.
"""

from __future__ import annotations

import math

import numpy as np

from vestige._numba import kernel
from vestige.subset.bits import count_ones
from vestige.types import Floats, Ints, Words

_ONE = np.uint64(1)


@kernel
def _list_distinct_sums(table: Floats, first: int, stop: int) -> tuple[Floats, Words]:
    """Return the distinct sums of the subsets of some rows, and the subsets; equal rows must follow each other.

    So k equal rows have k + 1 sums, not 2^k.
    """
    dim = table.shape[1]
    sums, masks = np.zeros((1 << (stop - first), dim)), np.zeros(1 << (stop - first), np.uint64)
    size, previous = 1, 0
    for j in range(first, stop):
        equal = j > first
        for i in range(dim):
            equal = equal and table[j, i] == table[j - 1, i]
        begin = previous if equal else 0
        previous = size
        for k in range(begin, previous):
            for i in range(dim):
                sums[size, i] = sums[k, i] + table[j, i]
            masks[size] = masks[k] | (_ONE << np.uint64(j))
            size += 1
    return sums[:size], masks[:size]


@kernel
def _find_hull_direction(table: Floats, start: Floats, forced_count: int) -> tuple[Floats, float]:
    """Return a unit vector along which all vectors and the forced average are positive, and how far; or 0.

    Gilbert's algorithm (1966, https://doi.org/10.1137/0304007) for the point of the convex hull that is nearest zero.
    """
    n, dim = table.shape
    point = start / forced_count if forced_count > 0 else table[0].copy()
    direction, farthest = np.zeros(dim), 0.0
    for _ in range(300):
        length = math.sqrt((point**2).sum())
        if length == 0.0:
            break
        unit = point / length
        least, at = np.inf, -1
        if forced_count > 0:
            least = (unit * start).sum() / forced_count
        for j in range(n):
            along = (unit * table[j]).sum()
            if along < least:
                least, at = along, j
        if least > farthest:
            direction, farthest = unit, least
        step = (table[at] if at >= 0 else start / forced_count) - point
        square = (step**2).sum()
        if square == 0.0 or least >= length * (1.0 - 1e-12):
            break
        point = point + step * min(1.0, -(point * step).sum() / square)
    return direction, farthest


@kernel
def _compute_keys(
    sums: Floats, masks: Words, start: Floats, forced_count: int, kind: int, direction: Floats, best: float
) -> Floats:
    """Return the sweep keys of sums: a coordinate across `direction`, or (last) the excess over `best` along it."""
    dim = sums.shape[1]
    axis, charge = direction, best
    if kind < dim:
        axis = -direction[kind] * direction
        axis[kind] += 1.0
        axis /= math.sqrt((axis**2).sum())
        charge = 0.0
    keys = np.empty(len(sums))
    for k in range(len(sums)):
        keys[k] = -charge * (forced_count + count_ones(masks[k]))
        for i in range(dim):
            keys[k] += axis[i] * (sums[k, i] + start[i])
    return keys


@kernel
def _count_pairs(left: Floats, right: Floats, least: float, most: float) -> float:
    """Return how many pairs of the keys have a sum above `least` and below `most`."""
    lefts, rights = np.argsort(left), np.argsort(right)
    total, above, until = 0.0, len(right), len(right)
    for a in lefts:
        while above > 0 and left[a] + right[rights[above - 1]] > least:
            above -= 1
        while until > 0 and left[a] + right[rights[until - 1]] >= most:
            until -= 1
        total += max(0, until - above)
    return total


@kernel
def _choose_key(
    left: Floats,
    left_masks: Words,
    right: Floats,
    right_masks: Words,
    start: Floats,
    forced_count: int,
    direction: Floats,
    best: float,
    across: float,
) -> tuple[int, float]:
    """Return the key that leaves the fewest pairs to score, and how many."""
    dim = left.shape[1]
    chosen, fewest = 0, np.inf
    for kind in range(dim + 1):
        if kind < dim and abs(direction[kind]) > 0.99:
            continue
        if kind == dim and not direction.any():
            continue
        mine = _compute_keys(left, left_masks, start, forced_count, kind, direction, best)
        other = _compute_keys(right, right_masks, np.zeros(dim), 0, kind, direction, best)
        pairs = _count_pairs(mine, other, -across if kind < dim else -np.inf, across if kind < dim else 0.0)
        if pairs < fewest:
            chosen, fewest = kind, pairs
    return chosen, fewest


@kernel
def sweep(
    table: Floats, start: Floats, forced_count: int, best: float, mask: np.uint64, limit: float
) -> tuple[float, np.uint64, bool]:
    """Return the best average, its subset, and whether it was found; False if it takes more than `limit` pairs.

    For vectors that repeat, or lie on one side of the target: then the best average is far, and cells are useless. If
    all vectors are at least h along a direction, so is every average, and one nearer than b is at most sqrt(b^2 - h^2)
    across it; and the excess over b, summed along it, is negative.
    """
    n, dim = table.shape
    order = _group_equal_rows(table)
    rows = table[order].copy()
    left, left_masks = _list_distinct_sums(rows, 0, n // 2)
    right, right_masks = _list_distinct_sums(rows, n // 2, n)
    direction, far = _find_hull_direction(table, start, forced_count)
    while best > far * (1.0 + 1e-15):
        before = best
        across = math.sqrt((best - far) * (best + far)) * (forced_count + n)
        kind, pairs = _choose_key(left, left_masks, right, right_masks, start, forced_count, direction, best, across)
        if pairs > limit:
            return best, mask, False
        mine = _compute_keys(left, left_masks, start, forced_count, kind, direction, best)
        other = _compute_keys(right, right_masks, np.zeros(dim), 0, kind, direction, best)
        floor = far if kind < dim else -1.0
        best, word = _sweep_pairs(
            left, left_masks, mine, right, right_masks, other, start, forced_count, floor, best, forced_count + n
        )
        if best < before:
            mask = np.uint64(0)
            for j in range(n):
                if (word >> np.uint64(j)) & _ONE:
                    mask |= _ONE << np.uint64(order[j])
        if best >= 0.5 * before or kind < dim:
            break
    return best, mask, True


@kernel
def _group_equal_rows(table: Floats) -> Ints:
    """Return an order of the rows in which equal ones follow each other."""
    n = len(table)
    order, filled = np.empty(n, np.int64), 0
    placed = np.zeros(n, np.bool_)
    for j in range(n):
        if placed[j]:
            continue
        for k in range(j, n):
            if not placed[k] and (table[k] == table[j]).all():
                placed[k] = True
                order[filled] = k
                filled += 1
    return order


@kernel
def _sweep_pairs(
    left: Floats,
    left_masks: Words,
    left_keys: Floats,
    right: Floats,
    right_masks: Words,
    right_keys: Floats,
    start: Floats,
    forced_count: int,
    far: float,
    best: float,
    reach: int,
) -> tuple[float, np.uint64]:
    """Return the best average and its subset over the pairs whose keys nearly cancel.

    With `far` below zero, the keys are excesses over `best`, and their sum must be negative; the sweep then stops where
    the best has halved, since other keys would be better. Otherwise they are coordinates, and the window narrows as the
    best improves.
    """
    lefts, rights = np.argsort(left_keys), np.argsort(right_keys)
    above, until, last = len(rights), len(rights), len(rights)
    word, square, before = np.uint64(0), best * best, best
    across = 0.0 if far < 0.0 else math.sqrt((best - far) * (best + far)) * reach
    for a in lefts:
        key = left_keys[a]
        above = 0 if far < 0.0 else above
        while above > 0 and key + right_keys[rights[above - 1]] > -across:
            above -= 1
        while until > 0 and key + right_keys[rights[until - 1]] >= across:
            until -= 1
        for k in range(above, min(until, last)):
            b = rights[k]
            length = 0.0
            for i in range(left.shape[1]):
                length += (start[i] + left[a, i] + right[b, i]) ** 2
            count = forced_count + count_ones(left_masks[a] | right_masks[b])
            if count > 0 and length < square * count * count:
                best, word = math.sqrt(length) / count, left_masks[a] | right_masks[b]
                square = best * best
        if far < 0.0 and best < 0.5 * before:
            break
        if far >= 0.0 and best < before:
            before = best
            across = math.sqrt(max(0.0, (best - far) * (best + far))) * reach
            while above < last and key + right_keys[rights[above]] <= -across:
                above += 1
    return best, word
