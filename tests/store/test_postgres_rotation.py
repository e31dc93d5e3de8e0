"""Fresh keys for a store in PostgreSQL, and what its backups show to the keyring of today."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from postgres import Database
from vestige import KeyedStreams, Mean, Stream, open_store
from vestige.errors import StoreBusyError, StoreError
from vestige.store import Keyring, KeyringFile, PostgresStore, open_reader, rotation
from vestige.store.keyring.backup import BackupReport, inspect_backup
from vestige.store.opener import SECRET
from vestige.store.sealed_rows import SealedRows

GONE, STAYING = "the stream of ada lovelace", "the stream that stays"
CANARY = GONE.encode()
Content = dict[str, object]


@pytest.fixture
def filled(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A store of several rows."""
    monkeypatch.setattr(rotation, "_BATCH", 3)
    with database.open() as store:
        streams = KeyedStreams(Mean(), retention=96, seed=0, store=store.family())
        streams.extend([f"key {i % 400}" for i in range(8_000)], np.arange(8_000.0))
    return database


def read(database: Database, keyring: Path | None = None) -> Content:
    found = open_reader(database.address, keyring=keyring or database.keyring).snapshot().all_streams()
    return {name: state.retained.values.tolist() for name, (_, state) in found.items()}


def check_sound(database: Database, keyring: Path | None = None) -> None:
    reader = open_reader(database.address, keyring=keyring or database.keyring)
    assert reader.verify() == ()
    assert reader.verify_keys() == ()


def test_all_rows_have_fresh_keys_while_others_write(filled: Database, tmp_path: Path) -> None:
    before = read(filled)
    shutil.copy(filled.keyring, tmp_path / "copied")
    with filled.open() as store, filled.open() as other:
        stream = Stream(Mean(), retention=96, seed=0, store=other.stream("beside"))

        def write(_: float) -> None:
            stream.extend(range(60))
            other.flush()

        assert store.rotate(tell=write) > 3
        assert store.names() == other.names()
    after = read(filled)
    assert after.pop("beside")
    assert after == before
    check_sound(filled)
    old, new = KeyringFile(tmp_path / "copied").read(), KeyringFile(filled.keyring).read()
    kept = {key.secret for slot in new.list_slots().tolist() for key in new.find(slot)}
    stays = {key.secret for key in old.find(SECRET)}  # the other one goes on with the locks that it has
    assert kept & {key.secret for slot in old.list_slots().tolist() for key in old.find(slot)} == stays


def test_another_keyring_takes_over(filled: Database, tmp_path: Path) -> None:
    before, new = read(filled), KeyringFile(tmp_path / "new.keyring", create=True)
    with filled.open() as store:
        assert store.rotate(new) > 3
        Stream(Mean(), retention=96, seed=0, store=store.stream("later")).extend(range(60))
        store.flush()
        assert store.verify() == ()
    after = read(filled, new.path)
    assert after.pop("later")
    assert after == before
    check_sound(filled, new.path)
    with pytest.raises(StoreError, match="was sealed with the keyring"):
        read(filled)
    assert not len(KeyringFile(filled.keyring).read().list_slots())


def test_a_keyring_does_not_change_while_others_have_the_store_open(filled: Database, tmp_path: Path) -> None:
    before, new = read(filled), KeyringFile(tmp_path / "new.keyring", create=True)
    with filled.open() as store:
        with filled.open() as other:
            with pytest.raises(StoreBusyError, match="is open for writing elsewhere, with the keyring that it has"):
                store.rotate(new)
            Stream(Mean(), retention=96, seed=0, store=other.stream("beside")).extend(range(60))
        assert read(filled).keys() == before.keys() | {"beside"}
        store.rotate(new)
    check_sound(filled, new.path)


def die(*_: object) -> None:
    os._exit(9)


def die_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    seal = rotation._seal_rows

    def seal_and_die(rows: SealedRows, keyring: Keyring, tell: Callable[[float], object]) -> None:
        seal(rows, keyring, tell)
        die()

    patch.setattr(rotation, "_seal_rows", seal_and_die)


def die_after_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PostgresStore, "_use_keyring", die)


def die_before_the_old_one_is_destroyed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyringFile, "destroy", die)


@pytest.mark.parametrize("arm", [die_before_the_commit, die_after_the_commit, die_before_the_old_one_is_destroyed])
def test_a_process_that_is_killed_leaves_a_store_that_one_of_the_two_opens(
    filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arm: Callable[[pytest.MonkeyPatch], None]
) -> None:
    before, new = read(filled), KeyringFile(tmp_path / "new.keyring", create=True)
    process = os.fork()
    if not process:
        arm(monkeypatch)
        try:
            filled.open().rotate(new)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
    is_moved = arm is not die_before_the_commit
    old_one, new_one = (new.path, filled.keyring) if not is_moved else (filled.keyring, new.path)
    assert read(filled, new_one) == before
    with pytest.raises(StoreError, match="was sealed with the keyring"):
        read(filled, old_one)
    if is_moved:
        open_store(filled.address, keyring=new).close()
    else:
        with filled.open() as store:
            store.rotate(new)
    check_sound(filled, new.path)
    assert read(filled, new.path) == before


def dump(database: Database, path: Path, form: str = "plain") -> Path:
    server = database.server
    where = ("-h", str(server.folder), "-p", str(server.port), "-U", server.superuser, "-d", "postgres")
    server._run("pg_dump", *where, "-n", database.schema, "--format", form, "-f", str(server.folder / "dumped"))
    shutil.move(server.folder / "dumped", path)
    return path


def test_of_a_dump_a_data_folder_and_a_log_nothing_opens_that_was_erased(filled: Database, tmp_path: Path) -> None:
    with filled.open() as store:
        for name in (GONE, STAYING):  # the second one is long, so that it is cut into pieces
            size = 96 if name == GONE else 3_000
            stream = Stream(Mean(), retention=size, seed=0, store=store.stream(name))
            stream.extend(np.arange(float(size)))
    early, old = dump(filled, tmp_path / "early.sql"), tmp_path / "old.keyring"
    shutil.copy(filled.keyring, old)
    with filled.open() as store:
        store.remove(GONE)
    late, packed = dump(filled, tmp_path / "late.sql"), dump(filled, tmp_path / "dump.custom", "custom")
    filled.server.ask("CHECKPOINT")
    data = filled.server.folder / "data"

    def inspect(path: Path, keyring: Path = filled.keyring) -> BackupReport:
        return inspect_backup(path, KeyringFile(keyring), filled.read().list_versions, canaries=(CANARY,))

    rows = len(filled.read().list_versions())
    assert inspect(late).text == f"{late}: {rows} sealed rows; {rows} of them are in the store now."
    for backup in (early, late, data, data / "base", data / "pg_wal"):
        report = inspect(backup)
        assert (report.openable, report.newer, report.findings) == (0, 0, ()), backup
    assert inspect(data).current == rows
    assert inspect(early).destroyed > 0
    assert inspect(data / "pg_wal").destroyed > 0
    assert "pg_restore -f dump.sql FILE" in inspect(packed).findings[0]
    for backup in (early, data, data / "pg_wal"):
        report = inspect(backup, old)
        assert report.openable > 0
        assert any("canary 1 of 1 is in" in text and "which can be opened" in text for text in report.findings), backup
