"""Whatever comes, and whatever the policy returns, the rules hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import Clock, Mean, Policy, Records, Stream, Window, paper
from vestige.errors import RuleError
from vestige.types import Bools

POLICIES: list[Policy] = [
    Mean(),
    Mean(channel="bits"),
    Mean(channel="average"),
    Window(),
    paper.SimpleMean(),
    paper.CoordinateMean(),
]
actions = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 5)),
        st.tuples(st.just("extend"), st.integers(0, 150)),
        st.tuples(st.just("forget"), st.lists(st.integers(0, 60), max_size=4)),
    ),
    max_size=25,
)


@given(actions, st.sampled_from([(58, None), (None, 57), (58, 66), (70, 56)]), st.sampled_from(POLICIES))
def test_limits_and_requests_are_obeyed(
    script: list[tuple[str, int | list[int]]], limits: tuple[int | None, int | None], policy: Policy
) -> None:
    retention, notice = limits
    stream = Stream(policy, retention=retention, notice=notice, seed=0)
    rng = np.random.default_rng(0)
    requested: dict[int, tuple[int, Clock]] = {}
    for action, argument in script:
        if action == "forget":
            ages = np.array(argument, dtype=int)
            asked = stream.t - ages[ages < stream.t]
            stream.forget(rounds=asked)
            requested |= {r: (stream.t, stream.clock) for r in asked.tolist() if r not in requested}
            continue
        steps = [1] * argument if action == "push" else [argument]  # type: ignore[operator]
        for size in steps:
            stream.extend(rng.normal(size=size))
            held = set(stream.retained.rounds.tolist())
            if retention is not None:
                assert all(stream.t - r < retention for r in held)
            for r, (when, clock) in requested.items():
                if r in held:
                    assert stream.clock == replace(clock, t=stream.t), "kept by an update"
                    assert notice is None or stream.t - when < notice


@given(st.lists(st.integers(1, 130), max_size=8), st.sampled_from(POLICIES), st.integers(0, 3))
def test_extending_is_pushing_one_by_one(sizes: list[int], policy: Policy, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=sum(sizes))
    chunked, single = (Stream(policy, retention=57, seed=seed) for _ in range(2))
    start = 0
    for size in sizes:
        chunked.extend(rows[start : start + size])
        start += size
        chunked.forget(rounds=chunked.t)
        for row in rows[start - size : start]:
            single.push(row)
        single.forget(rounds=single.t)
        assert chunked.clock == single.clock
        assert chunked.retained == single.retained


@given(st.integers(1, 400), st.integers(0, 200), st.sampled_from(POLICIES))
def test_a_restart_from_records_and_clock_changes_nothing(before: int, after: int, policy: Policy) -> None:
    rows = np.random.default_rng(before).normal(size=before + after)
    stream = Stream(policy, retention=96 if policy.max_batch is None else 48, seed=3)
    stream.extend(rows[:before])
    stream.forget(rounds=max(1, before - 3))
    copy = Records(stream.retained.rounds[::-1], stream.retained.values[::-1], stream.retained.leaving[::-1])
    again = Stream(policy, retention=stream.retention, seed=3, retained=copy, clock=stream.clock)
    assert again.estimate().value == stream.estimate().value
    for each in (stream, again):
        each.extend(rows[before:])
    assert again.estimate().value == stream.estimate().value
    assert again.retained == stream.retained


@dataclass(frozen=True)
class Odd(Window):
    """Says anew what to keep, but not how to do it for many batches: what it inherits for those is not its own."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        rounds = np.concatenate((retained.rounds, arrivals.rounds))
        keep: Bools = super().update(clock, retained, arrivals, coins) & (rounds % 2 == 1)
        return keep


def test_what_is_inherited_for_many_batches_does_not_hide_a_new_update() -> None:
    stream = Stream(Odd(), retention=20)
    stream.extend(np.arange(100.0))
    assert stream.retained.rounds.tolist() == list(range(81, 100, 2))


@dataclass(frozen=True)
class Meddler(Policy):
    """Writes into what it is shown, though that is read-only, and then fails."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        return ~np.concatenate((retained.leaving, arrivals.leaving))

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        retained.values.flags.writeable = True
        retained.values[:] = 99.0
        return 0.0


@dataclass(frozen=True)
class Signaller(Policy):
    """Drops everything when it sees a large value, to make the clock remember that."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        keep: Bools = ~np.concatenate((retained.leaving, arrivals.leaving))
        return keep & np.bool_(arrivals.values.max() < 4.0)

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return float(retained.values.mean())


def test_what_a_policy_is_shown_is_a_copy() -> None:
    stream = Stream(Meddler(), retention=10)
    stream.extend(np.arange(12.0))
    stream.estimate()
    assert stream.retained.values.max() == 11.0


def test_the_clock_does_not_depend_on_values() -> None:
    rows = np.zeros(100)
    loud, quiet = Stream(Signaller(), retention=10), Stream(Signaller(), retention=10)
    quiet.extend(rows)
    rows[33] = 5.0
    loud.extend(rows)
    assert loud.clock == quiet.clock


def test_times_and_subjects_go_with_their_records() -> None:
    stream = Stream(Mean(), retention=96, seed=0)
    subjects = [f"subject {i}" for i in range(1, 1_001)]
    times = np.datetime64("2024-01-01", "us") + np.arange(1_000) * np.timedelta64(1, "m")
    stream.extend(np.arange(1_000.0), times=times, subjects=subjects)
    kept = stream.retained
    assert kept.subjects.tolist() == [subjects[r - 1] for r in kept.rounds]
    assert np.array_equal(kept.times, times[kept.rounds - 1])


@dataclass(frozen=True)
class Returns(Policy):
    """Keeps everything allowed, until round 150, where it misbehaves."""

    fault: str

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        fine = ~np.concatenate((retained.leaving, arrivals.leaving))
        if clock.t < 150:
            return fine
        replies: dict[str, Any] = {
            "no array": fine.tolist(),
            "no booleans": fine.astype(float),
            "wrong length": fine[1:],
            "keeps a leaver": np.ones_like(fine),
        }
        return cast(Bools, replies[self.fault])

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return float(retained.values.mean())


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("no array", r"Returns.update returned list; needs a bool array of shape \(100,\)"),
        ("no booleans", r"Returns.update returned float64 of shape \(100,\)"),
        ("wrong length", r"Returns.update returned bool of shape \(99,\)"),
        ("keeps a leaver", r"Returns.update keeps the record of round 120, which is leaving"),
    ],
)
def test_a_policy_that_breaks_a_rule_changes_nothing(fault: str, text: str) -> None:
    stream = Stream(Returns(fault), retention=100)
    stream.extend(np.arange(130.0))
    stream.forget(rounds=120)
    before = stream.clock, stream.retained
    with pytest.raises(RuleError, match=text):
        stream.extend(np.arange(40.0))
    assert (stream.clock, stream.retained) == before
    stream.push(0.0)
    assert stream.t == 131


def test_all_was_lost() -> None:
    stream = Stream(Mean(channel="average"), retention=96, seed=0)
    stream.extend(np.full(95, 5.0))
    stream.forget(rounds=np.arange(1, 96))
    stream.push(5.0)  # round 96 is a flag, which an average never keeps
    assert stream.clock == Clock(t=96, first=97, last=96, since=97)
    stream.extend(np.full(60, 7.0))
    estimate = stream.estimate()
    assert estimate.value == 7.0
    assert estimate.t == 156
    assert "Counts from round 97 on" in estimate.notes[0]


def test_the_clock_counts_updates_since_the_start() -> None:
    stream = Stream(Mean(channel="average"), retention=96, seed=0)
    stream.extend(np.full(5 * 48, 5.0))
    assert stream.clock.updates == 5
    stream.push(5.0)
    stream.extend(np.full(47, 5.0))
    assert stream.clock.updates == 6
    stream.extend(np.full(47, 5.0))
    stream.forget(rounds=np.arange(1, stream.t + 1))
    stream.push(5.0)
    assert (stream.clock.since, stream.clock.updates) == (stream.t + 1, 0), "nothing could be carried on"
    stream.extend(np.full(48, 5.0))
    assert stream.clock.updates == 1
