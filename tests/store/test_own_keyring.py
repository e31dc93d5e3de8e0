"""A store waits for its keyring as long as it waits for others, and names the keyring that it needs."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path

import pytest

from postgres import Database
from vestige.errors import StoreBusyError, StoreError
from vestige.store import KeyringFile, PostgresStore, SqliteStore, Store, open_reader


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is, or will be."""
    if request.param == "sqlite":
        return str(tmp_path / "visits.db")
    database: Database = request.getfixturevalue("database")
    return database.address


def open_with(address: str, keyring: Path) -> Store:
    kind = PostgresStore if address.startswith("postgresql") else SqliteStore
    return kind.open(address, keyring=keyring, patience=0.2)


def test_a_keyring_that_somebody_holds_is_waited_for_as_long_as_the_store_says(address: str, tmp_path: Path) -> None:
    path = KeyringFile(tmp_path / "a.keyring", create=True).path
    open_with(address, path).close()
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        start = time.monotonic()
        with pytest.raises(StoreBusyError, match="another process holds the keyring and does not let go"):
            open_with(address, path)
        with pytest.raises(StoreBusyError, match="another process holds the keyring and does not let go"):
            open_reader(address, keyring=path, patience=0.2)
        assert time.monotonic() - start < 15.0, "and not for half a minute each"


def test_a_store_that_is_sealed_names_the_keyring_that_it_needs(address: str, tmp_path: Path) -> None:
    made = KeyringFile(tmp_path / "a.keyring", create=True)
    missing = tmp_path / "b.keyring"
    with pytest.raises(
        StoreError, match=r"b\.keyring: there is no such keyring; .* make one with vestige keyring init"
    ):
        open_with(address, missing)
    open_with(address, made.path).close()
    says = rf"b\.keyring: there is no such keyring, and .* is sealed with the keyring {made.name}; give its path"
    with pytest.raises(StoreError, match=says) as raised:
        open_with(address, missing)
    assert "keyring init" not in str(raised.value)
    with pytest.raises(StoreError, match=says):
        open_reader(address, keyring=missing)


def test_a_keyring_of_another_store_is_named_in_the_same_way(address: str, tmp_path: Path) -> None:
    made, other = (KeyringFile(tmp_path / name, create=True) for name in ("a.keyring", "b.keyring"))
    open_with(address, made.path).close()
    with pytest.raises(StoreError) as raised:
        open_with(address, other.path)
    assert f"was sealed with the keyring {made.name}, and {other.where} is {other.name};" in str(raised.value)
    assert len(made.name) == 16
