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
_SURVIVORS = 1 << 13
_STEPS = 1 << 20
"""So many pairs are looked at in a window before it gives up."""
_CHAINS = np.uint64((1 << 9) - 1)
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LAST = np.uint64(63)

Words = NDArray[np.uint64]
Places = NDArray[np.int32]


@kernel
def _mark(marks: Words, cell: np.uint64) -> None:
    marks[cell >> _SIX] |= _ONE << (cell & _LAST)


@kernel
def _marked(marks: Words, cell: np.uint64) -> np.uint64:
    return np.uint64(marks[cell >> _SIX] >> (cell & _LAST)) & _ONE


@kernel
def _run_end(low: Ints, begin: int, limit: int) -> int:
    """Where the sorted `low` reaches `limit`, from `begin` on."""
    step, end = 1, begin
    while end + step <= len(low) and low[end + step - 1] < limit:
        end += step
        step *= 2
    while step > 0:
        if end + step <= len(low) and low[end + step - 1] < limit:
            end += step
        step //= 2
    return end


@kernel
def _mark_left(
    low: Ints, high: Ints, begin: Places, origin: int, again: int, stop: int, shift: int, marks: Words
) -> int:
    """Mark the cells of all sums from `origin` to `stop`; how many sums there are.

    `begin` says for each high sum where its run starts, and is moved to where the next window's starts, at `again`.
    """
    count = 0
    right = np.uint64(shift)
    for i in range(len(high)):
        base = high[i] - origin
        end = _run_end(low, begin[i], stop - high[i])
        for value in low[begin[i] : end]:
            _mark(marks, (np.uint64(value + base) >> right) + _ONE)
        count += end - begin[i]
        while end > begin[i] and low[end - 1] + base >= again - origin:
            end -= 1
        begin[i] = end
    return count


@kernel
def _sift_right(
    low: Ints, high: Ints, begin: Places, origin: int, stop: int, shift: int, marks: Words, kept: Ints, kept_at: Places
) -> int:
    """Keep the sums up to `stop` that are near a mark: their distances from `origin`, and which they are; how many.

    Near is the sum's own cell or the neighbour that it is nearer to.
    """
    count = 0
    below = np.uint64(shift - 1)
    for i in range(len(high)):
        base = high[i] - origin
        end = _run_end(low, begin[i], stop - high[i])
        p = begin[i] - 1
        for value in low[begin[i] : end]:
            p += 1
            half = np.uint64(value + base) >> below
            cell = (half >> _ONE) + _ONE
            if _marked(marks, cell) | _marked(marks, cell + ((half & _ONE) << _ONE) - _ONE):
                if count == _SURVIVORS:
                    return -1
                kept[count], kept_at[count, 0], kept_at[count, 1] = value + base, i, p
                count += 1
        begin[i] = end
    return count


@kernel
def _chain(kept: Ints, count: int, shift: int, marks: Words, heads: Places, following: Places) -> None:
    """Mark the cells of the kept sums and their nearer neighbours; chain the sums whose cells share their last bits."""
    heads[:] = -1
    for k in range(count):
        half = np.uint64(kept[k]) >> np.uint64(shift - 1)
        cell = (half >> _ONE) + _ONE
        _mark(marks, cell)
        _mark(marks, cell + ((half & _ONE) << _ONE) - _ONE)
        following[k] = heads[cell & _CHAINS]
        heads[cell & _CHAINS] = k


@kernel
def _match_left(
    low: Ints,
    high: Ints,
    begin: Places,
    origin: int,
    stop: int,
    shift: int,
    marks: Words,
    kept: Ints,
    heads: Places,
    following: Places,
    counts: tuple[Masks, Masks, Masks],
    counted: int,
    best: float,
    reach: int,
) -> tuple[float, int, int, int]:
    """The pair of a left and a kept sum with the nearest average, if nearer than `best`: how near, and which.

    Gives up, with a pair that has no kept sum, where the sums crowd into few cells.
    """
    found_high, found_low, found_kept, steps = -1, -1, -1, 0
    low_counts, high_counts, kept_counts = counts
    limit = best * reach
    right = np.uint64(shift)
    for i in range(len(high)):
        base = high[i] - origin
        end = _run_end(low, begin[i], stop - high[i])
        p = begin[i] - 1
        for value in low[begin[i] : end]:
            p += 1
            cell = (np.uint64(value + base) >> right) + _ONE
            if not _marked(marks, cell):
                continue
            for near in range(3):
                k = heads[(cell + np.uint64(near) - _ONE) & _CHAINS]
                while k >= 0:
                    steps += 1
                    distance = abs(value + base - kept[k])
                    if distance < limit:
                        count = counted + low_counts[p] + high_counts[i] + kept_counts[k]
                        if count > 0 and distance < best * count:
                            best, found_high, found_low, found_kept = distance / count, i, p, k
                            limit = best * reach
                    k = following[k]
            if steps > _STEPS:
                return best, 0, 0, -1
    return best, found_high, found_low, found_kept


@kernel
def _counts(masks: Masks) -> Masks:
    """How many numbers each subset has."""
    counts = np.empty(len(masks), np.uint32)
    for i in range(len(masks)):
        counts[i] = ones(np.uint64(masks[i]))
    return counts


@kernel
def _begin_at(low: Ints, high: Ints, start: int) -> Places:
    """Where the run of each high sum reaches `start`."""
    begin = np.empty(len(high), np.int32)
    for i in range(len(high)):
        begin[i] = np.searchsorted(low, start - high[i])
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
    half, reach = (n + 1) // 2, counted + n
    a, c = half - max(half // 3, half - _LARGEST_LOW), n - half - max((n - half) // 3, n - half - _LARGEST_LOW)
    low, low_masks = sorted_sums(offsets[:a])
    high, high_masks = sorted_sums(offsets[a:half])
    right_low, right_low_masks = sorted_sums(-offsets[half : half + c])
    right_high, right_high_masks = sorted_sums(-offsets[half + c :])
    high += base
    low_counts, high_counts = _counts(low_masks), _counts(high_masks)
    right_low_counts, right_high_counts = _counts(right_low_masks), _counts(right_high_masks)
    span = low[-1] - low[0] + high[-1] - high[0]
    shift = 1
    while (span >> shift) >> (half + _PER_SUM) > 0:
        shift += 1
    cell = np.int64(1) << shift
    start = max(low[0] + high[0], right_low[0] + right_high[0]) - cell
    end = min(low[-1] + high[-1], right_low[-1] + right_high[-1]) + cell
    begin, right_begin = _begin_at(low, high, start - cell), _begin_at(right_low, right_high, start)
    marks, right_marks = np.zeros(_CELLS // 64 + 2, np.uint64), np.zeros(_CELLS // 64 + 2, np.uint64)
    kept, kept_at = np.empty(_SURVIVORS, np.int64), np.empty((_SURVIVORS, 2), np.int32)
    kept_counts = np.empty(_SURVIVORS, np.uint32)
    heads, following = np.empty(_CHAINS + 1, np.int32), np.empty(_SURVIVORS, np.int32)
    width = (_CELLS - 8) * cell
    word = np.uint64(0)
    while start <= end and best > tolerance:
        origin, stop = start - cell, start + width
        marks[:] = 0
        left_begin = begin.copy()
        there = _mark_left(low, high, begin, origin, stop - cell, stop + cell, shift, marks)
        count = _sift_right(right_low, right_high, right_begin, origin, stop, shift, marks, kept, kept_at)
        if count < 0:
            return _in_order(word, order), False
        if there and count:
            right_marks[:] = 0
            _chain(kept, count, shift, right_marks, heads, following)
            for k in range(count):
                kept_counts[k] = right_high_counts[kept_at[k, 0]] + right_low_counts[kept_at[k, 1]]
            best, i, p, k = _match_left(
                low,
                high,
                left_begin,
                origin,
                stop + cell,
                shift,
                right_marks,
                kept,
                heads,
                following,
                (low_counts, high_counts, kept_counts),
                counted,
                best,
                reach,
            )
            if i >= 0 > k:
                return _in_order(word, order), False
            if i >= 0:
                word = np.uint64(low_masks[p]) | (np.uint64(high_masks[i]) << np.uint64(a))
                word |= np.uint64(right_low_masks[kept_at[k, 1]]) << np.uint64(half)
                word |= np.uint64(right_high_masks[kept_at[k, 0]]) << np.uint64(half + c)
        start = stop
    word = _in_order(word, order)
    return word, bool(best <= tolerance or best * reach <= 0.5 * cell)
