"""Records that left and those that stayed, from snapshot to snapshot."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from vestige.audit.selection import Cohort, compare_snapshots, selection_p_value
from vestige.types import Ints

NONE = np.zeros(0, np.int64)


def compare(*days: list[int], excused: Ints = NONE) -> tuple[int, int, int, int]:
    found = compare_snapshots([np.array(day) for day in days], [np.ones((len(day), 1)) for day in days], excused)
    return len(found.cohorts), found.outlived, found.returned, found.late


def test_what_changes_from_day_to_day() -> None:
    assert compare([1, 2, 3], [2, 3, 4]) == (0, 0, 0, 0), "a window moves"
    assert compare([1, 2, 3, 4], [2, 4, 5]) == (1, 1, 0, 0), "3 is gone while 2 stays"
    assert compare([1, 2, 3, 4], [2, 4, 5], excused=np.array([3])) == (0, 0, 0, 0)
    assert compare([1, 2, 3], [3, 4], [2, 3, 4]) == (0, 0, 1, 0), "2 came back"
    assert compare([1, 2, 5], [2, 4, 5]) == (0, 0, 0, 1), "4 came after 5"
    assert compare([1, 2], [7, 8]) == (0, 0, 0, 0), "nothing in common"


def test_a_record_that_stays_for_years_counts_once() -> None:
    days = [np.array([1, *range(10 * k, 10 * k + 30)]) for k in range(1, 9)]
    found = compare_snapshots(days, [np.ones((len(day), 1)) for day in days], NONE)
    assert sum(int((cohort.stays).sum()) for cohort in found.cohorts) < 8 * 21
    assert sum(len(cohort.stays) for cohort in found.cohorts) <= len(np.unique(np.concatenate(days)))


def test_deletion_by_age_is_not_selection_by_value() -> None:
    """Some records are held for years, the others leave when they are old; amounts rise from year to year."""
    rng = np.random.default_rng(0)
    held = rng.random(400) < 0.1
    days = [np.flatnonzero(held | (np.arange(400) >= start))[: start + 150] for start in range(0, 250, 50)]
    amounts = np.arange(400)[:, None] / 50.0 + rng.normal(size=(400, 1))
    found = compare_snapshots(days, [amounts[day] for day in days], NONE)
    assert found.outlived > 100
    p = selection_p_value(found.cohorts, 199, rng)
    assert p is not None
    assert p > 0.05


def draw_cohorts(rng: np.random.Generator, by_value: float) -> list[Cohort]:
    cohorts = []
    for day in range(6):
        values = rng.lognormal(size=(40, 1)) + day
        chance = 1.0 / (1.0 + np.exp(by_value * (values[:, 0] - np.median(values))))
        cohorts.append(Cohort(rng.random(40) < chance, values))
    return cohorts


def test_false_alarms_and_power() -> None:
    honest = [
        selection_p_value(draw_cohorts(np.random.default_rng([s, 0]), 0.0), 99, np.random.default_rng(s))
        for s in range(100)
    ]
    assert sum(p is not None and p <= 0.05 for p in honest) <= binom.ppf(0.999, 100, 0.05)
    chosen = [
        selection_p_value(draw_cohorts(np.random.default_rng([s, 1]), 2.0), 99, np.random.default_rng(s))
        for s in range(20)
    ]
    assert all(p == 0.01 for p in chosen)
    assert selection_p_value([], 99, np.random.default_rng(0)) is None
