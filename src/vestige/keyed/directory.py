"""Which bucket of a store each stream lies in, and which buckets have to be written.

The streams of a bucket are a linked list over their numbers, so that adding one touches one bucket.
Guarantee: finds the streams that `vestige.store.bucket.find_bucket` puts into a bucket, in the order of their names;
held by tests/keyed/test_directory.py.
"""

from __future__ import annotations

import numpy as np

from vestige.keyed import entry_kernels as kernels
from vestige.keyed.names import KeyNames
from vestige.keyed.shard import enlarge
from vestige.store.bucket import find_bucket
from vestige.types import Ints


class Directory:
    """Which bucket each stream of a family lies in, and which buckets have to be written.

    Args:
        names: the names of the streams.

    Attributes:
        dirty: which buckets have to be written; shape (buckets,).
    """

    def __init__(self, names: KeyNames) -> None:
        self._names, self._count = names, 0
        self._of, self._links = np.full(0, -1, np.int32), np.full(0, -1, np.int32)
        self._is_stored, self._was_stored = np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        self._ignored = set[int]()
        self._heads, self.dirty = np.full(1, -1, np.int32), np.zeros(1, np.bool_)

    def add_streams(self) -> int:
        """Put new streams into their buckets.

        Returns:
            The number of the first of them.
        """
        first, count = self._count, self._names.count
        if first < count:
            self._of, self._links = (enlarge(column, count, -1) for column in (self._of, self._links))
            self._is_stored, self._was_stored = enlarge(self._is_stored, count, 0), enlarge(self._was_stored, count, 0)
            self._count = count
            self._place(first)
        return first

    def has_all(self) -> bool:
        """Tell whether all streams that have a name are in their buckets.

        Returns:
            Whether `add_streams` would add none.
        """
        return self._count >= self._names.count

    def find_crowded(self, first: int, buckets: int, places: int) -> Ints:
        """Find the new streams for which their buckets have no place.

        Args:
            first: number of the first new stream.
            buckets: number of buckets once they are written.
            places: number of streams that a bucket takes.

        Returns:
            Their numbers: in each bucket, those that came last.
        """
        texts, now = self._names.texts, self._of[first : self._count]
        later = np.empty(len(now), np.int32)
        kernels.find_buckets(texts.offsets[first:], texts.content, 0, buckets - 1, later)
        numbers, now, later = first + np.flatnonzero(now >= 0), now[now >= 0], later[now >= 0]
        known = -np.bincount(now, minlength=len(self._heads))
        touched = np.flatnonzero(known)
        counts = np.empty(len(touched), np.int64)
        kernels.count_members(self._heads, self._links, touched, counts)
        known[touched] += counts
        if not (known[now] + np.bincount(later)[later] > places).any():
            return np.empty(0, np.int64)
        order = np.argsort(later, kind="stable")
        starts = np.flatnonzero(np.diff(later[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        return np.sort(numbers[order][known[now][order] + rank >= places])

    def find_buckets(self, numbers: Ints) -> Ints:
        """Find the buckets of streams.

        Args:
            numbers: the numbers of the streams.

        Returns:
            Their buckets; -1 for a stream that was taken out.
        """
        return self._of[numbers].astype(np.int64)

    def _place(self, first: int) -> None:
        texts = self._names.texts
        kernels.find_buckets(texts.offsets, texts.content, first, len(self._heads) - 1, self._of)
        self._of[list(self._ignored)] = -1
        kernels.link_streams(self._heads, self._links, self._of, first, self._count)

    def has_stored(self, number: int) -> bool:
        """Tell whether a stream has an entry in the store.

        Args:
            number: number of the stream.

        Returns:
            Whether it has.
        """
        return bool(self._is_stored[number])

    def mark_name(self, name: bytes) -> None:
        """Note that the bucket of a name has to be written.

        Args:
            name: the name, encoded.
        """
        self.dirty[find_bucket(name, len(self._heads))] = True

    def unlink(self, number: int) -> None:
        """Take out a stream whose name is to be erased; if it has an entry in the store, that stays as it is.

        Args:
            number: number of the stream.
        """
        if self._of[number] >= 0:
            kernels.unlink_stream(self._heads, self._links, int(self._of[number]), number)
        self._of[number], self._is_stored[number], self._was_stored[number] = -1, False, False
        self._ignored.discard(number)

    def ignore(self, number: int) -> None:
        """Take out a stream that keeps its name, but must not be written.

        Args:
            number: number of the stream.
        """
        self.unlink(number)
        self._ignored.add(number)

    def drop_streams(self, count: int) -> None:
        """Take out the newest streams, which were never written, so that so many are left.

        Args:
            count: number of streams that stay.
        """
        for number in range(count, self._count):
            self.unlink(number)
        self._count = min(self._count, count)

    def resize(self, buckets: int) -> None:
        """Spread the streams over another number of buckets; what had to be written still has to be.

        Args:
            buckets: number of buckets.
        """
        if buckets != len(self._heads):
            most = max(buckets, len(self._heads))
            self.dirty = np.asarray(np.resize(self.dirty, most).reshape(-1, buckets).any(axis=0), np.bool_)
            self._heads = np.full(buckets, -1, np.int32)
            self._links[:] = -1
            self._place(0)

    def mark(self, numbers: Ints) -> None:
        """Note that streams have changed.

        Args:
            numbers: numbers of the streams.
        """
        buckets = self._of[numbers]
        self.dirty[buckets[buckets >= 0]] = True

    def list_members(self, buckets: Ints) -> tuple[Ints, Ints, Ints]:
        """List the streams of buckets in the order of their names.

        Args:
            buckets: the buckets.

        Returns:
            The numbers of the streams, where each bucket ends among them, and how many of each are in the store.
        """
        counts, ends = np.empty(len(buckets), np.int64), np.empty(len(buckets), np.int64)
        members = np.empty(kernels.count_members(self._heads, self._links, buckets, counts), np.int64)
        texts = self._names.texts
        kernels.list_members(self._heads, self._links, buckets, texts.offsets, texts.content, members, ends)
        rows = np.repeat(np.arange(len(buckets)), counts)
        stored = np.bincount(rows[self._is_stored[members]], minlength=len(buckets))
        return members, ends, stored

    def note_stored(self, members: Ints) -> None:
        """Note that streams have an entry in the store.

        Args:
            members: numbers of the streams.
        """
        self._is_stored[members] = self._was_stored[members] = True

    def count_new(self) -> int:
        """Count the streams that are not in the store yet.

        Returns:
            The number of streams.
        """
        return int(np.count_nonzero(~self._is_stored[: self._count] & (self._of[: self._count] >= 0)))

    def list_unseen(self) -> Ints:
        """List the streams that were never in the store, as far as is known.

        Returns:
            The numbers of the streams.
        """
        return np.flatnonzero(~self._was_stored[: self._count] & (self._of[: self._count] >= 0))

    def count_stored(self) -> int:
        """Count the streams that are in the store.

        Returns:
            The number of streams.
        """
        return int(np.count_nonzero(self._is_stored[: self._count]))

    def mark_lost(self) -> None:
        """Note that nobody knows what is in the store, so that all has to be written again."""
        self._is_stored[:] = False
        self.dirty[:] = True
