"""A number as a few bits: the residue of it that the kept records do not say, or the number itself.

Coding with side information at the decoder (Wyner and Ziv 1976, https://doi.org/10.1109/TIT.1976.1055508). The reader
knows roughly where the number is, from the average of what the kept records say of it, and how precise that is, from
their mean absolute deviation. So only the residue modulo a multiple of that scale is written, after a bit that says
whether the exponent of the scale is odd: then the exponent is the same although the scale depends a little on the
choice of records. Apart from that bit, nothing is spent on the sign, the exponent or the mean, and the error is the
same in all units. A dither from the public clock, over the whole modulus, makes rounding unbiased (Schuchman 1964,
https://doi.org/10.1109/TCOM.1964.1088973).
All of this is about the first kept record, the anchor: differences from it are exact far from zero, its remainder
modulo the range of residues is exact too, and a number is the sum of two floats.
If the kept records are all alike there is no scale: then the bits are the leading ones of a float64, of how far the
number is from their common value. What these leave open is a residue again, where a word has bits for it.
Guarantee: errors have mean 0, up to 2^-6 of a step in words of 48 bits a number, since the dither itself has 53 bits;
they do not depend on units; held by tests/channels/test_word.py.
"""

from __future__ import annotations

import math

import numpy as np

from vestige._numba import inner_kernel, kernel
from vestige.channels.layout import OPEN
from vestige.random.kernels import draw, draw_uniform
from vestige.types import Bools, Floats, Ints

NORMAL = 1.2533141373155001
"""The standard deviation of a normal variable over its mean absolute deviation."""
ALIKE = -np.inf
"""In place of an exponent where kept records are all alike."""
_WOBBLE = 2.0**-40
"""Side information may be off by this share of itself without changing what is read."""
ALIKE_SHARE = 2.0**-36
"""Records are alike if they vary by no more than this share of the one that is farthest from the anchor."""
_CLEAR = 2.0**-8
"""It is not clear whether records are alike if their deviation is this near the limit, as a share of the limit.

The rounding error of adding them up is far smaller."""
_PATTERN = 2.0**63
_INFINITE = 0x7FF << 52
LEAST_OPEN = 2.0**-900
"""Floats below this are not said more finely, since the steps would underflow."""
_FACTOR_BITS = 6
_FACTORS = 1.0 + np.floor(64.0 * (2.0 ** ((np.arange(64) + 0.5) / 64.0) - 1.0)) / 64.0
"""Numbers from 1 to 2, evenly spaced in their logarithms, as float64 tells them apart."""


@kernel
def _floor(number: float) -> np.float64:
    """Round down; unlike `math.floor`, the result is a float."""
    return np.float64(np.floor(number))


@kernel
def _round(number: float) -> np.float64:
    """Round to the nearest whole number, halves to even; unlike `round`, the result is a float."""
    return np.float64(np.rint(number))


@kernel
def _find_remainder(number: float, span: float) -> np.float64:
    """Find the remainder of a division, with the sign of the number: exact, as that of C."""
    return np.float64(np.fmod(number, span))


@kernel
def _to_bits(number: float) -> np.int64:
    """Give the bits of a float64 as a whole number."""
    return np.float64(number).view(np.int64)


@kernel
def _to_number(bits: np.int64) -> np.float64:
    """Give the float64 with these bits."""
    return np.int64(bits).view(np.float64)


@inner_kernel
def measure(
    atoms: Floats,
    present: Bools,
    columns: int,
    anchored: bool,
    places: Ints,
    anchors: Floats,
    centres: Floats,
    scales: Floats,
) -> bool:
    """Write the average of the present atoms in each of the first columns, and their standard deviation if normal.

    A scale is 0 if all are alike, up to what adding them up rounds off. If none is present, nothing is written.

    Args:
        atoms: by slot; shape (slots, columns or more).
        present: which slots count; shape (slots,).
        columns: the number of columns.
        anchored: whether averages are about the first atom that is present; else they are about zero.
        places: to compute with; shape (slots,).
        anchors: output, what they are about; shape (columns,).
        centres: output, the averages about the anchors; shape (columns,).
        scales: output; shape (columns,).

    Returns:
        whether it is clear which of them are alike, whatever adding them up rounds off.
    """
    clear, count = True, 0
    for j in range(len(present)):
        places[count] = j
        count += present[j]
    if count == 0:
        return clear
    for i in range(columns):
        first = atoms[places[0], i]
        anchor = first if anchored else 0.0
        total, largest, apart = 0.0, 0.0, 0.0
        for k in range(count):
            total += atoms[places[k], i] - first
            largest = max(largest, abs(atoms[places[k], i] - anchor))
        centre = total / count
        for k in range(count):
            apart += abs((atoms[places[k], i] - first) - centre)
        anchors[i], centres[i] = anchor, (first - anchor) + centre
        scales[i], border = NORMAL * apart / count, ALIKE_SHARE * largest
        clear &= scales[i] == 0.0 or abs(scales[i] - border) > _CLEAR * border
        if scales[i] <= border or not math.isfinite(scales[i]):
            scales[i] = 0.0
    return clear


@kernel
def reduce_number(number: float, span: float) -> float:
    """Reduce a number modulo the range of residues, without rounding."""
    return _find_remainder(number, span) if abs(number) >= span else number


@kernel
def find_factor(key: np.uint64, i: int) -> float:
    """Find the public factor from 1 to 2 that scales are multiples of, so that no unit is better than another."""
    return float(_FACTORS[draw(key, 2 * i) >> np.uint64(64 - _FACTOR_BITS)])


@kernel
def find_exponent(scale: float, factor: float) -> float:
    """Find the exponent of a scale: that of the nearest power of two times the factor."""
    return float(_round(math.log2(scale / factor))) if scale > 0.0 else ALIKE


@kernel
def find_step(exponent: float, factor: float, width: float, power: int, bits: int) -> float:
    """Find the step of residues of so many bits: their range is `width` scales, times four for each power."""
    return math.ldexp(width * factor, int(exponent) + 2 * power - bits)


@kernel
def find_dither(key: np.uint64, i: int, bits: int) -> float:
    """Find the public dither of a number, in steps."""
    return draw_uniform(key, 2 * i + 1) * float(1 << bits)


@kernel
def choose_residue(number: float, step: float, dither: float, lost: int, offset: int) -> tuple[float, bool]:
    """Choose a residue, as a whole number that is not reduced yet, of which the lowest `lost` bits cannot be chosen.

    These only add, so the others are rounded down. The offset counts the nearest choice as 0, the next as 1, and so on.

    Args:
        number: the number to write.
        step: see `find_step`.
        dither: see `find_dither`.
        lost: the number of bits that cannot be chosen.
        offset: which choice.

    Returns:
        the residue without its lost bits; and whether it is a finite number of steps.
    """
    unit = float(1 << lost)
    place, shift = number / step / unit, dither / unit
    whole = _floor(place) + _floor(shift)
    # fractions are added on their own: where a step is as fine as float64, a sum of all would be rounded to the nearest
    rest = (place - _floor(place)) + (shift - _floor(shift))
    whole += _floor(rest)
    towards = -1.0 if rest - _floor(rest) < 0.5 else 1.0
    if offset % 2 == 0:
        towards = -towards
    return (whole + towards * ((offset + 1) // 2)) * unit, abs(place) < 2.0**100


@kernel
def find_nearest(residue: float, step: float, dither: float, bits: int, centre: float) -> tuple[float, float]:
    """Find the number with this residue that is nearest to the centre.

    Args:
        residue: as a whole number of steps.
        step: see `find_step`.
        dither: see `find_dither`.
        bits: the number of bits of the residue.
        centre: of what the kept records say.

    Returns:
        the number; and how near the centre is to being between two of them, 0.5 if it is.
    """
    modulus = float(1 << bits)
    apart = (centre / step + dither - 0.5 - residue) / modulus
    turns = _round(apart)
    return (residue - dither + 0.5 + turns * modulus) * step, abs(apart - turns)


@kernel
def is_steady(apart: float, rise: float, scale: float, centre: float, span: float) -> bool:
    """Tell whether a number is read alike if its side information is off a little.

    Args:
        apart: see `find_nearest`.
        rise: see `choose_exponent`.
        scale: of the kept records.
        centre: of the kept records.
        span: the modulus of the residue, in units of the number.

    Returns:
        whether it is.
    """
    wobble = _WOBBLE * (abs(centre) + scale)
    return apart + wobble / span < 0.5 - _WOBBLE and rise + 2.0 * wobble / scale < 1.0 - _WOBBLE


@kernel
def choose_exponent(scale: float, factor: float, is_odd: bool) -> tuple[float, float]:
    """Choose the even or the odd exponent that is nearest to the logarithm of a scale.

    Args:
        scale: of the kept records.
        factor: see `find_factor`.
        is_odd: whether the exponent is odd.

    Returns:
        the exponent; and its distance from the logarithm, 1 if the next one of the same parity is as near.
    """
    odd, exact = 1.0 if is_odd else 0.0, math.log2(scale / factor)
    exponent = odd + 2.0 * _round((exact - odd) / 2.0)
    return exponent, abs(exact - exponent)


@kernel
def encode_pattern(number: float, dither: float, bits: int, lost: int, offset: int) -> int:
    """Encode the magnitude of a number in the leading bits of its float64, the lowest `lost` of them zero.

    The offset counts the nearest choice as 0, the next as 1, and so on.
    """
    unit = _PATTERN * 2.0 ** (lost - bits)
    place = (np.float64(_to_bits(abs(number))) + dither * _PATTERN * 2.0**-bits) / unit
    whole = _floor(place)
    towards = -1.0 if place - whole < 0.5 else 1.0
    if offset % 2 == 0:
        towards = -towards
    whole += towards * ((offset + 1) // 2)
    return int(min(max(whole, 0.0), 2.0 ** (bits - lost) - 1.0)) << lost


@kernel
def decode_pattern(pattern: int, dither: float, bits: int) -> float:
    """Decode what `encode_pattern` gives; zero below the smallest number."""
    place = (pattern - dither + 0.5) * _PATTERN * 2.0**-bits
    whole = np.int64(min(max(place, 0.0), np.float64(_INFINITE - 1024)))
    return float(_to_number(whole))


@kernel
def find_open_step(number: float, bits: int, more: int) -> float:
    """Find the step of a residue of so many bits that says what a float of so many leading bits leaves open."""
    last_place = (_to_bits(number) + (1 << (62 - bits))) >> 52  # its exponent at the upper end of what rounds to it
    return math.ldexp(OPEN, int(last_place) - 1012 - bits - more)


@kernel
def encode_more(apart: float, step: float, dither: float, more: int, lost: int, offset: int) -> int:
    """Encode how far a number is from the float that its leading bits say; see `choose_residue`."""
    modulus = float(1 << more)
    whole, _ = choose_residue(apart, step, dither, lost, offset)
    return int(whole - math.floor(whole / modulus) * modulus)


@kernel
def decode_more(residue: int, step: float, dither: float, more: int) -> float:
    """Decode what `encode_more` gives."""
    return find_nearest(np.float64(residue), step, dither, more, 0.0)[0]


@kernel
def encode_place(number: float, limit: float, dither: float, bits: int) -> int:
    """Encode where a number lies between -limit and limit in so many bits, moved by a dither that goes around."""
    step = math.ldexp(1.0, -bits)
    place = min(max((number / limit + 1.0) / 2.0, step), 1.0 - step) + dither  # no rounding leads beyond the end
    return int((place - _floor(place)) / step)


@kernel
def decode_place(place: int, limit: float, dither: float, bits: int) -> float:
    """Decode what `encode_place` gives: the middle of the numbers that have these bits."""
    share = math.ldexp(place + 0.5, -bits) - dither
    return (2.0 * (share - _floor(share)) - 1.0) * limit
