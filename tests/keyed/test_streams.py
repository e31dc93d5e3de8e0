"""Streams by key against one `Stream` for each key: the same state, bit for bit, however rows are interleaved."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige import Bundle, Clock, KeyedStreams, Mean, Moments, Policy, Private, Records, Stream, StreamsError, Window
from vestige.keyed.terms import make_terms
from vestige.stream.limits import Limits
from vestige.stream.rules import make_rules
from vestige.types import Bools, Floats

START = np.datetime64("2024-01-01", "us")
HOUR = np.timedelta64(1, "h")
POLICIES: dict[str, tuple[Policy, int]] = {
    "bits": (Mean(channel="bits"), 56),
    "auto": (Mean(), 64),
    "average": (Mean(channel="average"), 96),
    "three columns": (Mean(3, channel="bits"), 130),
    "recent": (Mean(channel="bits", half_life=50.0), 60),
    "moments": (Moments(2), 128),
    "bundle": (Bundle({"a": Mean(), "b": Mean()}), 260),
    "window": (Window(Mean()), 40),
}


class Reference:
    """One `Stream` for each key, under the same rules."""

    def __init__(self, policy: Policy, secret: KeyedStreams, **terms: Any) -> None:
        self.policy, self.terms, self.secret = policy, terms, secret
        self.streams: dict[str, Stream] = {}

    def find(self, key: str) -> Stream:
        if key not in self.streams:
            self.streams[key] = Stream(self.policy, **self.terms)
        return self.streams[key]

    def extend(self, keys: list[str], rows: Floats, times: Any = None, subjects: Any = None) -> int:
        taken = 0
        for key in dict.fromkeys(keys):
            here = np.array([each == key for each in keys])
            names = None if subjects is None else [self.secret._hash_subject(s) for s in subjects[here]]
            taken += self.find(key).extend(rows[here], times=None if times is None else times[here], subjects=names)
        return taken

    def check(self, keyed: KeyedStreams) -> None:
        assert set(keyed) == set(self.streams)
        for key, stream in self.streams.items():
            assert keyed.clock(key) == stream.clock, key
            assert keyed.retained(key) == stream.retained, key
            if len(stream.retained):
                mine, other = keyed.estimate(key), stream.estimate()
                assert np.array_equal(mine.value, other.value), key
                assert (mine.notes, mine.missed, mine.counted) == (other.notes, other.missed, other.counted)


def draw(policy: Policy, rng: np.random.Generator, n: int) -> Floats:
    """Rows far from zero, of which some are missing if they may be."""
    rows = 100.0 + rng.lognormal(size=(n, policy.columns))
    if policy.takes_missing:
        rows[rng.random(n) < 0.3, -1] = np.nan
    return rows


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_plain_streams_are_the_same_as_one_by_one(name: str, seed: int) -> None:
    policy, retention = POLICIES[name]
    rng = np.random.default_rng(seed)
    terms: dict[str, Any] = {"retention": retention, "seed": 7}
    keyed = KeyedStreams(policy, **terms, workers=2)
    reference = Reference(policy, keyed, **terms)
    for _ in range(12):
        n = int(rng.integers(1, 300))
        keys, rows = [f"k{k}" for k in rng.zipf(1.7, n) % 6], draw(policy, rng, n)
        assert keyed.extend(keys, rows) == reference.extend(keys, rows) == n
    reference.check(keyed)


@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_blocks_requests_and_deadlines_give_the_same_states(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["bits", "auto", "three columns", "moments"]))
    policy, retention = POLICIES[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    terms: dict[str, Any] = {"retention": retention, "seed": 3, "max_age": timedelta(days=10)}
    if data.draw(st.booleans()):
        terms["lateness"] = timedelta(hours=30)
    keyed, now = KeyedStreams(policy, **terms, workers=1), START
    reference = Reference(policy, keyed, **terms)
    for _ in range(data.draw(st.integers(1, 14))):
        what = data.draw(st.sampled_from(["extend", "extend", "extend", "sweep", "forget", "forget now"]))
        if what == "extend":
            n = int(rng.integers(1, 200))
            steps = rng.integers(0, int(rng.choice([2, 2, 30])), n)
            late = rng.integers(0, 40, n) * (rng.random(n) < 0.1) if "lateness" in terms else 0
            times = now + (np.cumsum(steps) - late) * HOUR
            now += int(steps.sum()) * HOUR
            keys = [str(k) for k in rng.integers(0, 4, n)]
            rows, subjects = draw(policy, rng, n), rng.choice(["ada", "bob", "eve"], n).astype(object)
            assert keyed.extend(keys, rows, times=times, subjects=subjects) == reference.extend(
                keys, rows, times, subjects
            )
        elif what == "sweep":
            now += int(rng.integers(0, 100)) * HOUR
            erased = sum(stream.sweep(now) for stream in reference.streams.values())
            assert keyed.sweep(now) == erased
        else:
            subject, at_once = str(rng.choice(["ada", "bob"])), what == "forget now"
            keyed.forget(subject=subject, now=at_once)
            for stream in reference.streams.values():
                asked = stream.retained.subjects == keyed._hash_subject(subject)
                if asked.any():
                    stream.forget(rounds=stream.retained.rounds[asked], now=at_once, keep_receipt=timedelta(0))
        reference.check(keyed)


def test_streams_without_a_seed_draw_coins_of_their_own() -> None:
    """The noise of each key is its own, and so are the coins that kernels draw for it."""
    keyed = KeyedStreams(Private(Mean(), bound=1.0, epsilon=1.0, delta=1e-6), retention=400)
    keyed.extend(np.tile(np.arange(2), 800), np.zeros(1_600))
    assert keyed.estimate(0).value != keyed.estimate(1).value
    assert make_terms(make_rules(Mean(), Limits(retention=96), None), 48, 0).each
    assert not make_terms(make_rules(Mean(), Limits(retention=96), 5), 48, 0).each


def test_a_removed_stream_leaves_nothing_and_can_come_again() -> None:
    keyed = KeyedStreams(Mean(), retention=96, seed=0)
    keyed.extend(["a", "b", "a"], [1.0, 2.0, 3.0])
    keyed.remove("a")
    assert list(keyed) == ["b"]
    assert "a" not in keyed
    assert not (keyed._shards[0].arena.values == 3.0).any()
    keyed.extend(["a", "b"], [5.0, 6.0])
    assert (keyed.clock("a").t, keyed.clock("b").t, len(keyed)) == (1, 2, 2)


def test_memory_follows_what_is_held_and_is_wiped() -> None:
    keyed = KeyedStreams(Mean(channel="bits"), retention=56, seed=0)
    keyed.extend(np.arange(2_000) % 500, np.full(2_000, 777.25))
    few = keyed.nbytes
    for _ in range(60):
        keyed.extend(np.arange(2_000) % 500, np.random.default_rng(0).normal(size=2_000))
    assert not (keyed._shards[0].arena.values == 777.25).any()
    assert few < keyed.nbytes
    size = keyed.nbytes
    for _ in range(100):
        keyed.extend(np.arange(2_000) % 500, np.random.default_rng(0).normal(size=2_000))
    assert keyed.nbytes <= 1.15 * size, "what is held does not grow with the length of the streams"


def test_a_receipt_is_the_same_whether_somebody_is_there_or_not() -> None:
    keyed = KeyedStreams(Mean(channel="bits"), retention=56, seed=0)
    keyed.extend(["a", "b"], [1.0, 2.0], subjects=["ada", "bob"])
    for subject in ("ada", "eve"):
        receipt = keyed.forget(subject=subject, reference=f"T-{subject == 'ada'}")
        assert (receipt.erased, receipt.requested_round) == (None, 2)
    keyed.extend(["a"] * 27, np.ones(27))
    assert [receipt.erased for receipt in keyed.receipts] == [None, None], "b has had no update since"
    keyed.extend(["b"] * 27, np.ones(27))
    assert all(receipt.erased is not None for receipt in keyed.receipts)
    assert 1 not in keyed.retained("a").rounds


def test_rows_out_of_order_are_refused_before_any_is_taken() -> None:
    keyed = KeyedStreams(Mean(), retention=96, max_age=timedelta(days=30), seed=0)
    keyed.extend(["a", "b"], [1.0, 2.0], times=[datetime(2024, 1, 2), datetime(2024, 1, 1)])
    with pytest.raises(ValueError, match=r"the time of row 1 of 2 .* of an earlier record of its key"):
        keyed.extend(["b", "a"], [1.0, 2.0], times=[datetime(2024, 1, 2), datetime(2024, 1, 1)])
    assert (keyed.clock("a").t, keyed.clock("b").t) == (1, 1)
    with pytest.raises(ValueError, match="of an earlier record of its key"):
        keyed.extend(["new", "new"], [1.0, 2.0], times=[datetime(2024, 1, 2), datetime(2024, 1, 1)])
    assert list(keyed) == ["a", "b"]
    assert "new" not in keyed
    assert b"new" not in keyed._names._content.tobytes()
    keyed.extend(["new", "a"], [1.0, 2.0], times=[datetime(2024, 1, 2)] * 2)
    assert (keyed.clock("new").t, len(keyed)) == (1, 3)


def test_keys_are_asked_for_as_they_are_given() -> None:
    keyed = KeyedStreams(Mean(), retention=96)
    keyed.extend([7, 8], [1.0, 2.0])
    assert 7 in keyed
    assert "7" in keyed
    assert not any(key in keyed for key in (9, "", None, 7.0, "\ud800"))
    for keys in ({7, 8}, {7: 1, 8: 2}):
        with pytest.raises(ValueError, match="keys is a"):
            keyed.extend(keys, [1.0, 2.0])


def test_refused_keys_leave_streams_that_go_on() -> None:
    keyed = KeyedStreams(Mean(), retention=96, max_age=timedelta(days=30), seed=0)
    keyed.extend(["a"], [1.0], times=[datetime(2024, 1, 1)])
    with pytest.raises(ValueError, match="of an earlier record of its key"):
        keyed.extend(["x", "y", "x"], [1.0] * 3, times=[datetime(2024, 1, day) for day in (3, 2, 1)])
    keyed.extend(["a", "y"], [3.0, 5.0], times=[datetime(2024, 1, 2)] * 2)
    assert (list(keyed), keyed.estimate("a").value, keyed.estimate("y").value) == (["a", "y"], 2.0, 5.0)


@dataclass(frozen=True)
class Failing(Policy):
    """Fails in streams whose records are negative."""

    min_batch: ClassVar[int] = 4

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        if (arrivals.values < 0.0).any():
            raise RuntimeError("it fails")
        return ~np.concatenate((retained.leaving, arrivals.leaving)) & (
            np.concatenate((retained.rounds, arrivals.rounds)) > clock.last
        )

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return float(retained.values.mean())


def test_a_policy_that_fails_in_one_stream_affects_no_other_and_holds_no_record_too_long() -> None:
    keyed = KeyedStreams(Failing(), retention=8, seed=0)
    for _ in range(10):
        with suppress(StreamsError):
            keyed.extend(["good", "bad"] * 3, [1.0, -1.0] * 3)
        for key in keyed:
            assert keyed.clock(key).t - keyed.retained(key).rounds.min() < 8
            assert keyed.clock(key).pending <= 4
    assert (keyed.clock("good").t, keyed.clock("bad").t) == (30, 3)
    with pytest.raises(StreamsError, match=r"1 stream failed, 'bad' first: it fails; .* rows were taken") as problem:
        keyed.extend(["good", "bad"], [1.0, -1.0])
    assert list(problem.value.troubles) == ["bad"]
