"""The store in a PostgreSQL server: many processes write it, each its own streams, sealed with the keys of a keyring.

PostgreSQL keeps what it overwrites (write-ahead log, replicas, dumps), so all rows are sealed
(`vestige.store.sealed_rows`), and destroying a key erases. Transactions of all processes run one after the other, each
under a lock that is held until the keys of what it replaced are destroyed; so no reader finds a key destroyed that it
needs, and nothing has to be tried again for the sake of others.
Guarantee: a stream has one writer, and what another process asks of it reaches it; held by
tests/store/test_postgres_locks.py and tests/store/test_postgres_lent.py. The same streams as a store in memory; held by
tests/store/test_machine.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from vestige.errors import StoreError
from vestige.store.canonical import arrange
from vestige.store.keyring import Keyring
from vestige.store.keys import NO_KEY, fingerprint, hash_subject, hide_subjects
from vestige.store.postgres.address import FORM, Address
from vestige.store.postgres.connection import Connection
from vestige.store.postgres.holdings import Holdings
from vestige.store.postgres.keys import check_key_file, check_keyring, find_key_file
from vestige.store.postgres.place import PostgresFamilyPlace, PostgresPlace
from vestige.store.postgres.reader import PostgresReader
from vestige.store.postgres.schema import note_keyring
from vestige.store.postgres.session import Session
from vestige.store.postgres.verify import verify_store
from vestige.store.search import list_named
from vestige.store.store import PATIENCE, check_patience
from vestige.store.table_store import TableStore
from vestige.store.tables import Tables


class PostgresStore(TableStore):
    """Named streams in a schema of a PostgreSQL database, sealed with a keyring.

    Several processes may have the store open for writing, each with its own streams: a stream has one writer. Threads
    may share a store: while one of them writes, the others wait. A forked process may not use it.

    Args:
        address: where it is: `postgresql://USER@HOST:PORT/DATABASE?schema=NAME`, by default in the schema vestige;
            other parameters are those of libpq. The schema is created if there is none.
        keyring: the keyring, or its address; see `vestige.store.Keyring`. All processes use the same one.
        key: the file with the key that subjects are hashed with, the same for all processes; default: KEYRING.key
            beside a keyring that is a file.
        patience: seconds to wait for others who read or write.
        create: whether to create the store if there is none.

    Raises:
        MissingExtraError: psycopg or cryptography is not installed.
        ParameterError: the address is not valid, or there is no keyring.
        StoreBusyError: another process holds the whole store.
        StoreError: the server cannot be reached, the store belongs to another keyring, or cannot be written; or there
            is none, and `create` is false.

    Attributes:
        address: where it is.
        holdings: what this process holds of it.

    Example:
        >>> PostgresStore("postgresql://db.example.org/visits", keyring=None)
        Traceback (most recent call last):
        vestige.errors.ParameterError: keyring is missing: PostgreSQL keeps what is deleted in its write-ahead log, in
        replicas and in dumps, so a store there is sealed, and erases by destroying keys; pass the one that the store
        has, keyring=PATH (--keyring), or for a new store make one with vestige keyring init PATH
    """

    address_form: ClassVar = FORM

    def __init__(
        self,
        address: str,
        *,
        keyring: str | Path | Keyring | None,
        key: str | Path | None = None,
        patience: float = PATIENCE,
        create: bool = True,
    ) -> None:
        super().__init__()
        check_patience(patience)
        self.address = Address.parse(address)
        self._keyring, self._patience = check_keyring(keyring, self.address, patience), patience
        self._key_file = find_key_file(key, self._keyring, self.address.where)
        self._key: tuple[int, bytes] | None = None
        """The key of the subjects, and how many changes by others there were when it was read."""
        self._is_closed = False
        self._start(create=create)

    def _start(self, *, create: bool) -> None:
        """Begin the session on the store."""
        self._session = Session(Connection(self.address, self._patience), self._keyring, self._rejoin)
        try:
            self._session.open(create=create)
            self.holdings = Holdings(self, self._session)
            self.holdings.join()
            self.holdings.ensure_secret()
        except BaseException:
            self._session.close()
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
    ) -> PostgresStore:
        """Open the store in a schema for writing; see `vestige.open_store`."""
        return cls(str(address), key=key, keyring=keyring, patience=patience, create=create)

    @classmethod
    def open_reader(
        cls,
        address: str | Path,
        *,
        key: str | Path | None = None,
        keyring: str | Path | Keyring | None = None,
        patience: float = PATIENCE,
    ) -> PostgresReader:
        """Open a reader of the store in a schema; see `vestige.open_reader`."""
        return PostgresReader(str(address), key=key, keyring=keyring, patience=patience)

    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        """Check the limits, every row, the keyring and the settings of the server, and look for canaries."""
        return verify_store(self._borrow_session, self._keyring, at=at, canaries=canaries)

    # Using the tables.

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """One thread at a time, of the process that has opened the store; streams are let go at the end."""
        where = self.address.where
        if os.getpid() != self._process:
            raise StoreError(f"{where}: was opened before this process was forked; open it again in this process")
        with self.lock:
            if self._is_closed:
                raise StoreError(f"{where}: this store is closed; open it again")
            yield

    @contextmanager
    def _borrow_session(self) -> Iterator[Session]:
        """The session, for one thread at a time."""
        with self._guard():
            yield self._session

    @contextmanager
    def _use(self) -> Iterator[Tables]:
        """The tables, for one thread at a time, of a store that is open here."""
        with self._guard(), self.holdings.let_go(), self._session.read() as tables:
            yield tables

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all that is written inside durable at once, at the end; nothing of it if an error leaves the block."""
        with self._guard():
            if self._session.depth:
                self._session.check_going()
                yield
                return
            self._transactions += 1
            try:
                with self.holdings.let_go(), self._session.transaction():
                    yield
            except BaseException:
                self._key = None
                self._mark_lost()
                raise

    def tidy(self) -> None:
        """Bring the rows into their canonical form."""
        with self._use() as tables:
            if not tables.about.untidy:
                return
        with self.transaction(), self._use() as tables, tables.rows.report_damage():
            arrange(tables)
            tables.about = replace(tables.about, untidy=False)

    def _erase(self, name: str) -> None:
        with self.transaction(), self._use() as tables:
            terms = None
            with suppress(StoreError):  # a damaged stream can be erased too
                terms = tables.terms(name)
            self.holdings.acquire_for_now(name, None if terms is None else terms.fixed_text)
            tables.erase(name)

    def _place(self, name: str, about: Mapping[str, object]) -> PostgresPlace:
        return PostgresPlace(self, name, about)

    def _family_place(self, about: Mapping[str, object]) -> PostgresFamilyPlace:
        return PostgresFamilyPlace(self, about)

    # The keyring.

    def _note_keyring(self, keyring: Keyring) -> None:
        self.holdings.acquire_all_for_now()
        note_keyring(self._session.connection, keyring.id)

    def _use_keyring(self, keyring: Keyring) -> None:
        with self._guard():
            self._session.close()
            self._keyring = keyring
            self._start(create=False)

    # Subjects.

    def pseudonym(self, subject: str) -> str:
        """Return the pseudonym of a subject; the key is created when it is first needed."""
        with self.lock:
            if self._key is None or self._key[0] != self._session.changes:
                self._key = self._read_key()
            return hash_subject(subject, self._key[1])

    def _read_key(self) -> tuple[int, bytes]:
        """Read the key, or create it while no other process does."""
        with self.transaction(), self._use() as tables:
            known = tables.about.fingerprint
            file = check_key_file(self._key_file, self.address.where)
            key = file.obtain(known, is_needed=lambda: True)  # others may use the known one
            if known == NO_KEY:
                tables.about = replace(tables.about, fingerprint=fingerprint(key))
        return self._session.changes, key

    def rekey(self) -> None:
        """Start with a new key for subjects, where the old one is lost for good; a damaged stream stays as it is."""
        with self.lock, self.borrow():
            file = check_key_file(self._key_file, self.address.where)
            with self._use() as tables:
                file.check_replaceable(tables.about.fingerprint)
            self.release()
            self._key = None
            with self.transaction(), self._use() as tables:
                for name in list_named(tables):
                    with suppress(StoreError):  # a damaged one stays as it is
                        self._hide_subjects(name)
                tables.requests.clear()
                tables.about = replace(tables.about, fingerprint=NO_KEY)  # after a crash any key will do
            file.create()
            self._read_key()

    def _hide_subjects(self, name: str) -> None:
        found = self.read_stream(name)
        if found is not None:
            terms, state = found
            hidden = replace(state, retained=hide_subjects(state.retained))
            self._place(name, terms.about).write(terms, hidden)

    # Other processes.

    def _rejoin(self) -> None:
        self.holdings.rejoin()

    @contextmanager
    def borrow(self, names: Sequence[str] | None = None) -> Iterator[dict[str, str]]:
        """Have other processes lend streams that they have open, to be changed here within the block."""
        with self._guard():
            lent = self.holdings.borrow(names)
        try:
            yield lent.missing
        finally:
            with self.lock:
                self.holdings.give_back(lent)

    def lend(self) -> None:
        """Let other processes have the streams that they wait for, and continue with what they have changed."""
        with self._guard():
            self.holdings.lend()

    def release(self) -> None:
        """Write what the streams have not written yet, and close them; they can be opened again."""
        with self.transaction():  # their locks are released together, at its end
            super().release()

    def close(self) -> None:
        """Write what the streams have not written yet, and end the session; a second call does nothing."""
        if not self._is_closed:
            try:
                super().close()
            finally:
                self._is_closed = True
                self._session.close()
