"""Many batches in one kernel, of which a single update is the case of one batch: one algorithm, not two.

For each batch: read the estimate off the kept records, move it by the batch, keep the records that say the result.
Only the last batch's choice comes out; those before it have been replaced. `advance` writes averages of the values by
any channel; `advance_noised` writes noised averages of clipped atoms in presence bits (see `vestige.policies.private`).
Guarantee: extending by an array gives the same state as pushing one by one; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vestige._numba import kernel
from vestige.channels.kernels import TELLING, read_batch, read_kept, spell_batch, write_batch
from vestige.noise.kernels import discrete_gaussian
from vestige.random.kernels import uniform
from vestige.statistics.kernels import (
    bearable,
    deviation_about,
    move,
    share_of,
    shortening,
    tolerance,
    weights_of,
)
from vestige.subset.workspace import make_workspace
from vestige.types import Bools, Floats, Ints, Words


@kernel
def advance(
    atoms: Floats,
    present: Bools,
    can: Bools,
    kept: Ints,
    kept_atoms: Floats,
    first: int,
    last: int,
    encoded: int,
    decay: float,
    allowed: float,
    keys: NDArray[np.uint64],
    mode: int,
    keep: Bools,
) -> bool:
    """Write into `keep` which records of the last batch to keep; False if what was known before is lost.

    What an update misses its target by is harmless while it is within `bearable`. Beyond that the records kept say that
    it may be off, from then on. The deviation is taken about the target, because records that come in order are alike
    within a batch.

    Args:
        atoms: the batches, one after the other, each as long; shape (batches * length, size).
        present: which rounds have a record; shape (batches * length,).
        can: which of the records may be kept; shape (batches * length,).
        kept: the rounds of the records kept before; shape (n,).
        kept_atoms: their atoms; shape (n, size).
        first: the first round of the batch that these belong to.
        last: its last round.
        encoded: how many records it speaks for; 0 if there is none.
        decay: what is left of a record's weight after each that follows; 1 if all count alike.
        allowed: how far from its target an average may be, as a share of its standard error.
        keys: the coins of each batch; shape (batches,).
        mode: how it is written, see `vestige.channels.kernels`.
        keep: which of the last `length` records to keep; shape (length,).
    """
    length, size = len(atoms) // len(keys), atoms.shape[1]
    estimate, off = np.full(size, np.nan), np.zeros(size, np.bool_)
    if encoded:
        estimate, off = read_kept(kept, kept_atoms, first, last - first + 1, mode)
        if np.isnan(estimate).any():
            return False
    target, spread, near, far = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    workspace = make_workspace(length)
    for k in range(len(keys)):
        here = slice(k * length, (k + 1) * length)
        weights, count = weights_of(present[here], decay), present[here].sum()
        encoded += count
        share = share_of(count, encoded, decay)
        move(estimate, atoms[here], present[here], weights, share, target, spread)
        for i in range(size):
            near[i] = tolerance(allowed, spread[i], count, share, target[i])
            about = deviation_about(target[i], atoms[here, i], present[here], weights)
            coin = uniform(keys[k] + np.uint64(i), TELLING)
            far[i] = max(bearable(about, count, share, target[i], coin), near[i])
        write_batch(atoms[here], can[here], target, near, far, off, keys[k], mode, workspace, keep)
        if k + 1 < len(keys):
            read_batch(atoms[here], keep, mode, estimate, off)
    return True


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
        factor = shortening(atoms[j], bound)
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
def advance_noised(
    atoms: Floats,
    present: Bools,
    can: Bools,
    estimate: Floats,
    encoded: int,
    bound: float,
    steps: int,
    deviation: int,
    words: Words,
    keep: Bools,
) -> bool:
    """Mark in `keep` the records of the last of several batches to keep, where every batch's sums get noise.

    The estimate is read off presence, each record is summed once, and the sums meet nothing before their noise. What is
    written is all noised sums so far over the number of records in them, so that the noise of each counts alike.

    Args:
        atoms: the batches, one after the other, each as long; shape (batches * length, size).
        present: which rounds have a record; shape (batches * length,).
        can: which of the records may be kept; shape (batches * length,).
        estimate: what the records kept before say; shape (size,); overwritten.
        encoded: how many records it speaks for; 0 if there is none.
        bound: the longest that an atom may be.
        steps: so many steps of the grid are as long.
        deviation: of the noise, in steps.
        words: the coins of each batch; shape (batches, words).
        keep: shape (length,).

    Returns:
        whether the coins were enough; if not, nothing may be used.
    """
    length, size = len(atoms) // len(words), atoms.shape[1]
    sums, target, at = np.empty(size, np.int64), np.empty(size), np.empty(1, np.int64)
    for k in range(len(words)):
        here = slice(k * length, (k + 1) * length)
        count = sum_on_grid(atoms[here], present[here], bound, steps, sums)
        at[0] = 1
        for i in range(size):
            sums[i] += discrete_gaussian(np.uint64(deviation), words[k], at)
        if at[0] > words.shape[1]:
            return False
        encoded += count
        share = share_of(count, encoded, 1.0)
        for i in range(size):
            average = sums[i] / count * (bound / steps)
            target[i] = average if share >= 1.0 else estimate[i] + share * (average - estimate[i])
        spell_batch(can[here], target, words[k, 0], keep, estimate)
    return True
