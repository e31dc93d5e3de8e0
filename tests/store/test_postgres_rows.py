"""Rows in PostgreSQL are read back as they were written, in their order, and savepoints undo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from postgres import Database
from vestige.store.postgres import rows as module
from vestige.store.postgres.rows import PostgresRows


@pytest.fixture
def rows(database: Database) -> Iterator[PostgresRows]:
    """The rows of a store, within a transaction."""
    with database.open() as store:
        connection = store._session.connection
        made = PostgresRows(connection)
        connection.begin(is_writer=True)
        yield made
        connection.roll_back()


def test_rows_are_read_in_order_page_by_page(rows: PostgresRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE", 7)
    written = {number: (b"h%d" % number, bytes([number % 256]) * 3_000) for number in (5, 1, *range(100, 130), 2**40)}
    rows.write_many("terms", written)
    assert list(rows.iterate("terms")) == sorted(written.items())
    assert list(rows.iterate("terms", ("body",))) == [(row, parts[1:]) for row, parts in sorted(written.items())]
    assert rows.read_column("terms", "head") == [(row, parts[0]) for row, parts in sorted(written.items())]
    assert rows.find_end("terms") == 2**40
    assert rows.read("terms", 100) == written[100]
    assert rows.read("terms", 100, ("body", "head")) == written[100][::-1]
    assert rows.read("terms", 99) is None
    rows.cut("terms", 110)
    assert rows.find_end("terms") == 109
    rows.cut("terms", 1)
    assert (rows.find_end("terms"), list(rows.iterate("terms"))) == (0, [])


def test_a_row_replaces_the_one_that_is_there(rows: PostgresRows) -> None:
    rows.write("sources", 3, b"one")
    rows.write("sources", 3, b"other")
    assert rows.read("sources", 3) == (b"other",)
    rows.write_many("sources", {3: (b"third",), 4: (b"\0" * 10,)})
    assert list(rows.iterate("sources")) == [(3, (b"third",)), (4, (b"\0" * 10,))]
    rows.write_many("sources", {})


def test_rows_that_were_read_ahead_are_forgotten_with_the_transaction(database: Database, rows: PostgresRows) -> None:
    connection = rows._connection
    rows.write_many("sources", dict.fromkeys(range(1, 5), (b"one",)))
    connection.commit()
    connection.begin(is_writer=True)
    rows.read_ahead("sources", [1, 2, 3, 9])
    rows.write("sources", 2, b"two")
    rows.read_ahead("sources", [1, 2, 3, 9])
    assert [rows.read("sources", row) for row in (1, 2, 9)] == [(b"one",), (b"two",), None]
    connection.commit()
    database.ask("UPDATE OURS.sources SET body = 'other'")
    connection.begin(is_writer=True)
    assert rows.read("sources", 3) == (b"other",)


def test_a_savepoint_undoes_what_failed(rows: PostgresRows) -> None:
    rows.write("sources", 1, b"one")
    with suppress(ValueError), rows.savepoint():
        rows.write("sources", 1, b"other")
        raise ValueError
    with rows.savepoint():
        rows.write("sources", 2, b"two")
    assert list(rows.iterate("sources")) == [(1, (b"one",)), (2, (b"two",))]
