"""The subset whose average is nearest a target in several dimensions, by meeting in the middle on a grid.

Horowitz and Sahni's two halves, with cells in place of sorting: a subset can only beat the average `best` if its sum is
shorter than `best * count`, so a left and a right sum that belong together lie in the same or in neighbouring cells of
that width. The leading coordinates of a sum are packed into one word, so that a sum costs one addition and its cell a
few shifts; coordinates wrap around, which costs false partners but no true one, for every pair that is left is scored
in floating point.
Guarantee: the optimum, up to rounding; held by tests/subset/test_grid.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import GOLDEN, ones
from vestige.subset.sweep import sweep
from vestige.subset.vectors import LARGEST_WORD, Half, expected_length, half_of, nearest_single, prepared
from vestige.types import Floats, Ints, Words

_EXPECTED = 3.0  # subsets expected within the first reach: it fails, and a second round is due, in exp(-3) of cases
_GROWTH = 2.5
_SPARE_BITS = 6  # bits of the grid per left sum, as a power of two
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LAST = np.uint64(63)


class _Cells(NamedTuple):
    """How a packed sum maps to a bit of the grid: blocks of 8 x 8 (or 4 x 4 x 4) cells fill one word of it.

    Attributes:
        width: bits of a packed coordinate.
        scale: units per 1.
        window: how far apart partners may lie, in units, in every packed coordinate.
        up: what shifts the block number of each coordinate to its place in the number of the word.
        upper: the bits there; none for a coordinate that is not used.
        down: what shifts the rest of its cell number to its place in the number of the bit.
        lower: the bits there.
    """

    width: int
    scale: float
    window: np.uint64
    up: tuple[np.uint64, np.uint64, np.uint64]
    upper: tuple[np.uint64, np.uint64, np.uint64]
    down: tuple[np.uint64, np.uint64, np.uint64]
    lower: tuple[np.uint64, np.uint64, np.uint64]


@kernel
def _lay_cells(table: Floats, start: Floats, window: float) -> _Cells:
    """Cells for partners that are at most `window` apart in each coordinate, eight or three times as wide."""
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
def _place(word: np.uint64, cells: _Cells) -> np.uint64:
    """The number of the cell of a packed sum: its word in the grid, then its bit."""
    return (
        ((word >> cells.up[0]) & cells.upper[0])
        | ((word >> cells.up[1]) & cells.upper[1])
        | ((word >> cells.up[2]) & cells.upper[2])
        | ((word >> cells.down[0]) & cells.lower[0])
        | ((word >> cells.down[1]) & cells.lower[1])
        | ((word >> cells.down[2]) & cells.lower[2])
    )


@kernel
def _places(low: Words, high: np.uint64, cells: _Cells, places: Words) -> None:
    """The cells of `low` plus `high`: a loop of its own, for then it runs on several words at a time."""
    for i in range(len(low)):
        places[i] = _place(low[i] + high, cells)


@kernel
def _corner(first: np.uint64, last: np.uint64, corner: int, cells: _Cells) -> np.uint64:
    """The cell that takes its coordinates from the cell `last` where the bits of `corner` say so, else from `first`."""
    place = np.uint64(0)
    for i in range(3):
        place |= (last if (corner >> i) & 1 else first) & (cells.upper[i] | cells.lower[i])
    return place


@kernel
def _repeats(first: np.uint64, last: np.uint64, corner: int, cells: _Cells) -> bool:
    """Whether a corner with fewer bits is the same cell."""
    repeats = False
    for i in range(3):
        same = (first ^ last) & (cells.upper[i] | cells.lower[i]) == np.uint64(0)
        repeats |= (corner >> i) & 1 == 1 and bool(same)
    return repeats


@kernel
def _mark(half: Half, cells: _Cells, grid: Words) -> None:
    """Mark in the grid every cell that a partner of one of the sums may lie in.

    Those are up to 2 x 2 (x 2) cells, mostly of one block: then they are one product of bits, and one access.
    """
    x, y, z = cells.lower
    firsts, lasts = np.empty_like(half.low), np.empty_like(half.low)
    for high in half.high:
        _places(half.low, high - cells.window, cells, firsts)
        _places(half.low, high + cells.window, cells, lasts)
        for i in range(len(firsts)):
            first, last = firsts[i], lasts[i]
            if (first ^ last) >> _SIX == np.uint64(0):
                bits = (_ONE << (first & x)) | (_ONE << (last & x))
                bits *= (_ONE << (first & y)) | (_ONE << (last & y))
                bits *= (_ONE << (first & z)) | (_ONE << (last & z))
                grid[first >> _SIX] |= bits
            else:
                for corner in range(8):
                    place = _corner(first, last, corner, cells)
                    grid[place >> _SIX] |= _ONE << (place & _LAST)


@kernel
def _survivors(half: Half, cells: _Cells, grid: Words) -> Ints:
    """The subsets whose opposite lies in a marked cell; few, and found without a branch."""
    opposite, places = np.uint64(0) - half.low, np.empty_like(half.low)
    found = np.empty(4 * len(half.low), np.int64)
    count = np.int64(0)
    for j in range(len(half.high)):
        if count + len(half.low) > len(found):
            found = np.append(found, np.empty_like(found))
        _places(opposite, np.uint64(0) - half.high[j], cells, places)
        for i in range(len(places)):
            place = places[i]
            found[count] = (j << half.bits) | i
            count += np.int64((grid[place >> _SIX] >> (place & _LAST)) & _ONE)
    return found[:count]


@kernel
def _chain(half: Half, found: Ints, cells: _Cells, size: int) -> tuple[Ints, Ints, Ints, Words]:
    """Chains of the survivors by the cells in which their partners may lie, and a small filter before them.

    Returns the heads (by hash), the next entry of each entry, the entries' survivors, and the filter.
    """
    heads = np.full(1 << size, -1, np.int64)
    most = len(found) * 8
    following, entries = np.empty(most, np.int64), np.empty(most, np.int64)
    sieve = np.zeros(1 << (size - 3), np.uint64)
    filled = 0
    for k in range(len(found)):
        i, j = found[k] & ((1 << half.bits) - 1), found[k] >> half.bits
        word = np.uint64(0) - (half.low[i] + half.high[j])
        first, last = _place(word - cells.window, cells), _place(word + cells.window, cells)
        for corner in range(8):
            place = _corner(first, last, corner, cells)
            if corner > 0 and _repeats(first, last, corner, cells):
                continue
            code = (place * GOLDEN) >> np.uint64(61 - size)
            sieve[code >> _SIX] |= _ONE << (code & _LAST)
            slot = code >> np.uint64(3)
            following[filled], entries[filled] = heads[slot], k
            heads[slot] = filled
            filled += 1
    return heads, following, entries, sieve


@kernel
def _sieved(half: Half, cells: _Cells, sieve: Words, size: int) -> Ints:
    """The left subsets that may have a partner in the chains."""
    places = np.empty_like(half.low)
    found = np.empty(4 * len(half.low), np.int64)
    count = np.int64(0)
    for j in range(len(half.high)):
        if count + len(half.low) > len(found):
            found = np.append(found, np.empty_like(found))
        _places(half.low, half.high[j], cells, places)
        for i in range(len(places)):
            code = (places[i] * GOLDEN) >> np.uint64(61 - size)
            found[count] = (j << half.bits) | i
            count += np.int64((sieve[code >> _SIX] >> (code & _LAST)) & _ONE)
    return found[:count]


@kernel
def _full_sums(half: Half, found: Ints) -> Floats:
    """The sums of the given subsets."""
    dim = half.low_sums.shape[1]
    sums = np.empty((len(found), dim))
    for k in range(len(found)):
        a, b = found[k] & ((1 << half.bits) - 1), found[k] >> half.bits
        for i in range(dim):
            sums[k, i] = half.low_sums[a, i] + half.high_sums[b, i]
    return sums


@kernel
def _round(
    table: Floats, start: Floats, counted: int, reach: float, best: float, mask: np.uint64, budget: float
) -> tuple[float, np.uint64, float]:
    """The best average, its subset, and 0: of those nearer than `best`, all that are nearer than `reach` are weighed.

    If it takes more than `budget` pairs it stops; then the last figure is how many it would have taken.
    """
    n, dim = table.shape
    cut = n // 2
    cells = _lay_cells(table, start, reach * (counted + n))
    fields = 2 if dim == 2 else 3
    nought = np.uint64(0)
    left = half_of(table[:cut], start, nought, fields, cells.width, cells.scale)
    right = half_of(table[cut:], np.zeros(dim), nought, fields, cells.width, cells.scale)
    grid = np.zeros(1 << (max(cut + _SPARE_BITS, 3 * fields) - 6), np.uint64)
    _mark(left, cells, grid)
    rights = _survivors(right, cells, grid)
    size = 12
    while size < 20 and (1 << size) < 4 * len(rights):
        size += 1
    heads, following, entries, sieve = _chain(right, rights, cells, size)
    lefts = _sieved(left, cells, sieve, size)
    right_sums, left_sums = _full_sums(right, rights), _full_sums(left, lefts)
    square, weighed = best * best, 0
    for k in range(len(lefts)):
        a, b = lefts[k] & ((1 << left.bits) - 1), lefts[k] >> left.bits
        entry = heads[(_place(left.low[a] + left.high[b], cells) * GOLDEN) >> np.uint64(64 - size)]
        limit = reach * (counted + n)
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
            count = counted + ones(word)
            if count > 0 and length < square * count * count:
                best, mask = math.sqrt(length) / count, word
                square = best * best
        if weighed > budget:
            return best, mask, weighed * (len(lefts) / (k + 1.0))
    return best, mask, 0.0


@kernel
def grid_meet(offsets: Floats, base: Floats, counted: int) -> np.uint64:
    """The subset of the rows of `offsets`, as a bit mask, whose sum with `base` over its count is nearest zero in l2.

    The count includes `counted`: `base` is the sum of so many that must be in. Nonempty unless `counted` is positive.
    The reach of the first round is what normal sums would need; it grows until the best average lies within it, which
    proves it. Takes about 2^(n/2) steps where that is a small distance, and a sweep where it is not.
    """
    n = len(offsets)
    table, start, _ = prepared(offsets, base)
    best, at = nearest_single(table, start, counted)
    mask = np.uint64(0) if at < 0 else _ONE << np.uint64(at)
    if n == 1 or best == 0.0:
        return mask
    reach = expected_length(table, start, _EXPECTED) / (counted + 0.5 * n)
    if not 0.0 < reach < np.inf:
        return sweep(table, start, counted, best, mask, np.inf)[1]
    budget = 2.0 ** (n // 2 + 5) + 2.0**16
    while True:
        reach = min(reach, best)
        best, mask, pairs = _round(table, start, counted, reach, best, mask, budget)
        if pairs > 0.0:
            best, mask, swept = sweep(table, start, counted, best, mask, pairs)
            if swept:
                return mask
            budget = np.inf
        elif best <= reach:
            return mask
        else:
            reach *= _GROWTH
