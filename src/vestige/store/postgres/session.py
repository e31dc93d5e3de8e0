"""A session on a store in PostgreSQL: its tables at one moment, and transactions that are committed with their keys.

The order of a transaction: the lock of the store, BEGIN, what others have written since, the block, fences and sealed
rows, their keys into the keyring, COMMIT, the old keys out of the keyring, and only then the lock is released.
Guarantee: after a crash of client or server at any moment the database holds the state before or after a transaction,
and the keyring opens it; held by tests/store/test_postgres_crashes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from vestige.errors import NoStoreError, StoreError
from vestige.store.keyring import Keyring
from vestige.store.keyring.keyring import name_keyring
from vestige.store.memory_rows import MemoryRows
from vestige.store.postgres.connection import Connection
from vestige.store.postgres.locks import Locks
from vestige.store.postgres.rows import PostgresRows
from vestige.store.postgres.schema import (
    StoreRow,
    check_version,
    create_tables,
    lock_creation,
    read_store,
)
from vestige.store.sealed_rows import SealedRows
from vestige.store.tables import Tables

Result = TypeVar("Result")


class Session:
    """A session on a store.

    Args:
        connection: the session on the server, which is begun by `open`.
        keyring: the keyring of the store.
        rejoin: called when the session on the server was lost and another was begun; default: nothing is done.

    Attributes:
        connection: the session on the server.
        keyring: the keyring of the store.
        locks: the locks of the store.
        rows: the rows of the store, for those who hold `read` or `transaction`.
        tables: the tables of the store, for the same.
        depth: 1 in a transaction, else 0.
        is_reading: whether something is read outside of a transaction.
        changes: a number that grows when others have written.
    """

    locks: Locks

    def __init__(self, connection: Connection, keyring: Keyring, rejoin: Callable[[], None] = lambda: None) -> None:
        self.connection, self.keyring, self._rejoin = connection, keyring, rejoin
        self.rows = SealedRows(PostgresRows(connection), keyring, is_shared=True)
        self.tables = Tables(self.rows)
        self.depth, self.is_reading, self.changes = 0, False, 0
        self._store: StoreRow | None = None

    # Opening.

    def open(self, *, create: bool = False) -> None:
        """Begin the session.

        Args:
            create: whether to create the store if there is none.

        Raises:
            StoreError: there is no such store, it belongs to another keyring, or has another version.
        """
        self.connection.open()
        found = read_store(self.connection)
        if found is None and create:
            self._create()
            found = read_store(self.connection)
        self._store = self._check(found)
        self.locks = Locks(self.connection, self.keyring.id, self._store.store)
        check_version(self.connection, self._store)

    def _check(self, found: StoreRow | None) -> StoreRow:
        where = self.connection.where
        if found is None:
            raise NoStoreError(f"{where}: there is no such store; create one with vestige run --store, or open_store")
        if found.keyring != self.keyring.id:
            raise StoreError(
                f"{where}: was sealed with the keyring {name_keyring(found.keyring)}, and {self.keyring.where} is "
                f"{self.keyring.name}; give the keyring that belongs to it"
            )
        return found

    def _create(self) -> None:
        """Create the store, unless another process does at the same time."""
        connection, rows = self.connection, self.rows
        connection.execute("BEGIN")
        is_certain = True
        try:
            lock_creation(connection)
            if read_store(connection) is not None:
                return
            made = create_tables(connection, self.keyring.id)
            with Locks(connection, self.keyring.id, made.store).hold_store(is_writer=True):
                rows.adopt(MemoryRows(connection.where))
                rows.draw_secret()
                rows.seal()
                is_certain = False
                connection.commit()
                rows.settle()
        except BaseException:
            connection.roll_back()
            rows.roll_back(is_certain=is_certain and connection.is_open)
            raise
        finally:
            connection.roll_back()

    @property
    def is_busy(self) -> bool:
        """Whether something is being read or written."""
        return bool(self.depth or self.is_reading)

    def attempt(self, action: Callable[[], Result]) -> Result:
        """Do something on the server, in a new session if it turns out that the last one was lost.

        Args:
            action: what to do; while something is read or written, it is done in that session or not at all.

        Returns:
            What it returns.

        Raises:
            StoreError: the server cannot be reached, or has another store now.
        """
        if self.is_busy:
            return action()
        self._connect()
        try:
            return action()
        except StoreError:
            if self.connection.is_open:
                raise
        self._connect()
        return action()

    def _connect(self) -> None:
        """Begin another session on the server if the last one was lost."""
        if self.connection.is_open:
            return
        self.connection.open(tries_again=True)
        try:
            self._check_same(self._check(read_store(self.connection)))
            self._rejoin()
        except BaseException:
            self.connection.drop()
            raise

    def _check_same(self, found: StoreRow) -> None:
        if self._store is None or (found.store, found.version) != (self._store.store, self._store.version):
            raise StoreError(
                f"{self.connection.where}: another store, or another version, has taken its place; open it again"
            )

    # Reading and writing.

    @contextmanager
    def read(self) -> Iterator[Tables]:
        """Hold the tables as they are at one moment; commits of others wait meanwhile.

        Yields:
            The tables.
        """
        if self.depth or self.is_reading:
            yield self.tables
            return
        with self._hold(is_writer=False):
            self.is_reading = True
            try:
                self.connection.begin(is_writer=False)
                self._refresh(is_writer=False)
                yield self.tables
            finally:
                self.is_reading = False
                self.connection.roll_back()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all that is written inside durable at once, at the end; nothing of it if an error leaves the block.

        Yields:
            Nothing.

        Raises:
            StoreBusyError: others hold the store for longer than this waits.
            StoreError: it cannot be written; the message says if it is not known whether it was.
        """
        if self.is_reading:
            raise StoreError(
                f"{self.connection.where}: cannot be written while it is being read; read to the end first"
            )
        with self._hold(is_writer=True):
            is_certain, rows = True, self.rows
            try:
                self.connection.begin(is_writer=True)
                self.depth = 1
                self._refresh(is_writer=True)
                yield
                self.check_going()
                rows.save_about()
                if rows.has_changes:
                    self.locks.mark()
                rows.seal()
                is_certain = False
                try:
                    self.connection.commit()
                except StoreError as problem:
                    is_certain = self.connection.is_open
                    raise (problem if is_certain else self._make_unknown()) from None
                self.locks.note_commit()
                rows.settle()
            except BaseException:
                self.connection.roll_back()
                rows.roll_back(is_certain=is_certain and self.connection.is_open)
                self.tables.forget()
                raise
            finally:
                self.depth = 0

    def _make_unknown(self) -> StoreError:
        return StoreError(
            f"{self.connection.where}: the connection was lost during a commit, so that it is not known whether it was "
            "made; try again, which is safe: a state is written whole, so nothing counts twice"
        )

    def check_going(self) -> None:
        """Check that the transaction can go on.

        Raises:
            StoreError: a statement in it failed, or the connection was lost.
        """
        self.connection.check_transaction()

    @contextmanager
    def _hold(self, *, is_writer: bool) -> Iterator[None]:
        with ExitStack() as stack:
            self.attempt(lambda: stack.enter_context(self.locks.hold_store(is_writer=is_writer)))
            yield

    def _refresh(self, *, is_writer: bool) -> None:
        """Forget what others have written anew."""
        with self.rows.report_damage():
            if self.rows.refresh(is_writer=is_writer):
                self.tables.forget()
                self.changes += 1

    def close(self) -> None:
        """End the session."""
        self.connection.close()
