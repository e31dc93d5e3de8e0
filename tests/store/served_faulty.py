"""A service whose writes fail, or that is killed at one: a request that is sent until it is answered counts once."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from vestige import SqliteStore
from vestige.ingest.definition import Definition
from vestige.service import engine as engine_module
from vestige.service.engine import Engine
from vestige.service.problems import RefusalError
from vestige.service.requests import Counts
from vestige.sources.block import Block
from vestige.store import KeyringFile, open_reader

VISITS = Definition(name="visits", columns=("spent",), by=("country",), retention=96, seed=0)
ROWS = np.random.default_rng(3).normal(size=(60, 1))
BODY = b"the body"
FOREVER = 10**9
KILL = 0
faults = ctypes.CDLL(None)
engine_module._RECENT = 0.1


def find_keyring(path: Path, *, sealed: bool) -> KeyringFile | None:
    keyring = path.with_suffix(".keyring")
    return KeyringFile(keyring, create=not keyring.exists()) if sealed else None


def start(path: Path, *, sealed: bool) -> Engine:
    engine = Engine(SqliteStore(path, keyring=find_keyring(path, sealed=sealed)))
    engine.start()
    return engine


def prepare(path: Path, *, sealed: bool) -> Engine:
    engine = start(path, sealed=sealed)
    engine.submit(lambda: engine.catalog.create(VISITS)).result()
    assert send(engine, "a") == (Counts(60, 0, 0), False)
    return engine


def send(engine: Engine, key: str) -> tuple[Counts, bool] | None:
    """The answer; None if the rows could not be written."""
    keys, codes = np.array(["DE", "FR", "ES"], object), np.arange(60) % 3
    block = Block(ROWS, np.arange(1, 61), (), 60, keys=keys, codes=codes)
    try:
        return engine.take_rows("visits", block, key, BODY).result(30)
    except RefusalError:
        return None


def check(engine: Engine, path: Path, *, sealed: bool) -> None:
    """All is in the store, and counted once."""
    counts = engine.catalog.find("visits").streams.counts()
    assert counts.t.tolist() == [40, 40, 40], counts.t
    engine.stop()
    found = open_reader(path, keyring=find_keyring(path, sealed=sealed)).verify()
    assert found == (), found


def fail(path: Path, number: int, *, sealed: bool) -> bool:
    """Let a write fail, once or until the disk is mended; whether the service said so."""
    engine = prepare(path, sealed=sealed)
    faults.fault_arm(number, (FOREVER, 1)[number % 2], (errno.EIO, errno.ENOSPC)[number // 2 % 2])
    first = send(engine, "b")
    faults.fault_arm(-1, 0, 0)
    again = send(engine, "b")
    assert again == (Counts(60, 0, 0), first is not None) or (again and again[1]), (first, again)
    until = time.monotonic() + 30.0
    while engine.status != "ok":  # at once where rows were written since; after a moment where the first were
        assert again[1]
        assert time.monotonic() < until
        time.sleep(0.01)
    check(engine, path, sealed=sealed)
    return first is None


def kill(path: Path, number: int, *, sealed: bool) -> bool:
    """Kill the service at a write; whether it was still there, since there is no such write."""
    process = os.fork()
    if not process:
        code = 1
        try:
            engine = prepare(path, sealed=sealed)
            faults.fault_arm(number, 1, KILL)
            send(engine, "b")
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, -9), code
    engine = start(path, sealed=sealed)
    assert send(engine, "a") == (Counts(60, 0, 0), True)
    again = send(engine, "b")
    assert again is not None
    assert again[1] or code == -9, "what was answered is known"
    check(engine, path, sealed=sealed)
    return code == 0


def main() -> None:
    folder, step, kind = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sealed = kind == "sealed"
    engine = prepare(folder / "whole.db", sealed=sealed)
    faults.fault_arm(-1, 0, 0)
    send(engine, "b")
    calls = int(faults.fault_seen())
    check(engine, folder / "whole.db", sealed=sealed)
    numbers = range(0, calls, step)
    failed = sum(fail(folder / f"fail{number}.db", number, sealed=sealed) for number in numbers)
    killed = sum(not kill(folder / f"kill{number}.db", number, sealed=sealed) for number in numbers)
    sys.stdout.write(json.dumps({"tried": len(numbers), "failed": failed, "killed": killed}))


if __name__ == "__main__":
    main()
