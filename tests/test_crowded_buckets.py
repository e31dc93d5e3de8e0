"""One commit costs what it changes: the table of buckets grows beside damage, and no bucket is crowded on purpose."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import KeyedStreams, Mean, Stream, open_store
from vestige.cli import command
from vestige.errors import StoreError
from vestige.store import SqliteStore, State, open_reader
from vestige.store.bucket import count_buckets, count_places, find_bucket, find_weight

OVERLONG = "row 1 of the table buckets was written with a key of 65,536 bytes or more"
DAMAGED = "row 1 of the table buckets is damaged"
PLACES = 3 * 32_768 // (96 + 4 * 64) + 32
"""Streams of a retention of 64 that a bucket takes."""


def open_shops(store: SqliteStore) -> KeyedStreams:
    return KeyedStreams(Mean(), retention=64, seed=1, store=store.family())


def damage(path: Path, row: int) -> None:
    """Change the names of a bucket outside Vestige."""
    with closing(sqlite3.connect(path)) as db:
        (names,) = db.execute("SELECT names FROM buckets WHERE id = ?", (row,)).fetchone()
        db.execute("UPDATE buckets SET names = ? WHERE id = ?", (bytes([names[0] ^ 1]) + names[1:], row))
        db.commit()


def test_a_store_that_an_overlong_key_has_spoilt_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    with monkeypatch.context() as patch:
        patch.setattr("vestige.keyed.names.LONGEST_NAME", 2**30)  # as it was when nobody checked
        with SqliteStore(path) as store:
            open_shops(store).extend(["DE", "x" * 65_541, "FR"], [1.0, 2.0, 3.0])
    for name in ("list", "estimate", "sweep", "verify"):
        result = CliRunner().invoke(command, [name, str(path)], prog_name="vestige")
        assert result.exit_code != 0
        assert OVERLONG in " ".join(result.output.split())
        assert "Traceback" not in result.output
        assert "bits changed" not in result.output
    with SqliteStore(path) as store:
        taken = open_shops(store).take(["DE", "IT"], [1.0, 1.0])
        assert taken.taken == 0
        assert all(OVERLONG in str(trouble.problem) for trouble in taken.troubles.values())
        with pytest.raises(StoreError, match=OVERLONG):
            store.stream("DE").read(open_shops(store).terms)
        (wrong,) = store.survey()[1]
        store.remove(wrong)
        open_shops(store).extend(["DE"], [1.0])
        assert store.verify() == ()


def test_a_damaged_bucket_keeps_no_others_from_growing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, rng = tmp_path / "s.db", np.random.default_rng(7)
    with SqliteStore(path) as store:
        open_shops(store).extend(np.arange(800), rng.normal(size=800), subjects=[f"p{i % 9}" for i in range(800)])
        buckets = store._tables.about.buckets
        weight = find_weight(open_shops(store).terms)
    assert buckets > 1
    damage(path, 1)
    lost = {str(i) for i in range(9_000) if find_bucket(str(i).encode(), buckets) == 0}
    with SqliteStore(path) as store:
        shops = open_shops(store)
        for keys in (np.arange(3_000), np.arange(9_000)):  # new ones make it grow, while others are there
            taken = shops.take(keys, rng.normal(size=len(keys)))
            shops.flush()
            assert set(taken.troubles) == lost & set(map(str, keys))
            assert all(DAMAGED in str(trouble.problem) for trouble in taken.troubles.values())
        assert store._tables.about.buckets == count_buckets(weight * 9_000)
        assert f"1 of {buckets} rows of streams cannot be read" in caplog.text
        one = next(key for key in sorted(lost) if find_bucket(key.encode(), store._tables.about.buckets) != 0)
    with (
        SqliteStore(path) as store,
        pytest.raises(StoreError, match="is kept for streams of one that is damaged"),
    ):
        Stream(Mean(), retention=64, store=store.stream(one))
    found = open_reader(path).verify()
    assert sum(DAMAGED in text for text in found) == 1
    assert all(DAMAGED in text or "is kept for streams of one that is damaged" in text for text in found)
    with SqliteStore(path) as store:
        shops = open_shops(store)
        assert set(shops) == {str(i) for i in range(9_000)} - lost
        store.remove(DAMAGED)
        assert store.verify() == ()
        shops.reload()
        assert shops.extend([one, "0"], [1.0, 1.0]) == 2


def crowd(count: int) -> list[str]:
    """Keys of one bucket of 256, as somebody may choose them."""
    chosen = (key for i in range(2**30) if zlib.crc32((key := f"k{i}").encode()) & 255 == 5)
    return list(islice(chosen, count))


def test_keys_that_are_chosen_to_lie_in_one_bucket_are_refused_at_last(tmp_path: Path) -> None:
    path, chosen = tmp_path / "s.db", crowd(PLACES + 40)
    with SqliteStore(path) as store:
        shops = open_shops(store)
        first = shops.take(chosen[:200], [1.0] * 200)
        shops.flush()
        assert first.taken == 200
        rest = shops.take([*chosen[200:], "FR", "IT"], [1.0] * (len(chosen) - 198))
        shops.flush()
        assert list(rest.troubles) == chosen[PLACES:]
        assert rest.taken == PLACES - 200 + 2
        assert all("its bucket has 311 streams" in str(trouble.problem) for trouble in rest.troubles.values())
        assert len(shops) == PLACES + 2
        assert shops.take([*chosen, "FR"], [1.0] * (len(chosen) + 1)).taken == PLACES + 1
        shops.flush()
        assert store.verify() == ()
        assert store.count() == PLACES + 2
    with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="its bucket has 311 streams"):
            store.stream(chosen[-1]).write(shops.terms, State.empty(1))
        assert store.count() == PLACES + 2


def test_a_crowded_bucket_of_an_earlier_version_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = crowd(PLACES + 1)
    with SqliteStore(tmp_path / "s.db") as store:
        with monkeypatch.context() as patch:
            patch.setattr("vestige.keyed.storage.count_places", lambda _: 10**9)
            open_shops(store).extend(chosen, [1.0] * len(chosen))
        (found,) = store.verify()
        assert "has 312 streams of the same terms, where 311 are the most" in found


def test_keys_of_one_call_that_lie_in_one_bucket_are_counted_together(tmp_path: Path) -> None:
    """The table has one bucket before the call; what counts is where they lie once it has grown."""
    with open_store(tmp_path / "s.db") as store:
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        many = [f"m{i}" for i in range(5_000)]
        taken = shops.take([*many, *crowd(1_100)], [1.0] * 6_100)
        assert set(taken.troubles) <= set(crowd(1_100))
        assert 1_100 - PLACES <= len(taken.troubles) < 1_100 - PLACES + 150
        shops.flush()
        assert store.verify() == ()


def test_a_bucket_takes_fewer_of_streams_that_take_more_room(tmp_path: Path) -> None:
    """A commit of one stream writes its bucket: a thousand states of 160 kB each took seconds."""
    with open_store(tmp_path / "s.db") as store:
        vast = KeyedStreams(Mean(), retention=40_000, seed=1, store=store.family())
        weight = find_weight(vast.terms)
        assert count_places(weight) == 32
        found = (key for i in range(2**30) if not zlib.crc32((key := f"k{i}").encode()) & 1_023)
        taken = vast.take(list(islice(found, 50)), [1.0] * 50)
        assert taken.taken == 32
        assert all("its bucket has 32 streams" in str(trouble.problem) for trouble in taken.troubles.values())
        vast.flush()
        other = KeyedStreams(Mean(2), retention=96, seed=1, store=store.family())  # which has places of its own
        assert other.take([f"m{i}" for i in range(300)], np.ones((300, 2))).taken == 300
        other.flush()
        assert store.verify() == ()


def test_a_limit_alone_makes_no_store_large(tmp_path: Path) -> None:
    """A stream with a retention of 100 million made 16,384 buckets, and each further one doubled them or wrote more."""
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        terms = replace(open_shops(store).terms, capacity=10**8)
        for name in "abc":
            store.stream(name).write(terms, State.empty(1))
        assert store._tables.about.buckets == 16
        assert store.verify() == ()
    assert path.stat().st_size < 100_000
