"""Whether the least-squares estimates of kept groups average to nearly the same number from batch to batch.

The layout of Algorithm 2 of Immorlica et al. (2024), as `vestige.paper.Regression` reads it: the second half of a batch
has a segment for each coefficient, cut into groups of consecutive records that are kept as a whole or not at all.
Guarantee: exact for exchangeable groups; held by tests/audit/test_groups.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vestige.audit.permutation import Batch, average_p_value
from vestige.types import Bools


def group_p_value(batches: Sequence[Batch], trials: int, rng: np.random.Generator) -> float | None:
    """Test whether groups were chosen for the average of their estimates.

    Args:
        batches: batches in order; the last column of their values is the output of the regression.
        trials: number of permutations.
        rng: generator to draw with.

    Returns:
        The p-value, corrected for the number of coefficients; None if there are no groups to compare.
    """
    dim = batches[0].values.shape[1] - 1 if batches else 0
    p_values = []
    for i in range(dim):
        groups = [group for group in (_find_groups(batch, dim, i) for batch in batches) if group.has_choice]
        p, _ = average_p_value(groups, trials, rng) if len(groups) > 1 else (None, [])
        p_values += [] if p is None else [p]
    return min(1.0, len(p_values) * min(p_values)) if p_values else None


def _find_groups(batch: Batch, dim: int, coordinate: int) -> Batch:
    """The groups of one coefficient as a batch: which are kept whole, and the estimate of that coefficient of each."""
    length, size = len(batch.present), 2 * dim + 1
    start = length // 2
    segment = (length - start) // dim
    count = segment // size
    first = start + coordinate * segment
    used = slice(first, first + count * size)
    free: Bools = np.all(batch.free[used].reshape(count, size), axis=1)
    present: Bools = np.all(batch.present[used].reshape(count, size), axis=1) & free
    estimates = []
    for group in np.flatnonzero(present):
        low = first + group * size
        rows = batch.values[(low <= batch.slots) & (batch.slots < low + size)]
        estimates.append(np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0][coordinate])
    return Batch(batch.first, present, free, np.flatnonzero(present), np.array(estimates).reshape(-1, 1))
