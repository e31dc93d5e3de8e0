"""The nearest average of 23 to 48 numbers, exactly, in little memory: four lists in place of two.

As in `meet_in_middle`, a subset is a sum of one half of the numbers that nearly cancels one of the other half, but
neither list of sums is built. As in Schroeppel and Shamir (1981, https://doi.org/10.1137/0210033), each half is split
again, and its sums are generated from the two lists of its quarters in increasing order; time and memory have the same
order, 2^(n/2) and 2^(n/4). The order is coarser than theirs: windows of increasing value, with one run of the first
quarter's list per sum of the second, take the place of their priority queues. In a window, the sums of the left half
are marked in a bitmap that fits the second-level cache; sums of the right half that hit no mark are dropped, which
leaves about one in a hundred; a second pass over the left half pairs these. Each right sum has a complement, the sum of
the numbers that it leaves out, on the other side of the middle of them all. So only sums below the middle are examined:
left sums above it are marked at their reflection, and a pair with a reflected sum represents the one with the
complement of the right sum.
Guarantee: True is returned only if no pair can have been missed: an eighth of a cell is at least as wide as the largest
sum that could still win (`best * n`); held by tests/subset/test_subset.py against `meet_in_middle` and brute force.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.subset.bits import count_ones
from vestige.subset.meet_in_middle import Masks, list_sorted_sums
from vestige.types import Ints, Words

_CELLS = 1 << 21
"""Largest number of cells in a window: 256 KB of bits. Smaller windows have shorter runs, which cost more."""
_MARGIN = 8
"""Number of cells around a window, so that sums near its ends have a cell too."""
_PER_SUM = 128
"""Largest number of cells per left sum: then a right sum rarely hits a mark by chance."""
_PER_PAIR = 256
"""Smallest number of right sums per cell of a left sum: then about 16 pairs are near enough, and one of them wins."""
_NEAR = 0.125
"""Largest distance, as a fraction of a cell, at which two sums are surely paired; more would mark more cells."""
_LARGEST_LOW = 12
"""Largest number of numbers in a first quarter: its sums should stay in the first-level cache."""
_SURVIVORS = 1 << 15
"""Largest number of sums that may hit a mark in a window; typically 200 to 5,000 do."""
_STEPS = 1 << 20
"""Number of pairs after which a window is given up."""
_NOTE_BITS = 14
"""Number of bits of a cell by which the surviving sums are noted: a byte for each value fits the first-level cache."""
_NOTES = np.uint64((1 << _NOTE_BITS) - 1)
_CHAINS = np.uint64((1 << 13) - 1)
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LAST = np.uint64(63)
_NAME = np.uint64(32)
_PLACE = np.int64((1 << 32) - 1)

Places = NDArray[np.int32]
Notes = NDArray[np.uint8]


class _Half(NamedTuple):
    """All subset sums of half of the numbers, as one of `low` plus one of `high`, both sorted; and the subsets.

    A sum is identified by its index in `high`, shifted by 32 bits, plus its index in `low`.

    Attributes:
        low: sums of the first quarter.
        high: sums of the second quarter.
        low_masks: the subset of each sum in `low`.
        high_masks: the subset of each sum in `high`.
        bits: number of numbers in the first quarter.
    """

    low: Ints
    high: Ints
    low_masks: Masks
    high_masks: Masks
    bits: int


class _Runs(NamedTuple):
    """The sums of one of `low` and one of `high` that lie in a window.

    Attributes:
        low: sums of the first quarter.
        high: sums of the second quarter.
        begin: for each high sum, the first index in `low`.
        end: for each high sum, one past the last index in `low`.
    """

    low: Ints
    high: Ints
    begin: Places
    end: Places


@kernel
def _make_half(numbers: Ints, start: int) -> _Half:
    """Return the sums of all subsets of `numbers`, plus `start`."""
    n = len(numbers)
    bits = n - max(2 * n // 5, n - _LARGEST_LOW)
    low, low_masks = list_sorted_sums(numbers[:bits])
    high, high_masks = list_sorted_sums(numbers[bits:])
    return _Half(low, high + start, low_masks, high_masks, bits)


@kernel
def _find_subset(half: _Half, name: int) -> np.uint64:
    """Return the subset of a sum as a bit mask."""
    return np.uint64(half.low_masks[name & _PLACE]) | (np.uint64(half.high_masks[name >> 32]) << np.uint64(half.bits))


@kernel
def _make_runs(low: Ints, high: Ints) -> _Runs:
    """Return runs without a window."""
    return _Runs(low, high, np.empty(len(high), np.int32), np.empty(len(high), np.int32))


@kernel
def _find_starts(runs: _Runs, bound: int, places: Places) -> None:
    """Write, for each high sum, the first index in `low` at which their sum is at least `bound`."""
    place = len(runs.low)
    for i in range(len(runs.high)):
        while place > 0 and runs.low[np.uint64(place - 1)] >= bound - runs.high[i]:
            place -= 1
        places[i] = place


@kernel
def _set_window(runs: _Runs, start: int, stop: int) -> int:
    """Set the runs to the sums from `start` to before `stop`; return the number of sums."""
    _find_starts(runs, start, runs.begin)
    _find_starts(runs, stop, runs.end)
    count = 0
    for i in range(len(runs.high)):
        count += runs.end[i] - runs.begin[i]
    return count


@kernel
def _find_cells(distance: int, near: int, shift: int) -> tuple[np.uint64, np.uint64]:
    """Return the first and the last cell within `near` of a sum, less than half a cell: one, or two neighbours."""
    return np.uint64(distance - near) >> np.uint64(shift), np.uint64(distance + near) >> np.uint64(shift)


@kernel
def _mark_cells(runs: _Runs, origin: int, near: int, shift: int, marks: Words) -> None:
    """Mark the cells of all sums."""
    for i in range(len(runs.high)):
        base = runs.high[i] - origin
        for place in range(np.uint64(runs.begin[i]), np.uint64(runs.end[i])):
            first, last = _find_cells(runs.low[place] + base, near, shift)
            marks[first >> _SIX] |= _ONE << (first & _LAST)
            marks[last >> _SIX] |= _ONE << (last & _LAST)


@kernel
def _find_marked(runs: _Runs, origin: int, shift: int, marks: Words, names: Ints) -> int:
    """Write the identifiers of sums in marked cells into `names`, without branches; return how many, or -1."""
    count, right = np.uint64(0), np.uint64(shift)
    for i in range(len(runs.high)):
        base, name = runs.high[i] - origin, np.uint64(i) << _NAME
        if count + np.uint64(runs.end[i] - runs.begin[i]) > np.uint64(len(names)):
            return -1
        for place in range(np.uint64(runs.begin[i]), np.uint64(runs.end[i])):
            cell = np.uint64(runs.low[place] + base) >> right
            names[count] = name + place
            count += (marks[cell >> _SIX] >> (cell & _LAST)) & _ONE
    return int(count)


@kernel
def _find_noted(runs: _Runs, origin: int, shift: int, notes: Notes, names: Ints) -> int:
    """Do the same as `_find_marked`, with a byte per cell."""
    count, right = np.uint64(0), np.uint64(shift)
    for i in range(len(runs.high)):
        base, name = runs.high[i] - origin, np.uint64(i) << _NAME
        if count + np.uint64(runs.end[i] - runs.begin[i]) > np.uint64(len(names)):
            return -1
        for place in range(np.uint64(runs.begin[i]), np.uint64(runs.end[i])):
            names[count] = name + place
            count += np.uint64(notes[np.uint64(runs.low[place] + base) >> right])
    return int(count)


@kernel
def _build_chains(
    runs: _Runs, names: Ints, origin: int, near: int, shift: int, notes: Notes, heads: Places, following: Places
) -> None:
    """Note the identified sums by the last bits of either cell, and chain them."""
    notes[:] = 0
    heads[:] = -1
    for k in range(len(names)):
        first, last = _find_cells(_compute_sum(runs, names[k]) - origin, near, shift)
        notes[first & _NOTES] = 1
        following[2 * k] = heads[first & _CHAINS]
        heads[first & _CHAINS] = 2 * k
        if last != first:
            notes[last & _NOTES] = 1
            following[2 * k + 1] = heads[last & _CHAINS]
            heads[last & _CHAINS] = 2 * k + 1


@kernel
def _compute_sum(runs: _Runs, name: int) -> int:
    """Return the identified sum."""
    return int(runs.low[name & _PLACE] + runs.high[name >> 32])


@kernel
def _find_complement(half: _Half, name: int) -> int:
    """Return the identifier of the complement of a sum: sorted sums are symmetric about the middle."""
    return ((len(half.high) - 1) << 32) + len(half.low) - 1 - name


@kernel
def _match_pairs(
    lefts: Ints,
    rights: Ints,
    left_runs: _Runs,
    right_runs: _Runs,
    reflected: bool,
    left: _Half,
    right: _Half,
    origin: int,
    shift: int,
    heads: Places,
    following: Places,
    forced_count: int,
    best: float,
    reach: int,
) -> tuple[float, int, int]:
    """Return the nearest average of a pair of the identified sums, if nearer than `best`, and the pair.

    Gives up, with a right identifier of -1, where the sums crowd into few cells.
    """
    found_left, found_right, steps, limit = -1, -1, 0, best * reach
    for name in lefts:
        value = _compute_sum(left_runs, name)
        entry = heads[(np.uint64(value - origin) >> np.uint64(shift)) & _CHAINS]
        while entry >= 0:
            other = rights[entry >> 1]
            entry = following[entry]
            steps += 1
            distance = abs(value - _compute_sum(right_runs, other))
            if distance < limit:
                one = _find_complement(left, name) if reflected else name
                two = _find_complement(right, other) if reflected else other
                count = forced_count + count_ones(_find_subset(left, one)) + count_ones(_find_subset(right, two))
                if count > 0 and distance < best * count:
                    best, found_left, found_right = distance / count, one, two
                    limit = best * reach
        if steps > _STEPS:
            return best, 0, -1
    return best, found_left, found_right


@kernel
def _make_workspace(longest: int) -> tuple[Words, Notes, Ints, Ints, Places, Places]:
    """Return space for the marks, the notes, the identifiers of both sides, the heads of chains and the next entries.

    All in one allocation: with several, the allocator would return some to the system at the end of each call, and
    getting them back takes a third of the time of a call.
    """
    room = longest + _SURVIVORS
    marked, noted = _CELLS // 64, (1 << _NOTE_BITS) // 8
    names, chained = marked + noted, marked + noted + 2 * room
    workspace = np.empty(chained + room + int(_CHAINS + _ONE) // 2, np.int64)
    return (
        workspace[:marked].view(np.uint64),
        workspace[marked:names].view(np.uint8),
        workspace[names : names + room],
        workspace[names + room : chained],
        workspace[chained + room :].view(np.int32),
        workspace[chained : chained + room].view(np.int32),
    )


@kernel
def _restore_order(word: np.uint64, order: Ints) -> np.uint64:
    """Return a bit mask over the original numbers from one over the sorted numbers."""
    restored = np.uint64(0)
    for i in range(len(order)):
        restored |= ((word >> np.uint64(i)) & _ONE) << np.uint64(order[i])
    return restored


@kernel
def search_four_lists(
    offsets: Ints, base: int, forced_count: int, best: float, tolerance: float
) -> tuple[np.uint64, bool]:
    """Return the subset of numbers, as a bit mask, whose average is nearest zero, and whether that is proven.

    The largest offsets go to the left half: then only the few left sums within the narrow range of the right ones
    count.

    Args:
        offsets: the numbers to choose from, in fixed point; shape (n,).
        base: sum of the numbers that must be in the subset.
        forced_count: number of numbers that must be in the subset.
        best: only subsets with a smaller residual are searched for.
        tolerance: residual at which the search stops.

    Returns:
        The bit mask over `offsets`, 0 if there is no such subset, and whether it is proven to be the nearest.
    """
    n = len(offsets)
    order = np.argsort(-np.abs(offsets))
    offsets = offsets[order]
    cut, reach = (n + 1) // 2, forced_count + n
    left, right = _make_half(offsets[:cut], base), _make_half(-offsets[cut:], 0)
    whole = right.low[0] + right.low[-1] + right.high[0] + right.high[-1]
    forward, backward = _make_runs(left.low, left.high), _make_runs(-left.low[::-1], whole - left.high[::-1])
    right_runs = _make_runs(right.low, right.high)
    start = max(min(_compute_sum(forward, 0), _compute_sum(backward, 0)), _compute_sum(right_runs, 0))
    end = whole >> 1
    per_sum = max(1, min(_PER_SUM, len(right.low) * len(right.high) // _PER_PAIR))
    wanted = per_sum * _set_window(forward, start, whole - start)
    shift = 1
    while (end - start) >> shift > wanted:
        shift += 1
    cell = 1 << shift
    start, end = start - cell, end + cell
    up = max(0, 64 - _NOTE_BITS - shift)
    marks, notes, lefts, rights, heads, following = _make_workspace(max(len(left.low), len(right.low)))
    word = np.uint64(0)
    while start <= end and best > tolerance:
        cells = min(_CELLS - _MARGIN, ((end - start) >> shift) + 1)
        origin, stop = start - 2 * cell, start + cells * cell
        near = int(min(best * reach + 1.0, _NEAR * cell))
        marks[: (cells + _MARGIN + 63) >> 6] = 0
        for runs in (forward, backward):
            _set_window(runs, start - cell, stop + cell)
            _mark_cells(runs, origin, near, shift, marks)
        _set_window(right_runs, start, stop)
        right_count = _find_marked(right_runs, origin, shift, marks, rights)
        _build_chains(right_runs, rights[: max(right_count, 0)], origin, near, shift, notes, heads, following)
        for runs, reflected in ((forward, False), (backward, True)):
            raised = _Runs(runs.low << up, runs.high << up, runs.begin, runs.end)
            left_count = _find_noted(raised, origin << up, shift + up, notes, lefts)
            if right_count < 0 or left_count < 0:
                return _restore_order(word, order), False
            best, one, two = _match_pairs(
                lefts[:left_count],
                rights[:right_count],
                runs,
                right_runs,
                reflected,
                left,
                right,
                origin,
                shift,
                heads,
                following,
                forced_count,
                best,
                reach,
            )
            if one >= 0 > two:
                return _restore_order(word, order), False
            if one >= 0:
                word = _find_subset(left, one) | (_find_subset(right, two) << np.uint64(cut))
        start = stop
    return _restore_order(word, order), bool(best <= tolerance or best * reach <= _NEAR * cell)
