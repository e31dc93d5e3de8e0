"""Stores with one stream in trouble, and others that must not suffer from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from vestige import Clock, Mean, Policy, Records, SqliteStore, Stream
from vestige.store import Store
from vestige.store.bucket import BUCKET, find_bucket
from vestige.store.sqlite.rows import SqliteRows
from vestige.store.tables import Tables
from vestige.types import Bools

START = datetime(2024, 1, 1, tzinfo=UTC)
MAX_AGE = timedelta(days=10)


@dataclass(frozen=True)
class KeepsHalf(Policy):
    """A policy of one's own: no store can make it from its name."""

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        """Keep every other arrival."""
        keep = (arrivals.rounds % 2 == 0) & ~arrivals.leaving
        return np.concatenate((np.zeros(len(retained), np.bool_), keep))

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        """Say what is left."""
        return float(retained.values.mean())


def fill(store: Store, name: str, policy: Policy | None = None, n: int = 100, start: datetime = START) -> Stream:
    """A stream of records an hour apart, of ten people."""
    stream = Stream(policy or Mean(), retention=96, max_age=MAX_AGE, store=store.stream(name))
    times = [start + timedelta(hours=i) for i in range(n)]
    stream.extend(np.arange(float(n)), times=times, subjects=[f"person-{i % 10}" for i in range(n)])
    return stream


def spread(path: Path) -> None:
    """Give a store so many buckets that each of a few streams is alone in its own."""
    with SqliteStore(path) as store, store.transaction():
        store._tables.reserve(128 * BUCKET)


def find_entry(connection: sqlite3.Connection, path: Path, name: str) -> tuple[int, int, bytes]:
    """Where a stream lies: its row, where its entry starts in the body, and the entry."""
    connection.text_factory = bytes
    tables = Tables(SqliteRows(connection, path))
    bucket = tables.buckets.read(find_bucket(name.encode(), tables.about.buckets))
    at = bucket.names.index(name.encode())
    return bucket.bucket + 1, sum(map(len, bucket.entries[:at])), bucket.entries[at]


def change_entry(path: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """Put other bytes, as many, where the entry of a stream is; nothing else is changed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        row, start, entry = find_entry(connection, path, name)
        (body,) = connection.execute("SELECT body FROM buckets WHERE id = ?", (row,)).fetchone()
        changed = change(entry)
        assert len(changed) == len(entry)
        body = body[:start] + changed + body[start + len(entry) :]
        connection.execute("UPDATE buckets SET body = ? WHERE id = ?", (body, row))


def flip_middle(content: bytes) -> bytes:
    """The same with one bit changed in the middle."""
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]


def damage(path: Path, name: str) -> None:
    """Change a bit in the middle of what a stream holds."""
    change_entry(path, name, flip_middle)


def lose_name(path: Path, name: str, how: str = "UPDATE buckets SET names = x'00'") -> str:
    """Damage the row that has a stream's name; what is said of it then."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        row, _, _ = find_entry(connection, path, name)
        connection.execute(f"{how} WHERE id = ?", (row,))
    return f"row {row} of the table buckets {'has vanished' if 'DELETE' in how else 'is damaged'}"
