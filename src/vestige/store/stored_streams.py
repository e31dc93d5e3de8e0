"""The streams in a copy of a store, each of which is unpacked when it is looked at.

So a million of them take about as much room as their file does.
Guarantee: the same streams and the same damage as reading them one by one; held by tests/store/test_stored_streams.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Self

import numpy as np

from vestige.errors import StoreError
from vestige.store.bucket import Summary, unpack_names
from vestige.store.buckets import BROKEN
from vestige.store.entry import CHECKSUM, SOURCES, is_sound, read_family
from vestige.store.layout import DamagedError
from vestige.store.memory_rows import MemoryRows
from vestige.store.snapshot import UNNAMED
from vestige.store.state import State
from vestige.store.tables import Tables
from vestige.store.terms import Terms
from vestige.store.text import decode_text, encode_text
from vestige.types import Ints


class StoredStreams(Mapping[str, tuple[Terms, State]]):
    """The streams of a store that can be read, in the order of their names.

    Args:
        tables: a copy of the tables, which nobody changes.
        names: the names.
        places: where each entry lies: the bucket, and from where to where in it; shape (names, 3).
        families: the numbers of their terms; shape (names,).

    Attributes:
        rows: the rows of the copy.
    """

    def __init__(self, tables: Tables, names: list[str], places: Ints, families: Ints) -> None:
        assert isinstance(tables.rows, MemoryRows)  # noqa: S101  # a copy is in memory
        self.rows: MemoryRows = tables.rows
        self._tables, self._names, self._places, self._families = tables, names, places, families

    @classmethod
    def open(cls, tables: Tables) -> tuple[Self, dict[str, str]]:
        """Find the streams of a store.

        Args:
            tables: a copy of its tables.

        Returns:
            The streams that can be read; and what is wrong with the others, one sentence each.
        """
        found, troubles, readable = _Found(tables), dict[str, str](), _find_readable(tables)
        for bucket, head, packed in tables.buckets.iterate_names():
            if isinstance(head, Summary):
                troubles |= found.add(bucket, packed, head.streams, readable)
            else:
                troubles[str(head)] = UNNAMED
        order = sorted(range(len(found.names)), key=found.names.__getitem__)
        names = [found.names[at] for at in order]
        return cls(tables, names, found.join_places()[order], np.array(found.families, np.int64)[order]), troubles

    def list_families(self) -> list[tuple[Terms, list[str]]]:
        """List the streams by their terms.

        Returns:
            Different terms, and the names of the streams that have them, sorted.
        """
        order = np.argsort(self._families, kind="stable")
        ends = np.flatnonzero(np.diff(self._families[order], append=-1)) + 1
        groups = np.split(order, ends[:-1]) if len(order) else []
        return [
            (self._tables.families.terms(int(self._families[group[0]])), [self._names[at] for at in group.tolist()])
            for group in groups
        ]

    def __getitem__(self, name: str) -> tuple[Terms, State]:
        at = self._find(name)
        if at is None:
            raise KeyError(name)
        bucket, start, end = self._places[at].tolist()
        with self._tables.rows.report_damage(name):
            return self._tables.unpack(encode_text(name), _read_body(self._tables, bucket)[start:end])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _find(self, name: str) -> int | None:
        at = bisect_left(self._names, name)
        return at if self._names[at : at + 1] == [name] else None


def _find_readable(tables: Tables) -> set[int]:
    """The numbers of families whose terms and shared positions can be read."""
    readable = set()
    for number in range(1, tables.about.terms + 1):
        with suppress(*BROKEN):
            tables.families.read_shared(number)
            readable.add(number)
    return readable


class _Found:
    """The streams that were found in buckets so far, in no order."""

    def __init__(self, tables: Tables) -> None:
        self._tables, self._places = tables, [np.empty((0, 3), np.int64)]
        self.names: list[str] = []
        self.families: list[int] = []

    def join_places(self) -> Ints:
        """Where the entries lie."""
        return np.concatenate(self._places)

    def add(self, bucket: int, packed: bytes, streams: int, readable: set[int]) -> dict[str, str]:
        """Add the streams of a bucket; return what is wrong with those that cannot be read."""
        names, lengths = unpack_names(packed, streams)
        ends, body = np.cumsum(lengths), _read_body(self._tables, bucket)
        places = np.stack([np.full(streams, bucket), ends - lengths, ends], axis=1)
        sound, problems = [], dict[str, str]()
        for at, (name, (_, start, end)) in enumerate(zip(names, places.tolist(), strict=True)):
            entry = body[start:end]
            family = read_family(entry) if is_sound(entry, name) else 0
            if family not in readable or entry[CHECKSUM] & SOURCES:  # they may be unreadable although the checksum fits
                try:
                    self._unpack(name, entry)
                except StoreError as problem:
                    problems[decode_text(name)] = str(problem)
                    continue
            sound.append(at)
            self.families.append(family)
        self.names += [decode_text(names[at]) for at in sound]
        self._places.append(places[sound] if problems else places)
        return problems

    def _unpack(self, name: bytes, entry: bytes) -> None:
        with self._tables.rows.report_damage(decode_text(name)):
            if not is_sound(entry, name):
                raise DamagedError("a stored row is damaged")
            self._tables.unpack(name, entry)


def _read_body(tables: Tables, bucket: int) -> bytes:
    stored = tables.rows.read("buckets", bucket + 1, ("body",))
    return b"" if stored is None else stored[0]
