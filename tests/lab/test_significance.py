"""Tests that go wrong as seldom as they say, and that see what is there."""

from __future__ import annotations

import numpy as np
import pytest

from vestige import theory
from vestige.lab import significance

TRIALS = 4_000


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A level at which going wrong can be counted."""
    monkeypatch.setattr(significance, "LEVEL", 0.05)


def share(found: list[bool]) -> float:
    return float(np.mean(found))


def test_what_is_on_the_limit_goes_wrong_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(0)
    slack = 4.0 * np.sqrt(0.05 * 0.95 / TRIALS)
    squares = (rng.normal(size=(TRIALS, 8, 2)) ** 2).sum(axis=2) * 1.5
    others = (rng.normal(size=(TRIALS, 8, 2)) ** 2).sum(axis=2) * 4.5
    assert share([significance.is_above(one, 3.0, 2) for one in squares]) == pytest.approx(0.05, abs=slack)
    assert share([significance.is_below(one, 3.0, 2) for one in squares]) == pytest.approx(0.05, abs=slack)
    found = [significance.show_smaller(*pair, 3.0, 2) for pair in zip(squares, others, strict=True)]
    assert share([shown is True for shown in found]) == pytest.approx(0.05, abs=slack)
    assert share([shown is False for shown in found]) == pytest.approx(0.05, abs=slack)
    means = rng.normal(1.0, 1.0, (TRIALS, 8))
    assert share([significance.confidence_interval(one).low > 1.0 for one in means]) == pytest.approx(0.05, abs=slack)
    hits = rng.binomial(100, 0.3, TRIALS)
    assert share([significance.is_more_often(one, 100, 0.3) for one in hits]) < 0.05 + slack
    assert share([significance.is_less_often(one, 100, 0.3) for one in hits]) < 0.05 + slack


def test_what_is_beyond_the_limit_is_seen() -> None:
    assert significance.is_above(np.full(8, 6.0), 3.0, 2)
    assert significance.is_below(np.full(8, 0.5), 3.0, 2)
    assert significance.show_smaller(np.full(8, 1.0), np.full(8, 20.0), 3.0, 2)
    assert significance.show_smaller(np.full(8, 20.0), np.full(8, 20.0), 3.0, 2) is False
    assert significance.show_smaller(np.full(8, 1.0), np.full(8, 3.0), 3.0, 2) is None
    assert significance.show_as_good(np.array([1.0, 1.01, 1.02]))
    assert significance.show_as_good(np.array([1.0, 1.2, 1.0])) is None
    assert significance.show_as_good(np.full(3, 9.0)) is False
    assert significance.show_above(np.full(8, 6.0), 3.0, 2)
    assert significance.show_above(np.full(8, 3.0), 3.0, 2) is None
    assert significance.show_above(np.full(8, 0.5), 3.0, 2) is False
    assert [significance.show_more_often(hits, 100, 0.3) for hits in (50, 30, 10)] == [True, None, False]
    assert significance.is_more_often(50, 100, 0.3)
    assert significance.is_less_often(10, 100, 0.3)
    assert not significance.is_more_often(0, 100, 0.0)


def test_what_a_theorem_promises() -> None:
    found = significance.promised_error(2, 128, 8_192, theory.mean_retention, theory.mean_rounds)
    assert theory.mean_rounds(2, found) <= 8_192 < theory.mean_rounds(2, 0.97 * found)
    assert significance.promised_error(1, 2, 8_192, theory.mean_retention, theory.mean_rounds) == np.inf
