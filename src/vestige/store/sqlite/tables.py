"""The streams of a store's file: states, sources and receipts, each row sealed, and none missing unnoticed.

A stream is found by its name in a search tree (`vestige.store.sqlite.search_tree`); its sources and receipts are chains
that begin in its state. So no row is ever put between others, and a row that vanished leaves a link to nothing.
Guarantee: a row whose bits were changed outside Vestige is refused, and so is a store from which one has vanished; held
by tests/store/test_damage.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from vestige.clock import Clock
from vestige.records import Records
from vestige.store.ledger import Ledger
from vestige.store.sqlite.layout import (
    SOURCE_AT,
    DamagedError,
    Heads,
    WordError,
    pack_entry,
    pack_ledger_entry,
    pack_position,
    pack_receipt,
    pack_state,
    seal,
    unpack_entry,
    unpack_ledger_entry,
    unpack_position,
    unpack_receipt,
    unpack_state,
    unseal,
)
from vestige.store.sqlite.rows import Chain, Rows
from vestige.store.sqlite.search_tree import SearchTree, StreamRow
from vestige.store.state import State
from vestige.store.terms import Terms
from vestige.store.text import decode_text


class _Link(NamedTuple):
    """An entry of a chain: its row, what is stored there, and the row of the entry after it."""

    row: int
    plain: bytes
    following: int


@dataclass(slots=True)
class _Entry:
    """What is remembered of a stream while it is in use."""

    number: int
    name: bytes
    terms: Terms
    sources: dict[str, _Link] = field(default_factory=dict)
    receipts: dict[str, _Link] = field(default_factory=dict)


class Tables(Rows):
    """The tables of a store, over a connection; whoever writes holds a transaction.

    Args:
        connection: to the file, or to a copy of it.
        path: the file, for error messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        self.tree = SearchTree(self)
        self._entries: dict[str, _Entry] = {}

    def forget(self) -> None:
        """Read everything again when it is needed next."""
        super().forget()
        self.tree.forget()
        self._entries.clear()

    def terms(self, name: str) -> Terms | None:
        """Return the terms of a stream; None if there is no such stream."""
        with self.report_damage(name):
            entry = self._find_entry(name)
            return None if entry is None else entry.terms

    def state(self, name: str) -> State | None:
        """Return the state of a stream; None if there is no such stream."""
        with self.report_damage(name):
            entry = self._find_entry(name)
            return None if entry is None else self._read_state(entry)

    def states(self, names: Iterable[str]) -> Iterator[tuple[str, Terms, State]]:
        """Yield the name, the terms and the state of each of these streams."""
        for name in names:
            with self.report_damage(name):
                entry = _parse_entry(self.tree.find_any(name))
                state = self._read_state(entry)
            yield name, entry.terms, state

    def sources(self) -> tuple[str, ...]:
        """List the sources of all streams, sorted; unchecked, since a row is only checked with its stream."""
        with self.report_damage():
            found = self.run("SELECT DISTINCT substr(body, ?) FROM sources", (SOURCE_AT + 1,)).fetchall()
        names = []
        for (name,) in found:
            with suppress(ValueError, AttributeError):  # reading its stream reports the damage
                names.append(decode_text(name))
        return tuple(sorted(names))

    def put(self, name: str, terms: Terms, state: State) -> None:
        """Replace a state: all of it or nothing, also where others are written in the same transaction."""
        with self.report_damage(name):
            entry = self._find_entry(name)
        about = self.about
        self.run("SAVEPOINT stream")
        try:
            self._put(self._add(name, terms) if entry is None else entry, terms, state, new=entry is None)
        except BaseException:
            with suppress(sqlite3.Error):  # else the whole transaction is rolled back
                self.run("ROLLBACK TO stream")
            self.about = about
            self.tree.forget()
            self._entries.pop(name, None)
            raise
        finally:
            with suppress(sqlite3.Error):
                self.run("RELEASE stream")

    def _put(self, entry: _Entry, terms: Terms, state: State, *, new: bool) -> None:
        positions = {source: pack_position(source, position) for source, position in state.positions.items()}
        receipts = {receipt.id: pack_receipt(receipt) for receipt in state.receipts}
        heads = Heads(
            self._put_chain("sources", entry, entry.sources, positions),
            self._put_chain("receipts", entry, entry.receipts, receipts),
        )
        body = pack_state(state.clock, state.retained, terms.capacity, heads, state.settled)
        self.write("states", entry.number, seal(body, "states", entry.number, entry.name), new=new)

    def ledger(self) -> Ledger:
        """Return the requests to streams of the store."""
        with self.report_damage():
            about, stored = self.about, self.run("SELECT id, body FROM ledger ORDER BY id").fetchall()
            if len(stored) != about.entries or (stored and stored[-1][0] > about.requests):
                raise DamagedError("the rows of the ledger are not those that were written")
            entries = {number: unpack_ledger_entry(unseal(body, "ledger", number)) for number, body in stored}
            return Ledger(about.requests, entries)

    def put_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger; rows that are as they were are not written."""
        known = {number: pack_ledger_entry(entry) for number, entry in self.ledger().entries.items()}
        wanted = {number: pack_ledger_entry(entry) for number, entry in ledger.entries.items()}
        for number in known.keys() - wanted.keys():
            self.delete("ledger", number)
        for number, plain in wanted.items():
            if plain != known.get(number):
                self.write("ledger", number, seal(plain, "ledger", number), new=number not in known)
                if number in known and len(plain) != len(known[number]):  # SQLite leaves bytes of a longer row
                    self.about = replace(self.about, untidy=True)
        self.about = replace(self.about, requests=ledger.newest, entries=len(wanted))

    def blank(self, name: str) -> None:
        """Erase a stream and its name in place, also a damaged one; the rows of others stay as they are."""
        with self.report_damage(name):
            row = self.tree.find_any(name)
            for table, numbers in self._chain_rows(row).items():
                for number in numbers:
                    self.delete(table, number)
            self.tree.blank(row)
            empty = seal(b"", "states", row.number, b"")
            self.run("INSERT OR REPLACE INTO states VALUES (?, ?)", (row.number, empty))
            self.about = replace(self.about, untidy=True)
        self._entries.pop(name, None)

    def _chain_rows(self, row: StreamRow) -> dict[str, list[int]]:
        """The rows of a stream's sources and receipts; if it is damaged, all that are sealed with its name."""
        try:
            self._read_state(entry := _parse_entry(row))
        except (DamagedError, WordError, ValueError):
            found: dict[str, list[int]] = {"sources": [], "receipts": []}
            for table, numbers in found.items():
                for number, body in self.run(f"SELECT id, body FROM {table}"):  # noqa: S608
                    with suppress(DamagedError):
                        unseal(body, table, number, row.name)
                        numbers.append(number)
            return found
        chains = {"sources": entry.sources, "receipts": entry.receipts}
        return {table: [link.row for link in chain.values()] for table, chain in chains.items()}

    def _find_entry(self, name: str) -> _Entry | None:
        known = self._entries.get(name)
        if known is None:
            row = self.tree.find(name)
            if row is None:
                return None
            known = _parse_entry(row)
            self._read_state(known)
            self._entries[name] = known
        return known

    def _add(self, name: str, terms: Terms) -> _Entry:
        row = self.tree.add(name, terms)
        self._entries[name] = _Entry(row.number, row.name, terms)
        return self._entries[name]

    def _read_state(self, entry: _Entry) -> State:
        """The state of a stream, with its sources and receipts."""
        body = unseal(self.read("states", entry.number), "states", entry.number, entry.name)
        clock, retained, heads, settled = self._unpack(body, entry.terms)
        positions, receipts = {}, []
        entry.sources, entry.receipts = {}, {}
        for link in self._read_chain("sources", heads.sources, entry.name):
            source, positions[source] = unpack_position(link.plain)
            entry.sources[source] = link
        for link in self._read_chain("receipts", heads.receipts, entry.name):
            receipts.append(unpack_receipt(link.plain))
            entry.receipts[receipts[-1].id] = link
        return State(clock, retained, positions, tuple(receipts), settled)

    def _unpack(self, body: bytes, terms: Terms) -> tuple[Clock, Records, Heads, int]:
        return unpack_state(body, terms.columns, terms.capacity)

    def _read_chain(self, table: Chain, row: int, name: bytes) -> list[_Link]:
        """The entries of a chain, oldest first; its head is the newest."""
        links: dict[int, _Link] = {}
        while row and row not in links:
            plain, following = unpack_entry(unseal(self.read(table, row), table, row, name))
            links[row] = _Link(row, plain, following)
            row = following
        return list(links.values())[::-1]

    def _put_chain(self, table: Chain, entry: _Entry, known: dict[str, _Link], wanted: Mapping[str, bytes]) -> int:
        """Write the entries of a chain that have changed, and delete those that are gone; the row of its head."""
        head, written = 0, {}
        for key, plain in wanted.items():
            old = known.get(key)
            link = _Link(self.allocate(table) if old is None else old.row, plain, head)
            if link != old:
                body = seal(pack_entry(plain, head), table, link.row, entry.name)
                self.write(table, link.row, body, new=old is None)
            written[key], head = link, link.row
        for key in known.keys() - written.keys():
            self.delete(table, known[key].row)
        known.clear()
        known.update(written)
        return head


def _parse_entry(row: StreamRow) -> _Entry:
    return _Entry(row.number, row.name, Terms.parse(decode_text(row.terms)))
