"""Forty kinds of tables: false alarms at most the level, and power of 0.9 at twenty snapshots of public layouts.

Tolerances are binomial: a count of false alarms may exceed its expectation as far as one time in a thousand; at most
one of 46 missed means a power above 0.9 with 95% confidence (0.9^46 + 46 * 0.1 * 0.9^45 is 0.0480), and so does none
of 29 (0.0471), as many as Algorithm 1 is tried on, which tries all subsets.
"""

from __future__ import annotations

import pytest
from scipy.stats import binom

from audited_tables import CURATED, HONEST, count_verdicts
from vestige.audit import plan_table

LEVEL = 0.01


@pytest.mark.parametrize("name", ["Mean, bits", "Mean, average", "half of the gaps random"])
def test_layouts_are_found(name: str) -> None:
    assert all(found.is_finding for found in count_verdicts(CURATED[name], 1))


@pytest.mark.slow(50)
@pytest.mark.parametrize("name", list(CURATED))
def test_power_is_above_90_percent(name: str) -> None:
    repetitions = 29 if name.startswith("Algorithm 1") else 46
    missed = sum(not found.is_finding for found in count_verdicts(CURATED[name], repetitions, first=1_000))
    assert binom.cdf(missed, repetitions, 0.1) <= 0.05, f"{missed} missed"


@pytest.mark.slow(70)
@pytest.mark.parametrize("part", range(4))
def test_false_alarms_are_at_most_the_level(part: int) -> None:
    repetitions, names = 12, list(HONEST)[part::4]
    alarms = {
        name: sum(set(each.rejected) - {"values"} != set() for each in count_verdicts(HONEST[name], repetitions))
        for name in names
    }
    assert sum(alarms.values()) <= binom.ppf(0.999, repetitions * len(names), LEVEL), alarms


def test_a_plan_counts_what_the_audit_finds() -> None:
    told: list[float] = []
    plan = plan_table(size=60, snapshots=[2, 14], repetitions=1, progress=told.append)
    assert [(row.layout, row.snapshots) for row in plan.rows] == [
        ("words", 2),
        ("words", 14),
        ("averages", 2),
        ("averages", 14),
    ]
    assert [row.found for row in plan.rows] == [0, 1, 0, 1]
    assert told[-1] == 1.0
    assert plan.rows[1].power == pytest.approx(0.05, abs=0.03)
    assert "snapshots" in str(plan)
    assert "<table>" in plan._repr_html_()
