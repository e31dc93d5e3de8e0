"""What `Private` publishes: nothing but its last update, in every way out, however often anybody asks.

The attack: whoever logs answers that join the word with waiting records solves for each new record. It is carried out
on answers that count the waiting records, where it finds them, and on all others, where it must find none.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from served import serve_here

from vestige import (
    Bundle,
    Correlation,
    Count,
    Covariance,
    Estimate,
    Histogram,
    HistogramQuantiles,
    KeyedStreams,
    LinearRegression,
    Mean,
    Moments,
    NoAnswerError,
    ParameterError,
    Private,
    Ratio,
    Records,
    Shares,
    Stream,
    Sum,
    Window,
    combine,
)
from vestige.cli import command
from vestige.spark.definition import Definition
from vestige.spark.shard import Rows, change_shard
from vestige.stream.limits import Limits
from vestige.types import Floats

PROMISE: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-6}
METRICS: dict[str | tuple[str, ...], Any] = {"a": [Mean(), Sum(), Count()], "b": [Moments(2), Shares(("x", "y"))]}
POLICIES: dict[str, Private[Any]] = {
    "mean": Private(bound=3.0, **PROMISE),
    "spread": Private(Mean(spread=True), bounds=[3.0], **PROMISE),
    "sum": Private(Sum(), bounds=[3.0], **PROMISE),
    "histogram": Private(Histogram((-1.0, 0.0, 1.0)), **PROMISE),
    "quantiles": Private(HistogramQuantiles((-1.0, 0.0, 1.0)), **PROMISE),
    "shares": Private(Shares(("x", "y")), **PROMISE),
    "ratio": Private(Ratio(), bounds=[3.0, 3.0], **PROMISE),
    "moments": Private(Moments(4), bounds=[3.0], **PROMISE),
    "covariance": Private(Covariance(2), bounds=[3.0, 3.0], **PROMISE),
    "correlation": Private(Correlation(2), bounds=[3.0, 3.0], **PROMISE),
    "regression": Private(LinearRegression(1), bounds=[3.0, 3.0], **PROMISE),
    "bundle": Private(Bundle(METRICS), bounds={"a": 3.0, "b": 3.0}, **PROMISE),
}
NOW = ("t", "held", "oldest_age")
"""What the public clock says at the moment of an answer."""


def draw(policy: Private[Any], count: int, seed: int, scale: float = 1.0) -> Floats:
    rng = np.random.default_rng(seed)
    rows = scale * (rng.normal(1.0, 0.5, (count, 1)) + rng.normal(0.0, 0.3, (count, policy.columns)))
    if policy in (POLICIES["shares"], POLICIES["bundle"]):
        rows[:, -1] = rng.integers(0, 2, count)
    return np.where(rng.random(rows.shape) < 0.1, np.nan, rows) if policy.takes_missing else rows


def strip(said: dict[str, Any]) -> dict[str, Any]:
    """What an answer says, less what the clock says of the moment; the answers of a bundle are dictionaries too."""
    return {name: strip(each) if isinstance(each, dict) else each for name, each in said.items() if name not in NOW}


def solve(policy: Private[Any], rows: Floats, *, waiting: bool) -> int:
    """How many of the records can be told from the answers before and after each."""
    stream, before, found = Stream(policy, retention=512), None, 0
    for t, row in enumerate(rows, 1):
        stream.push(row)
        try:
            made = float(stream.estimate(waiting=waiting).value)
        except NoAnswerError:
            continue
        if before is not None:
            found += abs(made * t - before * (t - 1) - row) < 1e-6
        before = made
    return found


def test_records_cannot_be_told_from_answers() -> None:
    rows = np.random.default_rng(0).uniform(-3.0, 3.0, 1_500)
    assert solve(POLICIES["mean"], rows, waiting=False) == 0
    assert solve(POLICIES["mean"], rows, waiting=True) > 1_480, "the attack finds what there is to find"


@pytest.mark.parametrize("name", POLICIES)
def test_answers_between_two_updates_are_the_same_whatever_waits(name: str) -> None:
    policy = POLICIES[name]
    stream = Stream(policy, retention=1_024)
    stream.extend(draw(policy, 3 * 512, 0))
    updated = stream.estimate()
    assert (updated.t, updated.as_of, updated.counted) == (1_536, 1_536, 1_536)
    said, numbers = strip(updated.to_dict()), updated.basis.numbers.tobytes()
    for seed in range(1, 4):
        other = Stream(policy, retention=1_024, retained=stream.retained, clock=stream.clock)
        for part in np.split(draw(policy, 511, seed, 10.0**seed), [1, 2, 300]):
            other.extend(part)
            made = other.estimate()
            assert strip(made.to_dict()) == said
            assert made.basis.numbers.tobytes() == numbers
            assert (made.t, made.as_of, made.counted, other.counted) == (other.t, 1_536, 1_536, 1_536)
            assert made.held == len(other.retained)
            assert all(part.t == other.t and part.as_of == 1_536 for part in list_parts(made))
            assert strip(policy.answer(other.clock, other.retained).to_dict())["value"] == said["value"]
            assert strip(combine([made, made]).to_dict())["value"] == strip(combine([updated] * 2).to_dict())["value"]


@pytest.mark.parametrize("name", POLICIES)
def test_answers_say_nothing_of_the_values_that_are_held(name: str) -> None:
    """They are read off which records are held, so the theorem covers them for records that are still held too."""
    policy = POLICIES[name]
    stream = Stream(policy, retention=1_024)
    stream.extend(draw(policy, 1_500, 0))
    held = stream.retained
    others = Records(held.rounds, draw(policy, len(held), 1, 100.0), held.leaving)
    other = Stream(policy, retention=1_024, retained=others, clock=stream.clock)
    assert other.estimate().to_dict() == stream.estimate().to_dict()


def list_parts(estimate: Estimate) -> list[Estimate]:
    return [part for part in getattr(estimate, "answers", {}).values() if part is not None]


@pytest.mark.parametrize("name", POLICIES)
def test_keyed_streams_say_the_same(name: str) -> None:
    policy, streams = POLICIES[name], KeyedStreams(POLICIES[name], retention=1_024)
    streams.extend(["a"] * 1_024 + ["b"] * 100, draw(policy, 1_124, 0))
    before = streams.estimates(["a"]).to_pandas().drop(columns=list(NOW[:2]))
    streams.extend(["a"] * 500, draw(policy, 500, 1, 100.0))
    after = streams.estimates(["a"]).to_pandas()
    assert after.drop(columns=list(NOW[:2])).equals(before)
    assert set(after["as_of"]) == {1_024}
    assert set(after["t"]) == {1_524}
    assert strip(streams.estimate("a").to_dict())["counted"] == 1_024
    assert streams.counts(["a"]).counted.tolist() == [1_024]
    (problem,) = streams.estimates(["b"]).columns["problem"]
    assert problem.startswith("no update has been made since round 1")
    shown = streams.estimates(["a"], waiting=True).to_pandas()
    assert set(shown["as_of"]) == {1_524}
    assert shown["notes"].str.contains("noise protects nobody among them").all()


def test_before_the_first_update_there_is_nothing_to_say() -> None:
    stream = Stream(POLICIES["mean"], retention=512)
    stream.extend(np.ones(255))
    with pytest.raises(NoAnswerError, match="no update has been made since round 1"):
        stream.estimate()
    assert stream.counted == 0
    made = stream.estimate(waiting=True)
    assert (made.value, made.as_of, made.counted) == (1.0, 255, 255)
    assert made.notes[-1].startswith(
        "Counts the records that wait for the next update as they are: noise protects nobody"
    )
    stream.push(1.0)
    assert stream.estimate().as_of == 256


def test_combined_answers_say_that_records_wait() -> None:
    streams = [Stream(POLICIES["mean"], retention=512) for _ in range(2)]
    for stream in streams:
        stream.extend(np.ones(300))
    made = combine(stream.estimate() for stream in streams)
    assert (made.t, made.as_of, made.counted) == (600, 512, 512)
    assert made.notes[-1] == "As of the last update of each stream: 88 records that have arrived since are not counted."
    mixed = combine([streams[0].estimate(waiting=True), streams[1].estimate()])
    assert mixed.as_of == 556
    assert "noise protects nobody among them" in mixed.notes[-1]
    assert "noise protects nobody among them" in combine([mixed, made]).notes[-1]


def test_other_answers_count_what_waits() -> None:
    for policy in (Mean(), Window()):
        stream = Stream(policy, retention=96, seed=0)
        stream.extend(range(100))
        made = stream.estimate()
        assert made.as_of == made.t == 100
        assert stream.estimate(waiting=True).to_dict() == made.to_dict()


def test_a_window_does_not_leave_out_noise() -> None:
    with pytest.raises(ParameterError, match="has noise, which a window would leave out"):
        Window(POLICIES["mean"])


def test_waiting_is_a_flag() -> None:
    stream = Stream(POLICIES["mean"], retention=512)
    with pytest.raises(ParameterError, match="waiting=1"):
        stream.estimate(waiting=1)  # type: ignore[arg-type]


def vestige(*words: object) -> str:
    result = CliRunner().invoke(command, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("by", [(), ("--by", "key")], ids=["one", "by key"])
def test_the_command_says_what_the_last_update_says(tmp_path: Path, by: tuple[str, ...]) -> None:
    rows, first, second = np.random.default_rng(0).uniform(0.0, 100.0, 799), tmp_path / "a.csv", tmp_path / "b.csv"
    for path, part in ((first, rows[:600]), (second, rows[600:])):
        path.write_text("key,spent\n" + "".join(f"k,{value}\n" for value in part))
    store = tmp_path / "s.db"
    terms = ("--metric", "spent:mean,sum", "--epsilon", 8, "--bound", 100, "--retention", 800, *by)
    vestige("run", first, *terms, "--store", store)
    said = [json.loads(vestige("estimate", store, "--format", "json"))]
    ran = vestige("run", second, "--json", "--store", store)
    said.append(json.loads(vestige("estimate", store, "--format", "json")))
    numbers = [[(row["value"], row["as_of"], row["counted"], row["t"]) for row in each] for each in said]
    assert [(*row[:3], 799) for row in numbers[0]] == numbers[1]
    assert all(row[1] == 400 for row in numbers[1])
    assert '"as_of": 400' in ran
    assert str(numbers[0][0][0]) in ran
    vestige("export", store, "--sqlite", tmp_path / "a.sqlite")
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as exported:
        assert exported.execute("SELECT value, as_of, counted, t FROM estimates").fetchall() == numbers[1]
    assert all("As of round 400, the last update" in row["notes"] for row in said[1])
    text = " ".join(vestige("estimate", store).split())
    assert "As of round 400, the last update" in text


def test_the_service_says_what_the_last_update_says(tmp_path: Path) -> None:
    definition = {"name": "visits", "columns": ["spent"], "retention": 512, "epsilon": 8.0, "bounds": ["spent=100"]}
    with serve_here(tmp_path / "s.db") as client:
        assert client.post("/v1/streams", json=definition).status_code == 201
        shown: list[Any] = []
        for part in (100, 200, 1, 100):
            rows = [{"spent": float(value)} for value in np.random.default_rng(part).uniform(0.0, 100.0, part)]
            assert (
                client.post(
                    "/v1/streams/visits/rows", json=rows, headers={"Idempotency-Key": str(len(shown))}
                ).status_code
                == 200
            )
            shown.append(client.get("/v1/streams/visits/estimate").json())
    first, *others = shown
    assert (first["answers"], first["as_of"], first["count"]) == ([], None, 0)
    assert first["notes"][0].startswith("no update has been made")
    assert len({json.dumps((each["answers"], each["count"], each["notes"])) for each in others}) == 1
    assert {(each["as_of"], each["count"]) for each in others} == {(256, 256)}
    assert [each["t"] for each in others] == [300, 301, 401]


@pytest.mark.parametrize("policy", [POLICIES["mean"], Private(bound=(0, 6), **PROMISE)], ids=["length", "ends"])
def test_a_shard_of_spark_says_what_the_last_update_says(policy: Private[Any]) -> None:
    definition = Definition(policy, Limits(retention=512), None, "k", ("v",), 1, has_times=False, has_subjects=False)
    packed, said = None, []
    for part in (300, 100, 100):
        keys, values = np.zeros(part, np.int64), np.random.default_rng(part).uniform(-3.0, 3.0, (part, 1))
        change = change_shard(
            definition, packed, Rows(keys, values, order=[np.arange(part)]), now=None, secret=bytes(32)
        )
        packed = change.packed
        columns = change.answers.columns
        said.append((columns["value"].tolist(), columns["counted"].tolist(), columns["as_of"].tolist()))
    assert said[0] == said[1] == said[2]
    assert said[0][1:] == ([256], [256])
