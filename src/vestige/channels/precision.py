"""How finely presence bits hold a number, and how rounding adds up from update to update.

A number that is rounded without bias to a step of 2^-bits of itself is off by half a step at most, as a root mean
square. The next update carries that on in the share that the earlier records have in all, and rounds again. All of it
follows from lengths and from which records could be kept, never from values.
Guarantee: errors of streams stay within it; held by tests/policies/test_rounding.py.
"""

from __future__ import annotations

import math

_CONTROLS, _SIGN_AND_EXPONENT, _LEAST_MANTISSA = 5, 12, 11
MIN_BATCH = _CONTROLS + _SIGN_AND_EXPONENT + _LEAST_MANTISSA
"""The fewest records whose presence can spell any number."""


def mantissa_bits(length: int) -> int:
    """Count the bits of the mantissa that the presence of `length` records holds.

    Args:
        length: the number of records that spell one number.

    Returns:
        the number of bits, at most 52.

    Example:
        >>> mantissa_bits(28), mantissa_bits(100)
        (11, 52)
    """
    return min(length - _CONTROLS - _SIGN_AND_EXPONENT, 52)


def add_rounding(before: float, carried: float, bits: int) -> float:
    """Add the rounding of one more update.

    Args:
        before: the rounding up to then, relative to the number.
        carried: the share that the number before has in the one that is written.
        bits: the number of bits of the mantissa that are written.

    Returns:
        the rounding after it, relative to the number, as a root mean square.

    Example:
        >>> add_rounding(0.0, 0.0, 10) == 2.0**-11
        True
    """
    return math.hypot(carried * before, 2.0 ** -(bits + 1))
