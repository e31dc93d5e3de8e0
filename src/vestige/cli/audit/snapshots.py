"""Snapshots of a table, read from files and databases as they are, with a hash of what was read.

Guarantee: files and databases are opened for reading only; errors name the source and the column, never a row's
contents; held by tests/test_cli_audit_table.py.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vestige.audit import TableSnapshot
from vestige.cli.audit.declared import Condition
from vestige.errors import ParameterError, SourceError
from vestige.sources import Block, FileSource
from vestige.sources.dialect import Dialect
from vestige.store.address import hide_passwords
from vestige.store.postgres.address import Address, load_psycopg
from vestige.store.postgres.errors import explain_refusal
from vestige.times import to_utc
from vestige.types import Floats

_ZIP = b"PK\x03\x04"
_MAGIC = b"SQLite format 3\0"
Moments = NDArray[np.float64] | NDArray[np.datetime64]
_SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Which columns of a table are read.

    Attributes:
        id: column that identifies a row.
        values: numeric columns.
        arrived: column of arrival, if any.
        conditions: declared rules, each with a column of its own.
    """

    id: str
    values: tuple[str, ...]
    arrived: str | None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """A snapshot, and where it comes from.

    Attributes:
        snapshot: what was read.
        name: source, without passwords.
        sha256: hash of the file; of the rows that were read, for a server.
        note: what was assumed to read it; empty if nothing was.
        barred: for each condition the ids of the rows that do not meet it.
    """

    snapshot: TableSnapshot
    name: str
    sha256: str
    note: str = ""
    barred: tuple[set[str], ...] = ()


def read_snapshots(sources: Sequence[str], tables: Sequence[str], columns: TableColumns) -> list[ReadSnapshot]:
    """Read the snapshots in the order in which they are named.

    Args:
        sources: files, or addresses of PostgreSQL.
        tables: tables to read from each database.
        columns: columns to read.

    Returns:
        One snapshot for each file, and for each table of a database.

    Raises:
        ParameterError: a database is named without a table, or a table without a database.
        SourceError: something cannot be read.
    """
    found: list[ReadSnapshot] = []
    for source in sources:
        if source == "-":
            raise ParameterError("- is standard input, which cannot be hashed and read again; give files")
        if Path(source).is_dir():
            raise ParameterError(f"{source} is a folder; give its files in order of time, such as {source}/*.csv")
        if not _is_database(source):
            found.append(_read_file(source, columns))
            continue
        if not tables:
            raise ParameterError(f"{hide_passwords(source)} is a database; name the table with --table")
        found += [_read_table(source, table, columns) for table in tables]
    if tables and not any(map(_is_database, sources)):
        raise ParameterError(f"--table {tables[0]} is given, but no source is a database; leave it out")
    return _note_copies(found)


def _note_copies(found: list[ReadSnapshot]) -> list[ReadSnapshot]:
    """The same snapshots; those with the content of an earlier one say so."""
    first: dict[str, str] = {}
    noted: list[ReadSnapshot] = []
    for each in found:
        earlier = first.setdefault(each.sha256, each.name)
        copied = each.name != earlier or any(one.sha256 == each.sha256 for one in noted)
        note = "; ".join(filter(None, (each.note, f"the same content as {earlier}" if copied else "")))
        noted.append(replace(each, note=note))
    return noted


def _is_database(source: str) -> bool:
    return source.startswith(_SCHEMES) or _read_start(source) == _MAGIC


def _read_start(path: str) -> bytes:
    """The first bytes of a file; none if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC))
    except OSError:
        return b""


def _read_file(path: str, columns: TableColumns) -> ReadSnapshot:
    from vestige.sources.detection import detect_dialect  # noqa: PLC0415  # Arrow takes long to import

    if _read_start(path).startswith(_ZIP):
        raise SourceError(f"{path}: is a workbook or an archive; save the sheet as CSV, or unpack it")
    dialect = detect_dialect(path)
    usual = Dialect()
    source = FileSource(
        path, columns.values, subject=columns.id, by=columns.arrived, keep_missing=True, dialect=dialect
    )
    ids: list[object] = []
    values, arrived, lost = [], [], 0
    for block in _explain_numbers(source.blocks()):
        lost += block.skipped
        values.append(block.rows.astype(np.float64))
        subjects = block.subjects if block.subjects is not None else ()
        lost += sum(subject is None for subject in subjects)
        ids += list(subjects)
        if block.keys is not None and block.codes is not None:
            arrived += [str(text) for text in block.keys[block.codes]] if len(block.codes) else []
    if lost:
        raise SourceError(
            f"{path}: {lost:,} rows have no {columns.id} or no time of arrival; fill them in, or drop them"
        )
    table = np.concatenate(values) if values else np.zeros((0, len(columns.values)))
    note = "" if dialect == usual else f"read with separator {dialect.separator!r}, decimal point {dialect.decimal!r}"
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    moments = _parse_moments(path, columns, arrived)
    barred = tuple(_find_barred(path, columns.id, condition, dialect) for condition in columns.conditions)
    return ReadSnapshot(TableSnapshot(ids, table, moments, Path(path).name), path, digest, note, barred)


def _find_barred(path: str, id_column: str, condition: Condition, dialect: Dialect) -> set[str]:
    """Ids of the rows of a file that do not meet a condition."""
    categories = {condition.column: condition.categories} if condition.categories else {}
    source = FileSource(
        path, (condition.column,), subject=id_column, keep_missing=True, dialect=dialect, categories=categories
    )
    found: set[str] = set()
    for block in _explain_numbers(source.blocks()):
        subjects = block.subjects if block.subjects is not None else np.zeros(0, np.object_)
        found.update(map(str, np.asarray(subjects, np.object_)[condition.find_barred(block.rows[:, 0])]))
    return found


def _explain_numbers(blocks: Iterator[Block]) -> Iterator[Block]:
    """Give a remedy for numbers that this command has, which guesses the decimal point."""
    try:
        yield from blocks
    except SourceError as problem:
        said, hint, _ = str(problem).partition("; if its numbers have decimal commas")
        raise SourceError(f"{said}; write numbers without separators of thousands" if hint else said) from None


def _parse_moments(name: str, columns: TableColumns, texts: Sequence[str]) -> Moments | None:
    """Numbers of arrival, or times in UTC; a time without a zone is taken as UTC."""
    if columns.arrived is None:
        return None
    try:
        numbers = np.array(texts, np.float64)
    except ValueError:
        numbers = np.array([np.nan])
    if np.isfinite(numbers).all():
        return numbers
    try:
        moments = [to_utc(datetime.fromisoformat(text.strip())).replace(tzinfo=None) for text in texts]
        return np.array(moments, "datetime64[us]")
    except (ValueError, OverflowError):
        raise SourceError(
            f"{name}: column {columns.arrived} is neither a number nor a time such as 2024-05-31T12:00; name another"
        ) from None


def _read_table(source: str, table: str, columns: TableColumns) -> ReadSnapshot:
    wanted = [columns.id, *columns.values, *([columns.arrived] if columns.arrived else [])]
    first = len(wanted)
    wanted += [condition.column for condition in columns.conditions]
    from vestige.sources.query.statement import quote_name  # noqa: PLC0415  # Arrow takes long to import

    quote = quote_name if source.startswith(_SCHEMES) else _quote_sqlite
    parts = ".".join(quote(part) for part in table.split("."))
    statement = f"SELECT {', '.join(map(quote, wanted))} FROM {parts}"  # noqa: S608  # names are quoted
    shown = f"{hide_passwords(source)} {table}"
    with _translate(shown):
        rows = _select_postgres(source, statement) if source.startswith(_SCHEMES) else _select_sqlite(source, statement)
    if any(row[0] is None for row in rows):
        raise SourceError(f"{shown}: some rows have no {columns.id}; name a column that identifies a row")
    count = 1 + len(columns.values)
    try:
        values = np.array([[np.nan if cell is None else float(cell) for cell in row[1:count]] for row in rows])
    except (TypeError, ValueError):
        raise SourceError(f"{shown}: {', '.join(columns.values)} is not numeric; name numeric columns") from None
    if columns.arrived is not None and any(row[count] is None for row in rows):
        raise SourceError(f"{shown}: some rows have no {columns.arrived}; fill them in, or drop them")
    moments = _parse_moments(shown, columns, [str(row[count]) for row in rows] if columns.arrived else [])
    lines = sorted("\x1f".join(str(cell) for cell in row) for row in rows)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    table_of = TableSnapshot(
        [_show_id(row[0]) for row in rows],
        values.reshape(len(rows), len(columns.values)),
        moments,
        f"{_shorten(source)} {table}",
    )
    barred = []
    for place, condition in enumerate(columns.conditions, start=first):
        is_barred = condition.find_barred(_read_cells(shown, condition, [row[place] for row in rows]))
        barred.append({str(id_) for id_, each in zip(table_of.ids, is_barred, strict=True) if each})
    return ReadSnapshot(table_of, shown, digest, "the hash is that of the rows, sorted as text", tuple(barred))


def _read_cells(name: str, condition: Condition, cells: Sequence[object]) -> Floats:
    """The column of a condition, as numbers or numbers of its categories."""
    if not condition.is_numeric:
        import pyarrow as pa  # noqa: PLC0415  # Arrow takes long to import

        from vestige.sources.columns import number_categories  # noqa: PLC0415

        texts = [None if cell is None else str(_show_id(cell)) for cell in cells]
        return number_categories(pa.array(texts, pa.string()), condition.categories)
    try:
        return np.array([math.nan if cell is None else float(cell) for cell in cells])  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise SourceError(f"{name}: {condition.column} is not numeric, which --rule {condition.text} needs") from None


def _show_id(cell: object) -> object:
    """An id; a whole number in a column of floats or decimals is shown as one, as it is from files."""
    return int(cell) if isinstance(cell, float | Decimal) and cell % 1 == 0 else cell


def _quote_sqlite(name: str) -> str:
    """A quoted name; between double quotes, SQLite would take the name of a column that is not there as a text."""
    return "`" + name.replace("`", "``") + "`"


def _shorten(source: str) -> str:
    return "PostgreSQL" if source.startswith(_SCHEMES) else Path(source).name


def _select_sqlite(path: str, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as database:
        return database.execute(statement).fetchall()


def _select_postgres(address: str, statement: str) -> list[tuple[Any, ...]]:
    psycopg = load_psycopg()
    try:
        connection = psycopg.connect(**Address.parse(address).connection, application_name="vestige")
    except psycopg.OperationalError as problem:
        raise SourceError(f"{hide_passwords(address)}: {explain_refusal(str(problem))}") from None
    with connection:
        connection.read_only = True
        return list(connection.execute(statement.encode()).fetchall())


@contextmanager
def _translate(name: str) -> Iterator[None]:
    """Name the source in errors of databases, which may quote a row."""
    try:
        yield
    except SourceError:
        raise
    except sqlite3.Error as problem:
        said = str(problem) if str(problem).startswith("no such") else "the database refuses"
        raise SourceError(f"{name}: {said}; check the names of the table and its columns") from None
    except Exception as problem:
        code = getattr(problem, "sqlstate", None)
        if code is None:
            raise
        raise SourceError(
            f"{name}: PostgreSQL refuses ({code}); check the names of the table and its columns"
        ) from None
