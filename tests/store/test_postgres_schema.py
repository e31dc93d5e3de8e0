"""The tables of a store are created once, whole or not at all, and brought up to date in one transaction."""

from __future__ import annotations

import threading

import pytest

from limits import join
from postgres import Database
from vestige import Mean, Stream
from vestige.errors import StoreBusyError, StoreError
from vestige.store import PostgresStore
from vestige.store.postgres import schema
from vestige.store.postgres.connection import Connection
from vestige.store.rows import TABLES
from vestige.store.service_notes import ServiceNotes

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


def test_a_store_of_a_later_version_is_refused(database: Database) -> None:
    database.open().close()
    database.ask("UPDATE OURS.store SET version = version + 1")
    says = f"has version {NOW + 1} of the tables, .* reads version {NOW}; use the Vestige that"
    for opened in (database.open, database.read):
        with pytest.raises(StoreError, match=says):
            opened()


def add_column(connection: Connection, quoted: str) -> None:
    connection.execute(f"ALTER TABLE {quoted}.terms ADD COLUMN planted int DEFAULT 7")


def drop_column(connection: Connection, quoted: str) -> None:
    connection.execute(f"ALTER TABLE {quoted}.terms DROP COLUMN planted")


def fail(_connection: Connection, _quoted: str) -> None:
    raise StoreError("stopped")


def test_a_store_of_an_earlier_version_is_brought_up_to_date(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.open() as store:
        Stream(Mean(), retention=96, store=store.stream("a")).push(1.0)
    monkeypatch.setattr(schema, "VERSION", NOW + 2)
    monkeypatch.setattr(schema, "MIGRATIONS", {NOW: add_column, NOW + 1: fail})
    with pytest.raises(StoreError, match=rf"has version {NOW} .* reads version {NOW + 2}; open it once for writing"):
        database.read()
    with pytest.raises(StoreError, match="stopped"):
        database.open()
    assert database.ask("SELECT version FROM OURS.store") == [(NOW,)], "all of it or nothing"
    monkeypatch.setattr(schema, "MIGRATIONS", {NOW: add_column, NOW + 1: drop_column})
    with database.open() as store:
        assert store.names() == ("a",)
        database.end_sessions()
        assert store.names() == ("a",), "it goes on in another session"
    assert database.ask("SELECT version FROM OURS.store") == [(NOW + 2,)]
    assert database.read().verify() == ()


def test_a_store_without_the_tables_of_a_service_gets_them(database: Database) -> None:
    with database.open() as store:
        Stream(Mean(), retention=96, store=store.stream("a")).push(1.0)
    database.ask("DROP TABLE OURS.definitions; DROP TABLE OURS.requests; UPDATE OURS.store SET version = 2")
    with database.open() as store:
        assert store.names() == ("a",)
        ServiceNotes(store).write_definition("visits", {"retention": 96})
    with database.open() as store:
        assert ServiceNotes(store).read_definitions() == {"visits": {"retention": 96}}
    assert database.read().verify() == ()


def test_a_store_that_is_open_elsewhere_is_not_brought_up_to_date(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.open():
        monkeypatch.setattr(schema, "VERSION", NOW + 1)
        monkeypatch.setattr(schema, "MIGRATIONS", {NOW: add_column})
        with pytest.raises(StoreBusyError, match="is open for writing elsewhere, and has to be brought up to date"):
            database.open()
    database.open().close()
    assert database.ask("SELECT version FROM OURS.store") == [(NOW + 1,)]


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
