"""What is asked of PostgreSQL around a query: its columns by purpose, in the order of the cursor, between two values.

Numbers, texts and times are cast by the server, so that a block is made of three kinds of columns. Values of the cursor
are whole numbers or times; both are 64 bits.
Guarantee: NULL is a missing value, and a column of another type is refused by its name; held by
tests/sources/test_query.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from vestige.errors import SourceError
from vestige.sources.columns import Batches, Columns
from vestige.sources.delimited import check_columns, read_numbers

_WHOLE, _DECIMAL, _BOOLEAN = (20, 21, 23), 1700, 16
_FLOATS = (700, 701, _DECIMAL)
_TIMES = {1082: "date", 1114: "timestamp", 1184: "timestamptz"}
"""Types of PostgreSQL by their number (pg_type.oid)."""
_TEXTS = (18, 19, 25, 1042, 1043)


@dataclass(frozen=True, slots=True)
class Statement:
    """A query with what is read of it.

    Attributes:
        query: the query, without a semicolon.
        cursor: name of the cursor column.
        columns: columns to read.
        types: type of each column of the query.
    """

    query: str
    cursor: str
    columns: Columns
    types: Mapping[str, int]

    @classmethod
    def describe(cls, query: str, cursor: str, columns: Columns, described: Sequence[tuple[str, int]]) -> Statement:
        """Check that the columns are there, and of the types that they need.

        Args:
            query: the query.
            cursor: name of the cursor column.
            columns: columns to read.
            described: name and type of each column of the query.

        Returns:
            The statement.

        Raises:
            SourceError: a column is missing, or has another type.
        """
        check_columns([*columns.names, cursor], [name for name, _ in described], is_header=True)
        types = dict(described)
        for name in columns.floats:
            if types[name] not in (*_WHOLE, *_FLOATS, _BOOLEAN):
                raise SourceError(f"column {name!r} is not numeric; name a numeric column, or cast it in the query")
        if types[cursor] not in (*_WHOLE, *_TIMES):
            raise SourceError(f"--cursor {cursor} is neither a whole number nor a time; name such a column")
        return cls(query, cursor, columns, types)

    @property
    def kind(self) -> bytes:
        """The kind of the cursor: i for whole numbers, t for times."""
        return b"i" if self.types[self.cursor] in _WHOLE else b"t"

    @property
    def _source(self) -> str:
        return f"({self.query}\n) AS vestige_rows"

    def ask_end(self, last: int | None) -> bytes:
        """Ask for the largest value of the cursor, the transactions that run, and how many rows have a value.

        Args:
            last: the value; None for none.

        Returns:
            The statement.
        """
        cursor = quote_name(self.cursor)
        largest = f"(SELECT {self._read_cursor(f'max({cursor})')} FROM {self._source}{self._where('true')})"  # noqa: S608
        same = (
            "0"
            if last is None
            else f"(SELECT count(*) FROM {self._source} WHERE {cursor} = {self._write_cursor(last)})"  # noqa: S608
        )
        return f"SELECT {largest}, pg_snapshot_xmax(pg_current_snapshot())::text, {same}".encode()

    def ask_rows(self, after: int | None, end: int) -> bytes:
        """Ask for the rows between two values of the cursor.

        Args:
            after: value after which they begin; None for the first.
            end: value of the last.

        Returns:
            The statement.
        """
        cursor = quote_name(self.cursor)
        parts = [self._read_cursor(cursor)]
        parts += [self._read_number(name) for name in self.columns.floats]
        parts += [
            self._read_time(name) if name == self.columns.time else self._read_text(name) for name in self.columns.texts
        ]
        bounds = f"{cursor} <= {self._write_cursor(end)}"
        if after is not None:
            bounds += f" AND {cursor} > {self._write_cursor(after)}"
        rows = f"{self._source}{self._where(bounds)} ORDER BY vestige_rows.{cursor}"
        return f"SELECT {', '.join(parts)} FROM {rows}".encode()  # noqa: S608

    def make_batches(self, rows: Sequence[Sequence[Any]]) -> Batches:
        """Make columns of rows.

        Args:
            rows: rows of `ask_rows`.

        Returns:
            Numbers and texts.
        """
        cells = list(zip(*rows, strict=True))[1:]
        floats, texts = self.columns.floats, self.columns.texts
        numbers = {
            name: self._make_numbers(self.types[name], values) for name, values in zip(floats, cells, strict=False)
        }
        written = {
            name: pa.array(values, self._find_kind(name))
            for name, values in zip(texts, cells[len(floats) :], strict=True)
        }
        batch = pa.record_batch(numbers or written)
        return batch, pa.record_batch(written) if written else batch

    def _make_numbers(self, kind: int, values: Sequence[Any]) -> pa.Array:
        if kind == _DECIMAL:
            return read_numbers(pa.array(values, pa.string()))
        return pa.array(values, pa.int64() if kind in _WHOLE else pa.float64())

    def _find_kind(self, name: str) -> pa.DataType:
        if name != self.columns.time:
            return pa.string()
        kind = self.types[name]
        if kind in _TIMES:
            return pa.timestamp("us", "UTC")
        return pa.int64() if kind in _WHOLE else pa.float64() if kind in _FLOATS else pa.string()

    def _read_number(self, name: str) -> str:
        column, kind = quote_name(name), self.types[name]
        if kind == _BOOLEAN:
            return f"{column}::int::float8"
        return f"{column}::text" if kind == _DECIMAL else f"{column}::bigint" if kind in _WHOLE else f"{column}::float8"

    def _read_text(self, name: str) -> str:
        return f"{quote_name(name)}::text"

    def _read_time(self, name: str) -> str:
        column, kind = quote_name(name), self.types[name]
        if kind in _TIMES:
            return f"CASE WHEN isfinite({column}) THEN {_count_microseconds(column)} END"
        return f"{column}::bigint" if kind in _WHOLE else f"{column}::float8" if kind in _FLOATS else f"{column}::text"

    def _read_cursor(self, column: str) -> str:
        return f"{column}::bigint" if self.kind == b"i" else _count_microseconds(column)

    def _write_cursor(self, value: int) -> str:
        if self.kind == b"i":
            return f"({value})::bigint"
        name = _TIMES[self.types[self.cursor]]
        moment = f"(({value})::bigint * interval '1 microsecond')"
        return f"(timestamp 'epoch' + {moment})::date" if name == "date" else f"({name} 'epoch' + {moment})"

    def _where(self, bounds: str) -> str:
        return f" WHERE {bounds}" if self.kind == b"i" else f" WHERE isfinite({quote_name(self.cursor)}) AND {bounds}"


def quote_name(name: str) -> str:
    """Quote the name of a column.

    Args:
        name: the name.

    Returns:
        The name for a statement.

    Example:
        >>> print(quote_name('a "b" c'))
        "a ""b"" c"
    """
    return '"' + name.replace('"', '""') + '"'


def _count_microseconds(column: str) -> str:
    return f"(extract(epoch FROM {column}) * 1000000)::bigint"
