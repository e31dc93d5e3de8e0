"""What the noise of `Private` does to answers is in their errors: measured over many streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from vestige import (
    Correlation,
    Covariance,
    Histogram,
    HistogramQuantiles,
    LinearRegression,
    Mean,
    Moments,
    Private,
    Ratio,
    Shares,
    Stream,
    Sum,
    statistics,
)
from vestige.audit import AuditSeed
from vestige.estimate import Estimate
from vestige.noise import Noise
from vestige.policies import Remark, base
from vestige.policies.base import NOISE_LEFT_OUT, Encoded
from vestige.types import Floats

PROMISE: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}


def ask(policy: Private, rows: Floats, seed: int, retention: int = 1_000) -> Any:
    stream = Stream(policy, retention=retention, seed=AuditSeed(seed))
    stream.extend(rows)
    return stream.estimate()


def test_noisy_counts_are_not_called_exact() -> None:
    """The noise of one count is 270 records here, and its error says five times that."""
    rows = np.random.default_rng(0).normal(size=10_000)
    policy = Private(Histogram((0.0, 1.0)), bound=1.0, epsilon=1.0, delta=1e-6)
    estimate = ask(policy, rows, 0)
    exact = np.bincount(np.digitize(rows, (0.0, 1.0)))
    off = np.abs(estimate.counts - exact)
    assert off.max() > 1.0
    assert off.max() <= estimate.count_error
    noise = 2.0 * policy.scale * np.sqrt(20)
    assert estimate.count_error == pytest.approx(5.0 * noise, rel=1e-6)
    assert estimate.encoding_error == pytest.approx(5.0 * noise / len(rows), rel=1e-6)
    assert (estimate.standard_error > noise / len(rows)).all(), "that of an empty bin too"
    report = policy.report(estimate, ["delay"])
    assert report.remarks == (Remark(f"Counts may be off by up to {estimate.count_error:,.0f}."),)
    assert estimate.notes[-2].endswith("; standard errors include it.")


def test_bounds_of_quantiles_leave_room_for_noise() -> None:
    edges, missed = tuple(np.linspace(0.0, 1.0, 21)), 0
    rows = np.random.default_rng(0).uniform(size=10_000)
    policy = Private(HistogramQuantiles(edges, [0.1, 0.5, 0.9]), bound=1.0, epsilon=1.0, delta=1e-6)
    true = np.quantile(rows, [0.1, 0.5, 0.9])
    for seed in range(10):
        estimate = ask(policy, rows, seed)
        assert ((estimate.lower <= true) & (true <= estimate.upper)).all()
        missed += int((np.digitize(estimate.value, edges) != np.digitize(true, edges)).any())
    assert missed, "the edges of its own bin are not enough"
    assert estimate.notes[-2].endswith("; bounds include five times it.")


def draw(columns: int, n: int = 4_000) -> Floats:
    rng = np.random.default_rng(columns)
    rows = rng.uniform(0.5, 1.0, (n, columns))
    rows[:, -1] += 0.5 * rows[:, 0]
    return rows


@pytest.mark.parametrize(
    "policy",
    [
        Mean(spread=True),
        Mean(2, spread=True),
        Sum(),
        Ratio(),
        Moments(4),
        Covariance(2),
        Correlation(2),
        LinearRegression(1),
        LinearRegression(1, outputs=2),
        Histogram((0.9, 1.2)),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_errors_include_the_noise(policy: Encoded[Estimate]) -> None:
    """Answers from so many records vary by their noise alone: 500 draws of it measure each error to 20%."""
    rng, draws, worth = np.random.default_rng(0), 500, 1e14
    statistic: statistics.Averages = policy.statistic  # type: ignore[assignment]
    averages = statistic.atoms(draw(policy.columns)).mean(axis=0)
    noise = Noise(*(1e-4 * rng.uniform(0.5, 1.0, (2, len(averages)))))
    own, common = noise.own * rng.normal(size=(draws, len(averages))), noise.common * rng.normal(size=(draws, 1))
    made = policy.conclude_noisy(averages, noise, worth, 0.0)
    answers = [policy.conclude(statistic.from_averages(averages + each), worth, 0.0) for each in own + common]
    low, high = np.sqrt(stats.chi2.ppf([1e-7, 1.0 - 1e-7], draws - 1) / (draws - 1))
    assert low > 0.8
    assert high < 1.2
    for error, number in made.errors.items():
        spread = np.std([getattr(answer, number) for answer in answers], axis=0, ddof=1)
        said = np.asarray(getattr(made, error))
        assert (low * said <= spread).all()
        assert (spread <= high * said).all()


def test_a_stream_adds_its_noise_to_the_errors() -> None:
    rows, policy = draw(1), Private(Mean(spread=True), bound=1.5, **PROMISE)
    estimate = ask(policy, rows, 0)
    noise = 2.0 * policy.scale * policy.statistic.reach * np.sqrt(8) / len(rows)
    assert estimate.standard_error == pytest.approx(np.hypot(noise, np.sqrt(estimate.variance / len(rows))), rel=1e-6)


def test_errors_of_many_numbers_leave_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_NOISY_NUMBERS", 1)
    estimate = ask(Private(Mean(spread=True), bound=2.0, **PROMISE), draw(1), 0)
    assert estimate.notes[0] == NOISE_LEFT_OUT
    assert "include" not in estimate.notes[1]
    shares = ask(Private(Shares(("a",)), bound=1.0, **PROMISE), np.zeros((2_000, 1)), 0)
    assert shares.notes[-2].endswith("; standard errors include it.")


def test_noise_that_outweighs_a_variance_is_not_called_a_constant() -> None:
    found = [
        ask(Private(Mean(spread=True), bounds=[100.0], epsilon=0.5, delta=1e-6), draw(1, 1_000), seed)
        for seed in range(4)
    ]
    negative = [estimate for estimate in found if estimate.variance == 0.0]
    assert negative, "half of the noise is negative"
    for estimate in negative:
        assert estimate.notes[0].startswith("The noise outweighs the variance of the records")
        assert abs(estimate.value - 1.1) <= 5.0 * estimate.standard_error
