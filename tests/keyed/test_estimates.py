"""The answers of all streams as columns, against those of each stream."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from vestige import KeyedStreams, Mean, ParameterError, Policy, Ratio
from vestige.keyed.layout import STREAMS
from vestige.stream.estimate import make_estimate

START = np.datetime64("2024-01-01", "us")
HOUR = np.timedelta64(1, "h")


def list_expected(keyed: KeyedStreams) -> list[dict[str, Any]]:
    """The rows of each stream, one by one."""
    rows: list[dict[str, Any]] = []
    for key in keyed:
        if len(keyed.retained(key)):
            rows += [{"stream": key, **row, "problem": None} for row in keyed.estimate(key).to_rows()]
    return rows


@pytest.mark.parametrize("policy", [Mean(2, channel="bits"), Ratio()])
def test_rows_are_those_of_each_stream(policy: Policy) -> None:
    rng = np.random.default_rng(0)
    keyed = KeyedStreams(policy, retention=512, seed=0)
    keyed.extend(rng.integers(0, 5, 900), rng.normal(10.0, 1.0, (900, 2)))
    keyed.extend(["zero"], [[1.0, 0.0]])
    made = keyed.estimates()
    table = made.to_arrow().to_pylist()
    expected = [
        {"stream": key, **row, "problem": None}
        for key in keyed
        if key != "zero"
        for row in keyed.estimate(key).to_rows()
    ]
    assert [row for row in table if row["stream"] != "zero"] == expected
    if isinstance(policy, Ratio):
        (last,) = (row for row in table if row["stream"] == "zero")
        assert "the denominator is 0" in last["problem"]
    assert len(made.to_pandas()) == len(made) == len(table)
    assert "Answers of streams" in made._repr_html_()


@pytest.mark.parametrize(
    ("policy", "retention"),
    [
        (Mean(channel="bits"), 56),
        (Mean(channel="average"), 96),
        (Mean(), 64),
        (Mean(3, channel="bits"), 130),
        (Mean(3), 200),
        (Mean(channel="bits", half_life=50.0), 60),
        (Mean(channel="bits"), 44),
    ],
    ids=str,
)
def test_means_by_kernel_are_those_of_each_stream(policy: Mean, retention: int) -> None:
    """Streams that wait, that were updated, restarted or closed early, that have gaps, and that are kept elsewhere."""
    rng, streams = np.random.default_rng(7), 80 if policy.channel == "average" else 400
    keyed = KeyedStreams(policy, retention=retention, max_age=timedelta(days=10), seed=0)
    keys = rng.permutation(np.repeat(np.arange(streams), rng.integers(1, 3 * retention, streams)))
    now = START
    for part in np.array_split(keys, 12):
        times = now + np.sort(rng.integers(0, 30, len(part))) * HOUR
        rows = rng.lognormal(0.0, 1.0, (len(part), policy.dim)) * 10.0 ** rng.integers(-2, 3)
        rows[rng.random(len(part)) < 0.02] *= 1e9  # which some words miss
        keyed.extend(part, rows, times=times, subjects=rng.choice(["ada", "bob", "eve"], len(part)))
        now += 30 * HOUR
        if rng.random() < 0.3:
            keyed.forget(subject="ada", now=bool(rng.random() < 0.5))
    for key in rng.integers(0, streams, 20):
        if key in keyed:
            keyed.remove(int(key))
    for at in (now, now + 8 * 24 * HOUR):
        keyed.sweep(at)
        made = keyed.estimates()
        table, expected = made.to_arrow().to_pylist(), list_expected(keyed)
        assert [row for row in table if row["problem"] is None] == expected
        empty = {key for key in keyed if not len(keyed.retained(key))}
        assert {row["stream"] for row in table if row["problem"] is not None} == empty
        assert made.columns["stream"].tolist() == [row["stream"] for row in table]
        assert made.columns["notes"].tolist() == [row["notes"] for row in table]
        assert made.columns["metric"].tolist() == [row["metric"] for row in table]


def test_every_kind_of_stream_is_there() -> None:
    """What the test above is meant to cover."""
    rng = np.random.default_rng(1)
    keyed = KeyedStreams(Mean(channel="bits"), retention=80, max_age=timedelta(days=10), seed=0)
    now = START
    for _ in range(30):
        part = rng.integers(0, 300, 2_200)
        times = now + np.sort(rng.integers(0, 30, len(part))) * HOUR
        subjects = rng.choice(["ada", "bob", "eve", "joe"], len(part))
        keyed.extend(part, rng.normal(size=len(part)), times=times, subjects=subjects)
        now += 30 * HOUR
        if rng.random() < 0.2:
            keyed.forget(subject="ada", now=True)
    keyed.extend(np.arange(1_000, 1_100).repeat(50), rng.normal(size=5_000), times=np.full(5_000, now))
    check_notes(keyed, "Counts from round", "not counted", "closed early")


def test_averages_that_miss_say_so() -> None:
    rng = np.random.default_rng(0)
    keyed = KeyedStreams(Mean(channel="average"), retention=96, seed=0)
    keyed.extend(np.arange(9_000) % 30, rng.normal(size=9_000) * 10.0 ** (9 * (rng.random(9_000) < 0.005)))
    check_notes(keyed, "missed its target")


def check_notes(keyed: KeyedStreams, *notes: str) -> None:
    """Some streams have each of these notes, and some have none."""
    table = keyed.estimates().to_arrow().to_pylist()
    assert [row for row in table if row["problem"] is None] == list_expected(keyed)
    assert any(row["notes"] is None for row in table)
    for text in notes:
        assert any(text in (row["notes"] or "") for row in table), text


def test_rounding_that_matters_is_noted_where_each_stream_notes_it() -> None:
    """Words of few bits, after many updates."""
    rng = np.random.default_rng(3)
    keyed = KeyedStreams(Mean(channel="bits"), retention=44, seed=0)
    keys = np.repeat(np.arange(60), rng.integers(1, 4_000, 60))
    keyed.extend(keys, rng.normal(size=len(keys)))
    updates = keyed._shards[0].columns.updates
    updates[::2] *= (2**31 - 1) // int(updates.max())
    table = keyed.estimates().to_arrow().to_pylist()
    assert table == list_expected(keyed)
    assert {row["missed"] for row in table} == {True, False}


def test_some_streams_can_be_asked_for() -> None:
    keyed = KeyedStreams(Mean(), retention=96, seed=0)
    keyed.extend(["DE", "FR", "IT", "FR"], [1.0, 2.0, 3.0, 4.0])
    assert keyed.estimates(["IT", "FR"]).columns["value"].tolist() == [3.0, 3.0]
    assert keyed.estimates(["IT", "FR"]).columns["stream"].tolist() == ["IT", "FR"]
    assert len(keyed.estimates([])) == 0
    with pytest.raises(ParameterError, match=r"key 1 of 2 \(counted from 0\) has no stream"):
        keyed.estimates(["IT", "ES"])
    with pytest.raises(ParameterError, match="twice"):
        keyed.counts(["IT", "IT"])


def test_several_shards_and_no_streams() -> None:
    keyed = KeyedStreams(Mean(channel="bits"), retention=56, seed=0)
    assert len(keyed.estimates()) == len(keyed.counts()) == 0
    n = 2 * STREAMS + 3
    keyed.extend(np.arange(2 * n) % n, np.arange(2.0 * n))
    made = keyed.estimates()
    assert np.array_equal(made.columns["value"], np.arange(n) + n / 2)
    assert made.columns["stream"].tolist() == [str(i) for i in range(n)]
    clock, retained = keyed.clock(n - 1), keyed.retained(n - 1)
    assert make_estimate(keyed.policy, 28, clock, retained).value == made.columns["value"][-1]
