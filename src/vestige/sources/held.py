"""Held records that are rows of a source, of all streams of a run together, as columns.

Guarantee: held by tests/ingest/test_replaced_files.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vestige.records import Records
from vestige.sources.block import Texts
from vestige.types import Floats, Ints, Times


def _find_single(names: Texts) -> Ints:
    return np.zeros(len(names), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class HeldRows:
    """Held records that are rows of a source, but for those that are leaving, whose rows may be emptied there.

    Attributes:
        rows: the row of each record in the source.
        values: their values; shape (n, columns).
        times: their times.
        subjects: pseudonyms of their subjects, or None.
        streams: number of the stream that holds each record.
        find_streams: function from keys to the numbers of their streams, -1 for a key that has none; default: all rows
            go into one stream.
        read: function from rows of the source to their values as streams hold them; default: their numbers.

    Example:
        >>> held = HeldRows.collect([("DE", Records([1], [[1.5]]))])
        >>> len(held), held.find_streams(np.array(["DE", "FR"], np.object_))
        (1, array([ 0, -1]))
    """

    rows: Ints
    values: Floats
    times: Times
    subjects: Texts
    streams: Ints
    find_streams: Callable[[Texts], Ints] = _find_single
    read: Callable[[Any], Floats] = np.asarray

    @classmethod
    def collect(cls, parts: Iterable[tuple[str, Records]], read: Callable[[Any], Floats] = np.asarray) -> HeldRows:
        """Gather the records of single streams.

        Args:
            parts: key of each stream, and its records, whose `numbers` are their rows in the source.
            read: function from rows of the source to their values as streams hold them.

        Returns:
            The columns.
        """
        staying = [(key, records.where(~records.leaving)) for key, records in parts]
        kept = [(key, records) for key, records in staying if len(records)]
        numbers = {key: place for place, (key, _) in enumerate(kept)}

        def find_streams(keys: Texts) -> Ints:
            return np.array([numbers.get(key, -1) for key in keys], np.int64)

        all_records = [records for _, records in kept] or [Records.empty(1)]
        return cls(
            np.concatenate([records.numbers for records in all_records]),
            np.concatenate([records.values for records in all_records]),
            np.concatenate([records.times for records in all_records]),
            np.concatenate([records.subjects for records in all_records]),
            np.repeat(np.arange(len(kept)), [len(records) for _, records in kept]),
            find_streams,
            read,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def drop_streams(self, keys: Collection[str]) -> HeldRows:
        """Leave out the records of some streams.

        Args:
            keys: their keys.

        Returns:
            The others.
        """
        if not keys:
            return self
        kept = ~np.isin(self.streams, self.find_streams(np.array([*keys], np.object_)))
        return replace(
            self,
            rows=self.rows[kept],
            values=self.values[kept],
            times=self.times[kept],
            subjects=self.subjects[kept],
            streams=self.streams[kept],
        )
