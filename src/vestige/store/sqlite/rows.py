"""The rows of a store in a SQLite file, padded (`vestige.store.sqlite.padding`), and sealed if it has a keyring.

Guarantee: no byte of what was overwritten or removed is left in the file; held by tests/store/test_padding.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from vestige.errors import StoreError
from vestige.store.keyring import Keyring, KeyTable
from vestige.store.keyring.address import open_own_keyring
from vestige.store.keyring.keyring import name_keyring
from vestige.store.keyring.seal import Prefix
from vestige.store.rows import TABLES, Rows
from vestige.store.sealed_rows import SealedRows
from vestige.store.sqlite.connection import is_sealed, translate_errors
from vestige.store.sqlite.padding import pad_body


class SqliteRows(Rows):
    """The rows of a store, over a connection; whoever writes holds a transaction.

    Args:
        connection: to the file, or to a copy of it.
        path: the file, for error messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(str(path))
        self.connection = connection
        self.path = path

    def read(self, table: str, row: int, columns: Sequence[str] = ()) -> tuple[bytes, ...] | None:
        """Read a row."""
        names = ", ".join(columns or TABLES[table])
        found = self.connection.execute(f"SELECT {names} FROM {table} WHERE id = ?", (row,)).fetchone()  # noqa: S608
        return None if found is None else tuple(found)

    def iterate(self, table: str, columns: Sequence[str] = ()) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Iterate over the rows of a table, in the order of their numbers."""
        names = ", ".join(columns or TABLES[table])
        for found in self.connection.execute(f"SELECT id, {names} FROM {table} ORDER BY id"):  # noqa: S608
            yield found[0], found[1:]

    def read_column(self, table: str, column: str) -> list[tuple[int, bytes]]:
        """Read one part of all rows of a table."""
        return self.connection.execute(f"SELECT id, {column} FROM {table} ORDER BY id").fetchall()  # noqa: S608

    def write(self, table: str, row: int, *parts: bytes) -> None:
        """Write a row, which replaces the one that is there."""
        stored = (*parts[:-1], pad_body(parts)) if len(parts) > 1 else parts
        columns = TABLES[table]
        changed = self.connection.execute(
            f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in columns)} WHERE id = ?",  # noqa: S608
            (*stored, row),
        ).rowcount
        if not changed:
            marks = ", ".join("?" for _ in columns)
            self.connection.execute(f"INSERT INTO {table} VALUES (?, {marks})", (row, *stored))  # noqa: S608

    def cut(self, table: str, row: int) -> None:
        """Delete all rows from a number on."""
        self.connection.execute(f"DELETE FROM {table} WHERE id >= ?", (row,))  # noqa: S608

    def find_end(self, table: str) -> int:
        """Find the number of the last row; 0 if there is none."""
        (end,) = self.connection.execute(f"SELECT max(id) FROM {table}").fetchone()  # noqa: S608
        return int(end or 0)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is written inside if an error leaves the block."""
        self.connection.execute("SAVEPOINT stream")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):  # else the whole transaction is rolled back
                self.connection.execute("ROLLBACK TO stream")
            raise
        finally:
            with suppress(sqlite3.Error):
                self.connection.execute("RELEASE stream")

    def translate_errors(self) -> AbstractContextManager[None]:
        """Turn errors of SQLite into ours."""
        return translate_errors(self.path)


def open_rows(
    connection: sqlite3.Connection, path: Path, keyring: Keyring | None, keys: KeyTable | None = None
) -> Rows:
    """Open the rows of a file for reading.

    Args:
        connection: to the file, or to a copy of it.
        path: the file, for error messages.
        keyring: its keyring; None if it is not sealed.
        keys: the keys at the moment of the copy; default: the connection is to the file itself.

    Returns:
        The rows, in clear.

    Raises:
        StoreError: it is sealed, and there is no keyring or another one; or it is not sealed, and there is one.
    """
    check_keyring(connection, path, keyring)
    rows = SqliteRows(connection, path)
    if keyring is None:
        return rows
    sealed = SealedRows(rows, keyring, is_shared=False, keys=keys)
    with sealed.report_damage():
        sealed.refresh(is_writer=False)
    return sealed


def check_keyring(connection: sqlite3.Connection, path: Path, keyring: Keyring | None) -> None:
    """Check that a keyring was given if a file is sealed, and only then.

    Args:
        connection: to the file.
        path: the file, for error messages.
        keyring: the keyring that was given.

    Raises:
        StoreError: that is not so.
    """
    if is_sealed(connection) and keyring is None:
        raise StoreError(
            f"{path}: is sealed, and cannot be opened without its keyring; give it by --keyring, VESTIGE_KEYRING or "
            "keyring=..."
        )
    if keyring is not None and not is_sealed(connection):
        raise StoreError(
            f"{path}: is not sealed, so {keyring.where} is not its keyring; leave the keyring out, or seal the store: "
            "open it for writing with the keyring once"
        )


def open_file_keyring(keyring: str | Path | Keyring, path: Path, patience: float) -> Keyring:
    """Open the keyring of a file.

    Args:
        keyring: the keyring, or its address.
        path: the file.
        patience: seconds to wait for other processes that hold the keyring.

    Returns:
        The keyring.

    Raises:
        StoreError: there is no such keyring, or it cannot be read.
    """
    return open_own_keyring(keyring, str(path), lambda: _find_keyring(path), patience)


def _find_keyring(path: Path) -> str | None:
    """The name of the keyring that a file is sealed with; None if it is not sealed, or cannot be read."""
    if path.exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as opened:
            ((about,),) = opened.execute("SELECT body FROM about WHERE id = 1").fetchall()
            prefix = Prefix.read(about)
            return None if prefix is None else name_keyring(prefix.keyring)
    return None
