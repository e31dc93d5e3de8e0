"""A store of version 6 of the format, as its code wrote it: all comes out as it was, with an index of its subjects."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from old_stores import check_readers_refuse, copy_store, read_facts
from reading import read_streams
from vestige import SqliteStore
from vestige.clock import Clock
from vestige.errors import StoreError
from vestige.operations import forget, sweep
from vestige.store import Position, Terms, open_reader
from vestige.store.event import NEVER
from vestige.stream import open_stream

FACTS: dict[str, Any] = read_facts(6)
MADE = datetime(2026, 11, 18, 6, tzinfo=UTC)
"""A little after the store was written, so that nothing in it has expired."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_store(6, tmp_path)


def test_readers_say_so_in_a_sentence_and_leave_it_as_it_is(path: Path) -> None:
    check_readers_refuse(path, 6)


def test_a_writer_brings_it_up_to_date(path: Path) -> None:
    with SqliteStore(path):
        pass
    there = read_streams(path)
    assert set(there) == set(FACTS["streams"])
    for name, facts in FACTS["streams"].items():
        terms, state = there[name]
        assert terms == Terms.parse(json.dumps(facts["terms"]))
        assert state.clock == Clock(**facts["clock"])
        held = state.retained
        assert held.rounds.tolist() == facts["rounds"]
        assert held.values.tolist() == facts["values"]
        assert held.leaving.tolist() == facts["leaving"]
        assert [None if np.isnat(t) else str(t) for t in held.times] == facts["times"]
        assert list(held.subjects) == facts["subjects"]
        assert held.numbers.tolist() == facts["numbers"]
        positions = {s: Position(bytes.fromhex(mark), slot) for s, (mark, slot) in facts["positions"].items()}
        assert state.positions == positions
        assert [receipt.to_dict() for receipt in state.receipts] == facts["receipts"]
        assert state.settled == facts["settled"]
        assert state.event == NEVER or state.receipts or terms.max_age
    ledger = open_reader(path).snapshot().ledger
    assert [receipt.to_dict() for receipt in ledger.receipts] == FACTS["ledger"]
    assert ledger.newest == FACTS["newest"]
    entries = {str(number): entry for number, entry in ledger.entries.items()}
    assert {number: json.loads(json.dumps([entry.streams, entry.failed])) for number, entry in entries.items()} == (
        FACTS["entries"]
    )
    assert open_reader(path).verify(at=MADE) == ()


def test_it_is_written_in_the_form_that_tidying_gives(path: Path) -> None:
    with SqliteStore(path) as store:
        image = path.read_bytes()
        assert not store._tables.about.untidy
        store.tidy()
        assert path.read_bytes() == image


def test_its_streams_answer_as_before(path: Path) -> None:
    with SqliteStore(path) as store:
        for name, facts in FACTS["streams"].items():
            assert np.ravel(open_stream(store, name, seed=1).estimate().value).tolist() == facts["value"]


def test_its_subjects_are_found_and_its_requests_are_met(path: Path) -> None:
    with SqliteStore(path) as store:
        who = store.pseudonym("person 5")
        assert store.find_subjects([who]) == {who: ("timed/ü",)}
        assert forget(store, ["person 5"], now=True).unknown == ()
        assert store.find_subjects([who]) == {who: ()}
        for name in store.names():
            stream = open_stream(store, name, seed=1)
            times = None if stream.max_age is None else [stream.retained.times.max()] * 200
            stream.extend(np.arange(200.0), times=times)
        store.release()
        sweep(store)
        assert all(receipt.erased is not None for receipt in store.read_ledger().receipts)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("streams", "is damaged"),
        ("states", "stream 'mean'.*a stored row is damaged"),
        ("sources", "a stored row is damaged"),
        ("ledger", "a stored row is damaged"),
    ],
)
def test_a_damaged_one_is_refused_and_left_as_it_is(path: Path, table: str, text: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        row = "SELECT id FROM streams WHERE name = x'6d65616e'" if table == "states" else f"SELECT min(id) FROM {table}"  # noqa: S608
        connection.execute(f"UPDATE {table} SET body = zeroblob(length(body)) WHERE id = ({row})")  # noqa: S608
    image = path.read_bytes()
    with pytest.raises(StoreError, match=text):
        SqliteStore(path)
    assert path.read_bytes() == image


@pytest.mark.parametrize("table", ["streams", "states", "sources", "receipts", "ledger"])
def test_a_row_that_has_vanished_is_noticed(path: Path, table: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"DELETE FROM {table} WHERE id = (SELECT min(id) FROM {table})")  # noqa: S608
    with pytest.raises(StoreError, match=r"vanished|not those that were written"):
        SqliteStore(path)
