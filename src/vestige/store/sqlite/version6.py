"""Stores that were written in version 6 of the format, read so that they can be written in the present one.

Until version 6 each stream had a row of fixed size with a slot for every round, was found through a search tree in the
rows of the table of streams, and its positions and receipts were chains of rows that began in its state.
Guarantee: all comes out as it was, and a row that is damaged or has vanished is refused; held by
tests/store/test_version6.py.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vestige.clock import WORD_VERSION, Clock
from vestige.records import Records
from vestige.store.keys import PSEUDONYM
from vestige.store.layout import (
    DamagedError,
    WordError,
    unpack_ledger_entry,
    unpack_position,
    unpack_receipt,
    unpack_subjects,
    unseal,
)
from vestige.store.ledger import Ledger
from vestige.store.rows import name_damage
from vestige.store.state import State
from vestige.store.terms import Terms
from vestige.store.text import decode_text

SCHEMA = (
    "CREATE TABLE about (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE streams (id INTEGER PRIMARY KEY, name BLOB NOT NULL, terms BLOB NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE states (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE sources (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE receipts (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE ledger (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
)
_HEADER = struct.Struct("<qqqqqqifqQQQq")
_FOLLOWING = struct.Struct("<Q")
_ABOUT = struct.Struct(f"<QQQ?7x{PSEUDONYM}sQQ")
_NEVER = -(2**63)


class Heads(NamedTuple):
    """Where the chains of a stream begin: the rows of the newest source and of the newest receipt; 0 for none."""

    sources: int = 0
    receipts: int = 0


@dataclass(frozen=True, slots=True)
class About:
    """What a store says of itself.

    Attributes:
        streams: how many there are; they are numbered from 1 on.
        sources: the last row that a source was given.
        receipts: the last row that a receipt was given.
        untidy: whether rows were deleted and the pages were not written again since.
        fingerprint: of the key that subjects are hashed with; zero while there is none.
        requests: the number of the newest request in the ledger.
        entries: how many entries the ledger has.
    """

    streams: int = 0
    sources: int = 0
    receipts: int = 0
    untidy: bool = False
    fingerprint: bytes = bytes(PSEUDONYM)
    requests: int = 0
    entries: int = 0


class Tables:
    """The tables of a store of version 6.

    Args:
        connection: to the file.
        path: the file, for error messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self.about = self._read_about()
        self._check_ends()

    def read(self, table: str, row: int) -> object:
        """Read the body of a row; a DamagedError if it is not there."""
        found = self.connection.execute(f"SELECT body FROM {table} WHERE id = ?", (row,)).fetchone()  # noqa: S608
        if found is None:
            raise DamagedError(f"row {row} of the table {table} has vanished")
        return found[0]

    def _read_about(self) -> About:
        return About(*_ABOUT.unpack(unseal(self.read("about", 1), "about", 1)))

    def _check_ends(self) -> None:
        """Check that the last rows are those that there must be."""
        tables, about = ("streams", "states", "sources", "receipts"), self.about
        ends = [self.connection.execute(f"SELECT max(id) FROM {t}").fetchone()[0] or 0 for t in tables]  # noqa: S608
        streams, states, sources, receipts = ends
        if not (streams == states == about.streams and sources <= about.sources and receipts <= about.receipts):
            raise DamagedError("the last rows of a table are not those that were written")

    def states(self) -> Iterator[tuple[str, Terms, State]]:
        """Yield the name, the terms and the state of each stream, sorted by name; an error if one is damaged."""
        rows = self.connection.execute("SELECT id, name, terms, body FROM streams ORDER BY name").fetchall()
        numbers = {row[0] for row in rows}
        for gone in range(1, self.about.streams + 1):
            if gone not in numbers:
                raise DamagedError(f"row {gone} of the table streams has vanished")
        for number, name, terms, body in rows:
            unseal(body, "streams", number, name, terms)
            if name:  # else a stream that was removed beside a damaged one has left its row
                decoded = decode_text(name)
                with name_damage(f"{self.path}, stream {decoded!r}"):
                    parsed = Terms.parse(decode_text(terms))
                    state = self._read_state(number, name, parsed)
                yield decoded, parsed, state

    def ledger(self) -> Ledger:
        """Return the requests to streams of the store."""
        about, stored = self.about, self.connection.execute("SELECT id, body FROM ledger ORDER BY id").fetchall()
        if len(stored) != about.entries or (stored and stored[-1][0] > about.requests):
            raise DamagedError("the rows of the ledger are not those that were written")
        entries = {number: unpack_ledger_entry(unseal(body, "ledger", number)) for number, body in stored}
        return Ledger(about.requests, entries)

    def _read_state(self, number: int, name: bytes, terms: Terms) -> State:
        """The state of a stream, with its sources and receipts."""
        body = unseal(self.read("states", number), "states", number, name)
        clock, retained, heads, settled = self._unpack(body, terms)
        positions = dict(map(unpack_position, self._read_chain("sources", heads.sources, name)))
        receipts = tuple(map(unpack_receipt, self._read_chain("receipts", heads.receipts, name)))
        return State(clock, retained, positions, receipts, settled)

    def _unpack(self, body: bytes, terms: Terms) -> tuple[Clock, Records, Heads, int]:
        return unpack_state(body, terms.columns, terms.capacity)

    def _read_chain(self, table: str, row: int, name: bytes) -> list[bytes]:
        """The entries of a chain, oldest first; its head is the newest."""
        links: dict[int, bytes] = {}
        while row and row not in links:
            body = unseal(self.read(table, row), table, row, name)
            links[row] = body[_FOLLOWING.size :]
            (row,) = _FOLLOWING.unpack_from(body)
        return list(links.values())[::-1]


def count_state_bytes(columns: int, capacity: int) -> int:
    """How many bytes a state takes: for each slot round, values, whether it is leaving, time, subject and number."""
    return _HEADER.size + capacity * (8 + 8 * columns + 1 + 8 + PSEUDONYM + 8)


def unpack_state(body: bytes, columns: int, capacity: int) -> tuple[Clock, Records, Heads, int]:
    """The state that was packed: clock, records, heads, and the newest request that has been met."""
    if len(body) != count_state_bytes(columns, capacity):
        raise DamagedError("a stored state has another length than its terms say")
    t, first, last, since, due, updates, word, rounding, gaps, *heads, settled, bits = _HEADER.unpack_from(body)
    if word > WORD_VERSION:
        raise WordError(
            f"its encoded batch is written in version {word} of the word, and this Vestige reads versions 1 to "
            f"{WORD_VERSION}; the stream is not damaged: use a newer Vestige"
        )
    clock = Clock(t, first, last, since, None if due == _NEVER else due, updates, gaps, word, rounding, bits)
    at = _HEADER.size + capacity * np.cumsum([0, 8, 8 * columns, 1, 8, PSEUDONYM])
    rounds = np.frombuffer(body, "<i8", capacity, at[0])
    values = np.frombuffer(body, "<f8", capacity * columns, at[1]).reshape(capacity, columns)
    leaving = np.frombuffer(body, np.int8, capacity, at[2])
    times = np.frombuffer(body, "<i8", capacity, at[3])
    subjects = np.frombuffer(body, f"V{PSEUDONYM}", capacity, at[4])
    numbers = np.frombuffer(body, "<i8", capacity, at[5])
    full = np.flatnonzero(rounds)
    if (rounds[full] % capacity != full).any() or (rounds[full] > t).any():
        raise DamagedError("a stored record lies where its round does not say")
    held = full[np.argsort(rounds[full])]
    when = (times[held] ^ _NEVER).view("M8[us]")
    named = unpack_subjects(subjects[held])
    records = Records(rounds[held], values[held], leaving[held] != 0, when, named, numbers[held])
    return clock, records, Heads(*heads), settled
