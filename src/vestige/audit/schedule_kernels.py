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
def fit(sums: Ints, low: int, last: int, length: int, rates: Floats) -> float:
    """Score a batch that ends at `last` in one snapshot, under one pair of rates.

    Args:
        sums: cumulated counts of the records present, from the oldest on.
        low: position of the oldest record.
        last: last position of the batch.
        length: number of positions of the batch.
        rates: logarithms of the chances that a record of the batch is kept, and is not; the same for later ones.

    Returns:
        the score: a logarithm of a likelihood, less what speaks against the schedule.
    """
    total, top = sums[-1], low + len(sums) - 1
    before = count_until(sums, last - length - low)
    kept = count_until(sums, last - low) - before
    slots = max(0, last - max(low, last - length + 1) + 1)
    later = total - before - kept
    fresh = max(0, top - max(last, low - 1))
    score: float = kept * rates[0] + (slots - kept) * rates[1] + later * rates[2] + (fresh - later) * rates[3]
    score -= BEFORE * before + (BEFORE if last > top else 0.0)
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
    ends = np.empty(len(lows), np.int64)
    for i in range(len(offsets)):
        scores[i] = -np.inf
        for pair in range(len(rates)):
            total = 0.0
            for k in range(len(lows)):
                mine = sums[starts[k] : starts[k + 1]]
                top = lows[k] + len(mine) - 1
                last = offsets[i] + (top - offsets[i]) // length * length
                best = fit(mine, lows[k], last, length, rates[pair])
                ahead = fit(mine, lows[k], last + length, length, rates[pair])
                ends[k] = last + length if ahead > best else last
                held, size = mine[-1], len(mine)
                whole = (
                    held * WHOLE[0] + (size - held) * WHOLE[1]
                )  # some keep their first batch whole: it shows no border
                total += max(best, ahead, whole)
            if total > scores[i]:
                scores[i], lasts[i] = total, ends
