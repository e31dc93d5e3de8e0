"""The databases that an export can be: a file each, written by SQLite or by DuckDB.

DuckDB keeps comments of tables and columns. SQLite does not; it keeps the text of CREATE TABLE with the comments in it.
Guarantee: both hold the same rows, with the types that each database has for them; held by tests/test_cli_export.py.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import ClassVar
from urllib.parse import quote

from vestige.cli.export.contents import Part, Row
from vestige.cli.export.layout import TABLES, Column, Kind, Table
from vestige.errors import MissingExtraError, StoreError
from vestige.store.paths import append_ending, open_draft

_COLUMNS = {table.name: table.columns for table in TABLES}
_DESCRIBED = "SELECT DISTINCT table_name FROM about"


class Database(ABC):
    """A kind of database.

    Attributes:
        endings: endings of the names of the files that it keeps beside its own.
    """

    endings: ClassVar[tuple[str, ...]]

    def write(self, path: Path, parts: Iterable[Part]) -> None:
        """Write all tables to a file that only its owner can read, in place of what is there.

        Args:
            path: the file.
            parts: the rows, each time some of a table.

        Raises:
            StoreError: the file cannot be written; nothing is left of it.
        """
        with open_draft(path) as draft, self._translate_errors(path):
            self._fill(draft, parts)
            for ending in self.endings:  # what a reader of the file that was there left when it was killed
                append_ending(path, ending).unlink(missing_ok=True)

    @abstractmethod
    def _fill(self, draft: Path, parts: Iterable[Part]) -> None:
        """Write all tables to a new file."""

    @abstractmethod
    def _translate_errors(self, path: Path) -> AbstractContextManager[None]:
        """Turn errors of the database into ours, which name the file."""

    @abstractmethod
    def is_export(self, path: Path) -> bool:
        """Tell whether a file is an earlier export.

        Args:
            path: the file.

        Returns:
            False for any other file, and for one that cannot be read.
        """


class SqliteDatabase(Database):
    """A database of SQLite: times are texts in UTC, which compare with CURRENT_TIMESTAMP, and flags are 0 or 1."""

    endings: ClassVar[tuple[str, ...]] = ("-journal", "-wal", "-shm")

    def _fill(self, draft: Path, parts: Iterable[Part]) -> None:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN")
            for table in TABLES:
                connection.execute(_create_commented(table))
            for name, rows in parts:
                places = ", ".join("?" * len(_COLUMNS[name]))
                made = (tuple(map(_to_sqlite, row)) for row in rows)
                connection.executemany(f"INSERT INTO {name} VALUES ({places})", made)  # noqa: S608  # our own names
            connection.execute("COMMIT")

    @contextmanager
    def _translate_errors(self, path: Path) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            kind = getattr(problem, "sqlite_errorname", type(problem).__name__)
            raise StoreError(f"{path}: SQLite cannot write it ({kind}); make room, or give another path") from None

    def is_export(self, path: Path) -> bool:
        """Tell whether a file is an earlier export; see `Database.is_export`."""
        try:
            with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
                return _is_ours(connection.execute(_DESCRIBED).fetchall())
        except sqlite3.Error:
            return False


class DuckdbDatabase(Database):
    """A database of DuckDB.

    Raises:
        MissingExtraError: DuckDB is not installed.
    """

    endings: ClassVar[tuple[str, ...]] = (".wal",)

    def __init__(self) -> None:
        self._duckdb = _import_duckdb()

    def _fill(self, draft: Path, parts: Iterable[Part]) -> None:
        # no temporary directory: rows that do not fit into memory are not put anywhere else
        with self._duckdb.connect(str(draft), config={"temp_directory": ""}) as connection:
            for table in TABLES:
                connection.execute(_create_table(table, _DUCKDB))
                for statement in _describe(table):
                    connection.execute(statement)
            for name, rows in parts:
                connection.register("given", _make_arrow_table(_COLUMNS[name], rows))
                connection.execute(f"INSERT INTO {name} SELECT * FROM given")  # noqa: S608  # our own names
                connection.unregister("given")

    @contextmanager
    def _translate_errors(self, path: Path) -> Iterator[None]:
        try:
            yield
        except self._duckdb.Error as problem:  # its text may quote a value
            kind = type(problem).__name__
            raise StoreError(f"{path}: DuckDB cannot write it ({kind}); make room, or give another path") from None

    def is_export(self, path: Path) -> bool:
        """Tell whether a file is an earlier export; see `Database.is_export`."""
        try:
            with self._duckdb.connect(str(path), read_only=True) as connection:
                return _is_ours(connection.execute(_DESCRIBED).fetchall())
        except self._duckdb.Error:
            return False


_SQLITE: Mapping[Kind, str] = {"text": "TEXT", "integer": "INTEGER", "real": "REAL", "flag": "INTEGER", "time": "TEXT"}
_DUCKDB: Mapping[Kind, str] = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "real": "DOUBLE",
    "flag": "BOOLEAN",
    "time": "TIMESTAMP",
}


def _import_duckdb() -> ModuleType:
    try:
        import duckdb  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("--duckdb", "duckdb") from None
    return duckdb


def _list_declarations(table: Table, types: Mapping[Kind, str]) -> list[str]:
    return [f"{each.name} {types[each.kind]}{' NOT NULL' if each.is_required else ''}" for each in table.columns]


def _create_table(table: Table, types: Mapping[Kind, str]) -> str:
    return f"CREATE TABLE {table.name} ({', '.join(_list_declarations(table, types))})"


def _create_commented(table: Table) -> str:
    """The statement that makes a table in SQLite, with its comments."""
    lines = [f"CREATE TABLE {table.name} ( -- {table.comment}"]
    for i, (declaration, column) in enumerate(zip(_list_declarations(table, _SQLITE), table.columns, strict=True), 1):
        lines.append(f"  {declaration}{',' if i < len(table.columns) else ''} -- {column.comment}")
    return "\n".join((*lines, ")"))


def _describe(table: Table) -> Iterator[str]:
    """The statements that comment on a table in DuckDB."""
    yield f"COMMENT ON TABLE {table.name} IS {_quote(table.comment)}"
    for column in table.columns:
        yield f"COMMENT ON COLUMN {table.name}.{column.name} IS {_quote(column.comment)}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _to_sqlite(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(" ", "microseconds")
    return _to_unicode(value) if isinstance(value, str) else value


def _to_unicode(text: str) -> str:
    """A text that databases take: what is not Unicode, such as a byte of a name of a file, is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _make_arrow_table(described: Sequence[Column], rows: list[Row]) -> object:
    """The rows of a table for DuckDB, which reads Arrow's columns far faster than rows of Python."""
    import pyarrow as pa  # noqa: PLC0415

    types = {
        "text": pa.string(),
        "integer": pa.int64(),
        "real": pa.float64(),
        "flag": pa.bool_(),
        "time": pa.timestamp("us"),
    }
    columns = zip(*rows, strict=True) if rows else ((),) * len(described)
    arrays = [
        pa.array([_to_unicode(each) if isinstance(each, str) else each for each in values], types[column.kind])
        for column, values in zip(described, columns, strict=True)
    ]
    return pa.table(arrays, names=[column.name for column in described])


def _is_ours(described: list[tuple[str]]) -> bool:
    return {name for (name,) in described} == {table.name for table in TABLES}
