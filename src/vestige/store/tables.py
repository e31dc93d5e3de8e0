"""The rows of a store: found by name in a few steps, sealed each, and none of them missing unnoticed.

A stream is found by its name in a digital search tree (Coffman and Eve 1970; Knuth, volume 3, section 6.3): each row
has a link for every hexadecimal digit of the hash of a name, so that a few rows are read however many there are, and a
name that is not there is proven not to be. Its sources and receipts are chains that begin in its state. So no row is
ever put between others, no index is needed, and a row that vanished leaves a link to nothing. A stream that is removed
beside a damaged one leaves its row without a name or terms, so that the links of the others stay as they are; if its
own row was damaged, there are no links to keep either, and the streams behind it are found by looking at all rows.
Guarantee: a row whose bits were changed outside Vestige is refused, and so is a store from which one has vanished; held
by tests/store/test_damage.py.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from vestige.errors import StoreError
from vestige.records import Clock, Records
from vestige.store.connection import DAMAGED, explained
from vestige.store.layout import (
    FANOUT,
    SOURCE_AT,
    About,
    DamagedError,
    Heads,
    decode_text,
    encode_text,
    packed,
    packed_chain,
    packed_links,
    packed_position,
    packed_receipt,
    sealed,
    unpacked,
    unpacked_chain,
    unpacked_links,
    unpacked_position,
    unpacked_receipt,
    unsealed,
)
from vestige.store.state import State, Terms


class _Row(NamedTuple):
    """A stream: its number, its name and terms as they are stored, and the streams that its links lead to."""

    number: int
    name: bytes
    terms: bytes
    links: tuple[int, ...]


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


class Tables:
    """The tables of a store, over a connection; who writes holds a transaction around it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self._about: About | None = None
        self._stored: About | None = None
        self._entries: dict[str, _Entry] = {}
        self._sound: tuple[dict[str, int], dict[str, int]] | None = None

    @property
    def about(self) -> About:
        """What the store says of itself."""
        if self._about is None:
            with self.intact():
                self._about = self._stored = About.unpacked(self._body("about", 1))
                self._check_ends(self._about)
        return self._about

    @about.setter
    def about(self, made: About) -> None:
        self._about = made

    def _check_ends(self, about: About) -> None:
        """An error where the last rows are not those that there must be."""
        tables = ("streams", "states", "sources", "receipts")
        ends = [self._run(f"SELECT max(id) FROM {t}").fetchone()[0] or 0 for t in tables]  # noqa: S608
        streams, states, sources, receipts = ends
        if not (streams == states == about.streams and sources <= about.sources and receipts <= about.receipts):
            raise DamagedError("the last rows of a table are not those that were written")

    def save(self) -> None:
        """Write what the store says of itself, if that has changed."""
        if self._about is not None and self._about != self._stored:
            self._run("UPDATE about SET body = ? WHERE id = 1", (self._about.packed,))
            self._stored = self._about

    def forget(self) -> None:
        """Read everything again when it is needed next."""
        self._about = self._stored = self._sound = None
        self._entries.clear()

    def terms(self, name: str) -> Terms | None:
        """The terms of a stream; None if it is not there."""
        with self.intact(name):
            entry = self._entry(name)
            return None if entry is None else entry.terms

    def states(self, names: Iterable[str]) -> Iterator[tuple[str, Terms, State]]:
        """These streams, one after the other."""
        for name in names:
            with self.intact(name):
                entry = _entered(self._named(name))
                state = self._state(entry)
            yield name, entry.terms, state

    def state(self, name: str) -> State | None:
        """The state of a stream; None if it is not there."""
        with self.intact(name):
            entry = self._entry(name)
            return None if entry is None else self._state(entry)

    def put(self, name: str, terms: Terms, state: State) -> None:
        """Put `state` in the place of what was there: all of it or nothing, also where others are written with it."""
        with self.intact(name):
            entry = self._entry(name)
        about = self.about
        self._run("SAVEPOINT stream")
        try:
            self._put(self._add(name, terms) if entry is None else entry, terms, state, new=entry is None)
        except BaseException:
            with suppress(sqlite3.Error):  # else the whole transaction is rolled back
                self._run("ROLLBACK TO stream")
            self.about, self._sound = about, None
            self._entries.pop(name, None)
            raise
        finally:
            with suppress(sqlite3.Error):
                self._run("RELEASE stream")

    def _put(self, entry: _Entry, terms: Terms, state: State, *, new: bool) -> None:
        positions = {s: packed_position(s, position) for s, position in state.positions.items()}
        receipts = {receipt.id: packed_receipt(receipt) for receipt in state.receipts}
        heads = Heads(
            self._put_chain("sources", entry, entry.sources, positions),
            self._put_chain("receipts", entry, entry.receipts, receipts),
        )
        body = packed(state.clock, state.retained, terms.capacity, heads)
        self._write("states", entry.number, sealed(body, "states", entry.number, entry.name), new=new)

    def blank(self, name: str) -> None:
        """Erase a stream and its name where it stands, also a damaged one; the rows of others stay as they are."""
        with self.intact(name):
            row = self._named(name)
            for table, numbers in self._chained(row).items():
                for number in numbers:
                    self._run(f"DELETE FROM {table} WHERE id = ?", (number,))  # noqa: S608
            body = sealed(packed_links(row.links) if row.links else b"", "streams", row.number, b"", b"")
            self._run("INSERT OR REPLACE INTO streams VALUES (?, x'', x'', ?)", (row.number, body))
            emptied = sealed(b"", "states", row.number, b"")
            self._run("INSERT OR REPLACE INTO states VALUES (?, ?)", (row.number, emptied))
            self.about = replace(self.about, untidy=True)
        self._sound = None
        self._entries.pop(name, None)

    def _named(self, name: str) -> _Row:
        """The row of a stream, or one that is damaged and goes by what `survey` says of it; that one has no links."""
        number = self.survey()[1].get(name)
        if number is not None:
            stored = self._run("SELECT name FROM streams WHERE id = ?", (number,)).fetchone()
            return _Row(number, stored[0] if stored and isinstance(stored[0], bytes) else b"", b"", ())
        row, _ = self._found(encode_text(name))
        if row is None:
            raise DamagedError(f"no link leads to the stream {name!r}")
        return row

    def _chained(self, row: _Row) -> dict[str, list[int]]:
        """The rows of a stream's sources and receipts; if it is damaged, all that are sealed with its name."""
        try:
            self._state(entry := _entered(row))
        except (DamagedError, ValueError):
            found: dict[str, list[int]] = {"sources": [], "receipts": []}
            for table, numbers in found.items():
                for number, body in self._run(f"SELECT id, body FROM {table}"):  # noqa: S608
                    with suppress(DamagedError):
                        unsealed(body, table, number, row.name)
                        numbers.append(number)
            return found
        chains = {"sources": entry.sources, "receipts": entry.receipts}
        return {table: [link.row for link in chain.values()] for table, chain in chains.items()}

    def count_blank(self) -> int:
        """How many rows a removed stream has left, of which nothing is left but their place."""
        blank = 0
        for (number,) in self._run("SELECT id FROM streams WHERE name = x''").fetchall():
            with suppress(DamagedError):
                blank += unsealed(self._body("states", number), "states", number, b"") == b""
        return blank

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        return self.connection.execute(statement, values)

    def _body(self, table: str, row: int) -> object:
        found = self._run(f"SELECT body FROM {table} WHERE id = ?", (row,)).fetchone()  # noqa: S608
        if found is None:
            raise DamagedError(f"row {row} of the table {table} has vanished")
        return found[0]

    def _write(self, table: str, row: int, body: bytes, *, new: bool) -> None:
        """Overwrite a row in place, or add it at the end."""
        if new:
            self._run(f"INSERT INTO {table} VALUES (?, ?)", (row, body))  # noqa: S608
        else:
            self._run(f"UPDATE {table} SET body = ? WHERE id = ?", (body, row))  # noqa: S608

    def survey(self) -> tuple[dict[str, int], dict[str, int]]:
        """The rows of streams that are sound, by name; and the others, by a sentence that says what is wrong."""
        if self._sound is None:
            sound, wrong, last = {}, dict[str, int](), 0
            with self.intact():
                for found in self._run("SELECT id, name, terms, body FROM streams ORDER BY id"):
                    try:
                        if not _is_blank(*found):
                            row = _checked(*found)
                            sound[decode_text(row.name)] = row.number
                    except DamagedError:
                        wrong[f"row {found[0]} of the table streams is damaged"] = found[0]
                    for gone in range(last + 1, found[0]):
                        wrong[f"row {gone} of the table streams has vanished"] = gone
                    last = found[0]
                for gone in range(last + 1, self.about.streams + 1):
                    wrong[f"row {gone} of the table streams has vanished"] = gone
            self._sound = sound, wrong
        return self._sound

    def sources(self) -> tuple[str, ...]:
        """The sources that any stream was read from, sorted; a hint, since a row is checked with its stream alone."""
        with self.intact():
            found = self._run("SELECT DISTINCT substr(body, ?) FROM sources", (SOURCE_AT + 1,)).fetchall()
        names = []
        for (name,) in found:
            with suppress(ValueError, AttributeError):  # its stream says that it is damaged
                names.append(decode_text(name))
        return tuple(sorted(names))

    def names(self, besides: str = "") -> tuple[str, ...]:
        """The names of all streams but one, sorted; an error if one of them cannot be read."""
        sound, wrong = self.survey()
        with self.intact():
            for text in wrong.keys() - {besides}:
                raise DamagedError(text)
        return tuple(sorted(sound.keys() - {besides}))

    def _row(self, number: int) -> _Row:
        found = self._run("SELECT id, name, terms, body FROM streams WHERE id = ?", (number,)).fetchone()
        if found is None:
            raise DamagedError(f"row {number} of the table streams has vanished")
        return _checked(*found)

    def _found(self, name: bytes) -> tuple[_Row | None, tuple[_Row, int] | None]:
        """The row of a name; or None, and the row and link under which it would be, None if it would be the first."""
        number, above = min(self.about.streams, 1), None
        try:
            for digit in hashlib.blake2b(name).hexdigest():
                if not number:
                    return None, above
                row = self._row(number)
                if name and row.name == name:
                    return row, None
                above, number = (row, int(digit, 16)), row.links[int(digit, 16)]
        except DamagedError:  # a row on the way to it: who is not behind all of them may still be there
            there = self.survey()[0].get(decode_text(name))
            if there is None:
                raise
            return self._row(there), None
        raise DamagedError("the links of the table streams lead in a circle")

    def _entry(self, name: str) -> _Entry | None:
        known = self._entries.get(name)
        if known is None:
            row, _ = self._found(encode_text(name))
            if row is None:
                return None
            known = _entered(row)
            self._state(known)
            self._entries[name] = known
        return known

    def _add(self, name: str, terms: Terms) -> _Entry:
        """A row for a new stream, at the end, and the link to it."""
        encoded, text = encode_text(name), encode_text(terms.text)
        _, above = self._found(encoded)
        number = self.about.streams + 1
        self.about = replace(self.about, streams=number)
        links = packed_links((0,) * FANOUT)
        body = sealed(links, "streams", number, encoded, text)
        self._run("INSERT INTO streams VALUES (?, ?, ?, ?)", (number, encoded, text, body))
        if above is not None:
            row, digit = above
            links = packed_links((*row.links[:digit], number, *row.links[digit + 1 :]))
            self._write("streams", row.number, sealed(links, "streams", *row[:3]), new=False)
        self._sound = None
        self._entries[name] = _Entry(number, encoded, terms)
        return self._entries[name]

    def _state(self, entry: _Entry) -> State:
        """The state of a stream, with all that belongs to it."""
        body = unsealed(self._body("states", entry.number), "states", entry.number, entry.name)
        clock, retained, heads = self._unpacked(body, entry.terms)
        positions, receipts = {}, []
        entry.sources, entry.receipts = {}, {}
        for link in self._chain("sources", heads.sources, entry.name):
            source, positions[source] = unpacked_position(link.plain)
            entry.sources[source] = link
        for link in self._chain("receipts", heads.receipts, entry.name):
            receipts.append(unpacked_receipt(link.plain))
            entry.receipts[receipts[-1].id] = link
        return State(clock, retained, positions, tuple(receipts))

    def _unpacked(self, body: bytes, terms: Terms) -> tuple[Clock, Records, Heads]:
        return unpacked(body, terms.columns, terms.capacity)

    def _chain(self, table: str, row: int, name: bytes) -> list[_Link]:
        """The entries of a chain, from the oldest on; its head is the newest."""
        links: dict[int, _Link] = {}
        while row and row not in links:
            plain, following = unpacked_chain(unsealed(self._body(table, row), table, row, name))
            links[row] = _Link(row, plain, following)
            row = following
        return list(links.values())[::-1]

    def _put_chain(self, table: str, entry: _Entry, known: dict[str, _Link], wanted: Mapping[str, bytes]) -> int:
        """Let the entries of a chain be these; the row of its head."""
        head, made = 0, {}
        for key, plain in wanted.items():
            old = known.get(key)
            link = _Link(self._next(table) if old is None else old.row, plain, head)
            if link != old:
                body = sealed(packed_chain(plain, head), table, link.row, entry.name)
                self._write(table, link.row, body, new=old is None)
            made[key], head = link, link.row
        for key in known.keys() - made.keys():
            self._run(f"DELETE FROM {table} WHERE id = ?", (known[key].row,))  # noqa: S608
            self.about = replace(self.about, untidy=True)
        known.clear()
        known.update(made)
        return head

    def _next(self, table: str) -> int:
        """The row for a new entry of a chain."""
        about = self.about
        if table == "sources":
            self.about = replace(about, sources=about.sources + 1)
            return self.about.sources
        self.about = replace(about, receipts=about.receipts + 1)
        return self.about.receipts

    @contextmanager
    def intact(self, name: str | None = None) -> Iterator[None]:
        """Say of a row that cannot be read that it is damaged, and to which stream it belongs."""
        try:
            with explained(self.path):
                yield
        except (DamagedError, ValueError, KeyError, TypeError, struct.error) as problem:
            what = problem if isinstance(problem, DamagedError) else "a stored row cannot be read"
            where = self.path if name is None else f"{self.path}, stream {name!r}"
            raise StoreError(f"{where}: {what} (bits changed outside Vestige); {DAMAGED}") from None


def _checked(number: int, name: bytes, terms: bytes, body: object) -> _Row:
    """A row of the table of streams, if it is what was written."""
    links = unsealed(body, "streams", number, name, terms)
    if not links:
        raise DamagedError(f"row {number} of the table streams was damaged, and has no links since it was removed")
    return _Row(number, name, terms, unpacked_links(links))


def _is_blank(number: int, name: bytes, terms: bytes, body: object) -> bool:
    """Whether a row is what is left of a stream that was removed; an error if it is damaged."""
    unsealed(body, "streams", number, name, terms)
    return not name


def _entered(row: _Row) -> _Entry:
    return _Entry(row.number, row.name, Terms.parsed(decode_text(row.terms)))
