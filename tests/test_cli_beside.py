"""Commands beside a process that holds the store: it is asked, and nothing is lost where it does not answer."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from limits import join, wait
from reading import read_streams
from troubled import MAX_AGE, START, fill
from vestige import Mean, SqliteStore, Stream
from vestige.cli import command
from vestige.operations import ForgetResult, InboxResult, process_inbox, send_request
from vestige.store.inbox import Inbox, Request

NOW = (START + timedelta(hours=100)).isoformat()


def vestige(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], input=stdin)


def said(*arguments: object, stdin: str | None = None) -> Any:
    result = vestige(*arguments, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    assert "asking the process that holds it" in result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SqliteStore(tmp_path / "s.db") as store:
        for name in ("a", "b"):
            fill(store, name)
    return tmp_path / "s.db"


@contextmanager
def held(path: Path, *, attending: bool) -> Iterator[Stream]:
    """A writer with the stream `mine` open, whose records are not in the file yet."""
    opened, ended, streams = threading.Event(), threading.Event(), []

    def write() -> None:
        with SqliteStore(path) as store:
            streams.append(Stream(Mean(), retention=96, store=store.stream("mine")))
            streams[0].extend(range(20), subjects=["person-9", "person-8"] * 10)
            opened.set()
            while not ended.wait(0.02):
                if attending:
                    process_inbox(store)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    wait(opened, "the thread to begin")
    try:
        yield streams[0]
    finally:
        ended.set()
        join(thread)


def holders(path: Path, subject: str) -> set[str]:
    """The streams that hold records of a subject."""
    with SqliteStore(path) as store:
        mark = store.pseudonym(subject)
    return {name for name, (_, state) in read_streams(path).items() if mark in state.retained.subjects}


def test_a_list_is_carried_out_by_the_writer(path: Path) -> None:
    with held(path, attending=True) as stream:
        done = said("forget", path, "--subjects-from", "-", "--now", stdin="person-9\nnobody\n")
        assert not (stream.retained.rounds % 2).any(), "also what it has not written yet"
        assert not list(path.parent.glob("*.inbox"))
    assert [receipt["subject"] for receipt in done["receipts"]] == [f"line {n} of standard input" for n in (1, 2)]
    assert all(receipt["erased"] for receipt in done["receipts"])
    assert done["unknown"] == ["line 2 of standard input"]
    assert json.loads(vestige("receipts", path, "--format", "json").stdout)


def test_a_sweep_and_a_removal_too(path: Path) -> None:
    later = (START + MAX_AGE + timedelta(days=30)).isoformat()
    with held(path, attending=True):
        done = said("sweep", path, "--at", later)
        assert done["erased"]["a"]
        assert done["erased"]["b"]
        assert said("remove", path, "--stream", "a")["removed"] == ["a"]
        assert "there is no stream 'x'" in vestige("remove", path, "--stream", "x").stderr
        assert said("remove", path, "--stream", "mine")["removed"] == ["mine"]
    assert set(read_streams(path)) == {"b"}


def test_dry_runs_ask_nobody(path: Path) -> None:
    with held(path, attending=False):
        shown = json.loads(vestige("forget", path, "--subject", "person-9", "--dry-run", "--json").stdout)
        assert shown["records"].keys() == {"a", "b"}
        assert json.loads(vestige("sweep", path, "--dry-run", "--json").stdout)["restarted"] == ["a", "b"]
    assert not list(path.parent.glob("*.inbox"))


def test_what_nobody_answers_is_left_and_carried_out_by_the_next(path: Path) -> None:
    with held(path, attending=False):
        result = vestige("forget", path, "--subject", "person-9", "--now", "--wait", "0.2s")
        assert result.exit_code == 2
        found = re.search(r"Request ([0-9a-f]{16}) remains for it, or for the next command", result.stderr)
        assert found
        (file,) = (path.parent / "s.db.inbox").iterdir()
        assert file.stem == found[1]
        assert "person-9" not in file.read_text()
    assert holders(path, "person-9") == {"a", "b", "mine"}
    assert vestige("sweep", path, "--at", NOW).exit_code == 0
    assert holders(path, "person-9") == set()
    given = json.loads(vestige("receipts", path, "--format", "json").stdout)
    assert [receipt["erased"] is not None for receipt in given] == [True]


@pytest.mark.parametrize("streams", [["a", "b"], ["b"]])
def test_what_cannot_be_done_of_a_left_request_is_named(path: Path, streams: list[str]) -> None:
    """Its reply may be read by nobody; so whoever attends to it says it, and does all that can be done."""
    names = [text for name in streams for text in ("--stream", name)]
    with held(path, attending=False):
        for asked in (["remove", path, "--stream", "b"], ["forget", path, *names, "--subject", "person-9", "--now"]):
            assert "remains for it" in vestige(*asked, "--wait", "0.2s").stderr
            time.sleep(0.02)  # requests are carried out in the order of the times of their files
    done = vestige("sweep", path, "--at", NOW)
    assert done.exit_code == 2, done.output
    assert re.search(r"request [0-9a-f]{16} \(forget\)[^\n]*: there is no (such )?stream", done.stderr), done.stderr
    assert "'b'" in done.stderr
    assert holders(path, "person-9") == {"a", "mine"} - set(streams)
    assert vestige("sweep", path, "--at", NOW).exit_code == 0


def test_a_run_names_what_cannot_be_done_of_a_left_request_too(path: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n" + "1\n2\n" * 30)
    Inbox(path).leave(lost := Request("forget", ("00" * 16,), streams=("z",)))
    run = ("run", tmp_path / "x.csv", "--column", "x", "--retention", 96, "--store", path)
    done = vestige(*run)
    assert done.exit_code == 2, done.output
    assert f"request {lost.id} (forget): there is no stream 'z'; there is" in done.stderr
    assert vestige(*run).exit_code == 0


def test_what_is_wrong_with_requests_of_others_is_said_by_who_asks_last(path: Path) -> None:
    other = Request("forget", ("00" * 16,), streams=("z",))
    told: list[InboxResult] = []
    Inbox(path).leave(other)
    done = send_request(path, Request("forget", ("00" * 16,), streams=("a", "y")), patience=30.0, tell=told.append)
    assert isinstance(done, ForgetResult)
    assert set(done.troubles) == {"y"}
    assert [set(attended.troubles) for attended in told] == [{f"request {other.id} (forget)"}]


def test_a_wrong_key_is_said_before_anything_is_left(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.key"
    other.write_bytes(bytes(range(32)))
    with held(path, attending=False):
        result = vestige("forget", path, "--subject", "person-9", "--key", other)
        assert result.exit_code == 2
        assert "is not the key of this store" in result.stderr
    assert not list(path.parent.glob("*.inbox"))
