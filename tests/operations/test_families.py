"""Sweeps, requests and removals while streams are open by key: they reach these streams, and the store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from vestige import KeyedStreams, Mean, MemoryStore, SqliteStore
from vestige.operations import forget, remove, sweep
from vestige.operations.confirmation import confirm_requests
from vestige.store import Store

START = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db") as opened:
        yield opened


def fill(store: Store, *, max_age: timedelta | None = None) -> KeyedStreams:
    """Three streams of ten records each, the newest of which are not written yet."""
    streams = KeyedStreams(Mean(), retention=96, max_age=max_age, seed=1, store=store.family())
    for i in range(10):
        times = [START + timedelta(hours=i)] * 3
        streams.take(["a", "b", "c"], [1.0, 2.0, 3.0], times=times, subjects=["ada", "bob", "ada" if i % 2 else "eve"])
        if i == 5:
            streams.flush()
    return streams


def count_stored(store: Store) -> dict[str, int]:
    return {name: len(state.retained) for name, (_, state) in store.snapshot().streams.items()}


def test_a_sweep_erases_what_is_due_in_open_streams_and_in_the_store(store: Store) -> None:
    streams = fill(store, max_age=timedelta(days=30))
    assert sweep(store, START + timedelta(days=30, hours=12)).erased == 30
    assert [len(streams.retained(name)) for name in "abc"] == [0, 0, 0]
    assert count_stored(store) == {"a": 0, "b": 0, "c": 0}


def test_streams_that_are_excluded_stay(store: Store) -> None:
    streams = fill(store, max_age=timedelta(days=30))
    sweep(store, START + timedelta(days=30, hours=12), exclude=["b"])
    assert [len(streams.retained(name)) for name in "abc"] == [0, 10, 0]


@pytest.mark.parametrize("now", [True, False])
def test_a_subject_is_forgotten_in_open_streams_and_in_the_store(store: Store, now: bool) -> None:
    streams = fill(store)
    done = forget(store, ["ada", "nobody"], now=now)
    assert (done.unknown, done.troubles) == ((1,), {})
    assert all((receipt.erased is not None) == now for receipt in done.receipts)
    pseudonym = store.pseudonym("ada")
    held = {name: streams.retained(name) for name in "abc"}
    if now:
        assert {name: len(records) for name, records in held.items()} == {"a": 0, "b": 10, "c": 5}
        assert count_stored(store) == {"a": 0, "b": 10, "c": 5}
    else:
        assert {name: int(records.leaving.sum()) for name, records in held.items()} == {"a": 10, "b": 0, "c": 5}
        for _ in range(100):
            streams.take(["a", "b", "c"], [1.0, 2.0, 3.0])
        streams.flush()
        confirm_requests(store, {})
        assert all(receipt.erased is not None for receipt in store.read_ledger().receipts)
    stored = store.snapshot().streams
    assert all(pseudonym not in state.retained.subjects for _, state in stored.values())


def test_a_request_is_open_until_each_stream_has_had_an_update(store: Store) -> None:
    streams = fill(store)
    forget(store, ["ada"])
    for _ in range(100):
        streams.take(["a", "c"], [1.0, 3.0])
    streams.flush()
    confirm_requests(store, {})
    assert [receipt.erased for receipt in store.read_ledger().receipts] == [None], "b has had none"


def test_records_are_forgotten_by_round_in_one_stream(store: Store) -> None:
    streams = fill(store)
    assert not forget(store, rounds=[3, 4], streams=["b"], now=True).troubles
    assert [len(streams.retained(name)) for name in "abc"] == [10, 8, 10]
    assert count_stored(store) == {"a": 10, "b": 8, "c": 10}


def test_a_stream_is_removed_with_its_name(store: Store) -> None:
    streams = fill(store)
    streams.positions.read("rows:", lambda position: position).note(b"7", behind={"b": b"5"})
    assert remove(store, ["b", "nothing"]).streams == (0, 1)
    assert sorted(streams) == ["a", "c"]
    assert count_stored(store) == {"a": 10, "c": 10}
    assert "b" not in streams.positions.own["rows:"]
    streams.take(["b"], [5.0])
    streams.flush()
    assert count_stored(store) == {"a": 10, "b": 1, "c": 10}


def test_what_was_done_is_there_when_the_streams_are_opened_again(store: Store) -> None:
    fill(store)
    forget(store, ["ada"])
    store.release()
    again = KeyedStreams(Mean(), retention=96, seed=1, store=store.family())
    assert int(again.retained("a").leaving.sum()) == 10
