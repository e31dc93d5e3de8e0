"""Stores that were written in version 1 of the format, read so that they can be written in the present one.

Version 1 had no row numbers of sources, and its clock kept the time of the first record of the encoded batch, which may
be that of an erased record: it becomes a time by which the batch must be gone, rounded down.
A mean that was written with other control records than those of today starts again, since it would be misread.
Guarantee: records, limits, positions and receipts come out as they were, and no mean is misread; a file with a changed
bit is refused and left as it is, unless that changes nothing; held by tests/store/test_version1.py.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np

from vestige.clock import Clock
from vestige.records import Records
from vestige.store.keys import PSEUDONYM
from vestige.store.layout import DamagedError, unpack_receipt, unpack_subjects
from vestige.store.position import Position, encode_count
from vestige.store.sqlite.page_scan import find_residue
from vestige.store.state import State
from vestige.store.terms import Terms

SCHEMA = (
    "CREATE TABLE about (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT NOT NULL, terms TEXT NOT NULL, seal BLOB NOT NULL)",
    "CREATE TABLE states (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE sources (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE receipts (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, body BLOB NOT NULL)",
)
_HEADER = struct.Struct("<4xqqqqq")
_NEVER = -(2**63)
_DUE_STEPS = 32
_SEAL = 4
_CONTROLS = 5
"""See `vestige.channels.version1`."""


def check_sound(connection: sqlite3.Connection) -> None:
    """Check that every row that was written is there and belongs to a stream: after a migration nobody could tell.

    SQLite trusts the number of rows that a page states, and no checksum covers it.

    Args:
        connection: the store of version 1.

    Raises:
        DamagedError: a row is damaged or belongs to no stream; the message says where, and never what was there.
    """
    for found in find_residue(connection.serialize()):
        raise DamagedError(f"its {found}")
    for (text,) in connection.execute("PRAGMA integrity_check"):
        if text != b"ok":
            raise DamagedError("the integrity check of SQLite fails")
    if [row for (row,) in connection.execute("SELECT id FROM about")] not in ([], [1]):
        raise DamagedError("the table about has a row that is not one of a store")
    for table, column in {"states": "id", "sources": "stream", "receipts": "stream"}.items():
        query = f"SELECT count(*) FROM {table} WHERE {column} NOT IN (SELECT id FROM streams)"  # noqa: S608
        (stray,) = connection.execute(query).fetchone()
        if stray:
            rows = "1 row that belongs" if stray == 1 else f"{stray} rows that belong"
            raise DamagedError(f"the table {table} has {rows} to no stream")


def read_fingerprint(connection: sqlite3.Connection) -> bytes:
    """The fingerprint of the key; zero if there is none."""
    found = connection.execute("SELECT body FROM about WHERE id = 1").fetchone()
    return bytes(PSEUDONYM) if found is None else _unseal(found[0], b"")


def read_streams(connection: sqlite3.Connection) -> Iterator[tuple[str, Terms, State]]:
    """All streams, sorted by name."""
    positions: dict[int, dict[str, Position]] = {}
    for stream, name, body in connection.execute("SELECT stream, name, body FROM sources ORDER BY id"):
        rows = int.from_bytes(_unseal(body, str(stream).encode() + b"\0" + name), "little")
        positions.setdefault(stream, {})[name.decode()] = Position(encode_count(rows))
    receipts: dict[int, list[bytes]] = {}
    for stream, body in connection.execute("SELECT stream, body FROM receipts ORDER BY id"):
        receipts.setdefault(stream, []).append(_unseal(body, str(stream).encode()))
    query = "SELECT s.id, s.name, s.terms, s.seal, t.body FROM streams s LEFT JOIN states t USING (id) ORDER BY s.name"
    for number, name, text, seal, body in connection.execute(query):
        _unseal(seal, name + b"\0" + text)
        terms = Terms.parse(text.decode())
        clock, retained = _unpack(_unseal(body, b""), terms)
        if not _has_same_meaning(terms, clock, retained):
            retained = retained.where(retained.rounds > clock.last)
            clock = Clock(clock.t, clock.last + 1, clock.last, clock.last + 1)
        made = tuple(map(unpack_receipt, receipts.get(number, [])))
        yield name.decode(), terms, State(clock, retained, positions.get(number, {}), made)


def _unseal(body: bytes | None, covered: bytes) -> bytes:
    """What a checksum stands before, which covered something besides."""
    if body is None or body[:_SEAL] != zlib.crc32(body[_SEAL:] + covered).to_bytes(_SEAL, "little"):
        raise DamagedError("a stored row is damaged")
    return body[_SEAL:]


def _unpack(body: bytes, terms: Terms) -> tuple[Clock, Records]:
    """The clock and the records."""
    columns, capacity = terms.columns, terms.capacity
    t, first, last, since, began = _HEADER.unpack_from(body)
    encoded, length = last - since + 1, last - first + 1
    updates = -(-encoded // length) if length else 0  # as many as there were if all were as long as the last
    clock = Clock(t, first, last, since, _find_due(began, terms.max_age), updates, word=1)
    at = _HEADER.size + capacity * np.cumsum([0, 8, 8 * columns, 1, 8])
    rounds = np.frombuffer(body, "<i8", capacity, at[0])
    held = np.flatnonzero(rounds)
    values = np.frombuffer(body, "<f8", capacity * columns, at[1]).reshape(capacity, columns)[held]
    leaving = np.frombuffer(body, np.int8, capacity, at[2])[held] != 0
    times = (np.frombuffer(body, "<i8", capacity, at[3])[held] ^ _NEVER).view("M8[us]")
    subjects = unpack_subjects(np.frombuffer(body, f"V{PSEUDONYM}", capacity, at[4])[held])
    return clock, Records(rounds[held], values, leaving, times, subjects)


def _has_same_meaning(terms: Terms, clock: Clock, retained: Records) -> bool:
    """Whether `vestige.channels.version1` reads what a mean has kept as it was meant in version 1 of the format.

    The last two records of each number said then that the others were bits, and three before them by how much these
    were turned. Without any of the five it is an average as it was; with just the last two, bits that are not turned.
    """
    parameters: Any = terms.policy["parameters"]
    if terms.policy["name"] != "vestige.Mean" or parameters["spread"] or parameters["channel"] == "average":
        return True
    dim, length = parameters["dim"], clock.last - clock.first + 1
    kept = np.zeros(max(length, 0), np.bool_)
    kept[retained.rounds[retained.rounds <= clock.last] - clock.first] = True
    controls = [tuple(kept[i::dim][-_CONTROLS:]) for i in range(dim)]
    return all(not any(mine) or mine == (False, False, False, True, True) for mine in controls)


def _find_due(began: int, max_age: timedelta | None) -> int | None:
    if began == _NEVER or max_age is None:
        return None
    age = max_age // timedelta(microseconds=1)
    step = age // _DUE_STEPS
    return (began + age) // step * step
