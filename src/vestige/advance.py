"""Many batches in one kernel, of which a single update is the case of one batch: one algorithm, not two.

For each batch: read the estimate off the kept records, move it by the batch, keep the records that say the result.
Only the last batch's choice comes out; those before it have been replaced.
Guarantee: extending by an array gives the same state as pushing one by one; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vestige.channels.kernels import read_batch, read_kept, write_batch
from vestige.compiling import kernel
from vestige.records import Bools, Floats, Ints
from vestige.statistics.kernels import move, share_of, tolerance, weights_of
from vestige.subset.desk import make_desk


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
    keys: NDArray[np.uint64],
    mode: int,
    keep: Bools,
) -> bool:
    """Write into `keep` which records of the last batch to keep; False if what was known before is lost.

    Args:
        atoms: the batches, one after the other, each as long; shape (batches * length, size).
        present: which rounds have a record; shape (batches * length,).
        can: which of the records may be kept; shape (batches * length,).
        kept: the rounds of the records kept before; shape (n,).
        kept_atoms: their atoms; shape (n, size).
        first: the first round of the batch that these belong to.
        last: its last round.
        encoded: how many records it speaks for; 0 if there is none.
        decay: what is left of a record's weight after a round; 1 if all count alike.
        keys: the coins of each batch; shape (batches,).
        mode: how it is written, see `vestige.channels.kernels`.
        keep: which of the last `length` records to keep; shape (length,).
    """
    length, size = len(atoms) // len(keys), atoms.shape[1]
    estimate = read_kept(kept, kept_atoms, first, last - first + 1) if encoded else np.full(size, np.nan)
    if encoded and np.isnan(estimate).any():
        return False
    target, spread, near = np.empty(size), np.empty(size), np.empty(size)
    desk = make_desk(length)
    weights = weights_of(length, decay)
    for k in range(len(keys)):
        here = slice(k * length, (k + 1) * length)
        share = share_of(length, encoded + (k + 1) * length, decay)
        move(estimate, atoms[here], present[here], weights, share, target, spread)
        for i in range(size):
            near[i] = tolerance(spread[i], length, share, target[i])
        write_batch(atoms[here], can[here], target, near, keys[k], mode, desk, keep)
        if k + 1 < len(keys):
            read_batch(atoms[here], keep, estimate)
    return True
