"""Several statistics in one word: each is that of the records that have its columns, whatever the others miss."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vestige import (
    Bundle,
    BundleEstimate,
    Count,
    Covariance,
    Distinct,
    Extremes,
    Histogram,
    HistogramQuantiles,
    LinearRegression,
    LogisticRegression,
    Mean,
    Moments,
    NoAnswerError,
    ParameterError,
    Ratio,
    Shares,
    Stream,
    Sum,
    Window,
    open_store,
)
from vestige.channels import Reading
from vestige.channels.bits import Bits
from vestige.checks import check_policy
from vestige.errors import DataError
from vestige.statistics import Statistic
from vestige.types import Bools, Floats

BUNDLE = Bundle(
    {"amount": [Mean(), Moments(3)], "rating": Moments(2), ("amount", "rating"): [LinearRegression(1), Covariance(2)]}
)


def draw(n: int, missing: tuple[float, float], mean: float = 1_000.0, seed: int = 0) -> Floats:
    """Amounts about a mean, and ratings that depend on them; each is missing in a share of the rows."""
    rng = np.random.default_rng(seed)
    amount = rng.gamma(2.0, 3.0, n)
    rows = np.column_stack((mean + amount, amount + rng.normal(size=n)))
    rows[rng.random((n, 2)) < missing] = np.nan
    return rows


def check(stream: Stream[BundleEstimate], rows: Floats, *, near: float = 0.01) -> None:
    """Compare each answer with numpy's on the rows that have its columns, in standard errors."""
    estimate: Any = stream.estimate()
    amount, rating = (column[~np.isnan(column)] for column in rows.T)
    both = rows[~np.isnan(rows).any(axis=1)]
    for name, column in (("amount:mean", amount), ("amount:moments", amount), ("rating:moments", rating)):
        answer = estimate[name]
        error = column.std() / np.sqrt(len(column))
        assert abs(np.ravel(answer.value)[0] - column.mean()) <= near * error, name
        assert answer.counted == len(column)
        assert answer.standard_error == pytest.approx(error, rel=0.02)
        if name != "amount:mean":
            assert answer.value[1] == pytest.approx(column.var(), rel=near / np.sqrt(len(column)) * 10.0)
    slope, _ = np.polyfit(both[:, 0] - both[:, 0].mean(), both[:, 1], 1)
    assert estimate["amount,rating:regression"].value[0] == pytest.approx(slope, abs=near / np.sqrt(len(both)))
    assert estimate["amount,rating:covariance"].value == pytest.approx(np.cov(both.T, bias=True), rel=1e-3)
    assert not estimate.missed


@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("missing", [(0.0, 0.0), (0.1, 0.4), (0.02, 0.97)])
def test_each_answer_is_that_of_the_records_that_have_its_columns(missing: tuple[float, float], mean: float) -> None:
    rows = draw(24_000, missing, mean)
    stream = Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0)
    stream.extend(rows[:7])
    assert stream.estimate().counted == 7
    stream.extend(rows[7:])
    check(stream, rows)


def test_a_drift_and_requests_are_followed() -> None:
    rows = draw(20_000, (0.1, 0.4))
    rows[:, 0] += np.linspace(0.0, 100.0, len(rows))
    stream = Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0)
    rng = np.random.default_rng(1)
    for start in range(0, len(rows), stream.batch):
        stream.extend(rows[start : start + stream.batch - 1])
        stream.forget(rounds=stream.t - np.flatnonzero(rng.random(stream.batch - 1) < 0.1))
        stream.extend(rows[start + stream.batch - 1 : start + stream.batch])
    check(stream, rows)


@pytest.mark.parametrize("share", [0.01, 0.001])
def test_a_column_that_is_rarely_there_neither_loses_nor_spoils_others(share: float) -> None:
    """Most batches have no record with it, so that its numbers are written without side information."""
    policy = Bundle({"rare": Mean(), "usual": Mean()})
    rng, n = np.random.default_rng(0), 40_000
    rows = rng.normal((500.0, 3.0), 1.0, (n, 2))
    rows[rng.random(n) >= share, 0] = np.nan
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    for name, column in zip(("rare:mean", "usual:mean"), rows.T, strict=True):
        there = column[~np.isnan(column)]
        assert estimate[name].value == pytest.approx(there.mean(), abs=0.02 / np.sqrt(len(there)))
        assert estimate[name].counted == len(there)
    assert not estimate.missed


def test_a_column_that_is_never_there_has_no_answer_until_it_is() -> None:
    policy = Bundle({"a": Mean(), "b": Mean()})
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(np.column_stack((np.arange(2_000.0), np.full(2_000, np.nan))))
    estimate = stream.estimate()
    assert estimate.answers["b:mean"] is None
    assert estimate.shares == {"a": 1.0, "b": 0.0}
    with pytest.raises(NoAnswerError, match="'b:mean' has no answer yet"):
        estimate["b:mean"]
    with pytest.raises(ParameterError, match="'c:mean' is unknown; use one of a:mean, b:mean"):
        estimate["c:mean"]
    assert policy.report(estimate, policy.column_names).rows[1][:2] == ("b:mean", "no answer")
    stream.extend([[0.0, 7.0]])
    assert stream.estimate()["b:mean"].value == 7.0
    stream.extend(np.column_stack((np.arange(2_000.0), np.full(2_000, np.nan))))
    assert stream.estimate()["b:mean"].value == pytest.approx(7.0, rel=1e-9)


def test_records_with_nothing_at_all_count() -> None:
    policy = Bundle({"a": Mean()})
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend([None, 3.0, None, 5.0])
    estimate = stream.estimate()
    assert (estimate.counted, estimate["a:mean"].counted, estimate["a:mean"].value) == (4, 2, 4.0)


def test_what_stands_for_two_metrics_is_kept_once() -> None:
    one, two = (Bundle({"a": metrics}) for metrics in (Moments(2), [Moments(2), Mean(spread=True)]))
    assert one.statistic.size == 3
    assert two.statistic.size == 5, "other statistics are kept beside it"


def test_counts_are_those_of_the_records_that_have_the_column() -> None:
    policy = Bundle({"a": Count(), "b": [Count(), Mean()]})
    assert policy.statistic.size == 4
    rows = np.ones((5_000, 2))
    rows[::7, 0] = rows[::3, 1] = np.nan
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    assert [estimate[name].value for name in ("a:count", "b:count")] == (~np.isnan(rows)).sum(axis=0).tolist()
    assert estimate["b:mean"].value == 1.0
    assert estimate["b:count"].to_dict()["standard_error"] == 0.0
    few = Stream(Bundle({"a": [Count(), Sum()]}), retention=130, seed=0)
    few.extend(np.where(np.random.default_rng(0).random(200_000) < 0.5, np.nan, 1.0))
    total: Any = few.estimate()["a:sum"]
    assert few.estimate()["a:count"].to_dict()["standard_error"] >= 1.0, "so few bits, so many records"
    assert total.standard_error == 0.0
    assert total.encoding_error >= 1.0
    with pytest.raises(ParameterError, match="a count, which takes no half_life"):
        Bundle({"a": Count()}, half_life=9.0)


def test_a_half_life_is_that_of_all_records() -> None:
    policy = Bundle({"a": Mean()}, half_life=500.0)
    rows = np.where(np.random.default_rng(2).random((6_000, 1)) < 0.3, np.nan, np.arange(6_000.0)[:, None])
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    weights = policy.decay ** np.arange(len(rows))[::-1] * ~np.isnan(rows[:, 0])
    assert stream.estimate()["a:mean"].value == pytest.approx(np.nansum(weights * rows[:, 0]) / weights.sum(), rel=1e-6)


def test_a_window_of_a_bundle_answers_from_what_is_held() -> None:
    stream = Stream(Window(Bundle({"a": [Mean(), Extremes()], "b": Mean()})), retention=100)
    stream.extend(np.column_stack((np.arange(300.0), np.where(np.arange(300) % 2, np.nan, 1.0))))
    estimate, held = stream.estimate(), stream.retained.values
    assert estimate["a:mean"].value == pytest.approx(held[:, 0].mean())
    assert np.array_equal(estimate["a:extremes"].value, [held[:, 0].min(), 299.0])
    assert estimate["b:mean"].value == 1.0
    assert [estimate[name].counted for name in estimate] == [len(held), len(held), int(np.isfinite(held[:, 1]).sum())]


def test_a_store_reopens_it(tmp_path: Path) -> None:
    rows = draw(6_000, (0.1, 0.4))
    for part in (rows[:3_000], rows[3_000:]):
        with open_store(tmp_path / "a.db") as store:
            Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0, store=store.stream("all")).extend(part)
    whole = Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0)
    whole.extend(rows)
    with open_store(tmp_path / "a.db") as store:
        again = Stream(BUNDLE, retention=BUNDLE.default_retention, seed=0, store=store.stream("all"))
        assert np.array_equal(again.estimate().value, whole.estimate().value)


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({}, "metrics is empty"),
        ({"a": [Mean(), Mean()]}, "'a:mean' is given twice"),
        ({"a": LogisticRegression(1)}, "is neither made of averages nor a sketch"),
        ({"a": Mean(half_life=9.0)}, r"half_life=9.0; give it to the bundle"),
        ({"a": Covariance(2)}, "takes 2 columns, not 1"),
        ({("a", "a"): Covariance(2)}, "a tuple of different names"),
    ],
)
def test_what_cannot_be_part_of_a_bundle_is_refused(metrics: Any, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Bundle(metrics)


def test_infinite_values_are_refused_and_missing_ones_only_by_others() -> None:
    with pytest.raises(DataError, match="row 0 of 1, column 0, is missing, infinite"):
        Stream(Bundle({"a": Mean()}), retention=400).extend([np.inf])
    with pytest.raises(DataError, match="row 0 of 1, column 0, is missing"):
        Stream(Mean(), retention=400).extend([np.nan])


@pytest.mark.slow
def test_the_check_accepts_it() -> None:
    check_policy(BUNDLE)
    check_policy(Bundle({"a": Mean()}), rows=lambda rng, n: np.where(rng.random((n, 1)) < 0.3, np.nan, 1.0))


def test_the_table_has_the_error_of_each_number() -> None:
    """That of a mean does not stand beside a covariance, and an intercept is listed."""
    policy = Bundle({("a", "b"): [Covariance(2), LinearRegression()]})
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(np.random.default_rng(0).normal(size=(900, 2)))
    estimate = stream.estimate()
    errors = {metric: error for metric, _, error, _ in policy.report(estimate, policy.column_names).rows}
    assert float(errors["a,b:covariance mean of a"]) == pytest.approx(1.0 / 30.0, rel=0.1)
    assert [errors[f"a,b:covariance a with {name}"] for name in "ab"] == ["", ""]
    assert float(errors["a,b:regression b by (intercept)"]) == pytest.approx(1.0 / 30.0, rel=0.1)


def test_a_half_life_is_that_of_every_metric() -> None:
    """So a histogram has shares and no counts, a sum is refused, and what is not a category too."""
    policy = Bundle({"a": Histogram((0.5,)), "b": Shares(("x", "y"))}, half_life=500.0)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(np.column_stack([np.arange(4_000) >= 3_000, np.arange(4_000) % 2]))
    answer = stream.estimate()["a:histogram"]
    assert answer.counts is None  # type: ignore[attr-defined]
    assert np.ravel(answer.value)[1] == pytest.approx(0.75, abs=5e-3)
    with pytest.raises(ParameterError, match="is a sum, which takes no half_life"):
        Bundle({"a": Sum()}, half_life=500.0)
    with pytest.raises(DataError, match="is not the number of a category"):
        stream.extend([[0.0, 7.0]])


class _Rounded(Bits):
    """Reads 0 as a number that is not quite 0, as words do now and then."""

    def read_slots(self, values: Floats, present: Bools, statistic: Statistic, first: int) -> Reading:
        reading = super().read_slots(values, present, statistic, first)
        return reading._replace(numbers=np.where(reading.numbers == 0.0, 3e-312, reading.numbers))


def test_columns_that_no_record_has_come_to_no_numbers_and_no_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bundle, "encoding", property(lambda _: _Rounded()))
    bundle = Bundle({"amount": Sum(), "rating": Mean(), ("amount", "rating"): [Ratio(), LinearRegression(1)]})
    rows = draw(6_000, (1.0, 0.5))
    stream = Stream(bundle, retention=bundle.default_retention, seed=0)
    with warnings.catch_warnings(action="error"):
        stream.extend(rows[:4_000])
        for row in np.array_split(rows[4_000:], 5):
            stream.extend(row)
        estimate = stream.estimate()
    assert [name for name, answer in estimate.answers.items() if answer is not None] == ["rating:mean"]


def test_what_an_average_notes_is_a_note_of_the_bundle() -> None:
    """Each part's own notes, after its name; what concerns all averages is said once."""
    rows = np.random.default_rng(0).normal(size=(300, 2))
    alone = Stream(Ratio(), retention=640, seed=0)
    alone.extend(rows)
    policy = Bundle({("a", "b"): Ratio(), "a": [Mean(), HistogramQuantiles((0.0, 1.0), [0.001, 0.6])]})
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    note = next(note for note in alone.estimate().notes if "within five of its standard errors of zero" in note)
    assert f"a,b:ratio: {note}" in estimate.notes
    assert note in estimate["a,b:ratio"].notes
    assert [each for each in estimate.notes if "below the first edge" in each] == [
        f"a:histogram_quantiles: {each}" for each in estimate["a:histogram_quantiles"].notes if "first edge" in each
    ]
    assert len(estimate.notes) == len(set(estimate.notes))


def test_rows_have_the_notes_of_the_stream_and_those_of_their_metric() -> None:
    policy = Bundle({("a", "b"): Ratio(), "a": [Mean(), Distinct(64)]})
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(np.random.default_rng(0).normal(size=(stream.batch, 2)))
    stream.forget(rounds=range(1, stream.t + 1), now=True)
    stream.extend(np.random.default_rng(0).normal(size=(300, 2)))
    estimate = stream.estimate()
    told = {row["metric"]: row["notes"] for row in estimate.to_rows()}
    assert all(note.count(f"Counts from round {stream.batch + 1} on") == 1 for note in told.values())
    assert [name for name, note in told.items() if "standard errors of zero" in note] == ["a,b:ratio"]
    assert told["a,b:ratio"].count("standard errors of zero") == 1
    assert told == dict(estimate.to_pandas()[["metric", "notes"]].to_numpy().tolist())


def test_a_column_is_not_taken_for_several() -> None:
    with pytest.raises(ParameterError, match="'a,b' as the name of one column and as those of several"):
        Bundle({"a,b": [Mean(), Count()], ("a", "b"): [Ratio()]})
    assert Bundle({"a,b": [Mean(), Count()]}).column_names == ("a,b",)


def find_weighted(present: Bools, half_life: float) -> tuple[float, float]:
    """The weighted mean's standard error for records of deviation 1, and that of records that had x at random."""
    weights = 2.0 ** (-np.arange(len(present))[::-1] / half_life)
    of_present, share = weights[present], weights[present].sum() / weights.sum()
    at_random = np.sqrt((weights**2).sum() / share) / weights.sum()
    return float(np.sqrt((of_present**2).sum()) / of_present.sum()), float(at_random)


@pytest.mark.parametrize("kind", ["all", "half", "few", "newest", "oldest", "more and more"])
def test_with_a_half_life_no_standard_error_is_too_small(kind: str) -> None:
    """What is known of the records that have x is their share of the weight: it bounds their worth.

    The variance is that of a thousand records at least, and so known to 5% with one standard error, the root to 2.5%;
    of a share that is steady, the standard error of the worth is of the same size. Five of them are allowed.
    """
    n, half_life, rng, k = 12_000, 2_000.0, np.random.default_rng(0), np.arange(12_000)
    present = {
        "all": k >= 0,
        "half": rng.random(n) < 0.5,
        "few": rng.random(n) < 0.2,
        "newest": k >= 11_500,
        "oldest": k < 10_500,
        "more and more": rng.random(n) < k / n,
    }[kind]
    rows = rng.normal(size=(n, 2))
    rows[~present, 0] = np.nan
    policy = Bundle({"x": Mean(), "y": Mean()}, half_life=half_life)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    x: Any = estimate["x:mean"]
    expected, at_random = find_weighted(present, half_life)
    steady = kind in ("all", "half", "few")
    assert x.standard_error >= expected * (1.0 - 5.0 * 0.035)
    assert x.standard_error <= (at_random if steady else np.sqrt(3.0) * expected) * (1.0 + 5.0 * 0.035)
    assert x.counted <= present.sum() * (1.0 + 5.0 * 0.035 * steady) + 1
    assert any("`counted` is the fewest records" in note for note in estimate.notes) == (not steady)
    assert not estimate.missed, "shares are those of weights, and 1 is written exactly"
    if kind == "newest":
        assert x.counted == 500
