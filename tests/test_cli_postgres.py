"""Commands on a store in PostgreSQL reach the streams that a live `vestige run` holds: it lends them, and goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from postgres import Database
from vestige import KeyedStreams, Mean, Stream
from vestige.cli import command
from vestige.errors import NoStoreError


@pytest.fixture(autouse=True)
def warm() -> None:
    """Kernels are compiled before a run has to lend its streams in time."""
    KeyedStreams(Mean(), retention=96).extend(["a"] * 100, [1.0] * 100, subjects=["b"] * 100)


def vestige(database: Database, name: str, *options: str) -> Result:
    words = [name, database.address, "--keyring", str(database.keyring), *options]
    return CliRunner().invoke(command, words)


def said(database: Database, name: str, *options: str) -> dict[str, object]:
    result = vestige(database, name, *options, "--wait", "60s", "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def make_rows(start: int, stop: int) -> str:
    return "".join(f"s{i % 3},{'ada' if i % 2 else 'bob'},{i}\n" for i in range(start, stop))


@contextmanager
def running(database: Database, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A run that was given 60 rows through a pipe, and waits for more."""
    words = ["-m", "vestige", "run", "-", "--column", "amount", "--subject", "who", "--retention", "96"]
    words += ["--store", database.address, "--keyring", str(database.keyring), *options]
    with subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        try:
            process.stdin.write("shop,who,amount\n" + make_rows(0, 60))
            process.stdin.flush()
            until = time.monotonic() + 60
            while not _has_streams(database):
                assert time.monotonic() < until, "the run has not written its streams within a minute"
                assert process.poll() is None
                time.sleep(0.1)
            yield process
        finally:
            process.kill()  # else the end of the block would wait for a run that waits for something else


def _has_streams(database: Database) -> bool:
    """Whether the run has made the store, and written streams, which it holds from then on."""
    try:
        return database.read().count() > 0
    except NoStoreError:
        return False


@pytest.mark.parametrize("options", [(), ("--by", "shop")])
def test_requests_reach_a_live_run(database: Database, options: tuple[str, ...]) -> None:
    with running(database, *options) as run:
        until = time.monotonic() + 60
        while said(database, "forget", "--subject", "ada", "--now")["unknown"]:  # its rows may still be in the pipe
            assert time.monotonic() < until
        names = database.read().snapshot().names
        assert said(database, "sweep")["troubles"] == {}
        if options:
            assert said(database, "remove", "--stream", "s1")["removed"] == ["s1"]
        out, problems = run.communicate(make_rows(60, 90), timeout=120)
        assert run.returncode == 0, problems
        assert "Taken: 90 rows" in out
    assert len(names) == (3 if options else 1)
    found = database.read().snapshot().all_streams()
    with database.open() as store:
        mark = store.pseudonym("ada")
    arrived = {name: state.clock.t for name, (_, state) in found.items()}
    assert arrived == ({"s0": 30, "s1": 10, "s2": 30} if options else {names[0]: 90})
    for _, state in found.values():
        held = state.retained
        assert not (held.subjects[held.values[:, 0] < 60] == mark).any(), "what came before the request is gone"
    assert vestige(database, "verify").exit_code == 0


def test_a_sweep_that_may_not_write_says_so(database: Database) -> None:
    with database.open() as store:
        Stream(Mean(), retention=96, seed=0, store=store.stream("a")).extend(range(100))
    role = f"reader_{database.schema}"
    database.ask(f"CREATE ROLE {role} LOGIN")
    try:
        database.ask(f"GRANT USAGE ON SCHEMA OURS TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA OURS TO {role}")
        reader = database.server.address(database.schema, user=role), "--keyring", str(database.keyring)
        swept = CliRunner().invoke(command, ["sweep", *reader])
        assert swept.exit_code == 2
        assert "the user may not do that" in swept.output
        assert CliRunner().invoke(command, ["verify", *reader]).exit_code == 0, "an auditor needs no more"
    finally:
        database.ask(f"DROP OWNED BY {role}; DROP ROLE {role}")
