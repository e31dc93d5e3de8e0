"""Near averages in several dimensions, better with time: each round matches sums in the cells of a coarse grid.

Of up to 36 free vectors, the sums of one half are stored by cell, and each sum of the other half looks into its own
cell only. The remaining vectors are fixed for the round, in or out, so that they nearly balance.
Guarantee: never farther than the nearest single vector, and the same for the same key; held by
tests/subset/test_grid.py.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.random.kernels import GOLDEN, draw, draw_below
from vestige.subset.bits import count_ones
from vestige.subset.vectors import LARGEST_WORD, Half, estimate_length, find_nearest_single, make_half, normalize
from vestige.types import Bools, Floats, Ints

EFFORT = 40
"""Number of rounds of `search_grid` that reach 2e-3 in five dimensions, for 40 normal vectors, in about 0.2 s."""
_FREE = 36
_TABLE_SPARE = 2  # slots of the table per listed sum, as a power of two
_ONE = np.uint64(1)


@kernel
def _order_rows(table: Floats, size: int, turn: int, key: np.uint64) -> Ints:
    """Return an order of the rows whose first `size` are to be free: the nearest, in later rounds random ones."""
    n, dim = table.shape
    squares = np.zeros(n)
    for k in range(n):
        for i in range(dim):
            squares[k] += table[k, i] ** 2
    order = np.argsort(squares)
    if turn > 0:
        for i in range(min(size, n - 1)):
            j = i + draw_below(key, i, n - i)
            order[i], order[j] = order[j], order[i]
    return order


@kernel
def _fix_others(
    table: Floats, start: Floats, order: Ints, size: int, chosen: Bools, key: np.uint64
) -> tuple[Floats, int]:
    """Fix the rows that are not free, and return the sum and the number of those chosen.

    For a given sum, the average of many is nearer, so all are chosen at first, and single rows are dropped while that
    brings the sum nearer to what half of the free rows compensate. Of six random rows the best is dropped.
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
            k = size + int(draw_below(key, 1000 + 6 * tried + probe, left))
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
def _pair_by_cell(
    left: Half,
    right: Half,
    slots: NDArray[np.uint32],
    keep: np.uint64,
    forced_count: int,
    best: float,
    tolerance: float,
) -> tuple[float, np.uint64]:
    """Return the best average of two subsets in the same cell, if nearer than `best`; stop at `tolerance`.

    A slot of the table holds one left subset, the last one written; a stale or foreign one fails the comparison.
    """
    bits = 0
    while (1 << bits) < len(slots):
        bits += 1
    down, low = np.uint64(64 - bits), (1 << left.bits) - 1
    for j in range(len(left.high)):
        for i in range(len(left.low)):
            word = (left.low[i] + left.high[j]) & keep
            slots[((word ^ (word >> np.uint64(32))) * GOLDEN) >> down] = np.uint32((j << left.bits) | i)
    best_subset, square = np.uint64(0), best * best
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
            count = forced_count + count_ones(subset)
            if count > 0 and length < square * count * count:
                best, best_subset = math.sqrt(length) / count, subset
                square = best * best
                if best <= tolerance:
                    return best, best_subset
    return best, best_subset


@kernel
def _make_cell_mask(fields: int, width: int, fine: int) -> np.uint64:
    """Return the bits of a packed sum that determine its cell: all but the lowest `fine` of each coordinate."""
    keep = np.uint64(0)
    for i in range(fields):
        keep |= (_ONE << np.uint64(64 - i * width - 1)) - (_ONE << np.uint64(64 - (i + 1) * width + fine))
        keep |= _ONE << np.uint64(64 - i * width - 1)
    return keep


@kernel
def _search_round(
    table: Floats,
    start: Floats,
    forced_count: int,
    best: float,
    tolerance: float,
    origin: np.uint64,
    slots: NDArray[np.uint32],
) -> tuple[float, np.uint64]:
    """Return the best average over the subsets of `table` whose halves share a cell, if nearer than `best`.

    Cells are many times as wide as the expected distance, so that few matches are separated; the origin is random, so
    that these are different ones in each round.
    """
    n, dim = table.shape
    cut, fields = n // 2, min(dim, 5)
    width = 64 // fields
    fine = max(6, width // 2)
    sigma = math.sqrt((table**2).sum() / (4.0 * dim))
    cell = estimate_length(table, start, 1.0) / math.sqrt(dim) * (32.0 if fields < 4 else 16.0)
    widest = 3.5 * sigma * 2.0 ** (-cut / fields)  # then there are about as many cells as listed sums
    if not 0.0 < cell < widest:
        cell = widest
    largest = max(np.abs(start).max(), 1.0)
    scale = min(2.0**fine / cell, LARGEST_WORD / largest) if cell > 0.0 else 1.0
    left = make_half(table[:cut], start, origin, fields, width, scale)
    right = make_half(table[cut:], np.zeros(dim), np.uint64(0) - origin, fields, width, scale)
    slots[:] = 0
    return _pair_by_cell(left, right, slots, _make_cell_mask(fields, width, fine), forced_count, best, tolerance)


@kernel
def search_grid(
    offsets: Floats, base: Floats, forced_count: int, tolerance: float, key: np.uint64, effort: int
) -> Bools:
    """Return a subset of rows whose average is near zero in l2.

    Each round frees up to 36 rows, fixes the others, and pairs the sums of the two halves of the free rows that share a
    cell.

    Args:
        offsets: the rows to choose from; shape (n, dim).
        base: sum of the rows that must be in the subset; shape (dim,).
        forced_count: number of rows that must be in the subset; if it is 0, the result is nonempty.
        tolerance: residual at which the search stops.
        key: key of the random choices.
        effort: number of rounds.

    Returns:
        The mask over the rows; shape (n,).
    """
    n = len(offsets)
    table, start, exponent = normalize(offsets, base)
    tolerance = math.ldexp(tolerance, exponent)
    best, at = find_nearest_single(table, start, forced_count)
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
        order = _order_rows(table, size, turn, coin)
        chosen[:] = False
        total, fixed_count = _fix_others(table, start, order, size, chosen, coin)
        rows = table[order[:size]].copy()
        nearer, word = _search_round(rows, total, forced_count + fixed_count, best, tolerance, draw(coin, n), slots)
        if nearer < best:
            best = nearer
            for j in range(size):
                chosen[order[j]] = (word >> np.uint64(j)) & _ONE == _ONE
            for j in range(n):
                members[j] = chosen[j]
    return members
