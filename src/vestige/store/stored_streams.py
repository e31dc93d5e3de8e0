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
from vestige.store.entry import CHECKSUM, EARLIER_WORD, SOURCES, is_sound, read_family
from vestige.store.layout import DamagedError
from vestige.store.snapshot import UNNAMED
from vestige.store.state import State
from vestige.store.tables import Tables
from vestige.store.terms import Terms
from vestige.store.text import decode_text, encode_text
from vestige.types import Ints

_UNUSUAL = EARLIER_WORD | SOURCES
"""Parts that may be unreadable although the checksum of their entry fits."""


class StoredStreams(Mapping[str, tuple[Terms, State]]):
    """The streams of a store that can be read, in the order of their names.

    Args:
        tables: a copy of the tables, which nobody changes.
        names: the names.
        places: where each entry lies: the bucket, and from where to where in it; shape (names, 3).
    """

    def __init__(self, tables: Tables, names: list[str], places: Ints) -> None:
        self._tables, self._names, self._places = tables, names, places

    @classmethod
    def open(cls, tables: Tables) -> tuple[Self, dict[str, str]]:
        """Find the streams of a store.

        Args:
            tables: a copy of its tables.

        Returns:
            The streams that can be read; and what is wrong with the others, one sentence each.
        """
        names, parts, troubles = list[str](), list[Ints](), dict[str, str]()
        readable = _find_readable(tables)
        for bucket, head, packed in tables.buckets.iterate_names():
            if isinstance(head, Summary):
                found, places = _list_bucket(bucket, packed, head.streams)
                body = _read_body(tables, bucket)
                problems = _find_problems(tables, found, places, body, readable)
                troubles |= {decode_text(found[at]): text for at, text in problems.items()}
                sound = [at for at in range(len(found)) if at not in problems]
                names += [decode_text(found[at]) for at in sound]
                parts.append(places[sound] if problems else places)
            else:
                troubles[head] = UNNAMED
        order = sorted(range(len(names)), key=names.__getitem__)
        places = np.concatenate([np.empty((0, 3), np.int64), *parts])
        return cls(tables, [names[at] for at in order], places[order]), dict(sorted(troubles.items()))

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


def _list_bucket(bucket: int, packed: bytes, streams: int) -> tuple[list[bytes], Ints]:
    """The names of a bucket, and where their entries lie."""
    names, lengths = unpack_names(packed, streams)
    places = np.empty((streams, 3), np.int64)
    places[:, 0], places[:, 2] = bucket, np.cumsum(lengths)
    places[:, 1] = places[:, 2] - lengths
    return names, places


def _read_body(tables: Tables, bucket: int) -> bytes:
    stored = tables.rows.read("buckets", bucket + 1, ("body",))
    return b"" if stored is None else stored[0]


def _find_problems(tables: Tables, names: list[bytes], places: Ints, body: bytes, readable: set[int]) -> dict[int, str]:
    """What is wrong with streams of a bucket, by their place in it."""
    problems: dict[int, str] = {}
    for at, (name, (_, start, end)) in enumerate(zip(names, places.tolist(), strict=True)):
        entry = body[start:end]
        sound = is_sound(entry, name)
        if sound and not entry[CHECKSUM] & _UNUSUAL and read_family(entry) in readable:
            continue
        try:
            with tables.rows.report_damage(decode_text(name)):
                if not sound:
                    raise DamagedError("a stored row is damaged")
                tables.unpack(name, entry)
        except StoreError as problem:
            problems[at] = str(problem)
    return problems
