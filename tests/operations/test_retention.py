"""A dry run says what a sweep then does, and changes nothing."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reading import read_streams
from troubled import MAX_AGE, START, KeepsHalf, fill
from vestige import Clock, Mean, MemoryStore, Moments, Policy, SqliteStore, Stream, Window
from vestige.operations import Erasure, preview, sweep
from vestige.types import Bools, Ints

POLICIES = (Mean(), Mean(channel="bits"), Moments(2), Window(), KeepsHalf())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(POLICIES), st.integers(1, 300), st.integers(0, 15 * 24), st.booleans())
def test_a_dry_run_is_right(policy: Policy, n: int, hours: int, is_open: bool) -> None:
    store = MemoryStore()
    stream = Stream(policy, retention=128, max_age=MAX_AGE, seed=None, store=store.stream("a"))
    stream.extend(np.arange(float(n)), times=[START + timedelta(hours=i) for i in range(n)])
    if not is_open:
        store.release()
    now = START + timedelta(hours=n - 1 + hours)
    said, held = sweep(store, now, dry_run=True), stream.retained
    assert store.names() == (() if is_open and n < stream.batch else ("a",))
    assert stream.retained == held
    done = sweep(store, now)
    assert done.troubles.keys() == said.troubles.keys()
    before, after = said.streams["a"], done.streams["a"]
    assert (before.restarted, before.closed) == (after.restarted, after.closed)
    assert before.erased <= after.erased <= before.erased + before.undecided
    assert (before.undecided > 0) == before.closed
    assert after.undecided == 0


def test_history_that_was_filled_in_afterwards_goes_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        for name in ("a", "b"):
            fill(store, name)
    before = path.read_bytes()
    with SqliteStore(path) as store:
        said = sweep(store, dry_run=True)
    assert preview(read_streams(path)) == said
    held = {name: len(state.retained) for name, (_, state) in read_streams(path).items()}
    assert said.streams == {name: Erasure(count, restarted=True) for name, count in held.items()}
    assert said.restarted == ("a", "b")
    assert path.read_bytes() == before
    with SqliteStore(path) as store:
        assert sweep(store).streams == said.streams
    assert not any(len(state.retained) for _, state in read_streams(path).values())


def test_a_failure_keeps_what_was_done_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are written in groups: what an earlier group erased stays erased."""
    monkeypatch.setattr("vestige.operations.retention.TOGETHER", 1)
    with SqliteStore(tmp_path / "s.db") as store:
        for name in ("a", "b", "c"):
            fill(store, name)
        store.release()
        sweep_of, calls = Stream.sweep, []

        def killed(stream: Stream, now: object) -> int:
            calls.append(stream)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return sweep_of(stream, now)  # type: ignore[arg-type]

        monkeypatch.setattr(Stream, "sweep", killed)
        with pytest.raises(KeyboardInterrupt):
            sweep(store)
    held = {name: len(state.retained) for name, (_, state) in read_streams(tmp_path / "s.db").items()}
    assert held["a"] == 0
    assert held["b"]
    assert held["c"]


def test_a_record_dated_ahead_leaves_on_request() -> None:
    """In time, whether it is dated as far ahead as it may be, or further since the clock was set back."""
    stores = {(is_open, allowed): MemoryStore() for is_open in (False, True) for allowed in (False, True)}
    now = datetime.now(UTC)
    for (is_open, _), store in stores.items():
        stream = Stream(Mean(), retention=96, max_age=timedelta(seconds=1), seed=0, store=store.stream("a"))
        stream.push(5.0, time=now + timedelta(seconds=0.09), subject="ada")
        stream.forget(subject="ada")
        if not is_open:
            stream.flush()
            store.release()
    time.sleep(1.01)
    for (is_open, allowed), store in stores.items():
        done = sweep(store, now if allowed else now - timedelta(seconds=0.05))
        assert done.streams["a"].erased == 1, (is_open, allowed)
        assert list(done.troubles) == ([] if allowed else ["a"]), (is_open, allowed)


class NeedsWhole(KeepsHalf):
    """Whose batches cannot be closed early."""

    def can_encode(self, clock: Clock, rounds: Ints, leaving: Bools) -> bool:  # noqa: ARG002
        """Ask for every record of a batch."""
        return len(rounds) == 64


@pytest.mark.parametrize("policy", [KeepsHalf(), NeedsWhole()])
def test_a_dry_run_asks_the_policy_whether_it_can_close_the_batch(policy: Policy) -> None:
    store = MemoryStore()
    stream = Stream(policy, retention=128, max_age=MAX_AGE, seed=0, store=store.stream("a"))
    stream.extend(np.arange(60.0), times=[START] * 60)
    for dry_run in (True, False):
        done = sweep(store, START + 0.6 * MAX_AGE, dry_run=dry_run).streams["a"]
        assert done.closed == (type(policy) is KeepsHalf)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("more", [-1, 0])
def test_a_batch_of_just_enough_is_closed(is_open: bool, more: int) -> None:
    """Of as many records as the policy says are enough, and not of one fewer; a dry run says so."""
    store = MemoryStore()
    stream = Stream(Mean(), retention=128, max_age=MAX_AGE, seed=0, store=store.stream("a"))
    n = Mean().min_early_batch + more
    assert n < stream.batch
    stream.extend(np.arange(float(n)), times=[START] * n)
    if not is_open:
        stream.flush()
        store.release()
    for dry_run in (True, False):
        done = sweep(store, START + MAX_AGE / 2, dry_run=dry_run)
        assert done.streams["a"].closed == (more == 0)
        assert done.undecided == (n if dry_run and more == 0 else 0)


def test_a_sweep_that_does_not_tidy_writes_only_what_is_due(tmp_path: Path) -> None:
    path = tmp_path / "visits.db"
    with SqliteStore(path) as store:
        Stream(Mean(), retention=96, seed=0, store=store.stream("a")).push(1.0)
        store.flush()
        image = path.read_bytes()
        assert not sweep(store, tidy=False).tidy
        assert path.read_bytes() == image
        assert sweep(store).tidy
        assert path.read_bytes() != image
