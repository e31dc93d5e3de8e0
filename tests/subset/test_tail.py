"""The tail decides: one bad batch costs more than a thousand good ones save."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from vestige.subset import nearest_average
from vestige.subset.search import find_near_averages
from vestige.types import Floats

Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
DISTRIBUTIONS: dict[str, tuple[Draw, float, float]] = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0, 1.0),
    "uniform": (lambda rng, shape: rng.random(shape), 0.5, 1 / np.sqrt(12)),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0, 1.0),
    "student-t(3)": (lambda rng, shape: rng.standard_t(3, size=shape), 0.0, np.sqrt(3)),
    "lognormal(0,1)": (
        lambda rng, shape: rng.lognormal(size=shape),
        float(np.exp(0.5)),
        math.sqrt((math.e - 1) * math.e),
    ),
}


def unavoidable(row: Floats, target: float, tolerance: float) -> bool:
    """Whether no subset at all is that near: proven, over the numbers that could be balanced by the others."""
    offsets = row - target
    slack = len(row) * tolerance
    least, most = -offsets[offsets > 0.0].sum() - slack, -offsets[offsets < 0.0].sum() + slack
    return nearest_average(row[(least <= offsets) & (offsets <= most)], target, method="meet").residual > tolerance


def misses(name: str, batches: int, seed: int = 0) -> int:
    """Return how many of `batches` batches of 48 miss a residual of 0.1 std / (sqrt(48) 1000) around mean + 0.02 std.

    Not counted are batches where every subset misses it: of lognormal numbers, now and then so few are above the mean
    that there is next to nothing to choose.
    """
    draw, mean, std = DISTRIBUTIONS[name]
    target, tolerance = mean + 0.02 * std, 0.1 * std / (np.sqrt(48) * 1000)
    rng, missed = np.random.default_rng(seed), 0
    for _ in range(batches // 10_000):
        rows = draw(rng, (10_000, 48))
        masks = np.zeros(rows.shape, np.bool_)
        find_near_averages(rows, np.full(len(rows), target), tolerance, 0, masks)
        averages = np.where(masks, rows - target, 0.0).sum(axis=1) / masks.sum(axis=1)
        missed += sum(
            not unavoidable(row, target, tolerance) for row in rows[np.abs(averages) > tolerance * (1 + 1e-9)]
        )
    return missed


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_no_batch_of_a_few_thousand_misses(name: str) -> None:
    assert misses(name, 20_000) == 0


@pytest.mark.slow(8)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_fewer_than_one_in_100_000_misses(name: str) -> None:
    assert misses(name, 1_000_000) < 10
