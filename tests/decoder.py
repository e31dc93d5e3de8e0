"""A reader of words that shares nothing with the package: plain Python, from the definitions in its docs.

With `of=Fraction` all sums, scales and numbers are exact; with `of=float` sums are rounded once (`math.fsum`), and the
last steps are the same float operations as those of the package, so that numbers have to be the same to the last bit.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

MASK = (1 << 64) - 1
SYNDROME_KEY, WORD_KEY = 0x76657374696765, 0x776F7264
MAX_BITS, LONG_BITS, MAX_MORE, POWERS = 49, 64, 24, (2, 3, 5, 9, None, 4, 9, None)
NORMAL, TINY = 1.2533141373155001, 2.0**-1022
Number = Any
"""A float or a fraction."""
Side = Callable[[Sequence[Sequence[float]], Callable[[float], Number]], tuple[list[Number], list[Number], list[Number]]]


def draw(key: int, index: int) -> int:
    """A word of SplitMix64."""
    word = (key + 0x9E3779B97F4A7C15 * (index + 1)) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def draw_uniform(key: int, index: int) -> float:
    return (draw(key, index) >> 11) * 2.0**-53


@cache
def find_column(slot: int, rows: int) -> int:
    """A column of H as an integer, row 0 the lowest bit: random above the diagonal, one on it, nothing below."""
    column = 1 << slot if slot < rows else 0
    for row in range(min(slot, rows)):
        column |= ((draw(SYNDROME_KEY, slot * 1024 + row // 64) >> (63 - row % 64)) & 1) << row
    return column


def read_syndrome(kept: Sequence[int], slots: int, rows: int) -> list[int]:
    """The message of the kept slots: H x mod 2, from the newest slot back, in blocks of at most 1,024 rows."""
    blocks = -(-rows // 1024)
    sums = [0] * blocks
    for slot in kept:
        back = slots - 1 - slot
        block, j = back % blocks, back // blocks
        sums[block] ^= find_column(j, -(-(rows - block) // blocks))
    return [(sums[row % blocks] >> (row // blocks)) & 1 for row in range(rows)]


def measure(
    kept: Sequence[Sequence[float]], of: Callable[[float], Number]
) -> tuple[list[Number], list[Number], list[Number]]:
    """Of each column the first number, the average about it, and its mean absolute deviation times 1.2533."""
    add = math.fsum if of is float else sum
    anchors, centres, scales = [], [], []
    for column in zip(*kept, strict=True):
        apart = [of(number) - of(column[0]) for number in column]
        centre = add(apart) / len(apart)
        anchors.append(of(column[0]))
        centres.append(centre)
        scales.append(of(NORMAL) * add([abs(number - centre) for number in apart]) / len(apart))
    return anchors, centres, scales


def reduce_number(number: Number, span: Number) -> Number:
    """The remainder of a division, with the sign of the number."""
    return math.fmod(number, span) if isinstance(number, float) else number - int(number / span) * span


def find_exponent(ratio: Number, odd: int) -> int:
    """The even or odd exponent of two that is nearest: the one whose octaves on both sides hold the ratio."""
    if isinstance(ratio, float):
        floor = math.frexp(ratio)[1] - 1
    else:
        floor = ratio.numerator.bit_length() - ratio.denominator.bit_length()
        floor -= ratio < Fraction(2) ** floor
    return floor if floor % 2 == odd else floor + 1


class Decoded(NamedTuple):
    """What a word says.

    Attributes:
        numbers: the numbers.
        off: whether they are marked as off.
        spans: the distance of the numbers that a residue stands for; 0 where it is not one.
    """

    numbers: list[Number]
    off: bool
    spans: list[Number]


def read_header(message: Sequence[int]) -> tuple[int, int | None, bool]:
    """The length of the header, the power of four, None for the escape, and whether numbers are off."""
    if not message[0]:
        return 1, 0, False
    if not message[1]:
        return 2, 1, False
    if not message[2]:
        return 3, 0, True
    code = 4 * message[3] + 2 * message[4] + message[5]
    return 6, POWERS[code], code >= 5


def decode_float(word: int, dither: float, bits: int) -> float:
    """The float whose leading bits these are, in the middle of the dithered step."""
    place = (word - dither + 0.5) * 2.0**63 * 2.0**-bits
    whole = int(min(max(place, 0.0), float((0x7FF << 52) - 1024)))
    made: float = struct.unpack("<d", struct.pack("<q", whole))[0]
    return made


def decode_more(number: float, more: Sequence[int], bits: int, dither: float) -> Number:
    """How far a number is from the float that its leading bits say."""
    if not more or number < 2.0**-900:
        return Fraction()
    pattern = struct.unpack("<q", struct.pack("<d", number))[0] + 2 ** (62 - bits)
    modulus, residue = 2 ** len(more), Fraction(int("".join(map(str, more)), 2)) + Fraction(1, 2)
    place = (residue - Fraction(dither) * modulus) % modulus
    place -= modulus * (place > Fraction(modulus, 2))
    return place * Fraction(1.25) * Fraction(2) ** ((pattern >> 52) - 1012 - bits) / modulus


def decode(
    values: Sequence[Sequence[float]],
    kept: Sequence[int],
    slots: int,
    size: int,
    first: int,
    of: Callable[[float], Number] = float,
    side: Side = measure,
    most: int = MAX_BITS,
) -> Decoded:
    """Read a batch of so many slots, of which these are kept; `values` are by slot, `most` is that of the kind."""
    key = draw(draw(WORD_KEY, first), slots)
    rows = min(slots, 6 + most * size)
    message = read_syndrome(kept, slots, rows)
    header, power, off = read_header(message)
    anchors, centres, scales = side([values[slot] for slot in kept], of)
    width = (4.5 + 0.75 * int(math.log2(size))) * math.sqrt(2.0 / rows)
    numbers: list[Number] = []
    spans: list[Number] = []
    floats = [i for i in range(size) if power is None or not scales[i]]
    for i in range(size):
        bits = message[header + i :: size][:MAX_BITS]
        if power is None or not scales[i]:
            word = int("".join(map(str, bits[2:])), 2)
            near = decode_float(word, draw_uniform(key, 2 * i + 1), len(bits) - 2)
            more = message[6 + MAX_BITS * size + floats.index(i) :: len(floats)][:MAX_MORE]
            apart = decode_more(near, more, len(bits) - 2, draw_uniform(key, 2 * (size + i) + 1))
            number = (of(near) + of(apart)) * (-1 if bits[1] else 1)
            if not bits[0]:  # about the first record
                centre = of(0) if power is None else centres[i]
                number = anchors[i] + (centre if abs(number) < TINY else number)
            numbers.append(number)
            spans.append(of(0))
            continue
        factor = 1.0 + math.floor(64 * (2.0 ** (((draw(key, 2 * i) >> 58) + 0.5) / 64) - 1.0)) / 64
        top = len(bits) - 1
        modulus = of(2.0**top)
        residue = of(int("".join(map(str, bits[1:])), 2))
        dither = of(draw_uniform(key, 2 * i + 1)) * modulus
        exponent = find_exponent(scales[i] / of(factor), bits[0])
        step = of(width * factor) * of(2) ** (exponent + 2 * power - top)
        base = reduce_number(anchors[i], modulus * step)
        turns = round(((base + centres[i]) / step + dither - of(0.5) - residue) / modulus)
        numbers.append(anchors[i] + ((residue - dither + of(0.5) + turns * modulus) * step - base))
        spans.append(modulus * step)
    return Decoded(numbers, off, spans)


def decode_fixed(kept: Sequence[int], slots: int, size: int, first: int, limit: float) -> tuple[list[float], bool]:
    """Read numbers between public limits, to the nearest float."""
    key = draw(draw(WORD_KEY, first), slots)
    message = read_syndrome(kept, slots, min(slots, 2 + MAX_BITS * size))
    assert message[0], "a word is never empty"
    numbers = []
    for i in range(size):
        bits = message[2 + i :: size][:MAX_BITS]
        place = (int("".join(map(str, bits)), 2) + Fraction(1, 2)) / 2 ** len(bits)
        numbers.append(float((2 * ((place - Fraction(draw_uniform(key, 2 * i + 1))) % 1) - 1) * Fraction(limit)))
    return numbers, bool(message[1])
