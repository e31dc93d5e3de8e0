"""The subset whose average is nearest a target, in any dimension, by looking at every subset.

This is the search of Algorithm 1 of Immorlica et al. (2024), as published. It takes time 2^n; ties go to the subset
with fewer records.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.random.kernels import ones
from vestige.types import Floats

_LOW = 12


@kernel
def _sums(offsets: Floats) -> Floats:
    """All 2^n subset sums of the rows of `offsets`; row `mask` of the result is the sum of the subset `mask`."""
    n, dim = offsets.shape
    sums = np.zeros((1 << n, dim))
    for j in range(n):
        for mask in range(1 << j):
            for i in range(dim):
                sums[mask + (1 << j), i] = sums[mask, i] + offsets[j, i]
    return sums


@kernel
def exhaustive(offsets: Floats, base: Floats, counted: int) -> np.uint64:
    """The subset of the rows of `offsets`, as a bit mask, whose average is nearest zero in l2.

    `base` is the sum of `counted` rows that must be in; without any, the subset is nonempty.
    """
    n, dim = offsets.shape
    low = min(n, _LOW)
    low_sums, high_sums = _sums(offsets[:low]), _sums(offsets[low:])
    best, best_mask, best_count = np.inf, np.uint64(0), counted + n + 1
    for high in range(len(high_sums)):
        for rest in range(len(low_sums)):
            mask = np.uint64(rest) | (np.uint64(high) << np.uint64(low))
            count = counted + ones(mask)
            if count == 0:
                continue
            square = 0.0
            for i in range(dim):
                square += ((base[i] + high_sums[high, i] + low_sums[rest, i]) / count) ** 2
            if square < best or (square == best and count < best_count):
                best, best_mask, best_count = square, mask, count
    return best_mask
