"""A process that is killed at each of its writes, or at some; whoever comes after it finds a store that works."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vestige import Mean, SqliteStore, Stream
from vestige.errors import StoreError
from vestige.store import open_reader

faults = ctypes.CDLL(None)


def fill(path: Path, subject: str | None = None) -> None:
    """A store with two streams, the first of which may have records of a subject."""
    with SqliteStore(path) as store:
        for name in ("a", "b"):
            stream = Stream(Mean(), retention=96, seed=0, store=store.stream(name))
            stream.extend(np.arange(100.0), subjects=[subject if name == "a" else None] * 100, source=name)


def without_key(path: Path) -> None:
    """A store whose key is lost, with records of a subject."""
    fill(path, "ada")
    path.with_name(f"{path.name}.key").unlink()


def without_subjects(path: Path) -> None:
    """A store whose key is lost, and nothing is left that it would find."""
    without_key(path)
    with SqliteStore(path) as store:
        Stream(Mean(), retention=96, seed=0, store=store.stream("a")).extend(np.arange(200.0), source="a")


def nothing(_path: Path) -> None:
    """No store yet."""


def make(path: Path) -> None:
    SqliteStore(path).close()


def name_subject(path: Path) -> None:
    with SqliteStore(path) as store:
        Stream(Mean(), retention=96, seed=0, store=store.stream("a")).push(1.0, subject="ada")


def renew(path: Path) -> None:
    with SqliteStore(path) as store:
        store.rekey()
        Stream(Mean(), retention=96, seed=0, store=store.stream("b")).push(1.0, subject="ada")


def remove(path: Path) -> None:
    with SqliteStore(path) as store:
        store.remove("b")


Act = Callable[[Path], None]
WAYS: dict[str, tuple[Act, Act]] = {
    "make": (nothing, make),
    "name": (fill, name_subject),
    "renew": (without_key, renew),
    "replace": (without_subjects, name_subject),
    "remove": (fill, remove),
}


NAMES: dict[str, list[tuple[str, ...]]] = {
    "make": [()],
    "remove": [("a",), ("a", "b")],
}


def check(path: Path, way: str) -> None:
    """The store opens, takes subjects, and finds them; nothing is left beside it."""
    if path.exists():
        open_reader(path).snapshot().all_streams()
    with SqliteStore(path) as store:
        assert store.names() in NAMES.get(way, [("a", "b")])
        try:
            who = store.pseudonym("ada")
        except StoreError:
            assert way == "renew"
            store.rekey()
            who = store.pseudonym("ada")
        if way in ("name", "replace"):
            held = {
                subject
                for _, state in open_reader(path).snapshot().all_streams().values()
                for subject in state.retained.subjects
            }
            assert held <= {None, who}
    with SqliteStore(path) as store:
        assert store.pseudonym("ada") == who
    found = [text for text in open_reader(path).verify() if "overdue" not in text and "expired" not in text]
    assert found == [], found
    beside = {file.name.removeprefix(path.name) for file in path.parent.iterdir()} - {".key.count"}
    assert beside == {"", ".key", ".lock"}, beside


def run(folder: Path, way: str, step: int) -> int:
    """Kill a process at its first write, then at each that is `step` writes later; return the number of kills."""
    prepare, act = WAYS[way]
    (prepared := folder / way).mkdir()
    prepare(prepared / "a.db")
    number, kills = 0, 0
    while True:
        path = folder / f"{way}, {number}" / "a.db"
        shutil.copytree(prepared, path.parent)
        process = os.fork()
        if not process:
            faults.fault_arm(number, 1, 0)
            act(path)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        assert status in (0, -9), (way, number, status)
        try:
            check(path, way)
        except BaseException:
            sys.stderr.write(f"{way}, killed at write {number}\n")
            raise
        if status == 0:
            return kills
        number, kills = number + step, kills + 1


if __name__ == "__main__":
    sys.stdout.write(json.dumps({way: run(Path(sys.argv[1]), way, int(sys.argv[2])) for way in WAYS}))
