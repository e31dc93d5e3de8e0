"""Real numbers as fixed-point integers, so that sums are exact.

A sum of n doubles rounds at every step, which would hide residuals of 1e-15. So the difference of each number and the
target is rounded once, to a multiple of 2^-s, with s as large as possible such that every subset sum fits into 61 bits;
all later arithmetic is exact. The difference itself is split into its rounded value and the rounding error (two-sum:
Knuth, The Art of Computer Programming, volume 2, section 4.2.2), and both parts are scaled.
Guarantee: the error of each number is at most one unit, 2^-59 of the sum of all magnitudes; held by
tests/subset/test_subset.py in exact rational arithmetic.
"""

from __future__ import annotations

import math

import numpy as np

from vestige._numba import kernel
from vestige.types import Floats, Ints

_BITS = 60
_LARGEST_SCALE = 1000


@kernel
def to_fixed(values: Floats, target: float) -> tuple[Ints, float]:
    """Return `values` less `target` in fixed point.

    Args:
        values: the numbers; shape (n,).
        target: the number to subtract.

    Returns:
        The differences as multiples of a unit, shape (n,), and that unit.
    """
    n = len(values)
    total = 0.0
    for i in range(n):
        total += abs(values[i] - target)
    if total == 0.0:
        return np.zeros(n, np.int64), 1.0
    exponent = min(_LARGEST_SCALE, _BITS - math.frexp(total)[1])
    fixed = np.empty(n, np.int64)
    for i in range(n):
        difference = values[i] - target
        back = difference - values[i]
        lost = (values[i] - (difference - back)) + (-target - back)
        fixed[i] = np.int64(np.rint(math.ldexp(difference, exponent))) + np.int64(np.rint(math.ldexp(lost, exponent)))
    return fixed, math.ldexp(1.0, -exponent)
