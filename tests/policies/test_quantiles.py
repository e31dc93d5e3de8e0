"""Quantiles lie between their bounds whatever the data, and the state depends on the records alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import Quantiles, Stream
from vestige.checks import check_policy
from vestige.cli import command
from vestige.errors import ParameterError
from vestige.flights import flights
from vestige.planning import plan
from vestige.policies.counters import unpack
from vestige.policies.quantiles import QuantilesEstimate, name_quantiles, parse_probabilities
from vestige.types import Floats

RNG = np.random.default_rng
PROBABILITIES = tuple(np.linspace(0.005, 1.0, 200).tolist())
COUNT = 20_000
RANDOM = ("normal", "lognormal", "cauchy")


def draw_values(kind: str, count: int = COUNT) -> Floats:
    """Records of many kinds, the last of which are orders that are hard for the summary."""
    rng, normal = RNG(0), RNG(1).normal(size=count)
    ascending = np.sort(normal)
    kinds = {
        "normal": normal,
        "lognormal": np.exp(2.0 * normal),
        "cauchy": rng.standard_cauchy(count),
        "whole": np.round(3.0 * normal),
        "cents": np.round(normal, 2),
        "half zero": np.where(rng.random(count) < 0.5, 0.0, normal),
        "constant": np.full(count, 3.5),
        "drift": normal + np.linspace(0.0, 20.0, count),
        "blocks": normal + np.repeat([0.0, 50.0, 25.0, 10.0, 70.0], count // 5),
        "ascending": ascending,
        "descending": ascending[::-1],
        "from both ends": np.stack((ascending, ascending[::-1])).T.ravel()[:count],
    }
    return np.ascontiguousarray(kinds[kind])


KINDS = (*RANDOM, "whole", "cents", "half zero", "constant", "drift", "blocks", "ascending", "descending")
ALL_KINDS = (*KINDS, "from both ends")


def summarize(values: Floats, policy: Quantiles) -> QuantilesEstimate:
    """What a summary that saw everything says."""
    return policy.make_estimate(policy.move(policy.first_state, values[:, None]), len(values))


def check_bounds(estimate: QuantilesEstimate, values: Floats) -> None:
    """Bounds hold for certain: no tolerance."""
    ordered, p = np.sort(values), np.array(estimate.probabilities)
    ranks = np.maximum(np.ceil(p * len(values) * (1.0 - 1e-12)), 1.0)
    true = ordered[ranks.astype(int) - 1]
    assert (estimate.lower <= true).all()
    assert (true <= estimate.upper).all()
    assert ((estimate.lower <= estimate.value) & (estimate.value <= estimate.upper)).all()
    assert (find_rank_errors(estimate, values) <= estimate.rank_error * (1.0 + 1e-12)).all()


def find_rank_errors(estimate: QuantilesEstimate, values: Floats) -> Floats:
    """How far the ranks are really off, as shares of the records."""
    ordered, p = np.sort(values), np.array(estimate.probabilities)
    ranks = np.maximum(np.ceil(p * len(values) * (1.0 - 1e-12)), 1.0)
    last = np.searchsorted(ordered, estimate.value, "right")
    first = np.minimum(np.searchsorted(ordered, estimate.value, "left") + 1, last)
    off: Floats = np.maximum(np.maximum(first - ranks, ranks - last), 0.0) / len(values)
    return off


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("size", [10, 100])
def test_bounds_hold_for_any_data(kind: str, size: int) -> None:
    values = draw_values(kind)
    for count in (1, 2, 3, size, size + 1, 777, COUNT):
        check_bounds(summarize(values[:count], Quantiles(PROBABILITIES, size)), values[:count])


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_as_small_as_the_docs_say(kind: str) -> None:
    """At most about 1 / size in no particular order, twice as much with drift."""
    values = draw_values(kind)
    found = summarize(values, Quantiles(PROBABILITIES, 100))
    usual = 0.01 if kind not in ("drift", "blocks") else 0.02
    assert find_rank_errors(found, values).max() <= usual
    assert found.rank_error.max() <= 2.0 * usual


@pytest.mark.parametrize("size", [10, 20])
def test_a_small_summary_answers_between_its_entries(size: int) -> None:
    """The nearest entry is off by a fifth of a gap on average, and was the maximum for p95."""
    values, policy = draw_values("lognormal"), Quantiles([0.25, 0.5, 0.75, 0.95], size)
    found = summarize(values, policy)
    assert (find_rank_errors(found, values)[:3] < 0.2 / size).all()
    assert found.value[3] < values.max()


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_rank_errors_are_the_least_that_follow_from_all_entries(kind: str) -> None:
    values, policy = draw_values(kind, 1_000), Quantiles(PROBABILITIES, 12)
    state = policy.move(policy.first_state, values[:, None])
    found = policy.make_estimate(state, len(values))
    entries, marked, slacks, used = unpack(state, 12)
    for value, p, error in zip(found.value, PROBABILITIES, found.rank_error, strict=True):
        rank, least, most, reached = max(int(np.ceil(p * 1_000 * (1.0 - 1e-12))), 1), 0, 1_000, 0
        for i in range(used):  # least <= records up to value; records below value <= most
            gain, is_single = int(marked[i]) // 2, int(marked[i]) % 2
            reached += gain
            if entries[i] <= value:
                least = reached
            if entries[i] >= value:
                most = min(most, reached + int(slacks[i]) - (gain if is_single else 1))
        is_entry = value in entries[:used]
        assert error * 1_000 == pytest.approx(max(most + is_entry - rank, rank - least, 0))


@pytest.mark.parametrize("kind", ["whole", "constant"])
def test_few_different_values_have_exact_quantiles(kind: str) -> None:
    values, found = draw_values(kind), summarize(draw_values(kind), Quantiles(PROBABILITIES))
    assert np.array_equal(found.value, np.quantile(values, PROBABILITIES, method="inverted_cdf"))
    assert np.array_equal(found.lower, found.upper)
    assert not found.rank_error.any()


def test_where_calls_end_makes_no_difference() -> None:
    policy, rng = Quantiles(size=30), RNG(2)
    for kind in ALL_KINDS:
        values = draw_values(kind, 3_000)[:, None]
        state = policy.first_state
        for part in np.split(values, np.sort(rng.integers(1, len(values), 20))):
            state = policy.move(state, part) if len(part) else state
        assert state == policy.move(policy.first_state, values)


def test_a_stream_has_the_summary_of_everything() -> None:
    """With requests and drift, to the last bit."""
    policy, rng = Quantiles(PROBABILITIES, size=10), RNG(3)
    values = draw_values("drift")
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    while stream.t < len(values):
        stream.extend(values[stream.t : stream.t + int(rng.integers(1, 1_500))])
        stream.forget(rounds=rng.integers(max(1, stream.t - 300), stream.t + 1, 5))
        expected, found = summarize(values[: stream.t], policy), stream.estimate()
        for name in ("value", "lower", "upper", "rank_error"):
            assert np.array_equal(getattr(found, name), getattr(expected, name))
    assert stream.clock.since == 1
    assert stream.clock.updates >= 10


def test_beyond_the_reserve_it_starts_over_and_says_so() -> None:
    policy, values = Quantiles(size=10), draw_values("normal")
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    stream.extend(values[: 3 * stream.batch - 1])
    stream.forget(rounds=np.arange(2 * stream.batch + 1, 2 * stream.batch + 1 + stream.batch // 3))
    stream.extend(values[stream.t :])
    estimate = stream.estimate()
    assert estimate.since == 3 * stream.batch + 1
    assert "Counts from round" in estimate.notes[0]
    assert np.array_equal(estimate.value, summarize(values[estimate.since - 1 :], policy).value)


@pytest.mark.slow
def test_it_follows_the_model() -> None:
    check_policy(Quantiles(size=10))


@pytest.mark.slow
def test_quantiles_of_flights() -> None:
    for column in ("dep_delay", "distance", "air_time"):
        values = flights(column)[:, 0]
        policy = Quantiles(PROBABILITIES)
        stream = Stream(policy, retention=policy.default_retention, seed=0)
        stream.extend(values)
        found = stream.estimate()
        assert found.counted == len(values)
        check_bounds(found, values)
        assert found.rank_error.max() <= 0.02


def test_probabilities_are_read_from_texts() -> None:
    assert Quantiles.from_options(["p50", " 0.95"], 1, None) == Quantiles([0.5, 0.95])
    for texts in (["x"], ["p"], ["p200"], ["0.5", "p50"]):
        with pytest.raises(ParameterError, match="probabilities="):
            Quantiles.from_options(texts, 1, None)


def test_its_plan_states_retention_and_error() -> None:
    row = plan(Quantiles(size=20), records=10**6).row("Quantiles")
    assert row.retention == Quantiles(size=20).default_retention
    assert row.error is None
    assert any("about 5.00% of the records" in note for note in row.notes)


def test_the_command_prints_quantiles(tmp_path: Path) -> None:
    values = RNG(0).integers(0, 60, 2_001)
    path = tmp_path / "a.csv"
    path.write_text("minutes\n" + "\n".join(map(str, values.tolist())))
    options = ["run", str(path), "--column", "minutes", "--statistic", "quantiles", "--retention", "40000"]
    table = CliRunner().invoke(command, options)
    assert table.exit_code == 0
    assert "rank error" in table.output
    found = json.loads(CliRunner().invoke(command, [*options, "--json"]).output)
    median = float(np.median(values))
    assert found["value"]["p50"] == {"quantile": median, "lower": median, "upper": median, "rank_error": 0.0}


@pytest.mark.parametrize(
    "arguments",
    [
        {"probabilities": []},
        {"probabilities": 0.5},
        {"probabilities": [0.0, 0.5]},
        {"probabilities": [0.5, 0.5]},
        {"probabilities": [1.5]},
        {"probabilities": ["a"]},
        {"size": 9},
        {"size": 10**6},
        {"reserve": -0.1},
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        Quantiles(**arguments)  # type: ignore[arg-type]


def test_quantiles_that_differ_little_have_different_names_which_can_be_read() -> None:
    probabilities = (0.05, 0.07, 0.5, 0.999, 0.99999999, 0.999999999999, 1e-7, 1.0)
    names = name_quantiles(probabilities)
    assert names == ("p5", "p7", "p50", "p99.9", "p99.999999", "p99.9999999999", "p0.00001", "p100")
    assert parse_probabilities(names) == probabilities


def deal(values: Floats, blocks: int, backwards: int) -> Floats:
    """Sorted values, in blocks that are dealt from both ends towards the middle; those of an end backwards or not."""
    parts, half = np.array_split(np.sort(values), blocks), -(-blocks // 2)
    low = [part[:: -1 if backwards & 1 else 1] for part in parts[:half]]
    high = [part[:: -1 if backwards & 2 else 1] for part in parts[half:][::-1]]
    dealt = [part for pair in zip(low, [*high, np.empty(0)], strict=False) for part in pair]
    return np.concatenate(dealt)


def find_worst_rank(blocks: list[int]) -> tuple[float, float]:
    """By how much ranks are off at most in such orders, and as stated; an error if one is off by more than stated."""
    shares, n, found = np.arange(1, 200) / 200, 300_000, []
    policy, values = Quantiles(tuple(shares.tolist()), size=100), np.random.default_rng(0).normal(size=300_000)
    ordered = np.sort(values)
    for count in blocks:
        for backwards in range(4):
            rows = deal(values, count, backwards)
            assert len(rows) == n
            made = policy.make_estimate(policy.move(policy.first_state, rows[:, None]), n)
            below, up_to = (np.searchsorted(ordered, made.value, side) / n for side in ("left", "right"))
            off = np.maximum(np.maximum(below - shares, shares - up_to), 0.0)
            assert (off <= made.rank_error).all()
            truth = ordered[np.maximum(np.ceil(shares * n * (1.0 - 1e-12)).astype(int), 1) - 1]
            assert ((made.lower <= truth) & (truth <= made.upper)).all()
            found.append((float(off.max()), float(made.rank_error.max())))
    return max(off for off, _ in found), max(stated for _, stated in found)


def test_the_worst_order_that_was_found_is_what_the_docs_say() -> None:
    off, stated = find_worst_rank([1_000])
    assert 0.06 <= off <= 0.071
    assert stated <= 0.129


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_no_order_that_deals_blocks_from_both_ends_is_worse(part: int) -> None:
    off, stated = find_worst_rank([int(k) for k in np.unique(np.geomspace(3, 100_000, 50).astype(int))][part::4])
    assert off <= 0.071
    assert stated <= 0.129
