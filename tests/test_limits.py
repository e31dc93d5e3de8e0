"""What tests wait for has an end: a server that does not start, a thread that does not end, a session that was left."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest

import limits
import postgres
from postgres import Database
from store.served import HOST, Nursery, Served


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.5)


def test_a_thread_that_does_not_end_is_named() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, name="a sleeper", daemon=True)
    thread.start()
    with pytest.raises(AssertionError, match=r"a sleeper has not ended within 0\.5 s"):
        limits.join(thread)
    with pytest.raises(AssertionError, match="in vain for its end"):
        limits.wait(ended, "its end")
    ended.set()
    limits.join(thread)


def test_a_process_that_says_nothing_is_killed() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, limits.kill_late(process):
        assert process.stdout is not None
        assert process.stdout.readline() == ""


def test_a_server_whose_port_was_taken_meanwhile_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that forks keeps the pipe open on which the server would say where it listens."""
    monkeypatch.setattr(limits, "SECONDS", 20.0)
    with Nursery() as nursery, socket.create_server((HOST, 0)) as other:
        served = Served(tmp_path, nursery)
        served.start()
        served.stop()
        monkeypatch.setattr(limits, "SECONDS", 1.0)
        with pytest.raises(AssertionError, match="Address already in use"):
            served.start(port=other.getsockname()[1])


def test_a_store_that_was_left_open_is_named(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_LEFT", "100ms")
    database.open().close()
    with psycopg.connect(database.address.replace(f"&schema={database.schema}", "&application_name=vestige")) as left:
        left.execute(f"LOCK TABLE {database.schema}.about IN ACCESS SHARE MODE")
        with pytest.raises(RuntimeError, match="has left a store open in a transaction"):
            database.drop()
        assert database.ask("SELECT 1 FROM pg_namespace WHERE nspname = 'OURS'") == []
        left.close()
