"""Requests beside a live writer: each is carried out once, whichever side is killed at whichever step."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limits import join, kill_late, wait
from reading import read_streams
from troubled import MAX_AGE, START, KeepsHalf, fill
from vestige import Mean, MemoryStore, SqliteStore, Stream
from vestige.errors import ParameterError, StoreError
from vestige.operations import Erasure, ForgetResult, RemoveResult, SweepResult, process_inbox, send_request
from vestige.store import Receipt, open_reader
from vestige.store.inbox import Inbox, Request


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SqliteStore(tmp_path / "s.db") as store:
        for name in ("a", "b"):
            fill(store, name)
    return tmp_path / "s.db"


def mark(path: Path, subject: str) -> str:
    with SqliteStore(path) as store:
        return store.pseudonym(subject)


def beside(path: Path) -> set[str]:
    return {file.name for file in path.parent.rglob("*") if ".inbox" in str(file)}


requests = st.builds(
    Request,
    st.sampled_from(["forget", "sweep", "remove"]),
    st.lists(st.binary(min_size=16, max_size=16).map(bytes.hex), max_size=3).map(tuple),
    st.lists(st.integers(1, 2**62), max_size=3).map(tuple),
    st.none() | st.lists(st.text(max_size=5), max_size=3).map(tuple),
    st.booleans(),
    st.none() | st.datetimes(timezones=st.just(UTC)),
)


@settings(max_examples=50)
@given(requests)
def test_requests_are_read_back(request: Request) -> None:
    assert Request.parse(request.text) == request


@settings(max_examples=50)
@given(st.text() | requests.map(lambda request: request.text[:-1]) | st.integers().map(str))
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="is not a request"):
        Request.parse(text)


def test_outcomes_are_read_back() -> None:
    receipt = Receipt("ab" * 8, START, 3, 9, START + MAX_AGE, None, None)
    for outcome in (
        SweepResult({"a": Erasure(3, restarted=True), "b": Erasure(0, closed=True)}, {"c": "is damaged"}, tidy=True),
        ForgetResult(
            (receipt, replace(receipt.mark_erased(4, receipt.requested), reference="T-1", keep=MAX_AGE)),
            (1, 2),
            ("b",),
            {"c": "no"},
        ),
        RemoveResult((0, 2), {"d": "is open"}),
    ):
        assert type(outcome).from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome


def test_the_writer_carries_it_out_on_its_open_streams(path: Path) -> None:
    who = mark(path, "person-9")
    with SqliteStore(path) as store:
        stream = fill_more(store)
        before = len(stream.retained)
        request = Request("forget", (who,), now=True)
        Inbox(path).leave(request)
        assert process_inbox(store).requests == (request.id,)
        assert store.live("a") is stream
        assert who not in stream.retained.subjects
        assert len(stream.retained) < before
        stream.push(1.0, time=START + timedelta(hours=130))
        done = send_request(path, Request("sweep", at=START), patience=0.0)
        assert done is None, "nobody attends"
        assert len(process_inbox(store).requests) == 1
    facts = Inbox(path).collect(request.id)
    assert facts is not None
    assert [receipt.erased_round for receipt in ForgetResult.from_dict(facts).receipts] == [220]


def fill_more(store: SqliteStore) -> Stream:
    stream = Stream(Mean(), retention=96, max_age=MAX_AGE, store=store.stream("a"))
    times = [START + timedelta(hours=100 + i) for i in range(20)]
    stream.extend(range(20), times=times, subjects=["person-9"] * 20)
    return stream


def test_nothing_is_said_to_be_done_that_is_not_in_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that fails, after the stream has carried the request out in memory."""
    who, request = mark(path, "person-9"), Request("forget", (mark(path, "person-9"),), streams=("a",), now=True)
    with SqliteStore(path) as store:
        stream = fill_more(store)
        store.flush()
        Inbox(path).leave(request)
        with monkeypatch.context() as patched:
            patched.setattr(type(store._tables.rows), "save_about", lambda _: failing())
            with pytest.raises(StoreError, match="disk is full"):
                process_inbox(store)
        assert who in read_streams(path)["a"][1].retained.subjects
        assert Inbox(path).collect(request.id) is None
        assert process_inbox(store).requests == (request.id,)
        assert who not in read_streams(path)["a"][1].retained.subjects
        assert who not in stream.retained.subjects


def failing() -> None:
    problem = sqlite3.OperationalError("database or disk is full")
    problem.sqlite_errorname = "SQLITE_FULL"
    raise problem


def test_a_reply_comes_from_a_thread_that_attends(path: Path) -> None:
    who, ended = mark(path, "person-9"), threading.Event()
    opened = threading.Event()

    def write() -> None:
        with SqliteStore(path) as store:
            opened.set()
            while not ended.wait(0.02):
                process_inbox(store)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    wait(opened, "the thread to begin")
    try:
        done = send_request(path, Request("forget", (who, "00" * 16), now=True), patience=30.0)
        swept = send_request(path, Request("sweep", at=START + timedelta(hours=100)), patience=30.0)
        with pytest.raises(ParameterError, match="there is no stream 'z'"):
            send_request(path, Request("forget", (who,), streams=("z",)), patience=30.0)
    finally:
        ended.set()
        join(thread)
    assert isinstance(done, ForgetResult)
    assert done.unknown == (1,)
    assert len(done.receipts) == 2
    assert isinstance(swept, SweepResult)
    assert set(swept.streams) == {"a", "b"}
    assert beside(path) == set()


def test_nobody_is_asked_for_nonsense(path: Path) -> None:
    for request in (None, 5, "sweep", object()):
        with pytest.raises(ParameterError, match="is not a request"):
            send_request(path, request, patience=0.0)  # type: ignore[arg-type]
    for patience in (None, -1.0, float("nan"), float("inf"), "1s", 10**400):
        with pytest.raises(ParameterError, match="patience="):
            send_request(path, Request("sweep"), patience=patience)  # type: ignore[arg-type]
    for nowhere in (None, b"x", path.parent / "no.db", path.parent):
        with pytest.raises((ParameterError, StoreError)):
            send_request(nowhere, Request("sweep"), patience=0.0)  # type: ignore[arg-type]
    assert not list(path.parent.glob("*.inbox"))
    assert not (path.parent / "no.db").exists()


def test_files_that_cannot_be_read_are_named_and_left(path: Path) -> None:
    good = Request("sweep", at=START + timedelta(hours=100))
    inbox = Inbox(path)
    inbox.leave(good)
    for name, text in {"00" * 8: "{", "11" * 8: good.text, "zz": "[]", "22" * 8: ""}.items():
        (inbox.folder / f"{name}.request").write_text(text)
    (inbox.folder / ("33" * 8 + ".request")).write_bytes(b"\xff\xfe")
    with SqliteStore(path) as store:
        done = process_inbox(store)
        assert done.requests == (good.id,)
        assert len(done.troubles) == 5
        assert all("is not a request that can be read" in text for text in done.troubles.values())
        assert process_inbox(store).troubles == done.troubles
    assert len(list(inbox.folder.glob("*.request"))) == 5


def test_a_folder_that_vanishes_is_made_again(path: Path) -> None:
    """Whoever empties the folder removes it, at any moment."""
    inbox, left, ended = Inbox(path), [Request("sweep") for _ in range(60)], threading.Event()

    def empty() -> None:
        while not ended.is_set():
            Inbox(path).clean()

    thread = threading.Thread(target=empty, daemon=True)
    thread.start()
    try:
        for request in left:
            inbox.leave(request)
            (inbox.folder / f"{request.id}.request").unlink()
    finally:
        ended.set()
        join(thread)


def test_a_full_disk_is_told_and_the_request_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    request = Request("forget", rounds=(1,), streams=("a",), now=True)
    with SqliteStore(path) as store:
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", fail)
            with pytest.raises(StoreError, match=r"s\.db\.inbox: cannot be .* \(No space left on device\); make room"):
                store.inbox.leave(request)
        assert store.inbox.requests() == ((), {})
        store.inbox.leave(request)
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", fail)
            with pytest.raises(StoreError, match="No space left on device"):
                process_inbox(store)
        assert store.inbox.requests() == ((request,), {})
        assert process_inbox(store).requests == (request.id,)
        assert len(open_reader(path).snapshot().ledger.receipts) == 1


def test_owner_only_and_pseudonyms_only(path: Path) -> None:
    who, inbox = mark(path, "person-9"), Inbox(path)
    old = os.umask(0)
    try:
        inbox.leave(Request("forget", (who,)))
    finally:
        os.umask(old)
    assert stat.S_IMODE(inbox.folder.stat().st_mode) == 0o700
    for file in inbox.folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "person-9" not in file.read_text()
    inbox.folder.chmod(0o770)
    with SqliteStore(path) as store:
        (trouble,) = process_inbox(store).troubles.values()
        assert "chmod 700" in trouble
        assert process_inbox(MemoryStore()).requests == ()


def test_old_replies_and_drafts_go(path: Path) -> None:
    inbox, request = Inbox(path), Request("sweep")
    inbox.leave(request)
    inbox.reply(request.id, {})
    (inbox.folder / "1234.draft").write_text("{")
    with SqliteStore(path) as store:
        process_inbox(store)
        assert len(beside(path)) == 3
        for file in inbox.folder.iterdir():
            os.utime(file, (time.time() - 4_000,) * 2)
        process_inbox(store)
    assert beside(path) == set()


def test_verify_finds_requests_that_nobody_carries_out(path: Path) -> None:
    now, inbox, request = START + timedelta(hours=100), Inbox(path), Request("sweep")
    inbox.leave(request)
    assert open_reader(path).verify(at=now) == (), "it has just been left"
    file = inbox.folder / f"{request.id}.request"
    os.utime(file, (time.time() - 100,) * 2)
    (found,) = open_reader(path).verify(at=now)
    assert f"request {request.id} (sweep) waits to be carried out" in found
    file.write_text("person-9")
    assert "is not a request that can be read" in open_reader(path).verify(at=now)[0]
    assert "canary 1 of 1 is in s.db.inbox/" in open_reader(path).verify(at=now, canaries=[b"person-9"])[-1]
    inbox.folder.chmod(0o755)
    assert "chmod 700" in open_reader(path).verify(at=now)[0]


def test_a_stream_that_is_open_is_removed_too(path: Path) -> None:
    with SqliteStore(path) as store:
        fill_more(store)
        request = Request("remove", streams=("a",))
        Inbox(path).leave(request)
        process_inbox(store)
        facts = Inbox(path).collect(request.id)
        assert facts is not None
        assert RemoveResult.from_dict(facts).streams == (0,)
        assert store.names() == ("b",)
        assert store.live("a") is None


WRITER = """
import os, signal, sys, time
from pathlib import Path
from vestige import SqliteStore
from vestige.operations import process_inbox
from vestige.operations import inbox as acts
from vestige.store.inbox import Inbox

path, step = sys.argv[1:]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name):
    action = getattr(owner, name)
    def killed(*a, **k):
        die()
    setattr(owner, name, killed)

def after(owner, name):
    action = getattr(owner, name)
    def killed(*a, **k):
        action(*a, **k)
        die()
    setattr(owner, name, killed)

if step == "before it": before(acts, "_act")
if step == "after it": after(acts, "_act")
if step == "after the reply": after(Inbox, "_write")
if step == "at the end": after(Inbox, "reply")
with SqliteStore(path) as store:
    print("open", flush=True)
    while True:
        process_inbox(store)
        time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("step", "policy"),
    [*((step, KeepsHalf()) for step in ("before it", "after it", "after the reply", "at the end")), ("after it", None)],
)
def test_a_writer_that_is_killed(tmp_path: Path, step: str, policy: KeepsHalf | None) -> None:
    """Whoever waits takes over, and what was done already is not done again."""
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store, "a", policy)
        who = store.pseudonym("person-9")
    command = [sys.executable, "-c", WRITER, str(path), step]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer, kill_late(writer):
        assert writer.stdout is not None
        writer.stdout.readline()
        done = send_request(path, Request("forget", (who,), now=True), patience=30.0)
        assert writer.wait() == -signal.SIGKILL
    assert isinstance(done, ForgetResult)
    (receipt,) = done.receipts
    assert receipt.erased is not None
    assert who not in read_streams(path)["a"][1].retained.subjects
    assert open_reader(path).snapshot().ledger.receipts == (receipt,), "carried out once"
    with SqliteStore(path) as store:
        process_inbox(store)
        assert store.terms("a")
    assert open_reader(path).snapshot().ledger.receipts == (receipt,)
    assert len(beside(path)) <= 2, "at most a reply that nobody waits for"


CLIENT = """
import os, signal, sys
from vestige.operations import send_request
from vestige.store.inbox import Inbox, Request

path, who, step = sys.argv[1:]
die = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
if step == "in the draft": os.fsync = die
if step == "when it lies there": Inbox.collect = die
if step == "before it reads the reply":
    collect = Inbox.collect
    Inbox.collect = lambda inbox, number: die() if (inbox.folder / (number + ".reply")).exists() else None
send_request(path, Request("forget", (who,), now=True), patience=30.0)
"""


@pytest.mark.parametrize("step", ["in the draft", "when it lies there", "before it reads the reply"])
def test_a_client_that_is_killed(path: Path, step: str) -> None:
    who = mark(path, "person-9")
    with SqliteStore(path) as store:
        with subprocess.Popen([sys.executable, "-c", CLIENT, str(path), who, step]) as client, kill_late(client):
            while client.poll() is None:
                process_inbox(store)
                time.sleep(0.01)
        assert client.returncode == -signal.SIGKILL
        process_inbox(store)
        held = {name: state.retained.subjects for name, (_, state) in read_streams(path).items()}
        assert any(who in subjects for subjects in held.values()) == (step == "in the draft")
