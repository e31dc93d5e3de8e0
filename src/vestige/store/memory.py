"""A store in memory: for tests, for dry runs, and for streams that need not outlive the process.

Guarantee: does at every step what a store in a file does; held by tests/store/test_machine.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import ClassVar, NoReturn

from vestige.errors import NoStoreError, ParameterError
from vestige.store.canaries import CanarySearch
from vestige.store.canonical import arrange
from vestige.store.keyring import Keyring
from vestige.store.keys import SIZE, hash_subject, hide_subjects
from vestige.store.memory_rows import MemoryRows
from vestige.store.overdue import find_overdue, find_overdue_receipts
from vestige.store.search import list_named
from vestige.store.store import PATIENCE
from vestige.store.table_store import TableStore
from vestige.store.tables import Tables
from vestige.times import to_utc, wall_clock


class MemoryStore(TableStore):
    """Named streams, as long as this object lives.

    Args:
        rows: the rows to start with, such as a copy of those of another store; default: none.
        key: the key that subjects are hashed with, 32 bytes; default: a new one, which lives as long as this object.

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

    def __init__(self, rows: MemoryRows | None = None, *, key: bytes | None = None) -> None:
        super().__init__()
        self._rows = MemoryRows() if rows is None else rows
        self._tables = Tables(self._rows)
        self._depth = 0
        self._key = secrets.token_bytes(SIZE) if key is None else key

    @classmethod
    def open(
        cls,
        address: str | Path,
        *,
        key: str | Path | None = None,
        keyring: str | Path | Keyring | None = None,
        patience: float = PATIENCE,  # noqa: ARG003  # nobody else can read it
        create: bool = True,
    ) -> MemoryStore:
        """Create an empty store; see `vestige.open_store`."""
        if str(address) != cls.address_form:
            raise ParameterError(f"a store in memory has the address {cls.address_form} and nothing after it")
        if key is not None:
            raise ParameterError("key has no use for a store in memory, whose key lives as long as it; leave it out")
        if keyring is not None:
            raise ParameterError("keyring has no use for a store in memory, which ends with its process; leave it out")
        return cls() if create else cls._refuse()

    @classmethod
    def open_reader(
        cls,
        address: str | Path,  # noqa: ARG003
        *,
        key: str | Path | None = None,  # noqa: ARG003
        keyring: str | Path | Keyring | None = None,  # noqa: ARG003
        patience: float = PATIENCE,  # noqa: ARG003
    ) -> NoReturn:
        """Refuse: a store in memory can only be read through the object itself."""
        cls._refuse()

    @classmethod
    def _refuse(cls) -> NoReturn:
        raise NoStoreError(
            f"{cls.address_form} there is no such store: one in memory ends with its process; give the path of a file"
        )

    @contextmanager
    def _use(self) -> Iterator[Tables]:
        with self.lock:
            yield self._tables

    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        """Check the limits of all streams, and look for canaries in all that is stored."""
        search = CanarySearch(canaries)
        moment = to_utc(wall_clock() if at is None else at)
        streams, ledger = sorted(self._states(), key=lambda each: each[0]), self.read_ledger()
        overdue = [text for stream in streams for text in find_overdue(*stream, moment)]
        overdue += find_overdue_receipts("the ledger", ledger.receipts, moment)
        with self._use() as tables:
            overdue += tables.requests.inspect(moment)
        held = self._rows.to_bytes()
        planted = [search.describe(hit, "the store") for hit in search.find(held)]
        return tuple(overdue + planted)

    def pseudonym(self, subject: str) -> str:
        """A hash under the key of this object."""
        return hash_subject(subject, self._key)

    def rekey(self) -> None:
        """Start with a new key; records that are held now cannot be found by subject any more."""
        self.release()
        with self.transaction(), self._use() as tables:
            for name in list_named(tables):
                terms, state = self.terms(name), self.read_stream(name)
                assert state is not None  # noqa: S101  # it has terms
                tables.put(name, terms, replace(state[1], retained=hide_subjects(state[1].retained)))
            tables.requests.clear()
        self._key = secrets.token_bytes(SIZE)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return to what there was if something goes wrong inside."""
        with self._use() as tables:
            if self._depth:
                yield
                return
            self._depth, self._transactions = 1, self._transactions + 1
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
