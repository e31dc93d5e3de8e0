"""A store of version 7 of the format, as its code wrote it: it gets the tables of a service, and nothing else changes.

It is the store of version 6 that is among the fixtures, brought up to date, with three streams by key.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from old_stores import check_readers_refuse, copy_store, read_facts
from reading import read_streams
from vestige import SqliteStore
from vestige.errors import StoreError
from vestige.store import Position, Terms, open_keyring, open_reader
from vestige.store.service_notes import ServiceNotes

FACTS: dict[str, Any] = read_facts(7)
MADE = datetime(2026, 11, 18, 6, tzinfo=UTC)
"""A little after its records arrived, so that nothing in it has expired."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_store(7, tmp_path)


def check_content(path: Path, keyring: Path | None = None) -> None:
    """All streams and the ledger are those of version 7."""
    snapshot = open_reader(path, keyring=keyring).snapshot()
    assert set(snapshot.all_streams()) == set(FACTS["streams"])
    for name, (terms, state) in snapshot.all_streams().items():
        facts, held = FACTS["streams"][name], state.retained
        assert terms == Terms.parse(facts["terms"])
        assert (state.clock.t, state.settled) == (facts["t"], facts["settled"])
        assert held.rounds.tolist() == facts["rounds"]
        assert held.values.tolist() == facts["values"]
        assert list(held.subjects) == facts["subjects"]
        assert [receipt.id for receipt in state.receipts] == facts["receipts"]
        assert state.positions == {
            source: Position(bytes.fromhex(mark), slot) for source, (mark, slot) in facts["positions"].items()
        }
    ledger = snapshot.ledger
    assert (ledger.newest, [receipt.id for receipt in ledger.receipts]) == (FACTS["newest"], FACTS["ledger"])


def test_readers_say_so_in_a_sentence_and_leave_it_as_it_is(path: Path) -> None:
    check_readers_refuse(path, 7)


def test_a_writer_adds_the_tables_of_a_service(path: Path) -> None:
    with SqliteStore(path) as store:
        assert ServiceNotes(store).read_definitions() == {}
        assert store._tables.about.untidy
    check_content(path)
    assert open_reader(path).verify(at=MADE) == ()
    with SqliteStore(path) as store:
        ServiceNotes(store).write_definition("visits", {"retention": 96})
        store.tidy()
    check_content(path)
    with SqliteStore(path) as store:
        assert ServiceNotes(store).read_definitions() == {"visits": {"retention": 96}}
    assert open_reader(path).verify(at=MADE) == ()


def test_it_can_be_sealed_at_once(path: Path, tmp_path: Path) -> None:
    keyring = tmp_path / "visits.keyring"
    with SqliteStore(path, keyring=open_keyring(keyring, create=True)):
        pass
    check_content(path, keyring)
    assert open_reader(path, keyring=keyring).verify(at=MADE) == ()


def test_tables_that_are_not_those_of_version_7_are_refused(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE requests (id INTEGER PRIMARY KEY)")
    image = path.read_bytes()
    with pytest.raises(StoreError, match="its tables are not those of a store"):
        SqliteStore(path)
    assert path.read_bytes() == image


def test_its_facts_are_those_of_the_store_that_it_was_made_of(path: Path, tmp_path: Path) -> None:
    older = copy_store(6, tmp_path)
    for each in (path, older):
        with SqliteStore(each):
            pass
    there, before = read_streams(path), read_streams(older)
    assert {name: there[name] for name in before} == before
    assert json.dumps(sorted({*there} - {*before})) == '["keyed/a", "keyed/b", "keyed/\\u00fc"]'
