"""A vector in a choice of records: how a segment of a batch is read and written.

A segment is the records of a batch that carry one coordinate. Its last two records are its flags: if one of them is
kept, the others are presence bits; if both are dropped, the plain average of the others that are kept is the number. So
no segment that was written is ever empty, and a reader needs nothing but rounds, values and the clock.

Presence bits: three records say by how much the word is turned; the rest are the leading bits of a float64 (sign, 11 of
the exponent, then the mantissa as far as there are records), beginning at the turn. Beyond 64, positions repeat the
word from its sign on, and a bit is one if any of its copies is kept. Where removal was requested for a record, it can
only say zero: then the turn is chosen that puts it where it does the least harm.
"""

from __future__ import annotations

import numpy as np

from vestige.compiling import kernel
from vestige.records import Bools, Floats, Ints
from vestige.subset.desk import Desk
from vestige.subset.search import average_of, search
from vestige.subset.words import uniform

AVERAGE, BITS, AUTO = 0, 1, 2
FLAGS, TURNS = 2, 3
"""So many records at the end of a segment are flags; so many before them say by how much the word is turned."""
SPELLED_TURNS = 4
"""Where a policy has nothing but presence bits: so many records say the turn, and one whether kept means zero."""
LEAST = 17
"""In a shorter segment there is no room for sign and exponent, and numbers are not spelled."""
WORD = 64
_SIGN = np.uint64(1) << np.uint64(63)
_INFINITE = np.uint64(0x7FF) << np.uint64(52)
_ONE = np.uint64(1)
_NONE = np.uint64(0)


@kernel
def _bit_at(position: int, length: int, turn: int, turns: int) -> np.uint64:
    """The bit that the record at `position` of `length` stands for, if the word is turned by that much of 2^turns."""
    place = position - ((turn * length) >> turns)
    if place < 0:
        place += length
    return _ONE << np.uint64(63 - place % WORD)


@kernel
def largest_within(word: np.uint64, allowed: np.uint64) -> np.uint64:
    """The largest word not above `word` that has ones only where `allowed` has."""
    made = _NONE
    for i in range(63, -1, -1):
        bit = _ONE << np.uint64(i)
        if word & bit:
            if not allowed & bit:
                return made | (allowed & (bit - _ONE))
            made |= bit
    return made


@kernel
def smallest_beyond(word: np.uint64, allowed: np.uint64) -> np.uint64:
    """The smallest word not below `word` that has ones only where `allowed` has; all ones if there is none."""
    made = _NONE
    rise = ~_NONE
    for i in range(63, -1, -1):
        bit = _ONE << np.uint64(i)
        if word & bit:
            if not allowed & bit:
                return rise
            made |= bit
        elif allowed & bit:
            rise = made | bit
    return made


@kernel
def round_to_word(number: float, allowed: np.uint64, coin: float) -> np.uint64:
    """`number` as a float64 word with ones only where `allowed` has, rounded up with the chance that leaves no bias."""
    magnitude = np.float64(abs(number)).view(np.uint64)
    sign = _SIGN if number < 0.0 else _NONE
    if sign & ~allowed:
        return _NONE
    low = largest_within(magnitude, allowed & ~_SIGN)
    high = smallest_beyond(magnitude, allowed & ~_SIGN)
    if high < _INFINITE and high > low:
        floor = np.uint64(low).view(np.float64)
        if coin * (np.uint64(high).view(np.float64) - floor) < abs(number) - floor:
            low = high
    return sign | low if low else _NONE


@kernel
def round_to_complement(number: float, allowed: np.uint64, covered: np.uint64, coin: float) -> np.uint64:
    """`number` as a float64 word of the bits `covered`, with zeros only where `allowed` has ones; all ones if none is.

    The complement of such a word has ones only where `allowed` has, and falls as the word rises.
    """
    sign = _SIGN if number < 0.0 else _NONE
    if not sign and not allowed & _SIGN:
        return ~_NONE
    bits, free = covered & ~_SIGN, allowed & ~_SIGN
    magnitude = np.float64(abs(number)).view(np.uint64)
    below = magnitude & bits
    above = below if below == magnitude else below + (bits & (~bits + _ONE))
    least = smallest_beyond(bits & ~below, free)
    low = bits & ~least if least != ~_NONE else ~_NONE
    high = bits & ~largest_within(bits & ~above, free) if above <= bits else ~_NONE
    if low == ~_NONE or low >= _INFINITE:
        return sign | high if high < _INFINITE else ~_NONE
    if high < _INFINITE and high > low:
        floor = np.uint64(low).view(np.float64)
        if coin * (np.uint64(high).view(np.float64) - floor) < abs(number) - floor:
            low = high
    return sign | low


@kernel
def _word_for(
    can: Bools, length: int, target: float, coin: float, turn: int, turns: int, complement: bool
) -> tuple[np.uint64, float]:
    """The word nearest `target` that can be written at this turn, and how far it is off."""
    allowed, covered = _NONE, _NONE
    for position in range(length):
        bit = _bit_at(position, length, turn, turns)
        covered |= bit
        if can[position]:
            allowed |= bit
    if complement:
        word = round_to_complement(target, allowed, covered, coin)
        if word == ~_NONE:
            return word, np.inf
    else:
        word = round_to_word(target, allowed, coin)
    return word, abs(np.uint64(word).view(np.float64) - target)


@kernel
def write_word(can: Bools, length: int, turns: int, complements: int, target: float, coin: float, keep: Bools) -> float:
    """Keep those of the first `length` records that spell `target`; of the next ones those that say how.

    These are `turns` records that say by how much the word is turned, and, if `complements` is 1, one that says that
    kept means zero. Only as far as `can` allows, whatever does the least harm; returns the number that is spelled.
    """
    everyone = True
    for position in range(length):
        everyone &= can[position]
    best, (best_word, least) = 0, _word_for(can, length, target, coin, 0, turns, False)
    if not everyone:
        for way in range(1, 1 << (turns + complements)):
            said = True
            for i in range(turns + complements):
                said &= can[length + i] or not (way >> i) & 1
            if said:
                turn = way & ((1 << turns) - 1)
                word, off = _word_for(can, length, target, coin, turn, turns, way >> turns == 1)
                if off < least:
                    best, best_word, least = way, word, off
    turn, stored = best & ((1 << turns) - 1), ~best_word if best >> turns == 1 else best_word
    for position in range(length):
        keep[position] = can[position] and (stored & _bit_at(position, length, turn, turns)) != _NONE
    for i in range(turns + complements):
        keep[length + i] = (best >> i) & 1 == 1
    return np.uint64(best_word).view(np.float64)


@kernel
def read_word(present: Bools, length: int, turns: int, complements: int) -> float:
    """The number that the first `length` records spell, in the way that the next ones say; see `write_word`."""
    turn = 0
    for i in range(turns):
        if present[length + i]:
            turn |= 1 << i
    word, covered = _NONE, _NONE
    for position in range(length):
        bit = _bit_at(position, length, turn, turns)
        covered |= bit
        if present[position]:
            word |= bit
    if complements == 1 and present[length + turns]:
        word = covered & ~word
    return np.uint64(word).view(np.float64)


@kernel
def write_bits(can: Bools, target: float, coin: float, keep: Bools) -> float:
    """Keep the records that spell `target`, flags included, as far as `can` allows; returns the number they spell."""
    n = len(can)
    for i in range(n - FLAGS, n):
        keep[i] = can[i]
    return write_word(can, n - FLAGS - TURNS, TURNS, 0, target, coin, keep)


@kernel
def read_segment(values: Floats, present: Bools) -> float:
    """The number that a segment holds: presence bits if a flag is there, else an average; nan if it is empty."""
    n = len(values)
    if not (present[n - 1] or present[n - 2]):
        return average_of(values, present)
    return read_word(present, n - FLAGS - TURNS, TURNS, 0)


@kernel
def write_segment(
    values: Floats, can: Bools, target: float, tolerance: float, key: np.uint64, mode: int, desk: Desk, keep: Bools
) -> None:
    """Mark in `keep` the records of a segment that say `target`, of those that `can` be kept.

    `average` takes the nearest average. `auto` takes it where it is within `tolerance`. Otherwise presence bits are
    written, unless records that may not be kept spoil them so much that the average is nearer.
    """
    n = len(values)
    flagged = n >= LEAST and (can[n - 1] or can[n - 2])
    usable, everyone = 0, flagged
    for i in range(n):
        keep[i] = False
        everyone &= can[i]
        if i < n - FLAGS and can[i]:
            desk.values[usable], desk.places[usable] = values[i], i
            usable += 1
    residual = np.inf
    if usable and (mode != BITS or not everyone):
        search(desk.values, usable, target, tolerance, key, mode == AVERAGE or not everyone, desk, desk.chosen)
        for i in range(usable):
            keep[desk.places[i]] = desk.chosen[i]
        residual = abs(average_of(values, keep) - target)
    if mode == AVERAGE or (mode == AUTO and residual <= tolerance) or not flagged:
        return
    spelled = desk.spelled[:n]
    if abs(write_bits(can, target, uniform(key, 0), spelled) - target) < residual:
        for i in range(n):
            keep[i] = spelled[i]


@kernel
def read_batch(values: Floats, present: Bools, vector: Floats) -> None:
    """Write into `vector` what a batch holds: coordinate i from every dim-th record, from the i-th on."""
    dim = values.shape[1]
    for i in range(dim):
        vector[i] = read_segment(values[i::dim, i], present[i::dim])


@kernel
def read_kept(rounds: Ints, atoms: Floats, first: int, length: int) -> Floats:
    """What the kept records of a batch of `length` rounds, from `first` on, hold; each goes to its round's slot."""
    dim = atoms.shape[1]
    values, present, vector = np.zeros((length, dim)), np.zeros(length, np.bool_), np.empty(dim)
    for k in range(len(rounds)):
        slot = rounds[k] - first
        if 0 <= slot < length:
            present[slot] = True
            for i in range(dim):
                values[slot, i] = atoms[k, i]
    read_batch(values, present, vector)
    return vector


@kernel
def spell_batch(can: Bools, target: Floats, key: np.uint64, keep: Bools, spelled: Floats) -> None:
    """Mark in `keep` the records that spell `target`, coordinate i in every size-th record; what they spell.

    For policies that know nothing but presence bits: in place of flags, a fourth record says the turn, and one that
    kept means zero. A zero that no bits spell is written with the last turn, so that no batch is ever empty.
    """
    size = len(target)
    for i in range(size):
        mine, kept = can[i::size], keep[i::size]
        length = len(mine) - SPELLED_TURNS - 1
        spelled[i] = write_word(mine, length, SPELLED_TURNS, 1, target[i], uniform(key + np.uint64(i), 0), kept)
        if spelled[i] == 0.0 and not kept[length + SPELLED_TURNS]:
            for k in range(length, length + SPELLED_TURNS):
                kept[k] = mine[k]


@kernel
def read_spelled(rounds: Ints, first: int, length: int, size: int) -> Floats:
    """What the kept records of a batch that was spelled say; nan if none is left."""
    present, vector = np.zeros(length, np.bool_), np.zeros(size)
    for k in rounds:
        if first <= k < first + length:
            present[k - first] = True
    if not present.any():
        vector[:] = np.nan
        return vector
    for i in range(size):
        mine = present[i::size]
        vector[i] = read_word(mine, len(mine) - SPELLED_TURNS - 1, SPELLED_TURNS, 1)
    return vector


@kernel
def write_batch(
    values: Floats, can: Bools, target: Floats, tolerance: Floats, key: np.uint64, mode: int, desk: Desk, keep: Bools
) -> None:
    """Mark in `keep` the records of a batch that say `target`."""
    dim = values.shape[1]
    for i in range(dim):
        write_segment(
            values[i::dim, i], can[i::dim], target[i], tolerance[i], key + np.uint64(i), mode, desk, keep[i::dim]
        )
