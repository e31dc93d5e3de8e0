"""Whether the few records that are kept average to that of all records better than chance allows.

A writer who may choose among many records keeps a handful that lie close to the average to be stored. Their own
variance then says little; the records that arrived since, all of which are held, say what chance would do. So kept and
later records of a snapshot are permuted among each other. Only batches of which less than a tenth is kept count: where
more is kept, a rule by value such as the deletion of outliers could do the same (`vestige.audit.selection` finds it).
Guarantee: exact if kept and later records are exchangeable; held by tests/audit/test_centres.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from vestige.audit.permutation import Batch, list_segments, measure_evenness, p_value
from vestige.types import Floats

_LEAST_DROPPED = 0.9
_MIN_LATER = 10
"""Number of later records that a snapshot needs."""
_MIN_GAP = 1e-3


def centre_p_value(
    batches: Sequence[Batch], later: Sequence[Floats], trials: int, rng: np.random.Generator
) -> float | None:
    """Test whether the averages of few kept records are too near the average of all records, in any column.

    Args:
        batches: batches in order.
        later: values of the records that came after each batch, in the same snapshot; each of shape (n, columns).
        trials: number of permutations.
        rng: generator to draw with.

    Returns:
        The p-value; None if there are fewer than two batches to test.
    """
    usable = [
        (batch, rest)
        for batch, rest in zip(batches, later, strict=True)
        if batch.has_choice and batch.drop_rate() >= _LEAST_DROPPED and len(rest) >= _MIN_LATER
    ]
    if len(usable) < 2:
        return None
    scores = [_score(usable, *part, trials, rng) for part in list_segments(usable[0][1].shape[1])]
    return p_value(np.column_stack([score for score in scores if score is not None]))


def _score(
    usable: Sequence[tuple[Batch, Floats]], column: int, start: int, step: int, trials: int, rng: np.random.Generator
) -> Floats | None:
    """Score the distances of all averages from the centre, for the observed choice and for random ones."""
    pools = list(_pool(usable, column, start, step))
    if not pools:
        return None
    everything = np.concatenate([pool for pool, _ in pools])
    centre, variance = everything.mean(), max(float(everything.var()), 1e-300)
    kept = np.concatenate([pool[:count] for pool, count in pools])
    sizes = np.array([count for _, count in pools])
    within = sum(float(((pool[:count] - pool[:count].mean()) ** 2).sum()) for pool, count in pools)
    even = measure_evenness(kept, sizes, within / max(1, int((sizes - 1).sum())))
    score = np.zeros(trials + 1)
    for pool, count in pools:
        table = np.tile(pool, (trials + 1, 1))
        table[1:] = rng.permuted(table[1:], axis=1)
        gaps = (table[:, :count].mean(axis=1) - centre) ** 2 * count / variance
        gaps[0] /= max(even, 1e-9)
        score -= np.log(gaps + _MIN_GAP)
    return score


def _pool(usable: Sequence[tuple[Batch, Floats]], column: int, start: int, step: int) -> Iterator[tuple[Floats, int]]:
    """The kept values of each batch, then the later ones; and how many are kept."""
    for batch, rest in usable:
        mine = batch.values[batch.slots % step == start, column]
        if len(mine):
            yield np.concatenate((mine, rest[:, column])), len(mine)
