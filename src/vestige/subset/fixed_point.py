"""Real numbers as whole ones, so that sums lose nothing.

A sum of n doubles rounds at every step; residuals of 1e-15 would drown in that. So each number less the target is
rounded once, to a multiple of 2^-s, with s as large as lets every subset sum fit into 61 bits; from there on all
arithmetic is exact. The difference itself is split into its rounded value and what rounding lost (Knuth's two-sum), and
both parts are scaled.
Guarantee: each number is off by at most one unit, 2^-59 of the sum of all magnitudes; held by
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
    """`values` less `target` as whole multiples of a unit, and that unit."""
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
