"""A store of an earlier version of the format, written in the present one: all of it or nothing.

Guarantee: the file holds the same streams afterwards, or is unchanged; held by tests/store/test_version1.py and those
after it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from vestige.store.canonical import arrange
from vestige.store.ledger import Ledger
from vestige.store.sqlite import version1, version2, version3, version4, version5, version6
from vestige.store.sqlite.connection import create_empty, read_version
from vestige.store.sqlite.rows import SqliteRows
from vestige.store.state import State
from vestige.store.tables import Tables
from vestige.store.terms import Terms

Streams = Iterable[tuple[str, Terms, State]]


def build_store(streams: Streams, ledger: Ledger, fingerprint: bytes, path: Path) -> sqlite3.Connection:
    """Build a store in memory with these streams, in its canonical form.

    Args:
        streams: the name, the terms and the state of each stream.
        ledger: the requests to several streams.
        fingerprint: that of the key.
        path: the file that it is meant for, for error messages.

    Returns:
        A connection to it, which the caller closes.
    """
    connection = create_empty()
    try:
        tables = Tables(SqliteRows(connection, path))
        connection.execute("BEGIN")
        for name, terms, state in streams:
            receipts = tuple(sorted(state.receipts, key=lambda receipt: (receipt.requested, receipt.id)))
            tables.put(name, terms, replace(state, receipts=receipts))
        tables.put_ledger(ledger)
        arrange(tables)
        tables.about = replace(tables.about, fingerprint=fingerprint, untidy=False)
        tables.rows.save_about()
        connection.execute("COMMIT")
        connection.execute("VACUUM")
    except BaseException:
        connection.close()
        raise
    return connection


def copy_database(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Replace the content of `target` by that of `source`, in one transaction.

    Args:
        source: the database to copy.
        target: the database to overwrite.

    Raises:
        sqlite3.OperationalError: another process holds the target; it is unchanged.
    """
    source.backup(target, progress=_stop_if_busy)


def _stop_if_busy(status: int, _left: int, _total: int) -> None:
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        problem = sqlite3.OperationalError("database is locked")
        problem.sqlite_errorname = "SQLITE_BUSY"
        raise problem


def read_earlier_version(connection: sqlite3.Connection, path: Path) -> tuple[Streams, Ledger, bytes]:
    """Read a store of an earlier version of the format.

    Args:
        connection: to the file.
        path: the file, for error messages.

    Returns:
        Its streams, its ledger, which is empty before version 5, and the fingerprint of its key.

    Raises:
        DamagedError: a row is damaged, or belongs to no stream.
    """
    version = read_version(connection)
    if version == 1:
        version1.check_sound(connection)
        return version1.read_streams(connection), Ledger(), version1.read_fingerprint(connection)
    readers = {2: version2.Tables, 3: version3.Tables, 4: version4.Tables, 5: version5.Tables, 6: version6.Tables}
    tables = readers[version](connection, path)
    return tables.states(), tables.ledger() if version >= 5 else Ledger(), tables.about.fingerprint
