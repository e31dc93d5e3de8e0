"""A store of version 1 of the format, as its code wrote it: readers say so, and a writer brings it up to date."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from old_stores import check_readers_refuse, check_records, copy_store, read_facts
from reading import read_streams
from vestige import SqliteStore
from vestige.clock import WORD_VERSION, Clock
from vestige.errors import StoreBusyError, StoreError
from vestige.records import Records
from vestige.store import Position, Terms, open_reader
from vestige.store.position import encode_count
from vestige.store.sqlite import version1
from vestige.stream import open_stream

FACTS = read_facts(1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_store(1, tmp_path)


def test_readers_say_so_in_a_sentence_and_leave_it_as_it_is(path: Path) -> None:
    check_readers_refuse(path, 1)


def test_a_writer_brings_it_up_to_date(path: Path) -> None:
    with SqliteStore(path) as store:
        assert store.names() == tuple(sorted(FACTS))
        bob = store.pseudonym("bob")
    there = read_streams(path)
    for name, facts in FACTS.items():
        terms, state = there[name]
        clock, held = state.clock, state.retained
        assert terms == Terms.parse(json.dumps(facts["terms"]))
        t, first, last, since = facts["clock"].values()
        gone = 0
        if name == "timed/ü":  # its encoded batch would be misread
            first = since = last + 1
            gone = sum(number <= last for number in facts["rounds"])
        assert (clock.t, clock.first, clock.last, clock.since) == (t, first, last, since)
        assert clock.word == (1 if clock.encoded else WORD_VERSION)
        check_records(held, facts, gone)
        assert held.numbers.tolist() == [0] * len(held)
        assert state.positions == {source: Position(encode_count(rows)) for source, rows in facts["positions"].items()}
        assert [receipt.id for receipt in state.receipts] == [receipt["id"] for receipt in facts["receipts"]]
        assert [str(receipt.requested.isoformat()) for receipt in state.receipts] == [
            receipt["requested"] for receipt in facts["receipts"]
        ]
    assert set(there["plain"][1].retained.subjects) == {bob, None}
    assert there["plain"][1].clock.updates == 3
    assert open_reader(path).verify(at=datetime(2024, 1, 4, tzinfo=UTC)) == ()


def test_no_time_of_an_erased_record_is_carried_over(path: Path) -> None:
    began = FACTS["timed/ü"]["began"]
    age = timedelta(days=30) // timedelta(microseconds=1)
    assert began.to_bytes(8, "little") in path.read_bytes()
    with SqliteStore(path):
        pass
    due = version1._find_due(began, timedelta(days=30))
    assert due is not None
    assert due % (age // 32) == 0
    assert began + age - age // 32 < due <= began + age
    assert began.to_bytes(8, "little") not in path.read_bytes()


def test_a_stream_goes_on_from_there(path: Path) -> None:
    with SqliteStore(path) as store:
        stream = open_stream(store, "plain", seed=0)
        assert stream.estimate().held == len(FACTS["plain"]["rounds"])
        assert stream.position("/data/a.csv") == Position(encode_count(150))
        stream.extend(np.zeros(100), source="/data/b.csv")
    assert read_streams(path)["plain"][1].positions["/data/b.csv"] == Position(encode_count(107), slot=1)


@pytest.mark.parametrize(
    ("kept", "channel", "goes_on"),
    [
        ([1, 20, 43], "auto", True),
        ([1, 20, 47, 48], "auto", True),
        ([1, 20, 44], "auto", False),
        ([1, 20, 47], "bits", False),
        ([1, 20, 44, 45, 47, 48], "bits", False),
        ([1, 20, 44], "average", True),
    ],
)
def test_a_mean_that_would_be_misread_starts_again(kept: list[int], channel: str, goes_on: bool) -> None:
    to_dict = {"name": "vestige.Mean", "parameters": {"channel": channel, "dim": 1, "spread": False}}
    terms = replace(Terms.parse(json.dumps(FACTS["plain"]["terms"])), policy=to_dict)
    records = Records([*kept, 49], [[1.0]] * (len(kept) + 1))
    assert version1._has_same_meaning(terms, Clock(t=49, first=1, last=48), records) == goes_on


def test_who_cannot_write_it_now_leaves_it_as_it_is(path: Path) -> None:
    image = path.read_bytes()
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM states").fetchone()
        with pytest.raises(StoreBusyError):
            SqliteStore(path, patience=0.1)
    assert path.read_bytes() == image


def test_a_damaged_one_is_refused_and_left_as_it_is(path: Path) -> None:
    image, (held, *_) = bytearray(path.read_bytes()), FACTS["timed/ü"]["values"]
    at = image.find(np.float64(held[0]).tobytes())
    assert at > 0
    image[at] ^= 1
    path.write_bytes(image)
    with pytest.raises(StoreError, match=r"version1.db: a stored row is damaged"):
        SqliteStore(path)
    assert path.read_bytes() == image


HEADERS = [page + at for page in range(0, 32768, 4096) for at in range(40 if page else 140)]


def check_flips(path: Path, flips: list[tuple[int, int]]) -> None:
    image, outcomes = path.read_bytes(), set()
    with SqliteStore(path):
        pass
    rows = path.read_bytes()[100:]  # before them are numbers by which SQLite counts its changes
    for at, bit in flips:
        flipped = bytearray(image)
        flipped[at] ^= 1 << bit
        path.write_bytes(flipped)
        try:
            with SqliteStore(path):
                pass
        except StoreError:
            assert path.read_bytes() == flipped, (at, bit)
            outcomes.add("refused")
        else:
            assert path.read_bytes()[100:] == rows, (at, bit)
            outcomes.add("the same")
    assert outcomes == {"refused", "the same"}


def test_a_changed_bit_is_refused_or_changes_nothing(path: Path) -> None:
    rng = np.random.default_rng(0)
    counts = [(8196, 0), (8196, 1), (16388, 0), (16388, 1)]  # of the rows of two tables
    places = [*rng.choice(HEADERS, 80).tolist(), *rng.integers(32768, size=80).tolist()]
    check_flips(path, [*counts, (24, 0), *zip(places, rng.integers(8, size=160).tolist(), strict=True)])


@pytest.mark.slow
def test_no_bit_of_a_header_is_believed(path: Path) -> None:
    check_flips(path, [(at, bit) for at in HEADERS for bit in range(8)])


@pytest.mark.parametrize("table", ["states", "sources", "receipts"])
def test_a_row_of_no_stream_is_refused(path: Path, table: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        column = "id" if table == "states" else "stream"
        connection.execute(f"UPDATE {table} SET {column} = 7 WHERE id = 1")  # noqa: S608
        connection.execute("VACUUM")
    image = path.read_bytes()
    with pytest.raises(StoreError, match=f"the table {table} has 1 row that belongs to no stream"):
        SqliteStore(path)
    assert path.read_bytes() == image
