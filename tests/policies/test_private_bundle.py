"""Noise on several metrics: one record, with all its metrics and with what it lacks, is hidden as a whole.

How far a record moves the sums is checked in whole numbers; broken copies, which forget that metrics add up, that a
value that is there moves its presence too, or the noise of presence, fail that or are refuted by the audit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from vestige import (
    Bundle,
    Correlation,
    Count,
    Covariance,
    Extremes,
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
from vestige.audit import AuditSeed, measure_leakage
from vestige.checks import check_policy
from vestige.errors import NoAnswerError, ParameterError
from vestige.noise import Noise
from vestige.planning import predict
from vestige.policies.base import Encoded
from vestige.serialization import from_dict, to_dict
from vestige.statistics import clipped
from vestige.types import Floats

PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
METRICS = Bundle(
    {
        "a": [Mean(), Sum(), Count()],
        "b": [Histogram((0.0, 1.0)), Moments(3)],
        ("a", "b"): [LinearRegression(1), Ratio(), Correlation(2)],
        "status": Shares(("ok", "failed")),
        "c": Count(),
    }
)
BOUNDS = {"a": 3.0, "b": 50.0}
NUMBERS = st.one_of(
    st.sampled_from([np.nan, 0.0, 1.0, -1.0, 3.0, -3.0, 50.0, -50.0, 1e9, -1e9]), st.floats(-100.0, 100.0)
)
RECORDS = st.tuples(NUMBERS, NUMBERS, st.sampled_from([np.nan, 0.0, 1.0, 2.0]), st.sampled_from([np.nan, 7.0]))


def sum_one(statistic: statistics.Limited, record: Any, steps: int) -> list[int]:
    sums, row = np.empty(statistic.size, np.int64), np.array([record], np.float64)
    assert statistic.sum_on_grid(row, np.ones(1, np.bool_), steps, sums) == 1
    return [int(each) for each in sums]


def measure_move(statistic: statistics.Limited, one: Any, other: Any, steps: int) -> int:
    """The square of how far one record in place of another moves the sums, in steps."""
    apart = zip(sum_one(statistic, one, steps), sum_one(statistic, other, steps), strict=True)
    return sum((x - y) ** 2 for x, y in apart)


@settings(max_examples=60)
@given(RECORDS, RECORDS, st.sampled_from([64, 1_001, 2**20, 2**28]))
def test_no_record_moves_the_sums_by_more_than_twice_the_steps(one: Any, other: Any, steps: int) -> None:
    statistic = statistics.Bounded(METRICS.statistic, (3.0, 50.0, np.inf, np.inf), steps)
    assert measure_move(statistic, one, other, steps) <= (2 * steps) ** 2, "in whole numbers, so that no rounding helps"


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [
        (Mean(2), (3.0, 1.0)),
        (Mean(spread=True), (3.0,)),
        (Moments(4), (2.0,)),
        (Covariance(2), (3.0, 1.0)),
        (LinearRegression(1, intercept=False), (3.0, 1.0)),
        (Histogram((0.0, 1.0)), ()),
    ],
    ids=lambda given: type(given).__name__,
)
def test_nor_does_one_of_a_single_policy(policy: Encoded, bounds: tuple[float, ...]) -> None:
    private, rng = Private(policy, bounds=bounds, **PROMISE), np.random.default_rng(0)
    statistic, steps = private.statistic, private._steps
    rows = rng.choice([-1e9, -3.0, -1.0, 0.0, 0.5, 1.0, 3.0], (300, 2, policy.columns))
    assert max(measure_move(statistic, one, other, steps) for one, other in rows) <= (2 * steps) ** 2


def test_the_noise_is_not_more_than_is_needed() -> None:
    """The worst record moves the sums by just that: a mean from one bound to the other, or from a value to none."""
    steps = 2**28
    mean = statistics.Bounded(Bundle({"a": Count(), "b": Mean()}).statistic, (np.inf, 3.0), steps)
    both = measure_move(mean, (np.nan, np.nan), (1.0, 3.0), steps)
    assert both == pytest.approx((2 * steps) ** 2, rel=1e-6), "a value in place of none moves its presence too"
    shares = statistics.Bounded(Histogram((0.0,)).statistic, (np.inf,), steps)
    assert measure_move(shares, (-1.0,), (1.0,), steps) == pytest.approx((2 * steps) ** 2, rel=1e-6)
    plain = statistics.Bounded(statistics.Mean(1), (3.0,), steps)
    assert measure_move(plain, (-3.0,), (3.0,), steps) == (2 * steps) ** 2


@pytest.mark.parametrize("broken", ["metrics do not add up", "presence is free"])
def test_broken_grids_are_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_grid = clipped._lay_grid

    def lay_broken(part: Any, bounds: Floats, steps: int) -> Any:
        group = lay_grid(part, bounds, 2 * steps if broken == "metrics do not add up" else steps)
        if broken == "presence is free":
            group.limits[0] = 2 * steps
        return group

    monkeypatch.setattr(clipped, "_lay_grid", lay_broken)
    statistic = statistics.Bounded(METRICS.statistic, (3.0, 50.0, np.inf, np.inf), 2**20)
    assert measure_move(statistic, (3.0, 50.0, 0.0, 7.0), (np.nan,) * 4, 2**20) > (2 * 2**20) ** 2


def draw(n: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.uniform(1.0, 3.0, n), rng.normal(20.0, 5.0, n), rng.integers(0, 3, n), np.full(n, 7.0)])
    rows[rng.random((n, 4)) < (0.2, 0.0, 0.1, 0.5)] = np.nan
    return rows


def ran(policy: Private, rows: Floats, batch: int, seed: int = 0) -> Stream[Any]:
    stream = Stream(policy, retention=2 * batch, seed=AuditSeed(seed))
    stream.extend(rows)
    return stream


def test_with_little_noise_it_is_the_bundle_itself() -> None:
    rows = draw(30_000)
    private = Private(METRICS, bounds=BOUNDS, epsilon=600.0, delta=0.1)
    noisy = ran(private, rows, 10_000).estimate()
    stream = Stream(METRICS, retention=METRICS.default_retention, seed=0)
    stream.extend(rows)
    plain = stream.estimate()
    assert list(noisy.answers) == list(plain.answers)
    for name in noisy:
        a, b = noisy[name], plain[name]
        assert a.counted == pytest.approx(b.counted, abs=5)
        for one, other in zip(a.to_rows(), b.to_rows(), strict=True):
            assert one["metric"] == other["metric"]
            if one["standard_error"]:
                assert abs(one["value"] - other["value"]) <= 5.0 * one["standard_error"], one["metric"]
    assert noisy["c:count"].value == pytest.approx(np.isfinite(rows[:, 3]).sum(), abs=5.0)


def test_errors_include_the_noise_of_values_and_of_their_number() -> None:
    """Over 60 streams of the same records, each answer varies as its error says, without the sampling error."""
    rows, runs = draw(4_000), 60
    bundle = Bundle({"a": [Mean(), Sum(), Count()], "b": Histogram((20.0,))})
    private = Private(bundle, bounds={"a": 3.0}, **PROMISE)
    found = [ran(private, rows[:, :2], 200, seed).estimate() for seed in range(runs)]
    a = rows[np.isfinite(rows[:, 0]), 0]
    sampling = {
        "a:mean": a.std() / math.sqrt(len(a)),
        "a:sum": a.std() * math.sqrt(len(a)),
        "a:count": 0.0,
        "b:histogram": 0.5 / math.sqrt(len(rows)),
    }
    low, high = np.sqrt(stats.chi2.ppf([1e-6, 1.0 - 1e-6], runs - 1) / (runs - 1))
    for name, error in sampling.items():
        values = np.array([np.ravel(one[name].value)[0] for one in found])
        said = np.array([np.ravel(one[name].standard_error)[0] for one in found])
        noise = np.sqrt(np.mean(said**2) - error**2)
        assert noise > 0.3 * np.sqrt(np.mean(said**2)), "the noise can be measured"
        assert 0.95 * low < values.std(ddof=1) / noise < 1.05 * high, name
    assert np.mean([one["a:mean"].value for one in found]) == pytest.approx(a.mean(), abs=5.0 * noise)


def test_few_values_have_no_answer_but_a_count() -> None:
    rows = draw(2_000)
    rows[20:, 0] = np.nan
    estimate = ran(Private(METRICS, bounds=BOUNDS, **PROMISE), rows, 1_000).estimate()
    assert estimate.answers["a:mean"] is None
    with pytest.raises(NoAnswerError, match="no answer yet: too few records have its columns"):
        estimate["a:mean"]
    assert abs(estimate["a:count"].value - 20) <= 5.0 * estimate["a:count"].standard_error
    noise = (
        "The averages of all metrics carry noise, the price of epsilon=1 and delta=1e-06 for one record, not for a "
        "person with several; standard errors include it."
    )
    assert noise in estimate.notes
    assert noise in estimate["c:count"].notes


def test_one_by_one_is_the_same_as_at_once() -> None:
    policy, rows = Private(METRICS, bounds=BOUNDS, **PROMISE), draw(1_700)
    at_once, slowly = ran(policy, rows, 500), Stream(policy, retention=1_000, seed=AuditSeed(0))
    for row in rows:
        slowly.push(row)
    assert at_once.retained == slowly.retained


def test_it_is_stored_and_made_again() -> None:
    for policy in (
        Private(METRICS, bounds=BOUNDS, **PROMISE),
        Private(Mean(2), bounds=[1, 2], **PROMISE),
        Private(Histogram((0.0,)), **PROMISE),
    ):
        assert from_dict(to_dict(policy)) == policy
    assert to_dict(Private(METRICS, bounds=BOUNDS, **PROMISE))["parameters"]["bounds"] == [["a", 3.0], ["b", 50.0]]  # type: ignore[index]


@pytest.mark.slow
def test_it_remembers_nothing() -> None:
    check_policy(Private(Bundle({"a": Mean(), "b": Count()}), bounds={"a": 3.0}, **PROMISE))


def test_it_is_predicted() -> None:
    """With bounds, a mean costs as much as with a bound; and the shares of a histogram half as much."""
    size = {"retention": 1_000, "records": 10_000}
    with_bound = predict(Private(Mean(), bound=3.0, **PROMISE), **size)
    assert predict(Private(Mean(), bounds=(3.0,), **PROMISE), **size).error == pytest.approx(with_bound.error, rel=0.01)
    with_bound = predict(Private(Histogram((0.0,)), bound=1.0, **PROMISE), **size)
    without = predict(Private(Histogram((0.0,)), **PROMISE), **size)
    assert with_bound.noise / without.noise == pytest.approx(math.sqrt(2.0), rel=0.01)
    bundle, rows = Bundle({"a": [Mean(), Sum()], "b": Shares(("ok",))}), draw(4_000)[:, [0, 2]] % 2.0
    private = Private(bundle, bounds={"a": 3.0}, **PROMISE)
    predicted = predict(private, retention=1_000, records=len(rows), sample=rows).errors
    said = [row["standard_error"] for row in ran(private, rows, 500).estimate().to_rows()]
    assert said[:2] == pytest.approx(predicted[:2], rel=0.1), "as the answer says of its own error"
    assert said[2:] == pytest.approx(predicted[2:], rel=0.1)
    with pytest.raises(ParameterError, match=r"price needs bound, one length"):
        Private(Mean(), bounds=(3.0,), **PROMISE).price(64, 1.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bounds": {"a": 1.0}}, r"bounds has no bound of b; give .* bounds=\{'b': 100.0\}"),
        ({"bounds": {**BOUNDS, "x": 1.0}}, "bounds has 'x', which is not a column; the columns are a, b, status, c"),
        ({"bounds": {**BOUNDS, "status": 1.0}}, "bounds of status is not needed, since its statistics are shares"),
        ({"policy": Histogram((0.0,)), "bounds": (1.0,)}, "bounds is not needed"),
        ({"bounds": {**BOUNDS, "a": 0.0}}, r"bounds\['a'\]=0.0 is out of range"),
        ({"bounds": (1.0, 2.0)}, "is not a mapping of columns to numbers"),
        ({"bound": 1.0}, "bound=1.0 cannot be used with a Bundle, whose columns need a bound each; use bounds"),
        ({"policy": Mean(), "bound": 1.0, "bounds": (1.0,)}, "bound=1.0 cannot be used with bounds"),
        ({"policy": Mean()}, "bound is missing; give the greatest length of a record"),
        ({"policy": Mean(2), "bounds": (1.0,)}, r"bounds=.* is not a list of 2 entries"),
        ({"policy": Mean(), "bounds": (np.inf,)}, "bounds=inf is out of range"),
        ({"policy": Mean(), "bounds": "all"}, "bounds='all' is not a list of 1 entries"),
        (
            {"policy": Bundle({"a": [Mean(), Extremes()]}), "bounds": BOUNDS},
            "policy has extremes of a, which is not made of averages and cannot have noise; leave it out",
        ),
        ({"policy": Bundle({"a": Mean()}, half_life=9.0), "bounds": BOUNDS}, "half_life=9.0 is not for Private"),
    ],
)
def test_bounds_that_do_not_fit_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Private(**{"policy": METRICS, **PROMISE, **options})


@dataclass(frozen=True)
class Silent(Private):
    """No noise on whether a value is there."""

    def _step(self, before: Any, usual: Any, values: Any, present: Any, share: Any, first: Any, key: Any) -> Any:
        target, coin = super()._step(before, usual, values, present, share, first, key)
        exact = self.statistic.limit_atoms(values[present]).mean(axis=0)
        old = np.zeros(len(exact)) if before is None else before.numbers
        target.numbers[0] = old[0] + share * (exact[0] - old[0])
        return target, coin


@dataclass(frozen=True)
class Alone(Private):
    """Noise that would hide each of nine columns alone."""

    def _find_deviation(self, steps: int) -> int:
        return super()._find_deviation(steps) // 3


def count_columns(columns: int) -> Bundle:
    return Bundle({f"column{i}": Count() for i in range(columns)})


def audited(policy: Private, trials: int) -> Any:
    """The worst record there is: all values, in place of none; seen as soon as may be."""
    batch = policy.min_batch
    values = (np.full(policy.columns, np.nan), np.ones(policy.columns))
    return measure_leakage(
        policy,
        retention=2 * batch,
        t=4 * batch,
        erased_at=2 * batch + 1,
        data=lambda rng, n: np.where(rng.random((n, policy.columns)) < 0.5, np.nan, 1.0),
        values=values,
        delta=policy.delta,
        trials=trials,
        workers=1,
    ).checkpoints


@pytest.mark.parametrize(
    ("columns", "trials"), [(2, 60), pytest.param(9, 1_000, marks=pytest.mark.slow(13))], ids=["few", "many"]
)
def test_no_audit_refutes_it(columns: int, trials: int) -> None:
    policy = Private(count_columns(columns), **PROMISE)
    for look in audited(policy, trials):
        assert look.epsilon <= policy.epsilon
        assert look.mu <= policy.mu


def test_presence_without_noise_is_refuted() -> None:
    policy = Silent(count_columns(2), **PROMISE)
    look = audited(policy, 60)[0]
    assert look.mu > policy.mu
    assert look.epsilon > policy.epsilon


@pytest.mark.slow(33)
def test_metrics_that_do_not_add_up_are_refuted() -> None:
    policy = Alone(count_columns(9), **PROMISE)
    assert max(look.mu for look in audited(policy, 2_500)) > policy.mu


def test_the_noise_of_a_share_does_not_move_a_sum() -> None:
    """A sum is the average of all records times their number, whatever share of them has a value."""
    policy, rng, n, draws = Bundle({"a": [Sum(), Mean()]}), np.random.default_rng(0), 10_000, 400
    rows = np.where(rng.random((n, 1)) < 0.5, rng.normal(10.0, 1.0, (n, 1)), np.nan)
    averages, own = policy.statistic.atoms(rows).mean(axis=0), np.array([0.005, 0.01, 0.1])
    noise = Noise(own, np.zeros(3))

    def conclude(at: Floats) -> Any:
        return policy.conclude_noisy(at, noise, float(n), 0.0).answers

    found = [conclude(averages + own * rng.normal(size=3)) for _ in range(draws)]
    exact = policy.conclude(policy.statistic.from_averages(averages), float(n), 0.0).answers
    for metric in ("a:sum", "a:mean"):
        measured = np.std([each[metric].value for each in found])
        said, clean = (answers[metric].standard_error for answers in (conclude(averages), exact))  # type: ignore[union-attr]
        assert said == pytest.approx(np.hypot(measured, clean), rel=4.0 / np.sqrt(2 * draws)), metric


def test_the_retention_by_default_grows_with_the_noise_up_to_a_limit() -> None:
    metrics = Bundle({"a": Mean()})
    small, large = (
        Private(metrics, bounds={"a": 1.0}, epsilon=epsilon, delta=1e-6).default_retention for epsilon in (1.0, 1e-3)
    )
    assert small < large == 2 * 2**20


def test_a_histogram_sees_values_beyond_the_bound_of_the_mean_beside_it() -> None:
    """Shares carry noise of some thousandths here, so that 0.02 is far beyond it and below the share of each bin."""
    metrics = Bundle(
        {"amount": [Mean(), Histogram((0.0, 100.0, 200.0, 400.0)), HistogramQuantiles((0, 200, 400), [0.95])]}
    )
    private = Private(metrics, bounds={"amount": 100.0}, epsilon=8.0, delta=1e-3)
    rng = np.random.default_rng(0)
    amounts = np.where(rng.random(60_000) < 0.3, 300.0, 50.0)
    found = ran(private, amounts[:, None], 4_096).estimate()
    assert found["amount:histogram"].value == pytest.approx([0.0, 0.7, 0.0, 0.3, 0.0], abs=0.02)
    quantile: Any = found["amount:histogram_quantiles"]
    assert quantile.lower[0] == 200.0 < quantile.upper[0] == 400.0
    mean: Any = found["amount:mean"]
    assert abs(mean.value - np.clip(amounts, -100.0, 100.0).mean()) < 5.0 * mean.standard_error


@pytest.mark.parametrize("number", [1e-170, 1e60, 1e308, np.inf])
def test_bounds_beyond_what_floats_can_square_are_refused(number: float) -> None:
    with pytest.raises(ParameterError, match=r"bounds\['a'\]=.* is out of range; .* from 1e-50 to 1e\+50"):
        Private(Bundle({"a": Mean()}), bounds={"a": number}, **PROMISE)
    with pytest.raises(ParameterError, match=r"bound=.* is out of range; .* from 1e-50 to 1e\+50"):
        Private(Mean(), bound=number, **PROMISE)


@pytest.mark.parametrize("number", [1e-50, 1e50])
def test_the_largest_and_the_smallest_bound_have_an_answer(number: float) -> None:
    private = Private(Bundle({"a": Mean()}), bounds={"a": number}, epsilon=8.0, delta=1e-3)
    mean: Any = ran(private, number * np.random.default_rng(0).uniform(0.0, 1.0, (20_000, 1)), 4_096).estimate()[
        "a:mean"
    ]
    assert 0.0 < mean.standard_error < 0.1 * number
    assert abs(mean.value - 0.5 * number) < 5.0 * mean.standard_error


def test_a_bound_below_the_length_of_an_indicator_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"bound=0\.5 is below 1, the length of an indicator"):
        Private(Histogram((0.0,)), bound=0.5, **PROMISE)
    assert Private(Mean(), bound=0.5, **PROMISE).bound == 0.5


def test_a_metric_without_an_answer_names_the_noise() -> None:
    rows = np.random.default_rng(0).normal(0.0, 1e-6, (20_000, 2))
    private = Private(Bundle({("a", "b"): Correlation()}), bounds={"a": 1.0, "b": 1.0}, **PROMISE)
    found = [ran(private, rows, 4_096, seed).estimate() for seed in range(4)]
    unanswered = [each for each in found if each.answers["a,b:correlation"] is None]
    assert unanswered, "noise makes the one or the other variance negative"
    with pytest.raises(NoAnswerError, match="the noise may outweigh what its records say"):
        unanswered[0]["a,b:correlation"]
