"""Sums of clipped records on a fine grid, with noise: what a private average is made of.

Steps 1 to 3 of the proof in docs/privacy.md: each record is shortened to the bound, or cut off at bounds, and rounded
to the grid; whole batches are summed exactly, and noise is added to the sums before anything else sees them.
Guarantee: no record moves the sums by more than the bound, in whole numbers; held by tests/policies/test_private.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.noise.kernels import draw_discrete_gaussian
from vestige.statistics.kernels import find_clip_factor
from vestige.types import Bools, Floats, Ints, Words


@kernel
def sum_on_grid(atoms: Floats, present: Bools, bound: float, steps: int, sums: Ints) -> int:
    """Write into `sums` the exact sums of atoms in steps of `bound / steps`, each of length `steps` at most, exactly.

    An atom is shortened to length `bound` if it is longer, then rounded to the grid, then moved towards zero by a step
    in each coordinate until its length is allowed in whole numbers too. Returns how many there were.
    """
    n, size = atoms.shape
    rounded = np.empty(size, np.int64)
    sums[:] = 0
    count = 0
    for j in range(n):
        if not present[j]:
            continue
        count += 1
        factor = find_clip_factor(atoms[j], bound)
        length = 0
        for i in range(size):
            rounded[i] = np.int64(np.rint(atoms[j, i] * factor / bound * steps))
            length += rounded[i] * rounded[i]
        while length > steps * steps:
            length = 0
            for i in range(size):
                rounded[i] -= np.sign(rounded[i])
                length += rounded[i] * rounded[i]
        for i in range(size):
            sums[i] += rounded[i]
    return count


@kernel
def sum_in_limits(atoms: Floats, present: Bools, lows: Ints, highs: Ints, sums: Ints) -> int:
    """Write into `sums` the exact sums of atoms in steps, each rounded, then moved into its whole limits.

    Returns how many records there were.
    """
    n, size = atoms.shape
    sums[:] = 0
    count = 0
    for j in range(n):
        if not present[j]:
            continue
        count += 1
        for i in range(size):
            sums[i] += min(max(np.int64(np.rint(atoms[j, i])), lows[i]), highs[i])
    return count


@kernel
def average_with_noise(
    sums: Ints,
    count: int,
    before: Floats,
    share: float,
    step: float,
    deviation: int,
    words: Words,
    at: Ints,
    target: Floats,
) -> bool:
    """Write into `target` the running averages after one batch, to whose sums noise is added.

    Each record is summed once, and the sums meet nothing before their noise. The result is all noised sums so far over
    the number of records in them, so that the noise of each counts alike.

    Args:
        sums: the exact sums of the batch, in steps; shape (size,).
        count: the number of records in it.
        before: the running averages before it; shape (size,).
        share: what the batch counts among all records so far; 1 if there is nothing before it.
        step: the step of the grid.
        deviation: the standard deviation of the noise, in steps.
        words: the coins of the batch, the first of which is left for its writing; shape (words,).
        at: to count the words that are used; shape (1,).
        target: shape (size,).

    Returns:
        whether the coins were enough; if not, the result may not be used.
    """
    at[0] = 1
    for i in range(len(sums)):
        noised = sums[i] + draw_discrete_gaussian(np.uint64(deviation), words, at)
        average = noised / count * step
        target[i] = average if share >= 1.0 else before[i] + share * (average - before[i])
    return bool(at[0] <= len(words))
