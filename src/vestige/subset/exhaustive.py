"""The subset whose average is nearest a target, in any dimension, by trying every subset.

This is the search of Algorithm 1 of Immorlica et al. (2024, https://doi.org/10.48550/arXiv.2404.10997), as published.
It takes time 2^n; ties go to the subset with fewer records.
Guarantee: the nearest average of all nonempty subsets; held by tests/subset/test_subset.py against rational arithmetic.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.subset.bits import count_ones
from vestige.types import Floats

_LOW = 12


@kernel
def _list_sums(offsets: Floats) -> Floats:
    """Return all 2^n subset sums of the rows of `offsets`; row `mask` of the result is the sum of the subset `mask`."""
    n, dim = offsets.shape
    sums = np.zeros((1 << n, dim))
    for j in range(n):
        for mask in range(1 << j):
            for i in range(dim):
                sums[mask + (1 << j), i] = sums[mask, i] + offsets[j, i]
    return sums


@kernel
def search_all_subsets(offsets: Floats, base: Floats, forced_count: int) -> np.uint64:
    """Return the subset of rows, as a bit mask, whose average is nearest zero in l2.

    Args:
        offsets: the rows to choose from; shape (n, dim).
        base: sum of the rows that must be in the subset; shape (dim,).
        forced_count: number of rows that must be in the subset; if it is 0, the result is nonempty.

    Returns:
        The bit mask over the rows.
    """
    n, dim = offsets.shape
    low = min(n, _LOW)
    low_sums, high_sums = _list_sums(offsets[:low]), _list_sums(offsets[low:])
    best, best_mask, best_count = np.inf, np.uint64(0), forced_count + n + 1
    for high in range(len(high_sums)):
        for rest in range(len(low_sums)):
            mask = np.uint64(rest) | (np.uint64(high) << np.uint64(low))
            count = forced_count + count_ones(mask)
            if count == 0:
                continue
            square = 0.0
            for i in range(dim):
                square += ((base[i] + high_sums[high, i] + low_sums[rest, i]) / count) ** 2
            if square < best or (square == best and count < best_count):
                best, best_mask, best_count = square, mask, count
    return best_mask
