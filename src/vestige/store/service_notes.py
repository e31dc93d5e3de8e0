"""What a service notes in its store beside the streams: its definitions, and the requests that it has taken.

Guarantee: notes commit with the streams that are written in the same transaction, on every store with tables; held by
tests/store/test_service_notes.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from vestige.errors import StoreError
from vestige.store.definition_rows import Definitions, erase_definition, read_definitions, write_definition
from vestige.store.store import Store
from vestige.store.table_store import TableStore
from vestige.store.taken_requests import TakenRequest
from vestige.store.terms import Terms


class ServiceNotes:
    """The notes of a service; each call that writes is a transaction, or part of the one that is open.

    Args:
        store: the store.

    Raises:
        StoreError: this kind of store has no tables for them.

    Example:
        >>> from vestige import open_store
        >>> notes = ServiceNotes(open_store("memory:"))
        >>> notes.write_definition("visits", {"columns": ["spent"], "retention": 96})
        >>> notes.read_definitions()
        {'visits': {'columns': ['spent'], 'retention': 96}}
    """

    def __init__(self, store: Store) -> None:
        if not isinstance(store, TableStore):
            raise StoreError(f"a {type(store).__name__} cannot be served; use a store in a file or in PostgreSQL")
        self._store = store

    def read_definitions(self) -> Definitions:
        """Read all definitions.

        Returns:
            The definitions as plain data, by name.
        """
        with self._store._use() as tables, tables.rows.report_damage():
            return read_definitions(tables.rows)

    def write_definition(self, name: str, data: Mapping[str, object]) -> None:
        """Write a definition, which replaces the one that is there.

        Args:
            name: its name.
            data: the definition as plain data.
        """
        with self._store.transaction(), self._store._use() as tables, tables.rows.report_damage():
            write_definition(tables.rows, name, data)

    def erase_definition(self, name: str) -> None:
        """Erase a definition, if there is one.

        Args:
            name: its name.
        """
        with self._store.transaction(), self._store._use() as tables, tables.rows.report_damage():
            erase_definition(tables.rows, name)

    def erase_terms(self, terms: Terms) -> None:
        """Erase what streams of a definition had in common, once there is none of them.

        Args:
            terms: their terms.
        """
        with self._store.transaction(), self._store._use() as tables:
            tables.erase_terms(terms)

    def find_requests(self, keys: Sequence[bytes]) -> dict[bytes, TakenRequest]:
        """Find requests that were taken.

        Args:
            keys: the keyed hashes of their idempotency keys.

        Returns:
            Those that are known, by key.
        """
        with self._store._use() as tables, tables.rows.report_damage():
            return tables.requests.find(keys)

    def note_requests(self, taken: Sequence[TakenRequest]) -> None:
        """Note requests that were taken.

        Args:
            taken: the requests, whose keys are not known yet.
        """
        with self._store.transaction(), self._store._use() as tables, tables.rows.report_damage():
            tables.requests.note(taken)

    def expire_requests(self, at: datetime) -> int:
        """Erase the requests that are older than `vestige.store.taken_requests.KEPT`.

        Args:
            at: the present time.

        Returns:
            How many there were.
        """
        with self._store._use() as tables, tables.rows.report_damage():
            if not tables.requests.has_expired(at):
                return 0
        with self._store.transaction(), self._store._use() as tables, tables.rows.report_damage():
            return tables.requests.expire(at)

    def probe(self) -> None:
        """Write a row of the store again as it is, which fails if the store cannot be written."""
        with self._store.transaction(), self._store._use() as tables:
            tables.rows.write("about", 1, tables.about.pack())

    def count_requests(self) -> int:
        """Count the requests that are known.

        Returns:
            The number.
        """
        with self._store._use() as tables, tables.rows.report_damage():
            return tables.requests.count()
