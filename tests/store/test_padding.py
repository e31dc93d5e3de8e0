"""Rows of any size leave nothing behind: cells keep their size, and names and values lie on pages of their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from vestige import Clock, Records, SqliteStore
from vestige.store import State, Terms, open_reader
from vestige.store.bucket import HEAD
from vestige.store.position import Position
from vestige.store.rows import pack_row_head
from vestige.store.sqlite.connection import PAGE, create_empty, select_pragmas, set_pragmas
from vestige.store.sqlite.padding import pad_body
from vestige.store.sqlite.page_scan import find_residue
from vestige.store.sqlite.rows import SqliteRows


@pytest.fixture
def rows() -> Iterator[SqliteRows]:
    with closing(create_empty()) as connection:
        set_pragmas(connection, Path("rows"), select_pragmas())
        yield SqliteRows(connection, Path("rows"))


def count_cell_bytes(image: bytes, page: int) -> set[int]:
    """The sizes of the cells of a leaf page, as far as they lie apart."""
    data = image[(page - 1) * PAGE : page * PAGE]
    count = int.from_bytes(data[3:5], "big")
    starts = sorted(int.from_bytes(data[8 + 2 * i : 10 + 2 * i], "big") for i in range(count))
    return {end - start for start, end in zip(starts, [*starts[1:], PAGE], strict=True)}


def test_cells_have_the_same_size_whatever_they_hold(rows: SqliteRows) -> None:
    """A payload of 2 MiB takes four bytes to say how long it is."""
    sizes = [0, 1, 50, 4_000, 8_100, 8_185, 8_190, 16_000, 40_000, 100_000, 1_000_000, 2_097_000, 3_000_000]
    (root,) = rows.connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'ledger'").fetchone()
    for size in sizes:
        body = b"x" * size
        rows.write("ledger", 1, pack_row_head("ledger", 1, 0, body), body)
        image = rows.connection.serialize()
        assert count_cell_bytes(image, root) == {498}
        assert (b"xxxx" in image[(root - 1) * PAGE : root * PAGE]) is False
        assert find_residue(image) == ()
    assert all(len(pad_body((bytes(HEAD), b"", bytes(n)))) >= n for n in range(9_000))


def test_rows_that_change_their_size_leave_nothing(rows: SqliteRows) -> None:
    """Values of two bytes each, so that a row that was overwritten would be found by any of its parts."""
    rng, held = np.random.default_rng(0), dict[int, int]()
    for row in range(1, 41):
        rows.write("subjects", row, pack_row_head("subjects", row, 0, b""), b"")
    for step in range(1, 1_501):
        row, size = int(rng.integers(1, 41)), int(rng.integers(0, 3)) * int(rng.integers(0, 3_000))
        body = step.to_bytes(4, "big") * size
        rows.write("subjects", row, pack_row_head("subjects", row, size, body), body)
        held[row] = step if size else 0
        if step % 50 == 0:
            image = rows.connection.serialize()
            assert find_residue(image) == ()
            words = np.frombuffer(image, ">u4")
            seen = words[(words > 0x100) & (words <= step)] if step > 0x100 else words[:0]
            assert set(seen.tolist()) <= {*held.values(), *range(len(image) // PAGE + 1)}


@pytest.mark.parametrize("columns", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_nothing_is_left_of_thousands_of_streams_that_change_and_go(tmp_path: Path, columns: int) -> None:
    """Their names, values, subjects and sources; and what is still there is found, so the scan can find it."""
    path, rng = tmp_path / "s.db", np.random.default_rng(columns)
    terms, alive, gone = Terms({}, columns, 64), dict[str, tuple[float, str, str]](), list[bytes]()
    with SqliteStore(path) as store:
        for turn in range(30):
            with store.transaction():
                for _ in range(40):
                    name = f"name-{rng.integers(10**9):09d}" if rng.random() < 0.6 or not alive else find(rng, alive)
                    if name in alive:
                        gone += canaries(alive[name])
                    value, who, source = float(rng.normal()), rng.bytes(16).hex(), f"/source-{rng.integers(10**9):09d}"
                    alive[name] = value, who, source
                    n = int(rng.integers(1, 60))
                    held = Records(np.arange(1, n + 1), np.full((n, columns), value), subjects=[who] * n)
                    store.write(name, terms, State(Clock(n), held, {source: Position(b"", 1)}))
            for name in [find(rng, alive) for _ in range(12)]:
                if name in alive:
                    store.remove(name)
                    gone += [name.encode(), *canaries(alive.pop(name))]
            if turn % 10 == 5:
                store.tidy()
            image = path.read_bytes()
            assert not [canary for canary in gone if canary in image]
            assert all(name.encode() in image and canaries(what)[1] in image for name, what in alive.items())
            assert find_residue(image) == ()
        assert store.count() == len(alive) > 300
        assert store._tables.about.buckets > 1
    assert open_reader(path).verify(canaries=gone[-50:]) == ()


def find(rng: np.random.Generator, alive: dict[str, tuple[float, str, str]]) -> str:
    """One of the streams."""
    return list(alive)[int(rng.integers(len(alive)))]


def canaries(planted: tuple[float, str, str]) -> list[bytes]:
    """What must be gone: a value, the first half of a pseudonym, which the index has too, and the name of a source."""
    value, who, source = planted
    return [np.float64(value).tobytes(), bytes.fromhex(who)[:8], source.encode()]


def test_a_foreign_connection_reads_names_without_values(tmp_path: Path) -> None:
    """A head and the names come before the values, so that listing streams reads few pages."""
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write("a", Terms({}, 1, 64), State(Clock(1), Records([1], [[0.5]])))
    with closing(sqlite3.connect(path)) as connection:
        ((head, names),) = connection.execute("SELECT head, names FROM buckets").fetchall()
    assert len(head) == HEAD
    assert names == b"\x01\x00\x16\x00\x00\x00a"
