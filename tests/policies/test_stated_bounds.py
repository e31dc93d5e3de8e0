"""Whatever an estimate states as a bound or a count holds, and standard errors have the coverage that they state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stated import AVERAGES, EXACT, SHAPES, list_trials
from vestige import (
    Bundle,
    Correlation,
    Covariance,
    Histogram,
    KeyedStreams,
    LinearRegression,
    Mean,
    Moments,
    Policy,
    Private,
    Ratio,
    Stream,
    Sum,
    combine,
)
from vestige.random.keys import AuditSeed
from vestige.types import Floats

PIECES = 24
"""Together with the ordinary one, they check more than 10,000 statements."""


def find_broken(names: list[str], seed: int, count: int) -> tuple[int, list[str]]:
    """The number of statements of some trials, and those that do not hold."""
    checked, broken = 0, []
    for trial in list_trials(names, list(SHAPES), seed, count):
        found = trial.check()
        checked += len(found)
        broken += [f"{trial}: {check.what}: {check.said}" for check in found if not check.holds]
    return checked, broken


@pytest.mark.parametrize("names", [list(AVERAGES), list(EXACT)], ids=["averages", "sketches"])
def test_what_is_stated_holds(names: list[str]) -> None:
    checked, broken = find_broken(names, 0, len(names))
    assert broken == []
    assert checked > 2 * len(names)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, PIECES + 1))
def test_ten_thousand_statements_hold(seed: int) -> None:
    checked, broken = find_broken([*AVERAGES, *EXACT], seed, 5 * len(AVERAGES | EXACT))
    assert broken == []
    assert checked >= 10_000 / PIECES


def test_a_count_that_may_be_off_says_so() -> None:
    """Presence in blocks, in words of a third of their usual length."""
    rng, policy = np.random.default_rng(0), Bundle({"a": Sum(), "b": Mean()})
    rows = rng.normal(1e6, 1.0, (9_000, 2))
    rows[np.arange(9_000) // 1_500 % 2 == 1] = np.nan
    streams = KeyedStreams(policy, retention=policy.default_retention // 3, seed=0)
    streams.extend([str(key) for key in range(20)] * 9_000, np.repeat(rows, 20, axis=0))
    wrong = 0
    for key in range(20):
        made = streams.estimate(str(key))
        off, said = abs(made.counts["b:mean"] - 4_500), made.count_errors["b:mean"]
        wrong += off > 0
        assert off <= said + 0.5
        assert said < 0.5 or any("`counted` may be off by up to" in note for note in made["b:mean"].notes)
    assert wrong > 0
    exact = KeyedStreams(policy, retention=policy.default_retention, seed=0)
    exact.extend(["here"] * 9_000, rows)
    made = exact.estimate("here")
    assert (made.counts["a:sum"], made.count_errors["a:sum"], made["b:mean"].notes) == (4_500, 0.0, ())


KEYS, EACH = 1_000, 1_000
Truth = Callable[[Any], tuple[object, object, object]]


def draw_pair(rng: np.random.Generator, n: int) -> Floats:
    """Two columns, the second twice the first with noise, and both about 3."""
    x = rng.normal(3.0, 1.0, n)
    return np.column_stack([x, 2.0 * x + rng.normal(-3.0, 1.0, n)])


def miss_some(rng: np.random.Generator, n: int) -> Floats:
    """The same with a third of the values missing."""
    rows = draw_pair(rng, n)
    rows[rng.random(rows.shape) < 1.0 / 3.0] = np.nan
    return rows


def draw_one(rng: np.random.Generator, n: int) -> Floats:
    """Normal, variance 4 about 10."""
    return rng.normal(10.0, 2.0, (n, 1))


COVERED: dict[str, tuple[Policy[Any], Callable[[np.random.Generator, int], Floats], Truth]] = {
    "mean": (Mean(spread=True), draw_one, lambda made: (made.value, made.standard_error, 10.0)),
    "mean with half-life": (
        Mean(spread=True, half_life=300.0),
        draw_one,
        lambda made: (made.value, made.standard_error, 10.0),
    ),
    "sum": (Sum(), draw_one, lambda made: (made.value, made.standard_error, 10.0 * EACH)),
    "histogram": (
        Histogram((10.0,)),
        draw_one,
        lambda made: (made.value[0] + 0.25 / EACH, made.standard_error[0], 0.5),
    ),
    "moments, mean": (Moments(4), draw_one, lambda made: (made.mean, made.standard_error, 10.0)),
    "moments, variance": (Moments(4), draw_one, lambda made: (made.variance, made.variance_error, 4.0)),
    "ratio": (Ratio(), draw_pair, lambda made: (made.value, made.standard_error, 1.0)),
    "covariance": (Covariance(2), draw_pair, lambda made: (made.mean, made.standard_error, 3.0)),
    "correlation": (
        Correlation(2),
        draw_pair,
        lambda made: (made.value[0, 1], made.standard_error[0, 1], 2.0 / np.sqrt(5.0)),
    ),
    "slope": (LinearRegression(1), draw_pair, lambda made: (made.value, made.standard_errors, 2.0)),
    "intercept": (LinearRegression(1), draw_pair, lambda made: (made.intercept, made.intercept_error, -3.0)),
    "bundle, mean": (
        Bundle({"a": Mean(), ("a", "b"): LinearRegression(1)}),
        miss_some,
        lambda made: (made["a:mean"].value, made["a:mean"].standard_error, 3.0),
    ),
    "bundle, slope": (
        Bundle({"a": Mean(), ("a", "b"): LinearRegression(1)}),
        miss_some,
        lambda made: (made["a,b:regression"].value, made["a,b:regression"].standard_errors, 2.0),
    ),
}
QUICK = ("mean", "slope")


def check_coverage(errors: Floats) -> None:
    """68% and 95% of errors in standard errors are below 1 and 1.96, within four deviations of such a share."""
    for limit, share in ((1.0, 0.6827), (1.96, 0.95)):
        off = abs(float((np.abs(errors) <= limit).mean()) - share)
        assert off <= 4.0 * np.sqrt(share * (1.0 - share) / len(errors))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in COVERED]
)
def test_standard_errors_have_the_coverage_that_they_state(name: str) -> None:
    policy, draw, look = COVERED[name]
    rows = draw(np.random.default_rng(7), KEYS * EACH)
    retention: int = getattr(policy, "default_retention", 512)
    streams = KeyedStreams(policy, retention=retention, seed=0)
    streams.extend([str(key) for key in range(KEYS)] * EACH, rows)
    errors: list[float] = []
    for key in range(KEYS):
        value, error, truth = look(streams.estimate(str(key)))
        errors.extend(np.ravel((np.asarray(value) - np.asarray(truth)) / np.asarray(error))[:1].tolist())
    check_coverage(np.array(errors))


@pytest.mark.slow
def test_standard_errors_with_noise_and_of_combined_streams_do_too() -> None:
    rng, noisy, combined = np.random.default_rng(8), [], []
    private: Policy[Any] = Private(Mean(spread=True), bounds=(20.0,), epsilon=1.0, delta=1e-6)
    for trial in range(400):
        parts = [Stream(Mean(spread=True), retention=256, seed=trial + part) for part in range(3)]
        for part, stream in enumerate(parts):
            stream.extend(draw_one(rng, 300 * (part + 1)))
        made: Any = combine([stream.estimate() for stream in parts])
        combined.append((float(made.value) - 10.0) / float(made.standard_error))
        stream = Stream(private, retention=1_024, seed=AuditSeed(trial))
        stream.extend(draw_one(rng, 5_120))
        made = stream.estimate()
        noisy.append((float(made.value) - 10.0) / float(made.standard_error))
    check_coverage(np.array(combined))
    check_coverage(np.array(noisy))
