"""Streams of a family that were read from a snapshot are those of the store, which is not changed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from troubled import KeepsHalf, damage
from vestige import KeyedStreams, Mean, Moments, StoreError, Stream, open_store
from vestige.keyed import read_families
from vestige.store import SqliteStore, open_reader


def fill(path: Path) -> None:
    rng = np.random.default_rng(0)
    keys, values = [f"key {i}" for i in rng.integers(0, 200, 6_000)], rng.normal(size=6_000)
    with SqliteStore(path) as store:
        KeyedStreams(Mean(channel="bits"), retention=56, seed=0, store=store.family()).extend(keys, values)
        about = {"columns": ["spent"], "targets": []}
        moments = KeyedStreams(Moments(), retention=400, seed=0, store=store.family(about=about))
        moments.extend([f"moments of {key}" for key in keys], values)
        for name in ("x", "y", "z"):
            Stream(KeepsHalf(), retention=96, store=store.stream(name)).extend(values[:100])


def test_families_have_the_states_of_their_streams(tmp_path: Path) -> None:
    fill(tmp_path / "s.db")
    before = (tmp_path / "s.db").read_bytes()
    snapshot = open_reader(tmp_path / "s.db").snapshot()
    families = list(read_families(snapshot.streams))
    assert sorted(len(names) for _, names, _ in families) == [200, 200], "a policy of one's own cannot be made again"
    for terms, names, streams in families:
        assert names == sorted(names)
        for name in names:
            assert snapshot.streams[name][0] == terms
            assert (streams.clock(name), streams.retained(name)) == (
                snapshot.streams[name][1].clock,
                snapshot.streams[name][1].retained.without_numbers(),
            )
    assert (tmp_path / "s.db").read_bytes() == before


def test_small_families_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path / "s.db")
    streams = open_reader(tmp_path / "s.db").snapshot().streams
    assert list(read_families(streams, more_than=200)) == []
    assert len(list(read_families(streams, more_than=199))) == 2
    assert list(read_families(dict(streams))) == [], "of other stores each stream is read by itself"


def test_a_damaged_stream_is_not_among_the_names(tmp_path: Path) -> None:
    fill(tmp_path / "s.db")
    damage(tmp_path / "s.db", "key 7")
    snapshot = open_reader(tmp_path / "s.db").snapshot()
    assert set(snapshot.troubles) == {"key 7"}
    sizes = {len(names) for _, names, _ in read_families(snapshot.streams)}
    assert sizes == {199, 200}


def test_a_mistyped_limit_is_refused() -> None:
    store = open_store("memory:")
    KeyedStreams(Mean(), retention=96, seed=0, store=store.family()).extend(["DE"], [1.0])
    store.release()
    with pytest.raises(StoreError, match=r"differ in nothing else: retention=96, now retention=97; pass the limits"):
        KeyedStreams(Mean(), retention=97, seed=0, store=store.family())
    with pytest.raises(StoreError, match=r"max_age=none, now max_age=1 day"):
        KeyedStreams(Mean(), retention=96, max_age=timedelta(days=1), seed=0, store=store.family())
    assert len(KeyedStreams(Mean(), retention=97, seed=0, store=store.family(about={"of": "others"}))) == 0
    streams = KeyedStreams(Mean(), retention=96, seed=0, store=store.family())
    assert len(streams) == 1
    streams.remove("DE")
    store.release()
    assert len(KeyedStreams(Mean(), retention=97, seed=0, store=store.family())) == 0, "no stream is left that differs"
