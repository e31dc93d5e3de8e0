"""The nearest average of 23 to 48 numbers, exactly, in little memory: sums that have no opposite are sieved out.

As in `meet`, a subset is a sum of one half of the numbers that nearly cancels one of the other half. Neither list is
built: each half is split again, and its sums come in windows of increasing value, one run per sum of the second quarter
(Schroeppel and Shamir, "A T = O(2^(n/2)), S = O(2^(n/4)) algorithm", 1981). In a window the sums of the left half are
marked in a bitmap that fits the second-level cache; sums of the right half that meet no mark are dropped, which leaves
about one in a hundred; a second pass over the left half pairs these.
To each right sum belongs another, that of the numbers it leaves out, on the other side of the middle of them all. So
only those below the middle are looked at: left sums above it are marked where their reflection is, and a pair with a
reflected sum stands for the one with the right sum's counterpart.
Guarantee: `proven` is said only if no pair can have been missed: an eighth of a cell is at least as wide as the largest
sum that could still win (`best * n`); held by tests/subset/test_subset.py against `meet` and brute force.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.random.kernels import ones
from vestige.subset.meet_in_middle import Masks, sorted_sums
from vestige.types import Ints, Words

_CELLS = 1 << 21
"""Cells of a window, at most: 256 KB of bits. Smaller ones have shorter runs, which cost more than they save."""
_MARGIN = 8
"""Cells around a window, so that what is near its ends has a cell too."""
_PER_SUM = 128
"""Cells per left sum, at most, so that a right sum rarely meets a mark by chance."""
_PER_PAIR = 256
"""Right sums for each cell of a left one, at least: then about 16 pairs are near enough, and one of them wins."""
_NEAR = 0.125
"""Of a cell, how far two sums may be apart and surely be paired; more would mark more cells."""
_LARGEST_LOW = 12
"""Two to this power sums of a quarter are run through again and again; they should stay in the first-level cache."""
_SURVIVORS = 1 << 15
"""So many sums may meet a mark in a window; 200 to 5,000 do."""
_STEPS = 1 << 20
"""So many pairs are looked at in a window before it gives up."""
_NOTE_BITS = 14
"""The few sums that are left over are noted by so many bits of their cell: a byte for each fits the nearest cache."""
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
    """All sums of half of the numbers, as one of `low` and one of `high`, both in order; which subsets these are.

    A sum is named by its place in `high`, shifted by 32 bits, and its place in `low`.
    """

    low: Ints
    high: Ints
    low_masks: Masks
    high_masks: Masks
    bits: int


class _Runs(NamedTuple):
    """Those sums of one of `low` and one of `high` that are in a window: of each high one, from `begin` to `end`."""

    low: Ints
    high: Ints
    begin: Places
    end: Places


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
def _runs_of(low: Ints, high: Ints) -> _Runs:
    """Runs yet to be laid."""
    return _Runs(low, high, np.empty(len(high), np.int32), np.empty(len(high), np.int32))


@kernel
def _reach(runs: _Runs, bound: int, places: Places) -> None:
    """For each high sum, the first place in `low` from where on their sums are at least `bound`."""
    place = len(runs.low)
    for i in range(len(runs.high)):
        while place > 0 and runs.low[np.uint64(place - 1)] >= bound - runs.high[i]:
            place -= 1
        places[i] = place


@kernel
def _lay(runs: _Runs, start: int, stop: int) -> int:
    """Let the runs be the sums from `start` to before `stop`; how many these are."""
    _reach(runs, start, runs.begin)
    _reach(runs, stop, runs.end)
    count = 0
    for i in range(len(runs.high)):
        count += runs.end[i] - runs.begin[i]
    return count


@kernel
def _cells(distance: int, near: int, shift: int) -> tuple[np.uint64, np.uint64]:
    """The first and the last cell within `near` of a sum, less than half a cell: one, or two neighbours."""
    return np.uint64(distance - near) >> np.uint64(shift), np.uint64(distance + near) >> np.uint64(shift)


@kernel
def _mark(runs: _Runs, origin: int, near: int, shift: int, marks: Words) -> None:
    """Mark the cells of all sums."""
    for i in range(len(runs.high)):
        base = runs.high[i] - origin
        for place in range(np.uint64(runs.begin[i]), np.uint64(runs.end[i])):
            first, last = _cells(runs.low[place] + base, near, shift)
            marks[first >> _SIX] |= _ONE << (first & _LAST)
            marks[last >> _SIX] |= _ONE << (last & _LAST)


@kernel
def _marked(runs: _Runs, origin: int, shift: int, marks: Words, found: Ints) -> int:
    """Write the names of the sums whose cells are marked into `found`, without a branch; how many.

    Gives up, with -1, where there are too many.
    """
    count, right = np.uint64(0), np.uint64(shift)
    for i in range(len(runs.high)):
        base, name = runs.high[i] - origin, np.uint64(i) << _NAME
        if count + np.uint64(runs.end[i] - runs.begin[i]) > np.uint64(len(found)):
            return -1
        for place in range(np.uint64(runs.begin[i]), np.uint64(runs.end[i])):
            cell = np.uint64(runs.low[place] + base) >> right
            found[count] = name + place
            count += (marks[cell >> _SIX] >> (cell & _LAST)) & _ONE
    return int(count)


@kernel
def _noted(runs: _Runs, origin: int, shift: int, notes: Notes, found: Ints) -> int:
    """As `_marked`, but there is a byte for each cell."""
    count, right = np.uint64(0), np.uint64(shift)
    for i in range(len(runs.high)):
        base, name = runs.high[i] - origin, np.uint64(i) << _NAME
        if count + np.uint64(runs.end[i] - runs.begin[i]) > np.uint64(len(found)):
            return -1
        for place in range(np.uint64(runs.begin[i]), np.uint64(runs.end[i])):
            found[count] = name + place
            count += np.uint64(notes[np.uint64(runs.low[place] + base) >> right])
    return int(count)


@kernel
def _chain(
    runs: _Runs, names: Ints, origin: int, near: int, shift: int, notes: Notes, heads: Places, following: Places
) -> None:
    """Note the named sums by the last bits of either cell, and chain them."""
    notes[:] = 0
    heads[:] = -1
    for k in range(len(names)):
        first, last = _cells(_sum(runs, names[k]) - origin, near, shift)
        notes[first & _NOTES] = 1
        following[2 * k] = heads[first & _CHAINS]
        heads[first & _CHAINS] = 2 * k
        if last != first:
            notes[last & _NOTES] = 1
            following[2 * k + 1] = heads[last & _CHAINS]
            heads[last & _CHAINS] = 2 * k + 1


@kernel
def _sum(runs: _Runs, name: int) -> int:
    """The named sum."""
    return int(runs.low[name & _PLACE] + runs.high[name >> 32])


@kernel
def _counterpart(half: _Half, name: int) -> int:
    """The name of what the named sum leaves out; a half's sums lie as close from its end as from its beginning."""
    return ((len(half.high) - 1) << 32) + len(half.low) - 1 - name


@kernel
def _match(
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
    counted: int,
    best: float,
    reach: int,
) -> tuple[float, int, int]:
    """The pair of the named sums with the nearest average, if nearer than `best`: how near, and which.

    Gives up, with a right name of -1, where the sums crowd into few cells.
    """
    found_left, found_right, steps, limit = -1, -1, 0, best * reach
    for name in lefts:
        value = _sum(left_runs, name)
        entry = heads[(np.uint64(value - origin) >> np.uint64(shift)) & _CHAINS]
        while entry >= 0:
            other = rights[entry >> 1]
            entry = following[entry]
            steps += 1
            distance = abs(value - _sum(right_runs, other))
            if distance < limit:
                one = _counterpart(left, name) if reflected else name
                two = _counterpart(right, other) if reflected else other
                count = counted + ones(_subset(left, one)) + ones(_subset(right, two))
                if count > 0 and distance < best * count:
                    best, found_left, found_right = distance / count, one, two
                    limit = best * reach
        if steps > _STEPS:
            return best, 0, -1
    return best, found_left, found_right


@kernel
def _desk(longest: int) -> tuple[Words, Notes, Ints, Ints, Places, Places]:
    """Room for the marks, for the notes, for the names of both sides, for the heads of chains and what follows.

    All in one piece of memory: of several, the allocator would give some back to the system at the end of each call,
    and to fetch them again takes a third of the time of a call.
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
    whole = right.low[0] + right.low[-1] + right.high[0] + right.high[-1]
    ahead, back = _runs_of(left.low, left.high), _runs_of(-left.low[::-1], whole - left.high[::-1])
    others = _runs_of(right.low, right.high)
    start = max(min(_sum(ahead, 0), _sum(back, 0)), _sum(others, 0))
    end = whole >> 1
    per_sum = max(1, min(_PER_SUM, len(right.low) * len(right.high) // _PER_PAIR))
    wanted = per_sum * _lay(ahead, start, whole - start)
    shift = 1
    while (end - start) >> shift > wanted:
        shift += 1
    cell = 1 << shift
    start, end = start - cell, end + cell
    up = max(0, 64 - _NOTE_BITS - shift)
    marks, notes, lefts, rights, heads, following = _desk(max(len(left.low), len(right.low)))
    word = np.uint64(0)
    while start <= end and best > tolerance:
        cells = min(_CELLS - _MARGIN, ((end - start) >> shift) + 1)
        origin, stop = start - 2 * cell, start + cells * cell
        near = int(min(best * reach + 1.0, _NEAR * cell))
        marks[: (cells + _MARGIN + 63) >> 6] = 0
        for runs in (ahead, back):
            _lay(runs, start - cell, stop + cell)
            _mark(runs, origin, near, shift, marks)
        _lay(others, start, stop)
        many = _marked(others, origin, shift, marks, rights)
        _chain(others, rights[: max(many, 0)], origin, near, shift, notes, heads, following)
        for runs, reflected in ((ahead, False), (back, True)):
            raised = _Runs(runs.low << up, runs.high << up, runs.begin, runs.end)
            some = _noted(raised, origin << up, shift + up, notes, lefts)
            if many < 0 or some < 0:
                return _in_order(word, order), False
            best, one, two = _match(
                lefts[:some],
                rights[:many],
                runs,
                others,
                reflected,
                left,
                right,
                origin,
                shift,
                heads,
                following,
                counted,
                best,
                reach,
            )
            if one >= 0 > two:
                return _in_order(word, order), False
            if one >= 0:
                word = _subset(left, one) | (_subset(right, two) << np.uint64(cut))
        start = stop
    return _in_order(word, order), bool(best <= tolerance or best * reach <= _NEAR * cell)
