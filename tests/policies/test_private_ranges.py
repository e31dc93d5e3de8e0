"""Bounds by both ends: the same mechanism about the middle between them, so that the price is that of half the range.

The reference is exact: moving all values and both ends by the same whole number changes no encoded number, and what is
concluded from averages about a centre is compared with fractions.
"""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from served import serve_here

from vestige import (
    Bundle,
    Correlation,
    Count,
    Covariance,
    Histogram,
    KeyedStreams,
    LinearRegression,
    Mean,
    MemoryStore,
    Moments,
    ParameterError,
    Private,
    Ratio,
    Shares,
    Stream,
    Sum,
    statistics,
)
from vestige.audit import AuditSeed, measure_leakage
from vestige.cli import command
from vestige.noise import Noise
from vestige.planning.data_model import DataModel
from vestige.planning.plan import make_private
from vestige.planning.prediction import predict_with
from vestige.policies import Encoded
from vestige.policies.private import check_bound
from vestige.serialization import from_dict, to_dict
from vestige.store import open_store
from vestige.stream.open import open_stream
from vestige.types import Floats

PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
METRICS: dict[str | tuple[str, ...], Any] = {
    "a": [Mean(), Sum(), Moments(3)],
    ("a", "b"): [Correlation(2), Ratio()],
    "b": [Count(), Histogram((0.0, 1.0))],
}
RANGES = [(0.0, 200.0), (-3.0, 5.0)]
"""Their middles are whole numbers, so that nothing is rounded where values are moved by them."""
POLICIES: dict[str, Encoded[Any]] = {
    "mean": Mean(2),
    "spread": Mean(2, spread=True),
    "sum": Sum(2),
    "ratio": Ratio(),
    "moments": Moments(4),
    "covariance": Covariance(2),
    "correlation": Correlation(2),
    "regression": LinearRegression(1),
    "bundle": Bundle(METRICS),
}
NOT_MOVED = {"ratio", "bundle"}
"""What a ratio leaves of a record depends on where zero lies."""


def bound(policy: Encoded[Any], ranges: list[Any]) -> Private[Any]:
    limits = ranges[: policy.columns]
    bounds = dict(zip(policy.column_names, limits, strict=True)) if policy.column_names else limits
    return Private(policy, bounds=bounds, **PROMISE)


def draw(policy: Encoded[Any], count: int, seed: int = 0) -> Floats:
    """Eighths, some of them beyond the ranges."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(-400, 2_000, count), rng.integers(-60, 80, count)])[:, : policy.columns] / 8.0
    rows[:, -1] += np.round(rows[:, 0] / 64.0)
    return np.where(rng.random(rows.shape) < 0.1, np.nan, rows) if policy.takes_missing else rows


@pytest.mark.parametrize("name", POLICIES)
def test_it_is_the_mechanism_of_half_the_range_about_the_middle(name: str) -> None:
    policy = POLICIES[name]
    rows, middles = draw(policy, 3_000), np.array([100.0, 1.0])[: policy.columns]
    ends, halves = bound(policy, RANGES), bound(policy, [100.0, 4.0])
    streams = [Stream(each, retention=2_048, seed=AuditSeed(7)) for each in (ends, halves)]
    for stream, values in zip(streams, (rows, rows - middles), strict=True):
        stream.extend(values)
    if name == "bundle":  # a histogram sees the values as they are
        assert ends.statistic.scales.tolist() == halves.statistic.scales.tolist()
        return
    one, other = (stream.estimate() for stream in streams)
    assert one.basis.numbers.tobytes() == other.basis.numbers.tobytes()
    assert np.array_equal(streams[0].retained.rounds, streams[1].retained.rounds)
    assert ends.noise(streams[0].clock) == halves.noise(streams[1].clock)
    assert ends.default_retention == halves.default_retention


ENDS = st.tuples(st.integers(-1_000, 1_000), st.integers(1, 500)).map(lambda x: (float(x[0]), float(x[0] + x[1])))


@settings(max_examples=60, deadline=None)
@given(ENDS, ENDS, st.sampled_from(sorted(POLICIES)), st.integers(0, 2**32 - 1))
def test_no_record_moves_the_sums_by_more_than_twice_the_steps(first: Any, second: Any, name: str, seed: int) -> None:
    """All pairs of corners of the box, of points beyond it, of points within, and of records that lack values."""
    policy = POLICIES[name]
    private, rng = bound(policy, [first, second]), np.random.default_rng(seed)
    places = [[low, high, low - 1e6, high + 1e6, rng.uniform(low, high)] for low, high in (first, second)]
    if policy.takes_missing:
        places = [[*each, np.nan] for each in places]
    rows = np.array(list(itertools.product(*places[: policy.columns])))
    steps = private._steps
    sums = np.empty((len(rows), private.statistic.size), np.int64)
    for i, row in enumerate(rows):
        private.statistic.sum_on_grid(row[None, :], np.ones(1, np.bool_), steps, sums[i])
    exact = sums.astype(object)
    squares = ((exact[:, None, :] - exact[None, :, :]) ** 2).sum(axis=2)
    assert squares.max() <= (2 * steps) ** 2, "in whole numbers"
    if name == "mean":
        apart = statistics.Bounded(statistics.Mean(1), (100.0,), steps, (100.0,))
        ends = np.empty((2, 1), np.int64)
        for i, value in enumerate((0.0, 200.0)):
            apart.sum_on_grid(np.array([[value]]), np.ones(1, np.bool_), steps, ends[i])
        assert int(ends[1, 0] - ends[0, 0]) == 2 * steps, "and the noise is not more than that needs"


def test_a_middle_that_is_not_taken_off_is_found() -> None:
    """Half of the range without the shift cuts off what lies above it."""
    rows = np.full(2_000, 150.0)
    assert ran(Private(bound=(0, 200), epsilon=500.0, delta=0.1), rows) == pytest.approx(150.0, abs=0.5)
    assert ran(Private(bound=100.0, epsilon=500.0, delta=0.1), rows) == pytest.approx(100.0, abs=0.5)


def ran(policy: Private[Any], rows: Floats) -> float:
    stream = Stream(policy, retention=2_000, seed=AuditSeed(1))
    stream.extend(rows)
    return float(stream.estimate().value)


def find_exactly(rows: Floats) -> tuple[list[Fraction], Any]:
    """Means of columns, and averages of products of distances from them, in fractions."""
    columns = [[Fraction(value) for value in column] for column in rows.T.tolist()]
    means = [sum(column, Fraction(0)) / len(column) for column in columns]

    def average(*powers: int) -> Fraction:
        parts = zip(*columns, strict=True)
        products = [
            math.prod((value - mean) ** power for value, mean, power in zip(part, means, powers, strict=True))
            for part in parts
        ]
        return sum(products, Fraction(0)) / len(products)

    return means, average


@pytest.mark.parametrize("far", [0, 1_000, 2**40], ids=str)
def test_what_follows_from_averages_about_a_centre_is_exact(far: int) -> None:
    """The distances from a centre are small whole numbers, so their averages are known to the last digit or two."""
    rng = np.random.default_rng(far)
    x = rng.integers(-9, 10, 64).astype(float)
    near = np.column_stack([x, 2.0 * x + rng.integers(-3, 4, 64)])
    centres = np.array([far + 3.0, 1.0 - far])
    rows = near + centres
    means, average = find_exactly(rows)

    def read(statistic: Any, columns: int) -> Floats:
        averages = statistic.atoms(near[:, :columns]).mean(axis=0)
        numbers: Floats = statistic.from_averages(averages, centres[:columns])
        return numbers

    def check(numbers: Floats, expected: list[Fraction]) -> None:
        for number, exact in zip(numbers.tolist(), expected, strict=True):
            assert number == pytest.approx(float(exact), rel=1e-11, abs=1e-11)

    check(read(statistics.Mean(2), 2), means)
    check(read(statistics.Moments(4), 1), [means[0], *(average(p, 0) for p in (2, 3, 4))])
    products = [average(2, 0), average(1, 1), average(0, 2)]
    check(read(Covariance(2).statistic, 2), [*means, *products])
    slope = products[1] / products[0]
    check(read(LinearRegression(1).statistic, 2), [*means, products[0], slope, products[2] - slope * products[1]])
    ratio = means[0] / means[1]
    rest = products[0] - 2 * ratio * products[1] + ratio**2 * products[2]
    across = products[1] - ratio * products[2]
    check(read(Ratio().statistic, 2), [means[1], ratio, products[2], across, rest])
    joint = Bundle({("a", "b"): [Mean(2), Covariance(2)]}).statistic
    rows[::5, 0] = near[::5, 0] = np.nan
    there = ~np.isnan(rows[:, 0])
    means, average = find_exactly(rows[there])
    nothing = np.zeros(2)
    averages = joint.limit_atoms(rows, nothing + np.inf, centres).mean(axis=0)
    check(joint.from_averages(averages, centres)[:3], [Fraction(int(there.sum()), len(there)), *means])
    assert joint.from_averages(joint.atoms(near).mean(axis=0), nothing)[1] == pytest.approx(np.nanmean(near[:, 0]))


def test_the_price_is_that_of_half_the_range() -> None:
    ends, half, whole = (Private(bound=each, **PROMISE) for each in ((0, 200), 100.0, 200.0))
    assert ends.price(64, 400.0) == half.price(64, 400.0)
    assert whole.price(64, 400.0) - 1.0 == pytest.approx(4.0 * (ends.price(64, 400.0) - 1.0))
    runs, rows = 200, np.random.default_rng(0).uniform(0.0, 200.0, 640)
    off = [run_once(ends, rows, seed) - rows.mean() for seed in range(runs)]
    noise = half.noise(stream_of(half, rows, 0).clock)
    low, high = np.sqrt(stats.chi2.ppf([5e-7, 1 - 5e-7], runs) / runs)
    assert low < np.sqrt(np.mean(np.square(off))) / noise < high


def stream_of(policy: Private[Any], rows: Floats, seed: int) -> Stream[Any]:
    stream = Stream(policy, retention=128, seed=AuditSeed(seed))
    stream.extend(rows)
    return stream


def run_once(policy: Private[Any], rows: Floats, seed: int) -> float:
    return float(stream_of(policy, rows, seed).estimate().value)


def test_standard_errors_include_the_noise_about_the_middle() -> None:
    """A total moves with the noise of the number of its records too, by the middle of the range."""
    metrics = Bundle({"a": [Mean(), Sum(), Moments(2)], ("a", "b"): [Covariance(2)], "b": Count()})
    policy = Private(metrics, bounds={"a": (0, 200), "b": (-3, 5)}, epsilon=8.0, delta=1e-6)
    rng, runs, n = np.random.default_rng(0), 150, 8_192
    found: dict[str, list[float]] = {}
    for seed in range(runs):
        rows = np.column_stack([rng.uniform(120.0, 200.0, n), rng.uniform(-3.0, 5.0, n)])
        rows[rng.random(rows.shape) < 0.4] = np.nan
        stream = Stream(policy, retention=4_096, seed=AuditSeed(seed))
        stream.extend(rows)
        made = stream.estimate()
        total = made["a:sum"]
        expected = {"a:mean": 160.0, "a:sum": np.nansum(rows[:, 0])}
        for name, exact in expected.items():
            part = made[name]
            found.setdefault(name, []).append((float(part.value) - exact) / float(part.standard_error))  # type: ignore[attr-defined]
        assert total.standard_error > 0.0  # type: ignore[attr-defined]
        variance = made["a:moments"].value[1]  # type: ignore[index]
        assert variance == pytest.approx(80.0**2 / 12.0, rel=0.5)
    low, high = np.sqrt(stats.chi2.ppf([5e-7, 1 - 5e-7], runs) / runs)
    for name, scores in found.items():
        spread = np.sqrt(np.mean(np.square(scores)))
        assert spread < high, name
        assert spread > (low if name == "a:mean" else 0.3), name


def test_a_range_protects_as_its_half_does() -> None:
    policy = Private(bound=(0, 6), **PROMISE)
    found = measure_leakage(
        policy, retention=128, t=321, erased_at=192, trials=300, values=(0.0, 6.0), delta=1e-6, workers=1
    )
    assert not found.refutes(policy.epsilon, policy.mu)


def test_other_policies_refuse_what_they_cannot_move() -> None:
    with pytest.raises(ParameterError, match=r"bounds has two ends, \(0.0, 1.0\), but its statistic has no means"):
        Private(LinearRegression(1, intercept=False), bounds=[(0, 1), 2.0], **PROMISE)
    with pytest.raises(ParameterError, match="bounds of b has two ends"):
        Private(
            Bundle({"a": Mean(), ("b", "c"): LinearRegression(1, intercept=False)}),
            bounds={"a": (0, 1), "b": (0, 1), "c": 1.0},
            **PROMISE,
        )
    with pytest.raises(ParameterError, match="bound is not needed, since its statistics are shares"):
        Private(Shares(("x",)), bound=(0, 1), **PROMISE)
    with pytest.raises(ParameterError, match="cannot be used with a Bundle"):
        Private(Bundle({"a": Mean()}), bound=(0, 1), **PROMISE)


@pytest.mark.parametrize(
    "given",
    [(200, 0), (1, 1), (0, math.nan), (0, math.inf), (0,), (0, 1, 2), (0, 1e60), (0, 1e-60), ("a", 1), ((0, 1),)],
)
def test_ends_that_are_no_range_are_refused(given: Any) -> None:
    for name, arguments in (("bound", {"bound": given}), ("bounds", {"bounds": [given]})):
        with pytest.raises(ParameterError, match=f"^{name}.* (is not a range|consist)"):
            Private(**arguments, **PROMISE)


def test_ends_are_kept_and_named() -> None:
    policy = Private(Bundle({"a": Mean(), "b": Sum()}), bounds={"b": (-2, 2), "a": (0, 9)}, **PROMISE)
    assert policy.name_bounds(("a", "b")) == {"a": (0.0, 9.0), "b": 2.0}
    assert policy == from_dict(json.loads(json.dumps(to_dict(policy))))
    assert policy == Private(Bundle({"a": Mean(), "b": Sum()}), bounds={"a": (0, 9), "b": 2}, **PROMISE)
    pair = Private(bound=(0, 9), **PROMISE)
    assert pair == from_dict(json.loads(json.dumps(to_dict(pair))))
    assert pair.name_bounds(("spent",)) == {"spent": (0.0, 9.0)}
    assert check_bound("bound", (-1, 1), Mean()) == 1.0
    store = MemoryStore()
    Stream(pair, retention=512, store=store.stream("a")).extend(np.ones(300))
    store.flush()
    keyed = KeyedStreams(pair, retention=512, seed=AuditSeed(0))
    keyed.extend(["x"] * 512, np.full(512, 8.0))
    assert keyed.estimate("x").counted == 512


def test_a_plan_takes_both_ends() -> None:
    model = DataModel(Mean(), None, 3.0, 10_000)
    prices = {}
    for limit in ((0.0, 6.0), 3.0, 6.0):
        private, refusal = make_private(model, Mean(), 1.0, 1e-6, limit)
        assert private is not None
        assert (refusal, private.name_bounds(("x",))) == ("", {"x": limit})
        prices[limit] = predict_with(model, private, 2_048, 100_000, steady=True).price - 1.0
    assert prices[6.0] > 3.0 * prices[0.0, 6.0]


def vestige(*words: object) -> str:
    result = CliRunner().invoke(command, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_takes_both_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spent = np.random.default_rng(0).uniform(150.0, 200.0, 2_000)
    Path("visits.csv").write_text("spent,rating\n" + "".join(f"{value},{i % 5}\n" for i, value in enumerate(spent)))
    run = (
        "run",
        "visits.csv",
        "--metric",
        "spent:mean",
        "--metric",
        "rating:mean",
        "--epsilon",
        8,
        "--retention",
        2_000,
    )
    kept = ("--retention", 2_000)
    ends = ("--bound", "spent=0:200", "--bound", "rating=5", "--json")
    facts = json.loads(vestige(*run, *ends))
    assert facts["private"]["bounds"] == {"spent": [0.0, 200.0], "rating": 5.0}
    mean = facts["value"]["spent:mean"]
    assert abs(mean["value"]["spent"] - spent.mean()) < 5.0 * mean["standard_error"]["spent"] < 20.0
    assert json.loads(
        vestige("run", "visits.csv", "--column", "spent", "--epsilon", 1, "--bound", "-50:200", "--json", *kept)
    )["private"]["bounds"] == {"spent": [-50.0, 200.0]}
    Path("vestige.toml").write_text(
        'source = "visits.csv"\nmetric = ["spent:mean", "rating:mean"]\nepsilon = 8\n'
        'bound = ["spent=0:200", "rating=5"]\nretention = 2000\nstore = "s.db"\n'
    )
    vestige("run")
    with open_store("s.db") as store:
        policy = open_stream(store, *store.names()).policy
    assert isinstance(policy, Private)
    assert policy.name_bounds(("spent", "rating")) == {"spent": (0.0, 200.0), "rating": 5.0}
    vestige("run")  # the terms are the same
    assert "bound 0:6" in " ".join(vestige("plan", "--records", 100_000, "--mean", 3, "--bound", "0:6").split())
    for text in ("spent=0:x", "spent=0:", "spent=5:1"):
        result = CliRunner().invoke(command, [*map(str, run), "--bound", text, "--bound", "rating=5"])
        assert result.exit_code == 2
        assert text in result.stderr or "(5.0, 1.0) is not a range" in result.stderr


def test_the_service_takes_both_ends(tmp_path: Path) -> None:
    definition = {"name": "visits", "columns": ["spent"], "retention": 512, "epsilon": 8.0, "bounds": ["spent=0:200"]}
    with serve_here(tmp_path / "s.db") as client:
        assert client.post("/v1/streams", json=definition).status_code == 201
        assert client.post("/v1/streams", json=definition).status_code == 200
        rows = [{"spent": 180.0}] * 256
        assert client.post("/v1/streams/visits/rows", json=rows, headers={"Idempotency-Key": "a"}).status_code == 200
        (answer,) = client.get("/v1/streams/visits/estimate").json()["answers"]
    noise = Private(bound=100.0, epsilon=8.0, delta=1e-6).batch_noise(256)
    assert abs(answer["value"] - 180.0) < 6.0 * noise


def test_the_noise_of_a_total_about_a_middle_is_what_it_is_said_to_be() -> None:
    """Of records that are all alike, so that nothing else is in the standard errors; drawn 4,000 times."""
    policy, rng, draws, n = Bundle({"a": [Mean(), Sum()]}), np.random.default_rng(0), 4_000, 1_000_000.0
    own, centres, averages = np.array([1e-3, 0.02, 0.0]), np.array([100.0]), np.array([0.6, 0.6 * -30.0, 0.6 * 900.0])
    answers = policy.conclude_noisy(averages, Noise(own, 0.0 * own), n, 0.0, centres).answers
    means = averages[:2] + rng.normal(size=(draws, 2)) * own[:2]
    totals = n * (means[:, 1] + 100.0 * means[:, 0])
    for name, drawn in (("a:sum", totals), ("a:mean", 100.0 + means[:, 1] / means[:, 0])):
        answer: Any = answers[name]
        assert answer.value == pytest.approx(drawn.mean(), abs=5.0 * drawn.std() / np.sqrt(draws))
        assert answer.standard_error == pytest.approx(drawn.std(), rel=5.0 / np.sqrt(2 * draws))
