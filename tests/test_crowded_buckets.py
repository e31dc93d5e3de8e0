"""One commit costs what it changes: the table of buckets grows beside damage, and no bucket is crowded on purpose."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import KeyedStreams, Mean, Stream, open_store
from vestige.cli import command
from vestige.errors import StoreError
from vestige.store import SqliteStore, State, open_reader
from vestige.store.bucket import MOST_STREAMS, count_buckets, find_bucket, find_weight

OVERLONG = "row 1 of the table buckets was written with a key of 65,536 bytes or more"
DAMAGED = "row 1 of the table buckets is damaged"


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
    path, chosen = tmp_path / "s.db", crowd(MOST_STREAMS + 40)
    with SqliteStore(path) as store:
        shops = open_shops(store)
        first = shops.take(chosen[:900], [1.0] * 900)
        shops.flush()
        assert first.taken == 900
        rest = shops.take([*chosen[900:], "DE", "FR"], [1.0] * (len(chosen) - 898))
        shops.flush()
        assert list(rest.troubles) == chosen[MOST_STREAMS:]
        assert rest.taken == MOST_STREAMS - 900 + 2
        assert all("its bucket has 1,024 streams" in str(trouble.problem) for trouble in rest.troubles.values())
        assert len(shops) == MOST_STREAMS + 2
        assert shops.take([*chosen, "DE"], [1.0] * (len(chosen) + 1)).taken == MOST_STREAMS + 1
        shops.flush()
        assert store.verify() == ()
        assert store.count() == MOST_STREAMS + 2
    with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="its bucket has 1,024 streams"):
            store.stream(chosen[-1]).write(shops.terms, State.empty(1))
        assert store.count() == MOST_STREAMS + 2


def test_a_crowded_bucket_of_an_earlier_version_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vestige.keyed.directory.MOST_STREAMS", 10**9)
    chosen = crowd(MOST_STREAMS + 1)
    with SqliteStore(tmp_path / "s.db") as store:
        open_shops(store).extend(chosen, [1.0] * len(chosen))
        (found,) = store.verify()
        assert "has 1,025 streams, where 1,024 are the most" in found


def test_keys_of_one_call_that_lie_in_one_bucket_are_counted_together(tmp_path: Path) -> None:
    """The table has one bucket before the call; what counts is where they lie once it has grown."""
    with open_store(tmp_path / "s.db") as store:
        shops = KeyedStreams(Mean(), retention=64, seed=1, store=store.family())
        many = [f"m{i}" for i in range(5_000)]
        taken = shops.take([*many, *crowd(1_100)], [1.0] * 6_100)
        assert set(taken.troubles) <= set(crowd(1_100))
        assert 76 <= len(taken.troubles) < 300
        shops.flush()
        assert store.verify() == ()
