"""A query of PostgreSQL as a source: typed columns, each row once, whatever commits late and wherever it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from postgres import Database
from vestige import KeyedStreams, Mean, Stream, open_store
from vestige.cli import command
from vestige.errors import ParameterError, SourceError
from vestige.ingest import Ingest, StreamNames
from vestige.sources import Block, IfReplaced
from vestige.sources.columns import Columns
from vestige.sources.query import QuerySource
from vestige.sources.query import source as module
from vestige.sources.query.positions import QueryPosition
from vestige.store import Store
from vestige.store.postgres.address import Address

PATIENCE = 60.0
QUICK = 0.01
"""Seconds that rows wait, where nothing is committed late."""


class Table:
    """A table in a schema of its own, and runs over it."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.path = database, folder / "s.db"
        self.said: list[str] = []
        database.ask("CREATE SCHEMA OURS")
        database.ask(
            "CREATE TABLE OURS.visits (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v numeric, k text, "
            "who text, at timestamptz, day date, is_new boolean)"
        )
        self.query = f"SELECT * FROM {database.schema}.visits"  # noqa: S608

    @property
    def address(self) -> str:
        return self.database.address.partition("&schema")[0]

    def add(self, rows: Sequence[tuple[object, object]]) -> None:
        with self.database.server.connect() as connection, connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {self.database.schema}.visits (v, k) VALUES (%s, %s)".encode(), rows)  # noqa: S608

    def source(self, columns: Columns | None = None, **options: Any) -> QuerySource:
        given: dict[str, Any] = {
            "query": self.query,
            "cursor": "id",
            "settle": QUICK,
            "warn": self.said.append,
        } | options
        return QuerySource(
            Address.parse(self.address), columns=columns or Columns(("v",), None, None, ("k",), None), **given
        )

    def make(self, store: Store, if_replaced: IfReplaced = "refuse", **options: Any) -> Ingest:
        stop = options.pop("is_stopped", lambda: False)
        source = self.source(**options)
        if not source.columns.by:
            return Ingest(
                source,
                lambda name: Stream(Mean(), retention=96, seed=1, store=store.stream(name)),
                store=store,
                if_replaced=if_replaced,
                is_stopped=stop,
            )
        streams = KeyedStreams(Mean(), retention=96, seed=1, store=store.family())
        return Ingest(source, streams, StreamNames("k"), store, if_replaced, is_stopped=stop)

    def run(self, if_replaced: IfReplaced = "refuse", **options: Any) -> Ingest:
        with open_store(self.path) as store:
            ingest = self.make(store, if_replaced, **options)
            ingest.run()
            return ingest


@pytest.fixture
def table(database: Database, tmp_path: Path) -> Table:
    return Table(database, tmp_path)


SINGLE, BY_KEY = Columns(("v",), None, None, (), None), Columns(("v",), None, None, ("k",), None)


@pytest.mark.parametrize("columns", [SINGLE, BY_KEY], ids=["single", "by key"])
def test_each_row_is_taken_once_over_several_runs(table: Table, columns: Columns) -> None:
    table.add([(i, f"key {i % 3}") for i in range(250)])
    assert table.run(columns=columns).taken == 250
    assert table.run(columns=columns).taken == 0
    table.add([(i, None if i % 5 == 0 else "a") for i in range(50)] + [(None, "a")] * 2)
    ingest = table.run(columns=columns)
    assert (ingest.taken, ingest.skipped) == ((40, 12) if columns.by else (50, 2))
    again = table.run(columns=columns)
    assert (again.taken, again.skipped) == (0, 0)


def test_types_become_numbers_times_and_texts(table: Table) -> None:
    table.database.ask(
        "INSERT INTO OURS.visits (v, k, who, at, day, is_new) VALUES (1.5, 'a', 'ada', '2024-05-31 12:30+02', "
        "'2024-05-31', true), (NULL, 'b', NULL, 'infinity', NULL, NULL), ('NaN', 'c', 'bob', '2024-06-01', "
        "'infinity', false)"
    )

    def read(columns: Columns) -> Block:
        (block,) = table.source(columns).blocks()
        return block

    block = read(Columns(("v", "is_new", "id"), "at", "who", ("k", "day"), None, keep_missing=True))
    np.testing.assert_array_equal(block.rows, [[1.5, 1.0, 1.0], [np.nan, 0.0, 3.0]])  # the second has no time
    assert block.times is not None
    assert block.times.tolist()[0] == datetime(2024, 5, 31, 10, 30)
    assert block.keys is not None
    assert block.keys.tolist() == ["a/2024-05-31", "c/infinity"]
    assert block.skipped == 1
    block = read(
        Columns(("v", "is_new"), None, "who", (), None, keep_missing=True, categories={"is_new": ("true", "false")})
    )
    np.testing.assert_array_equal(block.rows, [[1.5, 0.0], [np.nan, np.nan], [np.nan, 1.0]])
    assert block.subjects is not None
    assert block.subjects.tolist() == ["ada", None, "bob"]
    block = read(Columns(("v",), "day", None, (), None, keep_missing=True))
    assert block.times is not None
    assert block.times.tolist() == [datetime(2024, 5, 31)]


@pytest.mark.parametrize("cursor", ["id", "at", "day", "naive", "small"])
def test_the_cursor_may_be_a_number_or_a_time(table: Table, cursor: str) -> None:
    query = (
        f"SELECT v, id, id::int2 AS small, '2024-05-31'::date + id::int AS day, "  # noqa: S608
        f"'1969-12-31 23:59:59.999998Z'::timestamptz + id * interval '1 us' AS at, "
        f"'2024-05-31'::timestamp + id * interval '1 s' AS naive FROM "
        f"{table.database.schema}.visits -- the end"
    )
    for _ in range(3):
        table.add([(1, None)] * 4)
        assert table.run(columns=SINGLE, cursor=cursor, query=query).taken == 4
    assert table.run(columns=SINGLE, cursor=cursor, query=query).taken == 0


def test_a_row_that_is_committed_late_is_not_lost(table: Table) -> None:
    with table.database.server.connect() as late:
        late.execute(b"BEGIN")
        late.execute(f"INSERT INTO {table.database.schema}.visits (v, k) VALUES (1, 'late')".encode())  # noqa: S608
        table.add([(2, "early")])  # a larger number, committed first
        done: list[Ingest] = []
        reader = threading.Thread(target=lambda: done.append(table.run()))
        reader.start()
        time.sleep(0.5)
        assert not done
        late.execute(b"COMMIT")
        reader.join(PATIENCE)
    assert done[0].taken == 2
    assert table.run().taken == 0


def test_a_transaction_that_does_not_end_is_said(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    table.add([(1, "a")])
    with table.database.server.connect() as late:
        late.execute(b"BEGIN")
        late.execute(f"INSERT INTO {table.database.schema}.visits (v, k) VALUES (1, 'late')".encode())  # noqa: S608
        with pytest.raises(SourceError, match="a transaction on the server has run for more than"):
            table.run()
        late.execute(b"ROLLBACK")
    assert table.run().taken == 1


@pytest.mark.parametrize("columns", [SINGLE, BY_KEY], ids=["single", "by key"])
def test_a_run_that_is_stopped_at_any_block_goes_on(
    table: Table, columns: Columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 7)
    values = [(i, f"key {i % 3}") for i in range(100)]
    table.add(values)
    for blocks in (1, 3, 2, 5, 4, 20):
        left = [blocks]

        def count(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] <= 0

        table.run(columns=columns, is_stopped=count)
    with open_store(table.path) as store:
        assert store.count_arrived()[0] == 100
        if not columns.by:
            expected = Stream(Mean(), retention=96, seed=1)
            expected.extend([float(value) for value, _ in values])
            stream = Stream(Mean(), retention=96, seed=1, store=store.stream("main"))
            assert stream.retained.values.tolist() == expected.retained.values.tolist()


def test_ties_are_refused_and_nothing_is_guessed(table: Table) -> None:
    schema = table.database.schema
    table.add([(i, "a") for i in range(4)])
    query = f"SELECT id / 2 AS half, v FROM {schema}.visits"  # noqa: S608
    with pytest.raises(SourceError, match=r"two rows have the same value in --cursor half.*primary key"):
        table.run(columns=SINGLE, query=query, cursor="half")
    table.run(columns=SINGLE)
    table.database.ask("ALTER TABLE OURS.visits DROP CONSTRAINT visits_pkey")
    table.database.ask("INSERT INTO OURS.visits (id, v) OVERRIDING SYSTEM VALUE VALUES (4, 9)")
    with pytest.raises(SourceError, match="two rows have the same value"):
        table.run(columns=SINGLE)


def test_another_query_or_rows_that_begin_anew_are_refused(table: Table) -> None:
    table.add([(i, "a") for i in range(4)])
    table.run(columns=SINGLE)
    assert table.run(columns=SINGLE, query=f" {table.query} ;").taken == 0
    other = f"{table.query} WHERE v > 0"
    with pytest.raises(SourceError, match=r"the query is another one.*--if-replaced continue.*nothing was taken"):
        table.run(columns=SINGLE, query=other)
    table.add([(5, "a")])
    assert table.run("continue", columns=SINGLE, query=other).taken == 1
    assert table.run(columns=SINGLE, query=other).taken == 0
    assert table.run("restart", columns=SINGLE).taken == 5
    table.database.ask("TRUNCATE OURS.visits RESTART IDENTITY")
    table.add([(i, "a") for i in range(2)])
    with pytest.raises(SourceError, match="the largest value of --cursor id is below what was read"):
        table.run(columns=SINGLE)
    assert table.run("continue", columns=SINGLE).taken == 0
    table.add([(7, "a")])
    assert table.run(columns=SINGLE).taken == 1


def test_a_query_that_is_followed_waits_for_rows_and_for_the_server(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY", 0.05)
    table.add([(1, "a")])
    with open_store(table.path) as store:
        ingest: Ingest = table.make(store, follow=True, is_stopped=lambda: ingest.taken >= 3)

        def act(taken: int, _: int, acted: list[int] = []) -> None:  # noqa: B006
            if taken not in acted:
                acted.append(taken)
                if taken == 1:
                    table.database.end_sessions()
                table.add([(taken, "a")])

        ingest.run(act)
        assert ingest.taken == 3
    assert "connection to the server was lost" in table.said[0]
    assert "connected again" in table.said[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"query": "SELECT nothing"}, "column .nothing. does not exist|nothing"),
        ({"query": "SELECT 1 AS id, 'secret' AS v"}, "'v' is not numeric"),
        ({"query": "SELECT 'secret'::int AS v, 1 AS id"}, "refuses a value|invalid"),
        ({"query": "SELECT 'secret' AS id, 1 AS v"}, "neither a whole number nor a time"),
        ({"query": "SELECT 1 AS id, 'infinity'::float8 AS v"}, "infinite value"),
        ({"query": "SELECT 1 AS x, 1 AS v"}, "has no column 'id'"),
        ({"query": "DELETE FROM pg_class"}, "syntax error"),
    ],
)
def test_what_cannot_be_read_is_said_without_a_value(table: Table, options: dict[str, str], said: str) -> None:
    with pytest.raises(SourceError, match=said) as caught:
        list(table.source(SINGLE, **options).blocks())
    assert "secret" not in str(caught.value)


def test_an_empty_query_is_refused(table: Table) -> None:
    with pytest.raises(ParameterError, match="--query is empty"):
        table.source(query=" ; ")


def vestige(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def test_the_command_reads_a_query_and_shows_no_password(table: Table) -> None:
    table.add([(i, "a") for i in range(100)])
    options = ["--query", table.query, "--cursor", "id", "--column", "v", "--retention", 96, "--store", table.path]
    first = vestige("run", table.address, *options, "--json")
    assert first.exit_code == 0, first.output
    assert '"t": 100' in first.stdout
    again = vestige("run", table.address, *options)
    assert "Taken: 0 rows" in again.output
    port = table.database.server.port
    refused = vestige("run", f"postgresql://ada:s3cret@127.0.0.1:{port}/postgres", *options)
    assert refused.exit_code == 2
    assert "s3cret" not in refused.output
    assert "refuses the user" in refused.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["postgresql://host/db"], "a database needs --query and --cursor"),
        (["postgresql://h/d?schema=s", "--query", "SELECT 1", "--cursor", "a"], "schema in the address is for stores"),
        (["a.csv", "--query", "SELECT 1"], "--query needs the address of a database"),
        (["redis://h/0/s", "--cursor", "id"], "--cursor needs the address of a database"),
        (["a.csv", "--trim"], "--trim needs a queue"),
        (["redis://h/0/s", "--trim"], "--trim needs a queue"),
        (["a.csv", "--follow"], "--follow and --no-follow need a queue"),
        (["redis://h/0/s", "a.csv"], "beside other sources"),
        (["redis://u:s3cret@h/s"], "is not one of the form redis://"),
    ],
)
def test_options_that_do_not_fit_the_source_are_refused(words: list[str], said: str) -> None:
    result = vestige("run", *words, "--column", "v", "--retention", "96")
    assert result.exit_code == 2
    assert said in result.output
    assert "s3cret" not in result.output


def test_positions_compare_as_values_do() -> None:
    made = [
        QueryPosition(generation=g, value=v, kind=k) for g in (0, 1) for v, k in ((None, b""), (-5, b"i"), (3, b"i"))
    ]
    assert [QueryPosition.decode(each.encode()) for each in made] == made
    assert sorted(made, key=lambda each: each.order) == made
    with pytest.raises(ParameterError, match="not one of a query"):
        QueryPosition.decode(b"other")
