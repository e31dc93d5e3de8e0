"""The arrays that a search works on, allocated once for many problems, so that a stream allocates nothing per batch.

Guarantee: a workspace carries nothing from one problem to the next; held by tests/subset/test_subset.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.types import Bools, Floats, Ints

LISTED = 9
"""Number of free numbers whose subset sums are listed; the sums of the others are paired with that list."""
PAIRED = 15
"""Largest number of free numbers whose subset sums are paired with the list."""
CELLS = 1 << 15
"""Largest number of cells, one bit each, that mark the listed sums; with all else they fit the first-level cache."""
_HALF = (PAIRED + 1) // 2
_BLOCK = 64
"""Number of keys in a block, within which each key is compared with all others."""


class Workspace(NamedTuple):
    """Work space for problems of up to n numbers.

    Attributes:
        values: the numbers to choose from; (n,).
        places: indices that they come from; (n,).
        chosen: which of them are chosen; (n,).
        presence: the same choice as presence bits; (n,).
        offsets: the numbers less the target; (n,).
        order: indices that sort them; (n,).
        spare: scratch space for sorting; (n,).
        free: indices of the free numbers; (LISTED + PAIRED,).
        sums: sums of all subsets of the listed numbers; (2^LISTED,).
        subsets: which subset each slot of the table holds; (2^LISTED,).
        starts: first slot of each bucket of the table; (2^LISTED + 1,).
        marks: bits that tell which cells contain a listed sum; (CELLS / 64 + 1,).
        low: sums of all subsets of the first half of the paired numbers; (2^8,).
        high: sums of all subsets of the second half; (2^8,).
        steps: lattice positions in increasing order; (n,).
        totals: their running sums, from 0; (n + 1,).
        bounds: for each count, a lower bound on the residual of an average of that many; (n,).
        ranks: the counts less one, ordered by their bounds; (n,).
        inside: which of the sorted numbers are chosen; (n,).
    """

    values: Floats
    places: Ints
    chosen: Bools
    presence: Bools
    offsets: Floats
    order: Ints
    spare: Ints
    free: Ints
    sums: Floats
    subsets: NDArray[np.uint32]
    starts: NDArray[np.int32]
    marks: NDArray[np.uint64]
    low: Floats
    high: Floats
    steps: Ints
    totals: Ints
    bounds: Floats
    ranks: Ints
    inside: Bools


@kernel
def make_workspace(n: int) -> Workspace:
    """Return a workspace for problems of up to `n` numbers."""
    size = 1 << LISTED
    return Workspace(
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.bool_),
        np.empty(n, np.bool_),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(LISTED + PAIRED, np.int64),
        np.empty(size),
        np.empty(size, np.uint32),
        np.empty(size + 1, np.int32),
        np.empty(CELLS // 64 + 1, np.uint64),
        np.empty(1 << _HALF),
        np.empty(1 << _HALF),
        np.empty(n, np.int64),
        np.empty(n + 1, np.int64),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.bool_),
    )


@kernel
def write_sort_order(keys: Floats, n: int, order: Ints, spare: Ints) -> None:
    """Write into `order` the indices that sort the first `n` keys, stably.

    Within blocks, the smaller keys are counted for each key, without branches and several at a time; the blocks are
    merged bottom up.
    """
    for begin in range(0, n, _BLOCK):
        block = keys[begin : min(begin + _BLOCK, n)]
        for i in range(len(block)):
            below = 0
            for j in range(len(block)):
                below += (block[j] < block[i]) | ((block[j] == block[i]) & (j < i))
            order[begin + below] = begin + i
    width = _BLOCK
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            a, b = start, middle
            for k in range(start, stop):
                if b >= stop or (a < middle and keys[order[a]] <= keys[order[b]]):
                    spare[k] = order[a]
                    a += 1
                else:
                    spare[k] = order[b]
                    b += 1
        for i in range(n):
            order[i] = spare[i]
        width *= 2
