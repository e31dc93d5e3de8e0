"""Many words written in one compiled call, to see how often one has to be written again, and at what cost.

Guarantee: held by tests/planning/test_honesty.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.channels.kernels import make_writer
from vestige.channels.syndrome import prepare
from vestige.channels.word import find_key, write_averages
from vestige.random.kernels import draw, draw_uniform
from vestige.statistics.kernels import find_deviation
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
    values, target, far = np.empty((length, size)), np.empty(size), np.full(size, np.inf)
    can, keep, weights = np.ones(length, np.bool_), np.zeros(length, np.bool_), np.ones(length)
    residuals, misses = np.empty((trials, size)), np.zeros(trials)
    writer = make_writer(length, size)
    free = prepare(can, len(writer.attempt.message), writer.code)
    for trial in range(trials):
        coins = draw(key, trial)
        for j in range(length):
            values[j] = rows[int(draw_uniform(coins, j) * len(rows))]
        for i in range(size):
            target[i] = numbers[i] + spread[i] * (draw_uniform(coins, length + i) - 0.5) / length
        write_averages(
            values, can, target, far, off, find_key(trial, length), free, writer.code, writer.attempt, keep, keep
        )
        for i in range(size):
            residuals[trial, i] = abs(writer.attempt.numbers[i] - target[i])
            deviation = find_deviation(target[i], values[:, i], can, weights)
            if deviation > 0.0:
                misses[trial] = max(misses[trial], residuals[trial, i] / deviation)
    return residuals, misses
