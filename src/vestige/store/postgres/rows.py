"""The rows of a store in PostgreSQL, which keeps what it overwrites: they are sealed by whoever writes them here.

Guarantee: held by tests/store/test_postgres_rows.py; what is sealed, see `vestige.store.sealed_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from vestige.errors import StoreError
from vestige.store.postgres.connection import Connection
from vestige.store.postgres.schema import quote_schema
from vestige.store.rows import TABLES, Rows

_PAGE = 256
"""Number of rows that are read at a time; those of buckets have about 20 kB."""


class PostgresRows(Rows):
    """The rows of a store, over a session; whoever writes holds a transaction.

    Args:
        connection: the session.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.where)
        self._connection, self._schema = connection, quote_schema(connection)
        self._ahead: dict[tuple[str, int], tuple[bytes, ...]] = {}
        self._moment = 0

    def read_ahead(self, table: str, rows: Iterable[int]) -> None:
        """Read rows that are needed next, in one go; they are forgotten with the transaction."""
        query = f"SELECT id, {_join(table, ())} FROM {self._name(table)} WHERE id = ANY(%s)"  # noqa: S608
        found = self._connection.execute(query, list(rows))
        self._ahead = {(table, row): tuple(parts) for row, *parts in found}
        self._moment = self._connection.transactions

    def read(self, table: str, row: int, columns: Sequence[str] = ()) -> tuple[bytes, ...] | None:
        """Read a row."""
        ready = self._ahead.pop((table, row), None)
        if ready is not None and self._moment == self._connection.transactions:
            return tuple(ready[TABLES[table].index(column)] for column in columns or TABLES[table])
        found = self._connection.execute(f"SELECT {_join(table, columns)} FROM {self._name(table)} WHERE id = %s", row)  # noqa: S608
        return found[0] if found else None

    def iterate(self, table: str, columns: Sequence[str] = ()) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Iterate over the rows of a table, in the order of their numbers, a few at a time."""
        query = f"SELECT id, {_join(table, columns)} FROM {self._name(table)} WHERE id > %s ORDER BY id LIMIT {_PAGE}"  # noqa: S608
        last = 0
        while page := self._connection.execute(query, last):
            for row, *parts in page:
                yield row, tuple(parts)
            last = page[-1][0]

    def read_column(self, table: str, column: str) -> list[tuple[int, bytes]]:
        """Read one part of all rows of a table."""
        found = self._connection.execute(f"SELECT id, {column} FROM {self._name(table)} ORDER BY id")  # noqa: S608
        return [(row, part) for row, part in found]

    def write(self, table: str, row: int, *parts: bytes) -> None:
        """Write a row, which replaces the one that is there."""
        self.write_many(table, {row: parts})

    def write_many(self, table: str, rows: Mapping[int, Sequence[bytes]]) -> None:
        """Write several rows of a table, without waiting for the server after each."""
        self._ahead = {}
        columns = TABLES[table]
        query = (
            f"INSERT INTO {self._name(table)} VALUES (%s{', %s' * len(columns)}) ON CONFLICT (id) DO UPDATE SET "  # noqa: S608
            + ", ".join(f"{column} = excluded.{column}" for column in columns)
        )
        self._connection.execute_many(query, [(row, *parts) for row, parts in rows.items()])

    def cut(self, table: str, row: int) -> None:
        """Delete all rows from a number on."""
        self._ahead = {}
        self._connection.execute(f"DELETE FROM {self._name(table)} WHERE id >= %s", row)  # noqa: S608

    def find_end(self, table: str) -> int:
        """Find the number of the last row; 0 if there is none."""
        ((end,),) = self._connection.execute(f"SELECT max(id) FROM {self._name(table)}")  # noqa: S608
        return int(end or 0)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is written inside if an error leaves the block."""
        self._connection.execute("SAVEPOINT stream")
        try:
            yield
        except BaseException:
            with suppress(StoreError):  # else the whole transaction is rolled back
                self._connection.execute("ROLLBACK TO stream")
            raise

    def translate_errors(self) -> AbstractContextManager[None]:
        """Turn errors of psycopg into ours."""
        return self._connection.translate_errors()

    def _name(self, table: str) -> str:
        return f"{self._schema}.{table}"


def _join(table: str, columns: Sequence[str]) -> str:
    return ", ".join(columns or TABLES[table])
