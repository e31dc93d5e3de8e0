"""Good averages in several dimensions at once, better ones with time: each round meets in the cells of a coarse grid.

Of up to 36 free vectors the sums of one half are listed by cell, and each sum of the other half looks into its own cell
only; the other vectors are fixed for the round, in or out, so that they nearly balance.
Guarantee: never farther than the nearest single vector, the same for the same key; held by tests/subset/test_grid.py.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.random.kernels import GOLDEN, below, draw, ones
from vestige.subset.vectors import LARGEST_WORD, Half, expected_length, half_of, nearest_single, prepared
from vestige.types import Bools, Floats, Ints

EFFORT = 40
"""Rounds of `grid_search` that reach 2e-3 in five dimensions, for 40 normal vectors, in about 0.2 s."""
_FREE = 36
_TABLE_SPARE = 2  # slots of the table per listed sum, as a power of two
_ONE = np.uint64(1)


@kernel
def _choose_free(table: Floats, size: int, turn: int, key: np.uint64) -> Ints:
    """An order of the rows of which the first `size` are to be free: the nearest first, later random ones."""
    n = len(table)
    order = np.argsort((table**2).sum(axis=1))
    if turn > 0:
        for i in range(min(size, n - 1)):
            j = i + below(key, i, n - i)
            order[i], order[j] = order[j], order[i]
    return order


@kernel
def _settle(table: Floats, start: Floats, order: Ints, size: int, chosen: Bools, key: np.uint64) -> tuple[Floats, int]:
    """Choose among the rows that are not free as many as keep the sum within reach; the sum, and how many.

    The average of many is nearer for the same sum, so all are in at first, and single ones are dropped while that
    brings the sum nearer to what half of the free ones make up for. Of a few at random the best is dropped.
    """
    n = len(table)
    total = start.copy()
    middle = np.zeros(len(start))
    for k in range(size):
        middle += table[order[k]] / 2.0
    for k in range(size, n):
        chosen[order[k]] = True
        total += table[order[k]]
    left, tried = n - size, 0
    while left > 0 and tried < 4 * n:
        nearest, drop = ((total + middle) ** 2).sum(), -1
        for probe in range(6):
            k = size + int(below(key, 1000 + 6 * tried + probe, left))
            square = ((total + middle - table[order[k]]) ** 2).sum()
            if square < nearest:
                nearest, drop = square, k
        tried += 1
        if drop >= 0:
            total -= table[order[drop]]
            chosen[order[drop]] = False
            left -= 1
            order[drop], order[size + left] = order[size + left], order[drop]
    return total, left


@kernel
def _look_up(
    left: Half, right: Half, slots: NDArray[np.uint32], keep: np.uint64, counted: int, best: float, tolerance: float
) -> tuple[float, np.uint64]:
    """The best average of a left and a right subset in one cell, if nearer than `best`; stops at `tolerance`.

    A slot of the table holds one left subset, the last that came; a stale or foreign one fails the comparison.
    """
    bits = 0
    while (1 << bits) < len(slots):
        bits += 1
    down, low = np.uint64(64 - bits), (1 << left.bits) - 1
    for j in range(len(left.high)):
        for i in range(len(left.low)):
            word = (left.low[i] + left.high[j]) & keep
            slots[((word ^ (word >> np.uint64(32))) * GOLDEN) >> down] = np.uint32((j << left.bits) | i)
    found, square = np.uint64(0), best * best
    listed = np.uint64(len(left.low) * len(left.high))
    for j in range(len(right.high)):
        for i in range(len(right.low)):
            word = (np.uint64(0) - (right.low[i] + right.high[j])) & keep
            slot = np.int64(slots[((word ^ (word >> np.uint64(32))) * GOLDEN) >> down])
            a, b = slot & low, slot >> left.bits
            if (left.low[a] + left.high[b]) & keep != word:
                continue
            length = 0.0
            for k in range(left.low_sums.shape[1]):
                total = left.low_sums[a, k] + left.high_sums[b, k] + right.low_sums[i, k] + right.high_sums[j, k]
                length += total * total
            subset = np.uint64(slot) + listed * np.uint64((j << right.bits) | i)
            count = counted + ones(subset)
            if count > 0 and length < square * count * count:
                best, found = math.sqrt(length) / count, subset
                square = best * best
                if best <= tolerance:
                    return best, found
    return best, found


@kernel
def _mask_of_cells(fields: int, width: int, fine: int) -> np.uint64:
    """The bits of a packed sum that tell its cell: of each coordinate all but the lowest `fine`."""
    keep = np.uint64(0)
    for i in range(fields):
        keep |= (_ONE << np.uint64(64 - i * width - 1)) - (_ONE << np.uint64(64 - (i + 1) * width + fine))
        keep |= _ONE << np.uint64(64 - i * width - 1)
    return keep


@kernel
def _search_round(
    table: Floats,
    start: Floats,
    counted: int,
    best: float,
    tolerance: float,
    origin: np.uint64,
    slots: NDArray[np.uint32],
) -> tuple[float, np.uint64]:
    """The best average over the subsets of `table` that share a cell, if nearer than `best`.

    Cells are many times as wide as the distance to expect, so that few partners are parted; the origin is random, so
    that those are others in each round.
    """
    n, dim = table.shape
    cut, fields = n // 2, min(dim, 5)
    width = 64 // fields
    fine = max(6, width // 2)
    sigma = math.sqrt((table**2).sum() / (4.0 * dim))
    cell = expected_length(table, start, 1.0) / math.sqrt(dim) * (32.0 if fields < 4 else 16.0)
    widest = 3.5 * sigma * 2.0 ** (-cut / fields)  # then there are about as many cells as listed sums
    if not 0.0 < cell < widest:
        cell = widest
    largest = max(np.abs(start).max(), 1.0)
    scale = min(2.0**fine / cell, LARGEST_WORD / largest) if cell > 0.0 else 1.0
    left = half_of(table[:cut], start, origin, fields, width, scale)
    right = half_of(table[cut:], np.zeros(dim), np.uint64(0) - origin, fields, width, scale)
    slots[:] = 0
    return _look_up(left, right, slots, _mask_of_cells(fields, width, fine), counted, best, tolerance)


@kernel
def grid_search(offsets: Floats, base: Floats, counted: int, tolerance: float, key: np.uint64, effort: int) -> Bools:
    """A subset of the rows of `offsets` whose sum with `base`, over its count with `counted`, is near zero in l2.

    Each of the `effort` rounds frees up to 36 rows, settles the others, and pairs the sums of either half of the free
    ones that share a cell. Stops within `tolerance`. Nonempty unless `counted` is positive.
    """
    n = len(offsets)
    table, start, exponent = prepared(offsets, base)
    tolerance = math.ldexp(tolerance, exponent)
    best, at = nearest_single(table, start, counted)
    members = np.zeros(n, np.bool_)
    if at >= 0:
        members[at] = True
    size = min(n, _FREE)
    slots = np.zeros(1 << min(size // 2 + _TABLE_SPARE, 32), np.uint32)
    chosen = np.zeros(n, np.bool_)
    for turn in range(effort if n > 1 else 0):
        if best <= tolerance:
            break
        coin = draw(key, turn)
        order = _choose_free(table, size, turn, coin)
        chosen[:] = False
        total, settled = _settle(table, start, order, size, chosen, coin)
        rows = table[order[:size]].copy()
        nearer, word = _search_round(rows, total, counted + settled, best, tolerance, draw(coin, n), slots)
        if nearer < best:
            best = nearer
            for j in range(size):
                chosen[order[j]] = (word >> np.uint64(j)) & _ONE == _ONE
            members[:] = chosen
    return members
