"""When a sweep has something to do next: before that time it changes nothing, whatever the stream is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import Clock, Mean, MemoryStore, Policy, Records, Stream, Window
from vestige.operations.erasure import erase_overdue
from vestige.store import State, Terms
from vestige.store.event import NEVER, find_event
from vestige.times import EPOCH, TICK

POLICIES: dict[str, Policy] = {"mean": Mean(), "bits": Mean(channel="bits"), "window": Window()}
START = datetime(2024, 1, 1, tzinfo=UTC)
MAX_AGE = timedelta(days=8)
parts = st.lists(st.tuples(st.integers(1, 60), st.floats(0.0, 40.0), st.integers(0, 3)), min_size=1, max_size=8)


def make(policy: str, max_age: timedelta | None, story: list[tuple[int, float, int]]) -> tuple[MemoryStore, datetime]:
    """A stream that took records, hours apart, and requests, some of them met at once; and the time of the last."""
    store, now, rng = MemoryStore(), START, np.random.default_rng(len(story))
    stream = Stream(POLICIES[policy], retention=64, max_age=max_age, seed=0, store=store.stream("a"))
    for count, wait, asked in story:
        now += timedelta(hours=wait)
        times = [now + i * timedelta(minutes=7) for i in range(count)]
        now = times[-1]
        stream.extend(rng.normal(size=count), times=times)
        if asked and len(stream.retained):
            stream.forget(rounds=int(rng.choice(stream.retained.rounds)), now=asked == 1)
    stream.flush()
    store.release()
    return store, now


@given(st.sampled_from(sorted(POLICIES)), st.booleans(), parts, st.floats(0.0, 1.0))
def test_a_sweep_before_it_changes_nothing(
    policy: str, timed: bool, story: list[tuple[int, float, int]], share: float
) -> None:
    store, newest = make(policy, MAX_AGE if timed else None, story)
    terms, state = store.snapshot().streams["a"]
    assert state.event is not None
    assert find_event(terms, state) <= state.event, "what a store finds without the policy is no later"
    end = newest + 3 * MAX_AGE if state.event == NEVER else max(EPOCH + state.event * TICK, newest)
    at = min(newest + share * (end - newest), end - TICK)
    if state.event != NEVER and at >= EPOCH + state.event * TICK:
        return  # something is due already
    assert ("a" in store.find_due(at)[0]) == (find_newest(state) > at)
    assert erase_overdue(terms, state, at) is state
    stream = Stream(POLICIES[policy], retention=64, max_age=MAX_AGE if timed else None, store=store.stream("a"))
    assert stream.sweep(at) == 0
    assert (stream.clock, stream.retained, stream.receipts) == (state.clock, state.retained, state.receipts)


def find_newest(state: State) -> datetime:
    times = state.retained.times
    return START if not len(times) else times.max().astype(datetime).replace(tzinfo=UTC)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_once_it_has_come_a_sweep_finds_the_stream_until_nothing_is_left(policy: str) -> None:
    store, now = make(policy, MAX_AGE, [(50, 1.0, 0), (30, 5.0, 0)])
    for _ in range(20):
        _, state = store.snapshot().streams["a"]
        assert state.event is not None
        if state.event == NEVER:
            break
        at = max(now, EPOCH + state.event * TICK)
        assert store.find_due(at)[0] == ("a",)
        Stream(POLICIES[policy], retention=64, max_age=MAX_AGE, seed=0, store=store.stream("a")).sweep(at)
        store.release()
        now = at + timedelta(hours=1)
    assert not len(store.snapshot().streams["a"][1].retained)


def test_without_a_limit_in_time_and_requests_nothing_is_ever_due() -> None:
    store, _ = make("mean", None, [(50, 1.0, 0)])
    assert store.snapshot().streams["a"][1].event == NEVER
    assert store.find_due(datetime(9_999, 1, 1, tzinfo=UTC)) == ((), ())


def test_a_state_without_one_gets_an_early_one() -> None:
    store, terms = MemoryStore(), Terms({}, 1, 8, max_age=MAX_AGE)
    store.write("a", terms, State(Clock(1), Records([1], [[0.5]], times=["2024-01-01"])))
    assert store.find_due(START + MAX_AGE / 2 - TICK) == ((), ())
    assert store.find_due(START + MAX_AGE / 2)[0] == ("a",)
    assert store.find_due(START - TICK)[0] == ("a",), "dated ahead"
