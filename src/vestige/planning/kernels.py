"""Many batches written in one compiled call, to see how near numbers come, and how often by a word.

Guarantee: held by tests/planning/test_honesty.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.channels.kernels import is_word, make_writer, write_batch
from vestige.random.kernels import draw, draw_uniform
from vestige.statistics.kernels import find_deviation, find_tolerance, move_averages
from vestige.types import Bools, Floats


@kernel
def write_batches(
    rows: Floats,
    before: Floats,
    averages: Floats,
    share: float,
    length: int,
    mode: int,
    near_share: float,
    off: bool,
    key: np.uint64,
) -> tuple[Floats, Floats, Bools]:
    """Write numbers into random batches, one after the other: each moves what the one before it says.

    Args:
        rows: records to draw batches from; shape (n, size).
        before: what is written before the first batch; shape (size,).
        averages: what moves the numbers at each batch; shape (batches, size).
        share: by which share of the way it moves them.
        length: number of records in a batch.
        mode: how the channel writes; see `vestige.channels.kernels`.
        near_share: an average within this share of the mean absolute deviation of a batch is near enough.
        off: whether the numbers are marked as off.
        key: the coins.

    Returns:
        By how much each number is missed, shape (batches, size); the most in a batch, in the standard deviations of
        the records that the batch before it kept, by which misses are judged, shape (batches,); and which batches hold
        a word, after which the numbers go on as if it were exact, shape (batches,).
    """
    batches, size = averages.shape
    values, near, far = np.empty((length, size)), np.empty(size), np.full(size, np.inf)
    said, moved, target, deviations = before.copy(), np.empty(size), np.empty(size), np.zeros(size)
    found, none, low, rest = np.empty(size), np.zeros(size), np.empty(size), np.empty(size)
    can, keep, weights = np.ones(length, np.bool_), np.zeros(length, np.bool_), np.ones(length)
    residuals, misses, words = np.empty((batches, size)), np.zeros(batches), np.empty(batches, np.bool_)
    writer, marks, usual = make_writer(length, size), np.empty(size, np.bool_), np.zeros(size)
    for batch in range(batches):
        coins = draw(key, batch)
        for j in range(length):
            values[j] = rows[int(draw_uniform(coins, j) * len(rows))]
        for i in range(size):
            moved[i] = said[i] + share * (averages[batch, i] - said[i])
        move_averages(moved, none, values, can, weights, 0.0, target, low, deviations)
        for i in range(size):
            near[i] = find_tolerance(near_share, deviations[i], 1, 1.0, 0.0)
        marks[:] = off
        write_batch(
            values, can, target, low, near, far, deviations, batch, coins, mode, True, writer, keep, found, marks, rest
        )
        words[batch] = is_word(keep, mode)
        for i in range(size):
            said[i] = target[i] if words[batch] else found[i]
            residuals[batch, i] = abs((found[i] - target[i]) + (rest[i] - low[i]))
            if usual[i] > 0.0:
                misses[batch] = max(misses[batch], residuals[batch, i] / usual[i])
            usual[i] = find_deviation(found[i], values[:, i], keep, weights)
    return residuals, misses, words
