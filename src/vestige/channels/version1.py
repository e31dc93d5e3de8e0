"""Version 1 of the word, for reading only: a segment of the batch for each number, every size-th record.

A stream that was written so continues: its next update reads this version and writes the present one. A number was the
leading bits of a float64: sign, exponent and as much of the mantissa as there were records; from the 65th on, positions
repeated the word from its sign, and a bit was one if any of its copies was kept. The word could be turned, so that
records that could not be kept fell on its last bits. Controls at the end of a segment said how to read the others:

| segments of | controls | kept | the others |
|---|---|---|---|
| `average` | 2 | any | their average is the number, and it is off |
| | | none | their average is the number |
| `bits` and `auto`, of the values themselves | 5 | none, or one | their average is the number; with one, it is off |
| | | two, or three | the word, turned by what these say (of three, the two that are missing); with three, it is off |
| all other numbers | 5 | the first four | the word, turned by what these say |
| | | the last | a record that is kept means zero |

Guarantee: every number is read as the code that wrote it read it; held by tests/channels/test_version1.py and
tests/store/test_version3.py.
"""

from __future__ import annotations

import math

import numpy as np

from vestige.channels.channel import Channel, Reading, lay_out_encoded
from vestige.channels.compiled import Compiled
from vestige.channels.fixed_point import FixedPoint
from vestige.clock import Clock
from vestige.records import Records
from vestige.statistics import Mean, Statistic
from vestige.types import Bools, Floats

_FLAGS, _CONTROLS = 2, 5
_SIGN_AND_EXPONENT, _MANTISSA = 12, 52
_PAIR_TURNS, _WORD_TURNS = 3, 4
"""Controls that are pairs said a turn in eighths of the length, those of a word alone one in sixteenths."""
_PAIRS = [code for code in range((1 << _CONTROLS) - 1, -1, -1) if code.bit_count() == 2]
_TURNS = {code: k % (1 << _PAIR_TURNS) for k, code in enumerate(_PAIRS)}


def read(channel: Channel, retained: Records, clock: Clock, statistic: Statistic) -> Reading:
    """Read the numbers of an encoded batch that was written in version 1.

    Args:
        channel: the channel of the policy today; one from outside the package reads what it has written itself.
        retained: the records that are held; those of other rounds are ignored.
        clock: the public clock.
        statistic: the numbers.

    Returns:
        the numbers, nan where one is lost, and which of them are marked as off.

    Example:
        >>> from vestige.channels import find_channel
        >>> held = Records([1, 3], [[2.0], [4.0]])
        >>> read(find_channel("auto"), held, Clock(28, first=1, last=28, word=1), Mean(1)).numbers
        array([3.])
    """
    if not isinstance(channel, Compiled | FixedPoint):
        return channel.read(retained, clock, statistic)
    values, present = lay_out_encoded(retained, clock)
    if has_words(channel, statistic):
        return _read_words(present, statistic.size)
    return _read_segments(values, present, channel.has_bits)


def has_words(channel: Channel, statistic: Statistic) -> bool:
    """Tell whether numbers were words alone, which could not be marked as off.

    Args:
        channel: the channel of the policy today.
        statistic: the numbers.

    Returns:
        True for all numbers that are not means of the values, and for those with noise.

    Example:
        >>> from vestige.channels import find_channel
        >>> has_words(find_channel("bits"), Mean(1))
        False
    """
    return isinstance(channel, Compiled | FixedPoint) and not isinstance(statistic, Mean)


def find_rounding(slots: int, size: int, worth: float) -> float:
    """Find how far a number may be off through all rounding so far, relative to it, where it was a word alone.

    Each update rounded to a step of the word, and carried on what was rounded before: about a third of the squares.

    Args:
        slots: the number of records of the encoded batch; those before it are taken to be as long.
        size: the number of numbers.
        worth: the number of equally weighted records that the numbers rest on.

    Returns:
        the root mean square error, relative to the number.

    Example:
        >>> find_rounding(28, 1, 28.0) < 2.0**-11
        True
    """
    bits = min(slots // size - _CONTROLS - _SIGN_AND_EXPONENT, _MANTISSA)
    return 2.0 ** -(bits + 1) * math.sqrt(1.0 + worth / (3.0 * slots))


def _read_segments(values: Floats, present: Bools, has_bits: bool) -> Reading:
    """The numbers of `average`, or of `bits` and `auto`."""
    from vestige.subset.search import compute_average  # noqa: PLC0415

    size = values.shape[1]
    reading = Reading(np.empty(size), np.zeros(size, np.bool_))
    for i in range(size):
        mine = present[i::size]
        others = len(mine) - (_CONTROLS if has_bits else _FLAGS)
        kept = np.flatnonzero(mine[others:]) if others > 0 else np.zeros(0, np.int64)
        code = int(sum(1 << kept))
        reading.off[i] = len(kept) in (1, 3) if has_bits else len(kept) > 0
        turn = _TURNS.get(code if len(kept) < 3 else (1 << _CONTROLS) - 1 - code) if has_bits else None
        if turn is None:
            reading.numbers[i] = compute_average(np.ascontiguousarray(values[i::size, i][:others]), mine[:others])
        else:
            reading.numbers[i] = _read_word(mine[:others], turn, _PAIR_TURNS, inverted=False)
    return reading


def _read_words(present: Bools, size: int) -> Reading:
    """The numbers of all other policies."""
    numbers = np.full(size, np.nan)
    if present.any():
        for i in range(size):
            mine, controls = present[i::size][:-_CONTROLS], present[i::size][-_CONTROLS:]
            turn = int(sum(1 << np.flatnonzero(controls[:_WORD_TURNS])))
            numbers[i] = _read_word(mine, turn, _WORD_TURNS, inverted=bool(controls[-1]))
    return Reading(numbers, np.zeros(size, np.bool_))


def _read_word(present: Bools, turn: int, turns: int, *, inverted: bool) -> float:
    """The number of one word, turned by that much of 2^turns."""
    length = len(present)
    places = (np.arange(length) - ((turn * length) >> turns)) % length % 64
    bits, covered = np.zeros(64, np.bool_), np.zeros(64, np.bool_)
    bits[places[present]] = True
    covered[places] = True
    word = covered & ~bits if inverted else bits
    return float(np.packbits(word).view(">f8")[0])
