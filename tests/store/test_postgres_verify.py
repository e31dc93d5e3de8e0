"""What is wrong with a store in PostgreSQL is found: with its rows, its keyring, and the server."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from postgres import Database
from vestige import Mean, Stream
from vestige.errors import ParameterError

VALUE = 0.1234567890123


def fill(database: Database) -> None:
    with database.open() as store:
        stream = Stream(Mean(), retention=96, max_age=timedelta(days=1), seed=1, store=store.stream("a"))
        stream.extend([VALUE] * 10, times=[datetime(2024, 1, 1, tzinfo=UTC)] * 10)


def test_records_that_are_overdue_are_found(database: Database) -> None:
    fill(database)
    assert database.read().verify(at=datetime(2024, 1, 1, 12, tzinfo=UTC)) == ()
    (found,) = database.read().verify(at=datetime(2024, 1, 3, tzinfo=UTC))
    assert "stream 'a': 10 records are overdue" in found


def test_canaries_are_found_in_what_is_sealed(database: Database) -> None:
    fill(database)
    at, canary = datetime(2024, 1, 1, 12, tzinfo=UTC), np.float64(VALUE).tobytes()
    assert database.read().verify(at=at, canaries=[canary, b"nowhere"]) == ("canary 1 of 2 is in the store",)
    with database.open() as store:
        assert store.verify(at=at, canaries=[canary]) == ("canary 1 of 1 is in the store",)
        store.remove("a")
        assert store.verify(at=at, canaries=[canary]) == ()
        with pytest.raises(ParameterError, match="empty"):
            store.verify(canaries=[b""])


def test_a_row_that_was_changed_is_found(database: Database) -> None:
    fill(database)
    database.ask("UPDATE OURS.buckets SET body = set_byte(body, 60, get_byte(body, 60) # 1)")
    found = database.read().verify(at=datetime(2024, 1, 1, 12, tzinfo=UTC))
    assert found
    assert "row 1 of the table buckets" in found[0]


def test_keys_that_were_not_settled_are_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(database)
    with database.open() as store:
        monkeypatch.setattr(type(store._keyring), "settle", lambda *_: None)
        Stream(Mean(), retention=96, store=store.stream("b")).push(1.0)
        store.flush()
        monkeypatch.undo()
        found = database.read().verify(at=datetime(2024, 1, 1, 12, tzinfo=UTC))
        assert any("holds keys of rows that were" in text for text in found)
    with database.open() as store:
        assert store.verify(at=datetime(2024, 1, 1, 12, tzinfo=UTC)) == ()


def test_a_server_that_may_lose_commits_is_found(database: Database) -> None:
    fill(database)
    at = datetime(2024, 1, 1, 12, tzinfo=UTC)
    database.ask("ALTER SYSTEM SET fsync = off")
    database.ask("ALTER SYSTEM SET full_page_writes = off")
    try:
        database.ask("SELECT pg_reload_conf()")
        database.server.restart(signal.SIGINT)
        found = database.read().verify(at=at)
        assert ["the server has fsync=off" in found[0], "full_page_writes=off" in found[1]] == [True, True]
    finally:
        database.ask("ALTER SYSTEM RESET ALL")
        database.server.restart(signal.SIGINT)
    assert database.read().verify(at=at) == ()


def test_a_store_that_is_held_is_said_to_be_overdue(database: Database) -> None:
    with database.open(patience=0.1) as store, database.open() as other, other.transaction():
        (found,) = store.verify()
        assert found.startswith("Overdue: ")
