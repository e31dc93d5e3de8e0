"""The index of subjects: in which buckets a person's records are, found without reading the others.

A partition lists, for the first eight bytes of each pseudonym, the buckets with a record of it; the pseudonym says
which partition. A pair goes with the last such record of its bucket.
Guarantee: a pair is there exactly while a record of the bucket has such a pseudonym; held by
tests/store/test_subject_index.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from vestige.store.layout import DamagedError
from vestige.store.rows import Rows, check_row, pack_row_head

PAIR = np.dtype([("prefix", "<u8"), ("bucket", "<u4")])
"""A pseudonym's first eight bytes, and a bucket."""
Pairs = tuple[NDArray[np.uint64], NDArray[np.uint32]]
"""Prefixes and buckets, as many of both."""


def make_pairs(prefixes: Iterable[int], bucket: int) -> Pairs:
    """Make the pairs of one bucket.

    Args:
        prefixes: the prefixes.
        bucket: the bucket.

    Returns:
        The pairs.
    """
    made = np.array(list(prefixes), np.uint64)
    return made, np.full(len(made), bucket, np.uint32)


def find_prefix(pseudonym: str) -> int:
    """Find what a pseudonym is listed under.

    Args:
        pseudonym: 32 hexadecimal digits.

    Returns:
        Its first eight bytes as a number.

    Example:
        >>> find_prefix("01" + "00" * 15)
        1
    """
    return int.from_bytes(bytes.fromhex(pseudonym)[:8], "little")


def find_prefixes(subjects: NDArray[np.uint8]) -> set[int]:
    """Find what pseudonyms are listed under.

    Args:
        subjects: shape (records, 16), zeros for none.

    Returns:
        The prefixes.
    """
    named = subjects[subjects.any(axis=1)]
    return set(np.ascontiguousarray(named[:, :8]).view("<u8").ravel().tolist())


class SubjectIndex:
    """The index of the subjects in a store.

    Args:
        rows: the rows of the store.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def find_buckets(self, prefix: int) -> list[int]:
        """Find the buckets with records of a subject.

        Args:
            prefix: its prefix.

        Returns:
            The buckets, ascending.

        Raises:
            DamagedError: the partition is damaged.
        """
        prefixes, buckets = self._read(prefix & (self._rows.about.buckets - 1))
        start, end = (int(np.searchsorted(prefixes, np.uint64(prefix), side)) for side in ("left", "right"))
        return [int(bucket) for bucket in buckets[start:end]]

    def read_all(self) -> Pairs:
        """Read all pairs.

        Returns:
            The pairs, in the order of the partitions.

        Raises:
            DamagedError: a partition is damaged.
        """
        parts = [_unpack(row, *stored) for row, stored in self._rows.iterate("subjects")]
        if len(parts) not in (0, self._rows.about.buckets):
            raise DamagedError("a row of the table subjects has vanished")
        return join_pairs(parts)

    def read_in(self, buckets: Sequence[int]) -> Pairs:
        """Read the pairs of some buckets.

        Args:
            buckets: the buckets.

        Returns:
            Their pairs, as far as the index can be read.
        """
        try:
            prefixes, of = self.read_all()
        except DamagedError:
            return _EMPTY
        chosen = np.isin(of, buckets)
        return prefixes[chosen], of[chosen]

    def change(self, removed: Pairs, added: Pairs) -> None:
        """Remove pairs and add others.

        Args:
            removed: pairs to remove; those that are not there are left out.
            added: pairs to add; those that are there stay once.

        Raises:
            DamagedError: a partition is damaged.
        """
        if not len(removed[0]) and not len(added[0]):
            return
        last = np.uint64(self._rows.about.buckets - 1)
        if not self._rows.find_end("subjects"):
            self._write_all(_EMPTY)
        touched = np.unique(np.concatenate([removed[0] & last, added[0] & last])).tolist()
        known = join_pairs([self._read(int(partition)) for partition in touched])
        self._write(_subtract(join_pairs([known, added]), removed), touched)

    def replace(self, pairs: Pairs) -> None:
        """Write the whole index anew.

        Args:
            pairs: all pairs.
        """
        end = self._rows.find_end("subjects")
        if end or len(pairs[0]):
            self._write_all(pairs)
        if end > self._rows.about.buckets:
            self._rows.cut("subjects", self._rows.about.buckets + 1)

    def _write_all(self, pairs: Pairs) -> None:
        self._write(pairs, list(range(self._rows.about.buckets)))

    def _write(self, pairs: Pairs, partitions: list[int]) -> None:
        """Write these partitions; the pairs belong to them."""
        own = (pairs[0] & np.uint64(self._rows.about.buckets - 1)).astype(np.int64)
        order = np.lexsort((pairs[1], pairs[0], own))
        prefixes, buckets, own = pairs[0][order], pairs[1][order], own[order]
        new = np.ones(len(own), np.bool_)
        new[1:] = (prefixes[1:] != prefixes[:-1]) | (buckets[1:] != buckets[:-1])
        prefixes, buckets, own = prefixes[new], buckets[new], own[new]
        starts = np.searchsorted(own, partitions, "left").tolist()
        ends = np.searchsorted(own, partitions, "right").tolist()
        for partition, start, end in zip(partitions, starts, ends, strict=True):
            body = prefixes[start:end].astype("<u8").tobytes() + buckets[start:end].astype("<u4").tobytes()
            head = pack_row_head("subjects", partition + 1, end - start, body)
            self._rows.write("subjects", partition + 1, head, body)
        self._rows.mark_untidy()

    def _read(self, partition: int) -> Pairs:
        stored = self._rows.read("subjects", partition + 1)
        if stored is None:
            if self._rows.find_end("subjects"):
                raise DamagedError(f"row {partition + 1} of the table subjects has vanished")
            return _EMPTY
        return _unpack(partition + 1, *stored)


_EMPTY: Pairs = np.empty(0, np.uint64), np.empty(0, np.uint32)


def _unpack(row: int, head: object, body: object) -> Pairs:
    count, plain = check_row("subjects", row, head, body)
    if len(plain) != PAIR.itemsize * count:
        raise DamagedError(f"row {row} of the table subjects is damaged")
    return np.frombuffer(plain, "<u8", count), np.frombuffer(plain, "<u4", count, 8 * count)


def join_pairs(parts: list[Pairs]) -> Pairs:
    """Put pairs together.

    Args:
        parts: the pairs.

    Returns:
        All of them.
    """
    if not parts:
        return _EMPTY
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _subtract(pairs: Pairs, removed: Pairs) -> Pairs:
    """The pairs that are not removed."""
    if not len(removed[0]):
        return pairs
    keys = [np.empty(len(part[0]), PAIR) for part in (pairs, removed)]
    for key, part in zip(keys, (pairs, removed), strict=True):
        key["prefix"], key["bucket"] = part
    left = ~np.isin(keys[0].view("V12"), keys[1].view("V12"))
    return pairs[0][left], pairs[1][left]
