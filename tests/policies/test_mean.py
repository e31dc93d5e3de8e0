"""The all-time mean out of a window: as good as the mean of all data, whatever the data look like."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from vestige import Mean, Stream, Window
from vestige.errors import NoRecordsError, ParameterError
from vestige.flights import flights
from vestige.types import Floats

STREAMS, RECORDS = 200, 48_000
Draw = Callable[[np.random.Generator, int], Floats]
DISTRIBUTIONS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "uniform": (lambda rng, n: rng.random(n), 0.5),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "student-t(3)": (lambda rng, n: rng.standard_t(3, size=n), 0.0),
    "lognormal(0,1)": (lambda rng, n: rng.lognormal(size=n), float(np.exp(0.5))),
}


def error_in_standard_errors(rows: Floats, policy: Mean | Window, retention: int, seed: int = 0) -> Floats:
    """How far the last answer is from the mean of all rows, in standard errors of that mean."""
    stream = Stream(policy, retention=retention, seed=seed)
    stream.extend(rows)
    scale = np.abs(rows).max()  # so that squares do not overflow
    scaled = rows / scale
    error = np.abs(stream.estimate().value / scale - scaled.mean(axis=0))
    relative: Floats = error / (scaled.std(axis=0, ddof=1) / np.sqrt(len(rows)))
    return relative


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_as_good_as_the_mean_of_all_data(name: str) -> None:
    """Mean squared error at most 1.05 times that of the all-data mean, over 50 seeded streams.

    What encoding adds has mean 0 whatever the records are, so that its squares add to those of the mean of all.
    """
    draw, truth = DISTRIBUTIONS[name]
    added, optimum = [], []
    for seed in range(STREAMS // 4):
        rows = draw(np.random.default_rng(seed), RECORDS)
        stream = Stream(Mean(), retention=96, seed=seed)
        stream.extend(rows)
        added.append(float(stream.estimate().value - rows.mean()) ** 2)
        optimum.append((rows.mean() - truth) ** 2)
    assert np.mean(added) <= 0.05 * np.mean(optimum)


def test_as_good_as_the_mean_of_all_data_in_four_dimensions() -> None:
    """How far the answer is from that mean, and how far the mean is off, are independent for normals."""
    mixing = np.array([[1.0, 0.0, 0.0, 0.0], [0.9, 0.4, 0.0, 0.0], [0.5, -0.5, 1.0, 0.0], [0.2, 0.2, 0.2, 3.0]])
    ours, optimum = 0.0, 0.0
    for seed in range(STREAMS // 16):
        rows = np.random.default_rng(seed).normal(size=(RECORDS, 4)) @ mixing.T
        stream = Stream(Mean(dim=4), retention=400, seed=seed)
        stream.extend(rows)
        ours += np.sum(np.square(stream.estimate().value - rows.mean(axis=0)))
        optimum += np.sum(np.square(rows.mean(axis=0)))
    assert ours <= 0.05 * optimum


@pytest.mark.parametrize("column", ["dep_delay", "air_time", "distance"])
@pytest.mark.parametrize("retention", [512, 80])
def test_flights(column: str, retention: int) -> None:
    rows = flights(column)[:, 0]
    assert error_in_standard_errors(rows, Mean(), retention) <= 0.05
    assert error_in_standard_errors(rows, Window(), retention) > 10
    if retention == 80:
        assert error_in_standard_errors(rows, Mean(channel="bits"), retention) <= 0.01


ODD: dict[str, Floats] = {
    "whole numbers": np.random.default_rng(0).poisson(3.0, 20_000).astype(float),
    "cents": np.random.default_rng(0).integers(0, 5_000, 20_000) / 100,
    "two values": np.random.default_rng(0).integers(0, 2, 20_000).astype(float),
    "huge and tiny": np.tile([1e150, 1e-150], 10_000),
    "huge of both signs": np.tile([1e299, -1e299, 1e299], 7_000),
    "far from zero": 1e9 + np.random.default_rng(0).normal(size=20_000),
    "sorted": np.sort(np.random.default_rng(0).normal(size=20_000)),
    "sorted whole numbers": np.arange(20_000.0),
    "drifting": np.cumsum(np.random.default_rng(0).normal(size=20_000)),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("retention", [96, 512])
def test_odd_data(name: str, retention: int) -> None:
    assert error_in_standard_errors(ODD[name], Mean(), retention) <= 0.05


@pytest.mark.parametrize("value", [0.0, 0.1, -7.0, 1e-310, 1e300])
def test_constant_data_give_the_constant(value: float) -> None:
    stream = Stream(Mean(), retention=96, seed=0)
    stream.extend(np.full(10_000, value))
    assert stream.estimate().value == pytest.approx(value, rel=1e-14)


def test_a_plain_average_of_what_is_kept_is_the_all_time_mean() -> None:
    """In one dimension, right after an update written as an average: anybody's AVG() will do."""
    rows = np.random.default_rng(0).normal(size=9_600)
    stream = Stream(Mean(channel="average"), retention=96, seed=0)
    stream.extend(rows)
    assert stream.clock.pending == 0
    assert stream.retained.values.mean() == pytest.approx(rows.mean(), abs=0.02 / np.sqrt(9_600))


def test_every_prefix_against_numpy() -> None:
    rows = np.random.default_rng(4).gumbel(size=1_000)
    stream = Stream(Mean(), retention=96, seed=1)
    for t, row in enumerate(rows, start=1):
        stream.push(row)
        spread = rows[:t].std() / np.sqrt(t) if t > 1 else 1.0
        assert abs(stream.estimate().value - rows[:t].mean()) <= 0.1 * spread + 1e-12


def test_parameters_are_checked() -> None:
    with pytest.raises(ParameterError, match="dim=0 is out of range"):
        Mean(dim=0)
    with pytest.raises(ParameterError, match="channel='smoke' is unknown"):
        Mean(channel="smoke")


@pytest.mark.parametrize("channel", ["auto", "bits"])
@pytest.mark.parametrize("share", [0.01, 0.05])
def test_requests_cost_little(channel: str, share: float) -> None:
    """On drifting flights, with removal requested for many of the newest records: still far below a standard error."""
    rows = flights("dep_delay")[:20_000, 0]
    stream = Stream(Mean(channel=channel), retention=80, seed=1)
    rng = np.random.default_rng(5)
    for start in range(0, len(rows), stream.batch):
        stream.extend(rows[start : start + stream.batch - 1])
        stream.forget(rounds=stream.t - np.flatnonzero(rng.random(stream.batch - 1) < share))
        stream.push(rows[start + stream.batch - 1])
    assert abs(stream.estimate().value - rows.mean()) <= 0.05 * rows.std() / np.sqrt(len(rows))


def test_an_encoded_batch_whose_records_are_gone_gives_no_answer() -> None:
    stream = Stream(Mean(dim=2, channel="average"), retention=192, seed=0)
    stream.extend(np.random.default_rng(0).normal(size=(200, 2)))
    kept = stream.retained
    first = (kept.rounds - stream.clock.first) % 2 == 0
    rest = kept.where(~first | (kept.rounds > stream.clock.last))
    again = Stream(Mean(dim=2, channel="average"), retention=192, retained=rest, clock=stream.clock)
    with pytest.raises(NoRecordsError, match="are missing, so what it encoded is lost"):
        again.estimate()


def test_a_half_life_gives_the_exponentially_weighted_mean_of_every_prefix() -> None:
    rows = np.random.default_rng(6).normal(size=(700, 2)).cumsum(axis=0)
    for channel, near in (("auto", 0.05), ("bits", 1e-3)):
        stream = Stream(Mean(dim=2, channel=channel, half_life=90.0), retention=200, seed=2)
        for t in range(1, len(rows) + 1):
            stream.push(rows[t - 1])
            weights = 0.5 ** (np.arange(t - 1, -1, -1) / 90.0)
            expected = weights @ rows[:t] / weights.sum()
            assert np.allclose(stream.estimate().value, expected, atol=near, rtol=near)


def test_a_spread_gives_a_standard_error() -> None:
    rows = np.random.default_rng(7).gamma(2.0, size=(20_000, 2))
    stream = Stream(Mean(dim=2, spread=True), retention=400, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    assert estimate.value == pytest.approx(rows.mean(axis=0), rel=1e-6)
    assert estimate.variance == pytest.approx(rows.var(axis=0), rel=1e-6)
    assert estimate.standard_error == pytest.approx(rows.std(axis=0) / np.sqrt(len(rows)), rel=1e-6)
    one = Stream(Mean(spread=True), retention=200, seed=0)
    one.extend(rows[:, 0])
    assert isinstance(one.estimate().standard_error, float)
    with pytest.raises(ParameterError, match="channel='average' cannot hold a variance"):
        Mean(channel="average", spread=True)
    with pytest.raises(ParameterError, match=r"half_life=-1 is out of range; use a number of records above 0"):
        Mean(half_life=-1)


def test_an_estimate_shows_its_fields_and_has_none_where_nothing_is_known() -> None:
    stream = Stream(Mean(), retention=96, seed=0)
    stream.push(1.0)
    estimate = stream.estimate()
    assert {"standard_error", "variance"} <= set(dir(estimate))
    assert (estimate.standard_error, estimate.variance) == (None, None)


def test_an_estimate_can_be_copied_and_pickled() -> None:
    stream = Stream(Mean(spread=True), retention=192, seed=0)
    stream.extend(range(500))
    estimate = stream.estimate()
    for again in (copy.deepcopy(estimate), pickle.loads(pickle.dumps(estimate))):
        assert (again.value, again.standard_error) == (estimate.value, estimate.standard_error)
    later = pickle.loads(pickle.dumps(stream))
    later.push(3.0)
    assert later.t == 501


KINDS: dict[str, Floats] = {
    "sorted": np.sort(np.random.default_rng(0).normal(size=30_000)),
    "drifting": np.cumsum(np.random.default_rng(0).normal(size=30_000)),
    "constant": np.full(30_000, 7.3),
    "two values": np.where(np.random.default_rng(0).random(30_000) < 0.5, 0.1, 0.3),
    "rare": np.where(np.random.default_rng(0).random(30_000) < 0.001, 1.0, 0.0),
    "huge": 1e290 * np.random.default_rng(0).normal(2.0, 1.0, 30_000),
    "tiny": 1e-280 * np.random.default_rng(0).normal(2.0, 1.0, 30_000),
    "alternating": np.tile([1.0, -1.0], 15_000),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("channel", ["bits", "auto"])
@pytest.mark.parametrize("dim", [1, 3])
def test_all_kinds_of_data_at_a_retention_of_96_for_each_number(name: str, channel: str, dim: int) -> None:
    """Beside ordinary columns, which do not suffer from it either."""
    rows = np.random.default_rng(1).normal(5.0, 2.0, (30_000, dim))
    rows[:, 0] = KINDS[name]
    stream = Stream(Mean(dim, channel=channel), retention=96 * dim, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    unit = np.abs(rows).max(axis=0)
    mean, spread = (rows / unit).mean(axis=0), (rows / unit).std(axis=0)
    off = np.abs(np.atleast_1d(estimate.value) / unit - mean)
    assert np.all(off <= 0.05 * spread / np.sqrt(len(rows)) + 1e-14)
    assert estimate.notes == ()
