"""How well a schedule of batches fits which records are present, for many schedules at once.

Guarantee: the same scores as plain Python; held by tests/audit/test_schedule.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.types import Floats, Ints

BEFORE = 4.0
"""What is subtracted from the score for each record that is older than the batch, and for each batch ahead."""
WHOLE = (float(np.log(0.995)), float(np.log(0.005)))
"""Logarithms of the chances that a record is present, and is not, where all are kept."""


@kernel
def count_until(sums: Ints, place: int) -> int:
    """Count the records up to a place, counted from 0."""
    if place < 0:
        return 0
    return int(sums[min(place, len(sums) - 1)])


@kernel
def count_records(sums: Ints, low: int, last: int, length: int, counts: Ints) -> None:
    """Count what a batch that ends at `last` explains in one snapshot.

    Args:
        sums: cumulated counts of the records present, from the oldest on.
        low: position of the oldest record.
        last: last position of the batch.
        length: number of positions of the batch.
        counts: output: records of the batch that are kept, and that are not, later records that are there, and that are
            not, records before the batch, and 1 if the batch ends after the newest record; shape (6,).
    """
    total, top = sums[-1], low + len(sums) - 1
    before = count_until(sums, last - length - low)
    kept = count_until(sums, last - low) - before
    slots = max(0, last - max(low, last - length + 1) + 1)
    later = total - before - kept
    fresh = max(0, top - max(last, low - 1))
    counts[0], counts[1], counts[2], counts[3] = kept, slots - kept, later, fresh - later
    counts[4], counts[5] = before, 1 if last > top else 0


@kernel
def fit(counts: Ints, rates: Floats) -> float:
    """Score a batch by its counts, under one pair of rates.

    Args:
        counts: those of `count_records`; shape (6,).
        rates: logarithms of the chances that a record of the batch is kept, and is not; the same for later ones.

    Returns:
        the score: a logarithm of a likelihood, less what speaks against the schedule.
    """
    score: float = counts[0] * rates[0] + counts[1] * rates[1] + counts[2] * rates[2] + counts[3] * rates[3]
    score -= BEFORE * (counts[4] + counts[5])
    return score


@kernel
def fit_schedules(
    sums: Ints, starts: Ints, lows: Ints, length: int, offsets: Ints, rates: Floats, scores: Floats, lasts: Ints
) -> None:
    """Score schedules of one length by all snapshots.

    Args:
        sums: those of all snapshots, one after the other.
        starts: where those of each snapshot begin, and the end; shape (snapshots + 1,).
        lows: position of the oldest record of each snapshot; shape (snapshots,).
        length: number of positions of a batch.
        offsets: positions at which a batch ends, one for each schedule; shape (schedules,).
        rates: pairs of rates to choose from; shape (pairs, 4).
        scores: output; shape (schedules,).
        lasts: output, where the batch of each snapshot ends; shape (schedules, snapshots).
    """
    counts = np.empty((len(lows), 2, 6), np.int64)
    ends = np.empty(len(lows), np.int64)
    for i in range(len(offsets)):
        for k in range(len(lows)):
            mine = sums[starts[k] : starts[k + 1]]
            top = lows[k] + len(mine) - 1
            last = offsets[i] + (top - offsets[i]) // length * length
            for ahead in range(2):
                count_records(mine, lows[k], last + ahead * length, length, counts[k, ahead])
        scores[i] = -np.inf
        for pair in range(len(rates)):
            total = 0.0
            for k in range(len(lows)):
                held, size = sums[starts[k + 1] - 1], starts[k + 1] - starts[k]
                top = lows[k] + size - 1
                last = offsets[i] + (top - offsets[i]) // length * length
                near, far = fit(counts[k, 0], rates[pair]), fit(counts[k, 1], rates[pair])
                ends[k] = last + length if far > near else last
                whole = held * WHOLE[0] + (size - held) * WHOLE[1]  # a first batch that is kept whole has no border
                total += max(near, far, whole)
            if total > scores[i]:
                scores[i], lasts[i] = total, ends
