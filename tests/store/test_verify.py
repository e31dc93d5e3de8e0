"""Verifying a store: for each thing that can be wrong, a store in which it is."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from limits import join
from reading import read_streams
from vestige import Mean, SqliteStore, Stream
from vestige.errors import ParameterError, StoreError
from vestige.store import RECEIPTS_KEPT, State, open_reader
from vestige.store.entry import pack_entry
from vestige.store.sqlite.connection import VERSION, copy_file
from vestige.store.table_store import TablePlace

NOW = datetime(2024, 2, 1, tzinfo=UTC)
TIMES = [NOW - timedelta(days=31) + timedelta(hours=i) for i in range(100)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with SqliteStore(path) as store:
        stream = Stream(Mean(), retention=96, seed=0, store=store.stream("plain"))
        stream.extend(np.random.default_rng(0).normal(size=1_000))
        aged = Stream(Mean(), retention=96, max_age=timedelta(days=30), seed=0, store=store.stream("aged"))
        aged.extend(np.arange(100.0), times=TIMES)
    return path


def test_a_store_that_is_well(path: Path) -> None:
    assert open_reader(path).verify(at=TIMES[-1]) == ()


def test_a_store_that_others_may_read(path: Path) -> None:
    with SqliteStore(path) as store:
        store.pseudonym("ada")
    key = path.with_name("a.db.key")
    for file in (path, key):
        file.chmod(0o644)
        (found,) = open_reader(path).verify(at=TIMES[-1])
        assert found == f"{file}: others than its owner may use it (its rights are 644); chmod 600 {file}"
        file.chmod(0o600)
    assert open_reader(path).verify(at=TIMES[-1]) == ()


def test_overdue_in_time(path: Path) -> None:
    assert open_reader(path).verify(at=TIMES[0] + timedelta(days=30) - timedelta(seconds=1)) == ()
    oldest = read_streams(path)["aged"][1].retained.times[0].astype(datetime).replace(tzinfo=UTC)
    assert open_reader(path).verify(at=oldest + timedelta(days=30) - timedelta(microseconds=1)) == ()
    assert "stream 'aged': 1 record is overdue" in open_reader(path).verify(at=oldest + timedelta(days=30))[0]
    found = open_reader(path).verify(at=NOW + timedelta(days=5))
    assert len(found) == 1
    assert "stream 'aged':" in found[0]
    assert "records are overdue, older than max_age=30 days at 2024-02-06 00:00:00; run vestige sweep" in found[0]


def rewritten(path: Path, name: str, change: Callable[[State], State]) -> None:
    """Write another state past the stream and its rules."""
    with SqliteStore(path) as store:
        terms = store.terms(name)
        place = store.stream(name, about=terms.about)
        assert isinstance(place, TablePlace)
        place.write(terms, change(place.read(terms)))


def test_overdue_in_rounds(path: Path) -> None:
    terms, state = read_streams(path)["plain"]
    later = replace(state, clock=replace(state.clock, t=state.clock.t + 80))
    with pytest.raises(StoreError, match="holds records over more than 96 rounds"):
        pack_entry(b"plain", 1, terms, later)
    with SqliteStore(path) as store, store.transaction():
        number = store._tables.find_families(terms)[0]
        assert number is not None
        bucket = store._tables.buckets.read(0)
        bucket.put(b"plain", pack_entry(b"plain", number, replace(terms, capacity=1_000), later))
        store._tables.buckets.write(bucket)
    assert any("records are older than retention=96 rounds" in text for text in open_reader(path).verify(at=TIMES[-1]))


def test_requests_and_receipts_that_are_overdue(path: Path) -> None:
    with SqliteStore(path) as store:
        stream = Stream(Mean(), retention=96, seed=0, store=store.stream("plain"))
        stream.forget(rounds=stream.t)
    assert open_reader(path).verify(at=TIMES[-1]) == ()
    rewritten(path, "plain", lambda s: replace(s, receipts=(replace(s.receipts[0], due_round=s.clock.t),)))
    (found,) = open_reader(path).verify(at=TIMES[-1])
    assert "request" in found
    assert "is overdue; run vestige sweep" in found
    done = datetime(2020, 1, 1, tzinfo=UTC)
    rewritten(path, "plain", lambda s: replace(s, receipts=(replace(s.receipts[0], erased=done, erased_round=1),)))
    assert open_reader(path).verify(at=done + RECEIPTS_KEPT - timedelta(seconds=1)) == ()
    assert "has expired and is still there" in open_reader(path).verify(at=TIMES[-1])[0]


def test_a_sweep_removes_expired_receipts_and_leaves_no_gap(path: Path) -> None:
    done = datetime(2020, 1, 1, tzinfo=UTC)
    with SqliteStore(path) as store:
        stream = Stream(Mean(), retention=96, seed=0, store=store.stream("plain"))
        for _ in range(50):
            stream.forget(rounds=stream.t)
    rewritten(
        path,
        "plain",
        lambda s: replace(s, receipts=tuple(replace(r, erased=done, erased_round=1) for r in s.receipts[::2])),
    )
    with SqliteStore(path) as store:
        Stream(Mean(), retention=96, seed=0, store=store.stream("plain")).sweep()
    assert read_streams(path)["plain"][1].receipts == ()
    assert open_reader(path).verify(at=TIMES[-1]) == ()


def test_free_pages_with_old_bytes(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA secure_delete=OFF")
    connection.execute("INSERT INTO about VALUES (9, ?)", (b"canary" * 5_000,))
    connection.execute("DELETE FROM about WHERE id = 9")
    connection.close()
    found = open_reader(path).verify(at=TIMES[-1], canaries=[b"canarycanary"])
    assert any("is not zero though it is free" in text for text in found)
    assert any("canary 1 of 1 is in a.db" in text for text in found)
    with SqliteStore(path) as store:
        store.tidy()
    assert open_reader(path).verify(at=TIMES[-1], canaries=[b"canarycanary"]) == ()


def test_canaries_in_the_files_beside(path: Path) -> None:
    path.with_name("a.db-old").write_bytes(b"...canary...")
    assert open_reader(path).verify(at=TIMES[-1]) == ()
    assert open_reader(path).verify(at=TIMES[-1], canaries=[b"nothing of that kind", b"canary"]) == (
        "canary 2 of 2 is in a.db-old, 1 times, first at byte 3",
    )
    with pytest.raises(ParameterError, match="canaries contains an empty one"):
        open_reader(path).verify(canaries=[b""])


def test_write_ahead_logging(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA user_version={VERSION}")
    found = open_reader(path).verify(at=TIMES[-1])
    connection.close()
    assert any("-wal is there: another program has switched the file to write-ahead logging" in t for t in found)
    assert any("tells of write-ahead logging" in text for text in found)
    with SqliteStore(path):
        pass
    assert open_reader(path).verify(at=TIMES[-1]) == ()


CRASH = """
import os, sys
from vestige import Mean, SqliteStore, Stream
store = SqliteStore(sys.argv[1])
store._connection.execute("PRAGMA cache_size=1")
store._connection.execute("BEGIN IMMEDIATE")
store._connection.execute("UPDATE buckets SET body = randomblob(length(body))")
store._connection.execute("UPDATE terms SET body = body || 'x'")
print("now", flush=True)
sys.stdin.read()
"""


def test_a_draft_that_is_being_written_is_well_and_one_that_stays_is_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = path.with_name("a.db.key.0123456789abcdef.draft")
    draft.touch()
    writer = threading.Timer(0.2, draft.unlink)
    writer.start()
    assert open_reader(path).verify(at=TIMES[-1]) == ()
    join(writer)
    draft.touch()
    monkeypatch.setattr("vestige.store.sqlite.verify._SETTLING", 0.1)
    (found,) = open_reader(path).verify(at=TIMES[-1])
    assert found.startswith(f"{draft} is there: a process was killed while it wrote it")


def test_a_journal_that_a_crash_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vestige.store.sqlite.verify._SETTLING", 0.1)
    image = path.read_bytes()
    victim = subprocess.Popen([sys.executable, "-c", CRASH, path], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert victim.stdout is not None
    victim.stdout.readline()
    victim.kill()
    victim.communicate()
    if not path.with_name("a.db-journal").exists():
        pytest.skip("SQLite kept the whole transaction in memory")
    assert "a.db-journal is there: a commit does not come to its end" in open_reader(path).verify(at=TIMES[-1])[0]
    assert open_reader(path).verify(at=TIMES[-1]) == ()
    assert read_streams(path).keys() == {"aged", "plain"}
    assert len(path.read_bytes()) == len(image)


def test_somebody_who_holds_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's journal stays as long as the other process reads."""
    monkeypatch.setattr("vestige.store.sqlite.verify._SETTLING", 0.1)
    hold = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN');"
        "c.execute('SELECT * FROM buckets').fetchone(); print('held', flush=True); sys.stdin.read()"
    )
    write = (
        "import sys; from vestige import *; s = SqliteStore(sys.argv[1], patience=30);"
        "x = Stream(Mean(), retention=96, seed=0, store=s.stream('plain')); print('now', flush=True);"
        "x.extend([0.0] * 100); print('done', flush=True)"
    )
    options = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE}
    foreign = subprocess.Popen([sys.executable, "-c", hold, path], **options)  # type: ignore[call-overload]
    foreign.stdout.readline()
    writer = subprocess.Popen([sys.executable, "-c", write, path], **options)  # type: ignore[call-overload]
    until = time.monotonic() + 30.0
    while not path.with_name("a.db-journal").exists() and time.monotonic() < until:
        time.sleep(0.05)
    found = open_reader(path, patience=0.5).verify(at=TIMES[-1])
    foreign.communicate(b"")
    assert b"done" in writer.communicate()[0]
    assert any("overdue" in text.lower() for text in found)
    assert open_reader(path).verify(at=TIMES[-1]) == ()


def test_a_damaged_store_is_a_finding_and_a_missing_one_an_error(path: Path) -> None:
    image = bytearray(path.read_bytes())
    image[-50] ^= 1
    path.write_bytes(image)
    assert any("is damaged" in text or "not zero" in text for text in open_reader(path).verify(at=TIMES[-1]))
    path.write_bytes(image[:-1000])
    assert open_reader(path).verify(at=TIMES[-1])
    path.unlink()
    with pytest.raises(StoreError, match="there is no such store"):
        open_reader(path).verify()


def test_findings_hold_no_values(path: Path) -> None:
    secret = 1234.56789012345
    with SqliteStore(path) as store:
        Stream(Mean(), retention=96, seed=0, store=store.stream("s")).extend([secret] * 3, subjects=["ada"] * 3)
    found = open_reader(path).verify(at=NOW, canaries=[np.float64(secret).tobytes(), b"ada", os.urandom(8)])
    assert len(found) >= 1
    assert not any("1234" in text or "ada" in text for text in found)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_that_makes_the_file_shorter_or_longer_meanwhile_is_not_a_finding(
    path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It is longer than it says only if it is so before the copy and after it."""
    with SqliteStore(path) as store:
        Stream(Mean(), retention=9_600, seed=0, store=store.stream("large")).push(1.0)

    def copy_beside_a_writer(place: Path, patience: float, keyring: None) -> tuple[bytes, None]:
        image = copy_file(place, patience)[0] if when == "after" else b""
        size = place.stat().st_size
        with SqliteStore(place) as store:
            if when == "before":
                store.remove("large")
                store.tidy()
            else:
                Stream(Mean(), retention=9_600, seed=0, store=store.stream("more")).push(1.0)
        assert (place.stat().st_size < size) == (when == "before")
        assert (place.stat().st_size > size) == (when == "after")
        return image or copy_file(place, patience, keyring)[0], None

    monkeypatch.setattr("vestige.store.sqlite.verify.copy_file", copy_beside_a_writer)
    assert open_reader(path).verify(at=TIMES[-1]) == ()
