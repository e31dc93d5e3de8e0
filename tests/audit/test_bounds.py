"""The bounds: published values, known mechanisms, and how often they are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vestige.audit import (
    area_under_curve,
    epsilon_ceiling,
    epsilon_lower_bound,
    mu_lower_bound,
    total_variation_lower_bound,
)
from vestige.audit.bounds import classify, find_threshold, rate_bounds, true_positive_rate_at
from vestige.errors import ParameterError
from vestige.noise import gaussian_epsilon

counts = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)).filter(
    lambda c: c[0] + c[1] > 0 and c[2] + c[3] > 0
)


def test_the_published_value() -> None:
    assert epsilon_lower_bound(500, 0, 0, 500, confidence=0.99) == pytest.approx(4.5419158, abs=5e-8)
    assert epsilon_ceiling(500, confidence=0.99) == pytest.approx(4.5419158, abs=5e-8)
    q = (0.05 / 2) ** (1 / 10_000)
    assert epsilon_ceiling(10_000) == pytest.approx(np.log(q / (1 - q)), rel=1e-9)


@given(counts, st.floats(0.5, 0.999))
def test_rates_are_those_of_scipy(c: tuple[int, int, int, int], confidence: float) -> None:
    tp, fn, fp, tn = c
    lower, upper = rate_bounds(tp, fn, fp, tn, confidence)
    caught = stats.binomtest(tp, tp + fn).proportion_ci(confidence, "exact")
    alarmed = stats.binomtest(fp, fp + tn).proportion_ci(confidence, "exact")
    assert lower == pytest.approx(caught.low, abs=1e-9)
    assert upper == pytest.approx(alarmed.high, abs=1e-9)


@given(counts, st.floats(0, 0.3))
def test_bounds_are_never_negative_and_fall_with_delta(c: tuple[int, int, int, int], delta: float) -> None:
    assert 0.0 <= epsilon_lower_bound(*c, delta=delta) <= epsilon_lower_bound(*c)
    assert mu_lower_bound(*c) >= 0.0
    assert 0.0 <= total_variation_lower_bound(*c) <= 1.0


@pytest.mark.parametrize(("epsilon", "within"), [(0.5, 0.08), (1.0, 0.04), (2.0, 0.04), (4.0, 0.04)])
def test_randomised_response(epsilon: float, within: float) -> None:
    """An answer that is true with probability sigmoid(epsilon) is epsilon-private, and no more."""
    trials, truth = 100_000, 1.0 / (1.0 + np.exp(-epsilon))
    tp, tn = np.random.default_rng(int(10 * epsilon)).binomial(trials, truth, 2).tolist()
    bound = epsilon_lower_bound(tp, trials - tp, trials - tn, tn)
    assert (1.0 - within) * epsilon <= bound <= epsilon


def test_two_normals() -> None:
    """The true epsilon at delta 1e-6 is 4.887; mu is 1."""
    rng, n = np.random.default_rng(0), 50_000
    train, test = [(rng.normal(size=n), rng.normal(1.0, 1.0, n)) for _ in range(2)]
    threshold = find_threshold(*train, delta=1e-6)
    tp, fp = int(classify(test[1], threshold).sum()), int(classify(test[0], threshold).sum())
    shown = tp, n - tp, fp, n - fp
    assert 2.0 < epsilon_lower_bound(*shown, delta=1e-6) < 4.887
    half = int(classify(test[1], 0.5).sum()), int(classify(test[0], 0.5).sum())
    assert 0.95 < mu_lower_bound(half[0], n - half[0], half[1], n - half[1]) < 1.0
    distance = 2 * stats.norm.cdf(0.5) - 1
    assert 0.97 * distance < total_variation_lower_bound(half[0], n - half[0], half[1], n - half[1]) < distance
    assert area_under_curve(*test) == pytest.approx(stats.norm.cdf(1 / np.sqrt(2)), abs=0.005)
    caught = true_positive_rate_at(0.01, train[0], test[1])
    assert caught == pytest.approx(stats.norm.sf(stats.norm.isf(0.01) - 1.0), abs=0.01)


def test_epsilon_of_a_gaussian_mechanism() -> None:
    found = [gaussian_epsilon(mu, 1e-6) for mu in (1.0, 2.0, 4.0)]
    assert found == pytest.approx([4.887, 10.997, 26.36], abs=0.005)
    for mu, epsilon in zip((1.0, 2.0, 4.0), found, strict=True):
        delta = stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert delta == pytest.approx(1e-6, rel=1e-6)
    assert gaussian_epsilon(1e-9, 0.1) == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_the_bound_exceeds_the_truth_as_seldom_as_it_says(epsilon: float) -> None:
    """Over 500 audits with thresholds from separate trials, at a confidence of 0.8."""
    rng, n, wrong = np.random.default_rng(1), 400, 0
    for _ in range(500):
        scale = np.inf if epsilon == 0.0 else 1.0 / epsilon
        samples = [
            [rng.laplace(shift, scale, n) if epsilon else rng.normal(size=n) for shift in (0.0, 1.0)] for _ in range(2)
        ]
        threshold = find_threshold(*samples[0], confidence=0.8)
        tp, fp = (int(classify(samples[1][shift], threshold).sum()) for shift in (1, 0))
        wrong += epsilon_lower_bound(tp, n - tp, fp, n - fp, confidence=0.8) > epsilon
    assert wrong <= stats.binom.ppf(0.999, 500, 0.2)


def test_an_uncorrected_threshold_would_be_wrong_more_often() -> None:
    """The test above can fail: chosen on the same trials, the threshold flatters itself."""
    rng, n, wrong = np.random.default_rng(1), 400, 0
    for _ in range(500):
        first, second = rng.normal(size=(2, n))
        threshold = find_threshold(first, second, confidence=0.8)
        tp, fp = int(classify(second, threshold).sum()), int(classify(first, threshold).sum())
        wrong += epsilon_lower_bound(tp, n - tp, fp, n - fp, confidence=0.8) > 0.0
    assert wrong > stats.binom.ppf(0.999, 500, 0.2)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_area_under_curve_counts_pairs(first: list[int], second: list[int]) -> None:
    a, b = np.array(first, float), np.array(second, float)
    pairs = [(x < y) + (x == y) / 2 for x in a for y in b]
    assert area_under_curve(a, b) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((0, 0, 1, 1), {}, r"tp \+ fn = 0 and fp \+ tn = 2; each hypothesis needs at least one trial"),
        ((-1, 0, 1, 1), {}, "tp=-1 is out of range; use a whole number, 0 or more"),
        ((1, 0, 1, 1), {"confidence": 1.0}, "confidence=1.0 is out of range"),
        ((1, 0, 1, 1), {"delta": -0.1}, "delta=-0.1 is out of range"),
    ],
)
def test_bad_parameters_are_refused(arguments: tuple[int, ...], options: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        epsilon_lower_bound(*arguments, **options)
