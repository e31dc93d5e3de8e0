"""What a reader of tables finds by its indexes is what reading every stream finds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from troubled import START, damage, fill, spread
from vestige import Mean, Stream, Window
from vestige.errors import StoreError
from vestige.operations import forget
from vestige.store import Reader, SqliteStore, Store, open_reader
from vestige.times import wall_clock

NAMES = [f"key {i}" for i in range(30)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Streams of two kinds in many buckets; some have receipts, and one request is for all."""
    with SqliteStore(tmp_path / "s.db") as store:
        for name in NAMES:
            Stream(Mean(), retention=96, seed=0, store=store.stream(name)).extend(np.arange(10.0))
        for name in ("of ada", "also of ada"):
            stream = Stream(Window(), retention=96, store=store.stream(name, about={"hash_keys": True}))
            stream.extend([1.0, 2.0], subjects=["ada", "bob"], source="q:", positions=[b"1", b"2"])
            stream.forget(subject="bob")
        fill(store, "timed")
        store.release()
        forget(store, ["eve"], references=["T-1"])
    spread(tmp_path / "s.db")
    return tmp_path / "s.db"


def test_it_finds_what_a_plain_reader_finds(path: Path) -> None:
    reader = open_reader(path)
    for after, limit in [(None, None), (None, 5), ("key 17", 4), ("key 17", None), ("z", 3), ("key 2", 0), ("", 2)]:
        assert reader.survey(after, limit) == Reader.survey(reader, after, limit), (after, limit)
    assert reader.page("key 17", 4) == ["key 18", "key 19", "key 2", "key 20"]
    assert reader.count() == Reader.count(reader) == 33
    for name in ("key 3", "timed", "nobody", ""):
        assert reader.has(name) == Reader.has(reader, name)
    assert {terms.text for terms in reader.list_terms()} == {terms.text for terms in Reader.list_terms(reader)}
    assert reader.sources() == Reader.sources(reader) == ("q:",)
    assert reader.read_ledger() == Reader.read_ledger(reader)
    marks = [reader.pseudonym(who) for who in ("ada", "person-3", "nobody")]
    assert reader.find_subjects(marks) == Reader.find_subjects(reader, marks)
    assert [len(names) for names in reader.find_subjects(marks).values()] == [2, 1, 0]


def test_it_names_what_is_due(path: Path) -> None:
    reader = open_reader(path)
    assert reader.find_due(START + timedelta(days=100)) == (("timed",), ())
    assert set(reader.find_due(START)[0]) == {"timed"}, "its newest record is dated later"


def test_receipts_are_found_without_reading_other_streams(path: Path) -> None:
    reader = open_reader(path)
    found, everything = reader.read_receipts(), reader.snapshot()
    assert set(found.streams) == {"of ada", "also of ada"}
    assert found.find_receipts(wall_clock()) == everything.find_receipts(wall_clock())
    assert len(found.find_receipts(wall_clock())) == 3
    damage(path, "of ada")
    assert set(reader.read_receipts().troubles) == {"of ada"}
    damage(path, "key 5")
    assert set(reader.read_receipts().troubles) == {"of ada"}, "a stream in which nothing is ever due has no receipts"


def test_a_damaged_stream_is_there(path: Path) -> None:
    damage(path, "key 5")
    reader = open_reader(path)
    assert reader.has("key 5")
    assert "key 5" in reader.survey()[0]
    with pytest.raises(StoreError, match="key 5"):
        reader.read_stream("key 5")


def test_a_store_that_is_open_reads_alike(path: Path) -> None:
    with SqliteStore(path) as store:
        assert isinstance(store, Store)
        assert store.survey(None, 3) == open_reader(path).survey(None, 3)
        assert store.read_receipts().names == ("also of ada", "of ada")
