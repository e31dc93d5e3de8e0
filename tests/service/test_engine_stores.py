"""The writer on every kind of store: what was answered is there for the next process, and counts once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from postgres import Database
from vestige import SqliteStore, open_store
from vestige.ingest.definition import Definition
from vestige.service.bodies import NDJSON, read_body
from vestige.service.engine import Engine
from vestige.service.problems import RefusalError
from vestige.service.requests import Counts
from vestige.store import MemoryStore, Store, open_keyring

VISITS = {"name": "visits", "columns": ["spent"], "by": "country", "retention": 96, "seed": 0}
BODY = b"12345678"


@pytest.fixture(params=["clear", "sealed", "postgres"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    if request.param == "postgres":
        database: Database = request.getfixturevalue("database")
        return database.open
    keyring = open_keyring(tmp_path / "visits.keyring", create=True) if request.param == "sealed" else None
    return lambda: SqliteStore(tmp_path / "visits.db", keyring=keyring)


def start(store: Store) -> Engine:
    engine = Engine(store)
    engine.start()
    return engine


def send(engine: Engine, key: str) -> tuple[Counts, bool]:
    columns = engine.catalog.find("visits").columns
    rows = read_body(b'{"spent": 1, "country": "DE"}\n{"spent": 2, "country": "FR"}', NDJSON, columns).block
    return engine.take_rows("visits", rows, key, BODY).result(30)


def count(engine: Engine) -> list[int]:
    with engine.read() as catalog:
        found: list[int] = catalog.find("visits").streams.counts().t.tolist()
        return found


def test_the_next_process_knows_what_was_answered(reopen: Callable[[], Store]) -> None:
    engine = start(reopen())
    engine.submit(lambda: engine.catalog.create(Definition.from_data(VISITS))).result()
    assert send(engine, "a") == (Counts(2, 0, 0), False)
    engine.stop()
    engine = start(reopen())
    assert send(engine, "a") == (Counts(2, 0, 0), True)
    assert send(engine, "b") == (Counts(2, 0, 0), False)
    assert count(engine) == [2, 2]
    assert engine.submit(lambda: engine.catalog.remove("visits")).result() == 2
    engine.stop()
    engine = start(reopen())
    assert engine.catalog.served == {}
    assert engine.store.verify() == ()
    engine.stop()


def test_a_store_in_memory_is_served_too() -> None:
    engine = start(open_store("memory:"))
    assert isinstance(engine.store, MemoryStore)
    engine.submit(lambda: engine.catalog.create(Definition.from_data(VISITS))).result()
    assert [send(engine, key)[1] for key in "aab"] == [False, True, False]
    assert count(engine) == [2, 2]
    engine.stop()


def test_a_connection_that_was_lost_costs_no_row_and_counts_none_twice(database: Database) -> None:
    engine = start(database.open())
    engine.submit(lambda: engine.catalog.create(Definition.from_data(VISITS))).result()
    for key in "abcdef":
        database.end_sessions()
        for _ in range(20):
            with suppress(RefusalError):
                send(engine, key)
                break
    assert count(engine) == [6, 6]
    assert engine.status == "ok"
    engine.stop()
    assert database.read().verify() == ()
