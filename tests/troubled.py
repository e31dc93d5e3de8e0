"""Stores with one stream in trouble, and others that must not suffer from it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from vestige import Clock, Mean, Policy, Records, Stream
from vestige.store import Store
from vestige.store.sqlite import version3
from vestige.store.sqlite.layout import seal, unseal
from vestige.store.sqlite.tables import Tables
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


def damage(path: Path, name: str) -> None:
    """Change a byte in the middle of what a stream holds."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (number,) = connection.execute("SELECT id FROM streams WHERE name = ?", (name.encode(),)).fetchone()
        (body,) = connection.execute("SELECT body FROM states WHERE id = ?", (number,)).fetchone()
        half = len(body) // 2
        changed = body[:half] + bytes([body[half] ^ 1]) + body[half + 1 :]
        connection.execute("UPDATE states SET body = ? WHERE id = ?", (changed, number))


def set_header(path: Path, name: str, content: bytes) -> None:
    """Make a stream say this where it has the version of the word or, in version 3, the rounding; the seal fits."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.text_factory = bytes
        reader = version3.Tables if connection.execute("PRAGMA user_version").fetchone() == (3,) else Tables
        row = reader(connection, path).tree.find_any(name)
        (body,) = connection.execute("SELECT body FROM states WHERE id = ?", (row.number,)).fetchone()
        plain = bytearray(unseal(body, "states", row.number, row.name))
        plain[48 : 48 + len(content)] = content
        sealed = seal(bytes(plain), "states", row.number, row.name)
        connection.execute("UPDATE states SET body = ? WHERE id = ?", (sealed, row.number))
