"""Stores in PostgreSQL as the code of schemas 1 and 2 wrote them, dumped as SQL, with their keyrings.

Each has the stream `delays` (thirty records of five subjects), the streams DE, FR and IT of a family, and fences.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from old_stores import FIXTURES
from postgres import Database
from vestige import KeyedStreams, Mean, Stream
from vestige.errors import StoreError
from vestige.store import KeyringFile
from vestige.store.opener import SECRET
from vestige.store.postgres.schema import VERSION
from vestige.store.service_notes import ServiceNotes
from vestige.store.taken_requests import TakenRequest

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


def restore(database: Database, version: int) -> None:
    """Put the store of a version in place of what is there."""
    database.drop()
    for ending in ("", ".key"):
        target = Path(f"{database.keyring}{ending}")
        shutil.copyfile(FIXTURES / f"postgres{version}.keyring{ending}", target)
        target.chmod(0o600)
    database.ask((FIXTURES / f"postgres{version}.sql").read_text())


def check_store(database: Database) -> None:
    """All is there, and can be written."""
    with database.open() as store:
        assert store.names() == ("DE", "FR", "IT", "delays")
        stream = Stream(Mean(), retention=192, seed=0, store=store.stream("delays"))
        assert (stream.t, stream.estimate().value) == (30, 14.5)
        read = store.read_stream("delays")
        assert read is not None
        assert np.count_nonzero(read[1].retained.subjects == store.pseudonym("person 3")) == 6
        streams = KeyedStreams(Mean(), retention=96, seed=0, store=store.family())
        assert [streams.estimate(key).value for key in ("DE", "FR", "IT")] == [9.0, 10.0, 11.0]
        stream.push(14.5)
        notes = ServiceNotes(store)
        notes.write_definition("visits", {"retention": 96})
        notes.note_requests([TakenRequest(bytes(16), bytes(8), NOON, (1, 0, 0, 0))])
        store.flush()
        store.tidy()
    with database.open() as store:
        assert Stream(Mean(), retention=192, seed=0, store=store.stream("delays")).t == 31
        assert ServiceNotes(store).read_definitions() == {"visits": {"retention": 96}}
        assert ServiceNotes(store).count_requests() == 1
    assert database.read().verify(at=NOON) == ()
    assert KeyringFile(database.keyring).verify() == ()


def test_it_is_brought_up_to_date(database: Database, version: int) -> None:
    restore(database, version)
    fences = database.ask("SELECT id FROM OURS.fences ORDER BY id")
    assert len(fences) == 4, "the fixture has some"
    before = KeyringFile(database.keyring).read().find(SECRET)
    assert bool(before) == (version > 1)
    with pytest.raises(
        StoreError, match=rf"has version {version} .* reads version {VERSION}; open it once for writing"
    ):
        database.read()
    assert database.ask("SELECT version FROM OURS.store") == [(version,)], "a reader changes nothing"
    with database.open():
        assert database.ask("SELECT version FROM OURS.store") == [(VERSION,)]
        assert database.ask("SELECT id FROM OURS.fences ORDER BY id") == (fences if version > 1 else [])
    after = KeyringFile(database.keyring).read().find(SECRET)
    assert len(after) == 1
    assert version == 1 or after == before
    check_store(database)


def kill_at(number: int, action: Callable[[], object]) -> bool:
    """Do something in a process that is killed before it changes the database or the keyring; whether it was."""
    child = os.fork()
    if not child:
        left = [number]

        def count(do: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any, **options: Any) -> Any:
                left[0] -= not str(arguments[1]).startswith("SELECT")
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return do(*arguments, **options)

            return counted

        psycopg.Cursor.execute = count(psycopg.Cursor.execute)  # type: ignore[method-assign]
        os.pwrite = count(os.pwrite)
        try:
            action()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_a_process_that_is_killed_meanwhile_leaves_it_whole(database: Database) -> None:
    killed = 0
    while True:
        restore(database, 1)
        if not kill_at(2 * killed + 1, lambda: database.open().close()):
            break
        killed += 1
        with database.open() as store:
            assert store.names() == ("DE", "FR", "IT", "delays")
    assert 10 < killed < 50
    check_store(database)
