"""The embedded store: one SQLite file, many named streams.

An update writes the bucket of its stream in one transaction with the positions and the receipts; what it overwrites
lies on pages of its own (`vestige.store.sqlite.rows`), so that no copy stays behind.
Guarantee: after a crash at any moment the file holds the state before or after an update; after a commit nothing of an
erased record is in any file of the store; held by tests/store/test_crashes.py and tests/store/test_erasure.py. After
an error the store can be used further; held by tests/store/test_faults.py.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from vestige.errors import StoreError
from vestige.store.canonical import arrange
from vestige.store.inbox import Inbox
from vestige.store.keyring import Keyring
from vestige.store.keys import NO_KEY, KeyFile, fingerprint, hash_subject, hide_subjects
from vestige.store.ledger import Ledger
from vestige.store.paths import clear_drafts, resolve_path
from vestige.store.rollback import Rollback, RollbackNote
from vestige.store.sealed_rows import SealedRows
from vestige.store.search import has_pseudonyms, list_named
from vestige.store.sqlite.connection import (
    SEALED_PRAGMAS,
    SEALED_VERSION,
    acquire_lock,
    check_exists,
    connect,
    create_store,
    is_sealed,
    read_counter,
    read_pragma,
    set_pragmas,
    translate_errors,
    translate_opening_errors,
)
from vestige.store.sqlite.reader import SqliteReader
from vestige.store.sqlite.rows import SqliteRows, check_keyring, open_file_keyring
from vestige.store.store import PATIENCE, check_patience
from vestige.store.table_store import TableStore
from vestige.store.tables import Tables

_log = logging.getLogger("vestige")
_NOTED_EVERY = 60.0
"""Seconds after which the note beside the key is written again; requests are noted at once."""


class SqliteStore(TableStore):
    """Named streams in one file that really erases.

    Threads may share a store: while one of them writes, the others wait. A forked process may not use it.

    Args:
        path: the file; links are followed. Beside it are PATH.lock, which is empty, and, once a subject has been named,
            PATH.key.
        key: the file with the key that subjects are hashed with; default: PATH.key. Keep it apart from the store:
            whoever has both can test guesses about who is in it. If it is lost, see `rekey`.
        keyring: the keyring that the file is sealed with, so that copies and backups of it are erased too; see
            `vestige.store.Keyring`. A file that is not sealed yet is sealed now. Default: the file is in clear.
        patience: seconds for which a commit waits for others who read the file.
        create: whether to create the file if there is none.

    Raises:
        StoreBusyError: another process has the store open for writing.
        StoreError: the file is not a store, is damaged, or cannot be written; or there is none, and `create` is false.

    Example:
        >>> import tempfile
        >>> from vestige import Mean, Stream
        >>> folder = tempfile.TemporaryDirectory()
        >>> with SqliteStore(folder.name + "/delays.db") as store:
        ...     stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        ...     _ = stream.extend(range(1, 1_001))
        >>> with SqliteStore(folder.name + "/delays.db") as store:
        ...     again = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        ...     print(again.t, round(again.estimate().value, 6))
        1000 500.5
        >>> folder.cleanup()
    """

    address_form: ClassVar = "the path of a file"
    backend_errors: ClassVar = (sqlite3.Error,)

    def __init__(
        self,
        path: str | Path,
        *,
        key: str | Path | None = None,
        keyring: str | Path | Keyring | None = None,
        patience: float = PATIENCE,
        create: bool = True,
    ) -> None:
        super().__init__()
        check_patience(patience)
        self.path = resolve_path(path, "path")
        if not create:
            check_exists(self.path)
        self._patience = patience
        self._key_file = KeyFile(key, store=self.path)
        self._key: bytes | None = None
        self._keyring = None if keyring is None else open_file_keyring(keyring, self.path, patience)
        self._depth = 0
        self._version: int | None = None
        self._note = RollbackNote(self._key_file.path, self.path)
        self._noted, self._is_put_back = -_NOTED_EVERY, False
        self._ledger: Ledger | None = None
        """The requests that were written in this transaction."""
        with translate_opening_errors(self.path):
            self._file_lock = acquire_lock(self.path)
            try:
                self._connect()
            except BaseException:
                self._disconnect()
                raise

    @classmethod
    def open(
        cls,
        address: str | Path,
        *,
        key: str | Path | None = None,
        keyring: str | Path | Keyring | None = None,
        patience: float = PATIENCE,
        create: bool = True,
    ) -> SqliteStore:
        """Open the store in a file for writing; see `vestige.open_store`."""
        return cls(resolve_path(address, "address"), key=key, keyring=keyring, patience=patience, create=create)

    @classmethod
    def open_reader(
        cls,
        address: str | Path,
        *,
        key: str | Path | None = None,
        keyring: str | Path | Keyring | None = None,
        patience: float = PATIENCE,
    ) -> SqliteReader:
        """Open a reader of the store in a file; see `vestige.open_reader`."""
        return SqliteReader(resolve_path(address, "address"), key=key, keyring=keyring, patience=patience)

    def _connect(self) -> None:
        clear_drafts(self.path)
        self._check_one_name()
        is_new = not self.path.exists()
        if is_new:
            create_store(self.path)
        self._connection = connect(self.path, self._patience)
        self._tables = Tables(SqliteRows(self._connection, self.path))
        if self._keyring is None:
            check_keyring(self._connection, self.path, None)
        self._version = self._read_change_counter()
        if self._keyring is not None:
            try:
                self._open_sealed(self._keyring, is_new=is_new)
            except BaseException:
                if is_new:
                    self._remove_unsealed()
                raise
        with suppress(StoreError):  # a damaged ledger is reported when it is read
            found = self.find_rollback()
            self._is_put_back = found is not None
            if found is not None:
                self._note.mark_noticed(found, read_counter(self._connection))

    def find_rollback(self) -> Rollback | None:
        """Find out whether the store was put back from an old backup, as far as the note beside its key tells."""
        with self._use():
            return self._note.find(read_counter(self._connection), self.read_ledger)

    def accept_rollback(self) -> None:
        """Accept the store as it is, although it was put back from an old backup; see `find_rollback`."""
        with self._use() as tables:
            self._is_put_back = False
            self._note.write(read_counter(self._connection), tables.ledger())

    def write_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger, durably."""
        with self.transaction():
            super().write_ledger(ledger)
            self._ledger = ledger

    def _count(self) -> int | None:
        """Count in the file, from time to time, that it was written; return the counter if it is to be noted."""
        if self._is_put_back or not self._note.is_kept:
            return None
        is_due = time.monotonic() - self._noted >= _NOTED_EVERY
        if not is_due and self._ledger is None:
            return None
        counter = read_counter(self._connection)
        if is_due:
            counter = (counter + 1) % (1 << 31)
            self._connection.execute(f"PRAGMA schema_version={counter}")
        return counter

    def _remove_unsealed(self) -> None:
        """Remove a store that was to be sealed and is not: who leaves out the keyring then would write it in clear."""
        with suppress(sqlite3.Error):
            if not is_sealed(self._connection):
                self._connection.close()
                self.path.unlink()

    def _open_sealed(self, keyring: Keyring, *, is_new: bool) -> None:
        """Use a keyring; a file in clear is sealed with it."""
        plain = self._tables.rows
        if not is_sealed(self._connection):
            with plain.report_damage(), self.transaction():
                made = SealedRows(plain, keyring, is_shared=False)
                made.adopt(plain)
                made.seal()
                self._connection.execute(f"PRAGMA user_version={SEALED_VERSION}")
        sealed = SealedRows(plain, keyring, is_shared=False)
        with sealed.report_damage():
            sealed.refresh(is_writer=False)
        if sealed.is_new:  # bytes in clear may lie between the rows, also after a crash
            self._vacuum()
            if not is_new:
                _log.warning(
                    "%s: was in clear, and is sealed with %s from now on; delete its earlier copies and backups, which "
                    "are in clear",
                    self.path,
                    keyring.where,
                )
        set_pragmas(self._connection, self.path, SEALED_PRAGMAS)
        self._tables = Tables(sealed)
        with self.transaction():  # settles what a crash has left
            pass

    def _use_keyring(self, keyring: Keyring) -> None:
        super()._use_keyring(keyring)
        self._keyring = keyring

    def _check_one_name(self) -> None:
        if self.path.exists() and self.path.stat().st_nlink > 1:
            raise StoreError(
                f"{self.path}: has {self.path.stat().st_nlink} names (hard links), but its lock and journal are named "
                "after one of them; remove the others, or copy the file"
            )

    @property
    def inbox(self) -> Inbox:
        """Where other processes leave requests for this one."""
        return Inbox(self.path)

    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        """Check the limits, the file and every byte of it, and look for canaries in all files of the store."""
        with self._use():
            reader = SqliteReader(self.path, keyring=self._keyring, patience=self._patience)
        return reader.verify(at=at, canaries=canaries)  # of a copy, so that other threads may write meanwhile

    def pseudonym(self, subject: str) -> str:
        """Return the pseudonym of a subject; the key is created when it is first needed."""
        with self.lock:
            if self._key is None:
                self._key = self._key_file.obtain(self._read_fingerprint(), is_needed=self._has_subjects)
                self._write_fingerprint(fingerprint(self._key))
            return hash_subject(subject, self._key)

    def rekey(self) -> None:
        """Start with a new key for subjects, where the old one is lost for good; a damaged stream stays as it is."""
        with self.lock:
            self._key_file.check_replaceable(self._read_fingerprint())
            waiting, _ = self.inbox.requests()
            if waiting:
                count = "1 request" if len(waiting) == 1 else f"{len(waiting):,} requests"
                raise StoreError(
                    f"{self.path}: {count} in its inbox would be lost, since a new key makes other pseudonyms; process "
                    "them first: vestige sweep, or vestige.operations.process_inbox(store)"
                )
            self.release()
            self._key = None
            with self.transaction():  # from here on any key will do: after a crash the store creates one
                for name in list_named(self._tables):
                    with suppress(StoreError):  # a damaged one stays as it is
                        self._hide_subjects(name)
                self._tables.requests.clear()
                self._write_fingerprint(NO_KEY)
            key = self._key_file.create()
            self._write_fingerprint(fingerprint(key))
            self._key = key

    def _hide_subjects(self, name: str) -> None:
        found = self._tables.read(name)
        if found is not None:
            terms, state = found
            self._tables.put(name, terms, replace(state, retained=hide_subjects(state.retained)))

    def _has_subjects(self) -> bool:
        """Whether a record or a stream has a name that the key would find; a damaged stream may have one."""
        with self._use() as tables, tables.rows.report_damage():
            return has_pseudonyms(tables)

    def _read_fingerprint(self) -> bytes:
        with self._use() as tables:
            return tables.about.fingerprint

    def _write_fingerprint(self, mark: bytes) -> None:
        with self._use() as tables:
            if tables.about.fingerprint != mark:
                with self.transaction():
                    tables.about = replace(tables.about, fingerprint=mark)

    @contextmanager
    def _use(self) -> Iterator[Tables]:
        """The tables, for one thread at a time, of a store that is open here."""
        if os.getpid() != self._process:
            raise StoreError(f"{self.path}: was opened before this process was forked; open it again in this process")
        with self.lock:
            if self._connection is None:
                raise StoreError(f"{self.path}: this store is closed; open it again")
            yield self._tables

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all that is written inside durable at once, at the end; nothing of it if an error leaves the block."""
        with self._use() as tables:
            if self._depth:
                self._check_not_rolled_back()
                yield
                return
            with translate_errors(self.path):
                self._connection.execute("BEGIN IMMEDIATE")
                self._depth, self._transactions = 1, self._transactions + 1
                is_certain, changes, self._ledger = True, self._connection.total_changes, None
                try:
                    self._check_unchanged()
                    with tables.rows.report_damage():
                        tables.rows.refresh(is_writer=True)
                    yield
                    self._check_not_rolled_back()
                    tables.rows.save_about()
                    tables.rows.seal()
                    counter = self._count() if self._connection.total_changes > changes else None
                    is_certain = False
                    self._connection.execute("COMMIT")
                    tables.rows.settle()
                    if counter is not None:  # no row is read here: other keys may have sealed them meanwhile
                        self._note.write(counter, self._ledger)
                        self._noted = time.monotonic()
                except BaseException:
                    self._roll_back(is_certain=is_certain)
                    raise
                finally:
                    self._depth = 0

    def _check_not_rolled_back(self) -> None:
        """Check that SQLite has not ended the transaction after an error: what is written then would stay alone."""
        if not self._connection.in_transaction:
            raise StoreError(
                f"{self.path}: an earlier write in this transaction() failed, so all of it was rolled back; leave the "
                "block and try again: nothing was changed"
            )

    def _roll_back(self, *, is_certain: bool = True) -> None:
        """Return to what is in the file, as far as the disk lets us; the next transaction rolls the rest back."""
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._tables.rows.roll_back(is_certain=is_certain)
        self._tables.forget()
        self._mark_lost()
        self._version = None  # SQLite counts a failure of its own as a change

    def _check_unchanged(self) -> None:
        counter = self._read_change_counter()
        if self._version is None:
            self._version = counter
        if counter != self._version:
            raise StoreError(
                f"{self.path}: was changed by another program while it was open; open it again: what was not flushed "
                "is lost"
            )

    def _read_change_counter(self) -> int:
        """A number that changes when somebody else writes to the file."""
        return int(str(read_pragma(self._connection, "data_version")))

    def tidy(self) -> None:
        """Bring the file into its canonical form, which does not depend on how it came about.

        Rows are put in order, and all pages are written again; nothing is done if nothing was written since.
        """
        with self._use() as tables:
            if not tables.about.untidy:
                return
            self._check_no_transaction()
            with self.transaction(), tables.rows.report_damage():
                arrange(tables)
            self._vacuum()
            with self.transaction():
                tables.about = replace(tables.about, untidy=False)

    def _vacuum(self) -> None:
        """Write all pages again."""
        with translate_errors(self.path):
            self._version = None  # SQLite counts a failure of its own as a change
            self._connection.execute("VACUUM")

    def _erase(self, name: str) -> None:
        with self._use() as tables:
            with self.transaction():
                was_damaged = tables.erase(name)
            if was_damaged and not self._depth:  # what damaged it may have left something where nothing belongs
                self._vacuum()

    def _check_no_transaction(self) -> None:
        if self._depth:
            raise StoreError(f"{self.path}: cannot be written as a whole within transaction(); leave that block first")

    def release(self) -> None:
        """Write what the streams have not written yet, and close them; they can be opened again."""
        super().release()
        if self._connection is not None and not self._depth:
            self._tables.forget()

    def close(self) -> None:
        """Write what the streams have not written yet, and close the file; a second call does nothing."""
        if self._connection is not None:
            try:
                super().close()
                with self._use():
                    clear_drafts(self.path)
                    if self._keyring is not None:  # its journal may have stayed
                        with translate_errors(self.path):
                            self._connection.execute("PRAGMA journal_mode=DELETE")
            finally:
                self._disconnect()

    def _disconnect(self) -> None:
        for name in ("_connection", "_file_lock"):
            connection = getattr(self, name, None)
            if connection is not None:
                connection.close()
            setattr(self, name, None)
