"""Exports for SQL: the answers and the records of the store and nothing else, and no file is left half made."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import struct
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result

from reading import read_rows, read_streams
from troubled import KeepsHalf, damage, fill
from vestige import Bundle, Count, LinearRegression, Mean, Records, SqliteStore, Stream
from vestige.cli import command
from vestige.cli.export.contents import Deadline
from vestige.cli.export.databases import DuckdbDatabase, SqliteDatabase
from vestige.cli.export.layout import TABLES
from vestige.clock import Clock
from vestige.store import Receipt, State, Terms, open_reader
from vestige.store.ledger import Ledger
from vestige.store.paths import DRAFT

KINDS = ("sqlite", "duckdb")
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
PEOPLE = [f"person-{i}@example.org" for i in range(30)]
TIMES = ("requested", "due", "erased", "kept_until")
RNG = np.random.default_rng(7)


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute(sql).fetchall()
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Streams of several kinds and columns, one of which holds nothing any more; three requests are open."""
    path = tmp_path_factory.mktemp("export") / "s.db"
    people = [PEOPLE[i % 30] for i in range(400)]
    table = RNG.normal(size=(400, 2))
    table[::7, 1] = np.nan
    with SqliteStore(path) as opened:
        about = {"columns": ["amount"], "statistic": "mean"}
        mean = Stream(Mean(), retention=96, max_age=30 * DAY, seed=0, store=opened._place("shop's \udcff", about))
        mean.extend(table[:, 0], times=[NOW - 2 * DAY + i * timedelta(minutes=1) for i in range(400)], subjects=people)
        mean.forget(subject=PEOPLE[15])
        mean.forget(subject="nobody")
        metrics = Bundle({"amount": Mean(), "rating": [Mean(), Count()]})
        Stream(metrics, retention=256, seed=0, store=opened.stream("both")).extend(table)
        fit = Stream(LinearRegression(1), retention=256, seed=0, store=opened.stream("fit"))
        fit.extend(np.column_stack((table[:, 0], 2.0 * table[:, 0] + RNG.normal(size=400))))
        empty = Stream(Mean(), retention=96, store=opened.stream("empty"))
        empty.extend([1.0], subjects=["ada"])
        empty.forget(subject="ada", now=True)
    assert vestige("forget", path, "--subject", "nobody", "--reference", "T-1").exit_code == 0
    return path


@pytest.fixture(scope="module")
def exports(store: Path) -> dict[str, Path]:
    """Both kinds of databases, with what is said about them."""
    paths = {kind: store.with_name(f"out.{kind}") for kind in KINDS}
    result = vestige("export", store, "--sqlite", paths["sqlite"], "--duckdb", paths["duckdb"])
    assert result.exit_code == 0, result.output
    paths["sqlite"].with_suffix(".txt").write_text(result.stdout)
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_the_estimates_are_those_of_the_store(store: Path, exports: dict[str, Path], kind: str) -> None:
    found = query(exports[kind], "SELECT * FROM estimates")
    rows = read_rows(vestige("estimate", store, "--format", "json"))
    assert sorted(found) == sorted((row.pop("stream").replace("\udcff", "\\udcff"), *row.values()) for row in rows)
    assert {row[1] for row in found if row[0] == "both"} == {"amount:mean", "rating:mean", "rating:count"}
    assert {row[1] for row in found if row[0].startswith("shop")} == {"amount"}
    assert all(row[3] > 0.0 for row in found if row[0] == "fit")


def to_time(time: Any) -> datetime:
    return datetime.fromisoformat(time) if isinstance(time, str) else time


@pytest.mark.parametrize("kind", KINDS)
def test_the_records_are_those_of_the_store(store: Path, exports: dict[str, Path], kind: str) -> None:
    streams = read_streams(store)
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in streams}
    for name, *row in query(exports[kind], "SELECT * FROM records"):
        found[name.replace("\\udcff", "\udcff")].append(tuple(row))
    labels = {"both": ["amount", "rating"], "fit": ["value_1", "value_2"]}
    for name, (terms, state) in streams.items():
        held, rows, width = state.retained, found[name], terms.columns
        assert len(rows) == len(held) * width
        assert [row[5] for row in rows] == labels.get(name, ["amount"]) * len(held)
        values = np.array([row[6] for row in rows], np.float64).reshape(-1, width)  # null is nan
        firsts = list(zip(*rows[::width], strict=True))[:5] if rows else [()] * 5
        numbers, times, subjects, leaving, waiting = firsts
        again = Records(numbers, values, leaving, np.array([to_time(time) for time in times], "M8[us]"), subjects)
        assert again == held.without_numbers()
        assert np.array_equal(np.array(waiting, np.bool_), held.rounds > state.clock.last)
    assert any(row[3] for row in found["shop's \udcff"])
    assert any(row[4] for row in found["both"])
    assert any(row[6] is None for row in found["both"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_streams_and_receipts_are_those_of_the_store(store: Path, exports: dict[str, Path], kind: str) -> None:
    sql = "SELECT stream, policy, parameters, retention, max_age_seconds, t, since, held FROM streams"
    rows = {row[0].replace("\\udcff", "\udcff"): row[1:] for row in query(exports[kind], sql)}
    for name, (terms, state) in read_streams(store).items():
        policy, parameters, *others = rows.pop(name)
        assert {"name": policy, "parameters": json.loads(parameters)} == terms.policy
        age = None if terms.max_age is None else terms.max_age.total_seconds()
        assert others == [terms.retention, age, state.clock.t, state.clock.since, len(state.retained)]
    assert not rows
    given = json.loads(vestige("receipts", store, "--format", "json").stdout)
    found = query(exports[kind], "SELECT * FROM receipts")
    columns = query(exports[kind], "SELECT column_name FROM about WHERE table_name = 'receipts'")[1:]
    assert len(given) == 4
    for row, receipt in zip(found, given, strict=True):
        facts = dict(zip((name for (name,) in columns), row, strict=True))
        times = {name: None if facts[name] is None else to_time(facts[name]) for name in TIMES}
        assert {**facts, **{name: time and time.replace(tzinfo=UTC).isoformat() for name, time in times.items()}} == {
            **receipt,
            "stream": receipt["stream"] and receipt["stream"].replace("\udcff", "\\udcff"),
        }


@pytest.mark.parametrize("kind", KINDS)
def test_the_average_means_what_the_comment_says(tmp_path: Path, kind: str) -> None:
    values = RNG.exponential(size=1_936)
    with SqliteStore(tmp_path / "a.db") as opened:
        for name, n, channel in (("after", 1_920, "average"), ("later", 1_936, "average"), ("bits", 1_920, "bits")):
            stream = Stream(Mean(channel=channel), retention=96, seed=0, store=opened.stream(name))
            stream.extend(values[:n])
    assert vestige("export", tmp_path / "a.db", f"--{kind}", tmp_path / f"o.{kind}").exit_code == 0
    sql = """SELECT stream, AVG(records.value) - MAX(estimates.value), MAX(waiting) FROM records JOIN estimates
        USING (stream) GROUP BY stream"""
    found = {name: (off, waiting) for name, off, waiting in query(tmp_path / f"o.{kind}", sql)}
    error = values.std() / np.sqrt(len(values))
    assert found["after"] == (pytest.approx(0.0, abs=1e-12), False)
    assert found["later"][1]
    assert abs(found["later"][0]) > error  # sixteen that wait count as much as all that are encoded
    assert abs(found["bits"][0]) > error
    assert not found["bits"][1]


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_and_column_is_explained_inside(exports: dict[str, Path], kind: str) -> None:
    comments: dict[tuple[str, str | None], str] = {(table.name, None): table.comment for table in TABLES}
    comments |= {(table.name, column.name): column.comment for table in TABLES for column in table.columns}
    assert {row[:2]: row[2] for row in query(exports[kind], "SELECT * FROM about")} == comments
    if kind == "duckdb":
        said = query(exports[kind], "SELECT table_name, NULL, comment FROM duckdb_tables()")
        said += query(exports[kind], "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal")
        assert {row[:2]: row[2] for row in said} == comments
    else:
        texts = dict(query(exports[kind], "SELECT name, sql FROM sqlite_master"))
        assert set(texts) == {table.name for table in TABLES}
        assert all(f"-- {comment}\n" in texts[table] for (table, _), comment in comments.items())
    assert "AVG(value)" in comments["records", None]
    assert "delete" in comments["records", None]


def test_nothing_but_what_the_store_holds(tmp_path: Path) -> None:
    values = RNG.normal(size=300)
    with SqliteStore(tmp_path / "a.db") as opened:
        stream = Stream(Mean(), retention=64, seed=0, store=opened.stream("main"))
        stream.extend(values, subjects=[f"person-{i}@example.org" for i in range(300)])
        gone = ~np.isin(values, stream.retained.values)
        pseudonyms = [opened.pseudonym(f"person-{i}@example.org") for i in np.flatnonzero(gone)[-50:]]
        held = stream.retained.subjects[0].encode()
    targets = tmp_path / "o.sqlite", tmp_path / "o.duckdb"
    vestige("export", tmp_path / "a.db", "--sqlite", targets[0], "--duckdb", targets[1])
    assert gone.sum() > 200
    canaries = [b"example.org", *map(str.encode, pseudonyms), *map(bytes.fromhex, pseudonyms)]
    canaries += [struct.pack(order, value) for order in ("<d", ">d") for value in values[gone][-50:]]
    for path in targets:
        content = path.read_bytes()
        assert not [canary for canary in canaries if canary in content]
        assert struct.pack(">d" if path is targets[0] else "<d", stream.retained.values[0, 0]) in content
        assert held in content or path is targets[1]  # DuckDB compresses texts


def test_a_bad_stream_does_not_keep_others_from_being_exported(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as opened:
        for name, policy in {"a": None, "b": KeepsHalf(), "c": None, "d": None}.items():
            fill(opened, name, policy)
    damage(tmp_path / "s.db", "c")
    path = tmp_path / "o.sqlite"
    result = vestige("export", tmp_path / "s.db", "--sqlite", path)
    assert result.exit_code == 2
    assert "stream 'b': " in result.stderr
    assert "stream 'c': " in result.stderr
    assert query(path, "SELECT stream FROM streams") == [("a",), ("b",), ("c",), ("d",)]
    assert query(path, "SELECT stream FROM estimates WHERE problem IS NULL") == [("a",), ("d",)]
    assert query(path, "SELECT stream FROM estimates WHERE problem IS NOT NULL ORDER BY stream") == [("b",), ("c",)]
    assert query(path, "SELECT DISTINCT stream FROM records") == [("a",), ("b",), ("d",)]
    assert vestige("export", tmp_path / "s.db", "--stream", "a", "--sqlite", tmp_path / "a.sqlite").exit_code == 0
    assert query(tmp_path / "a.sqlite", "SELECT stream FROM streams") == [("a",)]


def test_a_damaged_ledger_does_not_keep_streams_from_being_exported(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = replace(open_reader(store).snapshot(), ledger=Ledger(), ledger_trouble="the ledger is damaged")
    monkeypatch.setattr("vestige.cli.export.command.read_snapshot", lambda *_, **__: damaged)
    result = vestige("export", store, "--sqlite", tmp_path / "o.sqlite")
    assert result.exit_code == 2
    assert "the ledger is damaged" in result.stderr
    assert query(tmp_path / "o.sqlite", "SELECT COUNT(*) FROM receipts WHERE stream IS NOT NULL") == [(3,)]
    assert query(tmp_path / "o.sqlite", "SELECT COUNT(*) FROM streams") == [(4,)]


def test_it_says_when_the_copy_must_be_deleted(store: Path, exports: dict[str, Path], tmp_path: Path) -> None:
    said = " ".join(exports["sqlite"].with_suffix(".txt").read_text().split())
    oldest = read_streams(store)["shop's \udcff"][1].retained.times.min().item() + 30 * DAY
    assert "THIS COPY HOLDS RECORDS, AND NOTHING ERASES THEM THERE" in said
    assert f"Delete out.sqlite and out.duckdb by the first of these: {oldest:%Y-%m-%d %H:%M:%S} UTC" in said
    assert query(exports["duckdb"], "SELECT MIN(delete_by) FROM streams") == [(oldest,)]
    facts = json.loads(vestige("export", store, "--sqlite", tmp_path / "o.sqlite", "--json").stdout)
    assert facts["delete_by"] == oldest.replace(tzinfo=UTC).isoformat()
    assert facts["delete_before_arrivals"]["stream"] == "shop's \udcff"
    with SqliteStore(tmp_path / "old.db") as opened:
        fill(opened, "main")
    said = " ".join(vestige("export", tmp_path / "old.db", "--sqlite", tmp_path / "p.sqlite").stdout.split())
    assert "Delete p.sqlite now: its oldest record was due at 2024-01-" in said
    nothing = vestige("export", store, "--stream", "empty", "--sqlite", tmp_path / "q.sqlite").stdout
    assert nothing == "q.sqlite: 1 stream, 1 estimate, 2 receipts, 0 records.\n"


def test_the_deadline_is_that_of_the_store() -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    times = np.datetime64(start.replace(tzinfo=None), "us") + np.arange(3) * np.timedelta64(1, "D")
    held = Records([5, 7, 9], np.zeros((3, 1)), [False, True, False], times)
    terms, clock = Terms({}, 1, 16, retention=16, max_age=10 * DAY), Clock(t=9)
    asked = Receipt("0" * 16, start, 9, 12)
    met = Receipt("1" * 16, start, 9, 10, erased=start, erased_round=9)
    assert Deadline.from_stream(terms, State(clock, held)) == Deadline(start + 10 * DAY, 21)
    assert Deadline.from_stream(terms, State(clock, held, receipts=(asked, met))) == Deadline(start + 10 * DAY, 12)
    assert Deadline.from_stream(Terms({}, 1, 16, max_age=DAY), State(clock, held)) == Deadline(start + DAY, None)


@pytest.mark.parametrize("kind", KINDS)
def test_only_an_earlier_export_is_overwritten(
    store: Path, exports: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    path, option = tmp_path / f"o.{kind}", f"--{kind}"
    shutil.copy(exports[kind], path)
    assert "exists; delete it" in vestige("export", store, option, path).stderr
    assert path.read_bytes() == exports[kind].read_bytes()
    left = path.with_name(path.name + {"sqlite": "-journal", "duckdb": ".wal"}[kind])
    left.touch()
    assert vestige("export", store, option, path, "--replace").exit_code == 0
    assert {file.name for file in tmp_path.iterdir()} == {path.name}
    assert path.stat().st_mode & 0o777 == 0o600
    left.touch()
    path.unlink()
    assert f"{left.name}: exists" in vestige("export", store, option, path).stderr
    left.unlink()
    make: Callable[[str], Any] = sqlite3.connect if kind == "sqlite" else duckdb.connect
    with closing(make(str(path))) as other:
        other.execute("CREATE TABLE about (comment INTEGER)")
    before = path.read_bytes()
    assert "is not an earlier export" in vestige("export", store, option, path, "--replace").stderr
    assert path.read_bytes() == before
    for name in (store.name, f"{store.name}.key", f"{store.name}-wal"):
        assert "a file of" in vestige("export", store, option, store.with_name(name), "--replace").stderr
    assert "two files" in vestige("export", store, "--sqlite", tmp_path / "x", "--duckdb", tmp_path / "x").stderr
    assert "give --sqlite FILE or --duckdb FILE" in vestige("export", store).stderr


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), duckdb.IOException("0.4711")])
def test_no_file_is_left_half_made(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    real = DuckdbDatabase._fill

    def fail(self: DuckdbDatabase, draft: Path, rows: Any) -> None:
        assert draft.parent.stat().st_mode & 0o777 == 0o700
        real(self, draft, rows)
        raise problem

    monkeypatch.setattr(DuckdbDatabase, "_fill", fail)
    result = vestige("export", store, "--duckdb", tmp_path / "o.duckdb")
    assert result.exit_code == 2
    assert f"{tmp_path / 'o.duckdb'}: " in result.stderr
    assert "4711" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_signal_waits_and_what_a_killed_process_left_is_removed(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / f"o.sqlite.0123456789abcdef{DRAFT}"
    left.mkdir()
    (left / "o.sqlite").write_text("half")
    real = SqliteDatabase._fill

    def fill_slowly(self: SqliteDatabase, draft: Path, rows: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        real(self, draft, rows)

    monkeypatch.setattr(SqliteDatabase, "_fill", fill_slowly)
    assert vestige("export", store, "--sqlite", tmp_path / "o.sqlite").exit_code == 128 + signal.SIGTERM
    assert [file.name for file in tmp_path.iterdir()] == ["o.sqlite"]
    assert query(tmp_path / "o.sqlite", "SELECT COUNT(*) FROM streams") == [(4,)]


def test_without_the_extra_it_says_what_to_install(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = vestige("export", store, "--sqlite", tmp_path / "o.sqlite", "--duckdb", tmp_path / "o.duckdb")
    assert "--duckdb needs the 'duckdb' extra; install it with: pip install 'vestige[duckdb]'" in result.stderr
    assert list(tmp_path.iterdir()) == []
