"""Stores with many streams: what is due and who is asked for is found without opening the others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from troubled import MAX_AGE, START, KeepsHalf, fill, lose_name, spread
from vestige import Mean, Stream, Window
from vestige.operations import entry, forget, remove, sweep
from vestige.operations.confirmation import confirm_requests
from vestige.store import MemoryStore, SqliteStore, Store, open_reader
from vestige.store.keys import EARLIER

LATER = START + MAX_AGE + timedelta(hours=50)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have every store count as a large one; the names of the streams that are opened or read."""
    names: list[str] = []
    find = entry.Entry.find.__func__  # type: ignore[attr-defined]

    def watched(cls: type[entry.Entry], store: Store, name: str) -> entry.Entry:
        names.append(name)
        found: entry.Entry = find(cls, store, name)
        return found

    monkeypatch.setattr(entry, "FEW", -1)
    monkeypatch.setattr(entry.Entry, "find", classmethod(watched))
    return names


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Streams of which some have a limit in time, some have subjects, and two are of one person."""
    with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db") as made:
        for i in range(40):
            Stream(Mean(), retention=96, seed=0, store=made.stream(f"plain {i}")).extend(np.arange(10.0))
        for i in range(10):
            fill(made, f"timed {i}", start=START + i * timedelta(days=30))
        for name in ("of ada", "also of ada"):
            Stream(Window(), retention=96, store=made.stream(name)).extend([1.0, 2.0], subjects=["ada", "bob"])
        made.release()
        yield made


def test_a_sweep_looks_at_what_is_due(store: Store, opened: list[str]) -> None:
    done = sweep(store, LATER)
    assert opened == [f"timed {i}" for i in range(10)], "some are dated ahead"
    assert done.erased == done.streams["timed 0"].erased > 20
    assert set(done.troubles) == {f"timed {i}" for i in range(1, 10)}


def test_a_sweep_with_nothing_due_opens_nothing(store: Store, opened: list[str]) -> None:
    sweep(store, START + timedelta(days=1_000))
    opened.clear()
    done = sweep(store, START + timedelta(days=1_001))
    assert opened == []
    assert (done.streams, done.troubles, done.tidy) == ({}, {}, True)


def test_a_stream_that_is_open_is_always_looked_at(store: Store, opened: list[str]) -> None:
    Stream(Mean(), retention=96, seed=0, store=store.stream("plain 3")).push(1.0)
    assert "plain 3" in sweep(store, START - timedelta(days=100)).streams
    assert "plain 3" in opened


def test_a_request_is_carried_out_where_the_index_says(store: Store, opened: list[str]) -> None:
    total = sum(state.clock.t for _, state in store.snapshot().streams.values())
    done = forget(store, ["ada", "nobody"], now=True)
    assert opened == ["also of ada", "of ada"]
    assert done.unknown == (1,)
    assert [(receipt.requested_round, receipt.erased_round) for receipt in done.receipts] == [(total, total)] * 2
    assert all(len(store.snapshot().streams[name][1].retained) == 1 for name in opened)
    assert store.find_subjects([store.pseudonym("ada")]) == {store.pseudonym("ada"): ()}


def test_a_request_is_met_once_all_streams_have_met_it(store: Store, opened: list[str]) -> None:
    """It waits for every stream that holds records, also those that have none of the person."""
    (receipt,) = forget(store, ["ada"]).receipts
    assert (receipt.erased, receipt.due_round, receipt.due) == (None, None, None)
    for name in store.names():
        confirm_requests(store, {})
        assert store.read_ledger().receipts[0].erased is None
        terms = store.terms(name)
        made = {"Mean": Mean(), "Window": Window()}[str(terms.policy["name"]).removeprefix("vestige.")]
        stream = Stream(made, retention=96, max_age=terms.max_age, seed=0, store=store.stream(name))
        times = None if terms.max_age is None else [stream.retained.times.max().astype(object)] * 96
        stream.extend(np.arange(96.0), times=times)
        store.release()
    opened.clear()
    confirm_requests(store, {})
    assert opened == []
    (receipt,) = store.read_ledger().receipts
    assert receipt.erased_round == sum(state.clock.t for _, state in store.snapshot().streams.values())


def test_an_open_stream_counts_with_what_it_has_not_written(store: Store, opened: list[str]) -> None:
    total = sum(state.clock.t for _, state in store.snapshot().streams.values())
    stream = Stream(Mean(), retention=96, seed=0, store=store.stream("plain 3"))
    stream.extend([1.0, 2.0], subjects=["eve", None])
    Stream(Mean(), retention=96, seed=0, store=store.stream("new")).extend([1.0], subjects=["eve"])
    done = forget(store, ["eve"], now=True)
    assert set(opened) == {"new", "plain 3"}
    assert (done.unknown, done.receipts[0].requested_round) == ((), total + 3)


def test_records_of_a_lost_key_are_told(tmp_path: Path, opened: list[str]) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as made:
        for name in ("a", "b"):
            subjects = ["ada"] if name == "a" else None
            Stream(Mean(), retention=96, seed=0, store=made.stream(name)).extend([1.0], subjects=subjects)
        made.flush()
        path.with_name("s.db.key").unlink()
        made.rekey()
        assert made.find_subjects([EARLIER]) == {EARLIER: ("a",)}
        done = forget(made, ["ada"])
        assert opened == ["a"]
        assert "an earlier key" in done.troubles["a"]
    assert open_reader(path).verify() == ()


def test_a_row_that_the_index_names_and_that_cannot_be_read_keeps_the_request_open(
    tmp_path: Path, opened: list[str]
) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as made:
        for name in ("a", "b", "c"):
            Stream(Mean(), retention=96, seed=0, store=made.stream(name)).extend([1.0], subjects=["ada"])
    spread(path)
    lost = lose_name(path, "b")
    with SqliteStore(path) as made:
        done = forget(made, ["ada"], now=True)
        assert opened == ["a", "c"]
        assert set(done.troubles) == {lost}
        assert done.receipts[0].erased is None
        assert set(sweep(made).troubles) <= {lost}
        assert made.read_ledger().receipts[0].erased is None
        assert remove(made, [lost]).streams == (0,)
        sweep(made)
        assert made.read_ledger().receipts[0].erased is not None


def test_a_stream_without_its_policy_is_swept_when_it_is_due(store: Store, opened: list[str]) -> None:
    fill(store, "mine", KeepsHalf(), start=START)
    store.release()
    done = sweep(store, LATER)
    assert done.streams["mine"].erased
    assert "and the statistic restarts" in done.troubles["mine"]
    assert "mine" in opened
