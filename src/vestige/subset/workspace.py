"""The arrays that a search works on, made once for many problems, so that a stream allocates nothing per batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.types import Bools, Floats, Ints

LISTED = 9
"""So many free numbers have the sums of all their subsets listed; the sums of the others are paired with that list."""
PAIRED = 15
"""At most so many free numbers are paired with the list."""
CELLS = 1 << 15
"""At most so many cells, a bit each, say where the listed sums are; that fits the first-level cache with all else."""
_HALF = (PAIRED + 1) // 2
_BLOCK = 64
"""Up to so many keys, each is compared with all."""


class Workspace(NamedTuple):
    """Work space for problems of up to n numbers.

    Attributes:
        values: the numbers to choose from; (n,).
        places: where they come from; (n,).
        chosen: which of them are chosen; (n,).
        spelled: the same records as presence bits; (n,).
        offsets: the numbers less the target; (n,).
        order: what sorts them; (n,).
        spare: for sorting; (n,).
        free: the chosen numbers, as indices; (LISTED + PAIRED,).
        sums: the sums of all subsets of the listed ones; (2^LISTED,).
        subsets: which subset each slot of the table holds; (2^LISTED,).
        starts: where each bucket of the table starts; (2^LISTED + 1,).
        marks: bits that say where listed sums are; (CELLS / 64 + 1,).
        low: the sums of all subsets of the first half of the paired ones; (2^8,).
        high: those of the second half; (2^8,).
        steps: lattice positions in increasing order; (n,).
        totals: their running sums, from 0; (n + 1,).
        bounds: for each count how near an average of so many could be; (n,).
        ranks: the counts less one, by their bounds; (n,).
        inside: which of the sorted numbers are chosen; (n,).
    """

    values: Floats
    places: Ints
    chosen: Bools
    spelled: Bools
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
    """A desk for problems of up to `n` numbers."""
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
def sort_order(keys: Floats, n: int, order: Ints, spare: Ints) -> None:
    """Write into `order` what sorts the first `n` keys, stable.

    In blocks the keys below each are counted, several at a time and without a branch; the blocks are merged, bottom up.
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
