"""Combined estimates against numpy over all records, however these were divided, for every statistic."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import COLUMNS, make_column
from vestige import (
    Bundle,
    Count,
    Covariance,
    Distinct,
    Estimate,
    ExactHistogram,
    Extremes,
    Histogram,
    HistogramQuantiles,
    KeyedStreams,
    LinearRegression,
    LogisticRegression,
    Mean,
    Memory,
    Moments,
    Policy,
    Private,
    Quantiles,
    Ratio,
    Stream,
    Sum,
    TopK,
    Window,
    combine,
    paper,
)
from vestige.audit import AuditSeed
from vestige.errors import NoAnswerError, ParameterError
from vestige.policies import POLICIES, STATISTICS
from vestige.policies.rounding import combine_bounds, combine_rounding
from vestige.types import Floats

EDGES = (-1.0, 0.0, 0.5, 3.0)
BINS = (-np.inf, *EDGES, np.inf)
PROBABILITIES = (0.1, 0.5, 0.9)


def stream(policy: Policy[Any], rows: Floats, seed: int = 0, retention: int | None = None) -> Stream[Any]:
    """A stream of these records."""
    kept: int = getattr(policy, "default_retention", 512) if retention is None else retention
    made: Stream[Any] = Stream(policy, retention=kept, seed=AuditSeed(seed) if isinstance(policy, Private) else seed)
    made.extend(rows)
    return made


def split(
    policy: Policy[Any], rows: Floats, ends: Sequence[int], retention: int | None = None, seed: int = 0
) -> list[Any]:
    """The estimate of one stream for each part of the records that is not empty."""
    parts = [part for part in np.split(rows, sorted(ends)) if len(part)]
    return [stream(policy, part, seed + i, retention).estimate() for i, part in enumerate(parts)]


def draw(columns: int, n: int = 24_000, seed: int = 0) -> Floats:
    """Columns that depend on each other; the second half of the records is unlike the first."""
    rows: Floats = np.random.default_rng(seed).normal(size=(n, columns)) + np.linspace(0.0, 2.0, n)[:, None]
    rows[:, 1:] += 0.5 * rows[:, :1] + 3.0
    return rows


def bound_quantiles(made: Any, rows: Floats) -> None:
    exact = np.quantile(rows[:, 0], PROBABILITIES, method="inverted_cdf")
    assert (made.lower <= exact).all()
    assert (exact <= made.upper).all()
    assert (made.lower <= made.value).all()
    assert (made.value <= made.upper).all()


def check_sum(made: Any, rows: Floats) -> None:
    assert abs(made.value - math.fsum(rows[:, 0])) <= made.encoding_error
    assert made.encoding_error <= 0.001 * made.standard_error
    assert made.standard_error == pytest.approx(rows.std() * np.sqrt(len(rows)), rel=1e-4)


def check_counts(made: Any, rows: Floats) -> None:
    counts = np.histogram(rows[:, 0], BINS)[0]
    assert made.counts.tolist() == counts.tolist()
    assert made.value == pytest.approx(counts / len(rows), rel=1e-12)
    assert made.count_error < 0.5


def check_moments(made: Any, rows: Floats) -> None:
    x = rows[:, 0]
    apart = (x - x.mean()) / x.std()
    expected = [x.mean(), x.var(), (apart**3).mean(), (apart**4).mean()]
    assert made.value == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert made.standard_error == pytest.approx(x.std() / np.sqrt(len(x)), rel=1e-5)


def check_fit(made: Any, rows: Floats) -> None:
    design = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    fit, rest, _, _ = np.linalg.lstsq(design, rows[:, -1], rcond=None)
    noise = rest[0] / (len(rows) - design.shape[1])
    errors = np.sqrt(noise * np.linalg.inv(design.T @ design).diagonal())
    assert [made.intercept, *made.value] == pytest.approx(fit, abs=1e-6)
    assert [made.intercept_error, *made.standard_errors] == pytest.approx(errors, rel=1e-5)
    assert made.noise == pytest.approx(noise, rel=1e-5)


def check_top(made: Any, rows: Floats) -> None:
    values, counts = np.unique(rows[:, 0], return_counts=True)
    known = dict(zip(values.tolist(), counts.tolist(), strict=True))
    for value, low, high in zip(made.value.tolist(), made.lower.tolist(), made.upper.tolist(), strict=True):
        assert low <= known.pop(value) <= high
    assert max(known.values(), default=0) <= made.others


def check_distinct(made: Any, rows: Floats) -> None:
    assert made.lower <= len(np.unique(rows)) <= made.upper


def check_extremes(made: Any, rows: Floats) -> None:
    assert made.value.tolist() == [rows.min(), rows.max()]


def check_ratio(made: Any, rows: Floats) -> None:
    y, x = rows.T
    ratio = y.mean() / x.mean()
    assert made.value == pytest.approx(ratio, rel=1e-6)
    assert made.standard_error == pytest.approx((y - ratio * x).std() / x.mean() / np.sqrt(len(x)), rel=1e-4)


def check_mean(made: Any, rows: Floats) -> None:
    assert abs(made.value - rows.mean()) <= 0.1 * rows.std() / np.sqrt(len(rows))


def check_covariance(made: Any, rows: Floats) -> None:
    assert made.value == pytest.approx(np.cov(rows.T, bias=True), rel=1e-5, abs=1e-5)
    assert made.mean == pytest.approx(rows.mean(axis=0), rel=1e-6)
    assert made.standard_error == pytest.approx(rows.std(axis=0) / np.sqrt(len(rows)), rel=1e-5)


def check_correlation(made: Any, rows: Floats) -> None:
    expected = np.corrcoef(rows.T)
    assert made.value == pytest.approx(expected, abs=1e-6)
    assert made.standard_error == pytest.approx((1.0 - expected**2) / np.sqrt(len(rows)), rel=1e-3, abs=1e-6)


Check = Callable[[Any, Floats], None]
CASES: dict[str, tuple[Policy[Any], Floats, Check]] = {
    "mean": (Mean(), draw(1), check_mean),
    "sum": (Sum(), draw(1), check_sum),
    "count": (Count(), draw(1), lambda made, rows: check_value(made, float(len(rows)))),
    "histogram": (Histogram(EDGES), draw(1), check_counts),
    "exact_histogram": (ExactHistogram(EDGES), draw(1), check_counts),
    "ratio": (Ratio(), draw(2), check_ratio),
    "moments": (Moments(4), draw(1), check_moments),
    "covariance": (Covariance(3), draw(3), check_covariance),
    "regression": (LinearRegression(2), draw(3), check_fit),
    "extremes": (Extremes(), draw(1), check_extremes),
    "quantiles": (Quantiles(PROBABILITIES, size=20), draw(1), bound_quantiles),
    "histogram_quantiles": (HistogramQuantiles((-9.0, *EDGES, 9.0), PROBABILITIES), draw(1), bound_quantiles),
    "top": (TopK(3, counters=20), np.rint(5.0 * draw(1) ** 2), check_top),
    "distinct": (Distinct(64), np.rint(1_000.0 * draw(1)), check_distinct),
}
CASES["correlation"] = (STATISTICS["correlation"](3), draw(3), check_correlation)  # type: ignore[call-arg]
CASES["shares"] = (
    STATISTICS["shares"](("a", "b", "c", "d")),  # type: ignore[call-arg]
    np.searchsorted(EDGES, draw(1)[:, 0], side="right").astype(float)[:, None],
    lambda made, rows: check_value(made, np.bincount(rows[:, 0].astype(int)) / len(rows)),
)


def check_value(made: Any, expected: float | Floats) -> None:
    assert made.value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_statistic_of_all_records(name: str) -> None:
    """Parts of 1, of 49 and of thousands of records; the part of one has no answer where that is not defined."""
    policy, rows, check = CASES[name]
    ends = [50, 8_000, 8_050, 20_000] if name in ("regression", "correlation") else [1, 50, 8_000, 8_050, 20_000]
    parts = split(policy, rows, ends)
    made = combine(parts)
    check(made, rows)
    assert (made.t, made.counted, made.since) == (len(rows), len(rows), 1)
    assert made.held == sum(part.held for part in parts)
    assert type(made) is type(parts[0])
    assert not made.missed
    assert made.notes == ()
    again = combine(pickle.loads(pickle.dumps(parts)))  # as between the workers of a cluster
    assert again.to_dict() == made.to_dict()
    nested = combine([combine(parts[:2]), combine(parts[2:])])
    check(nested, rows)
    assert (nested.t, nested.counted, nested.held) == (made.t, made.counted, made.held)


def test_every_statistic_is_combined_or_says_why_not() -> None:
    assert {*CASES, "logistic"} == set(STATISTICS)
    assert {name for name in POLICIES if name.startswith("vestige.")} >= {"vestige.Bundle", "vestige.Private"}


@pytest.mark.parametrize("name", COLUMNS)
def test_data_of_many_kinds(name: str) -> None:
    rows = make_column(name, 12_000)[:, None]
    ends = [1, 3_000, 3_001, 7_000]
    moments, total = combine(split(Moments(2), rows, ends)), combine(split(Sum(), rows, ends))
    spread = rows.std()
    assert moments.mean == pytest.approx(rows.mean(), rel=1e-14, abs=1e-3 * spread / np.sqrt(len(rows)))
    assert moments.variance == pytest.approx(0.0 if name == "constant" else spread**2, rel=1e-3)
    assert abs(total.value - math.fsum(rows[:, 0])) <= total.encoding_error
    assert not total.missed


rows_of_any_size = st.lists(
    st.tuples(st.floats(-100, 100), st.floats(-100, 100), st.floats(-100, 100)), min_size=12, max_size=60
)


@settings(max_examples=60, deadline=None)
@given(rows_of_any_size, st.lists(st.integers(0, 60), max_size=4), st.sampled_from([0.0, 1e6]), st.randoms())
def test_any_split_is_the_whole_and_order_does_not_matter(
    drawn: list[tuple[float, ...]], ends: list[int], far: float, random: Any
) -> None:
    """While all records are held nothing is rounded, so that what is left is what combining itself adds."""
    rows = np.array(drawn) + far
    for policy in (Mean(3), Sum(3), Covariance(3)):
        parts = split(policy, rows, ends, retention=1_024)
        whole = stream(policy, rows, retention=1_024).estimate()
        made = combine(parts)
        tolerance = 1e-9 * max(1.0, far) * (len(rows) if isinstance(policy, Sum) else 1)
        assert made.value == pytest.approx(whole.value, rel=1e-9, abs=tolerance)
        random.shuffle(parts)
        half = random.randrange(len(parts)) + 1
        nested = combine([combine(parts[:half]), *parts[half:]])
        assert nested.value == pytest.approx(made.value, rel=1e-9, abs=tolerance)
        assert nested.counted == made.counted == len(rows)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(-5, 5), st.integers(-10_000, 10_000)), min_size=2, max_size=600),
    st.lists(st.integers(0, 600), max_size=4),
    st.booleans(),
)
def test_bounds_of_sketches_hold_for_certain(drawn: list[int], ends: list[int], is_sorted: bool) -> None:
    """The states themselves, after any records in any order and any split, nested or not."""
    rows = np.array(sorted(drawn) if is_sorted else drawn, np.float64)[:, None]
    chunks = [part for part in np.split(rows, sorted(ends)) if len(part)]
    for policy, check in ((Quantiles(PROBABILITIES, size=10), bound_quantiles), (TopK(3, counters=5), check_top)):
        states = [policy.move(policy.first_state, part) for part in chunks]
        merged = policy.merge(states)
        check(policy.make_estimate(merged, len(rows)), rows)
        nested = states[0]
        for state in states[1:]:
            nested = policy.merge([nested, state])
        check(policy.make_estimate(nested, len(rows)), rows)
    exact, extremes = ExactHistogram((0.0, 3.0)), Extremes()
    counted = exact.merge([exact.move(exact.first_state, part) for part in chunks])
    assert counted == exact.move(exact.first_state, rows)
    assert extremes.merge([extremes.move(extremes.first_state, part) for part in chunks]) == extremes.move(
        extremes.first_state, rows
    )


def test_the_bounds_of_combined_sketches_are_not_wider_than_those_of_the_parts() -> None:
    """The ranks of a merged summary are off by the sum of those of the parts, as a share by their average."""
    rows = np.random.default_rng(1).normal(size=(40_000, 1))
    policy = Quantiles(PROBABILITIES, size=50)
    parts = split(policy, rows, [10_000, 20_000, 30_000])
    assert combine(parts).rank_error.max() <= max(part.rank_error.max() for part in parts) + 0.01


def test_united_sketches_do_not_depend_on_the_split_and_their_error_is_the_one_stated() -> None:
    policy, rng, off = Distinct(64), np.random.default_rng(3), []
    for _ in range(150):
        rows = rng.integers(0, 2**50, (2_000, 1)).astype(np.float64)
        states = [policy.move(policy.first_state, part) for part in np.split(rows, 4)]
        merged = policy.make_merged(policy.merge(states), 2_000)
        other = policy.merge([policy.merge(states[:2]), policy.merge([states[3], states[2]])])
        assert policy.make_merged(other, 2_000).value == merged.value
        off.append((merged.value - 2_000) / merged.standard_error)
    spread = float(np.sqrt(np.mean(np.square(off))))
    assert spread == pytest.approx(1.0, abs=4.0 / np.sqrt(2 * 150))  # four deviations of the root of a chi-square


def test_a_full_exact_histogram_says_so() -> None:
    parts = [stream(ExactHistogram((0.0,), bits=4), np.ones((10, 1)), retention=100).estimate() for _ in range(2)]
    assert not parts[0].missed
    assert "cannot be trusted" in combine(parts).notes[0]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.floats(0, 1), st.floats(0.0, 100), st.floats(-100, 100)),
        min_size=1,
        max_size=6,
    )
)
def test_the_theorem_on_rounding(drawn: list[tuple[float, ...]]) -> None:
    """Theorems 1 and 2 on combining, for parts of any sizes, errors, deviations and means."""
    n, r, spread, means = np.array(drawn).T
    r, spread = np.round(r, 6), np.round(spread, 6)  # squares of smaller ones vanish
    shares = n / n.sum()
    whole = np.sqrt(shares @ (spread**2 + (means - shares @ means) ** 2))
    slack = 1.0 + 1e-9
    independent = np.sqrt(((shares * r * spread) ** 2).sum())
    assert independent <= combine_rounding(n, r) * whole * slack + 1e-300
    bounds = r * np.sqrt(n)  # in standard errors
    at_most = shares @ (r * spread)
    assert at_most <= combine_bounds(bounds) * whole / np.sqrt(n.sum()) * slack + 1e-300


def test_the_theorem_is_sharp_for_equal_parts() -> None:
    n, r = np.full(9, 1_000.0), np.full(9, 0.03)
    assert combine_rounding(n, r) == pytest.approx(np.sqrt(9 * (0.03 / 9) ** 2))
    assert combine_bounds(r * np.sqrt(n)) / np.sqrt(n.sum()) == pytest.approx(0.03)


def test_independent_rounding_averages_out() -> None:
    """Short batches round visibly; four streams together are half as far off as each of them, as theorem 1 says."""
    trials, policy = 60, Mean(spread=True)
    rng = np.random.default_rng(5)
    alone, together = [], []
    for trial in range(trials):
        rows = rng.normal(size=(4, 2_000))
        parts = [stream(policy, row[:, None], 4 * trial + i, 76).estimate() for i, row in enumerate(rows)]
        alone += [part.value - row.mean() for part, row in zip(parts, rows, strict=True)]
        together.append(combine(parts).value - rows.mean())
    ratio = np.sqrt(np.mean(np.square(together)) / np.mean(np.square(alone)))
    assert np.mean(np.square(alone)) > 0.0
    assert ratio == pytest.approx(0.5, abs=0.5 * 5.0 / np.sqrt(2 * trials))


def test_bounds_add_up_where_all_streams_err_on_the_same_side() -> None:
    """The bounds of totals, counts and quantiles hold whatever the signs of the errors of the parts are."""
    rows = np.random.default_rng(6).normal(size=(8_000, 1))
    for policy in (Sum(), Histogram(EDGES)):
        parts = split(policy, rows, [2_000, 4_000, 6_000], retention=172)
        made = combine(parts)
        name = "encoding_error" if isinstance(policy, Sum) else "count_error"
        assert getattr(made, name) == pytest.approx(sum(getattr(part, name) for part in parts), rel=1e-12)
    parts = split(HistogramQuantiles(EDGES, (0.5,)), rows, [2_000, 4_000, 6_000], retention=172)
    reaches = [part.basis.bound / np.sqrt(part.basis.worth) / 4 for part in parts]
    made = combine(parts)
    assert made.basis.bound / np.sqrt(made.basis.worth) >= sum(reaches) * (1.0 - 1e-12)
    assert (made.rank_error >= min(part.rank_error.min() for part in parts) * 0.5).all()


def restart(policy: Policy[Any], rows: Floats, lost: int) -> Any:
    """A stream all of whose first records are erased at once."""
    made = stream(policy, rows[:lost], retention=1_024)
    made.forget(rounds=range(1, lost + 1), now=True)
    made.extend(rows[lost:])
    return made.estimate()


@pytest.mark.parametrize("policy", [Moments(2), Count(), Extremes()])
def test_streams_that_started_over_are_not_said_to_be_whole(policy: Policy[Any]) -> None:
    rows = draw(1, 3_000)
    late = restart(policy, rows[:1_000], 700)
    parts = [late, *split(policy, rows[1_000:], [1_000], retention=1_024)]
    made = combine(parts)
    covered = np.concatenate((rows[700:1_000], rows[1_000:]))
    expected = {"Moments": covered.mean(), "Count": 2_812.0, "Extremes": covered.min()}[type(policy).__name__]
    assert np.ravel(made.value)[0] == pytest.approx(expected, rel=1e-6)
    assert (made.t, made.counted) == (3_000, 2_812 if isinstance(policy, Count) else 2_300)  # which needs no records
    nested = combine([combine(parts[:2]), parts[2]])
    for each in (made, nested):
        assert each.t - each.since + 1 >= each.counted
        assert each.since == (1 if isinstance(policy, Count) else 513)
        *started, erased = each.notes
        assert erased.startswith("188 of the ")
        assert [note[:41] for note in started] == ["512 of the 3,000 records are not covered:"] * (each.since > 1)


def test_a_note_counts_the_streams_that_started_over_and_lists_the_first() -> None:
    parts = [replace(part, since=11) for part in split(Count(), draw(1, 800), range(100, 800, 100))]
    made = combine(parts)
    assert made.since == 81
    assert made.notes[0].startswith(
        "80 of the 800 records are not covered: 8 of the 8 combined estimates (number 1, 2, 3, 4, 5, ...) had to start"
    )


def test_a_window_combines_what_its_streams_hold() -> None:
    rows = draw(2, 2_000)
    parts = [stream(Window(Covariance(2)), part, retention=100).estimate() for part in np.split(rows, 2)]
    held = np.concatenate((rows[900:1_000], rows[1_900:]))
    made = combine(parts)
    assert made.value == pytest.approx(np.cov(held.T, bias=True), rel=1e-12)
    assert (made.t, made.counted, made.notes) == (2_000, 200, ())


def test_an_estimate_that_missed_makes_the_combination_a_miss() -> None:
    rows = 1e9 + np.random.default_rng(0).normal(size=(4_000, 1))
    missed = stream(Mean(channel="average"), np.sort(rows, axis=0), retention=16).estimate()
    assert missed.missed
    fine = stream(Mean(channel="average"), rows, 1, 512).estimate()
    made = combine([fine, missed])
    assert made.missed
    assert made.notes[-1].startswith("Of one or more of the combined estimates: The encoded answer has missed")
    assert combine([fine, made]).notes == made.notes


class Tallied(Mean):
    """Says of how many streams an answer is."""

    def complete_merged(self, made: Any, parts: Sequence[Any]) -> Any:
        return replace(made, notes=(*made.notes, f"Of {len(parts)} streams."))


def test_a_statistic_completes_what_was_merged() -> None:
    assert combine(split(Tallied(), draw(1, 900), [300, 600])).notes == ("Of 3 streams.",)


def test_one_estimate_is_its_own_combination() -> None:
    estimate = stream(Mean(), draw(1)).estimate()
    assert combine([estimate]) is estimate


def test_streams_of_one_key_of_keyed_streams() -> None:
    rows, keys = draw(2, 6_000), [f"DE/{i % 3}" for i in range(6_000)]
    shops = KeyedStreams(Covariance(2), retention=512, seed=0)
    shops.extend(keys, rows)
    made = combine(shops.estimate(f"DE/{i}") for i in range(3))
    check_covariance(made, rows)


BUNDLE = Bundle(
    {
        "x": [Mean(), Sum(), Count(), Quantiles([0.5], size=10), Histogram((0.0,))],
        ("x", "y"): [LinearRegression(1), Ratio()],
    }
)


def make_gaps(n: int) -> Floats:
    rows = draw(2, n)
    rows[::3, 1] = np.nan
    return rows


def test_the_metrics_of_a_bundle() -> None:
    rows = make_gaps(24_000)
    parts = split(BUNDLE, rows, [8_000, 15_000])
    made, both = combine(parts), rows[np.isfinite(rows[:, 1])]
    check_sum(made["x:sum"], rows[:, :1])
    check_fit(made["x,y:regression"], both)
    check_ratio(made["x,y:ratio"], both)
    assert made["x:p50"].lower[0] <= np.median(rows[:, 0]) <= made["x:p50"].upper[0]
    assert made["x:mean"].value == pytest.approx(rows[:, 0].mean(), rel=1e-6)
    assert made.counts == {name: len(both) if "y" in name else len(rows) for name in made}
    assert made["x,y:ratio"].counted == len(both)
    assert made["x,y:ratio"].column_names == ("x", "y")
    assert made.shares["x,y"] == pytest.approx(len(both) / len(rows))
    assert (made.t, made.counted, made.notes, made.missed) == (24_000, 24_000, (), False)
    assert [row["metric"] for row in made.to_rows()] == [row["metric"] for row in parts[0].to_rows()]
    with pytest.raises(ParameterError, match="that of a Bundle as a whole"):
        combine([part["x,y:regression"] for part in parts])


def test_a_metric_without_an_answer_in_one_part_says_what_it_covers() -> None:
    rows = make_gaps(18_000)
    rows[9_000:, 0] = 2.0  # the second stream has no slope
    made = combine(split(BUNDLE, rows, [9_000]))
    assert made["x,y:regression"].counted == 6_000
    assert made["x,y:regression"].missed
    assert made["x,y:regression"].notes[0].startswith("Left out: 1 of the 2 combined estimates, with records of")
    assert made["x:mean"].counted == 18_000
    rows[:9_000, 0] = 1.0
    nothing = combine(split(BUNDLE, rows, [9_000]))
    assert "constant" in nothing.problems["x,y:regression"]
    with pytest.raises(NoAnswerError, match="constant"):
        nothing["x,y:regression"]


def test_a_column_that_one_part_never_had() -> None:
    policy, rows = Bundle({"x": Mean(), "y": Mean()}), make_gaps(4_000)
    rows[:2_000, 1] = np.nan
    made = combine(split(policy, rows, [2_000]))
    assert made["y:mean"].value == pytest.approx(np.nanmean(rows[:, 1]), rel=1e-6)
    assert (made["y:mean"].counted, made.notes) == (int(np.isfinite(rows[:, 1]).sum()), ())


def test_noise_adds_up_and_its_error_is_the_one_stated() -> None:
    trials, off, policy = 150, [], Private(bound=5.0, epsilon=1.0, delta=1e-6)
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (3_072, 1))
    for trial in range(trials):
        parts = split(policy, rows, [1_024], retention=256, seed=2 * trial)
        made = combine(parts)
        off.append((made.value - rows.mean()) / made.basis.noise)
    assert np.mean(off) == pytest.approx(0.0, abs=4.0 / np.sqrt(trials))
    assert np.std(off) == pytest.approx(1.0, abs=4.0 / np.sqrt(2 * trials))
    counts, noise = np.array([1_024.0, 2_048.0]), np.array([part.basis.noise for part in parts])
    assert made.basis.noise == pytest.approx(np.sqrt(((counts * noise) ** 2).sum()) / 3_072)
    assert "the price of epsilon=1 and delta=1e-06 for one record" in made.notes[0]
    assert made.notes[1].endswith("mu is the root of k times as large.")


def test_metrics_with_noise() -> None:
    policy = Private(Bundle({"x": [Mean(), Sum(), Count()]}), bounds={"x": 4.0}, epsilon=5.0, delta=1e-6)
    rows = np.random.default_rng(0).uniform(-1.0, 3.0, (40_000, 1))
    rows[::4] = np.nan
    parts = split(policy, rows, [10_000, 20_000])
    made, there = combine(parts), rows[np.isfinite(rows)]
    for name, expected in (("x:mean", there.mean()), ("x:sum", there.sum()), ("x:count", float(len(there)))):
        answer: Any = made[name]
        assert abs(answer.value - expected) <= 4.0 * answer.standard_error
        assert answer.standard_error < parts[0][name].standard_error * (1.0 if name == "x:mean" else 4.0)
        assert (answer.t, answer.labels) == (40_000, parts[0][name].labels)
    assert made["x:sum"].lower is None
    assert abs(made["x:mean"].counted - len(there)) < 1_000


def loss(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    gap = parameters[0] - rows[:, 0]
    return gap**2 / 2, gap[:, None]


def step(state: bytes, rows: Floats) -> bytes:
    return bytes([(state[0] + len(rows)) % 256])


def conclude(state: bytes) -> int:
    return state[0]


def test_what_cannot_be_combined_says_why() -> None:
    rows = draw(1, 600)
    mean, other = (stream(Mean(), part).estimate() for part in np.split(rows, 2))
    classes = np.column_stack([rows, rows > 0.5])
    recent = Bundle({"x": Mean()}, half_life=100.0)
    refused: list[tuple[Any, str]] = [
        ([], "estimates is empty; pass the estimate of each stream"),
        (5, "estimates=5 is not a list"),
        ([mean, 1.5], r"estimates\[1\] is a float; pass what the method `estimate`"),
        ([mean, Estimate(1.0)], r"estimates\[1\] does not say which policy"),
        ([mean, replace(other, basis=None)], r"estimates\[1\] does not have the basis"),
        ([mean, stream(Mean(spread=True), rows).estimate()], r"estimates\[1\] has policy=Mean\(.*equal policies"),
        ([mean, replace(other, column_names=("x",))], r"estimates\[1\] has columns=\('x',\), estimates\[0\] has \(\)"),
        ([stream(Mean(half_life=99.0), rows).estimate()] * 2, r"half_life=99\.0 counts each record by how many came"),
        ([stream(Window(Mean(half_life=99.0)), rows).estimate()] * 2, r"half_life=99\.0 counts each record"),
        ([stream(recent, rows).estimate()] * 2, r"half_life=100\.0 counts each record"),
        (
            [stream(LogisticRegression(1, half_life=99.0), classes).estimate()] * 2,
            r"half_life=99\.0 counts each record",
        ),
        (
            [stream(Memory(8, step, conclude), rows).estimate()] * 2,
            "Memory cannot be combined, because it does not say",
        ),
        (
            [stream(paper.SimpleMean(1), rows, retention=100).estimate()] * 2,
            "SimpleMean cannot be combined, because it does not define",
        ),
        (
            [replace(stream(Extremes(), rows).estimate(), basis=None)] * 2,
            r"estimates\[0\] does not have the state",
        ),
    ]
    for estimates, message in refused:
        with pytest.raises(ParameterError, match=message):
            combine(estimates)


def test_nothing_of_the_basis_is_shown() -> None:
    estimate = stream(Quantiles(size=10), draw(1)).estimate()
    assert "basis" not in estimate.to_dict()
    assert "policy" not in estimate.to_dict()
    assert "basis" not in repr(estimate)


def test_the_error_of_united_sketches_is_what_their_bounds_come_from() -> None:
    """The bounds are those of DataSketches, of two standard errors; one sketch alone has smaller ones."""
    policy, parts = Distinct(1_024), []
    for seed in range(2):
        stream = Stream(policy, retention=65_536, seed=seed)
        stream.extend(np.random.default_rng(seed).random(20_000))
        parts.append(stream.estimate())
    made = combine(parts)
    assert (made.value - made.lower) / (2.0 * made.standard_error) == pytest.approx(1.0, abs=0.08)
    assert made.standard_error / made.value > 1.1 * parts[0].standard_error / parts[0].value
