"""A number in presence bits: which of the records that can be kept are, and what that says.

The records are the leading bits of a float64: sign, 11 of the exponent, then the mantissa as far as there are records,
rotated by a turn that other records encode. Beyond 64, positions repeat the word from its sign on, and a bit is one if
any of its copies is kept. A record that cannot be kept can only mean zero, or one if kept means zero.
Guarantee: any number is written to a step of the leading bits that `count_bits` counts, or to 2^-11 of it where it must
be carried over a bit that cannot be said; held by tests/channels/test_spelled.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.types import Bools

WORD = 64
_SIGN = np.uint64(1) << np.uint64(63)
_INFINITE = np.uint64(0x7FF) << np.uint64(52)
_ONE = np.uint64(1)
_NONE = np.uint64(0)
_COARSEST = 2.0**-11
"""If two neighbours are farther apart than this fraction of a number, the nearer one is taken, not a random one."""


@kernel
def _bit_at(position: int, length: int, turn: int, turns: int) -> np.uint64:
    """The bit that the record at `position` of `length` stands for, if the word is turned by that much of 2^turns."""
    place = position - ((turn * length) >> turns)
    if place < 0:
        place += length
    return _ONE << np.uint64(63 - place % WORD)


@kernel
def find_largest_within(word: np.uint64, allowed: np.uint64) -> np.uint64:
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
def find_smallest_beyond(word: np.uint64, allowed: np.uint64) -> np.uint64:
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
def _round_between(low: np.uint64, high: np.uint64, magnitude: float, coin: float) -> np.uint64:
    """One of two words around `magnitude`: up with the chance that leaves no bias, or the nearer if they lie far apart.

    Neighbours lie far apart only where a bit that cannot be said has to be carried over.
    """
    floor = np.uint64(low).view(np.float64)
    gap = np.uint64(high).view(np.float64) - floor
    chance = coin if gap <= _COARSEST * magnitude else 0.5
    return high if chance * gap < magnitude - floor else low


@kernel
def round_to_word(number: float, allowed: np.uint64, coin: float) -> np.uint64:
    """`number` as a float64 word with ones only where `allowed` has, rounded up with the chance that leaves no bias."""
    magnitude = np.float64(abs(number)).view(np.uint64)
    sign = _SIGN if number < 0.0 else _NONE
    if sign & ~allowed:
        return _NONE
    low = find_largest_within(magnitude, allowed & ~_SIGN)
    high = find_smallest_beyond(magnitude, allowed & ~_SIGN)
    if high < _INFINITE and high > low:
        low = _round_between(low, high, abs(number), coin)
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
    least = find_smallest_beyond(bits & ~below, free)
    low = bits & ~least if least != ~_NONE else ~_NONE
    high = bits & ~find_largest_within(bits & ~above, free) if above <= bits else ~_NONE
    if low == ~_NONE or low >= _INFINITE:
        return sign | high if high < _INFINITE else ~_NONE
    if high < _INFINITE and high > low:
        low = _round_between(low, high, abs(number), coin)
    return sign | low


@kernel
def _bits_at(can: Bools, length: int, turn: int, turns: int) -> tuple[np.uint64, np.uint64]:
    """At this turn: the bits of which a record can be kept, and those of which there is one."""
    allowed, covered = _NONE, _NONE
    for position in range(length):
        bit = _bit_at(position, length, turn, turns)
        covered |= bit
        if can[position]:
            allowed |= bit
    return allowed, covered


@kernel
def count_bits(can: Bools, length: int, turn: int, turns: int, spare: bool) -> int:
    """How many leading bits can be said at this turn, whatever they are, if only some of the records can be kept.

    With `spare`, it can be said that kept means zero: then the first bit that cannot be one does not matter, because it
    is a zero in one way of writing and a one in the other.
    """
    allowed, covered = _bits_at(can, length, turn, turns)
    bits = 0
    for i in range(WORD - 1, -1, -1):
        bit = _ONE << np.uint64(i)
        if not covered & bit or not (allowed & bit or spare):
            break
        spare &= (allowed & bit) != _NONE
        bits += 1
    return bits


@kernel
def find_miss(can: Bools, length: int, turn: int, turns: int, target: float, coin: float) -> float:
    """How far from `target` the number is that can be spelled at this turn."""
    word = round_to_word(target, _bits_at(can, length, turn, turns)[0], coin)
    return abs(np.uint64(word).view(np.float64) - target)


@kernel
def write_word(
    can: Bools, length: int, turn: int, turns: int, spare: bool, target: float, coin: float, keep: Bools
) -> bool:
    """Keep those of the first `length` records that spell `target`; returns whether kept means zero, if `spare`."""
    allowed, covered = _bits_at(can, length, turn, turns)
    word = round_to_word(target, allowed, coin)
    inverted = False
    if spare and allowed != covered:
        other = round_to_complement(target, allowed, covered, coin)
        off = abs(np.uint64(word).view(np.float64) - target)
        if other != ~_NONE and abs(np.uint64(other).view(np.float64) - target) < off:
            word, inverted = ~other, True
    for position in range(length):
        keep[position] = can[position] and (word & _bit_at(position, length, turn, turns)) != _NONE
    return inverted


@kernel
def read_word(present: Bools, length: int, turn: int, turns: int, inverted: bool) -> float:
    """The number that the first `length` records spell; see `write_word`."""
    word, covered = _bits_at(present, length, turn, turns)
    if inverted:
        word = covered & ~word
    return np.uint64(word).view(np.float64)
