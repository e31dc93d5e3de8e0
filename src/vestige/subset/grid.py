"""The subset whose average is nearest a target in several dimensions: meet in the middle on a grid.

The two halves of Horowitz and Sahni (1974, https://doi.org/10.1145/321812.321823), with grid cells in place of sorting.
A subset can beat the average `best` only if its sum is shorter than `best * count`, so matching left and right sums lie
in the same cell of that width or in neighbouring cells. The leading coordinates of a sum are packed into one word, so
that a sum costs one addition and its cell a few shifts. Coordinates wrap around, which creates false matches but loses
no true one, since every remaining pair is scored in floating point.
Guarantee: the optimum, up to rounding; held by tests/subset/test_grid.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import GOLDEN
from vestige.subset.bits import count_ones
from vestige.subset.sweep import sweep
from vestige.subset.vectors import LARGEST_WORD, Half, estimate_length, find_nearest_single, make_half, normalize
from vestige.types import Floats, Ints, Words

_EXPECTED = 3.0  # subsets expected within the first reach: it fails, and a second round is due, in exp(-3) of cases
_GROWTH = 2.5
_SPARE_BITS = 6  # bits of the grid per left sum, as a power of two
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LAST = np.uint64(63)


class _Cells(NamedTuple):
    """The map from a packed sum to a bit of the grid: blocks of 8 x 8 (or 4 x 4 x 4) cells fill one word.

    Attributes:
        width: bits of a packed coordinate.
        scale: units per 1.
        window: largest distance of matching sums, in units, in every packed coordinate.
        up: shifts of the block number of each coordinate to its position in the word index.
        upper: masks of these positions; 0 for a coordinate that is not used.
        down: shifts of the rest of the cell number to its position in the bit index.
        lower: masks of these positions.
    """

    width: int
    scale: float
    window: np.uint64
    up: tuple[np.uint64, np.uint64, np.uint64]
    upper: tuple[np.uint64, np.uint64, np.uint64]
    down: tuple[np.uint64, np.uint64, np.uint64]
    lower: tuple[np.uint64, np.uint64, np.uint64]


@kernel
def _make_cells(table: Floats, start: Floats, window: float) -> _Cells:
    """Return cells that are eight (or three) times as wide as the largest distance of matching sums, `window`."""
    n, dim = table.shape
    fields = 2 if dim == 2 else 3
    bits = max(n // 2 + _SPARE_BITS, 3 * fields)
    width, inner = 64 // fields, 6 // fields
    sizes = (bits - (fields - 1) * (bits // fields), bits // fields, bits // fields if fields == 3 else 0)
    largest = max(np.abs(start).max(), 1.0)
    scale = min(2.0 ** (width - sizes[0]) / ((8.0 if fields == 2 else 3.0) * window), LARGEST_WORD / largest)
    units = np.uint64(math.ceil(window * scale)) + np.uint64(3 * n + 8)  # rounding, and carries between coordinates
    packed = np.uint64(0)
    shifts = np.zeros((4, 3), np.uint64)
    block, bit = bits, 6  # bits are handed out from the top, coordinate by coordinate
    for i in range(fields):
        packed += units << np.uint64(64 - (i + 1) * width)
        block, bit = block - (sizes[i] - inner), bit - inner
        shifts[0, i] = 64 - i * width - (sizes[i] - inner) - block
        shifts[1, i] = ((1 << (sizes[i] - inner)) - 1) << block
        shifts[2, i] = 64 - i * width - sizes[i] - bit
        shifts[3, i] = ((1 << inner) - 1) << bit
    return _Cells(
        width,
        scale,
        packed,
        (shifts[0, 0], shifts[0, 1], shifts[0, 2]),
        (shifts[1, 0], shifts[1, 1], shifts[1, 2]),
        (shifts[2, 0], shifts[2, 1], shifts[2, 2]),
        (shifts[3, 0], shifts[3, 1], shifts[3, 2]),
    )


@kernel
def _find_cell(word: np.uint64, cells: _Cells) -> np.uint64:
    """Return the cell number of a packed sum: its word in the grid, then its bit."""
    return (
        ((word >> cells.up[0]) & cells.upper[0])
        | ((word >> cells.up[1]) & cells.upper[1])
        | ((word >> cells.up[2]) & cells.upper[2])
        | ((word >> cells.down[0]) & cells.lower[0])
        | ((word >> cells.down[1]) & cells.lower[1])
        | ((word >> cells.down[2]) & cells.lower[2])
    )


@kernel
def _find_cells(low: Words, high: np.uint64, cells: _Cells, places: Words) -> None:
    """Write the cells of `low` plus `high`; a separate loop, so that the compiler vectorises it."""
    for i in range(len(low)):
        places[i] = _find_cell(low[i] + high, cells)


@kernel
def _pick_corner(first: np.uint64, last: np.uint64, corner: int, cells: _Cells) -> np.uint64:
    """Return the cell with coordinate i of the cell `last` where bit i of `corner` is set, else of `first`."""
    place = np.uint64(0)
    for i in range(3):
        place |= (last if (corner >> i) & 1 else first) & (cells.upper[i] | cells.lower[i])
    return place


@kernel
def _is_repeated(first: np.uint64, last: np.uint64, corner: int, cells: _Cells) -> bool:
    """Return whether a corner with fewer bits is the same cell."""
    is_repeated = False
    for i in range(3):
        same = (first ^ last) & (cells.upper[i] | cells.lower[i]) == np.uint64(0)
        is_repeated |= (corner >> i) & 1 == 1 and bool(same)
    return is_repeated


@kernel
def _mark_cells(half: Half, cells: _Cells, grid: Words) -> None:
    """Mark in the grid every cell that can contain the match of a sum.

    Those are up to 2 x 2 (x 2) cells, mostly in one block: then they are one product of bits and one memory access.
    """
    x, y, z = cells.lower
    firsts, lasts = np.empty_like(half.low), np.empty_like(half.low)
    for high in half.high:
        _find_cells(half.low, high - cells.window, cells, firsts)
        _find_cells(half.low, high + cells.window, cells, lasts)
        for i in range(len(firsts)):
            first, last = firsts[i], lasts[i]
            if (first ^ last) >> _SIX == np.uint64(0):
                bits = (_ONE << (first & x)) | (_ONE << (last & x))
                bits *= (_ONE << (first & y)) | (_ONE << (last & y))
                bits *= (_ONE << (first & z)) | (_ONE << (last & z))
                grid[first >> _SIX] |= bits
            else:
                for corner in range(8):
                    place = _pick_corner(first, last, corner, cells)
                    grid[place >> _SIX] |= _ONE << (place & _LAST)


@kernel
def _find_survivors(half: Half, cells: _Cells, grid: Words) -> Ints:
    """Return the subsets whose opposite lies in a marked cell; there are few, found without branches."""
    opposite, places = np.uint64(0) - half.low, np.empty_like(half.low)
    subsets = np.empty(4 * len(half.low), np.int64)
    count = np.int64(0)
    for j in range(len(half.high)):
        if count + len(half.low) > len(subsets):
            subsets = np.append(subsets, np.empty_like(subsets))
        _find_cells(opposite, np.uint64(0) - half.high[j], cells, places)
        for i in range(len(places)):
            place = places[i]
            subsets[count] = (j << half.bits) | i
            count += np.int64((grid[place >> _SIX] >> (place & _LAST)) & _ONE)
    return subsets[:count]


@kernel
def _build_chains(half: Half, subsets: Ints, cells: _Cells, size: int) -> tuple[Ints, Ints, Ints, Words]:
    """Return hash chains of the survivors, by the cells that can contain their matches, and a small filter.

    Returns the heads (by hash), the next entry of each entry, the survivor of each entry, and the filter.
    """
    heads = np.full(1 << size, -1, np.int64)
    most = len(subsets) * 8
    following, entries = np.empty(most, np.int64), np.empty(most, np.int64)
    bloom = np.zeros(1 << (size - 3), np.uint64)
    filled = 0
    for k in range(len(subsets)):
        i, j = subsets[k] & ((1 << half.bits) - 1), subsets[k] >> half.bits
        word = np.uint64(0) - (half.low[i] + half.high[j])
        first, last = _find_cell(word - cells.window, cells), _find_cell(word + cells.window, cells)
        for corner in range(8):
            place = _pick_corner(first, last, corner, cells)
            if corner > 0 and _is_repeated(first, last, corner, cells):
                continue
            code = (place * GOLDEN) >> np.uint64(61 - size)
            bloom[code >> _SIX] |= _ONE << (code & _LAST)
            slot = code >> np.uint64(3)
            following[filled], entries[filled] = heads[slot], k
            heads[slot] = filled
            filled += 1
    return heads, following, entries, bloom


@kernel
def _filter_left(half: Half, cells: _Cells, bloom: Words, size: int) -> Ints:
    """Return the left subsets that may have a match in the chains."""
    places = np.empty_like(half.low)
    subsets = np.empty(4 * len(half.low), np.int64)
    count = np.int64(0)
    for j in range(len(half.high)):
        if count + len(half.low) > len(subsets):
            subsets = np.append(subsets, np.empty_like(subsets))
        _find_cells(half.low, half.high[j], cells, places)
        for i in range(len(places)):
            code = (places[i] * GOLDEN) >> np.uint64(61 - size)
            subsets[count] = (j << half.bits) | i
            count += np.int64((bloom[code >> _SIX] >> (code & _LAST)) & _ONE)
    return subsets[:count]


@kernel
def _compute_sums(half: Half, subsets: Ints) -> Floats:
    """Return the sums of the given subsets; shape (count, dim)."""
    dim = half.low_sums.shape[1]
    sums = np.empty((len(subsets), dim))
    for k in range(len(subsets)):
        a, b = subsets[k] & ((1 << half.bits) - 1), subsets[k] >> half.bits
        for i in range(dim):
            sums[k, i] = half.low_sums[a, i] + half.high_sums[b, i]
    return sums


@kernel
def _search_within(
    table: Floats, start: Floats, forced_count: int, reach: float, best: float, mask: np.uint64, budget: float
) -> tuple[float, np.uint64, float]:
    """Return the best average, its subset and 0, after scoring all averages within `reach` that are nearer than `best`.

    If that takes more than `budget` pairs, it stops; the last figure is then the estimated number of pairs.
    """
    n, dim = table.shape
    cut = n // 2
    cells = _make_cells(table, start, reach * (forced_count + n))
    fields = 2 if dim == 2 else 3
    nought = np.uint64(0)
    left = make_half(table[:cut], start, nought, fields, cells.width, cells.scale)
    right = make_half(table[cut:], np.zeros(dim), nought, fields, cells.width, cells.scale)
    grid = np.zeros(1 << (max(cut + _SPARE_BITS, 3 * fields) - 6), np.uint64)
    _mark_cells(left, cells, grid)
    rights = _find_survivors(right, cells, grid)
    size = 12
    while size < 20 and (1 << size) < 4 * len(rights):
        size += 1
    heads, following, entries, bloom = _build_chains(right, rights, cells, size)
    lefts = _filter_left(left, cells, bloom, size)
    right_sums, left_sums = _compute_sums(right, rights), _compute_sums(left, lefts)
    square, weighed = best * best, 0
    for k in range(len(lefts)):
        a, b = lefts[k] & ((1 << left.bits) - 1), lefts[k] >> left.bits
        entry = heads[(_find_cell(left.low[a] + left.high[b], cells) * GOLDEN) >> np.uint64(64 - size)]
        limit = reach * (forced_count + n)
        while entry >= 0:
            other = entries[entry]
            entry = following[entry]
            weighed += 1
            first = left_sums[k, 0] + right_sums[other, 0]
            if abs(first) > limit:
                continue
            length = first * first
            for i in range(1, dim):
                length += (left_sums[k, i] + right_sums[other, i]) ** 2
            word = np.uint64(lefts[k]) | (np.uint64(rights[other]) << np.uint64(cut))
            count = forced_count + count_ones(word)
            if count > 0 and length < square * count * count:
                best, mask = math.sqrt(length) / count, word
                square = best * best
        if weighed > budget:
            return best, mask, weighed * (len(lefts) / (k + 1.0))
    return best, mask, 0.0


@kernel
def meet_on_grid(offsets: Floats, base: Floats, forced_count: int) -> np.uint64:
    """Return the subset of rows, as a bit mask, whose average is nearest zero in l2.

    The reach of the first round is what normally distributed sums need; it grows until the best average lies within it,
    which proves the optimum. This takes about 2^(n/2) steps where that distance is small; otherwise `sweep` is used.

    Args:
        offsets: the rows to choose from; shape (n, dim).
        base: sum of the rows that must be in the subset; shape (dim,).
        forced_count: number of rows that must be in the subset; if it is 0, the result is nonempty.

    Returns:
        The bit mask over the rows.
    """
    n = len(offsets)
    table, start, _ = normalize(offsets, base)
    best, at = find_nearest_single(table, start, forced_count)
    mask = np.uint64(0) if at < 0 else _ONE << np.uint64(at)
    if n == 1 or best == 0.0:
        return mask
    reach = estimate_length(table, start, _EXPECTED) / (forced_count + 0.5 * n)
    if not 0.0 < reach < np.inf:
        return sweep(table, start, forced_count, best, mask, np.inf)[1]
    budget = 2.0 ** (n // 2 + 5) + 2.0**16
    while True:
        reach = min(reach, best)
        best, mask, pairs = _search_within(table, start, forced_count, reach, best, mask, budget)
        if pairs > 0.0:
            best, mask, is_complete = sweep(table, start, forced_count, best, mask, pairs)
            if is_complete:
                return mask
            budget = np.inf
        elif best <= reach:
            return mask
        else:
            reach *= _GROWTH
