"""The upper bounds hold: the paper's algorithms reach the error with the stated retention and number of records."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import Batched, Policy, Stream, paper, subset, theory
from vestige.errors import ParameterError
from vestige.types import Floats


def squared_error(policy: Policy, retention: int, rows: Floats, truth: Floats, seed: int) -> float:
    stream = Stream(policy, retention=retention, seed=seed)
    stream.extend(rows)
    return float(((np.atleast_1d(stream.estimate().value) - truth) ** 2).sum())


def mean_with_spread(errors: list[float] | Floats) -> tuple[float, float]:
    return float(np.mean(errors)), float(np.std(errors, ddof=1)) / math.sqrt(len(errors))


def mean_errors(
    policy: Policy, dim: int, retention: int, rounds: int, trials: int, cut: float = math.inf
) -> tuple[float, float]:
    """Of the mean of standard normals; where cut, no more than that, which can only make the mean error smaller."""
    errors = np.empty(trials)
    for seed in range(trials):
        rows = np.random.default_rng([seed, dim, retention]).normal(size=(rounds, dim))
        errors[seed] = squared_error(policy, retention, rows, np.zeros(dim), seed)
    return mean_with_spread(np.minimum(errors, cut))


@pytest.mark.parametrize(("dim", "error"), [(1, 0.5), (1, 0.3), (1, 0.1), (1, 0.03), (1, 0.01), (2, 0.2), (3, 0.5)])
def test_the_mean_by_coordinates(dim: int, error: float) -> None:
    """Theorem 3.1, with four standard errors to spare."""
    retention, rounds = theory.mean_retention(dim, error), theory.mean_rounds(dim, error)
    found, spread = mean_errors(paper.CoordinateMean(dim), dim, retention, rounds, 100)
    assert found + 4.0 * spread < error


@pytest.mark.parametrize(("dim", "error"), [(1, 0.5), (1, 0.3), (1, 0.1), (2, 1.0), (2, 0.5)])
def test_the_mean_as_a_whole(dim: int, error: float) -> None:
    """Proposition 3.4, likewise; smaller errors ask for more than an exhaustive search can take."""
    retention, rounds = theory.simple_mean_retention(dim, error), theory.simple_mean_rounds(dim, error)
    found, spread = mean_errors(paper.SimpleMean(dim), dim, retention, rounds, 100)
    assert found + 4.0 * spread < error


def test_less_than_half_of_the_constant_is_too_little() -> None:
    """The measured constant of Theorem 3.1 is not idle."""
    retention, rounds = theory.mean_retention(1, 0.01, constant=2.1), theory.mean_rounds(1, 0.01)
    found, spread = mean_errors(paper.CoordinateMean(1), 1, retention, rounds, 100, cut=0.1)
    assert found - 4.0 * spread > 0.01


def test_a_coordinate_that_learns_from_its_own_segment_takes_dim_times_as_long() -> None:
    """The count of records as the theorem states it is too few for the algorithm that Section 3.3 describes."""
    dim, error = 8, 0.08
    retention, batch = theory.mean_retention(dim, error), theory.mean_retention(dim, error) // 2
    few, rounds = theory.mean_rounds(dim, error, segmented=False), theory.mean_rounds(dim, error)
    found, spread = mean_errors(paper.CoordinateMean(dim), dim, retention, -(-few // batch) * batch, 40)
    assert found - 4.0 * spread > error
    found, spread = mean_errors(paper.CoordinateMean(dim), dim, retention, -(-rounds // batch) * batch, 40)
    assert found + 4.0 * spread < error


def regression_errors(dim: int, error: float, trials: int) -> tuple[float, float]:
    """Of the coefficients, with standard normal predictors and noise."""
    retention, rounds = theory.regression_retention(dim, error), theory.regression_rounds(dim, error)
    truth, errors = np.arange(1.0, dim + 1.0), []
    for seed in range(trials):
        rng = np.random.default_rng([seed, dim])
        x = rng.normal(size=(rounds, dim))
        rows = np.column_stack([x, x @ truth + rng.normal(size=rounds)])
        errors.append(squared_error(paper.Regression(dim), retention, rows, truth, seed))
    return mean_with_spread(errors)


@pytest.mark.parametrize(("dim", "error", "trials"), [(1, 0.1, 60), (2, 0.3, 40), (2, 0.05, 40)])
def test_the_regression(dim: int, error: float, trials: int) -> None:
    """Theorem 4.1."""
    found, spread = regression_errors(dim, error, trials)
    assert found + 4.0 * spread < error


@pytest.mark.slow(2)
@pytest.mark.parametrize(("dim", "error"), [(1, 0.01), (1, 1e-3), (2, 0.01), (2, 1e-3), (3, 0.02), (3, 1e-3)])
def test_the_measured_constants_of_the_regression(dim: int, error: float) -> None:
    found, spread = regression_errors(dim, error, 200)
    assert found + 3.0 * spread < error


@pytest.mark.slow
@pytest.mark.parametrize(("error", "trials"), [(1e-3, 400), (1e-4, 200)])
def test_the_measured_constants_of_the_mean(error: float, trials: int) -> None:
    """Algorithm 1 in one dimension, all trials side by side, by an exact solver: 0.48 and 0.54 times the error."""
    batch, rng = theory.mean_retention(1, error) // 2, np.random.default_rng(1)
    s = rng.normal(size=(trials, batch)).mean(axis=1)
    for t in range(2, math.ceil(theory.mean_rounds(1, error) / batch) + 1):
        learn_from, keep_from = np.split(rng.normal(size=(trials, batch)), 2, axis=1)
        z = s + (learn_from.mean(axis=1) - s) / t
        s = np.array([float(chosen.average) for chosen in subset.nearest_averages(keep_from, z, method="meet")])
    found, spread = mean_with_spread(s**2)
    assert found + 4.0 * spread < error


BOUNDS: list[Callable[..., int]] = [
    theory.mean_retention,
    theory.mean_rounds,
    theory.simple_mean_retention,
    theory.simple_mean_rounds,
    theory.regression_retention,
    theory.regression_rounds,
    theory.window_retention,
]


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.__name__)
@given(
    st.integers(1, 50), st.integers(1, 50), st.floats(-20.0, -0.7).map(math.exp), st.floats(-20.0, -0.7).map(math.exp)
)
def test_more_dimensions_and_smaller_errors_need_more(
    bound: Callable[..., int], d1: int, d2: int, e1: float, e2: float
) -> None:
    assert bound(min(d1, d2), max(e1, e2)) <= bound(max(d1, d2), min(e1, e2))


@given(st.integers(1, 100), st.floats(-20.0, -0.7).map(math.exp))
def test_upper_bounds_are_above_lower_bounds(dim: int, error: float) -> None:
    """An expected error of e is below 3 e / 2 with a chance of 1/3 (Markov), which too little retention forbids."""
    needed = theory.finite_lower_bound(dim, 1.5 * error)
    assert theory.mean_retention(dim, error) >= needed
    assert theory.simple_mean_retention(dim, error) >= needed
    assert theory.window_retention(dim, error) >= needed


@given(st.integers(1, 20), st.floats(-12.0, -1.0).map(math.exp), st.floats(0.25, 9.0))
def test_units_do_not_matter(dim: int, error: float, variance: float) -> None:
    scaled = error * variance
    assert theory.mean_retention(dim, scaled, variance=variance) == pytest.approx(
        theory.mean_retention(dim, error), abs=4 * dim
    )
    assert theory.mean_rounds(dim, scaled, variance=variance) == pytest.approx(theory.mean_rounds(dim, error), abs=1)
    deviation = math.sqrt(variance)
    found = theory.regression_rounds(dim, scaled, noise=deviation)
    assert found == pytest.approx(theory.regression_rounds(dim, error), abs=1)


def test_exponentially_better_than_a_window() -> None:
    """Ten times less error: a constant more of retention, against ten times more."""
    more = [theory.mean_retention(1, 10.0**-p) for p in range(2, 10)]
    assert all(0 < step <= 2 * (4.5 * math.log(10.0) + 2.0) for step in np.diff(more))
    assert theory.window_retention(1, 1e-9) == pytest.approx(10 * theory.window_retention(1, 1e-8))


def test_the_window_needs_what_it_is_said_to() -> None:
    records = np.random.default_rng(0).normal(size=(4_000, theory.window_retention(2, 0.1), 2))
    found, spread = mean_with_spread((records.mean(axis=1) ** 2).sum(axis=1))
    assert found == pytest.approx(0.1, abs=4.0 * spread)


def test_groups_are_as_large_as_said() -> None:
    assert theory.regression_retention(2, 0.01, group=10) == 2 * theory.regression_retention(2, 0.01, group=5)
    batch = theory.regression_retention(3, 0.1) // 2
    Batched(paper.Regression(3), batch=batch)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"error=0.6 is above 0.5; a short window reaches that; use window_retention"
    ):
        theory.mean_retention(1, 0.6)
    with pytest.raises(ParameterError, match=r"error=0.4 is above 0.25"):
        theory.simple_mean_retention(1, 0.4, ratio=2.0)
    with pytest.raises(ParameterError, match="group=1 is out of range; use a whole number, 2 or more"):
        theory.regression_retention(2, 0.1, group=1)
    with pytest.raises(ParameterError, match="variance=0 is out of range; use a number above 0"):
        theory.mean_rounds(1, 0.1, variance=0)
    with pytest.raises(ParameterError, match=r"smallest_eigenvalue=-1.0 is out of range"):
        theory.regression_rounds(1, 0.1, smallest_eigenvalue=-1.0)
    with pytest.raises(ParameterError, match="constant=nan is out of range"):
        theory.mean_retention(1, 0.1, constant=math.nan)
