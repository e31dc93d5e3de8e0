"""The bound from rate distortion: known values, its derivation, and quantisers and subsets that try to beat it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from vestige import theory
from vestige.errors import ParameterError
from vestige.types import Floats

EQUAL, RECORDS = 1_000_000, 1_100_000


@pytest.mark.parametrize(
    ("dim", "retention", "batch", "one_in_three"), [(1, 11, 10, 8), (4, 37, 35, 30), (65, 472, 443, 359)]
)
def test_what_a_million_records_require(dim: int, retention: int, batch: int, one_in_three: int) -> None:
    """Mean squared error needs more than "within the error one time in three" does."""
    error = dim / EQUAL
    assert theory.least_retention(dim, error, RECORDS) == retention
    assert theory.least_batch(dim, error, RECORDS) == batch
    assert theory.finite_lower_bound(dim, error) == one_in_three
    assert theory.information_floor(dim, RECORDS, retention, retention) <= error
    assert theory.information_floor(dim, RECORDS, retention - 1, retention - 1) > error
    assert theory.information_floor(dim, RECORDS, 2 * batch, batch) <= error
    assert theory.information_floor(dim, RECORDS, 2 * batch - 2, batch - 1) > error


def test_the_heuristic_adds_up_what_every_writing_leaves() -> None:
    """The k-th of K writings counts with the square of k / K: here they are added up one by one."""
    for dim, batch in ((1, 17), (4, 61)):
        added = {}
        for b in (batch - 1, batch):
            updates = RECORDS // b
            weights = (np.arange(1, updates + 1) / updates) ** 2
            added[b] = float(weights.sum()) * (theory.information_floor(dim, RECORDS, b, b) - dim / RECORDS)
        assert added[batch] <= dim / EQUAL - dim / RECORDS < added[batch - 1]
        assert theory.heuristic_batch(dim, dim / EQUAL, RECORDS) == batch


@pytest.mark.parametrize(("records", "window", "prior"), [(9, 4, 2.0), (12, 1, 0.5), (7, 6, 10.0), (5, 5, 1.0)])
def test_the_derivation(records: int, window: int, prior: float) -> None:
    """The two variances of the proof, from the joint covariance of the mean and all records by Schur complements."""
    c = prior**-2
    joint = np.full((records + 1, records + 1), prior**2) + np.diag([0.0, *np.ones(records)])
    assert schur(joint, [0], range(1, records + 1))[0, 0] == pytest.approx(1.0 / (records + c))
    weights = np.linalg.solve(joint[1:, 1:], joint[1:, 0])  # of the posterior mean B
    rest = list(range(1, records - window + 1))
    last = range(records - window + 1, records + 1)
    apart = schur(joint, rest, last)
    variance = weights[: len(rest)] @ apart @ weights[: len(rest)]
    assert variance == pytest.approx((records - window) / ((records + c) * (window + c)), abs=1e-12)


def schur(joint: Floats, wanted: list[int], given: range) -> Floats:
    """The covariance of some variables given others."""
    known = np.linalg.solve(joint[np.ix_(given, given)], joint[np.ix_(given, wanted)])
    conditional: Floats = joint[np.ix_(wanted, wanted)] - joint[np.ix_(wanted, given)] @ known
    return conditional


@pytest.mark.parametrize("dim", [1, 3])
def test_the_bound_at_its_ends(dim: int) -> None:
    """Without bits it is the error of a window; with many, or with everything in sight, that of all data."""
    assert theory.information_floor(dim, 1_000, 20, 0) == pytest.approx(dim / 20)
    assert theory.information_floor(dim, 1_000, 20, 500) == pytest.approx(dim / 1_000)
    assert theory.information_floor(dim, 1_000, 1_000, 3) == theory.information_floor(dim, 1_000, 5_000, 3)
    assert theory.least_retention(dim, dim / 100, 100) == 100
    assert theory.least_retention(dim, float(dim), 10**9) == 1


def find_levels(bits: int) -> Floats:
    """The best quantiser of a standard normal: each of its numbers is the mean of all that are nearest to it."""
    levels = stats.norm.ppf((np.arange(2**bits) + 0.5) / 2**bits)
    for _ in range(2_000):
        borders = np.array([-np.inf, *((levels[1:] + levels[:-1]) / 2.0), np.inf])
        levels = -np.diff(stats.norm.pdf(borders)) / np.diff(stats.norm.cdf(borders))
    return np.asarray(levels, np.float64)


LLOYD_MAX = {1: 0.3634, 2: 0.1175, 3: 0.03454}  # Max (1960), Table I


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("mean", [0.0, 987.6])
def test_the_best_quantiser_is_above_the_bound(bits: int, mean: float) -> None:
    """The writer knows the average of all records, the reader all of the last ones: nobody does better at dim 1.

    Its error is that of all data plus the conditional variance times the distortion of the quantiser, which is known.
    """
    records, window, trials = 40, bits, 40_000
    rows = mean + np.random.default_rng([bits, int(mean)]).normal(size=(trials, records))
    levels, spread = find_levels(bits), math.sqrt(1.0 / window - 1.0 / records)
    side, whole = rows[:, -window:].mean(axis=1), rows.mean(axis=1)
    places = (whole - side) / spread
    nearest = levels[np.abs(places[:, None] - levels).argmin(axis=1)]
    errors = (side + spread * nearest - mean) ** 2
    expected = 1.0 / records + (1.0 / window - 1.0 / records) * LLOYD_MAX[bits]
    noise = errors.std() / math.sqrt(trials)
    assert errors.mean() == pytest.approx(expected, abs=4.0 * noise)
    floor = theory.information_floor(1, records, window, bits)
    assert floor < expected - 4.0 * noise
    assert expected - 1.0 / records < math.pi * math.sqrt(3.0) / 2.0 * (
        floor - 1.0 / records
    )  # many bits: Panter, Dite


def test_a_quantiser_of_many_dimensions_comes_near_the_bound() -> None:
    """One bit for each of 1, 4 or 8 numbers, in one codebook that was fitted to data.

    The distortion falls from 1 - 2 / pi with the dimension, towards the 1/4 of the bound, and stays above it.
    """
    rng, distortions = np.random.default_rng(5), []
    for dim in (1, 4, 8):
        sample, fresh = rng.normal(size=(10_000, dim)), rng.normal(size=(10_000, dim))
        codebook = sample[: 2**dim]
        for _ in range(20):
            nearest = find_nearest(sample, codebook)
            counts = np.maximum(np.bincount(nearest, minlength=len(codebook)), 1)
            sums = np.stack([np.bincount(nearest, column, len(codebook)) for column in sample.T], axis=1)
            codebook = sums / counts[:, None]
        errors = ((fresh - codebook[find_nearest(fresh, codebook)]) ** 2).mean(axis=1)
        noise = errors.std() / math.sqrt(len(errors))
        assert errors.mean() - 4.0 * noise > theory.information_floor(dim, 10**12, 1, dim) / dim
        distortions.append(errors.mean())
    assert distortions == sorted(distortions, reverse=True)


def find_nearest(points: Floats, codebook: Floats) -> Floats:
    """The index of the nearest word for each point."""
    return np.asarray((points @ codebook.T - (codebook**2).sum(axis=1) / 2.0).argmax(axis=1))


@pytest.mark.parametrize(("dim", "retention", "records"), [(1, 2, 5), (1, 4, 30), (1, 8, 40), (2, 6, 40), (4, 8, 10)])
def test_the_best_subset_is_above_the_bound(dim: int, retention: int, records: int) -> None:
    """One who knows all records keeps the subset of the last ones whose average is nearest to that of all."""
    trials, rng = 1_000, np.random.default_rng([dim, retention])
    choices = np.array([c for c in itertools.product((0.0, 1.0), repeat=retention) if any(c)])
    rows = rng.normal(size=(trials, records, dim))
    averages = choices @ rows[:, -retention:] / choices.sum(axis=1)[:, None]
    whole = rows.mean(axis=1)
    best = ((averages - whole[:, None]) ** 2).sum(axis=2).argmin(axis=1)
    errors = (averages[np.arange(trials), best] ** 2).sum(axis=1)
    noise = errors.std() / math.sqrt(trials)
    assert errors.mean() + 4.0 * noise > theory.streaming_floor(dim, records, retention)


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(2, 10**7), st.floats(1.0, 1e4))
def test_a_shorter_retention_is_too_short(dim: int, records: int, excess: float) -> None:
    error = dim / records * excess
    retention = theory.least_retention(dim, error, records)
    rounded = error * (1.0 + 1e-9)
    assert theory.streaming_floor(dim, records, retention) <= rounded
    assert retention == 1 or theory.streaming_floor(dim, records, retention - 1) > error / (1.0 + 1e-9)
    batch = theory.least_batch(dim, error, records)
    assert theory.information_floor(dim, records, 2 * batch, batch) <= rounded
    assert batch <= retention <= records
    assert theory.heuristic_batch(dim, error, records) >= theory.least_batch(dim, error, records)


def test_the_older_bound_counts_where_it_is_sharper() -> None:
    """In one dimension and with far more records than the error requires, by a few percent."""
    for retention in (4, 12):
        older = theory.mean_squared_error_floor(1, retention)
        assert theory.information_floor(1, 10**15, retention, retention) < older * (1.0 - 0.03)
        assert theory.streaming_floor(1, 10**15, retention) == older
        assert theory.least_retention(1, older * (1.0 - 1e-6), 10**15) == retention + 1


def test_large_counts_are_quick_and_bad_parameters_are_refused() -> None:
    assert theory.least_retention(10**6, 1e-3, 11 * 10**8) == 5_481_694
    with pytest.raises(
        ParameterError, match=r"error=0.001 is below dim / records = 0.002, .*; use a larger error or m"
    ):
        theory.least_retention(2, 1e-3, 1_000)
    for function in (theory.least_retention, theory.least_batch, theory.heuristic_batch):
        with pytest.raises(ParameterError, match="records=0 is out of range"):
            function(1, 0.1, 0)
        with pytest.raises(ParameterError, match=r"error=nan is out of range; use a number above 0"):
            function(1, math.nan, 10)
    with pytest.raises(ParameterError, match="bits=-1 is out of range"):
        theory.information_floor(1, 10, 2, -1)
    with pytest.raises(ParameterError, match="window=0 is out of range"):
        theory.information_floor(1, 10, 0, 1)
