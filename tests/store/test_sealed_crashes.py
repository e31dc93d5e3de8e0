"""Killed at any moment, a sealed store is as before or after an update, and what was erased opens from no copy."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store.sealed_decoder import list_parts, list_secrets, open_parts, read_files
from store.test_keyring import Disk
from vestige import Mean, SqliteStore, Stream
from vestige.errors import StoreError
from vestige.store import KeyringFile, Reader, open_reader
from vestige.store.keyring import Key
from vestige.store.memory_rows import MemoryRows
from vestige.store.opener import find_slot
from vestige.store.rows import TABLES, About, pack_row_head
from vestige.store.sealed_rows import SealedRows
from vestige.store.sqlite.connection import SEALED_PRAGMAS, read_pragma

HERE = Path(__file__).parent


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """A sealed store with a stream, and its keyring."""
    path, keys = tmp_path / "a.db", tmp_path / "keyring"
    KeyringFile(keys, create=True)
    with SqliteStore(path, keyring=keys) as store:
        opened(store).extend(np.arange(100.0))
    return path, keys


def opened(store: SqliteStore, name: str = "a") -> Stream[Any]:
    live = store.live(name)
    return live if isinstance(live, Stream) else Stream(Mean(), retention=64, seed=0, store=store.stream(name))


def read_t(paths: tuple[Path, Path]) -> int:
    found = open_reader(paths[0], keyring=paths[1]).read_stream("a")
    assert found is not None
    return found[1].clock.t


# Processes that are killed.


@pytest.mark.parametrize(("writes", "moments"), [(40, 20), pytest.param(300, 100, marks=pytest.mark.slow(60))])
def test_a_kill_loses_nothing_and_brings_nothing_back(shim: Path, tmp_path: Path, writes: int, moments: int) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "sealed_victim.py", tmp_path, str(writes), str(moments)],
        env=os.environ | {"LD_PRELOAD": str(shim), "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    at_writes, at_moments = json.loads(done.stdout)
    print(at_writes, at_moments)
    assert at_writes["kills"] >= min(writes, at_writes["writes"])
    assert at_moments["kills"] == moments
    steps = [name for name in at_writes if name.startswith("in step")]
    assert len(steps) >= 10, "kills are spread over all that it does"
    assert at_writes["hot journals"] >= 3
    assert at_writes["unsettled"] >= 5
    assert at_writes["parts in copies"] > at_writes["of which open"] > 100


# Power that is lost: the keyring keeps any of the sectors that were not flushed, the database is before or after.


class Machine:
    """Sealed rows in memory, and a keyring on a disk that may forget."""

    def __init__(self, path: Path, rng: np.random.Generator) -> None:
        self.rng, self.path = rng, path
        self.rows = MemoryRows()
        sealed = SealedRows(self.rows, KeyringFile(path, create=True), is_shared=False)
        sealed.adopt(self.rows)
        sealed.seal()
        self.clear: dict[str, dict[int, tuple[bytes, ...]]] = {}
        self.opened = self.open()
        self.clear = {table: dict(self.opened.iterate(table)) for table in TABLES}

    def open(self) -> SealedRows:
        sealed = SealedRows(self.rows, KeyringFile(self.path), is_shared=bool(self.rng.random() < 0.3))
        if self.rng.random() < 0.5:  # as a file is opened
            sealed.refresh(is_writer=False)
        sealed.refresh(is_writer=True)
        return sealed

    def change(self) -> dict[str, dict[int, tuple[bytes, ...]]]:
        """Write and cut some rows; what there should be then."""
        wanted, rng = copy.deepcopy(self.clear), self.rng
        for _ in range(int(rng.integers(1, 6))):
            table = str(rng.choice(["terms", "sources", "buckets", "ledger"]))
            end = max(wanted[table], default=0)
            if rng.random() < 0.25 and end > 1:
                row = int(rng.integers(2, end + 1))
                self.opened.cut(table, row)
                wanted[table] = {number: parts for number, parts in wanted[table].items() if number < row}
                continue
            row = int(rng.integers(1, end + 2)) if table != "ledger" else int(rng.integers(1, 90))
            parts = tuple(rng.bytes(int(rng.integers(0, 40))) for _ in TABLES[table])
            if table == "ledger":  # which has to be sound, with entries or without
                parts = pack_row_head(table, row, 0, b""), b""
            self.opened.write(table, row, *parts)
            wanted[table][row] = parts
        buckets, terms, sources = (max(wanted[table], default=0) for table in ("buckets", "terms", "sources"))
        about = About(buckets=buckets, terms=terms, sources=sources, requests=int(rng.integers(2**40)))
        wanted["about"][1] = (about.pack(),)
        self.opened.write("about", 1, *wanted["about"][1])
        return wanted

    def crash(self) -> str:
        """One transaction, in which the power is lost somewhere."""
        when = str(self.rng.choice(["preparing", "before the commit", "after the commit", "settling"]))
        disk, before = Disk(self.path), copy.deepcopy(self.rows._tables)
        wanted = self.change()
        with disk.watch(stop_at=0 if when == "preparing" else None):
            self.opened.seal()
        if when in ("preparing", "before the commit"):
            self.rows._tables = before
        else:
            self.clear = wanted
        if when == "settling":
            with disk.watch(stop_at=0):
                self.opened.settle()
        disk.lose(self.rng)
        return when

    def check(self) -> None:
        """All rows are those that were committed, and there is a key for each of them and no other."""
        self.opened = self.open()
        assert {table: dict(self.opened.iterate(table)) for table in TABLES} == self.clear
        assert self.opened.find_damage() == {}
        there = {find_slot(table, row) for table, rows in self.clear.items() for row in rows}
        found = KeyringFile(self.path).read()
        assert set(found.list_slots().tolist()) == there
        assert len(list_secrets(self.path.read_bytes())) == len(there), "and none that a page was added for"


@pytest.mark.parametrize("losses", [300, pytest.param(10_000, marks=pytest.mark.slow(22))])
def test_a_loss_of_power_leaves_rows_that_open_and_no_key_too_many(tmp_path: Path, losses: int) -> None:
    machine, seen = Machine(tmp_path / "keyring", np.random.default_rng(losses)), dict[str, int]()
    machine.check()
    for _ in range(losses):
        when = machine.crash()
        seen[when] = seen.get(when, 0) + 1
        machine.check()
    print(f"losses of power: {seen}")
    assert min(seen.values()) > losses / 8


# Between the steps.


def between(monkeypatch: pytest.MonkeyPatch, step: str, when: str, action: Callable[[], None]) -> None:
    """Do something right before or after a step of the keyring."""
    real = getattr(KeyringFile, step)

    def act(keyring: KeyringFile, keys: Any) -> None:
        if when == "before":
            action()
        real(keyring, keys)
        if when == "after":
            action()

    monkeypatch.setattr(KeyringFile, step, act)


@pytest.mark.parametrize(
    ("step", "when", "t"), [("prepare", "before", 100), ("prepare", "after", 100), ("settle", "before", 150)]
)
def test_a_reader_that_comes_between_two_steps(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, step: str, when: str, t: int
) -> None:
    seen: list[int] = []
    with SqliteStore(paths[0], keyring=paths[1]) as store:
        stream = opened(store)
        between(monkeypatch, step, when, lambda: seen.append(read_t(paths)))
        with store.transaction():
            stream.extend(np.arange(50.0))
            stream.flush()
        monkeypatch.undo()
    assert seen == [t]
    assert read_t(paths) == 150


def test_a_reader_that_stays_from_before_a_commit_until_after_it(paths: tuple[Path, Path]) -> None:
    """It holds the file, so that the commit waits: no key that it has not read yet is destroyed meanwhile."""
    with SqliteStore(paths[0], keyring=paths[1], patience=0.1) as store:
        stream = opened(store)
        reader = open_reader(paths[0], keyring=paths[1])
        with reader._use() as tables:  # type: ignore[attr-defined]
            stream.push(1.0)
            with pytest.raises(StoreError, match="another process reads or writes the file"):
                store.flush()
            found = tables.read("a")
            assert found is not None
            assert found[1].clock.t == 100
        assert read_t(paths) == 100
        store.flush()
        assert read_t(paths) == 101
    assert open_reader(paths[0], keyring=paths[1]).verify() == ()


@pytest.mark.parametrize("step", ["prepare", "settle"])
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("written", ["nothing", "all"])
def test_a_step_that_fails_is_made_up_for(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException, written: str
) -> None:
    """The keys may be written all the same: whoever comes next finds out."""
    real, was = getattr(KeyringFile, step), read_files(paths[0])

    def fail(keyring: KeyringFile, keys: Any) -> None:
        if written == "all":
            real(keyring, keys)
        if isinstance(error, OSError):
            raise StoreError(f"{keyring.path}: the keyring cannot be read or written")
        raise error

    with SqliteStore(paths[0], keyring=paths[1]) as store:
        stream = opened(store)
        stream.push(1.0)
        monkeypatch.setattr(KeyringFile, step, fail)
        with pytest.raises((StoreError, KeyboardInterrupt)) as problem:
            store.flush()
        if isinstance(error, OSError):
            said = "was written, but the keys of what it replaced could not be destroyed, so that this is overdue"
            assert (said in str(problem.value)) == (step == "settle")
        monkeypatch.undo()
        if written == "all" or step == "settle":
            monkeypatch.setattr("vestige.store.keyring.file._SETTLING", 0.05)
            found = open_reader(paths[0], keyring=paths[1]).verify()
            is_left = (step, written) != ("settle", "all")
            assert any("holds keys of rows that were replaced" in text for text in found) == is_left
        assert store.names() == ("a",), "it can be read before the next transaction"
        assert read_t(paths) == (101 if step == "settle" else 100)
        store.flush()
        assert read_t(paths) == 101
        assert stream.t == 101
    assert open_reader(paths[0], keyring=paths[1]).verify() == ()
    scratch = paths[0].with_name("scratch")
    left = list(open_parts(list_parts([was], scratch), paths[1].read_bytes()))
    assert len(left) == 2, "head and body of the terms: all other rows were written"
    assert any(b"retention" in part for part in left)


def test_sealing_a_store_that_is_interrupted_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between the commit and the step that writes all pages again: then that is made up for."""
    values = np.random.default_rng(5).normal(size=90)
    with SqliteStore(tmp_path / "plain.db") as store:
        opened(store, "name in clear").extend(values, source="/source/in/clear")
    for number, (owner, name) in enumerate(
        [
            (KeyringFile, "prepare"),
            (SqliteStore, "_vacuum"),
            (KeyringFile, "settle"),
            (SealedRows, "seal"),
            (SealedRows, "adopt"),
        ]
    ):
        path, keys = tmp_path / f"{number}.db", tmp_path / f"{number}.keyring"
        shutil.copy(tmp_path / "plain.db", path)
        KeyringFile(keys, create=True)
        for when in ("before", "after"):
            real = getattr(owner, name)

            def stop(*arguments: Any, real: Any = real, when: str = when, **options: Any) -> None:
                if when == "after":
                    real(*arguments, **options)
                raise KeyboardInterrupt

            monkeypatch.setattr(owner, name, stop)
            with pytest.raises(KeyboardInterrupt):
                SqliteStore(path, keyring=keys)
            monkeypatch.undo()
        with SqliteStore(path, keyring=keys) as store:
            assert opened(store, "name in clear").t == 90
        content = path.read_bytes()
        for text in (b"name in clear", b"/source/in/clear", *(np.float64(value).tobytes() for value in values)):
            assert text not in content
        assert open_reader(path, keyring=keys).verify() == ()


def test_a_keyring_whose_store_was_never_settled_is_not_given_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash between the commit and the first settling, its keys are live all the same."""
    keys = tmp_path / "keyring"
    KeyringFile(keys, create=True)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(KeyringFile, "settle", stop)
    with pytest.raises(KeyboardInterrupt):
        SqliteStore(tmp_path / "a.db", keyring=keys)
    monkeypatch.undo()
    SqliteStore(tmp_path / "a.db", keyring=keys).close()
    with pytest.raises(StoreError, match="holds the keys of another store"):
        SqliteStore(tmp_path / "b.db", keyring=keys)
    with SqliteStore(tmp_path / "a.db", keyring=keys) as store:
        opened(store).push(1.0)


# Journals.


def test_the_journal_stays_while_the_store_is_open_and_no_longer(paths: tuple[Path, Path]) -> None:
    path, keys = paths
    journal = path.with_name("a.db-journal")
    with SqliteStore(path, keyring=keys) as store:
        for name, (_, value) in SEALED_PRAGMAS.items():
            assert read_pragma(store._connection, name) == value
        opened(store).extend(np.arange(50.0))
        store.flush()
        assert journal.stat().st_size > 0
        assert journal.read_bytes()[:8] == bytes(8), "a commit ends by overwriting this"
        reader = open_reader(path, keyring=keys)
        assert read_t(paths) == 150
        assert reader.verify() == ()
        assert journal.exists(), "readers leave it where it is"
        with store.transaction():  # a large one
            for number in range(40):
                opened(store, f"stream {number}").extend(np.arange(60.0))
            store._tables.reserve(300 * 32_768)
            store.flush()
        with store.transaction():
            store.flush()
        store.tidy()
        assert journal.stat().st_size <= 1 << 20
    assert not journal.exists()
    assert open_reader(path, keyring=keys).verify() == ()


def test_each_step_of_a_commit_is_flushed_before_the_next(shim: Path, paths: tuple[Path, Path]) -> None:
    """Else a loss of power could leave rows whose keys are gone: what SQLite does under these pragmas, call by call."""
    program = """
import ctypes, os, sys
from vestige import Mean, SqliteStore, Stream
store = SqliteStore(sys.argv[1], keyring=sys.argv[2])
stream = Stream(Mean(), retention=64, seed=0, store=store.stream("a"))
for number in range(3):
    stream.push(1.0)
    ctypes.CDLL(None).fault_tell(1 if number == 2 else -1)
    store.flush()
os._exit(0)
"""
    command, env = [sys.executable, "-c", program, *map(str, paths)], os.environ | {"LD_PRELOAD": str(shim)}
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    calls = [line for line in done.stdout.splitlines() if not line.endswith(paths[0].parent.name)]
    steps = [call for number, call in enumerate(calls) if call != (calls[number - 1] if number else "")]
    assert steps[: steps.index("flush keyring") + 1][-2:] == ["write keyring", "flush keyring"]
    assert "write a.db" not in steps[: steps.index("flush keyring")]
    written = steps.index("write a.db")
    assert steps[written - 1] == "flush a.db-journal", "so that it can be rolled back"
    assert steps[written:] == [
        "write a.db",
        "flush a.db",
        "write a.db-journal",  # zeros over its header: from here on it is committed
        "flush a.db-journal",
        "write keyring",  # zeros over the keys that were replaced
        "flush keyring",
    ]


def test_a_hot_journal_is_named_and_rolled_back(paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed in a commit, after SQLite has begun to write to the file itself."""
    path, keys = paths
    program = """
import os, signal, sys
import numpy as np
from vestige import Mean, SqliteStore, Stream
from vestige.store import KeyringFile
store = SqliteStore(sys.argv[1], keyring=sys.argv[2])
store._connection.execute("PRAGMA cache_size=1")
stream = Stream(Mean(), retention=64, seed=0, store=store.stream("a"))
stream.extend(np.arange(50.0))
store.flush()
prepare = KeyringFile.prepare
def stop(keyring, keys):
    prepare(keyring, keys)
    os.kill(os.getpid(), signal.SIGKILL)
KeyringFile.prepare = stop
with store.transaction():
    for number in range(40):
        Stream(Mean(), retention=64, seed=0, store=store.stream(f"more {number}")).extend(np.arange(60.0))
    store.flush()
"""
    done = subprocess.run([sys.executable, "-c", program, path, keys], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    journal = path.with_name("a.db-journal")
    assert any(journal.read_bytes()[:8])
    monkeypatch.setattr("vestige.store.sqlite.verify._SETTLING", 0.05)
    monkeypatch.setattr("vestige.store.keyring.file._SETTLING", 0.05)
    files = {file: file.read_bytes() for file in (path, keys, journal)}
    found = open_reader(path, keyring=keys).verify()
    assert any(f"{journal} is there: a commit does not come to its end" in text for text in found)
    assert any("holds keys of rows that were replaced" in text for text in found)
    for reads_first in (True, False):
        for file, content in files.items():
            file.write_bytes(content)
        assert not reads_first or read_t(paths) == 150
        with SqliteStore(path, keyring=keys) as store:
            assert opened(store).t == 150
            assert store.names() == ("a",)
        assert open_reader(path, keyring=keys).verify() == ()


# Readers beside a writer.

READER = """
import json, sys
from select import select
from vestige.store import open_reader
path, keys, verifies = sys.argv[1], sys.argv[2], sys.argv[3] == "verify"
reader, looks, last, found, different = open_reader(path, keyring=keys, patience=20.0), 0, 0, [], 0
print("ready", flush=True)
while not select([sys.stdin], [], [], 0.002)[0]:
    if verifies:
        found += open_reader(path, keyring=keys, patience=20.0).verify()
    states = reader.snapshot().all_streams()
    (t,) = {state.clock.t for _, state in states.values()}
    assert t >= last, "it never goes back"
    assert len(states) == 2
    looks, last, different = looks + 1, t, different + (t != last)
    one = reader.read_stream("b")
    assert one is not None and one[1].clock.t >= t
print(json.dumps([looks, different, found]))
"""


def test_readers_beside_a_writer_see_whole_transactions(paths: tuple[Path, Path]) -> None:
    path, keys = paths
    with SqliteStore(path, keyring=keys, patience=30.0) as store:
        opened(store, "b").extend(np.arange(100.0))
        store.flush()
        command = [sys.executable, "-c", READER, str(path), str(keys)]
        readers = [
            subprocess.Popen([*command, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for how in ("verify", "read")
        ]
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        for number in range(300):
            with store.transaction():
                for name in ("a", "b"):
                    opened(store, name).extend(np.arange(3.0) + number)
                store.flush()
        told = [reader.communicate("")[0] for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0]
    for answer in told:
        looks, different, found = json.loads(answer)
        print(f"{looks} looks, {different} different states")
        assert looks >= 2
        assert found == []
    assert read_t(paths) == 1_000
    assert open_reader(path, keyring=keys).verify() == ()


def test_verifying_reads_keys_and_rows_of_one_moment(paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit right after the file was copied: the keys of the copy are gone when it is looked at."""
    from vestige.store.sqlite import verify  # noqa: PLC0415

    path, keys = paths
    real = verify.copy_file  # type: ignore[attr-defined]

    def copy_first(*arguments: Any) -> Any:
        made = real(*arguments)
        with SqliteStore(path, keyring=keys) as store:
            opened(store).extend(np.arange(50.0))
        return made

    monkeypatch.setattr(verify, "copy_file", copy_first)
    assert open_reader(path, keyring=keys).verify() == ()


def test_a_reader_reads_the_keyring_once_for_each_look(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    real = KeyringFile.read

    def count(keyring: KeyringFile, after: int = 0) -> Any:
        looks.append(after)
        return real(keyring, after)

    monkeypatch.setattr(KeyringFile, "read", count)
    reader: Reader = open_reader(paths[0], keyring=paths[1])
    for _ in range(3):
        reader.read_stream("a")
    assert looks == [0, 0, 0]
    with SqliteStore(paths[0], keyring=paths[1]) as store:
        looks.clear()
        for _ in range(5):
            opened(store).push(1.0)
            store.flush()
        assert looks == [], "a writer knows its keys"


def test_the_decoder_opens_what_it_should(paths: tuple[Path, Path]) -> None:
    """Else it would find nothing in copies whatever they hold."""
    path, keys = paths
    before, was = keys.read_bytes(), read_files(path)
    with SqliteStore(path, keyring=keys) as store:
        opened(store).extend(np.arange(50.0))
        store.flush()
        now = read_files(path)
    scratch = path.with_name("scratch")
    old, new = (list_parts([files], scratch) for files in (was, now))
    with closing(sqlite3.connect(path)) as database:
        rows = sum(
            len(columns) * database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
            for table, columns in TABLES.items()
        )
    assert len(list(open_parts(old, before))) == len(old) == rows
    assert len(list(open_parts(new, keys.read_bytes()))) == rows
    assert len(new) > rows, "the journal has rows that were replaced"
    assert len(list(open_parts(new, before))) > 0, "which the keyring of then opens"
    assert isinstance(KeyringFile(keys).read().find(find_slot("about", 1))[0], Key)
