"""How far numbers in presence bits may be off by now: each word rounds, and later batches carry it on in part.

A number that is rounded without bias to a step of 2^-bits of itself is off by half a step at most, as a root mean
square. The next update carries that on in the share that the records before it have in all, and rounds again. All of it
follows from lengths and from which records could be kept, never from values.
Guarantee: errors of streams stay within it; held by tests/policies/test_rounding.py.
"""

from __future__ import annotations

import math

from vestige.channels import mantissa_bits
from vestige.types import Bools


def add_rounding(before: float, carried: float, bits: int) -> float:
    """The rounding, relative to the number, after a word with so many bits of the mantissa.

    Args:
        before: the rounding up to then.
        carried: the share that the number before has in the one that is written.
        bits: how many bits of the mantissa are written.

    >>> add_rounding(0.0, 0.0, 10) == 2.0**-11
    True
    """
    return math.hypot(carried * before, 2.0 ** -(bits + 1))


def said_bits(can: Bools, words: int) -> int:
    """How many bits of the mantissa each of `words` numbers keeps, if just these records `can` be kept."""
    from vestige.channels.kernels import count_mantissa  # noqa: PLC0415

    return mantissa_bits(len(can) // words) if can.all() else int(count_mantissa(can, words))
