"""What the tables of a store hold, read and checked.

Guarantee: an entry whose bits were changed outside Vestige is refused; held by tests/store/test_sqlite.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vestige.errors import StoreError
from vestige.store.layout import SUBJECT, DamagedError, unpacked, unpacked_position, unpacked_receipt, unsealed
from vestige.store.state import Position, Receipt, State, Terms

NO_KEY = bytes(SUBJECT)
"""The fingerprint of a store in which no subject was named yet."""


class Tables:
    """All that a store holds but the states, which are read when they are asked for."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self.ids: dict[str, int] = {}
        self.terms: dict[int, Terms] = {}
        self.sources: dict[int, dict[str, tuple[int, Position, bool]]] = {}
        self.receipts: dict[int, dict[str, tuple[int, Receipt]]] = {}
        with self._intact():
            for number, name, terms, seal in connection.execute("SELECT id, name, terms, seal FROM streams"):
                unsealed(seal + covered(name, terms))
                self.ids[name], self.terms[number] = number, Terms.parsed(terms)
            for row, stream, name, body in connection.execute("SELECT id, stream, name, body FROM sources"):
                position, reading = unpacked_position(unsealed(body + covered(stream, name))[: len(body) - 4])
                self.sources.setdefault(stream, {})[name] = (row, position, reading)
            for row, stream, body in connection.execute("SELECT id, stream, body FROM receipts ORDER BY id"):
                receipt = unpacked_receipt(unsealed(body + covered(stream))[: len(body) - 4])
                self.receipts.setdefault(stream, {})[receipt.id] = (row, receipt)
            found = connection.execute("SELECT body FROM about WHERE id = 1").fetchone()
            self.fingerprint = NO_KEY if found is None else unsealed(found[0])

    def state(self, name: str) -> State:
        """The state of a stream that is there."""
        number = self.ids[name]
        terms = self.terms[number]
        with self._intact():
            found = self.connection.execute("SELECT body FROM states WHERE id = ?", (number,)).fetchone()
            if found is None:
                raise DamagedError("a stream has no state")
            clock, retained = unpacked(found[0], terms.columns, terms.capacity)
        sources = self.sources.get(number, {})
        positions = {source: position for source, (_, position, _) in sources.items()}
        reading = next((source for source, (_, _, here) in sources.items() if here), None)
        receipts = tuple(receipt for _, receipt in self.receipts.get(number, {}).values())
        return State(clock, retained, positions, receipts, reading)

    @contextmanager
    def _intact(self) -> Iterator[None]:
        try:
            yield
        except (DamagedError, ValueError, KeyError, TypeError) as problem:
            what = problem if isinstance(problem, DamagedError) else "an entry cannot be read"
            raise StoreError(
                f"{self.path}: {what} (bits changed outside Vestige); restore a copy that is younger than the limits"
            ) from None


def covered(*parts: object) -> bytes:
    """What a checksum covers besides the bytes that it stands before."""
    return "\0".join(map(str, parts)).encode()
