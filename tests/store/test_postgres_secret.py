"""Whoever has the database and not the keyring cannot test guesses of names: their numbers are keyed by a secret."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from postgres import Database
from vestige import Mean, MeanEstimate, Stream
from vestige.errors import StoreBusyError, StoreError
from vestige.store import KeyringFile, PostgresStore, Store
from vestige.store.keyring import Key
from vestige.store.opener import SECRET
from vestige.store.postgres.holdings import Holdings
from vestige.store.postgres.locks import FENCES

NAMES = [f"customer {number}" for number in range(40)]


def open_streams(store: Store, names: list[str]) -> list[Stream[MeanEstimate]]:
    streams = [Stream(Mean(), retention=96, seed=1, store=store.stream(name)) for name in names]
    for stream in streams:
        stream.push(1.0)
    store.flush()
    return streams


def read_secret(keyring: Path) -> bytes:
    (key,) = KeyringFile(keyring).read().find(SECRET)
    return key.secret


def guess(database: Database, key: bytes) -> tuple[int, int]:
    """The number of names that are found among the fences and the locks by whoever has a key."""
    ((store,),) = database.ask("SELECT store FROM OURS.store")
    texts = [(prefix + b"stream\0" + name.encode()) for name in NAMES for prefix in (b"", store)]
    numbers = [int.from_bytes(hashlib.blake2b(text, key=key, digest_size=8).digest(), "little") for text in texts]
    fences = {fence for (fence,) in database.ask("SELECT id FROM OURS.fences")}
    locks = {
        (high << 32) | low
        for high, low in database.ask("SELECT classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory'")
    }
    return sum(number % FENCES in fences for number in numbers), sum(number in locks for number in numbers)


def test_a_guessed_name_can_be_tested_with_the_keyring_only(database: Database) -> None:
    with database.open() as store:
        open_streams(store, NAMES)
        ((known,),) = database.ask("SELECT keyring FROM OURS.store")
        found, locked = guess(database, known)
        assert found < 10, "80 guesses, of which one in 800 is right by chance"
        assert locked == 0
        assert guess(database, read_secret(database.keyring)) >= (40, 40), "else the test looks in the wrong place"


def test_the_secret_stays_the_same(database: Database) -> None:
    with database.open() as store:
        open_streams(store, ["a"])
    before = read_secret(database.keyring)
    with database.open() as store:
        open_streams(store, ["a"])
        store.rotate()
        assert store.verify() == ()
    assert read_secret(database.keyring) == before
    assert database.read().verify_keys() == ()


def test_a_secret_that_is_lost_is_drawn_again_while_nobody_else_writes(database: Database) -> None:
    with database.open() as store:
        open_streams(store, ["a"])
        KeyringFile(database.keyring).settle({SECRET: 0})
        with pytest.raises(StoreBusyError, match="is open for writing elsewhere"):
            database.open()
    with database.open() as store:
        assert len(read_secret(database.keyring)) == 32
        assert open_streams(store, ["a"])[0].t == 2


def test_a_session_that_is_lost_before_the_secret_is_known_does_not_matter(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure = Holdings.ensure_secret

    def lose(holdings: Holdings) -> None:
        database.end_sessions()
        ensure(holdings)

    database.open().close()
    monkeypatch.setattr(Holdings, "ensure_secret", lose)
    with database.open() as store:
        assert open_streams(store, ["a"])[0].t == 1


def test_numbers_of_another_secret_are_not_used_in_a_new_session(database: Database) -> None:
    with database.open() as store:
        stream = open_streams(store, ["a"])[0]
        database.end_sessions()
        keyring = KeyringFile(database.keyring)
        keyring.settle({SECRET: 0})
        keyring.prepare({SECRET: Key(1, bytes(32))})
        stream.push(2.0)
        with pytest.raises(StoreError, match="the keyring has another secret than when the store was opened"):
            store.flush()
        store._open.clear()
        with pytest.raises(StoreError, match="another secret"):
            store.close()


def test_another_keyring_has_another_secret(database: Database, tmp_path: Path) -> None:
    target = KeyringFile(tmp_path / "other.keyring", create=True)
    with database.open() as store:
        open_streams(store, NAMES)
        before = read_secret(database.keyring)
        store.rotate(target)
        assert database.ask("SELECT count(*) FROM OURS.fences") == [(0,)]
        open_streams(store, ["a"])
    assert read_secret(target.path) != before
    with PostgresStore(database.address, keyring=target) as store:
        assert store.verify() == ()
