"""A keyring whose first transaction was killed belongs to the store that this transaction has made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from postgres import Database
from vestige import Mean, Stream
from vestige.errors import StoreError
from vestige.store import KeyringFile, PostgresStore, SqliteStore, Store
from vestige.store.keyring.keyring import MARKER
from vestige.store.memory_rows import MemoryRows
from vestige.store.opener import OWNER
from vestige.store.sealed_rows import SealedRows

Open = Callable[[], Store]


class KilledError(BaseException):
    """Stands for the end of a process: nobody cleans up after it."""


def kill(patch: pytest.MonkeyPatch) -> None:
    """Let the process end before the first transaction is settled."""

    def end(*_arguments: object, **_options: object) -> None:
        raise KilledError

    patch.setattr(SealedRows, "settle", end)
    patch.setattr(SealedRows, "refresh", end)
    patch.setattr(SealedRows, "roll_back", lambda *_, **__: None)


def fill(store: Store) -> None:
    Stream(Mean(), retention=96, seed=1, store=store.stream("a")).extend(range(10))
    store.flush()


@pytest.fixture
def keyring(tmp_path: Path) -> KeyringFile:
    return KeyringFile(tmp_path / "visits.keyring", create=True)


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path, keyring: KeyringFile) -> tuple[Open, Open]:
    """How to open two stores, with one keyring."""
    if request.param == "sqlite":
        return (
            lambda: SqliteStore(tmp_path / "1.db", keyring=keyring.path),
            lambda: SqliteStore(tmp_path / "2.db", keyring=keyring.path),
        )
    database: Database = request.getfixturevalue("database")
    return (
        lambda: PostgresStore(database.address, keyring=keyring.path),
        lambda: PostgresStore(database.server.address(f"{database.schema}_2"), keyring=keyring.path),
    )


def test_a_store_that_was_committed_keeps_its_keys(
    stores: tuple[Open, Open], keyring: KeyringFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stores
    with monkeypatch.context() as patch:
        kill(patch)
        with pytest.raises(KilledError):
            first()
    assert not keyring.read().is_used
    with pytest.raises(StoreError, match=r"visits\.keyring: was to become the keyring of another store"):
        second()
    with first() as store:
        fill(store)
        assert store.verify() == ()
    assert not keyring.read().has_slot(OWNER)
    with pytest.raises(StoreError, match="holds the keys of another store"):
        second()


def test_a_store_that_was_not_committed_is_made_again(
    stores: tuple[Open, Open], keyring: KeyringFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stores
    prepare = KeyringFile.prepare

    def end(*arguments: object, **options: object) -> None:
        prepare(*arguments, **options)  # type: ignore[arg-type]
        raise KilledError

    with monkeypatch.context() as patch:
        kill(patch)
        patch.setattr(KeyringFile, "prepare", end)
        with pytest.raises(KilledError):
            first()
    assert keyring.read().has_slot(MARKER)
    assert not keyring.read().is_used
    with pytest.raises(StoreError, match="was to become the keyring of another store"):
        second()
    with monkeypatch.context() as patch:
        patch.setattr("platform.node", lambda: "another machine")
        with pytest.raises(StoreError, match="was to become the keyring of another store"):
            first()
    with first() as store:
        fill(store)
        assert store.verify() == ()


def test_the_claim_ends_with_the_first_transaction(stores: tuple[Open, Open], keyring: KeyringFile) -> None:
    first, _ = stores
    with first():
        assert keyring.read().is_used
        assert not keyring.read().has_slot(OWNER)


def test_keys_that_were_not_prepared_to_the_end_are_in_nobodys_way(tmp_path: Path, keyring: KeyringFile) -> None:
    with SqliteStore(tmp_path / "1.db", keyring=keyring) as store:
        fill(store)
    pages = keyring.read()
    assert pages.has_slot(MARKER)
    fresh = KeyringFile(tmp_path / "fresh.keyring", create=True)
    others = {slot: key for slot in pages.list_slots().tolist() if slot > 31 for key in pages.find(slot)}
    fresh.prepare(others)  # a loss of power may keep any page of them
    with SqliteStore(tmp_path / "another.db", keyring=fresh) as store:
        fill(store)
        assert store.verify() == ()


def test_another_keyring_is_claimed_too(tmp_path: Path, keyring: KeyringFile, monkeypatch: pytest.MonkeyPatch) -> None:
    target = KeyringFile(tmp_path / "target.keyring", create=True)
    path = tmp_path / "1.db"
    with SqliteStore(path, keyring=keyring) as store:
        fill(store)
    store = SqliteStore(path, keyring=keyring)
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "_use_keyring", lambda *_: (_ for _ in ()).throw(KilledError))
        with pytest.raises(KilledError):
            store.rotate(target)
    store._disconnect()
    with pytest.raises(StoreError, match="was to become the keyring of another store"):
        SqliteStore(tmp_path / "2.db", keyring=target)
    with SqliteStore(path, keyring=target) as again:
        assert again.names() == ("a",)
        assert again.verify() == ()


@pytest.mark.parametrize("reason", ["another store has the keyring", "the keyring cannot be written"])
def test_a_new_store_that_cannot_be_sealed_is_not_left_in_clear(
    tmp_path: Path, keyring: KeyringFile, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """A command without its keyring would go on in clear with what is left."""
    if reason == "another store has the keyring":
        SqliteStore(tmp_path / "1.db", keyring=keyring).close()

    def refuse(*_arguments: object, **_options: object) -> None:
        raise StoreError("the device is full")

    if reason != "another store has the keyring":
        monkeypatch.setattr(KeyringFile, "prepare", refuse)
    with pytest.raises(StoreError, match=r"another store|full"):
        SqliteStore(tmp_path / "2.db", keyring=keyring)
    assert not (tmp_path / "2.db").exists()


def test_a_store_in_use_that_cannot_be_sealed_stays_as_it_is(tmp_path: Path, keyring: KeyringFile) -> None:
    SqliteStore(tmp_path / "1.db", keyring=keyring).close()
    with SqliteStore(tmp_path / "2.db") as store:
        fill(store)
    before = (tmp_path / "2.db").read_bytes()
    with pytest.raises(StoreError, match="another store"):
        SqliteStore(tmp_path / "2.db", keyring=keyring)
    assert (tmp_path / "2.db").read_bytes() == before


def test_the_claim_is_gone_once_the_first_transaction_is_settled(keyring: KeyringFile) -> None:
    """Not only with the next transaction: keyrings of stores that are made and left alone have none."""
    rows = SealedRows(MemoryRows(), keyring, is_shared=False)
    rows.adopt(MemoryRows())
    rows.seal()
    assert keyring.read().find(OWNER)
    rows.settle()
    assert (keyring.read().is_used, keyring.read().find(OWNER)) == (True, ())
