"""What is wrong with the rows of a store: for each thing that can be, rows in which it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from vestige import Clock, MemoryStore, Records
from vestige.store import Position, State, Terms
from vestige.store.inspection import inspect_tables
from vestige.store.memory_rows import MemoryRows
from vestige.store.subject_index import find_prefix, make_pairs
from vestige.store.tables import Tables

NOW = datetime(2024, 2, 1, tzinfo=UTC)
TERMS = Terms({}, 1, 8, retention=8, max_age=timedelta(days=30))


def make() -> MemoryStore:
    store = MemoryStore()
    for i in range(5):
        held = Records([1, 2], [[1.0], [2.0]], times=["2024-02-01", "2024-02-01"], subjects=[None, f"{i + 1:02x}" * 16])
        store.write(f"s{i}", TERMS, State(Clock(2), held, {"x.csv": Position(b"1", 1)}))
    return store


def find(store: MemoryStore) -> list[str]:
    return list(inspect_tables(store._tables, NOW))


def test_rows_that_are_well() -> None:
    assert find(make()) == []


def put_byte(table: str, column: int, at: int) -> Callable[[MemoryRows, Tables], None]:
    """Put another byte somewhere, or one more at the end."""

    def change(rows: MemoryRows, _tables: Tables) -> None:
        parts = list(rows.read(table, 1) or ())
        part = parts[column]
        parts[column] = part + b"\1" if at < 0 else part[:at] + bytes([part[at] ^ 1]) + part[at + 1 :]
        rows.write(table, 1, *parts)

    return change


def change_head(_rows: MemoryRows, tables: Tables) -> None:
    row = tables.read_row(0)
    tables.write_row(0, replace(row.summary, due=5), row.names, row.entries)


def swap_entries(_rows: MemoryRows, tables: Tables) -> None:
    bucket = tables.buckets.read(0)
    bucket.names.reverse()
    bucket.entries.reverse()
    tables.buckets.write(bucket)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (put_byte("buckets", 0, 9), "row 1 of the table buckets is damaged"),
        (put_byte("buckets", 1, 0), "row 1 of the table buckets is damaged"),
        (put_byte("buckets", 2, 9), "stream 's0': a stored row is damaged"),
        (put_byte("buckets", 2, -1), "row 1 of the table buckets is not zero behind its streams"),
        (put_byte("terms", 1, 9), "row 1 of the table terms is damaged"),
        (put_byte("terms", 1, -1), "row 1 of the table terms is not zero behind what it holds"),
        (put_byte("subjects", 1, 0), "row 1 of the table subjects is damaged"),
        (put_byte("subjects", 1, -1), "row 1 of the table subjects is not zero behind what it holds"),
        (put_byte("sources", 0, 20), "stream 's0': a stored row is damaged"),
        (change_head, "row 1 of the table buckets has a head that does not say what its streams say"),
        (swap_entries, "row 1 of the table buckets is not in order"),
        (
            lambda _, tables: tables.change_subjects(make_pairs([], 0), make_pairs([99], 0)),
            "the index of subjects lists some that no stream has",
        ),
        (
            lambda _, tables: tables.change_subjects(make_pairs([find_prefix("01" * 16)], 0), make_pairs([], 0)),
            "the index of subjects lacks some that a stream has",
        ),
        (lambda _, tables: tables.add_streams(1, 0), "counts 6 streams, but there are 5"),
        (lambda _, tables: tables.add_streams(0, 1), "has another weight than its streams"),
        (
            lambda _, tables: tables.families.write_own(b"nobody", {}, {"y.csv": Position(b"1", 1)}),
            "the table sources has 6 rows, but only 5 belong to a sound stream",
        ),
    ],
)
def test_what_is_wrong_is_found(change: Callable[[MemoryRows, Tables], None], text: str) -> None:
    store = make()
    with store.transaction():
        change(store._rows, store._tables)
    store._tables.forget()
    assert any(text in found for found in find(store)), find(store)


def test_what_is_overdue_is_found_in_plain_entries_too() -> None:
    store = make()
    later = list(inspect_tables(store._tables, NOW + timedelta(days=30)))
    assert [text[:51] for text in later] == [f"stream 's{i}': 2 records are overdue, older than max_" for i in range(5)]
    held = Records([1], [[1.0]], times=["2024-02-01"])
    store.write("old", replace(TERMS, capacity=100), State(Clock(20), held))
    assert find(store) == ["stream 'old': 1 record is older than retention=8 rounds"]


def test_a_stream_in_another_bucket_is_found() -> None:
    store = make()
    with store.transaction():
        store._tables.reserve(10**5)
        bucket = next(row.bucket for row in store._tables.iterate_rows() if row.summary.streams)
        row = store._tables.read_row(bucket)
        other = (bucket + 1) % store._tables.about.buckets
        store._tables.write_row(other, row.summary, row.names, row.entries)
    assert any("has a stream that belongs elsewhere" in text for text in find(store))
