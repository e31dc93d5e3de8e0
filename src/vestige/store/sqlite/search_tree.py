"""Streams by name: a digital search tree over the rows of the table `streams`.

Coffman and Eve (1970, https://doi.org/10.1145/362686.362693); Knuth, The Art of Computer Programming, volume 3, section
6.3. Each row has a link for every hexadecimal digit of the hash of a name, so that a few rows are read however many
there are, and a name that is not found is proven to be absent. No row is ever put between others, and no index is
needed. A stream that is removed beside a damaged one leaves its row without a name or terms, so that the links of the
others stay as they are; if its own row was damaged, there are no links to keep either, and the streams behind it are
found by reading all rows.
Guarantee: a row that was changed outside Vestige, or has vanished, is reported; held by tests/store/test_damage.py.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from vestige.store.sqlite.layout import FANOUT, DamagedError, pack_links, seal, unpack_links, unseal
from vestige.store.sqlite.rows import Rows
from vestige.store.terms import Terms
from vestige.store.text import decode_text, encode_text


class StreamRow(NamedTuple):
    """A stream: its number, its name and terms as they are stored, and the streams that its links lead to."""

    number: int
    name: bytes
    terms: bytes
    links: tuple[int, ...]


class SearchTree:
    """The streams of a store by name.

    Args:
        rows: the rows of the store.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._survey: tuple[dict[str, int], dict[str, int]] | None = None

    def forget(self) -> None:
        """Read all rows again when they are needed next."""
        self._survey = None

    def survey(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the sound rows by name, and the others by a sentence that says what is wrong."""
        if self._survey is None:
            sound, wrong, last = {}, dict[str, int](), 0
            with self._rows.report_damage():
                for stored in self._rows.run("SELECT id, name, terms, body FROM streams ORDER BY id"):
                    try:
                        if not _is_blank(*stored):
                            row = _check_row(*stored)
                            sound[decode_text(row.name)] = row.number
                    except DamagedError:
                        wrong[f"row {stored[0]} of the table streams is damaged"] = stored[0]
                    for gone in range(last + 1, stored[0]):
                        wrong[f"row {gone} of the table streams has vanished"] = gone
                    last = stored[0]
                for gone in range(last + 1, self._rows.about.streams + 1):
                    wrong[f"row {gone} of the table streams has vanished"] = gone
            self._survey = sound, wrong
        return self._survey

    def names(self, exclude: str = "") -> tuple[str, ...]:
        """Return the names of all streams but one, sorted; an error if one of them cannot be read."""
        sound, wrong = self.survey()
        with self._rows.report_damage():
            for text in wrong.keys() - {exclude}:
                raise DamagedError(text)
        return tuple(sorted(sound.keys() - {exclude}))

    def find(self, name: str) -> StreamRow | None:
        """Return the row of a stream; None if there is no such stream."""
        return self._search(encode_text(name))[0]

    def find_any(self, name: str) -> StreamRow:
        """Return the row of a stream, or a damaged row by what `survey` says of it; that one has no links."""
        number = self.survey()[1].get(name)
        if number is not None:
            stored = self._rows.run("SELECT name FROM streams WHERE id = ?", (number,)).fetchone()
            return StreamRow(number, stored[0] if stored and isinstance(stored[0], bytes) else b"", b"", ())
        row = self.find(name)
        if row is None:
            raise DamagedError(f"no link leads to the stream {name!r}")
        return row

    def add(self, name: str, terms: Terms) -> StreamRow:
        """Add a row for a new stream at the end, and the link to it."""
        rows, encoded, text = self._rows, encode_text(name), encode_text(terms.text)
        _, above = self._search(encoded)
        number = rows.about.streams + 1
        rows.about = replace(rows.about, streams=number)
        row = StreamRow(number, encoded, text, (0,) * FANOUT)
        body = seal(pack_links(row.links), "streams", number, encoded, text)
        rows.run("INSERT INTO streams VALUES (?, ?, ?, ?)", (number, encoded, text, body))
        if above is not None:
            parent, digit = above
            links = pack_links((*parent.links[:digit], number, *parent.links[digit + 1 :]))
            rows.write("streams", parent.number, seal(links, "streams", *parent[:3]), new=False)
        self.forget()
        return row

    def blank(self, row: StreamRow) -> None:
        """Erase the name and the terms of a row; its links stay."""
        body = seal(pack_links(row.links) if row.links else b"", "streams", row.number, b"", b"")
        self._rows.run("INSERT OR REPLACE INTO streams VALUES (?, x'', x'', ?)", (row.number, body))
        self.forget()

    def count_blank(self) -> int:
        """Count the rows of removed streams, of which nothing is left but their place."""
        blank = 0
        for (number,) in self._rows.run("SELECT id FROM streams WHERE name = x''").fetchall():
            with suppress(DamagedError):
                blank += unseal(self._rows.read("states", number), "states", number, b"") == b""
        return blank

    def _read(self, number: int) -> StreamRow:
        stored = self._rows.run("SELECT id, name, terms, body FROM streams WHERE id = ?", (number,)).fetchone()
        if stored is None:
            raise DamagedError(f"row {number} of the table streams has vanished")
        return _check_row(*stored)

    def _search(self, name: bytes) -> tuple[StreamRow | None, tuple[StreamRow, int] | None]:
        """The row of a name; or None, and the row and link under which it would be, None if it would be the first."""
        number, above = min(self._rows.about.streams, 1), None
        try:
            for digit in hashlib.blake2b(name).hexdigest():
                if not number:
                    return None, above
                row = self._read(number)
                if name and row.name == name:
                    return row, None
                above, number = (row, int(digit, 16)), row.links[int(digit, 16)]
        except DamagedError:  # a row on the way to it is damaged: the stream itself may still be there
            there = self.survey()[0].get(decode_text(name))
            if there is None:
                raise
            return self._read(there), None
        raise DamagedError("the links of the table streams form a circle")


def _check_row(number: int, name: bytes, terms: bytes, body: object) -> StreamRow:
    """A row of the table of streams, if it is what was written."""
    links = unseal(body, "streams", number, name, terms)
    if not links:
        raise DamagedError(f"row {number} of the table streams was damaged, and has no links since it was removed")
    return StreamRow(number, name, terms, unpack_links(links))


def _is_blank(number: int, name: bytes, terms: bytes, body: object) -> bool:
    """Whether a row is what is left of a removed stream; a DamagedError if it is damaged."""
    unseal(body, "streams", number, name, terms)
    return not name
