"""A process whose writes fail on purpose: it goes on all the same, and ends where one without faults ends."""

from __future__ import annotations

import ctypes
import errno
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from vestige import Mean, SqliteStore, Stream, operations
from vestige._numba import limit_interpretation
from vestige.errors import StoreError
from vestige.store import KeyringFile, open_reader

ROWS = np.random.default_rng(3).normal(size=400)
FOREVER = 10**9
SEALED = "sealed" in sys.argv
"""Whether the stores are sealed, so that writes to the keyring fail, too."""
faults = ctypes.CDLL(None)


def opened(store: SqliteStore, name: str = "a") -> Stream:
    return Stream(Mean(), retention=96, seed=0, store=store.stream(name))


def find_keyring(path: Path) -> Path | None:
    """The keyring of a store that is sealed."""
    return path.with_suffix(".keyring") if SEALED else None


def start(path: Path) -> tuple[SqliteStore, Stream]:
    keyring = find_keyring(path)
    store = SqliteStore(path, keyring=None if keyring is None else KeyringFile(keyring, create=True))
    stream = opened(store)
    stream.extend(ROWS[:150], source="x")
    stream.forget(rounds=[150])
    store.flush()
    return store, stream


def extend(_store: SqliteStore, stream: Stream) -> None:
    stream.extend(ROWS[stream.t : 200], source="x")


def flush(store: SqliteStore, stream: Stream) -> None:
    if stream.t == 150:
        stream.push(ROWS[150])
    store.flush()


def add(store: SqliteStore, _stream: Stream) -> None:
    fresh = store.live("b") or opened(store, "b")
    assert isinstance(fresh, Stream)
    if not fresh.t:
        fresh.push(1.0)
    store.flush()


def drop(store: SqliteStore, stream: Stream) -> None:
    terms, place = store.terms("a"), store.stream("a")
    place.write(terms, replace(place.read(terms), positions={}))
    stream._state.positions = {}


def tidy(store: SqliteStore, _stream: Stream) -> None:
    store.tidy()


def name_subject(store: SqliteStore, _stream: Stream) -> None:
    store.pseudonym("ada")


def forget(store: SqliteStore, stream: Stream) -> None:
    stream.extend(ROWS[stream.t : 180], source="x")  # enough to close the batch early
    operations.forget(store, rounds=range(97, 150), streams=["a"], now=True)


WAYS: dict[str, Callable[[SqliteStore, Stream], None]] = {
    "extend": extend,
    "flush": flush,
    "add": add,
    "drop": drop,
    "tidy": tidy,
    "name": name_subject,
    "forget": forget,
}


def finish(store: SqliteStore, stream: Stream, path: Path) -> tuple[object, ...]:
    """Go on with all streams to their end; what is in the file then."""
    stream.extend(ROWS[stream.t :], source="y")
    store.close()
    there = open_reader(path, keyring=find_keyring(path)).snapshot().all_streams()
    found = open_reader(path, keyring=find_keyring(path)).verify()
    assert found == (), found
    return tuple((name, state.clock, state.retained.values.tolist()) for name, (_, state) in there.items())


def run(folder: Path, way: str, *, thorough: bool) -> dict[str, int]:
    """Let each call that writes fail, once or until the disk is mended, as broken and as full; how it went.

    Unless it is thorough, each fails in one of these four ways.
    """
    act, told = WAYS[way], {"injected": 0, "raised": 0}
    (folder := folder / way).mkdir()
    store, stream = start(folder / "whole.db")
    faults.fault_arm(-1, 0, 0)
    act(store, stream)
    calls = int(faults.fault_seen())
    expected = finish(store, stream, folder / "whole.db")
    kinds = [(error, count) for error in (errno.EIO, errno.ENOSPC) for count in (FOREVER, 1)]
    for number in range(calls):
        for error, count in kinds if thorough else kinds[number % 4 : number % 4 + 1]:
            path = folder / f"{number}.{error}.{count}.db"
            store, stream = start(path)
            faults.fault_arm(number, count, error)
            told["injected"] += 1
            try:
                act(store, stream)
            except StoreError:
                told["raised"] += 1
            faults.fault_arm(-1, 0, 0)
            act(store, stream)
            assert finish(store, stream, path) == expected, (way, number, error, count)
    return told


if __name__ == "__main__":
    limit_interpretation(
        0.0
    )  # what is compiled is written too, so all is as each way runs whole, before any write fails
    folder, *how = sys.argv[1:]
    sys.stdout.write(json.dumps({way: run(Path(folder), way, thorough="thorough" in how) for way in WAYS}))
