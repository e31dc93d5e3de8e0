"""A kernel that answers for many streams whose statistic is a plain mean.

Guarantee: the same numbers as `vestige.Mean.answer`, bit for bit; held by tests/keyed/test_estimates.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import inner_kernel
from vestige.keyed.batch_kernels import Batch, Terms, count_encoded, gather, read_encoded
from vestige.keyed.chain_kernels import ELSEWHERE, Arena, Columns
from vestige.statistics.kernels import find_share, move_averages
from vestige.types import Bools, Floats, Ints

_EPSILON = float(np.finfo(np.float64).eps)
_SMALLEST = float(np.finfo(np.float64).tiny)


@inner_kernel
def _may_lack_digits(mean: float, held: Floats, counted: int) -> bool:
    """Whether float64 may round a mean by more than half of its standard error, which an answer then says."""
    least, is_apart = _EPSILON * abs(mean) * np.sqrt(np.float64(counted * len(held))), False
    for j in range(len(held)):
        apart = abs(held[j] - mean)
        if apart > least:
            return False
        is_apart |= apart > 0.0
    return is_apart


@inner_kernel
def answer_each(
    columns: Columns,
    arena: Arena,
    keys: Ints,
    terms: Terms,
    batch: Batch,
    weights: Floats,
    values: Floats,
    answered: Bools,
) -> None:
    """Compute the means of streams.

    Args:
        columns: the streams.
        arena: their records.
        keys: places of the streams to answer for; shape (n,).
        terms: what is the same for all streams.
        batch: room for a batch.
        weights: of the records of a full batch that wait; shape (batch,).
        values: output, the means; shape (n, columns).
        answered: output, which streams have an answer that is as it should be; shape (n,).
    """
    dim, full = values.shape[1], len(weights)
    for row in range(len(keys)):
        key = keys[row]
        pending, kept = columns.pending[key], columns.kept[key]
        answered[row] = False
        if pending == ELSEWHERE or pending + kept == 0:
            continue
        gather(columns, arena, key, batch)
        encoded, is_fine = count_encoded(columns, key), True
        for i in range(dim):
            batch.numbers[i] = batch.rest[i] = 0.0
        if encoded:
            is_fine = read_encoded(columns, key, terms, batch)
            for i in range(dim):
                is_fine &= not batch.off[i]
                values[row, i] = batch.numbers[i] = 0.0 if abs(batch.numbers[i]) < _SMALLEST else batch.numbers[i]
        if is_fine and pending:
            move_averages(
                batch.numbers,
                batch.rest,
                batch.records.values[kept : kept + pending],
                batch.everyone[:pending],
                weights[full - pending :],
                find_share(pending, encoded + pending, terms.decay),
                values[row],
                batch.rest,
                batch.usual,
            )
        held = batch.records.values[: kept + pending]
        for i in range(dim):
            is_fine &= np.isfinite(values[row, i]) and not _may_lack_digits(
                values[row, i], held[:, i], encoded + pending
            )
        answered[row] = is_fine
