"""A process that seals a store, works on it, and is killed at one of its writes; what it has left is looked at."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from store.sealed_decoder import Files, list_parts, list_secrets, open_parts, read_files
from vestige import Mean, SqliteStore, Stream, Window, open_reader
from vestige.errors import StoreError
from vestige.operations import forget
from vestige.store import KeyringFile, Reader
from vestige.store.bucket import BUCKET
from vestige.store.opener import find_slot
from vestige.store.position import decode_count
from vestige.store.rows import TABLES

faults = ctypes.CDLL(None)
VALUES = np.random.default_rng(11).normal(size=4_000)
NAMES = ("first-stream", "second-stream", "third-stream")
SOURCE = "/somewhere/source.csv"
State = dict[str, tuple[int, tuple[float, ...]]]


# What the process does, step by step; what it has done is acknowledged.


def opened(store: SqliteStore, name: str) -> Stream[Any]:
    policy = Window() if name == NAMES[1] else Mean()
    return Stream(policy, retention=64, seed=0, store=store.stream(name))


class Work:
    """One run of all steps."""

    def __init__(self, folder: Path) -> None:
        self.path, self.keys = folder / "a.db", folder / "keyring"
        self.store: SqliteStore | None = None
        self.taken = 0

    def prepare(self) -> None:
        """A store in clear that has erased some records already."""
        KeyringFile(self.keys, create=True)
        with SqliteStore(self.path) as store:
            for name in NAMES[:2]:
                opened(store, name).extend(self.draw(90), source=SOURCE)

    def draw(self, n: int) -> list[float]:
        self.taken += n
        return list(map(float, VALUES[self.taken - n : self.taken]))

    def steps(self) -> list[Callable[[], None]]:
        return [
            self.open,
            lambda: self.extend(0, 40),
            lambda: self.extend(1, 30),
            self.erase,
            self.add,
            self.grow,
            lambda: self.extend(2, 60),
            self.forget,
            self.tidy,
            self.remove,
            self.tidy,
            self.close,
            self.open,
            lambda: self.extend(0, 33),
            self.close,
        ]

    def open(self) -> None:
        self.store = SqliteStore(self.path, keyring=self.keys)

    def use(self) -> SqliteStore:
        assert self.store is not None
        return self.store

    def extend(self, number: int, n: int) -> None:
        stream = self.use().live(NAMES[number]) or opened(self.use(), NAMES[number])
        assert isinstance(stream, Stream)
        with self.use().transaction():  # one transaction, whatever updates there are
            stream.extend(self.draw(n), source=SOURCE)
            stream.flush()

    def erase(self) -> None:
        stream = self.use().live(NAMES[1])
        assert isinstance(stream, Stream)
        with self.use().transaction():
            stream.forget(rounds=stream.retained.rounds[::2], now=True)
            stream.flush()

    def add(self) -> None:
        with self.use().transaction():
            opened(self.use(), NAMES[2]).extend(self.draw(5), source=SOURCE)
            self.use().flush()

    def grow(self) -> None:
        with self.use().transaction():
            self.use()._tables.reserve(32 * BUCKET)

    def forget(self) -> None:
        rounds = opened(self.use(), NAMES[0]).retained.rounds[-3:].tolist()
        forget(self.use(), rounds=rounds, streams=[NAMES[0]], now=True)

    def tidy(self) -> None:
        self.use().tidy()

    def remove(self) -> None:
        self.use().remove(NAMES[1])

    def close(self) -> None:
        self.use().close()
        self.store = None


def read_state(reader: Reader) -> State:
    """What the streams hold; what was read of the source is what has arrived."""
    found: State = {}
    for name, (_, state) in reader.snapshot().all_streams().items():
        assert decode_count(state.positions[SOURCE].value) == state.clock.t, "nothing counts twice"
        found[name] = state.clock.t, tuple(state.retained.values.ravel().tolist())
    return found


def run(folder: Path, prepared: Path, arm: Callable[[], None]) -> tuple[int, int]:
    """Let a process do all steps; how it ended, and how many steps it has acknowledged.

    It leaves a copy of the files whenever keys were written, and after each step.
    """
    shutil.copytree(prepared, folder)
    process = os.fork()
    if not process:
        work, number = Work(folder), 0
        work.taken = 180
        copies = folder / "copies"
        copies.mkdir()

        def keep() -> None:
            nonlocal number
            number += 1
            for name, content in zip(("", "-journal"), read_files(work.path), strict=True):
                target = os.open(copies / f"{number}.db{name}", os.O_CREAT | os.O_WRONLY)
                os.write(target, content)
                os.close(target)

        for name in ("prepare", "settle"):
            change = getattr(KeyringFile, name)

            def watch(keyring: KeyringFile, keys: Any, change: Any = change) -> None:
                keep()
                change(keyring, keys)
                keep()

            setattr(KeyringFile, name, watch)
        acknowledged = os.open(folder / "acknowledged", os.O_CREAT | os.O_WRONLY)
        try:
            arm()
            for step in work.steps():
                step()
                os.write(acknowledged, b".")
                keep()
            os._exit(0)
        except BaseException:
            import traceback  # noqa: PLC0415

            traceback.print_exc()
        os._exit(1)
    return process, 0


def wait(process: int, folder: Path) -> tuple[int, int]:
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert status in (0, -9), status
    acknowledged = folder / "acknowledged"
    return status, acknowledged.stat().st_size if acknowledged.exists() else 0


def find_states(folder: Path) -> list[State]:
    """The state after each step, in a store in clear that nobody kills."""
    work, states = Work(folder), list[State]()
    work.prepare()
    open_plain = SqliteStore

    def keep() -> None:
        states.append(read_state(open_reader(work.path)))

    keep()
    for step in work.steps():
        if step == work.open:
            work.store = open_plain(work.path)
        else:
            step()
        keep()
    return states


def check(folder: Path, states: list[State], done: int, *, read_first: bool) -> Counter[str]:
    """Nothing that was acknowledged is lost, nothing erased comes back, and nothing is left to settle."""
    path, keys, seen = folder / "a.db", folder / "keyring", Counter[str]()
    allowed = states[done : done + 2]
    journal = path.with_name("a.db-journal")
    hot = journal.exists() and any(journal.read_bytes()[:8])
    seen["hot journals"] += hot
    at_kill, before = read_files(path), KeyringFile(keys).read()
    seen["unsettled"] += len(before.find_unsettled(before.newest)) > 0
    if read_first:
        try:
            assert read_state(open_reader(path, keyring=keys)) in allowed
        except StoreError as problem:
            assert "is not sealed" in str(problem)  # noqa: PT017
            assert done == 0
            assert read_state(open_reader(path)) == states[0]
            seen["in clear"] += 1
    with SqliteStore(path, keyring=keys) as store:
        state = read_state(store)
        assert state in allowed, (done, state, allowed)
        seen["acknowledged only"] += state == states[done]
        work = Work(folder)
        work.store, work.taken = store, 3_000
        check_keys(path, keys)
        seen += check_copies(folder, at_kill, state)
        work.extend(0, 20)
    check_keys(path, keys)
    with SqliteStore(path, keyring=keys) as store:
        t, held = read_state(store)[NAMES[0]]  # also what it has taken since
        assert t == state[NAMES[0]][0] + 20
        assert VALUES[3_019] in held
        found = open_reader(path, keyring=keys).verify()
        assert not found or "between its cell pointers and its cells" in str(found), found  # numbers, until it is tidy
        seen["untidy"] += bool(found)
        store.tidy()
    assert open_reader(path, keyring=keys).verify() == ()
    left = {file.name for file in folder.iterdir()} - {"copies", "acknowledged"}
    assert left == {"a.db", "a.db.lock", "keyring"}, left
    return seen


def check_keys(path: Path, keys: Path) -> None:
    """The keyring holds a key for each row, and no other."""
    with closing(sqlite3.connect(path)) as database:
        rows = {
            find_slot(table, row)
            for table in TABLES
            for (row,) in database.execute(f"SELECT id FROM {table}")  # noqa: S608
        }
    found = KeyringFile(keys).read()
    assert set(found.list_slots().tolist()) == rows
    assert all(len(found.find(slot)) == 1 for slot in rows)
    assert len(list_secrets(keys.read_bytes())) == len(rows)


def check_copies(folder: Path, at_kill: Files, state: State) -> Counter[str]:
    """The present keyring opens, in any copy, only what is held; and in no file is anything in clear."""
    keyring, present = (folder / "keyring").read_bytes(), read_files(folder / "a.db")
    held = {value for _, values in state.values() for value in values}
    copies = {at_kill, present} | {read_files(file) for file in (folder / "copies").glob("*.db")}
    scratch = folder / "scratch"
    assert find_values(b"".join(open_parts(list_parts([present], scratch), keyring))) == held
    parts = list_parts(copies, scratch)
    opened = list(open_parts(parts, keyring))
    assert find_values(b"".join(opened)) == held, "a key of today opens what was erased"
    for content in present:
        assert not find_values(content), "a record is in clear"
        assert not any(name.encode() in content for name in (*NAMES, SOURCE)), "a name is in clear"
    return Counter({"copies": len(copies), "parts in copies": len(parts), "of which open": len(opened)})


def find_values(content: bytes) -> set[float]:
    """The values of records that are somewhere in these bytes."""
    found = set[float]()
    for start in range(8):
        end = start + (len(content) - start) // 8 * 8
        words = np.frombuffer(content[start : max(start, end)], "<f8")
        found |= {*VALUES[np.isin(VALUES.view(np.int64), words.view(np.int64))].tolist()}
    return found


def kill_at_writes(folder: Path, states: list[State], prepared: Path, kills: int) -> Counter[str]:
    """Kill a process at one of its writes, spread evenly over all of them."""
    process, _ = run(folder / "whole", prepared, lambda: faults.fault_arm(-1, 0, 0))
    assert wait(process, folder / "whole") == (0, len(states) - 1)
    counted = count_writes(folder, prepared)
    seen = Counter[str](writes=counted)
    for kill, number in enumerate(sorted({int(at) for at in np.linspace(0, counted - 1, kills)})):
        place = folder / f"write {number}"
        process, _ = run(place, prepared, lambda number=number: faults.fault_arm(number, 1, 0))  # type: ignore[misc]
        status, done = wait(process, place)
        assert status == -9
        seen += examine(place, states, done, f"write {number}", read_first=kill % 2 == 1)
    return seen


def count_writes(folder: Path, prepared: Path) -> int:
    """How many writes there are: found by one that is killed too late."""
    place = folder / "counted"
    shutil.copytree(prepared, place)
    process = os.fork()
    if not process:
        faults.fault_arm(-1, 0, 0)
        work = Work(place)
        work.taken = 180
        for step in work.steps():
            step()
        (place / "count").write_text(str(faults.fault_seen()))
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
    return int((place / "count").read_text())


def kill_at_moments(folder: Path, states: list[State], prepared: Path, kills: int) -> Counter[str]:
    """Kill a process at random moments."""
    began = time.monotonic()
    process, _ = run(folder / "timed", prepared, lambda: None)
    wait(process, folder / "timed")
    whole, seen, rng = time.monotonic() - began, Counter[str](), np.random.default_rng(kills)
    for kill, share in enumerate(rng.random(kills)):
        place = folder / f"moment {kill}"
        process, _ = run(place, prepared, lambda: None)
        time.sleep(float(share) * whole)
        os.kill(process, signal.SIGKILL)  # nobody has waited for it yet, so the number is still its own
        _, done = wait(process, place)
        seen += examine(place, states, done, f"{share * whole:.3f} s", read_first=kill % 2 == 1)
    return seen


def examine(place: Path, states: list[State], done: int, when: str, *, read_first: bool) -> Counter[str]:
    try:
        found = check(place, states, done, read_first=read_first)
    except BaseException:
        sys.stderr.write(f"killed at {when}, after {done} steps: {place}\n")
        raise
    shutil.rmtree(place)
    return found + Counter(kills=1) + Counter({f"in step {done}": 1})


if __name__ == "__main__":
    folder, writes, moments = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    (folder / "prepared").mkdir()
    Work(folder / "prepared").prepare()
    (folder / "states").mkdir()
    states = find_states(folder / "states")
    found = [kill_at_writes(folder, states, folder / "prepared", writes)]
    found += [kill_at_moments(folder, states, folder / "prepared", moments)]
    sys.stdout.write(json.dumps(found))
