"""Counts of the most frequent values lie between their bounds, and the state depends on the records alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import Stream, TopK
from vestige.checks import check_policy
from vestige.cli import command
from vestige.errors import ParameterError, RuleError
from vestige.flights import flights
from vestige.planning import plan
from vestige.policies.counters import Counters, pack, unpack
from vestige.policies.top_k import TopKEstimate
from vestige.types import Floats

RNG = np.random.default_rng
COUNT = 20_000


def draw_values(kind: str) -> Floats:
    zipf = np.minimum(RNG(0).zipf(1.3, COUNT), 2**50).astype(np.float64)  # floats beyond 2^53 are refused
    kinds = {
        "zipf": zipf,
        "sorted zipf": np.sort(zipf),
        "zipf that changes": np.where(np.arange(COUNT) < COUNT // 2, zipf, -zipf),
        "few": RNG(1).integers(0, 12, COUNT).astype(np.float64),
        "all different": RNG(2).permutation(COUNT).astype(np.float64),
        "one": np.full(COUNT, -1.5),
    }
    return kinds[kind]


KINDS = ("zipf", "sorted zipf", "zipf that changes", "few", "all different", "one")


def count_all(values: Floats, policy: TopK) -> TopKEstimate:
    """What counters that saw everything say."""
    return policy.make_estimate(policy.move(policy.first_state, values[:, None]), len(values))


def check_bounds(found: TopKEstimate, values: Floats, policy: TopK) -> None:
    """Bounds hold for certain: no tolerance."""
    true = Counter(values.tolist())
    counts = np.array([true[value] for value in found.value.tolist()])
    assert len(set(found.value.tolist())) == len(found.value) == min(policy.k, len(true))
    assert (found.lower <= counts).all()
    assert (counts <= found.upper).all()
    assert (found.upper - found.lower <= len(values) / policy.counters).all()
    assert (np.diff(found.upper) <= 0).all()
    listed = set(found.value.tolist())
    assert max((count for value, count in true.items() if value not in listed), default=0) <= found.others
    assert found.others <= max(len(values) / policy.counters, found.upper[-1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", [TopK(3, 3), TopK(10, 50), TopK(5, 20)], ids=str)
def test_bounds_hold_for_any_data(kind: str, policy: TopK) -> None:
    values = draw_values(kind)
    for count in (1, 2, 49, 51, 777, COUNT):
        check_bounds(count_all(values[:count], policy), values[:count], policy)


def test_few_different_values_are_counted_exactly() -> None:
    values, found = draw_values("few"), count_all(draw_values("few"), TopK(10, 12))
    expected = sorted(Counter(values.tolist()).items(), key=lambda item: (-item[1], item[0]))
    assert found.value.tolist() == [value for value, _ in expected[:10]]
    assert found.lower.tolist() == found.upper.tolist() == [count for _, count in expected[:10]]
    assert found.others == expected[10][1]


def test_where_calls_end_makes_no_difference() -> None:
    policy, rng = TopK(5, 20), RNG(3)
    for kind in KINDS:
        values = draw_values(kind)[:3_000, None]
        state = policy.first_state
        for part in np.split(values, np.sort(rng.integers(1, len(values), 20))):
            state = policy.move(state, part) if len(part) else state
        assert state == policy.move(policy.first_state, values)


def test_a_stream_has_the_counters_of_everything() -> None:
    """With requests and drift, to the last bit."""
    policy, rng, values = TopK(5, 10), RNG(4), draw_values("zipf that changes")
    stream = Stream(policy, retention=policy.default_retention, seed=0)
    while stream.t < len(values):
        stream.extend(values[stream.t : stream.t + int(rng.integers(1, 1_500))])
        stream.forget(rounds=rng.integers(max(1, stream.t - 300), stream.t + 1, 5))
        expected, found = count_all(values[: stream.t], policy), stream.estimate()
        for name in ("value", "lower", "upper", "others"):
            assert np.array_equal(getattr(found, name), getattr(expected, name))
    assert stream.clock.since == 1
    assert stream.clock.updates >= 10


def test_a_table_is_read_as_it_was_written() -> None:
    rng = RNG(5)
    values, first, second = rng.normal(size=9), rng.integers(1, 2**48, 9), rng.integers(0, 2**48, 9)
    again = unpack(pack(Counters(values, first, second, 7), 8), 8)
    assert again.used == 7
    for made, given in zip(again[:3], (values, first, second), strict=True):
        assert np.array_equal(made[:7], given[:7])
        assert made[7] == 0
    first[3] = 2**48
    with pytest.raises(RuleError, match="a count is above"):
        pack(Counters(values, first, second, 7), 8)


@pytest.mark.slow
def test_it_follows_the_model() -> None:
    check_policy(TopK(3, 10), rows=draw_rows)


def draw_rows(rng: np.random.Generator, count: int) -> Floats:
    return np.round(rng.normal(size=(count, 1)), 1)


@pytest.mark.slow
def test_the_most_frequent_values_of_flights() -> None:
    for column in ("dep_delay", "distance", "flight"):
        values, policy = flights(column)[:, 0], TopK()
        stream = Stream(policy, retention=policy.default_retention, seed=0)
        stream.extend(values)
        assert stream.estimate().counted == len(values)
        check_bounds(stream.estimate(), values, policy)


def test_k_is_read_from_a_text() -> None:
    assert TopK.from_options(["20"], 1, None) == TopK(20, 100)
    for texts in (["x"], ["1.5"], ["-3"], ["1", "2"]):
        with pytest.raises(ParameterError, match="k="):
            TopK.from_options(texts, 1, None)


def test_its_plan_states_retention_and_error() -> None:
    row = plan(TopK(3, 10), records=10**6).row("TopK")
    assert row.retention == TopK(3, 10).default_retention
    assert any("off by at most 10.00% of the records" in note for note in row.notes)


def test_the_command_prints_values_and_refuses_texts(tmp_path: Path) -> None:
    values = RNG(0).geometric(0.3, 2_000)
    path = tmp_path / "a.csv"
    path.write_text("code,name\n" + "\n".join(f"{value},n{value}" for value in values.tolist()))
    options = ["run", str(path), "--statistic", "top", "--retention", "20000", "--column"]
    table = CliRunner().invoke(command, [*options, "code"])
    assert "Every other value has arrived at most" in table.output
    found = json.loads(CliRunner().invoke(command, [*options, "code", "--json"]).output)
    count = int((values == 1).sum())
    assert found["value"][0] == {"value": 1.0, "lower": count, "upper": count}
    texts = CliRunner().invoke(command, [*options, "name"])
    assert texts.exit_code != 0
    assert "name" in texts.output


@pytest.mark.parametrize("arguments", [{"k": 0}, {"counters": 9}, {"counters": 10**6}, {"reserve": 0.95}])
def test_wrong_arguments_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        TopK(**arguments)  # type: ignore[arg-type]


def test_a_row_has_the_middle_of_its_bounds() -> None:
    estimate = TopKEstimate(np.array([7.0, 3.0]), np.array([10, 4]), np.array([10, 9]), 9)
    rows = [(row["metric"], row["value"], row["lower"], row["upper"]) for row in estimate.list_numbers()]
    assert rows == [("records of 7", 10.0, 10.0, 10.0), ("records of 3", 6.0, 4.0, 9.0)]


def test_values_that_differ_little_have_rows_of_their_own() -> None:
    values = np.array([49_170_000_000_001.0, 49_170_000_000_002.0, 0.1, 0.1 + 2**-54, -7.0, 1e300])
    counts = np.arange(6, 0, -1)
    rows = TopKEstimate(values, counts, counts, 0).to_rows()
    names = [row["metric"].removeprefix("records of ") for row in rows]
    assert names[0] == "49170000000001"
    assert names[4:] == ["-7", "1e+300"]
    assert [float(name) for name in names] == values.tolist()
