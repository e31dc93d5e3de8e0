"""Stores over tables: what is the same for each backend, whatever it keeps its rows in.

Guarantee: finds by deadline and by subject what reading every stream would find; held by tests/store/test_tables.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime

from vestige.errors import StoreError
from vestige.store import search
from vestige.store.ledger import Ledger
from vestige.store.place import Place, check_name
from vestige.store.position import Position
from vestige.store.snapshot import UNNAMED, StoreSnapshot
from vestige.store.state import State
from vestige.store.store import Store
from vestige.store.tables import Tables
from vestige.store.terms import Terms, drop_defaults
from vestige.times import to_ticks


class TableStore(Store):
    """A store that keeps its streams in tables."""

    @abstractmethod
    def _use(self) -> AbstractContextManager[Tables]:
        """The tables, for one thread at a time, of a store that is open here."""

    def names(self) -> tuple[str, ...]:
        """List the streams in the store, sorted."""
        with self._use() as tables:
            return tables.names()

    def survey(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the streams whose names can be read, sorted; and what is wrong with the others, one sentence each."""
        with self._use() as tables, tables.rows.report_damage():
            return tables.survey()

    def has(self, name: str) -> bool:
        """Tell whether there is a stream, or a damaged row that `survey` describes so."""
        with self._use() as tables, tables.rows.report_damage():
            return tables.has(check_name("name", name))

    def count(self) -> int:
        """Count the streams in the store."""
        with self._use() as tables:
            return tables.about.streams

    def page(self, after: str | None = None, limit: int = 100) -> list[str]:
        """List some of the streams, sorted."""
        with self._use() as tables, tables.rows.report_damage():
            return search.page(tables, after, limit)

    def find_due(self, at: datetime) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the streams in which a sweep has something to do or to say; and what is wrong with others."""
        with self._use() as tables, tables.rows.report_damage():
            return search.find_due(tables, to_ticks(at))

    def find_waiting(self, number: int, limit: int | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the streams that a request may still wait for; and what is wrong with others."""
        with self._use() as tables, tables.rows.report_damage():
            return search.find_waiting(tables, number, limit)

    def find_damaged(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the streams that are known to be damaged; and what is wrong with rows."""
        with self._use() as tables, tables.rows.report_damage():
            return search.find_damaged(tables)

    def find_subjects(self, pseudonyms: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Find the streams with records of subjects."""
        with self._use() as tables, tables.rows.report_damage():
            return search.find_subjects(tables, pseudonyms)

    def count_arrived(self) -> tuple[int, tuple[str, ...]]:
        """Count the records that have arrived in all streams, as they were last written."""
        with self._use() as tables, tables.rows.report_damage():
            return search.count_arrived(tables)

    def list_terms(self) -> tuple[Terms, ...]:
        """List the different terms of all streams."""
        with self._use() as tables, tables.rows.report_damage():
            return tuple(tables.families.list_terms().values())

    def terms(self, name: str) -> Terms:
        """Read the terms of a stream."""
        check_name("name", name)
        with self._use() as tables:
            terms = tables.terms(name)
            if terms is None:
                known = ", ".join(self.page(limit=5)) or "none"
                raise StoreError(f"{tables.rows.where}: there is no stream {name!r}; there is {known}")
        return terms

    def read_stream(self, name: str) -> tuple[Terms, State] | None:
        """Read the terms and the state of a stream."""
        with self._use() as tables:
            return tables.read(check_name("name", name))

    def snapshot(self) -> StoreSnapshot:
        """Copy all streams as they were last written, at one moment."""
        with self._use() as tables:
            return read_snapshot(tables)

    def sources(self) -> tuple[str, ...]:
        """List the sources that were read into any stream, sorted."""
        with self._use() as tables, tables.rows.report_damage():
            return tuple(sorted(set(tables.families.iterate_sources())))

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
        with self._use() as tables:
            for name, found in tables.iterate_states():
                if not isinstance(found, StoreError):
                    yield name, *found

    def read_ledger(self) -> Ledger:
        """Read the requests to streams of the store, with their receipts."""
        with self._use() as tables:
            return tables.ledger()

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

    def _erase(self, name: str) -> None:
        with self.transaction(), self._use() as tables:
            tables.erase(name)

    def _place(self, name: str, about: Mapping[str, object]) -> Place:
        return _Place(self, name, about)


class _Place(Place):
    store: TableStore

    def read(self, terms: Terms) -> State:
        found = self.store.read_stream(self.name)
        if found is None:
            return State.empty(terms.columns)
        found[0].check(self.name, terms)
        return found[1]

    def write(self, terms: Terms, state: State) -> None:
        self.store.write(self.name, terms, state)


def read_snapshot(tables: Tables) -> StoreSnapshot:
    """Read all streams; one that is damaged is named with what is wrong with it.

    Args:
        tables: the tables of the store.

    Returns:
        The snapshot.

    Raises:
        StoreError: the store cannot be read.
    """
    with tables.rows.report_damage():
        names, wrong = tables.survey()
    troubles = dict.fromkeys(wrong, UNNAMED)
    streams: dict[str, tuple[Terms, State]] = {}
    found = dict(tables.iterate_states())
    for name in names:
        stream = found[name]
        if isinstance(stream, StoreError):
            troubles[name] = str(stream)
        else:
            streams[name] = stream
    try:
        return StoreSnapshot(streams, troubles, tables.ledger())
    except StoreError as problem:
        return StoreSnapshot(streams, troubles, ledger_trouble=str(problem))
