"""Readers of tables: what can be asked of a store, whatever keeps its rows, without reading more than is needed.

Guarantee: finds by name, by deadline, by subject and by receipt what reading every stream would find; held by
tests/store/test_tables.py and tests/store/test_table_reader.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime

from vestige.errors import StoreError
from vestige.store import search
from vestige.store.ledger import Ledger
from vestige.store.memory_rows import copy_rows
from vestige.store.place import check_name
from vestige.store.reader import Reader
from vestige.store.row_keys import check_sealed, find_orphans, list_versions
from vestige.store.snapshot import UNNAMED, StoreSnapshot
from vestige.store.state import State
from vestige.store.stored_streams import StoredStreams
from vestige.store.tables import Tables
from vestige.store.terms import Terms
from vestige.times import to_ticks


class TableReader(Reader):
    """A store that keeps its streams in tables, as a reader sees it."""

    @abstractmethod
    def _use(self) -> AbstractContextManager[Tables]:
        """The tables at one moment, for one thread at a time."""

    def count(self) -> int:
        """Count the streams in the store."""
        with self._use() as tables:
            return tables.about.streams

    def survey(self, after: str | None = None, limit: int | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the streams whose names can be read, sorted; and what is wrong with the others, one sentence each."""
        after = None if after is None else check_name("after", after)
        with self._use() as tables, tables.rows.report_damage():
            return tables.survey(after, limit)

    def has(self, name: str) -> bool:
        """Tell whether there is a stream, or a damaged row that `survey` describes so."""
        check_name("name", name)
        with self._use() as tables, tables.rows.report_damage():
            return tables.has(name)

    def read_stream(self, name: str) -> tuple[Terms, State] | None:
        """Read the terms and the state of a stream."""
        check_name("name", name)
        with self._use() as tables:
            return tables.read(name)

    def find_due(self, at: datetime) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the streams in which a sweep has something to do or to say; and what is wrong with others."""
        with self._use() as tables, tables.rows.report_damage():
            return search.find_due(tables, to_ticks(at))

    def find_subjects(self, pseudonyms: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Find the streams with records of subjects."""
        with self._use() as tables, tables.rows.report_damage():
            return search.find_subjects(tables, pseudonyms)

    def list_terms(self) -> tuple[Terms, ...]:
        """List the different terms of all streams."""
        with self._use() as tables, tables.rows.report_damage():
            return tuple(tables.families.list_terms().values())

    def sources(self) -> tuple[str, ...]:
        """List the sources that were read into any stream, sorted."""
        with self._use() as tables, tables.rows.report_damage():
            return tuple(sorted(set(tables.families.iterate_sources())))

    def read_ledger(self) -> Ledger:
        """Read the requests to streams of the store, with their receipts."""
        with self._use() as tables:
            return tables.ledger()

    def read_receipts(self) -> StoreSnapshot:
        """Copy the ledger and the streams that have receipts of their own."""
        with self._use() as tables:
            with tables.rows.report_damage():
                names, wrong = search.find_receipts(tables)
            streams, troubles = dict[str, tuple[Terms, State]](), dict.fromkeys(wrong, UNNAMED)
            for name in names:
                try:
                    found = tables.read(name)
                except StoreError as problem:
                    troubles[name] = str(problem)
                else:
                    streams |= {} if found is None else {name: found}
            return _make_snapshot(tables, streams, troubles)

    def verify_keys(self) -> tuple[str, ...]:
        """Check that the keyring opens each row, and holds no key besides those."""
        with self._use() as tables, tables.rows.report_damage():
            rows = check_sealed(tables.rows)
            return (*(f"{rows.where}: {text}" for text in rows.find_damage().values()), *find_orphans(rows))

    def list_versions(self) -> dict[int, int]:
        """List which writing of each row the store holds."""
        with self._use() as tables, tables.rows.report_damage():
            return list_versions(check_sealed(tables.rows))

    def snapshot(self) -> StoreSnapshot:
        """Copy all streams as they were last written, at one moment; each is unpacked when it is looked at."""
        with self._use() as tables, tables.rows.report_damage():
            copy = Tables(copy_rows(tables.rows))
        streams, troubles = StoredStreams.open(copy)
        return _make_snapshot(copy, streams, troubles)


def _make_snapshot(
    tables: Tables, streams: Mapping[str, tuple[Terms, State]], troubles: Mapping[str, str]
) -> StoreSnapshot:
    """Streams and the ledger, if that can be read."""
    try:
        return StoreSnapshot(streams, troubles, tables.ledger())
    except StoreError as problem:
        return StoreSnapshot(streams, troubles, ledger_trouble=str(problem))
