"""A process that is killed while it gives a store new keys; whoever comes after it finds a store that works."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vestige import Mean, SqliteStore, Stream
from vestige.errors import StoreError
from vestige.store import KeyringFile, open_reader, rotation
from vestige.store.keyring.backup import inspect_backup

faults = ctypes.CDLL(None)
OLD, NEW = "a.keyring", "b.keyring"
Content = dict[str, object]


def fill(folder: Path) -> None:
    """A sealed store of several rows, a keyring that was never used, and a copy of the store."""
    KeyringFile(folder / NEW, create=True)
    keyring = KeyringFile(folder / OLD, create=True)
    with SqliteStore(folder / "a.db", keyring=keyring) as store, store.transaction():
        for number in range(12):
            stream = Stream(Mean(), retention=96, seed=0, store=store.stream(f"stream {number}"))
            stream.extend(np.arange(number, number + 40.0), source="x")
            stream.flush()
    shutil.copy(folder / "a.db", folder / "backup")


def read(folder: Path, keyring: str) -> Content:
    found = open_reader(folder / "a.db", keyring=folder / keyring).snapshot().all_streams()
    return {name: state.retained.values.tolist() for name, (_, state) in found.items()}


def renew(folder: Path) -> None:
    with SqliteStore(folder / "a.db", keyring=folder / OLD) as store:
        store.rotate()


def change(folder: Path) -> None:
    with SqliteStore(folder / "a.db", keyring=folder / OLD) as store:
        store.rotate(folder / NEW)


def check_renewed(folder: Path, content: Content) -> None:
    assert read(folder, OLD) == content
    renew(folder)
    check_end(folder, OLD, content)


def check_changed(folder: Path, content: Content) -> None:
    """One of the two opens the store, and not the other."""
    try:
        found, keyring = read(folder, OLD), OLD
    except StoreError:
        found, keyring = read(folder, NEW), NEW
    assert found == content
    with pytest.raises(StoreError, match="was sealed with the keyring"):
        read(folder, NEW if keyring == OLD else OLD)
    if keyring == OLD:
        change(folder)
    else:
        SqliteStore(folder / "a.db", keyring=folder / NEW).close()
        KeyringFile(folder / OLD).destroy()
    assert not list(KeyringFile(folder / OLD).read().list_slots().tolist())
    check_end(folder, NEW, content)


def check_end(folder: Path, keyring: str, content: Content) -> None:
    """All is as without a kill, and of the copy from before nothing can be opened."""
    assert read(folder, keyring) == content
    reader, keys = open_reader(folder / "a.db", keyring=folder / keyring), KeyringFile(folder / keyring)
    assert (reader.verify(), reader.verify_keys(), keys.verify()) == ((), (), ())
    for each in {OLD, keyring}:
        reader = open_reader(folder / "a.db", keyring=folder / each)
        report = inspect_backup(folder / "backup", KeyringFile(folder / each), reader.list_versions)
        assert (report.current, report.openable) == (0, 0), report
        assert [text for text in report.findings if each == OLD or "of another keyring" not in text] == [], report


WAYS: dict[str, tuple[Callable[[Path], None], Callable[[Path, Content], None]]] = {
    "renew": (renew, check_renewed),
    "change": (change, check_changed),
}


def run(folder: Path, way: str, step: int) -> int:
    """Kill a process at its first write, then at each that is `step` writes later; return the number of kills."""
    act, check = WAYS[way]
    (prepared := folder / way).mkdir()
    fill(prepared)
    content, number, kills = read(prepared, OLD), 0, 0
    while True:
        killed = folder / f"{way}, {number}"
        shutil.copytree(prepared, killed)
        process = os.fork()
        if not process:
            faults.fault_arm(number, 1, 0)
            act(killed)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        assert status in (0, -9), (way, number, status)
        if status == 0:
            check_end(killed, OLD if way == "renew" else NEW, content)
            return kills
        try:
            check(killed, content)
        except BaseException:
            sys.stderr.write(f"{way}, killed at write {number}\n")
            raise
        shutil.rmtree(killed)
        number, kills = number + step, kills + 1


if __name__ == "__main__":
    rotation._BATCH = 2
    sys.stdout.write(json.dumps({way: run(Path(sys.argv[1]), way, int(sys.argv[2])) for way in WAYS}))
