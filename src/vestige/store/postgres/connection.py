"""A session on a PostgreSQL server: settings that a store depends on are set and asserted, errors say what to do.

Guarantee: no error, no log line and no description of a store contains a password; held by
tests/store/test_postgres_connection.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from vestige.errors import StoreError
from vestige.store.postgres.address import Address, load_psycopg
from vestige.store.postgres.errors import explain_refusal, make_error

if TYPE_CHECKING:
    import psycopg

EARLIEST = 14
"""The earliest version of PostgreSQL that is supported."""
_PAUSE = 0.1
"""Seconds between two attempts to connect."""
_WEAK = ("off", "local")
"""Values of synchronous_commit with which a commit may be lost after it was reported, here or on a standby."""
_SETTINGS = {
    "client_encoding": "UTF8",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "statement_timeout": "0",
    "search_path": "",
}
_KEEPALIVE = {"tcp_keepalives_idle": "60", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "6"}
"""After how many seconds the server frees the locks of a client whose host is gone; without effect on a socket."""


class Connection:
    """A session on a server, which can be begun again after it was lost.

    Args:
        address: where the store is.
        patience: seconds for which a lock is waited for, and a server that is starting.

    Attributes:
        address: where the store is.
        where: the same for messages.
        patience: seconds to wait.
        transactions: how many transactions were begun.
    """

    def __init__(self, address: Address, patience: float) -> None:
        self.address, self.where, self.patience = address, address.where, patience
        self.transactions = 0
        self._connection: psycopg.Connection[Any] | None = None
        self._cursor: psycopg.Cursor[Any]
        self._pid, self._began, self._is_pooled = 0, "", False

    # A session.

    def open(self, *, tries_again: bool = False) -> None:
        """Begin a session; one that was lost is ended on the server, so that nothing of it holds a lock.

        Args:
            tries_again: whether to try again, for as long as `patience` says, if the server cannot be reached.

        Raises:
            StoreError: the server cannot be reached, refuses the connection, or cannot hold a store.
        """
        self.close()
        if self._is_pooled:
            self._refuse_pooler()
        until = time.monotonic() + self.patience
        while True:
            try:
                connection = self._connect()
                break
            except StoreError:
                if not tries_again or time.monotonic() + _PAUSE > until:
                    raise
            time.sleep(_PAUSE)
        try:
            with self.translate_errors():
                self._begin_session(connection)
        except BaseException:
            connection.close()
            raise

    def _connect(self) -> psycopg.Connection[Any]:
        driver = load_psycopg()
        defaults = {"connect_timeout": max(2, math.ceil(self.patience)), "application_name": "vestige"}
        chosen = {**defaults, **self.address.connection, "client_encoding": "UTF8"}
        try:
            made = driver.connect(**chosen, autocommit=True, prepare_threshold=1)
        except driver.Error as problem:
            raise StoreError(f"{self.where}: {explain_refusal(str(problem))}") from None
        return cast("psycopg.Connection[Any]", made)

    def _begin_session(self, connection: psycopg.Connection[Any]) -> None:
        if connection.info.server_version < EARLIEST * 10_000:
            raise StoreError(
                f"{self.where}: the server has version {connection.info.server_version // 10_000} of PostgreSQL; use "
                f"version {EARLIEST} or later"
            )
        cursor = connection.cursor(binary=True)
        self._set_up(cursor)
        self._check_primary(cursor)
        pid, began = self._identify(cursor)
        if pid != connection.info.backend_pid:
            self._check_no_pooler(pid)
        if self._pid:  # locks of a session that was lost are held until the server notices
            cursor.execute(
                "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity "
                "WHERE pid = %s AND backend_start::text = %s AND usename = current_user",
                (round(self.patience * 1000), self._pid, self._began),
            )
        self._connection, self._cursor, self._pid, self._began = connection, cursor, pid, began

    def _set_up(self, cursor: psycopg.Cursor[Any]) -> None:
        """Set every setting that matters, then ask for it."""
        known: Mapping[str, str] = dict(cursor.execute("SELECT name, setting FROM pg_settings").fetchall())
        wanted = _SETTINGS | {"lock_timeout": str(max(1, round(self.patience * 1000)))}
        if "transaction_timeout" in known:
            wanted["transaction_timeout"] = "0"
        if known["synchronous_commit"] in _WEAK:
            wanted["synchronous_commit"] = "on"
        for name, value in (wanted | _KEEPALIVE).items():
            cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
        found = dict(cursor.execute("SELECT name, setting FROM pg_settings").fetchall())
        for name, value in wanted.items():
            if found[name] != value:
                raise StoreError(
                    f"{self.where}: the server leaves {name} at {found[name]!r} where a store needs {value!r}; have "
                    "its administrator allow that"
                )

    def _check_primary(self, cursor: psycopg.Cursor[Any]) -> None:
        """Locks on a standby do not reach the primary server, so a key may be destroyed while a row is read there."""
        if cursor.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
            raise StoreError(
                f"{self.where}: is a standby server, which lags behind the keyring and has locks of its own; give the "
                "address of the primary server (target_session_attrs=primary chooses it among several)"
            )

    def _identify(self, cursor: psycopg.Cursor[Any]) -> tuple[int, str]:
        """What tells this session on the server from any other, at any time."""
        found = cursor.execute(
            "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchone()
        assert found is not None  # noqa: S101  # it is the session that asks
        return int(found[0]), str(found[1])

    def _check_no_pooler(self, pid: int) -> None:
        """Check that a second connection does not share the session, as behind a pooler it may."""
        with self._connect() as other:
            (shared,) = other.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        if shared == pid:
            self._refuse_pooler()

    def check_writable(self, is_read_only: str) -> None:
        """Check that transactions of the session may write.

        Args:
            is_read_only: what the server says of `default_transaction_read_only`.

        Raises:
            StoreError: they may not, such as those of a role that may only read, or on a primary that was fenced.
        """
        if is_read_only == "on":
            raise make_error(self.where, "25006")

    def check_session(self, pid: int) -> None:
        """Check that a statement ran in the session that was begun.

        Args:
            pid: what `pg_backend_pid()` said in it.

        Raises:
            StoreError: it ran in another one.
        """
        if pid != self._pid:
            self.close()
            self._refuse_pooler()

    def _refuse_pooler(self) -> None:
        self._is_pooled = True
        raise StoreError(
            f"{self.where}: a pooler hands statements to sessions that others use too, where the locks of a store do "
            "not hold; connect to the server itself, or set the pooler to pool_mode=session"
        )

    @property
    def is_open(self) -> bool:
        """Whether the session is there, as far as is known here."""
        return self._connection is not None and not self._connection.closed

    def check_transaction(self) -> None:
        """Check that a transaction was begun and can go on.

        Raises:
            StoreError: a statement in it failed, or the connection was lost.
        """
        if self._connection is None or self._connection.closed:
            raise make_error(self.where, "", is_lost=True)
        if self._connection.info.transaction_status.name != "INTRANS":
            raise make_error(self.where, "25P02")

    def close(self) -> None:
        """End the session; the server frees its locks."""
        if self.is_open:
            self._pid = 0
        self.drop()

    def drop(self) -> None:
        """End a session whose state is not known; the next one has the server end it too, should it not notice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # Statements.

    def execute(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement.

        Args:
            query: the statement.
            values: what replaces its placeholders.

        Returns:
            What it returns.

        Raises:
            StoreError: the server cannot execute it, or the connection is lost.
            StoreBusyError: a lock was waited for in vain.
        """
        with self._drop_interrupted(), self.translate_errors():
            cursor = self._find_cursor().execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def execute_many(self, query: str, rows: Sequence[Sequence[object]]) -> None:
        """Execute a statement for several rows, without waiting for an answer in between.

        Args:
            query: the statement.
            rows: what replaces its placeholders, for each row.
        """
        with self._drop_interrupted(), self.translate_errors():
            self._find_cursor().executemany(query.encode(), rows)

    def _find_cursor(self) -> psycopg.Cursor[Any]:
        if not self.is_open:
            raise make_error(self.where, "", is_lost=True)
        return self._cursor

    def begin(self, *, is_writer: bool) -> None:
        """Begin a transaction that sees one moment of the database.

        Args:
            is_writer: whether it may write, unless the server only lets it read, which stays so.
        """
        self.transactions += 1
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ" + ("" if is_writer else ", READ ONLY"))

    def commit(self) -> None:
        """Commit the transaction.

        Raises:
            StoreError: it was rolled back, or the connection was lost; see `is_open`.
        """
        with self._drop_interrupted(), self.translate_errors():
            cursor = self._find_cursor().execute(b"COMMIT")
            if cursor.statusmessage != "COMMIT":  # of a transaction that has failed, PostgreSQL makes a rollback
                raise make_error(self.where, "25P02")

    def roll_back(self) -> None:
        """Roll the transaction back, if there is one; a lost session has none."""
        with suppress(StoreError):
            if self._connection is not None and self._connection.info.transaction_status.name != "IDLE":
                self.execute("ROLLBACK")

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn errors of psycopg into ours, which name the store and the remedy.

        Yields:
            Nothing.

        Raises:
            StoreError: in place of an error of psycopg.
        """
        driver = load_psycopg()
        try:
            yield
        except driver.Error as problem:
            is_lost = self._connection is not None and self._connection.closed
            is_lost |= isinstance(problem, driver.OperationalError) and problem.sqlstate is None  # libpq says it
            text = problem.diag.message_primary or ""
            raise make_error(self.where, problem.sqlstate or "", text, is_lost=is_lost) from None

    @contextmanager
    def _drop_interrupted(self) -> Iterator[None]:
        """End the session if the program is interrupted: nobody can say what the server has done by then."""
        try:
            yield
        except StoreError:
            raise
        except BaseException:
            self.drop()
            raise
