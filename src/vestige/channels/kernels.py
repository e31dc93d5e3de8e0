"""A vector in a choice of records: how a segment of a batch is read and written.

A segment is the records of a batch that carry one coordinate. Its last record is the flag: kept, the others are
presence bits; dropped, the plain average of the others that are kept is the number. So no segment that was written
is ever empty, and a reader needs nothing but rounds, values and the clock.

Presence bits are the leading bits of a float64: position 0 is the sign, 1 to 11 the exponent, then the mantissa as far
as there are records. Beyond 64, positions repeat the word from its sign on, and a bit is one if any of its copies is
kept, so that a record that may not be kept spoils less.
"""

from __future__ import annotations

import numpy as np

from vestige.compiling import kernel
from vestige.records import Bools, Floats
from vestige.subset.search import average_of, search
from vestige.subset.words import uniform

AVERAGE, BITS, AUTO = 0, 1, 2
WORD = 64
_SIGN = np.uint64(1) << np.uint64(63)
_INFINITE = np.uint64(0x7FF) << np.uint64(52)
_ONE = np.uint64(1)
_NONE = np.uint64(0)


@kernel
def _bit_at(position: int) -> np.uint64:
    """The bit of the word that the record at `position` stands for."""
    return _ONE << np.uint64(63 - position % WORD)


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
def write_bits(can: Bools, target: float, coin: float, keep: Bools) -> float:
    """Keep the records that spell `target`, flag included, as far as `can` allows; returns the number they spell."""
    n = len(can)
    allowed = _NONE
    for position in range(n - 1):
        if can[position]:
            allowed |= _bit_at(position)
    word = round_to_word(target, allowed, coin)
    for position in range(n - 1):
        keep[position] = can[position] and (word & _bit_at(position)) != _NONE
    keep[n - 1] = True
    return np.uint64(word).view(np.float64)


@kernel
def read_segment(values: Floats, present: Bools) -> float:
    """The number that a segment holds: presence bits if its flag is there, else an average; nan if it is empty."""
    n = len(values)
    if not present[n - 1]:
        return average_of(values, present)
    word = _NONE
    for position in range(n - 1):
        if present[position]:
            word |= _bit_at(position)
    return np.uint64(word).view(np.float64)


@kernel
def write_segment(
    values: Floats, can: Bools, target: float, tolerance: float, key: np.uint64, mode: int, keep: Bools
) -> bool:
    """Mark in `keep` the records of a segment that say `target`, of those that `can` be kept; False if none can.

    `average` takes the nearest average. `auto` takes it where it is within `tolerance`. Otherwise presence bits are
    written, unless records that may not be kept spoil them so much that the average is nearer.
    """
    n = len(values)
    keep[:] = False
    residual = np.inf
    usable = np.flatnonzero(can[: n - 1])
    if len(usable) and (mode != BITS or not can.all()):
        keep[usable] = search(values[usable], target, tolerance, key)
        residual = abs(average_of(values, keep) - target)
    if mode == AVERAGE or (mode == AUTO and residual <= tolerance) or not can[n - 1]:
        return residual < np.inf
    spelled = np.zeros(n, np.bool_)
    if abs(write_bits(can, target, uniform(key, 0), spelled) - target) < residual:
        keep[:] = spelled
    return True


@kernel
def read_batch(values: Floats, present: Bools) -> Floats:
    """The vector that a batch holds: coordinate i from every dim-th record, from the i-th on."""
    dim = values.shape[1]
    vector = np.empty(dim)
    for i in range(dim):
        vector[i] = read_segment(values[i::dim, i], present[i::dim])
    return vector


@kernel
def write_batch(
    values: Floats, can: Bools, target: Floats, tolerance: Floats, key: np.uint64, mode: int, keep: Bools
) -> bool:
    """Mark in `keep` the records of a batch that say `target`; False where a coordinate cannot be said."""
    dim = values.shape[1]
    for i in range(dim):
        if not write_segment(
            values[i::dim, i], can[i::dim], target[i], tolerance[i], key + np.uint64(i), mode, keep[i::dim]
        ):
            return False
    return True
