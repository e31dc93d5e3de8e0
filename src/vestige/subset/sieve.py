"""The nearest average of 23 to 48 numbers, exactly, in little memory: sums that have no opposite are sieved out.

As in `meet`, a subset is a sum of one half of the numbers that nearly cancels one of the other half. Neither list is
built: each half is split again, and its sums come in windows of increasing value, one run per sum of the second quarter
(Schroeppel and Shamir, "A T = O(2^(n/2)), S = O(2^(n/4)) algorithm", 1981). In a window the sums of the left half are
marked in a bitmap that fits the first-level cache; sums of the right half that meet no mark are dropped, which leaves a
few in a hundred; a second pass over the left half pairs these.
Guarantee: `proven` is said only if no pair can have been missed: half a cell is at least as wide as the largest sum
that could still win (`best * n`); held by tests/subset/test_subset.py against `meet` and brute force.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige.compiling import kernel
from vestige.records import Ints
from vestige.subset.meet import Masks, sorted_sums
from vestige.subset.words import ones

_CELLS = 1 << 18
"""Cells of a window: their bits fill half of the first-level cache."""
_PER_SUM = 7
"""Two to this power cells per sum, on average, so that a sum rarely meets a mark by chance."""
_LARGEST_LOW = 12
"""Two to this power sums of a quarter are run through again and again; they should stay in the first-level cache."""
_SURVIVORS = 1 << 12
"""So many sums may meet a mark in a window; about 500 do."""
_STEPS = 1 << 20
"""So many pairs are looked at in a window before it gives up."""
_FIRST_STEP = 16
"""A run's end is looked for so far on at first; most runs of a window are a few times as long."""
_CHAINS = np.uint64((1 << 11) - 1)
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LAST = np.uint64(63)
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
def _mark(marks: Words, distance: int, near: int, shift: int) -> tuple[np.uint64, np.uint64]:
    """Mark the cells within `near` of a sum, at most half a cell: one or two; the first and the last of them."""
    first, last = np.uint64(distance - near) >> np.uint64(shift), np.uint64(distance + near) >> np.uint64(shift)
    marks[first >> _SIX] |= _ONE << (first & _LAST)
    marks[last >> _SIX] |= _ONE << (last & _LAST)
    return first, last


@kernel
def _run_end(low: Ints, begin: int, limit: int) -> int:
    """Where the sorted `low` reaches `limit`, from `begin` on; halving without a branch, for none could be foreseen."""
    step, end, size = _FIRST_STEP, begin, len(low)
    while end + step <= size and low[np.uint64(end + step - 1)] < limit:
        end += step
        step += step
    while step > 0:
        at = min(end + step, size)
        end = at if low[np.uint64(at - 1)] < limit else end
        step >>= 1
    return end


@kernel
def _mark_all(half: _Half, begin: Places, origin: int, stop: int, near: int, shift: int, marks: Words) -> None:
    """Mark all sums up to `stop`; `begin` says for each high sum where its run starts."""
    for i in range(len(half.high)):
        base = half.high[i] - origin
        end = _run_end(half.low, begin[i], stop - half.high[i])
        for place in range(np.uint64(begin[i]), np.uint64(end)):
            _mark(marks, half.low[place] + base, near, shift)


@kernel
def _marked(
    half: _Half, begin: Places, origin: int, stop: int, again: int, shift: int, marks: Words, found: Ints
) -> int:
    """Write the names of the sums up to `stop` whose cells are marked into `found`, without a branch; how many.

    Moves `begin` to where the next window's runs start, at `again`. Gives up, with -1, where there are too many.
    """
    count = np.uint64(0)
    right = np.uint64(shift)
    for i in range(len(half.high)):
        base, start = half.high[i] - origin, begin[i]
        end = _run_end(half.low, start, stop - half.high[i])
        if count + np.uint64(end - start) > np.uint64(len(found)):
            return -1
        name = np.int64(i) << 32
        for place in range(np.uint64(start), np.uint64(end)):
            cell = np.uint64(half.low[place] + base) >> right
            found[count] = name | np.int64(place)
            count += (marks[cell >> _SIX] >> (cell & _LAST)) & _ONE
        while end > start and half.low[end - 1] + half.high[i] >= again:
            end -= 1
        begin[i] = end
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
    half: _Half, names: Ints, origin: int, near: int, shift: int, marks: Words, heads: Places, following: Places
) -> None:
    """Mark the named sums, and chain them by the last bits of either cell."""
    heads[:] = -1
    for k in range(len(names)):
        distance = half.low[names[k] & _PLACE] + half.high[names[k] >> 32] - origin
        first, last = _mark(marks, distance, near, shift)
        following[2 * k] = heads[first & _CHAINS]
        heads[first & _CHAINS] = 2 * k
        if last != first:
            following[2 * k + 1] = heads[last & _CHAINS]
            heads[last & _CHAINS] = 2 * k + 1


@kernel
def _begin_at(half: _Half, start: int) -> Places:
    """Where the run of each high sum reaches `start`."""
    begin = np.empty(len(half.high), np.int32)
    for i in range(len(half.high)):
        begin[i] = np.searchsorted(half.low, start - half.high[i])
    return begin


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
    least, most = left.low[0] + left.high.min(), left.low[-1] + left.high.max()
    shift = 1
    while ((most - least) >> shift) >> (cut + _PER_SUM) > 0:
        shift += 1
    cell = np.int64(1) << shift
    start = max(least, right.low[0] + right.high.min()) - cell
    end = min(most, right.low[-1] + right.high.max()) + cell
    begin, right_begin = _begin_at(left, start - cell), _begin_at(right, start)
    marks = np.empty(_CELLS // 64 + 1, np.uint64)
    room = max(len(left.low), len(right.low)) + _SURVIVORS
    lefts, rights = np.empty(room, np.int64), np.empty(room, np.int64)
    heads, following = np.empty(_CHAINS + 1, np.int32), np.empty(2 * room, np.int32)
    word = np.uint64(0)
    while start <= end and best > tolerance:
        origin, stop = start - 2 * cell, start + (_CELLS - 8) * cell
        near = int(min(best * reach + 1.0, 0.5 * cell))
        marks[:] = 0
        _mark_all(left, begin, origin, stop + cell, near, shift, marks)
        many = _marked(right, right_begin, origin, stop, stop, shift, marks, rights)
        marks[:] = 0
        _chain(right, rights[: max(many, 0)], origin, near, shift, marks, heads, following)
        some = _marked(left, begin, origin, stop + cell, stop - cell, shift, marks, lefts)
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
    return _in_order(word, order), bool(best <= tolerance or best * reach <= 0.5 * cell)
