"""One word for a whole batch: all numbers of a policy, in the choice of which records are kept.

The bits of the word are the syndrome of presence (`vestige.channels.syndrome`), in order of significance:

| bits | what |
|---|---|
| 0 | the header: the usual range |
| or 10 | the usual range, times 4 |
| or 110 | the usual range, and the numbers are marked as off |
| or 111 and three more | a wider range or the escape; marked as off or not |
| the first bit of each number, then the second of each, ... | see `vestige.channels.residues` |

Numbers are marked as off in the first word that is too far from them (`vestige.statistics.kernels.find_far_limit`), and
in all words after it. Ranges wider by 4^2, 4^3, 4^5 or 4^9, if the numbers are marked 4^4 or 4^9, are for data that
drift or are sorted. The escape writes numbers as floats: about the first kept record or, if that is more precise or
it is another one at each try, about zero. Where a word is of the longer kind, in which no kept record need say anything
of a number, its last rows are shared by the floats, and say these more finely.
Every word is read by its writer before it counts, and must say the same if its side information is off a little. If a
number does not come out, the writer tries the scale that the kept records had, then the second nearest numbers and so
on, then the next header. The escape always comes out.
Guarantee: what is written is read back, near its target or marked as off; held by tests/channels/test_word.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vestige._numba import inner_kernel, kernel
from vestige.channels.layout import LONG_HEADER, MAX_BITS, MAX_MORE, MIN_BITS
from vestige.channels.residues import (
    ALIKE,
    LEAST_OPEN,
    NORMAL,
    choose_exponent,
    choose_residue,
    decode_more,
    decode_pattern,
    encode_more,
    encode_pattern,
    find_dither,
    find_exponent,
    find_factor,
    find_nearest,
    find_open_step,
    find_step,
    is_steady,
    measure,
    reduce_number,
)
from vestige.channels.syndrome import Code, read_words, write_words
from vestige.random.kernels import draw
from vestige.statistics.kernels import add_exactly
from vestige.types import Bools, Floats, Ints, Words

_KEY = np.uint64(0x776F7264)
_ESCAPE = -1
_POWERS = np.array([0, 1, 0, 2, 3, 5, 9, _ESCAPE, 4, 9, _ESCAPE])
"""The power of four that each header says, or the escape; they are tried in the order of `_find_next_level`."""
_WIDE_LEVEL, _OFF_LEVEL, _FIRST_LONG, _LAST_LEVEL, _FIRST_LONG_OFF, _LAST_OFF_LEVEL = 1, 2, 3, 7, 8, 10
_TRIES = 24
_WIDE, _WIDER = 3, 12
"""The number of tries out of range before the range is widened; more before a long header, which costs four bits."""
_LAST_ANCHORED = 12
"""From this try on, the escape writes numbers about zero: the first kept record was another one each time."""
_ABSOLUTE = 2
"""The bit of a float that says that it is about zero, not about the anchor."""
_SMALLEST = float(np.finfo(np.float64).tiny)
_MAX_SHIFT = 30
_FAR_OFFSET = 8
"""From this retry on, each number is one of its eight nearest, by chance: some slots depend on no last bit."""
_OFFSET_DRAW = 1 << 21
"""A draw that is not used for anything else."""
_FILL_DRAW = 1 << 22
"""The same."""
_WORD = 64
LEVEL, OFFSET, CHANGES, WIDE, TRIES, OFF = 0, 1, 2, 3, 4, 5


class Attempt(NamedTuple):
    """What is tried at the moment; made by `make_attempt`.

    Attributes:
        target: the numbers to write; shape (size,).
        low: what is to be added to them, which a float cannot hold beside them; shape (size,).
        guess: the exponent of the scale that the kept records are expected to have in each number, or `ALIKE` if they
            are expected to be alike; shape (size,).
        unit: the distance of the numbers that can be written; shape (size,).
        numbers: what is read; shape (size,).
        rest: what is to be added to it; shape (size,).
        exponents: the exponents that are read; shape (size,).
        anchors: what the first kept record says of each number that moves with the values, otherwise 0; shape (size,).
        centres: the average of what the kept records say of each number, about the anchors; shape (size,).
        scales: their standard deviations; shape (size,).
        message: the bits of the word in integers of 64 bits; the first bit is the highest one of the first integer.
        counters: header, offset, changes of scales, tries out of range, tries, and whether the numbers are off.
        ranks: the rank of each number by what it costs to write the second nearest instead; shape (size,).
        places: of the records that are kept, to compute with; shape (slots,).
    """

    target: Floats
    low: Floats
    guess: Floats
    unit: Floats
    numbers: Floats
    rest: Floats
    exponents: Floats
    anchors: Floats
    centres: Floats
    scales: Floats
    message: Words
    counters: Ints
    ranks: Ints
    places: Ints


@kernel
def find_key(first: int, slots: int) -> np.uint64:
    """Find the key of the dithers of a batch, from the public clock alone."""
    return draw(draw(_KEY, first), slots)


@kernel
def count_rows(slots: int, size: int) -> int:
    """Count the bits of the word of a batch: one for each record, as far as they can be used."""
    return min(slots, LONG_HEADER + MAX_BITS * size)


@kernel
def count_least_rows(size: int) -> int:
    """Count the bits that a word needs to say any numbers."""
    return LONG_HEADER + MIN_BITS * size


@kernel
def make_message(rows: int) -> Words:
    """Make room for a word of so many bits."""
    return np.zeros((rows + _WORD - 1) // _WORD, np.uint64)


@kernel
def make_attempt(slots: int, size: int) -> Attempt:
    """Make room for writing so many numbers into batches of so many slots."""
    return Attempt(
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        make_message(count_rows(slots, size)),
        np.zeros(6, np.int64),
        np.zeros(size, np.int64),
        np.zeros(slots, np.int64),
    )


@inner_kernel
def start_attempt(attempt: Attempt, target: Floats, low: Floats, scales: Floats, off: bool, key: np.uint64) -> None:
    """Begin with the nearest numbers, and the scales of all records that can be kept."""
    for k in range(len(attempt.counters)):
        attempt.counters[k] = 0
    attempt.counters[OFF] = off
    attempt.counters[LEVEL] = _OFF_LEVEL if off else 0
    for i in range(len(target)):
        attempt.target[i], attempt.low[i] = target[i], low[i]
        attempt.guess[i] = find_exponent(scales[i], find_factor(key, i))


@kernel
def _find_width(size: int, rows: int) -> float:
    """The range of a residue, in scales: some standard errors of the kept records' average, more for many numbers."""
    doublings = 0
    while size >> (doublings + 1):
        doublings += 1
    return (4.5 + 0.75 * doublings) * math.sqrt(2.0 / rows)


@kernel
def find_header(level: int) -> tuple[int, int]:
    """Find the length of a header, and the power of four that it says; -1 for the escape."""
    return level + 1 if level < _FIRST_LONG else LONG_HEADER, _POWERS[level]


@kernel
def _find_next_level(level: int, off: bool) -> int:
    """The header to try after this one: a wider range, at last the escape; at least as wide a one that says off."""
    if not off:
        return min(level + 1 if level != _WIDE_LEVEL else _FIRST_LONG, _LAST_LEVEL)
    if level < _OFF_LEVEL:
        return _OFF_LEVEL
    for wider in range(max(level + 1, _FIRST_LONG_OFF), _LAST_OFF_LEVEL):
        if _POWERS[wider] >= _POWERS[level] and _POWERS[level] != _ESCAPE:
            return wider
    return _LAST_OFF_LEVEL


@kernel
def _count_bits(i: int, size: int, rows: int, header: int) -> int:
    """How many bits number i has."""
    return min(MAX_BITS, max(0, (rows - header - i + size - 1) // size))


@kernel
def _find_more(rows: int, size: int, floats: int, rank: int) -> tuple[int, int]:
    """Find the first of the further bits of a float among several, which take turns, and their number."""
    first = LONG_HEADER + MAX_BITS * size + rank
    return first, min(MAX_MORE, max(0, (rows - first + floats - 1) // floats))


@kernel
def _put_bits(message: Words, first: int, step: int, count: int, bits: int) -> None:
    """Set every step-th bit from the first on, so many of them, as in a number, its highest bit first."""
    if len(message) == 1 and step == 1:
        message[0] |= np.uint64(bits) << np.uint64(_WORD - first - count)
        return
    for k in range(count):
        place = first + k * step
        bit = np.uint64((bits >> (count - 1 - k)) & 1)
        message[place >> 6] |= bit << np.uint64(_WORD - 1 - (place & 63))


@kernel
def _get_bits(message: Words, first: int, step: int, count: int) -> int:
    """Read what `_put_bits` writes."""
    if len(message) == 1 and step == 1:
        return int(np.int64((message[0] << np.uint64(first)) >> np.uint64(_WORD - count)))
    bits = 0
    for k in range(count):
        place = first + k * step
        bit = (message[place >> 6] >> np.uint64(_WORD - 1 - (place & 63))) & np.uint64(1)
        bits = (bits << 1) | int(np.int64(bit))
    return bits


@inner_kernel
def compose(attempt: Attempt, key: np.uint64, free: int, rows: int) -> None:
    """Write into `message` the word of so many bits that is tried; bits from `free` on cannot be chosen."""
    message, counters = attempt.message, attempt.counters
    size, level = len(attempt.target), counters[LEVEL]
    header, power = find_header(level)
    floats, rank = size, 0
    if power != _ESCAPE:
        for i in range(size):
            floats -= attempt.guess[i] != ALIKE
    width = _find_width(size, rows)
    for w in range(len(message)):
        message[w] = 0
    if level < _FIRST_LONG:
        _put_bits(message, 0, 1, header, (2 << level) - 2)
    else:
        _put_bits(message, 0, 1, header, 0b111000 + level - _FIRST_LONG)
    if counters[OFFSET] and size > 1:
        _rank(attempt, key, free, width)
    each = _MAX_SHIFT if size == 1 else (2 if size < 4 else 1)
    for i in range(size):
        bits = _count_bits(i, size, rows, header)
        lost = min(bits, max(0, bits - (free - header - i + size - 1) // size))
        shift = attempt.ranks[i] * each
        offset = (counters[OFFSET] >> shift) & ((1 << each) - 1) if shift < _MAX_SHIFT else 0
        if size > 1 and counters[OFFSET] >= _FAR_OFFSET:
            offset = int(draw(key, _OFFSET_DRAW + counters[OFFSET] * size + i) & np.uint64(_FAR_OFFSET - 1))
        guess = attempt.guess[i]
        word = 0
        if power == _ESCAPE or guess == ALIKE:
            word = _compose_float(attempt, key, i, power == _ESCAPE, bits, lost, offset, free, rows, floats, rank)
            rank += 1
        else:
            top = bits - 1
            step = find_step(guess, find_factor(key, i), width, power, top)
            dither = find_dither(key, i, top)
            modulus = float(1 << top)
            number = reduce_number(attempt.target[i], step * modulus) + attempt.low[i]
            whole, fits = choose_residue(number, step, dither, lost, offset)
            residue = int(whole - math.floor(whole / modulus) * modulus) if fits else 0
            word = (int(guess) & 1) << top | residue
            attempt.unit[i] = step * float(1 << lost)
        _put_bits(message, header + i, size, bits, word)
    last, by_try = LONG_HEADER + MAX_BITS * size + MAX_MORE * floats, draw(key, _FILL_DRAW + counters[TRIES])
    for row in range(last, rows):  # bits that say nothing: the records of these slots must be kept or not by chance too
        _put_bits(message, row, size, 1, int(draw(by_try, row) & np.uint64(1)))


@inner_kernel
def _compose_float(
    attempt: Attempt,
    key: np.uint64,
    i: int,
    is_escape: bool,
    bits: int,
    lost: int,
    offset: int,
    free: int,
    rows: int,
    floats: int,
    rank: int,
) -> int:
    """Write the further bits of a float into `message`, and return its first ones, of which `lost` are lost."""
    size, base, first = len(attempt.target), attempt.anchors[i], 0
    target, apart = attempt.target[i], (attempt.target[i] - base) + attempt.low[i]
    alone = is_escape and attempt.counters[TRIES] >= _LAST_ANCHORED
    if alone or base == 0.0 or abs(target) <= abs(apart):
        base, apart, first = 0.0, target, _ABSOLUTE  # what is read alike whichever records are kept
    attempt.unit[i] = abs(apart) * 2.0 ** (13 - bits + lost) + 1e-300
    if not is_escape and _is_centre(attempt, i):
        return 0
    place, more = _find_more(rows, size, floats, rank)
    lost_more = min(more, max(0, more - (free - place + floats - 1) // floats))
    is_fine = more > lost_more and abs(apart) >= 2.0 * LEAST_OPEN
    pattern = encode_pattern(apart, find_dither(key, i, 0), bits - 2, lost, 0 if is_fine else offset)
    if is_fine:
        near = decode_pattern(pattern, find_dither(key, i, 0), bits - 2)
        step = find_open_step(near, bits - 2, more)
        tail = ((target - base) - apart) + attempt.low[i]  # what a float cannot hold beside the others
        open_part = (abs(apart) - near) + (-tail if apart < 0.0 else tail)
        residue = encode_more(open_part, step, find_dither(key, size + i, more), more, lost_more, offset)
        _put_bits(attempt.message, place, floats, more, residue)
        attempt.unit[i] = step * float(1 << lost_more) + 1e-300
    return (first | (1 if apart < 0.0 else 0)) << (bits - 2) | pattern


@inner_kernel
def _is_centre(attempt: Attempt, i: int) -> bool:
    """Tell whether a number is what the kept records say."""
    return bool((attempt.target[i] - attempt.anchors[i]) + attempt.low[i] == attempt.centres[i])


@kernel
def _rank(attempt: Attempt, key: np.uint64, free: int, width: float) -> None:
    """Rank the numbers by what it costs to write the second nearest instead, in steps; the cheapest comes first.

    Floats come after residues, since their steps are longer. A number that equals the common value of the kept records
    is never changed: one bit says so, and no other choice says the same.
    """
    size = len(attempt.target)
    rows = count_rows(len(attempt.places), size)
    header, power = find_header(attempt.counters[LEVEL])
    costs = np.ones(size)
    for i in range(size):
        if power != _ESCAPE and attempt.guess[i] != ALIKE:
            bits = _count_bits(i, size, rows, header)
            lost = min(bits, max(0, bits - (free - header - i + size - 1) // size))
            step = find_step(attempt.guess[i], find_factor(key, i), width, power, bits - 1)
            number = reduce_number(attempt.target[i], step * float(1 << (bits - 1))) + attempt.low[i]
            place = (number / step + find_dither(key, i, bits - 1)) / 2.0**lost
            costs[i] = 1.0 - 2.0 * abs(place - math.floor(place) - 0.5)
        elif power != _ESCAPE and _is_centre(attempt, i):
            costs[i] = np.inf
    attempt.ranks[:] = _MAX_SHIFT  # for all but the cheapest, which are as many as can ever be changed
    for rank in range(min(size, _MAX_SHIFT)):
        cheapest = 0
        for i in range(size):
            if costs[i] < costs[cheapest]:
                cheapest = i
        if costs[cheapest] == np.inf:
            break
        attempt.ranks[cheapest], costs[cheapest] = rank, np.inf


@kernel
def read_header(message: Words) -> tuple[int, bool]:
    """Read which header a word has, and whether its numbers are off."""
    bits = int(np.int64(message[0] >> np.uint64(_WORD - LONG_HEADER)))
    if bits < 0b110000:
        return bits >> (LONG_HEADER - 1), False
    if bits < 0b111000:
        return _OFF_LEVEL, True
    return _FIRST_LONG + (bits & 7), _FIRST_LONG + (bits & 7) >= _FIRST_LONG_OFF


@inner_kernel
def read_numbers(
    message: Words,
    rows: int,
    size: int,
    header: int,
    power: int,
    anchors: Floats,
    centres: Floats,
    scales: Floats,
    key: np.uint64,
    numbers: Floats,
    rest: Floats,
    exponents: Floats,
) -> bool:
    """Read the numbers of a word.

    Args:
        message: the word; see `Attempt`.
        rows: the number of its bits.
        size: the number of numbers.
        header: the length of its header.
        power: the power of four that this says, or -1; see `find_header`.
        anchors: what averages are about, see `measure`; shape (size,).
        centres: the average of what the kept records say of each, about its anchor; shape (size,).
        scales: their standard deviations; shape (size,).
        key: of the public clock.
        numbers: output, the numbers; shape (size,).
        rest: output, what is to be added to them; shape (size,).
        exponents: output, the exponents of their scales; shape (size,).

    Returns:
        whether they are the same if the side information is off a little.
    """
    width, steady, floats, rank = _find_width(size, rows), True, size, 0
    if power != _ESCAPE:
        for i in range(size):
            floats -= scales[i] != 0.0
    for i in range(size):
        bits = _count_bits(i, size, rows, header)
        alike = scales[i] == 0.0
        top = bits - (2 if power == _ESCAPE or alike else 1)
        word = _get_bits(message, header + i, size, bits)
        first, rest_bits = word >> top, word & ((1 << top) - 1)
        if power == _ESCAPE or alike:
            exponents[i], number = ALIKE, decode_pattern(rest_bits, find_dither(key, i, 0), top)
            place, more = _find_more(rows, size, floats, rank)
            rank, low = rank + 1, 0.0
            if more and number >= LEAST_OPEN:
                residue, step = _get_bits(message, place, floats, more), find_open_step(number, top, more)
                number, low = add_exactly(number, decode_more(residue, step, find_dither(key, size + i, more), more))
            if first & _ABSOLUTE:
                numbers[i], rest[i] = (-number, -low) if first & 1 else (number, low)
                continue
            if number < _SMALLEST:
                number = 0.0 if power == _ESCAPE else centres[i]
            elif first & 1:
                number, low = -number, -low
            numbers[i], rest[i] = add_exactly(anchors[i], number)
            rest[i] += low
            continue
        factor = find_factor(key, i)
        exponents[i], rise = choose_exponent(scales[i], factor, first == 1)
        step = find_step(exponents[i], factor, width, power, top)
        span = step * float(1 << top)
        base = reduce_number(anchors[i], span)
        number, apart = find_nearest(np.float64(rest_bits), step, find_dither(key, i, top), top, base + centres[i])
        numbers[i], rest[i] = add_exactly(anchors[i], number - base)
        steady &= is_steady(apart, rise, scales[i], centres[i], span)
    return steady


@inner_kernel
def _find_reach(attempt: Attempt, i: int) -> float:
    """How far from its target a number may come out."""
    apart = abs((attempt.target[i] - attempt.anchors[i]) + attempt.low[i])
    reach: float = attempt.unit[i] * (2.0 + attempt.counters[OFFSET]) + 2.0**-48 * apart
    return reach


@inner_kernel
def _find_error(attempt: Attempt, i: int) -> float:
    """How far from its target a number came out."""
    return float(abs((attempt.numbers[i] - attempt.target[i]) + (attempt.rest[i] - attempt.low[i])))


@inner_kernel
def is_near(attempt: Attempt) -> bool:
    """Tell whether all numbers came out near their targets."""
    for i in range(len(attempt.target)):  # noqa: SIM110
        if not _find_error(attempt, i) <= _find_reach(attempt, i):
            return False
    return True


@inner_kernel
def judge(attempt: Attempt, clear: bool, steady: bool, far: Floats, marks: Bools, key: np.uint64) -> bool:
    """Tell whether the word may stay as it was written; if not, change what is tried next.

    Args:
        attempt: what was tried, and read.
        clear: whether it is clear which records are alike; see `measure`.
        steady: whether the numbers are the same if the side information is off a little.
        far: numbers that are written farther away than this are marked as off; shape (size,).
        marks: one of these records must be kept.
        key: of the public clock.

    Returns:
        whether it may stay.
    """
    counters, wide, changed, missed, stuck = attempt.counters, False, False, False, not marks.any()
    is_escape = find_header(counters[LEVEL])[1] == _ESCAPE
    good = steady and (clear or is_escape) and not stuck
    for i in range(len(far)):
        error = _find_error(attempt, i)
        guessed = is_escape or attempt.exponents[i] == attempt.guess[i]
        if not guessed or not error <= _find_reach(attempt, i):
            good = False
            wide |= guessed
        missed |= not error <= far[i]
        stuck &= attempt.guess[i] == ALIKE  # then an offset may change nothing
    if good and (not missed or counters[OFF]):
        return True
    counters[TRIES] += 1
    if good:
        counters[OFF], counters[LEVEL] = 1, _find_next_level(counters[LEVEL], True)
        counters[OFFSET] = counters[CHANGES] = counters[WIDE] = counters[TRIES] = 0
        return False
    for i in range(len(far)):
        if not is_escape and attempt.exponents[i] != attempt.guess[i]:
            seen = find_exponent(attempt.scales[i], find_factor(key, i))
            changed |= seen != attempt.guess[i]
            attempt.guess[i] = seen
    counters[WIDE] += wide or stuck
    counters[CHANGES] += changed
    if not changed or counters[CHANGES] % 2 == 0:
        counters[OFFSET] += 1
    most = _WIDER if counters[LEVEL] in (_WIDE_LEVEL, _OFF_LEVEL) else _WIDE
    if counters[WIDE] >= most or counters[TRIES] >= _TRIES:
        counters[LEVEL] = _find_next_level(counters[LEVEL], counters[OFF] == 1)
        if not is_escape:
            counters[OFFSET] = counters[CHANGES] = counters[WIDE] = counters[TRIES] = 0
    return False


@inner_kernel
def write_averages(
    atoms: Floats,
    can: Bools,
    target: Floats,
    low: Floats,
    far: Floats,
    spread: Floats,
    off: bool,
    key: np.uint64,
    free: int,
    code: Code,
    attempt: Attempt,
    keep: Bools,
    marks: Bools,
) -> bool:
    """Mark in `keep` the records that say `target`, averages of atoms that do not depend on each other.

    Args:
        atoms: by slot; shape (slots, size).
        can: which slots hold a record that may be kept; shape (slots,).
        target: the numbers; shape (size,).
        low: what is to be added to them; shape (size,).
        far: numbers that are written farther away than this are marked as off; shape (size,).
        spread: about the mean absolute deviation of the atoms; shape (size,).
        off: whether the numbers are marked already.
        key: of the public clock.
        free: what `prepare` returned.
        code: as `prepare` left it.
        attempt: from `make_attempt`; afterwards its `numbers` and `rest` are what is read.
        keep: shape (slots,).
        marks: a part of `keep` of which one must be kept.

    Returns:
        whether the numbers are marked as off.
    """
    size, varied = len(target), True
    for i in range(size):
        attempt.scales[i] = NORMAL * spread[i]
        varied &= spread[i] > 0.0
    if not varied:
        measure(atoms, can, size, True, attempt.places, attempt.anchors, attempt.centres, attempt.scales)
    start_attempt(attempt, target, low, attempt.scales, off, key)
    rows = count_rows(len(keep), size)
    while True:
        compose(attempt, key, free, rows)
        write_words(attempt.message, free, code, keep)
        if free < rows:
            read_words(keep, rows, attempt.message)
        clear = measure(atoms, keep, size, True, attempt.places, attempt.anchors, attempt.centres, attempt.scales)
        header, power = find_header(read_header(attempt.message)[0])
        steady = read_numbers(
            attempt.message,
            rows,
            size,
            header,
            power,
            attempt.anchors,
            attempt.centres,
            attempt.scales,
            key,
            attempt.numbers,
            attempt.rest,
            attempt.exponents,
        )
        if judge(attempt, clear, steady, far, marks, key):
            return bool(attempt.counters[OFF] == 1)
