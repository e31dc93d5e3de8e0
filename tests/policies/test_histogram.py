"""Histograms against numpy and pandas over all data, and exact ones to the last record."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from datasets import COLUMNS, make_column, run_with_requests
from vestige import Bundle, ExactHistogram, Histogram, Mean, Private, Shares, Stream, Window
from vestige.cli import command
from vestige.errors import DataError, ParameterError
from vestige.flights import flights
from vestige.planning import plan, predict
from vestige.policies.histogram import conclude_shares
from vestige.policies.rounding import KNOWN_MARGIN, bound_rounding
from vestige.statistics.shares import INDICATOR
from vestige.types import Floats

QUICK = ("lognormal", "sorted", "constant", "departure delays")


def choose_edges(rows: Floats) -> tuple[float, ...]:
    """Some quantiles, an edge that no record reaches, and one that many records equal where they repeat."""
    return tuple(np.unique([rows.min() - 1.0, *np.quantile(rows, [0.1, 0.5, 0.9, 0.999]), rows.max() + 1.0]).tolist())


def count(rows: Floats, edges: tuple[float, ...]) -> Floats:
    """Counts by numpy."""
    return np.histogram(rows, [-np.inf, *edges, np.inf])[0].astype(np.float64)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in COLUMNS if name != "tiny"]
)
def test_shares_and_counts_of_the_whole_stream(name: str) -> None:
    rows = make_column(name, 10_000)
    policy = Histogram(choose_edges(rows))
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    estimate, expected = stream.estimate(), count(rows, policy.edges)
    assert estimate.counts is not None
    assert estimate.counts.tolist() == expected.tolist()
    assert estimate.count_error is not None
    assert estimate.count_error < 1e-3
    assert estimate.value.tolist() == (expected / len(rows)).tolist(), "nothing is off where counts are sure"
    shares = expected / len(rows)
    assert estimate.standard_error == pytest.approx(np.sqrt(shares * (1.0 - shares) / len(rows)))
    assert not estimate.missed


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.27, 0.5])
@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "tiny"])
def test_at_shorter_retentions_the_error_holds_or_a_miss_is_said(name: str, part: float) -> None:
    rows = make_column(name, 60_000)
    policy = Histogram(choose_edges(rows))
    stream = Stream(policy, retention=max(2 * policy.min_batch, int(part * policy.default_retention)), seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    off = np.abs(estimate.value - count(rows, policy.edges) / len(rows))
    assert (off <= estimate.encoding_error).all() or estimate.missed


def test_rare_bins_are_as_near_as_the_others_at_the_shortest_retention() -> None:
    """Their scale is known: said by kept records of which none is in them, they would coarsen all others."""
    rows = np.minimum(np.random.default_rng(0).geometric(0.4, 10_000), 15).astype(np.float64)
    policy = Histogram(tuple(range(2, 15)))
    stream = Stream(policy, retention=2 * policy.min_batch, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    assert estimate.counts is not None
    assert np.abs(estimate.counts - count(rows, policy.edges)).max() <= 2.0
    assert not estimate.missed


@pytest.mark.parametrize(
    ("name", "share", "times"),
    [
        ("departure delays", 0.3, 1),
        *(
            pytest.param(name, share, times, marks=pytest.mark.slow)
            for name in ("lognormal", "sorted", "rare")
            for share, times in ((0.1, 1), (0.3, 1), (0.6, 2))
        ),
    ],
)
def test_requests_leave_the_counts(name: str, share: float, times: int) -> None:
    rows = make_column(name, 12_000)
    policy = Histogram(choose_edges(rows))
    estimate = run_with_requests(policy, rows, times * policy.default_retention, share).estimate()
    assert estimate.since == 1
    assert estimate.counts is not None
    assert estimate.counts.tolist() == count(rows, policy.edges).tolist()


def test_a_value_on_an_edge_belongs_to_the_bin_above_it() -> None:
    policy = Histogram((1, 2, 3, 4, 5))
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend([1.0, 1.0, 2.0, 3.0, 5.0, 5.0, 5.0, 0.5, 9.0])
    estimate = stream.estimate()
    assert estimate.bins == ("below 1", "1 to 2", "2 to 3", "3 to 4", "4 to 5", "5 or more")
    assert estimate.counts is not None
    assert estimate.counts.tolist() == [1.0, 2.0, 1.0, 1.0, 0.0, 4.0]


def test_categories_of_flights() -> None:
    """The five most frequent of a hundred codes, and all others."""
    codes = flights("distance")[:20_000, 0] % 100.0
    series = pd.Series(codes)
    names = tuple(series.value_counts().index[:5].astype(str))
    rows = series.astype(str).map({name: float(i) for i, name in enumerate(names)}).fillna(5.0).to_numpy()
    policy = Shares(names)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    estimate = stream.estimate()
    expected = [*series.value_counts().iloc[:5], len(rows) - series.value_counts().iloc[:5].sum()]
    assert estimate.bins == (*names, "other")
    assert estimate.counts is not None
    assert estimate.counts.tolist() == expected


@pytest.mark.parametrize("wrap", [lambda policy: policy, Window], ids=["kept", "window"])
@pytest.mark.parametrize("code", [-1.0, 0.5, 3.0])
def test_what_is_not_a_category_is_refused(wrap: type[Window], code: float) -> None:
    stream = Stream(wrap(Shares(("ok", "failed"))), retention=512)
    with pytest.raises(DataError, match=r"row 1 of 2 \(counted from 0\) is not the number of a category; use 0 to 1"):
        stream.extend([2.0, code])


def test_recent_records_count_more_with_a_half_life() -> None:
    policy = Histogram((0.5,), half_life=500.0)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    rows = (np.arange(8_000) >= 7_000).astype(np.float64)
    stream.extend(rows)
    estimate = stream.estimate()
    assert estimate.value[1] == pytest.approx(1.0 - 0.25, abs=1e-3)
    assert estimate.counts is None
    assert estimate.count_error is None


def test_in_a_bundle_a_missing_value_is_in_no_bin() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.lognormal(size=12_000), rng.integers(1, 6, 12_000).astype(np.float64)])
    rows[rng.random(12_000) < 0.3, 1] = np.nan
    policy = Bundle({"amount": Mean(), "rating": Histogram((1, 2, 3, 4, 5))})
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(rows)
    answer = stream.estimate()["rating:histogram"]
    assert answer.counts.tolist() == count(rows[~np.isnan(rows[:, 1]), 1], (1, 2, 3, 4, 5)).tolist()  # type: ignore[attr-defined]
    assert not stream.estimate().missed


@pytest.mark.parametrize("share", [0.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_exact_counts_are_exact(share: float) -> None:
    rows, edges = make_column("lognormal", 30_000), (0.1, 1.0, 10.0)
    policy = ExactHistogram(edges, bits=20)
    estimate = run_with_requests(policy, rows, policy.default_retention + 60, share).estimate()
    assert estimate.since == 1
    assert estimate.counts is not None
    assert estimate.counts.tolist() == count(rows, edges).tolist()
    assert (estimate.encoding_error, estimate.missed) == (0.0, False)


def test_a_count_that_outgrows_its_bits_says_so() -> None:
    policy = ExactHistogram((0.5,), bits=8)
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(np.zeros(255))
    assert stream.estimate().notes == ()
    stream.extend(np.zeros(1_000))
    estimate = stream.estimate()
    assert estimate.missed
    assert "A count has reached the largest number that its bits hold" in estimate.notes[-1]


def test_noise_is_as_large_as_is_said_and_nothing_is_clipped() -> None:
    """An indicator has norm 1, so that a bound of 1 clips nothing; 30 streams of 3 bins measure the noise to 7%."""
    rows, edges = np.random.default_rng(0).normal(size=4_000), (-0.5, 0.5)
    shares, off = count(rows, edges) / len(rows), []
    for _ in range(30):
        stream = Stream(Private(Histogram(edges), bound=1.0, epsilon=1.0, delta=1e-6), retention=2_000)
        stream.extend(rows)
        estimate = stream.estimate()
        off.append(estimate.value - shares)
    noise = stream.policy.noise(stream.clock, 0)  # type: ignore[attr-defined]
    assert np.sqrt(np.mean(np.square(off))) == pytest.approx(noise, rel=5.0 / np.sqrt(2 * 90))
    assert abs(np.mean(off)) <= 5.0 * noise / np.sqrt(90)


def test_plans_and_predictions() -> None:
    found = plan(Histogram((0, 1, 2)), records=20_000, bound=1.0)
    assert found.rows[0].name == "Histogram"
    assert found.rows[0].retention is not None
    assert found.rows[0].retention <= 2 * 35 * 4
    expected = predict(Histogram((0, 1, 2)), retention=512, records=20_000)
    assert expected.error == pytest.approx(1.0 / np.sqrt(20_000), rel=0.01)
    row = plan(ExactHistogram((0, 1, 2)), records=1_000).rows[0]
    assert (row.retention, row.error) == (ExactHistogram((0, 1, 2)).default_retention, 0.0)


def test_the_command(tmp_path: Path) -> None:
    table, rows = tmp_path / "ratings.csv", np.random.default_rng(0).integers(1, 6, 3_000)
    table.write_text("rating\n" + "\n".join(map(str, rows)) + "\n")
    arguments = ["run", str(table), "--column", "rating", "--retention", "768", "--statistic"]
    refused = CliRunner().invoke(command, [*arguments, "histogram"])
    assert "--statistic histogram needs --edges, the borders between bins" in refused.stderr
    refused = CliRunner().invoke(command, [*arguments, "mean", "--edges", "1,2"])
    assert "--edges 1,2 cannot be used with --statistic mean; leave it out" in refused.stderr
    refused = CliRunner().invoke(command, [*arguments, "histogram", "--edges", "1,x"])
    assert "edges=1,x has an edge that is not a number" in refused.stderr
    for name in ("histogram", "exact_histogram"):
        result = CliRunner().invoke(command, [*arguments, name, "--edges", "1,2,3,4,5", "--json"])
        assert result.exit_code == 0, result.output
        facts = json.loads(result.stdout)
        assert list(facts["counts"].values()) == [0, *np.bincount(rows)[1:]]
        assert facts["value"]["3 to 4"] == (rows == 3).mean()
    shown = CliRunner().invoke(command, [*arguments, "histogram", "--edges", "1,2,3,4,5"]).stdout
    assert "All-time histogram of 3,000 records" in shown
    assert f"{(rows == 5).sum():,}" in shown
    planned = CliRunner().invoke(command, ["plan", "--statistic", "histogram", "--edges", "0,1", "--records", "1000"])
    assert "assuming as many records in each bin" in " ".join(planned.stdout.split())


@pytest.mark.parametrize("edges", [(), (1.0, 1.0), (2.0, 1.0), (np.nan,), (np.inf,), "12", 5, ((1.0,),)])
def test_bad_edges_are_refused(edges: object) -> None:
    for kind in (Histogram, ExactHistogram):
        with pytest.raises(ParameterError, match="are not the edges of bins; use 1 to 10,000 finite numbers"):
            kind(edges)  # type: ignore[arg-type]


@pytest.mark.parametrize("categories", [(), ("a", "a"), ("a", "other"), ("",), "ab", (1, 2)])
def test_bad_categories_are_refused(categories: object) -> None:
    with pytest.raises(ParameterError, match="are not different names"):
        Shares(categories)  # type: ignore[arg-type]


def test_too_many_bits_are_refused() -> None:
    with pytest.raises(ParameterError, match="bits=53 is out of range"):
        ExactHistogram((0.0,), bits=53)


def test_bins_between_edges_that_differ_little_have_different_names() -> None:
    bins = Histogram((1700000000001, 1700000000002, 1700000000003)).bins
    assert bins[1:3] == ("1700000000001 to 1700000000002", "1700000000002 to 1700000000003")
    assert len(set(bins)) == len(bins)
    assert Histogram((-2.5, 0.1)).bins == ("below -2.5", "-2.5 to 0.1", "0.1 or more")


@pytest.mark.parametrize(("off", "rounds"), [(0.2, True), (0.3, False), (1.5, False)])
def test_counts_are_rounded_only_where_they_are_sure(off: float, rounds: bool) -> None:
    """A share of 25.4 of 100 records is that of 25 if it can be off by less than a quarter, else it stays."""
    worth, margin = 100.0, bound_rounding(1e-12, 100.0, KNOWN_MARGIN) / 1e-12
    rounding = off / (margin * INDICATOR * np.sqrt(worth))
    made = conclude_shares(np.array([0.254, 0.746]), ("a", "b"), worth, rounding, has_counts=True)
    assert made.count_error == pytest.approx(off)
    assert made.value.tolist() == ([0.25, 0.75] if rounds else [0.254, 0.746])
