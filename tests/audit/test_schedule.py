"""Borders of batches, found from presence alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vestige.audit.schedule import find_schedules
from vestige.audit.schedule_kernels import BEFORE, count_records, fit
from vestige.types import Ints


def take(rng: np.random.Generator, t: int, length: int, rate: float, origin: int) -> Ints:
    last = (t - origin) // length * length + origin
    held = np.arange(last - length + 1, t + 1)
    return held[(held > last) | (rng.random(len(held)) < rate)]


@pytest.mark.parametrize(
    ("length", "rate", "origin"), [(50, 0.5, 0), (60, 0.85, 0), (120, 0.05, 0), (64, 0.5, 1_000_003)]
)
def test_the_grid_of_a_stream_is_found(length: int, rate: float, origin: int) -> None:
    rng = np.random.default_rng(length)
    times = origin + 2 * length + np.cumsum(rng.integers(length, 2 * length, 20))
    found = find_schedules([take(rng, int(t), length, rate, origin) for t in times], [0, origin], 3)[0]
    assert (found.length, found.origin) == (length, origin)
    assert found.lasts == tuple((int(t) - origin) // length * length + origin for t in times)


def test_the_fit_is_that_of_plain_python() -> None:
    rng = np.random.default_rng(1)
    rates = np.log([0.5, 0.5, 0.9, 0.1])
    for _ in range(200):
        present = rng.random(30) < 0.6
        present[[0, -1]] = True
        low, last, length = 100, int(rng.integers(90, 140)), int(rng.integers(5, 40))
        expected = 0.0
        for place, here in enumerate(present, low):
            if place <= last - length:
                expected -= BEFORE * here
            elif place <= last:
                expected += rates[0 if here else 1]
            else:
                expected += rates[2 if here else 3]
        expected += sum(rates[1] for place in range(low + 30, last + 1) if place > last - length)
        expected -= BEFORE if last > low + 29 else 0.0
        counts = np.empty(6, np.int64)
        count_records(np.cumsum(present), low, last, length, counts)
        found = fit(counts, rates)
        if last >= low:
            assert math.isclose(found, expected, abs_tol=1e-9), (last, length)
