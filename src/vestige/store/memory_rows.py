"""The rows of a store in memory: those of a store that ends with its process, or a copy of those of another.

Guarantee: held by tests/store/test_machine.py; a copy does not change with what it was copied from; held by
tests/store/test_table_reader.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import accumulate, pairwise

from vestige.store.bucket import Summary, pack_head
from vestige.store.layout import DamagedError
from vestige.store.rows import TABLES, About, Rows

Row = tuple[bytes, ...]
_COUNT, _PLACE, _LENGTH = struct.Struct("<Q"), struct.Struct("<IQ"), struct.Struct("<Q")


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


def pack_rows(rows: MemoryRows) -> bytes:
    """Pack all rows of a store into one string of bytes, such as the value of a key in another database.

    Args:
        rows: the rows.

    Returns:
        How many rows there are; table, number and lengths of each; then their parts. Equal rows give equal bytes.

    Example:
        >>> rows = MemoryRows()
        >>> unpack_rows(pack_rows(rows)).read("about", 1) == rows.read("about", 1)
        True
    """
    heads, parts = [_COUNT.pack(sum(map(len, rows._tables.values())))], list[bytes]()
    for number, table in enumerate(rows._tables.values()):
        for row in sorted(table):
            heads.append(_PLACE.pack(number, row))
            heads += [_LENGTH.pack(len(part)) for part in table[row]]
            parts += table[row]
    return b"".join(heads + parts)


def unpack_rows(packed: bytes, where: str = "memory:") -> MemoryRows:
    """Unpack what `pack_rows` packs.

    Args:
        packed: the bytes.
        where: where the store is, for error messages.

    Returns:
        The rows.

    Raises:
        DamagedError: they were not packed by `pack_rows`.
    """
    rows, columns = MemoryRows(where), list(TABLES.items())
    places, lengths = list[tuple[str, int]](), list[int]()
    try:
        (count,), at = _COUNT.unpack_from(packed), _COUNT.size
        for _ in range(count):
            number, row = _PLACE.unpack_from(packed, at)
            table, names = columns[number]
            places.append((table, row))
            lengths += struct.unpack_from(f"<{len(names)}Q", packed, at + _PLACE.size)
            at += _PLACE.size + _LENGTH.size * len(names)
    except (struct.error, IndexError):
        raise DamagedError("these are not the rows of a store; restore a copy") from None
    ends = list(accumulate(lengths, initial=at))
    if ends[-1] != len(packed):
        raise DamagedError("these are not all rows of a store; restore a copy")
    parts = iter([packed[start:end] for start, end in pairwise(ends)])
    rows._tables = {table: {} for table in TABLES}
    for table, row in places:
        rows._tables[table][row] = tuple(next(parts) for _ in TABLES[table])
    return rows


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
