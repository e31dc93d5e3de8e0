"""The nearest average of 23 to 48 numbers, exactly, in little memory: sums that have no opposite are sieved out.

As in `meet`, a subset is a sum of one half of the numbers that nearly cancels one of the other half. Neither list is
built: each half is split again, and its sums come in windows of increasing value, one run per sum of the second quarter
(Schroeppel and Shamir, "A T = O(2^(n/2)), S = O(2^(n/4)) algorithm", 1981). In a window the sums of the left half are
marked in a bitmap that fits the second-level cache; sums of the right half that meet no mark are dropped, which leaves
about one in a hundred; a second pass over the left half pairs these.
Guarantee: `proven` is said only if no pair can have been missed: an eighth of a cell is at least as wide as the largest
sum that could still win (`best * n`); held by tests/subset/test_subset.py against `meet` and brute force.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige.compiling import kernel
from vestige.records import Ints
from vestige.subset.meet import Masks, sorted_sums
from vestige.subset.words import ones

_CELLS = 1 << 21
"""Cells of a window, at most: 256 KB of bits. Smaller ones have shorter runs, which cost more than they save."""
_MARGIN = 8
"""Cells around a window, so that what is near its ends has a cell too."""
_PER_SUM = 128
"""Cells per left sum, at most, so that a right sum rarely meets a mark by chance."""
_PER_PAIR = 256
"""Right sums for each cell of a left one, at least: then some 30 pairs are near enough, and one of them wins."""
_NEAR = 0.125
"""Of a cell, how far two sums may be apart and surely be paired; more would mark more cells."""
_LARGEST_LOW = 12
"""Two to this power sums of a quarter are run through again and again; they should stay in the first-level cache."""
_SURVIVORS = 1 << 15
"""So many sums may meet a mark in a window; 500 to 5,000 do."""
_STEPS = 1 << 20
"""So many pairs are looked at in a window before it gives up."""
_FEW_BITS = 16
"""The sums that are left over are marked by so many bits of their cell, so that their marks fit the nearest cache."""
_FEW = np.uint64((1 << _FEW_BITS) - 1)
_CHAINS = np.uint64((1 << 13) - 1)
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LAST = np.uint64(63)
_NAME = np.uint64(32)
_PLACE = np.int64((1 << 32) - 1)

Words = NDArray[np.uint64]
Places = NDArray[np.int32]


class _Half(NamedTuple):
    """All sums of half of the numbers, as one of `low`, which is in order, and one of `high`; which subsets these are.

    A sum is named by its place in `high`, shifted by 32 bits, and its place in `low`.
    """

    low: Ints
    high: Ints
    low_masks: Masks
    high_masks: Masks
    bits: int


@kernel
def _half_of(numbers: Ints, start: int) -> _Half:
    """The sums of all subsets of `numbers`, from `start`."""
    n = len(numbers)
    bits = n - max(2 * n // 5, n - _LARGEST_LOW)
    low, low_masks = sorted_sums(numbers[:bits])
    high, high_masks = sorted_sums(numbers[bits:])
    return _Half(low, high + start, low_masks, high_masks, bits)


@kernel
def _subset(half: _Half, name: int) -> np.uint64:
    """The subset that a sum belongs to, as a bit mask."""
    return np.uint64(half.low_masks[name & _PLACE]) | (np.uint64(half.high_masks[name >> 32]) << np.uint64(half.bits))


@kernel
def _reach(half: _Half, bound: int, places: Places) -> None:
    """For each high sum, the first place in `low` from where on their sums are at least `bound`."""
    place = len(half.low)
    for i in range(len(half.high)):
        while place > 0 and half.low[np.uint64(place - 1)] >= bound - half.high[i]:
            place -= 1
        places[i] = place


@kernel
def _cells(distance: int, near: int, shift: int) -> tuple[np.uint64, np.uint64]:
    """The first and the last cell within `near` of a sum, less than half a cell: one, or two neighbours."""
    return np.uint64(distance - near) >> np.uint64(shift), np.uint64(distance + near) >> np.uint64(shift)


@kernel
def _mark(half: _Half, begin: Places, end: Places, origin: int, near: int, shift: int, marks: Words) -> None:
    """Mark the cells of all sums; of each high sum, those with the low ones from `begin` to `end`."""
    for i in range(len(half.high)):
        base = half.high[i] - origin
        for place in range(np.uint64(begin[i]), np.uint64(end[i])):
            first, last = _cells(half.low[place] + base, near, shift)
            marks[first >> _SIX] |= _ONE << (first & _LAST)
            marks[last >> _SIX] |= _ONE << (last & _LAST)


@kernel
def _marked(
    low: Ints, high: Ints, begin: Places, end: Places, origin: int, shift: int, marks: Words, found: Ints
) -> int:
    """Write the names of the sums whose cells are marked into `found`, without a branch; how many.

    Gives up, with -1, where there are too many.
    """
    count, right = np.uint64(0), np.uint64(shift)
    for i in range(len(high)):
        base, name = high[i] - origin, np.uint64(i) << _NAME
        if count + np.uint64(end[i] - begin[i]) > np.uint64(len(found)):
            return -1
        for place in range(np.uint64(begin[i]), np.uint64(end[i])):
            cell = np.uint64(low[place] + base) >> right
            found[count] = name + place
            count += (marks[cell >> _SIX] >> (cell & _LAST)) & _ONE
    return int(count)


@kernel
def _match(
    left: _Half,
    lefts: Ints,
    right: _Half,
    rights: Ints,
    origin: int,
    shift: int,
    heads: Places,
    following: Places,
    counted: int,
    best: float,
    reach: int,
) -> tuple[float, int, int]:
    """The pair of the named sums with the nearest average, if nearer than `best`: how near, and which.

    Gives up, with a right name of -1, where the sums crowd into few cells.
    """
    found_left, found_right, steps, limit = -1, -1, 0, best * reach
    for name in lefts:
        value = left.low[name & _PLACE] + left.high[name >> 32]
        entry = heads[(np.uint64(value - origin) >> np.uint64(shift)) & _CHAINS]
        while entry >= 0:
            other = rights[entry >> 1]
            entry = following[entry]
            steps += 1
            distance = abs(value - (right.low[other & _PLACE] + right.high[other >> 32]))
            if distance < limit:
                count = counted + ones(_subset(left, name)) + ones(_subset(right, other))
                if count > 0 and distance < best * count:
                    best, found_left, found_right = distance / count, name, other
                    limit = best * reach
        if steps > _STEPS:
            return best, 0, -1
    return best, found_left, found_right


@kernel
def _chain(
    half: _Half, names: Ints, origin: int, near: int, shift: int, few: Words, heads: Places, following: Places
) -> None:
    """Mark the named sums by the last bits of either cell, and chain them."""
    few[:] = 0
    heads[:] = -1
    for k in range(len(names)):
        first, last = _cells(half.low[names[k] & _PLACE] + half.high[names[k] >> 32] - origin, near, shift)
        few[(first & _FEW) >> _SIX] |= _ONE << (first & _LAST)
        following[2 * k] = heads[first & _CHAINS]
        heads[first & _CHAINS] = 2 * k
        if last != first:
            few[(last & _FEW) >> _SIX] |= _ONE << (last & _LAST)
            following[2 * k + 1] = heads[last & _CHAINS]
            heads[last & _CHAINS] = 2 * k + 1


@kernel
def _in_order(word: np.uint64, order: Ints) -> np.uint64:
    """The bit mask over what `order` puts into order, from one over the ordered."""
    made = np.uint64(0)
    for i in range(len(order)):
        made |= ((word >> np.uint64(i)) & _ONE) << np.uint64(order[i])
    return made


@kernel
def sieve(offsets: Ints, base: int, counted: int, best: float, tolerance: float) -> tuple[np.uint64, bool]:
    """The subset of `offsets`, as a bit mask, whose sum with `base`, over its count with `counted`, is nearest zero.

    Only subsets nearer than `best` are looked for; an empty mask if there is none. Says whether that is proven.
    The largest offsets go to the left: then only the few left sums within the narrow range of the right ones count.
    """
    n = len(offsets)
    order = np.argsort(-np.abs(offsets))
    offsets = offsets[order]
    cut, reach = (n + 1) // 2, counted + n
    left, right = _half_of(offsets[:cut], base), _half_of(-offsets[cut:], 0)
    start = max(left.low[0] + left.high[0], right.low[0] + right.high[0])
    end = min(left.low[-1] + left.high[-1], right.low[-1] + right.high[-1])
    left_begin, left_end = np.empty(len(left.high), np.int32), np.empty(len(left.high), np.int32)
    right_begin, right_end = np.empty(len(right.high), np.int32), np.empty(len(right.high), np.int32)
    _reach(left, start, left_begin)
    _reach(left, end, left_end)
    between = (left_end - left_begin).sum()
    wanted = between * max(1, min(_PER_SUM, len(right.low) * len(right.high) // _PER_PAIR))
    shift = 1
    while (end - start) >> shift > wanted:
        shift += 1
    cell = np.int64(1) << shift
    start, end = start - cell, end + cell
    up = max(0, 64 - _FEW_BITS - shift)
    few_low, few_high = left.low << up, left.high << up
    _reach(right, start, right_begin)
    marks, few = np.empty(_CELLS // 64, np.uint64), np.empty((1 << _FEW_BITS) // 64, np.uint64)
    room = max(len(left.low), len(right.low)) + _SURVIVORS
    lefts, rights = np.empty(room, np.int64), np.empty(room, np.int64)
    heads, following = np.empty(_CHAINS + _ONE, np.int32), np.empty(2 * room, np.int32)
    word = np.uint64(0)
    while start <= end and best > tolerance:
        cells = min(_CELLS - _MARGIN, ((end - start) >> shift) + 1)
        origin, stop = start - 2 * cell, start + cells * cell
        near = int(min(best * reach + 1.0, _NEAR * cell))
        marks[: (cells + _MARGIN + 63) >> 6] = 0
        _reach(left, start - cell, left_begin)
        _reach(left, stop + cell, left_end)
        _mark(left, left_begin, left_end, origin, near, shift, marks)
        _reach(right, stop, right_end)
        many = _marked(right.low, right.high, right_begin, right_end, origin, shift, marks, rights)
        _chain(right, rights[: max(many, 0)], origin, near, shift, few, heads, following)
        some = _marked(few_low, few_high, left_begin, left_end, origin << up, shift + up, few, lefts)
        if many < 0 or some < 0:
            return _in_order(word, order), False
        best, one, other = _match(
            left,
            lefts[:some],
            right,
            rights[:many],
            origin,
            shift,
            heads,
            following,
            counted,
            best,
            reach,
        )
        if one >= 0 > other:
            return _in_order(word, order), False
        if one >= 0:
            word = _subset(left, one) | (_subset(right, other) << np.uint64(cut))
        start = stop
        right_begin, right_end = right_end, right_begin
    return _in_order(word, order), bool(best <= tolerance or best * reach <= _NEAR * cell)
