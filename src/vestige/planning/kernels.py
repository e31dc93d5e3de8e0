"""Many words written in one compiled call, to see how often one has to be written again, and at what cost.

Guarantee: held by tests/planning/test_honesty.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.channels.kernels import BITS, make_writer, write_batch
from vestige.random.kernels import draw, draw_uniform
from vestige.statistics.kernels import find_deviation, move_averages
from vestige.types import Floats


@kernel
def write_words(
    rows: Floats, numbers: Floats, spread: Floats, length: int, trials: int, off: bool, key: np.uint64
) -> tuple[Floats, Floats]:
    """Write numbers near the given ones into random batches.

    Args:
        rows: records to draw batches from; shape (n, size).
        numbers: about what to write; shape (size,).
        spread: standard deviation of a record in each column; shape (size,).
        length: number of records in a batch.
        trials: number of batches.
        off: whether the numbers are marked as off.
        key: the coins.

    Returns:
        By how much each number is missed, shape (trials, size); and the most in a batch in its own standard deviations,
        shape (trials,).
    """
    size = len(numbers)
    values, near, far = np.empty((length, size)), np.zeros(size), np.full(size, np.inf)
    nearby, target, deviations, found = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    can, keep, weights = np.ones(length, np.bool_), np.zeros(length, np.bool_), np.ones(length)
    residuals, misses = np.empty((trials, size)), np.zeros(trials)
    writer, marks = make_writer(length, size), np.empty(size, np.bool_)
    for trial in range(trials):
        coins = draw(key, trial)
        for j in range(length):
            values[j] = rows[int(draw_uniform(coins, j) * len(rows))]
        for i in range(size):
            nearby[i] = numbers[i] + spread[i] * (draw_uniform(coins, length + i) - 0.5) / length
        move_averages(nearby, values, can, weights, 0.0, target, deviations)
        marks[:] = off
        write_batch(values, can, target, near, far, deviations, trial, coins, BITS, True, writer, keep, found, marks)
        for i in range(size):
            residuals[trial, i] = abs(found[i] - target[i])
            deviation = find_deviation(target[i], values[:, i], can, weights)
            if deviation > 0.0:
                misses[trial] = max(misses[trial], residuals[trial, i] / deviation)
    return residuals, misses
