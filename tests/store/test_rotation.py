"""Fresh keys for all rows: the answers stay, a copy of the old keyring opens nothing more, and nothing gets lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from store.served import HOST, Served, host_server
from vestige import Mean, SqliteStore, Stream
from vestige.errors import StoreError
from vestige.store import Key, KeyringFile, MemoryStore, open_reader, rotation
from vestige.store.keyring.client import KeyringClient
from vestige.store.keyring.seal import Prefix
from vestige.store.opener import find_row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


def fill(folder: Path, streams: int = 200) -> None:
    """A sealed store of several rows."""
    keyring = KeyringFile(folder / "a.keyring", create=True)
    with SqliteStore(folder / "a.db", keyring=keyring) as store, store.transaction():
        for number in range(streams):
            stream = Stream(Mean(), retention=96, seed=0, store=store.stream(f"stream {number}"))
            stream.extend(np.arange(40.0), source="x")
            stream.flush()


def read(folder: Path, keyring: str = "a.keyring") -> dict[str, object]:
    """All that a keyring opens."""
    found = open_reader(folder / "a.db", keyring=folder / keyring).snapshot().all_streams()
    return {name: (state.clock, state.retained.values.tolist()) for name, (_, state) in found.items()}


def check_sound(folder: Path, keyring: str = "a.keyring") -> None:
    reader = open_reader(folder / "a.db", keyring=folder / keyring)
    assert reader.verify() == ()
    assert reader.verify_keys() == ()


def list_versions(folder: Path, keyring: str = "a.keyring") -> dict[int, int]:
    return open_reader(folder / "a.db", keyring=folder / keyring).list_versions()


def test_all_rows_have_fresh_keys_and_the_same_content(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "_BATCH", 3)
    before, versions, told = read(folder), list_versions(folder), list[float]()
    shutil.copy(folder / "a.keyring", folder / "copied.keyring")
    with SqliteStore(folder / "a.db", keyring=folder / "a.keyring") as store:
        count = store.rotate(tell=told.append)
        Stream(Mean(), retention=96, seed=0, store=store.stream("later")).extend(range(10))
    assert count == len(versions) > 6
    assert told == sorted(told)
    assert told[-1] == 1.0
    after = list_versions(folder)
    assert after.keys() == versions.keys()
    assert min(after.values()) > max(versions.values())
    assert {name: value for name, value in read(folder).items() if name != "later"} == before
    check_sound(folder)
    with pytest.raises(StoreError, match="is newer than"):
        read(folder, "copied.keyring")
    old = KeyringFile(folder / "copied.keyring").read()
    left = KeyringFile(folder / "a.keyring").read()
    secrets = {key.secret for slot in old.list_slots().tolist() for key in old.find(slot)}
    assert not secrets & {key.secret for slot in left.list_slots().tolist() for key in left.find(slot)}
    assert not any(secret in (folder / "a.keyring").read_bytes() for secret in secrets)


def test_a_row_that_cannot_be_opened_is_named_and_all_others_have_fresh_keys(folder: Path) -> None:
    versions = list_versions(folder)
    with SqliteStore(folder / "a.db", keyring=folder / "a.keyring") as store:
        with store.transaction():
            store._connection.execute("UPDATE buckets SET body = zeroblob(4000) WHERE id = 2")
        with pytest.raises(StoreError, match=r"1 of \d+ rows cannot be opened, and keep.*row 2 of the table buckets"):
            store.rotate()
    after = list_versions(folder)
    assert [find_row(slot) for slot in after if after[slot] <= max(versions.values())] == [("buckets", 2)]


def test_another_keyring_takes_over_and_the_old_one_is_destroyed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "_BATCH", 3)
    before = read(folder)
    shutil.copy(folder / "a.db", folder / "old.db")
    new = KeyringFile(folder / "b.keyring", create=True)
    with SqliteStore(folder / "a.db", keyring=folder / "a.keyring") as store:
        assert store.rotate(new) > 6
        assert store.verify() == (), "the store goes on with the new one"
        Stream(Mean(), retention=96, seed=0, store=store.stream("later")).extend(range(10))
    assert {name: value for name, value in read(folder, "b.keyring").items() if name != "later"} == before
    check_sound(folder, "b.keyring")
    with pytest.raises(StoreError, match="was sealed with the keyring"):
        read(folder)
    shutil.copy(folder / "old.db", folder / "a.db")
    with pytest.raises(StoreError, match="all of its keys were destroyed"):
        read(folder)


def test_keyrings_that_cannot_take_over(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    fill(tmp_path / "other", 1)
    before = read(folder)
    shutil.copy(folder / "a.keyring", folder / "same.keyring")
    with SqliteStore(folder / "a.db", keyring=folder / "a.keyring") as store:
        with pytest.raises(StoreError, match="holds the keys of another store"):
            store.rotate(tmp_path / "other" / "a.keyring")
        with pytest.raises(StoreError, match="is the keyring that"):
            store.rotate(folder / "same.keyring")
        with pytest.raises(StoreError, match="there is no such keyring"):
            store.rotate(folder / "none.keyring")
        with store.transaction(), pytest.raises(StoreError, match=r"within transaction\(\)"):
            store.rotate()
    assert read(folder) == before
    check_sound(folder)
    check_sound(tmp_path / "other")


def test_a_damaged_row_keeps_the_store_where_it_is(folder: Path) -> None:
    with SqliteStore(folder / "a.db", keyring=folder / "a.keyring") as store:
        with store.transaction():
            store._connection.execute("UPDATE buckets SET head = zeroblob(80) WHERE id = 2")
        with pytest.raises(StoreError, match=r"row 2 of the table buckets \(head\) is not sealed, or was cut off"):
            store.rotate(KeyringFile(folder / "b.keyring", create=True))
    ids = {prefix.keyring for part in read_parts(folder) if (prefix := Prefix.parse(part)) is not None}
    assert ids == {KeyringFile(folder / "a.keyring").id[:8]}
    with SqliteStore(folder / "a.db", keyring=folder / "a.keyring") as store:
        for name in store.survey()[1]:
            store.remove(name)
        store.rotate(folder / "b.keyring")  # which still was never used
    check_sound(folder, "b.keyring")


def read_parts(folder: Path) -> list[bytes]:
    with SqliteStore(folder / "a.db", keyring=folder / "a.keyring") as store:
        return [part for (part,) in store._connection.execute("SELECT head FROM buckets")]


def test_an_old_keyring_that_cannot_be_destroyed_from_here_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: KeyringFile) -> int:
        raise StoreError("destroying it is not offered over the network")

    monkeypatch.setattr(KeyringFile, "destroy", refuse)
    new = KeyringFile(folder / "b.keyring", create=True)
    said = r"is sealed with .*b\.keyring now, but .*a\.keyring could not be destroyed"
    with SqliteStore(folder / "a.db", keyring=folder / "a.keyring") as store, pytest.raises(StoreError, match=said):
        store.rotate(new)
    check_sound(folder, "b.keyring")


def test_a_store_moves_to_a_server_and_back(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    before, served = read(folder), Served(tmp_path / "server")
    KeyringFile(folder / "c.keyring", create=True)
    with host_server(served.file, served.tokens) as port:
        client = KeyringClient(f"http://{HOST}:{port}", token=served.writer)
        with SqliteStore(folder / "a.db", keyring=folder / "a.keyring") as store:
            store.rotate(client)
        with SqliteStore(folder / "a.db", keyring=client) as store:
            store.rotate()
            assert (store.verify(), store.verify_keys()) == ((), ())
            with pytest.raises(StoreError, match="is not destroyed over the network; run vestige keyring destroy wh"):
                store.rotate(folder / "c.keyring")
        client.close()
    assert read(folder, "c.keyring") == before
    assert served.file.destroy() > 6
    check_sound(folder, "c.keyring")


def test_a_store_in_clear_has_no_keys(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store, pytest.raises(StoreError, match="is not sealed"):
        store.rotate()
    with pytest.raises(StoreError, match="is not sealed"):
        MemoryStore().rotate()


def test_a_key_without_a_row_is_found(folder: Path) -> None:
    keyring = KeyringFile(folder / "a.keyring")
    slot = next(slot for slot in keyring.read().list_slots().tolist() if find_row(slot) == ("buckets", 3))
    keyring.prepare({slot: Key(1, bytes(32))})
    (found,) = open_reader(folder / "a.db", keyring=keyring).verify_keys()
    assert "a.keyring: has a key of another writing of row 3 of the table buckets" in found
    assert found in open_reader(folder / "a.db", keyring=keyring).verify()
    SqliteStore(folder / "a.db", keyring=keyring).close()
    check_sound(folder)


def test_a_row_without_a_key_is_found(folder: Path) -> None:
    keyring = KeyringFile(folder / "a.keyring")
    slot = next(slot for slot in keyring.read().list_slots().tolist() if find_row(slot) == ("buckets", 3))
    keyring.settle({slot: 0})
    (found,) = open_reader(folder / "a.db", keyring=keyring).verify_keys()
    assert "a.db: row 3 of the table buckets (head) has no key in" in found
