"""Averages that are steadier than those of whole batches, and samples of many kinds that must not be called so."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from vestige.audit.permutation import Batch
from vestige.audit.steadiness import measure_evenness, steadiness_p_value
from vestige.types import Bools, Floats

SIZE, BATCHES, TRIALS = 200, 14, 199
Rule = Callable[[np.random.Generator, Floats], Bools]


def draw_amounts(rng: np.random.Generator, start: int) -> Floats:  # noqa: ARG001
    return rng.lognormal(3.0, 0.6, SIZE)


def draw_cycle(period: int, noise: float) -> Callable[[np.random.Generator, int], Floats]:
    return lambda rng, start: np.sin(2.0 * np.pi * (start + np.arange(SIZE)) / period) + rng.normal(0.0, noise, SIZE)


def draw_bookings(rng: np.random.Generator, start: int) -> Floats:  # noqa: ARG001
    """Each transaction has two sides, which come one after the other."""
    amounts: Floats = np.repeat(rng.lognormal(3.0, 1.0, SIZE // 2), 2)
    amounts[1::2] *= -1.0
    return amounts


def draw_answers(rng: np.random.Generator, start: int) -> Floats:  # noqa: ARG001
    return (rng.random(SIZE) < 0.3).astype(float)


def keep_random(count: int) -> Rule:
    return lambda rng, values: np.isin(np.arange(SIZE), rng.choice(SIZE, count, replace=False))  # noqa: ARG005


def keep_every(step: int) -> Rule:
    return lambda rng, values: np.arange(SIZE) % step == 0  # noqa: ARG005


def keep_strata(count: int) -> Rule:
    """One at random of each of so many strata of the sorted batch."""

    def keep(rng: np.random.Generator, values: Floats) -> Bools:
        strata = np.array_split(np.argsort(values, kind="stable"), count)
        return np.isin(np.arange(SIZE), [rng.choice(stratum) for stratum in strata])

    return keep


def keep_transactions(rng: np.random.Generator, values: Floats) -> Bools:  # noqa: ARG001
    return np.repeat(rng.random(SIZE // 2) < 0.2, 2)


def keep_quota(rng: np.random.Generator, values: Floats) -> Bools:
    """As many of either answer, although one of them is rarer."""
    chosen = [rng.permutation(np.flatnonzero(values == answer))[:20] for answer in (0.0, 1.0)]
    return np.isin(np.arange(SIZE), np.concatenate(chosen))


def keep_near(centre: float, count: int) -> Rule:
    return lambda rng, values: np.isin(np.arange(SIZE), np.argsort(np.abs(values - centre))[:count])  # noqa: ARG005


def find_p_values(
    draw: Callable[[np.random.Generator, int], Floats], keep: Rule, repetitions: int, later: int = SIZE
) -> list[float | None]:
    found = []
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 17])
        batches, rests = [], []
        for k in range(BATCHES):
            values, rest = draw(rng, 2 * k * SIZE), draw(rng, (2 * k + 1) * SIZE)
            present, slots = keep(rng, values), np.arange(SIZE)
            kept = slots[present]
            batches.append(Batch(1, present, np.ones(SIZE, np.bool_), kept, values[kept][:, None]))
            rests.append(rest[: int(rng.integers(later // 4, later + 1)), None])
        found.append(steadiness_p_value(batches, rests, TRIALS, rng))
    return found


@pytest.mark.parametrize(
    ("draw", "keep"),
    [
        (draw_amounts, keep_random(100)),
        (draw_amounts, keep_random(3)),
        (draw_amounts, keep_every(10)),
        (draw_amounts, keep_strata(10)),
        (draw_amounts, keep_strata(100)),
        (draw_cycle(50, 1.0), keep_every(25)),
        (draw_cycle(200, 1.0), keep_strata(100)),
        (draw_answers, keep_random(1)),
        (draw_answers, keep_random(5)),
        (draw_answers, keep_strata(20)),
        (draw_answers, keep_quota),
        (draw_answers, keep_every(2)),
    ],
)
def test_false_alarms(draw: Callable[[np.random.Generator, int], Floats], keep: Rule) -> None:
    found = [p for p in find_p_values(draw, keep, 60) if p is not None]
    assert len(found) >= 50
    assert sum(p <= 0.05 for p in found) <= binom.ppf(0.999, len(found), 0.05)


@pytest.mark.parametrize(
    ("draw", "keep"),
    [
        (draw_cycle(50, 0.02), keep_every(25)),
        (draw_cycle(200, 0.02), keep_strata(50)),
        (draw_bookings, keep_transactions),
    ],
)
def test_there_is_no_test_where_values_even_out_by_themselves(
    draw: Callable[[np.random.Generator, int], Floats], keep: Rule
) -> None:
    assert set(find_p_values(draw, keep, 10)) == {None}


@pytest.mark.parametrize("draw", [draw_amounts, draw_cycle(70, 1.0)])
def test_a_fixed_average_is_found(draw: Callable[[np.random.Generator, int], Floats]) -> None:
    centre = math.exp(3.18) if draw is draw_amounts else 0.0
    assert set(find_p_values(draw, keep_near(centre, 4), 10)) == {1.0 / (1 + TRIALS)}


def test_a_fixed_average_elsewhere_is_a_rule_not_a_mean() -> None:
    assert set(find_p_values(draw_amounts, keep_near(5.0, 4), 10)) == {1.0}


def test_averages_that_are_all_the_same_are_a_rule_not_a_mean() -> None:
    """As many of either answer, where either is as frequent; or both sides of each booking."""
    rng = np.random.default_rng(5)
    both = np.arange(SIZE) % 20 < 2
    batches = [Batch(1, both, np.ones(SIZE, np.bool_), np.flatnonzero(both), np.tile([[1.0], [-1.0]], (10, 1)))] * 9
    later = [rng.choice([-1.0, 1.0], (SIZE, 1)) for _ in batches]
    assert steadiness_p_value(batches, later, TRIALS, rng) == 1.0


def test_without_later_records_there_is_no_test() -> None:
    assert set(find_p_values(draw_amounts, keep_near(24.0, 4), 5, later=14)) == {None}


def test_evenness_is_the_spectrum_at_low_frequencies() -> None:
    rng = np.random.default_rng(0)
    white = [rng.normal(size=512) for _ in range(40)]
    assert measure_evenness(white) == pytest.approx(1.0, abs=0.15), "3.7 standard deviations of the median of 1,240"
    steps = [np.diff(rng.normal(size=513)) for _ in range(40)]
    expected = 1.0 - math.cos(2.0 * math.pi * 17.0 / 512.0)
    assert measure_evenness(steps) == pytest.approx(expected, rel=0.5)
    assert measure_evenness(white[:1]) is not None
    assert measure_evenness([white[0][:15]] * 99) is None
    assert measure_evenness([]) is None
    assert measure_evenness([np.zeros(0)] * 3) is None
