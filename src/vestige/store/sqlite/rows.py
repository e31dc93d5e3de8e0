"""The rows of a store's file: read and written by number, and counted in a row of their own.

Guarantee: a row that has vanished, or whose bits were changed outside Vestige, is reported and never used; held by
tests/store/test_damage.py.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from vestige.errors import StoreError
from vestige.store.sqlite.connection import DAMAGED, translate_errors
from vestige.store.sqlite.layout import About, DamagedError, WordError

Chain = Literal["sources", "receipts"]


class Rows:
    """The rows of all tables, over a connection.

    Args:
        connection: to the file, or to a copy of it; whoever writes holds a transaction.
        path: the file, for error messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self._about: About | None = None
        self._stored: About | None = None

    @property
    def about(self) -> About:
        """What the store says of itself."""
        if self._about is None:
            with self.report_damage():
                self._about = self._stored = self._read_about()
                self._check_ends(self._about)
        return self._about

    @about.setter
    def about(self, about: About) -> None:
        self._about = about

    def _read_about(self) -> About:
        return About.unpack(self.read("about", 1))

    def _check_ends(self, about: About) -> None:
        """Check that the last rows are those that there must be."""
        tables = ("streams", "states", "sources", "receipts")
        ends = [self.run(f"SELECT max(id) FROM {t}").fetchone()[0] or 0 for t in tables]  # noqa: S608
        streams, states, sources, receipts = ends
        if not (streams == states == about.streams and sources <= about.sources and receipts <= about.receipts):
            raise DamagedError("the last rows of a table are not those that were written")

    def save_about(self) -> None:
        """Write what the store says of itself, if that has changed."""
        if self._about is not None and self._about != self._stored:
            self.run("UPDATE about SET body = ? WHERE id = 1", (self._about.pack(),))
            self._stored = self._about

    def forget(self) -> None:
        """Read again what the store says of itself when it is needed next."""
        self._about = self._stored = None

    def run(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        """Execute a statement."""
        return self.connection.execute(statement, values)

    def read(self, table: str, row: int) -> object:
        """Read the body of a row; a DamagedError if it is not there."""
        found = self.run(f"SELECT body FROM {table} WHERE id = ?", (row,)).fetchone()  # noqa: S608
        if found is None:
            raise DamagedError(f"row {row} of the table {table} has vanished")
        return found[0]

    def write(self, table: str, row: int, body: bytes, *, new: bool) -> None:
        """Overwrite a row in place, or add it at the end."""
        if new:
            self.run(f"INSERT INTO {table} VALUES (?, ?)", (row, body))  # noqa: S608
        else:
            self.run(f"UPDATE {table} SET body = ? WHERE id = ?", (body, row))  # noqa: S608

    def delete(self, table: str, row: int) -> None:
        """Delete a row; the pages have to be written again then."""
        self.run(f"DELETE FROM {table} WHERE id = ?", (row,))  # noqa: S608
        self.about = replace(self.about, untidy=True)

    def allocate(self, table: Chain) -> int:
        """Return the number of a new row at the end of a table of chains."""
        about = self.about
        if table == "sources":
            self.about = replace(about, sources=about.sources + 1)
            return self.about.sources
        self.about = replace(about, receipts=about.receipts + 1)
        return self.about.receipts

    @contextmanager
    def report_damage(self, name: str | None = None) -> Iterator[None]:
        """Report a row that cannot be read, as damaged or of a later version, with the stream that it belongs to."""
        where = self.path if name is None else f"{self.path}, stream {name!r}"
        try:
            with translate_errors(self.path):
                yield
        except WordError as problem:
            raise WordError(f"{where}: {problem}") from None
        except (DamagedError, ValueError, KeyError, TypeError, struct.error) as problem:
            what = problem if isinstance(problem, DamagedError) else "a stored row cannot be read"
            raise StoreError(f"{where}: {what} (bits changed outside Vestige); {DAMAGED}") from None
