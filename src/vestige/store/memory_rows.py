"""The rows of a store in memory: those of a store that ends with its process, or a copy of those of another.

Guarantee: held by tests/store/test_machine.py; a copy does not change with what it was copied from; held by
tests/store/test_table_reader.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from vestige.store.bucket import Summary, pack_head
from vestige.store.rows import TABLES, About, Rows

Row = tuple[bytes, ...]


class MemoryRows(Rows):
    """The rows of a store in memory.

    Args:
        where: where the store is, for error messages.
    """

    def __init__(self, where: str = "memory:") -> None:
        super().__init__(where)
        self._tables: dict[str, dict[int, Row]] = {table: {} for table in TABLES}
        self._undo: list[tuple[str, int, Row | None]] = []
        self.write("about", 1, About().pack())
        self.write("buckets", 1, pack_head(1, Summary(), b""), b"", b"")
        self._undo.clear()

    def read(self, table: str, row: int, columns: Sequence[str] = ()) -> Row | None:
        """Read a row."""
        found = self._tables[table].get(row)
        return found if found is None or not columns else _select(table, found, columns)

    def iterate(self, table: str, columns: Sequence[str] = ()) -> Iterator[tuple[int, Row]]:
        """Iterate over the rows of a table, in the order of their numbers."""
        for row in sorted(self._tables[table]):
            yield row, _select(table, self._tables[table][row], columns or TABLES[table])

    def write(self, table: str, row: int, *parts: bytes) -> None:
        """Write a row, which replaces the one that is there."""
        self._undo.append((table, row, self._tables[table].get(row)))
        self._tables[table][row] = parts

    def cut(self, table: str, row: int) -> None:
        """Delete all rows from a number on."""
        for number in [number for number in self._tables[table] if number >= row]:
            self._undo.append((table, number, self._tables[table].pop(number)))

    def find_end(self, table: str) -> int:
        """Find the number of the last row; 0 if there is none."""
        return max(self._tables[table], default=0)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is written inside if an error leaves the block."""
        start = len(self._undo)
        try:
            yield
        except BaseException:
            while len(self._undo) > start:
                table, row, parts = self._undo.pop()
                if parts is None:
                    del self._tables[table][row]
                else:
                    self._tables[table][row] = parts
            raise

    def commit(self) -> None:
        """Forget what was there before."""
        self._undo.clear()

    def translate_errors(self) -> nullcontext[None]:
        """There is no backend whose errors could be translated."""
        return nullcontext()

    def to_bytes(self) -> bytes:
        """All that is stored, put together."""
        return b"".join(part for table in self._tables.values() for row in table.values() for part in row)


def _select(table: str, row: Row, columns: Sequence[str]) -> Row:
    return tuple(row[TABLES[table].index(column)] for column in columns)


def copy_rows(rows: Rows) -> MemoryRows:
    """Copy all rows of a store.

    Args:
        rows: the rows, also of a transaction that has not ended.

    Returns:
        The same rows, and what the store says of itself now.
    """
    copy = copy_sealed(rows)
    copy.about = rows.about
    return copy


def copy_sealed(rows: Rows) -> MemoryRows:
    """Copy all rows of a store as they are stored, sealed or not.

    Args:
        rows: the rows.

    Returns:
        The same rows.
    """
    copy = MemoryRows(rows.where)
    copy._tables = {table: dict(rows.iterate(table)) for table in TABLES}
    return copy
