"""The tables of a store are created once, whole or not at all, and brought up to date in one transaction."""

from __future__ import annotations

import threading

import pytest

from limits import join
from postgres import Database
from vestige import Mean, Stream
from vestige.errors import StoreError
from vestige.store import PostgresStore
from vestige.store.postgres import schema
from vestige.store.postgres.connection import Connection
from vestige.store.rows import TABLES

NOW = schema.VERSION


def list_tables(database: Database) -> list[str]:
    found = database.ask("SELECT relname FROM pg_class WHERE relnamespace = 'OURS'::regnamespace AND relkind = 'r'")
    return sorted(name for (name,) in found)


def test_all_parts_are_stored_as_they_are(database: Database) -> None:
    database.open().close()
    assert list_tables(database) == sorted([*TABLES, "fences", "store"])
    kinds = database.ask(
        "SELECT attname, attstorage, atttypid::regtype::text FROM pg_attribute "
        "WHERE attrelid = 'OURS.buckets'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert kinds == [("id", "p", "bigint"), *((name, "e", "bytea") for name in ("head", "names", "body"))]


def test_processes_that_create_a_store_at_the_same_time_create_one(database: Database) -> None:
    stores, problems, start = list[PostgresStore](), list[BaseException](), threading.Barrier(6)

    def create() -> None:
        start.wait(60)
        try:
            stores.append(database.open(patience=20.0))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=create, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert problems == []
    for number, store in enumerate(stores):
        Stream(Mean(), retention=96, store=store.stream(str(number))).push(1.0)
        store.close()
    assert database.read().snapshot().names == tuple("012345")


def test_a_creation_that_fails_leaves_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Connection) -> None:
        raise StoreError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "commit", fail)
        with pytest.raises(StoreError, match="stopped"):
            database.open()
    assert database.ask("SELECT 1 FROM pg_namespace WHERE nspname = 'OURS'") == []
    database.open().close()


def test_a_schema_that_is_there_is_used(database: Database) -> None:
    database.ask("CREATE SCHEMA OURS")
    database.ask("CREATE TABLE OURS.mine (id int)")
    database.open().close()
    assert "mine" in list_tables(database)


def test_tables_of_others_are_not_taken_for_a_store(database: Database) -> None:
    database.ask("CREATE SCHEMA OURS")
    database.ask("CREATE TABLE OURS.about (id int)")
    with pytest.raises(StoreError, match="already exists"):
        database.open()
    assert list_tables(database) == ["about"]
    database.ask("CREATE TABLE OURS.store (id int)")
    with pytest.raises(StoreError):
        database.open()


@pytest.mark.parametrize("step", [-1, 1])
def test_a_store_of_another_version_is_refused(database: Database, step: int) -> None:
    database.open().close()
    database.ask(f"UPDATE OURS.store SET version = version + {step}")  # noqa: S608
    says = f"has version {NOW + step} of the tables, .* reads version {NOW}; use the Vestige that"
    for opened in (database.open, database.read):
        with pytest.raises(StoreError, match=says):
            opened()


@pytest.mark.parametrize("change", ["store = '\\x01'", "version = version + 1"])
def test_another_store_in_its_place_is_noticed(database: Database, change: str) -> None:
    with database.open() as store:
        Stream(Mean(), retention=96, store=store.stream("a")).push(1.0)
        store.flush()
        database.ask(f"UPDATE OURS.store SET {change}")  # noqa: S608
        database.end_sessions()
        with pytest.raises(StoreError, match="another store, or another version, has taken its place; open it again"):
            store.names()
        store._open.clear()
        with pytest.raises(StoreError, match="another store"):
            store.close()
