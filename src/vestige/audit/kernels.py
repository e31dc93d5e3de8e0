"""Many patterns of presence are read as words at once, by the kernels that Vestige's channels use, and scored.

A score is about the logarithm of how much likelier a word is if somebody wrote it than by chance. Any score would make
an exact test, since permutations get the same one; this one makes a powerful test.
Guarantee: reads what the channels read; held by tests/audit/test_detector.py.
"""

from __future__ import annotations

import math

import numpy as np

from vestige._numba import kernel
from vestige.channels.layout import MAX_BITS
from vestige.channels.residues import ALIKE, find_dither, find_factor
from vestige.channels.syndrome import fill_keyed_column, pack_message, read_message
from vestige.channels.word import find_header, read_header, read_numbers
from vestige.types import Bools, Floats, Ints, Words

_LEAST_GAP = 2.0**-20
"""Numbers that are nearer than this count as equal, in standard deviations of a record, or relative to the number."""
_LARGEST_GAP = 2.0**10
_ORDERS = 8.0
"""Gaps of words that were written are spread over about so many powers of e."""
_FLOATS = 12.0 * math.log(2.0)
"""How much rarer it is that a random float is near another, among all signs and exponents, than a random residue."""
_SLOPE = 8.0
"""How sharply the exponent of a scale follows from the kept records."""
_SAME = 0.9
"""The share of words that have the same header as the word before."""
_CHANCES = (0.5, 0.25, 0.125, 1.0 / 64.0)
"""How often a random word has each of the three short headers, and each of the long ones."""
_MARK = 16
"""Added to the number of a header whose numbers are marked as off."""
_FIXED_HEADER = 2
_NEVER = -8.0
"""The score of what is hardly ever written."""


@kernel
def read_messages(patterns: Bools, messages: Bools) -> None:
    """Read the syndrome of each pattern.

    Args:
        patterns: one pattern in each row; shape (patterns, slots).
        messages: output; shape (patterns, rows).
    """
    for row in range(len(patterns)):
        read_message(patterns[row], messages[row])


@kernel
def read_keyed_messages(slots: Ints, keys: Words, messages: Bools) -> None:
    """Read what kept slots say in the codes of several keys.

    Args:
        slots: kept slots, counted from the newest back.
        keys: one key for each code; shape (codes,).
        messages: output, at most 1,024 rows; shape (codes, rows).
    """
    rows = messages.shape[1]
    column, total = np.empty((rows + 63) // 64, np.uint64), np.empty((rows + 63) // 64, np.uint64)
    for code in range(len(keys)):
        for w in range(len(total)):
            total[w] = 0
        for slot in slots:
            fill_keyed_column(keys[code], slot, rows, column)
            for w in range(len(total)):
                total[w] ^= column[w]
        for i in range(rows):
            messages[code, i] = (total[i // 64] >> np.uint64(63 - i % 64)) & np.uint64(1) == np.uint64(1)


@kernel
def _score_gap(gap: float) -> float:
    """The score of a number this far from that of the word before; all score the same if there is none."""
    return -math.log(_ORDERS * min(gap, _LARGEST_GAP) + _LEAST_GAP) if gap >= 0.0 else -math.log(_ORDERS)


@kernel
def _score_same(is_same: bool, chance: float) -> float:
    """The score of a property that written words mostly share with the word before, and random ones with a chance."""
    return math.log(_SAME / chance + 1.0 - _SAME) if is_same else math.log(1.0 - _SAME)


@kernel
def score_words(
    messages: Bools,
    averages: Bools,
    anchors: Floats,
    centres: Floats,
    scales: Floats,
    kept: int,
    key: np.uint64,
    numbers: Floats,
    headers: Ints,
    scores: Floats,
) -> None:
    """Score words that the kept records locate: by header, by the exponents of scales, and by the numbers.

    Args:
        messages: one word in each row; shape (patterns, rows).
        averages: which rows are not words, but averages; shape (patterns,).
        anchors: what the first of the kept records says of each number, or zero; shape (size,).
        centres: what the kept records say of each number, about the anchors; shape (size,).
        scales: their standard deviations; shape (size,).
        kept: the number of kept records.
        key: of the public clock.
        numbers: those of the words before, which are replaced; where they are nan there is none, and numbers are
            compared with the centres, as a mean of all records would lie; shape (patterns, size).
        headers: those of the words before, which are replaced; shape (patterns,).
        scores: output, 0 for averages; shape (patterns,).
    """
    size = len(centres)
    before, rest, exponents, middle = np.empty(size), np.empty(size), np.empty(size), anchors + centres
    for row in range(len(messages)):
        scores[row] = 0.0
        if averages[row]:
            numbers[row] = middle
            continue
        word = pack_message(messages[row])
        level, off = read_header(word)
        header, power = find_header(level)
        before[:] = numbers[row]
        rows = messages.shape[1]
        read_numbers(word, rows, size, header, power, anchors, centres, scales, key, numbers[row], rest, exponents)
        score = _score_same(level + _MARK * off == headers[row], _CHANCES[min(level, 3)])
        headers[row] = level + _MARK * off
        for i in range(size):
            score += _score_number(numbers[row, i], before[i], middle[i], scales[i], kept)
            if exponents[i] != ALIKE:
                apart = abs(math.log2(scales[i] / find_factor(key, i)) - exponents[i])
                score -= math.log1p(math.exp(_SLOPE * (apart - 0.5)))
        scores[row] = score


@kernel
def _score_number(number: float, before: float, centre: float, scale: float, kept: int) -> float:
    if scale == 0.0:
        return _score_float(number, before, centre)
    if np.isnan(before):
        return -min(kept * ((number - centre) / scale) ** 2 / 2.0, -_NEVER)
    return _score_gap(abs(number - before) / scale)


@kernel
def _score_float(number: float, before: float, centre: float) -> float:
    """The score of a number that the kept records say nothing of, or that is their common value."""
    if number == centre:
        return _score_same(True, 0.5)
    if np.isnan(before):
        return 0.0
    least = min(abs(number), abs(before))
    return _FLOATS + _score_gap(abs(number - before) / least) if least > 0.0 else 0.0


@kernel
def read_places(message: Bools, key: np.uint64, places: Floats) -> None:
    """Read fixed-point numbers, from 0 to 1.

    Args:
        message: the word; shape (rows,).
        key: of the public clock.
        places: output; shape (size,).
    """
    size = len(places)
    for i in range(size):
        places[i], unit = 0.0, 0.5
        for k in range(_FIXED_HEADER + i, min(len(message), _FIXED_HEADER + MAX_BITS * size), size):
            places[i] += unit * message[k]
            unit *= 0.5
        places[i] = (places[i] - find_dither(key, i, 0)) % 1.0


@kernel
def score_fixed_points(messages: Bools, key: np.uint64, places: Floats, headers: Ints, scores: Floats) -> None:
    """Score words of fixed-point numbers: the first bit is one, and the numbers are near those before.

    Args:
        messages: one word in each row; shape (patterns, rows).
        key: of the public clock.
        places: the numbers of the words before, from 0 to 1, which are replaced; nan if there is none; shape
            (patterns, size).
        headers: whether they were marked as off, which is replaced; shape (patterns,).
        scores: output; shape (patterns,).
    """
    before = np.empty(places.shape[1])
    for row in range(len(messages)):
        before[:] = places[row]
        read_places(messages[row], key, places[row])
        score = 0.0 if messages[row, 0] else _NEVER
        score += _score_same(messages[row, 1] == headers[row], 0.5)
        headers[row] = messages[row, 1]
        for i in range(len(before)):
            score += _score_gap(abs(places[row, i] - before[i]))
        scores[row] = score
