"""A store in memory: for tests, for dry runs, and for streams that need not outlive the process.

Guarantee: does at every step what a store in a file does; held by tests/store/test_machine.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import ClassVar, NoReturn

from vestige.errors import ParameterError, StoreError
from vestige.store.bucket import Summary, pack_head
from vestige.store.canonical import arrange
from vestige.store.keys import SIZE, hash_subject, hide_subjects
from vestige.store.overdue import check_canaries, find_overdue, find_overdue_receipts
from vestige.store.rows import TABLES, About, Rows
from vestige.store.search import list_named
from vestige.store.store import PATIENCE
from vestige.store.table_store import TableStore
from vestige.store.tables import Tables
from vestige.times import to_utc, wall_clock

Row = tuple[bytes, ...]


class MemoryRows(Rows):
    """The rows of a store in memory."""

    def __init__(self) -> None:
        super().__init__("memory:")
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


class MemoryStore(TableStore):
    """Named streams, as long as this object lives.

    Example:
        >>> from vestige import Mean, Stream
        >>> store = MemoryStore()
        >>> stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        >>> _ = stream.extend(range(1, 1_001))
        >>> stream.flush()
        >>> again = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        >>> again.t, round(again.estimate().value, 6)
        (1000, 500.5)
    """

    address_form: ClassVar = "memory:"

    def __init__(self) -> None:
        super().__init__()
        self._rows = MemoryRows()
        self._tables = Tables(self._rows)
        self._depth = 0
        self._key = secrets.token_bytes(SIZE)

    @classmethod
    def open(
        cls,
        address: str | Path,
        *,
        key: str | Path | None = None,
        patience: float = PATIENCE,  # noqa: ARG003  # nobody else can read it
        create: bool = True,
    ) -> MemoryStore:
        """Create an empty store; see `vestige.open_store`."""
        if str(address) != cls.address_form:
            raise ParameterError(f"a store in memory has the address {cls.address_form} and nothing after it")
        if key is not None:
            raise ParameterError("key has no use for a store in memory, whose key lives as long as it; leave it out")
        return cls() if create else cls._refuse()

    @classmethod
    def open_reader(
        cls,
        address: str | Path,  # noqa: ARG003
        *,
        key: str | Path | None = None,  # noqa: ARG003
        patience: float = PATIENCE,  # noqa: ARG003
    ) -> NoReturn:
        """Refuse: a store in memory can only be read through the object itself."""
        cls._refuse()

    @classmethod
    def _refuse(cls) -> NoReturn:
        raise StoreError(
            f"{cls.address_form} there is no such store: one in memory ends with its process; give the path of a file"
        )

    @contextmanager
    def _use(self) -> Iterator[Tables]:
        with self.lock:
            yield self._tables

    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        """Check the limits of all streams, and look for canaries in all that is stored."""
        check_canaries(canaries)
        moment = to_utc(wall_clock() if at is None else at)
        streams, ledger = sorted(self._states(), key=lambda each: each[0]), self.read_ledger()
        overdue = [text for stream in streams for text in find_overdue(*stream, moment)]
        overdue += find_overdue_receipts("the ledger", ledger.receipts, moment)
        held = self._rows.to_bytes()
        planted = [
            f"canary {number} of {len(canaries)} is in the store"
            for number, canary in enumerate(canaries, 1)
            if canary in held
        ]
        return tuple(overdue + planted)

    def pseudonym(self, subject: str) -> str:
        """A hash under a key that lives as long as this object."""
        return hash_subject(subject, self._key)

    def rekey(self) -> None:
        """Start with a new key; records that are held now cannot be found by subject any more."""
        self.release()
        with self.transaction(), self._use() as tables:
            for name in list_named(tables):
                terms, state = self.terms(name), self.read_stream(name)
                assert state is not None  # noqa: S101  # it has terms
                tables.put(name, terms, replace(state[1], retained=hide_subjects(state[1].retained)))
        self._key = secrets.token_bytes(SIZE)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return to what there was if something goes wrong inside."""
        with self._use() as tables:
            if self._depth:
                yield
                return
            self._depth = 1
            try:
                with self._rows.savepoint():
                    yield
                    self._rows.save_about()
            except BaseException:
                tables.forget()
                self._mark_lost()
                raise
            finally:
                self._depth = 0
                self._rows.commit()

    def tidy(self) -> None:
        """Bring the rows into their canonical form."""
        with self._use() as tables:
            if tables.about.untidy:
                with self.transaction(), tables.rows.report_damage():
                    arrange(tables)
                    tables.about = replace(tables.about, untidy=False)
