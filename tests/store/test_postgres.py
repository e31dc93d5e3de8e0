"""A store in PostgreSQL keeps the contract of a store, and says what it needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from postgres import Database
from vestige import KeyedStreams, Mean, Stream, open_store
from vestige.checks import check_store
from vestige.errors import ParameterError, StoreError
from vestige.store import KeyringFile, MemoryStore, PostgresStore, open_reader


def test_keeps_the_contract_of_a_store(database: Database) -> None:
    check_store(database.open)


def test_is_opened_by_its_address(database: Database) -> None:
    with open_store(database.address, keyring=database.keyring) as store:
        assert isinstance(store, PostgresStore)
        Stream(Mean(), retention=96, seed=0, store=store.stream("a")).extend(np.arange(10.0))
    again = database.address.replace("postgresql://", "postgres://")
    assert open_reader(again, keyring=database.keyring).snapshot().names == ("a",)
    assert open_reader(again, keyring=database.keyring).verify() == ()


def test_without_a_keyring_it_says_why_it_needs_one(database: Database) -> None:
    with pytest.raises(ParameterError, match=r"PostgreSQL keeps what is deleted .* vestige keyring init"):
        open_store(database.address)
    with pytest.raises(ParameterError, match="keyring is missing"):
        open_reader(database.address)


def test_another_keyring_is_refused(database: Database, tmp_path: Path) -> None:
    database.open().close()
    other = KeyringFile(tmp_path / "other", create=True)
    for opened in (open_store, open_reader):
        with pytest.raises(StoreError, match=r"was sealed with the keyring .* give the keyring that belongs to it"):
            opened(database.address, keyring=other)


def test_a_keyring_is_for_one_store(database: Database) -> None:
    database.open().close()
    with pytest.raises(StoreError, match="holds the keys of another store"):
        open_store(database.server.address("test_other"), keyring=database.keyring)
    assert database.ask("SELECT 1 FROM pg_namespace WHERE nspname = 'test_other'") == []


def test_a_store_that_is_not_there_is_not_created(database: Database) -> None:
    with pytest.raises(StoreError, match="there is no such store"):
        database.open(create=False)
    with pytest.raises(StoreError, match="there is no such store"):
        database.read()
    assert database.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", database.schema) == []


def test_a_closed_store_says_so(database: Database) -> None:
    store = database.open()
    stream = Stream(Mean(), retention=96, store=store.stream("a"))
    store.close()
    store.close()
    with pytest.raises(StoreError, match="this store is closed"):
        store.names()
    with pytest.raises(StoreError, match="not open here any more"):
        stream.push(1.0)


def test_keyed_streams_are_those_of_a_store_in_memory(database: Database) -> None:
    rng = np.random.default_rng(0)
    memory = MemoryStore()
    with database.open() as store:
        both = [KeyedStreams(Mean(), retention=96, seed=1, store=each.family()) for each in (store, memory)]
        for _ in range(5):
            keys, rows = rng.integers(0, 300, 2_000), rng.normal(size=2_000)
            for streams in both:
                streams.extend(keys, rows)
        both[0].remove(7)
        both[1].remove(7)
        assert store.names() == memory.names()
        assert store.snapshot().all_streams() == memory.snapshot().all_streams()
        assert store.verify() == ()
    with database.open() as store:
        again = KeyedStreams(Mean(), retention=96, seed=1, store=store.family())
        assert again.estimate("8").value == both[1].estimate("8").value


def find_in_files(folder: Path, text: bytes) -> list[str]:
    """The files of a folder that hold some bytes."""
    return [str(file) for file in folder.rglob("*") if file.is_file() and text in file.read_bytes()]


def test_nothing_is_in_any_file_of_the_server_in_clear(database: Database) -> None:
    name, value = "a name that nobody else has", 0.123456789
    with database.open() as store:
        Stream(Mean(), retention=96, store=store.stream(name)).extend([value] * 5, subjects=["ada"] * 5)
    data, planted = database.server.folder / "data", b"what can be found"
    database.ask("CREATE TABLE OURS.planted AS SELECT %s::bytea AS body", planted)
    database.ask("CHECKPOINT")
    assert len(find_in_files(data, planted)) >= 2  # the table and the write-ahead log
    assert find_in_files(data, name.encode()) == []
    assert find_in_files(data, np.float64(value).tobytes()) == []


def test_what_was_erased_cannot_be_opened_in_any_copy(database: Database) -> None:
    with database.open() as store:
        stream = Stream(Mean(), retention=96, store=store.stream("a"))
        stream.extend(np.arange(10.0), subjects=["ada"] * 10)
        stream.flush()
        (backup,) = database.ask("SELECT head, names, body FROM OURS.buckets WHERE id = 1")
        stream.forget(subject="ada", now=True)
    database.ask("UPDATE OURS.buckets SET head = %s, names = %s, body = %s WHERE id = 1", *backup)
    with database.open() as store, pytest.raises(StoreError, match="rolled back, or comes from a backup"):
        store.read_stream("a")


def test_a_store_that_is_read_cannot_be_written_meanwhile(database: Database) -> None:
    with database.open() as store:
        Stream(Mean(), retention=96, store=store.stream("a")).extend(np.arange(10.0))
        store.flush()
        with store._use(), pytest.raises(StoreError, match="while it is being read"):
            store.flush()
        assert store.names() == ("a",)
