"""The embedded store: one SQLite file, many named streams.

Each state is one row of fixed size that an update overwrites in place, in one transaction with the positions and the
receipts; rows are only ever added at the end of a table, so that no page is split and no copy stays behind.
Guarantee: after a crash at any moment the file holds the state before or after an update; after a commit nothing of an
erased record is in any file of the store; held by tests/store/test_crashes.py and tests/store/test_erasure.py.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from vestige.errors import StoreBusyError, StoreError
from vestige.store.files import beside, checked_path, connected, copied, explained, prepare, reading, writer_lock
from vestige.store.layout import SUBJECT, packed, packed_position, packed_receipt, sealed
from vestige.store.state import Position, Receipt, State, Terms
from vestige.store.store import Place, Store
from vestige.store.tables import NO_KEY, Tables, covered

PATIENCE = 5.0
"""Seconds for which a commit waits for others who read the file."""


class SqliteStore(Store):
    """Named streams in one file that really forgets.

    Args:
        path: the file; made if it is not there. Beside it lie, while the store is open, PATH.lock, which is empty, and,
            once a subject has been named, PATH.key.
        key: where the key lies that subjects are hashed with; PATH.key unless said. Keep it apart from the store: who
            has both can test guesses of who is in it. If it is lost, the statistics go on, but the records of a subject
            cannot be found any more until the limits have erased them.
        patience: seconds for which a commit waits for others who read the file.

    >>> import tempfile
    >>> from vestige import Mean, Stream
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SqliteStore(folder.name + "/delays.db") as store:
    ...     stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
    ...     stream.extend(range(1, 1_001))
    >>> with SqliteStore(folder.name + "/delays.db") as store:
    ...     again = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
    ...     print(again.t, round(again.estimate().value, 6))
    1000 500.5
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, *, key: str | Path | None = None, patience: float = PATIENCE) -> None:
        super().__init__()
        self.path = checked_path(path)
        self._key_path = beside(self.path, ".key") if key is None else Path(key)
        self._key: bytes | None = None
        self._depth, self._untidy = 0, False
        with explained(self.path):
            self._lock = writer_lock(self.path)
            try:
                self._connection = connected(self.path, patience)
                prepare(self._connection, self.path)
                self._tables = Tables(self._connection, self.path)
                self._version = self._seen()
            except BaseException:
                self._let_go()
                raise

    def names(self) -> tuple[str, ...]:
        """The streams that are there, sorted."""
        return tuple(sorted(self._tables.ids))

    def terms(self, name: str) -> Terms:
        """The terms of a stream that is there."""
        if name not in self._tables.ids:
            known = ", ".join(self.names()[:5]) or "none"
            raise StoreError(f"{self.path}: there is no stream {name!r}; there is {known}")
        return self._tables.terms[self._tables.ids[name]]

    def pseudonym(self, subject: str) -> str:
        """A keyed hash; the key is made when it is first needed."""
        if self._key is None:
            self._key = self._found_key()
        return hashlib.blake2b(subject.encode(), key=self._key, digest_size=SUBJECT).hexdigest()

    def _found_key(self) -> bytes:
        """The key that the store was used with; a new one if there was none, or nothing is left that it would find."""
        known, path = self._tables.fingerprint, self._key_path
        key = path.read_bytes() if path.exists() else b""
        if not key and (known == NO_KEY or not self._subjects_held()):
            key = os.urandom(32)
            _written(path, key)
        elif not key or len(key) != 32 or known not in (NO_KEY, _fingerprint(key)):
            raise StoreError(
                f"{path}: {'is not the key of this store' if key else 'is missing'}, so the subjects of the records in "
                f"{self.path} cannot be recognised; put the right key there or pass key=...; if it is lost, remove "
                "records by rounds, or wait until the limits have erased those with a subject: then a new key is made"
            )
        return self._remembered(key)

    def _subjects_held(self) -> bool:
        return any(
            subject is not None for name in self.names() for subject in self._tables.state(name).retained.subjects
        )

    def _remembered(self, key: bytes) -> bytes:
        if self._tables.fingerprint != _fingerprint(key):
            with self.together():
                body = sealed(_fingerprint(key))
                self._connection.execute(
                    "INSERT INTO about VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", (body,)
                )
                self._tables.fingerprint = _fingerprint(key)
        return key

    def _place(self, name: str, about: Mapping[str, object]) -> Place:
        return _Place(self, name, about)

    @contextmanager
    def together(self) -> Iterator[None]:
        """One transaction around all that is written inside."""
        if self._depth:
            yield
            return
        if self._connection is None:
            raise StoreError(f"{self.path}: this store is closed; open it again")
        with explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                self._check_unchanged()
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._tables = Tables(self._connection, self.path)
                self._untidy = False
                raise
            finally:
                self._depth = 0
            self._vacuum()

    def _vacuum(self) -> None:
        """Write the pages anew if rows were deleted; if somebody is in the way, after the next commit or at the end."""
        if self._untidy:
            try:
                self._connection.execute("VACUUM")
            except sqlite3.OperationalError as problem:
                if not problem.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                    raise
            else:
                self._untidy = False

    def _check_unchanged(self) -> None:
        if self._seen() != self._version:
            raise StoreError(
                f"{self.path}: was changed by another program while it was open; open it again: what was not flushed "
                "is lost"
            )

    def _seen(self) -> int:
        """A number that changes when somebody else writes to the file."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def write(self, name: str, terms: Terms, state: State) -> None:
        """Put `state` in the place of what was there."""
        with self.together():
            run, tables = self._connection.execute, self._tables
            body = packed(state.clock, state.retained, terms.capacity)
            number = tables.ids.get(name)
            if number is None:
                number = len(tables.ids) + 1
                seal = sealed(covered(name, terms.text))[:4]
                run("INSERT INTO streams VALUES (?, ?, ?, ?)", (number, name, terms.text, seal))
                run("INSERT INTO states VALUES (?, ?)", (number, body))
                tables.ids[name], tables.terms[number] = number, terms
            else:
                run("UPDATE states SET body = ? WHERE id = ?", (body, number))
            self._write_positions(number, state.positions, state.reading)
            self._write_receipts(number, state.receipts)

    def _write_positions(self, stream: int, positions: Mapping[str, Position], reading: str | None) -> None:
        known = self._tables.sources.get(stream, {})
        made: dict[str, tuple[int, Position, bool]] = {}
        for source, position in positions.items():
            row, *before = known.get(source, (None, None, False))
            now = source == reading
            if row is None or before != [position, now]:
                plain = packed_position(position, now)
                body = sealed(plain + covered(stream, source))[:4] + plain
                row = self._put("sources", row, (stream, source, body))
            made[source] = (row, position, now)
        self._drop("sources", [row for source, (row, *_) in known.items() if source not in made])
        self._tables.sources[stream] = made

    def _write_receipts(self, stream: int, receipts: tuple[Receipt, ...]) -> None:
        known = self._tables.receipts.get(stream, {})
        made: dict[str, tuple[int, Receipt]] = {}
        for receipt in receipts:
            row, before = known.get(receipt.id, (None, None))
            if row is None or receipt != before:
                plain = packed_receipt(receipt)
                body = sealed(plain + covered(stream))[:4] + plain
                row = self._put("receipts", row, (stream, body))
            made[receipt.id] = (row, receipt)
        self._drop("receipts", [row for number, (row, _) in known.items() if number not in made])
        self._tables.receipts[stream] = made

    def _drop(self, table: str, rows: list[int]) -> None:
        """Delete rows; the pages are written anew after the commit, since SQLite leaves bytes in gaps."""
        for row in rows:
            self._connection.execute(f"DELETE FROM {table} WHERE id = ?", (row,))  # noqa: S608
            self._untidy = True

    def _put(self, table: str, row: int | None, entry: tuple[object, ...]) -> int:
        """Overwrite a row in place, or add it at the end; its number."""
        if row is None:
            holes = ", ".join("?" * len(entry))
            row = self._connection.execute(f"INSERT INTO {table} VALUES (NULL, {holes})", entry).lastrowid  # noqa: S608
            assert row is not None  # noqa: S101
        else:
            self._connection.execute(f"UPDATE {table} SET body = ? WHERE id = ?", (entry[-1], row))  # noqa: S608
        return row

    def tidy(self) -> None:
        """Bring the file into its canonical form, in which it says nothing of how it came about.

        Streams, sources and receipts are put in order, and the pages are written anew.
        """
        self._rewrite(self.names())

    def _erase(self, name: str) -> None:
        self._rewrite(tuple(other for other in self.names() if other != name))

    def _rewrite(self, names: tuple[str, ...]) -> None:
        """Write these streams in order, and none but these, then the pages anew."""
        with self.together():
            run, tables = self._connection.execute, self._tables
            states = {name: tables.state(name) for name in names}
            terms = {name: self.terms(name) for name in states}
            for table in ("streams", "states", "sources", "receipts"):
                run(f"DELETE FROM {table}")  # noqa: S608
            for kept in (tables.ids, tables.terms, tables.sources, tables.receipts):
                kept.clear()
            for name, state in states.items():
                ordered = State(
                    state.clock,
                    state.retained,
                    dict(sorted(state.positions.items())),
                    tuple(sorted(state.receipts, key=lambda receipt: (receipt.requested, receipt.id))),
                    state.reading,
                )
                self.write(name, terms[name], ordered)
            self._untidy = True
        if self._untidy and not self._depth:
            raise StoreBusyError(
                f"{self.path}: is in order, but its pages could not be written anew, because another process reads "
                "the file; end that process and try again: nothing is lost"
            )

    def close(self) -> None:
        """Write what streams hold back, and let go of the file; the second time nothing happens."""
        if self._connection is not None:
            try:
                super().close()
                with explained(self.path):
                    self._vacuum()
            finally:
                self._let_go()

    def _let_go(self) -> None:
        for name in ("_connection", "_lock"):
            connection = getattr(self, name, None)
            if connection is not None:
                connection.close()
            setattr(self, name, None)


def _written(path: Path, key: bytes) -> None:
    """Write a key that only its owner may read: all of it or nothing."""
    draft = beside(path, ".new")
    handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(handle)
    draft.replace(path)


def _fingerprint(key: bytes) -> bytes:
    return hashlib.blake2b(b"vestige", key=key[:64], digest_size=SUBJECT).digest()


class _Place(Place):
    store: SqliteStore

    def read(self, terms: Terms) -> State:
        tables = self.store._tables
        if self.name not in tables.ids:
            return State.empty(terms.columns)
        self.store.terms(self.name).check(self.name, terms)
        with explained(self.store.path):
            return tables.state(self.name)

    def write(self, terms: Terms, state: State) -> None:
        self.store.write(self.name, terms, state)


def read_store(path: str | Path, *, patience: float = PATIENCE) -> dict[str, tuple[Terms, State]]:
    """A copy of all streams in a store, taken at one moment; the file is free again when this returns."""
    path = Path(path)
    with reading(copied(path, patience), path) as connection:
        tables = Tables(connection, path)
        return {name: (tables.terms[number], tables.state(name)) for name, number in sorted(tables.ids.items())}
