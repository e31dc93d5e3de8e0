"""The nearest average in several dimensions where a grid is of no use: far targets, equal vectors, many dimensions.

Pairs of sums of both halves are swept in the order of one key: a coordinate, or the excess over the best along the
direction in which the target lies outside.
Guarantee: exact; held by tests/subset/test_grid.py.
"""

from __future__ import annotations

import math

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import ones
from vestige.types import Floats, Ints, Words

_ONE = np.uint64(1)


@kernel
def _distinct_sums(table: Floats, first: int, stop: int) -> tuple[Floats, Words]:
    """The sums of the subsets of some rows, and which subsets; of equal rows that follow each other, the first ones.

    So that k equal rows make k + 1 sums, not 2^k.
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
def _hull_direction(table: Floats, start: Floats, counted: int) -> tuple[Floats, float]:
    """A unit vector along which every vector (and the forced ones' average) is at least so far; 0 if there is none.

    Gilbert's algorithm for the point of the convex hull that is nearest zero.
    """
    n, dim = table.shape
    point = start / counted if counted > 0 else table[0].copy()
    direction, farthest = np.zeros(dim), 0.0
    for _ in range(300):
        length = math.sqrt((point**2).sum())
        if length == 0.0:
            break
        unit = point / length
        least, at = np.inf, -1
        if counted > 0:
            least = (unit * start).sum() / counted
        for j in range(n):
            along = (unit * table[j]).sum()
            if along < least:
                least, at = along, j
        if least > farthest:
            direction, farthest = unit, least
        step = (table[at] if at >= 0 else start / counted) - point
        square = (step**2).sum()
        if square == 0.0 or least >= length * (1.0 - 1e-12):
            break
        point = point + step * min(1.0, -(point * step).sum() / square)
    return direction, farthest


@kernel
def _keys(sums: Floats, masks: Words, start: Floats, counted: int, kind: int, direction: Floats, best: float) -> Floats:
    """What the sums are swept by: a coordinate across `direction`, or (last) the excess over `best` along it."""
    dim = sums.shape[1]
    axis, charge = direction, best
    if kind < dim:
        axis = -direction[kind] * direction
        axis[kind] += 1.0
        axis /= math.sqrt((axis**2).sum())
        charge = 0.0
    keys = np.empty(len(sums))
    for k in range(len(sums)):
        keys[k] = -charge * (counted + ones(masks[k]))
        for i in range(dim):
            keys[k] += axis[i] * (sums[k, i] + start[i])
    return keys


@kernel
def _pairs_between(left: Floats, right: Floats, least: float, most: float) -> float:
    """How many pairs of the sorted keys have a sum above `least` and below `most`."""
    total, above, until = 0.0, len(right), len(right)
    for key in left:
        while above > 0 and key + right[above - 1] > least:
            above -= 1
        while until > 0 and key + right[until - 1] >= most:
            until -= 1
        total += max(0, until - above)
    return total


@kernel
def _most_selective(
    left: Floats,
    left_masks: Words,
    right: Floats,
    right_masks: Words,
    start: Floats,
    counted: int,
    direction: Floats,
    best: float,
    across: float,
) -> tuple[int, float]:
    """By which key fewest pairs are left to weigh, and how many."""
    dim = left.shape[1]
    chosen, fewest = 0, np.inf
    for kind in range(dim + 1):
        if kind < dim and abs(direction[kind]) > 0.99:
            continue
        if kind == dim and not direction.any():
            continue
        mine = np.sort(_keys(left, left_masks, start, counted, kind, direction, best))
        other = np.sort(_keys(right, right_masks, np.zeros(dim), 0, kind, direction, best))
        pairs = _pairs_between(mine, other, -across if kind < dim else -np.inf, across if kind < dim else 0.0)
        if pairs < fewest:
            chosen, fewest = kind, pairs
    return chosen, fewest


@kernel
def sweep(
    table: Floats, start: Floats, counted: int, best: float, mask: np.uint64, limit: float
) -> tuple[float, np.uint64, bool]:
    """The best average and its subset by sorting along one direction; False if that is more than `limit` pairs.

    For vectors that repeat, or lie on one side of the target: then the best average is far, and cells are useless. If
    all vectors are at least h along a direction, so is every average, and one nearer than b is at most
    sqrt(b^2 - h^2) across it; and the excess over b, summed along it, is negative.
    """
    n, dim = table.shape
    order = _grouped(table)
    rows = table[order].copy()
    left, left_masks = _distinct_sums(rows, 0, n // 2)
    right, right_masks = _distinct_sums(rows, n // 2, n)
    direction, far = _hull_direction(table, start, counted)
    while best > far * (1.0 + 1e-15):
        before = best
        across = math.sqrt((best - far) * (best + far)) * (counted + n)
        kind, pairs = _most_selective(left, left_masks, right, right_masks, start, counted, direction, best, across)
        if pairs > limit:
            return best, mask, False
        mine = _keys(left, left_masks, start, counted, kind, direction, best)
        other = _keys(right, right_masks, np.zeros(dim), 0, kind, direction, best)
        floor = far if kind < dim else -1.0
        best, word = _swept(left, left_masks, mine, right, right_masks, other, start, counted, floor, best, counted + n)
        if best < before:
            mask = np.uint64(0)
            for j in range(n):
                if (word >> np.uint64(j)) & _ONE:
                    mask |= _ONE << np.uint64(order[j])
        if best >= 0.5 * before or kind < dim:
            break
    return best, mask, True


@kernel
def _grouped(table: Floats) -> Ints:
    """An order of the rows in which equal ones follow each other."""
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
def _swept(
    left: Floats,
    left_masks: Words,
    left_keys: Floats,
    right: Floats,
    right_masks: Words,
    right_keys: Floats,
    start: Floats,
    counted: int,
    far: float,
    best: float,
    reach: int,
) -> tuple[float, np.uint64]:
    """The best average and its subset, over the pairs whose keys add up to little.

    With `far` below zero the keys are excesses over `best`, which must be negative; then it stops where the best has
    halved, for other keys would be better. Else they are coordinates, and the window closes as the best improves.
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
            count = counted + ones(left_masks[a] | right_masks[b])
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
