"""Stores over tables: what is the same for each backend, whatever it keeps its rows in.

Guarantee: finds by deadline and by subject what reading every stream would find; held by tests/store/test_tables.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from vestige.errors import ParameterError, StoreError
from vestige.store import search
from vestige.store.keyring import Keyring, open_keyring
from vestige.store.ledger import Ledger
from vestige.store.place import FamilyPlace, Place, check_name
from vestige.store.position import Position
from vestige.store.rotation import change_keyring, destroy_replaced, renew_keys
from vestige.store.row_keys import check_sealed
from vestige.store.sealed_rows import SealedRows
from vestige.store.state import State
from vestige.store.store import Store
from vestige.store.table_reader import TableReader
from vestige.store.terms import Terms, drop_defaults
from vestige.validation import show_value


class TableStore(TableReader, Store):
    """A store that keeps its streams in tables."""

    def family(self, *, about: Mapping[str, object] | None = None) -> FamilyPlace:
        """Return the place of all streams with the same terms, for `vestige.KeyedStreams(..., store=...)`."""
        if about is not None and not isinstance(about, Mapping):
            raise ParameterError(f"about={show_value(about)} is not plain data by name; pass a dict")
        try:
            json.dumps(dict(about or {}))
        except (TypeError, ValueError):
            raise ParameterError(
                "about holds something that is not plain data; pass texts, numbers, lists and dicts only"
            ) from None
        return self._family_place(dict(about or {}))

    def _family_place(self, about: Mapping[str, object]) -> FamilyPlace:
        """Where the streams of a family live, or are to live."""
        return FamilyPlace(self, about)

    def names(self) -> tuple[str, ...]:
        """List the streams in the store, sorted."""
        with self._use() as tables:
            return tables.names()

    def find_waiting(self, number: int, limit: int | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the streams that a request may still wait for; and what is wrong with others."""
        with self._use() as tables, tables.rows.report_damage():
            return search.find_waiting(tables, number, limit)

    def find_damaged(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the streams that are known to be damaged; and what is wrong with rows."""
        with self._use() as tables, tables.rows.report_damage():
            return search.find_damaged(tables)

    def count_arrived(self) -> tuple[int, tuple[str, ...]]:
        """Count the records that have arrived in all streams, as they were last written."""
        with self._use() as tables, tables.rows.report_damage():
            return search.count_arrived(tables)

    def terms(self, name: str) -> Terms:
        """Read the terms of a stream."""
        check_name("name", name)
        with self._use() as tables:
            terms = tables.terms(name)
            if terms is None:
                known = ", ".join(self.page(limit=5)) or "none"
                raise StoreError(f"{tables.rows.where}: there is no stream {name!r}; there is {known}")
        return terms

    def list_positions(self, about: Mapping[str, object] | None = None) -> dict[str, dict[str, Position]]:
        """Find how far each source was read into each stream, in one pass."""
        found: dict[str, dict[str, Position]] = {}
        with self._use() as tables, tables.rows.report_damage():
            for name, terms, positions in sorted(tables.iterate_positions(), key=lambda each: each[0]):
                if about is None or terms.fixed == drop_defaults(about):
                    for source, position in positions.items():
                        found.setdefault(source, {})[name] = position
        return found

    def positions(self, source: str, about: Mapping[str, object] | None = None) -> dict[str, Position]:
        """Find how far a source was read into each stream."""
        return self.list_positions(about).get(check_name("source", source), {})

    def _states(self) -> Iterator[tuple[str, Terms, State]]:
        with self._use() as tables, tables.rows.report_damage():
            for name, found in tables.iterate_states():
                if not isinstance(found, StoreError):
                    yield name, *found

    def write_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger, durably."""
        with self.transaction(), self._use() as tables:
            tables.put_ledger(ledger)

    @property
    def newest_request(self) -> int:
        """The number of the newest request in the ledger."""
        with self._use() as tables:
            return tables.about.requests

    def write(self, name: str, terms: Terms, state: State) -> None:
        """Replace the stored state of a stream.

        Args:
            name: the name of the stream.
            terms: its terms.
            state: the new state.

        Raises:
            StoreError: the store cannot be written.
        """
        with self.transaction(), self._use() as tables:
            tables.put(name, terms, state)

    def rotate(
        self, keyring: str | Path | Keyring | None = None, *, tell: Callable[[float], object] = lambda _: None
    ) -> int:
        """Seal all rows with fresh keys, of the same keyring or of another one, and destroy the old keys."""
        earlier = self._transactions
        with self._begin_sealed() as rows:
            if self._transactions == earlier:
                raise StoreError(f"{rows.where}: cannot get new keys within transaction(); leave that block first")
        if keyring is None:
            return renew_keys(self._begin_sealed, tell)
        opened, old = open_keyring(keyring), rows.keyring
        self.release()
        count = change_keyring(self._begin_sealed, opened, self._note_keyring, tell)
        self._use_keyring(opened)
        with self.transaction():  # notes that the keyring is in use
            pass
        destroy_replaced(old, opened, rows.where)
        return count

    @contextmanager
    def _begin_sealed(self) -> Iterator[SealedRows]:
        """A transaction, and the rows in it."""
        with self.transaction(), self._use() as tables:
            yield check_sealed(tables.rows)

    def _note_keyring(self, keyring: Keyring) -> None:
        """Note in the store, within a transaction, that its rows are sealed with another keyring; a file says that."""

    def _use_keyring(self, keyring: Keyring) -> None:
        """Go on with another keyring, which the rows were sealed with."""
        with self._use() as tables:
            check_sealed(tables.rows).use_keyring(keyring)

    def _erase(self, name: str) -> None:
        with self.transaction(), self._use() as tables:
            tables.erase(name)

    def _place(self, name: str, about: Mapping[str, object]) -> Place:
        return TablePlace(self, name, about)


class TablePlace(Place):
    """The place of one stream in tables."""

    store: TableStore

    def read(self, terms: Terms) -> State:
        """Read the state as it was last written."""
        found = self.store.read_stream(self.name)
        if found is None:
            return State.empty(terms.columns)
        found[0].check(self.name, terms)
        return found[1]

    def write(self, terms: Terms, state: State) -> None:
        """Replace the stored state."""
        self.store.write(self.name, terms, state)
