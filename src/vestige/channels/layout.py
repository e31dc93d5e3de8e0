"""How many bits a word has and needs; plain numbers, so that nothing has to be compiled to know them.

Guarantee: the same in the kernels; held by tests/channels/test_word.py.
"""

from __future__ import annotations

import math

MAX_ROWS = 1_024
"""The most rows of a block of a message."""
LONG_HEADER = 6
"""The bits of the longest header of a word."""
MAX_BITS = 49
"""The most bits of a residue: more than float64 can tell apart."""
LONG_BITS = 64
"""As many bits a word of the longer kind has for each number: floats share those that residues do not take."""
MAX_MORE = 24
"""The most bits that a float takes of those."""
OPEN = 1.25
"""The range of the residue that they are, in units of the float's last place; it leaves half of one open on both sides.

The quarter is for what float64 rounds off the place, and for residues of few bits."""
_SIGN_AND_EXPONENT = 12
MIN_BITS = 16
"""The fewest bits of a number that say any float64, with a few bits of its mantissa."""


def find_min_rows(size: int) -> int:
    """Find the fewest bits with which a word says any numbers.

    Args:
        size: the number of numbers.

    Returns:
        the number of bits, one for each record.

    Example:
        >>> find_min_rows(1)
        22
    """
    return LONG_HEADER + MIN_BITS * size


def find_width(size: int, rows: int) -> float:
    """Find the range of a residue, in standard deviations of a record.

    It is some standard errors of the kept records' average, about half of them being kept, and more for many numbers.

    Args:
        size: the number of numbers.
        rows: the number of bits of the word.

    Returns:
        the range.

    Example:
        >>> round(find_width(1, 22), 3)
        1.357
    """
    return (4.5 + 0.75 * (size.bit_length() - 1)) * math.sqrt(2.0 / rows)


def find_precision(slots: int, size: int) -> float:
    """Find the root mean square error of one writing, in standard deviations of a record, where no record is wet.

    A scale is between 1 / sqrt(2) and sqrt(2) of the deviation, uniformly in its logarithm, and a residue is rounded to
    a whole number.

    Args:
        slots: the number of records of the batch.
        size: the number of numbers.

    Returns:
        the error.

    Example:
        >>> find_precision(22, 1) < 1e-6
        True
    """
    rows = min(slots, LONG_HEADER + MAX_BITS * size)
    bits = min(MAX_BITS, (rows - 1) // size) - 1
    return find_width(size, rows) * 2.0**-bits * math.sqrt(1.5 / (2.0 * math.log(2.0)) / 12.0)


def find_relative_precision(slots: int, size: int) -> float:
    """Find the root mean square error of one writing of numbers that records say nothing of, relative to them.

    It is that of words of the longer kind in which all numbers are floats.

    Args:
        slots: the number of records of the batch.
        size: the number of numbers.

    Returns:
        the error.

    Example:
        >>> find_relative_precision(55, 1) < 1e-11, find_relative_precision(64, 1) < 1e-13
        (True, True)
    """
    rows = min(slots, LONG_HEADER + LONG_BITS * size)
    more = min(MAX_MORE, max(0, (rows - LONG_HEADER) // size - MAX_BITS))
    bits = min(MAX_BITS, (rows - 1) // size) + more
    return 2.0 ** (_SIGN_AND_EXPONENT + 1 - bits) / math.sqrt(12.0) * (OPEN if more else 1.0)
