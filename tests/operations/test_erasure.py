"""Removal without a policy erases just what a stream erases that cannot carry its statistic on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troubled import MAX_AGE, START, KeepsHalf, fill
from vestige import Mean, MemoryStore, Policy, Stream, Window
from vestige.operations.erasure import erase, erase_overdue
from vestige.store import Receipt, State

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

steps = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 5, 20, 100]),  # hours since the newest row so far
        st.sampled_from([0, 0, 0, 2, 100, 210]),  # by how many hours this one is late
    ),
    min_size=1,
    max_size=50,
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([Mean(channel="bits"), Window()]),
    steps,
    st.lists(st.integers(0, 15 * 24), min_size=1, max_size=4),
    st.sampled_from([0, 1]),
)
def test_as_a_stream_does_that_cannot_close_its_batch(
    policy: Policy, plan: list[tuple[int, int]], pauses: list[int], less: int
) -> None:
    """28 records are needed to close a batch, a full one: none is ever closed early."""
    store = MemoryStore()
    limits = {"max_age": MAX_AGE, "lateness": MAX_AGE - timedelta(hours=24)}
    stream = Stream(policy, retention=56, seed=0, store=store.stream("a"), **limits)  # type: ignore[arg-type]
    newest = START
    for hours, late in plan * 3:
        newest += timedelta(hours=hours)
        stream.push(1.0, time=newest - timedelta(hours=late))
    stream.flush()
    terms = store.terms("a")
    state, now = store.stream("a").read(terms), newest
    for pause in pauses:
        now += timedelta(hours=pause)
        if pause % 2 and state.clock.due is not None:  # the very moment, or the one before it
            now = max(now, EPOCH + timedelta(microseconds=state.clock.due - less))
        stream.sweep(now)
        state = erase_overdue(terms, state, now, all_or_nothing=policy.all_or_nothing)
        assert state.retained == stream.retained
        assert state.clock == stream.clock
        waits = state.retained.rounds > state.clock.last
        assert waits.all() or state.clock.encoded, "a kept record is one of the encoded batch"


def filled() -> tuple[MemoryStore, State]:
    store = MemoryStore()
    fill(store, "mine", KeepsHalf()).flush()
    return store, store.stream("mine").read(store.terms("mine"))


def test_a_kept_record_takes_the_encoded_batch_along() -> None:
    _, state = filled()
    assert (state.clock.first, state.clock.last, state.clock.t) == (49, 96, 100)
    left = erase(state, state.retained.rounds == 50)
    assert left.retained.rounds.tolist() == [97, 98, 99, 100]
    assert (left.clock.t, left.clock.since, left.clock.last, left.clock.due) == (100, 97, 96, None)


def test_a_record_that_is_not_encoded_yet_goes_alone() -> None:
    _, state = filled()
    left = erase(state, state.retained.rounds == 98)
    assert left.clock == state.clock
    assert set(state.retained.rounds) - set(left.retained.rounds) == {98}


def test_requests_that_are_open_are_met_too() -> None:
    store = MemoryStore()
    stream = fill(store, "mine", KeepsHalf())
    stream.forget(subject="person-1")
    state = store.stream("mine").read(store.terms("mine"))
    assert state.retained.leaving.any()
    left = erase(state, np.zeros(len(state.retained), np.bool_))
    assert not left.retained.leaving.any()
    assert all(receipt.erased is not None for receipt in left.receipts)


def test_overdue_requests_are_met_and_expired_receipts_go() -> None:
    store, state = filled()
    terms, long_ago = store.terms("mine"), START - timedelta(days=3_000)
    marked = State(state.clock, state.retained.with_leaving(state.retained.rounds == 99))
    now = START + timedelta(hours=100)
    assert erase_overdue(terms, marked, now) is marked, "no request is overdue"
    met = Receipt("0" * 16, long_ago, 1, 1, long_ago, long_ago, 1)
    due = Receipt("1" * 16, long_ago, 1, 1_000, long_ago)
    left = erase_overdue(terms, State(marked.clock, marked.retained, {}, (met, due)), now)
    assert 99 not in left.retained.rounds
    assert [receipt.id for receipt in left.receipts] == [due.id]
    assert left.receipts[0].erased is not None


@pytest.mark.parametrize("more", [0, 1])
def test_a_request_is_overdue_in_the_very_round(more: int) -> None:
    """And is met then, also where no record of the subject is held."""
    store, state = filled()
    long_ago = START - timedelta(days=3_000)
    receipt = Receipt("1" * 16, long_ago, 1, state.clock.t + more)
    left = erase_overdue(store.terms("mine"), State(state.clock, state.retained, {}, (receipt,)), START)
    assert left.retained == state.retained
    assert (left.receipts[0].erased is None) == (more == 1)


@pytest.mark.parametrize("now", ["0001-01-01", "9999-12-31"])
def test_any_time_will_do(now: str) -> None:
    store, state = filled()
    left = erase_overdue(store.terms("mine"), state, START.fromisoformat(now))
    assert len(left.retained) == (len(state.retained) if now < "2024" else 0)
