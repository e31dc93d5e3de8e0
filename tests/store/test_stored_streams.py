"""Streams that are unpacked when they are looked at are the same as those that are read one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from troubled import damage, fill, lose_name, spread
from vestige import KeyedStreams, Mean, Stream, Window
from vestige.errors import StoreError
from vestige.store import MemoryStore, SqliteStore, Store, open_reader
from vestige.store.stored_streams import StoredStreams


def fill_all(store: Store) -> None:
    """Streams of two families, of one kind with own positions, and one with receipts."""
    assert isinstance(store, SqliteStore | MemoryStore)
    keyed = KeyedStreams(Mean(channel="bits"), retention=56, seed=0, store=store.family())
    rng = np.random.default_rng(0)
    keyed.extend([f"key {i}" for i in rng.integers(0, 300, 5_000)], rng.normal(size=5_000))
    for name in ("b", "a"):
        stream = Stream(Window(), retention=40, store=store.stream(name))
        stream.extend(np.arange(50.0), source="queue:", positions=[b"%d" % i for i in range(50)])
    fill(store, "timed").forget(subject="person-3")
    store.release()


def test_a_snapshot_has_what_reading_one_by_one_finds(tmp_path: Path) -> None:
    for store in (MemoryStore(), SqliteStore(tmp_path / "s.db")):
        with store:
            fill_all(store)
            streams = store.snapshot().streams
            assert isinstance(streams, StoredStreams)
            assert tuple(streams) == store.names()
            assert dict(streams) == {name: store.read_stream(name) for name in store.names()}
            assert len(streams) == store.count()
            assert "key 7" in streams
            assert "key 7 " not in streams
            assert 7 not in streams  # type: ignore[comparison-overlap]
            with pytest.raises(KeyError):
                streams["nobody"]


def test_a_snapshot_does_not_change_with_its_store(tmp_path: Path) -> None:
    for store in (MemoryStore(), SqliteStore(tmp_path / "s.db")):
        with store:
            fill_all(store)
            before = store.snapshot()
            known = dict(before.streams)
            Stream(Window(), retention=40, store=store.stream("a")).push(1.0)
            store.remove("key 3")
            store.flush()
            assert dict(before.streams) == known
            assert dict(store.snapshot().streams) != known


def test_streams_are_listed_by_their_terms(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        fill_all(store)
        streams = store.snapshot().streams
        assert isinstance(streams, StoredStreams)
        families = {f"{terms.policy['name']}{terms.max_age}": names for terms, names in streams.list_families()}
        assert families["vestige.WindowNone"] == ["a", "b"]
        assert [*families["vestige.MeanNone"]] == sorted(name for name in streams if name.startswith("key"))
        assert len(families) == len(store.list_terms()) == 3


def test_of_nothing_there_is_nothing() -> None:
    streams = MemoryStore().snapshot().streams
    assert isinstance(streams, StoredStreams)
    assert (dict(streams), streams.list_families()) == ({}, [])


def test_what_is_damaged_is_named_and_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill_all(store)
    spread(path)
    damage(path, "key 5")
    damage(path, "a")
    said = lose_name(path, "b")
    snapshot = open_reader(path).snapshot()
    assert set(snapshot.troubles) == {"key 5", "a", said}
    assert said in snapshot.unnamed
    assert {*snapshot.streams}.isdisjoint(("key 5", "a", "b"))
    for name in ("key 5", "a"):
        with pytest.raises(StoreError) as problem:
            open_reader(path).read_stream(name)
        assert snapshot.troubles[name] == str(problem.value)
