"""Moments and covariances against numpy on the whole stream."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vestige import Covariance, Mean, Moments, Stream
from vestige.errors import DataError, ParameterError
from vestige.flights import flights
from vestige.policy import Policy
from vestige.types import Floats

SAMPLES: dict[str, Callable[[np.random.Generator], Floats]] = {
    "normal": lambda rng: rng.normal(size=100_000),
    "uniform": lambda rng: rng.uniform(size=100_000),
    "exponential": lambda rng: rng.exponential(size=100_000),
    "lognormal": lambda rng: rng.lognormal(size=100_000),
    "departure delays": lambda _: flights("dep_delay")[:, 0],
    "distances": lambda _: flights("distance")[:, 0],
    "far from zero": lambda rng: rng.normal(1e6, 1.0, size=100_000),
}


def standardised(rows: Floats, power: int) -> float:
    apart = rows - rows.mean()
    return float((apart**power).mean() / (apart**2).mean() ** (power / 2))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "departure delays" else []) for name in SAMPLES]
)
def test_moments_of_the_whole_stream(name: str) -> None:
    rows = SAMPLES[name](np.random.default_rng(0))
    stream = Stream(Moments(), retention=512, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    assert estimate.mean == pytest.approx(rows.mean(), abs=1e-4 * rows.std())
    assert estimate.variance == pytest.approx(rows.var(), rel=1e-4)
    assert estimate.skewness == pytest.approx(standardised(rows, 3), abs=1e-3)
    assert estimate.kurtosis == pytest.approx(standardised(rows, 4), rel=1e-3)
    assert estimate.standard_error == pytest.approx(rows.std() / np.sqrt(len(rows)), rel=1e-4)
    assert np.asarray(estimate.value).tolist() == [
        estimate.mean,
        estimate.variance,
        estimate.skewness,
        estimate.kurtosis,
    ]


def test_digits_that_are_left_where_the_mean_is_a_million_deviations() -> None:
    """Eight digits: the mean is kept to 2^-47 of itself, which is 1e-8 of the deviation."""
    rows = np.random.default_rng(1).gumbel(1e6, 1.0, size=50_000)
    stream = Stream(Moments(), retention=512, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    assert estimate.variance == pytest.approx(rows.var(), rel=1e-8)
    assert estimate.kurtosis == pytest.approx(standardised(rows, 4), rel=1e-6)


def test_every_prefix() -> None:
    rows = np.random.default_rng(2).gumbel(size=600)
    stream = Stream(Moments(order=2), retention=200, seed=0)
    for t in range(1, len(rows) + 1):
        stream.push(rows[t - 1])
        assert stream.estimate().variance == pytest.approx(rows[:t].var(), rel=1e-6, abs=1e-9)


def test_a_constant_has_no_shape() -> None:
    stream = Stream(Moments(), retention=512, seed=0)
    stream.extend(np.full(5_000, 2.5))
    estimate = stream.estimate()
    assert (estimate.mean, estimate.variance) == (2.5, 0.0)
    assert estimate.kurtosis is not None
    assert np.isnan(estimate.kurtosis)
    assert "All records are alike" in estimate.notes[0]


@pytest.mark.parametrize("unit", [1e-200, 1e-100])
def test_records_whose_powers_underflow_have_no_shape(unit: float) -> None:
    stream = Stream(Moments(), retention=512, seed=0)
    stream.extend(unit * np.arange(1_000.0))
    estimate = stream.estimate()
    assert estimate.mean == pytest.approx(499.5 * unit)
    assert estimate.kurtosis is not None
    assert np.isnan(estimate.kurtosis)
    assert "or they differ by so little" in estimate.notes[0]
    assert ("standard error cannot be trusted" in estimate.notes[0]) == (unit == 1e-200)


@pytest.mark.parametrize(("order", "named"), [(2, []), (3, ["skewness"]), (4, ["skewness", "kurtosis"])])
def test_no_shape_is_named_that_the_order_does_not_have(order: int, named: list[str]) -> None:
    stream = Stream(Moments(order), retention=512, seed=0)
    stream.extend(np.full(5_000, 2.5))
    (note,) = stream.estimate().notes
    assert [word for word in ("skewness", "kurtosis") if word in note] == named
    assert "variance and standard error cannot be trusted" in note


@pytest.mark.parametrize("policy", [Mean(2, spread=True), Covariance(2)])
def test_variances_that_underflow_are_not_trusted(policy: Policy) -> None:
    rows, notes = np.random.default_rng(0).normal(size=(5_000, 2)), []
    for unit in (1e-150, 1e-160, 1e-200):
        stream = Stream(policy, retention=1_024, seed=0)
        stream.extend(rows * [1.0, unit])
        notes.append(stream.estimate().notes)
    assert notes[0] == ()
    for note in notes[1:]:
        assert note[0].startswith("In 1 of 2 columns all records are alike, or they differ by so little")


@pytest.mark.slow
def test_the_standard_error_of_the_variance_is_that_of_repeated_streams() -> None:
    found = []
    for seed in range(150):
        stream = Stream(Moments(), retention=512, seed=0)
        stream.extend(np.random.default_rng(seed).exponential(size=4_000))
        found.append((stream.estimate().variance, stream.estimate().variance_error))
    variances, errors = np.array(found).T
    assert np.sqrt((errors**2).mean()) == pytest.approx(variances.std(), rel=4 / np.sqrt(2 * 150) + 0.1)


@pytest.mark.parametrize("retention", [1024, 2048])
def test_covariances(retention: int) -> None:
    rng = np.random.default_rng(3)
    rows = rng.lognormal(0.0, 0.5, size=(100_000, 4)) @ rng.normal(size=(4, 4)) + [0.0, 10.0, -1e3, 1.0]
    stream = Stream(Covariance(4), retention=retention, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    expected = np.cov(rows.T, ddof=0)
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert np.abs((estimate.value - expected) / scale).max() < 1e-4
    assert estimate.mean == pytest.approx(rows.mean(axis=0), abs=1e-3)
    assert estimate.correlation == pytest.approx(np.corrcoef(rows.T), abs=1e-3)


def test_covariances_of_flights() -> None:
    rows = flights("dep_delay", "distance", "air_time")
    stream = Stream(Covariance(3), retention=1024, seed=0)
    stream.extend(rows)
    assert stream.estimate().value == pytest.approx(np.cov(rows.T, ddof=0), rel=1e-4)


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="order=5 is above 4; use 2, 3 or 4"):
        Moments(order=5)
    with pytest.raises(ParameterError, match="order=1 is out of range"):
        Moments(order=1)
    stream = Stream(Moments(), retention=512, seed=0)
    with pytest.raises(DataError, match=r"row 1 of 2, column 0, is missing, infinite or beyond 1e\+75"):
        stream.extend([0.0, 1e80])
    assert stream.t == 0
    with pytest.raises(DataError, match=r"beyond 1e\+75"):
        stream.push(1e80)
