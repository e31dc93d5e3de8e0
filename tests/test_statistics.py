"""Running averages compose to numpy's mean over every prefix."""

from __future__ import annotations

import numpy as np
import pytest

from vestige.statistics import Mean


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_steps_compose_to_the_mean_of_every_prefix(offset: float) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3)) + offset
    statistic, estimate, seen = Mean(3), np.full(3, np.nan), 0
    for size in (1, 7, 40, 2, 150, 300):
        estimate = statistic.step(estimate, rows[seen : seen + size], size / (seen + size))
        seen += size
        assert estimate == pytest.approx(rows[:seen].mean(axis=0), rel=1e-15, abs=1e-15)


def test_one_dimension_answers_a_float() -> None:
    assert isinstance(Mean(1).answer(np.array([2.0])), float)
    assert isinstance(Mean(2).answer(np.array([2.0, 3.0])), np.ndarray)
