"""Buckets: the streams of a store in as many rows as their limits need, each found by the checksum of its name.

A row is a head of fixed size, the names of its streams, and their entries (`vestige.store.entry`). The head is an index
by deadline: it sums up the public clocks of the streams, so that what is due is found without reading any of them. How
many buckets there are follows from the limits of the streams, never from what they hold.
Guarantee: equal streams give equal rows, and a changed bit in a head or in names is noticed; held by
tests/store/test_bucket.py.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from vestige.errors import StoreError
from vestige.store.entry import NO_TIME, Header
from vestige.store.event import NEVER
from vestige.store.layout import DamagedError
from vestige.store.terms import Terms
from vestige.types import Ints

HEAD = 484
"""Bytes of a head."""
BUCKET = 32768
"""Weight of the streams for which there is one bucket."""
_STREAM, _NUMBER = 96, 4
"""Weight of a stream, and of each number that it may hold."""
_HEAVIEST = 4 * BUCKET  # a stream lies alone in most of them; more would be empty, and limits alone make a store large
_TIMES, _MORE = 3, 32
_LONGEST_ENTRY = 10**9  # what SQLite takes; the format has room for four times that
_HEAD = struct.Struct("<IQqqqQII")
_CHECKSUM = struct.Struct("<I")
_HEADS = np.dtype(
    {
        "names": ["due", "newest", "settled", "arrived", "open"],
        "formats": ["<i8", "<i8", "<i8", "<u8", "<u4"],
        "offsets": [16, 24, 32, 40, 48],
        "itemsize": HEAD,
    }
)
_LENGTHS = np.dtype([("name", "<u2"), ("entry", "<u4")])


@dataclass(frozen=True, slots=True)
class Summary:
    """What the head of a bucket says of its streams: public clocks only.

    Attributes:
        streams: how many there are.
        length: bytes of all their entries.
        due: when a sweep has something to do in one of them next; `NEVER` if it has not.
        newest: the newest time that one of them knows; -2**63 if none does.
        settled: the smallest number of a newest request that has been met, over the streams that hold a record;
            `NEVER` if none does.
        arrived: number of records that have arrived in all of them.
        open: number of streams with an open request.
    """

    streams: int = 0
    length: int = 0
    due: int = NEVER
    newest: int = NO_TIME
    settled: int = NEVER
    arrived: int = 0
    open: int = 0

    @classmethod
    def of(cls, header: Header, length: int, *, is_open: bool) -> Summary:
        """Sum up one stream.

        Args:
            header: the header of its entry.
            length: bytes of its entry.
            is_open: whether it has an open request.

        Returns:
            The summary.
        """
        settled = header.settled if header.count else NEVER
        return cls(1, length, header.event, header.newest, settled, header.t, int(is_open))

    @classmethod
    def join(cls, parts: Iterable[Summary]) -> Summary:
        """Sum up several summaries.

        Args:
            parts: the summaries.

        Returns:
            That of all their streams.

        Example:
            >>> Summary.join([Summary(streams=1, arrived=5), Summary(streams=2, arrived=7)]).arrived
            12
        """
        streams, length, due, newest, settled, arrived, waiting = 0, 0, NEVER, NO_TIME, NEVER, 0, 0
        for part in parts:
            streams, length, arrived = streams + part.streams, length + part.length, arrived + part.arrived
            due, newest, settled = min(due, part.due), max(newest, part.newest), min(settled, part.settled)
            waiting += part.open
        return cls(streams, length, due, newest, settled, arrived, waiting)

    def exchange(self, removed: Summary, added: Summary) -> Summary | None:
        """Sum up the same streams with some removed and others added, without looking at the rest.

        Args:
            removed: the summary of those that go; the empty one if none does.
            added: the summary of those that come.

        Returns:
            The summary; None if only the rest can tell it, because a stream that goes was the first or the last.

        Example:
            >>> both = Summary(streams=2, due=5, arrived=7)
            >>> both.exchange(Summary(streams=1, due=9, arrived=3), Summary(streams=1, due=6, arrived=4)).arrived
            8
            >>> both.exchange(Summary(streams=1, due=5), Summary(streams=1, due=6)) is None
            True
        """
        lost_first = (removed.due <= self.due < added.due) or (removed.settled <= self.settled < added.settled)
        if lost_first or removed.newest >= self.newest > added.newest:
            return None
        return Summary(
            self.streams - removed.streams + added.streams,
            self.length - removed.length + added.length,
            min(self.due, added.due),
            max(self.newest, added.newest),
            min(self.settled, added.settled),
            self.arrived - removed.arrived + added.arrived,
            self.open - removed.open + added.open,
        )


def find_bucket(name: bytes, buckets: int) -> int:
    """Find the bucket of a stream.

    Args:
        name: its name, encoded.
        buckets: number of buckets, a power of two.

    Returns:
        The bucket, from 0.

    Example:
        >>> find_bucket(b"visits", 8)
        2
    """
    return zlib.crc32(name) & (buckets - 1)


def find_weight(terms: Terms) -> int:
    """Find the weight of a stream: about how many bytes it takes.

    Args:
        terms: its terms.

    Returns:
        A function of its limits, at most that of four buckets.

    Example:
        >>> find_weight(Terms({}, columns=1, capacity=96))
        480
    """
    return min(_STREAM + _NUMBER * terms.capacity * terms.columns, _HEAVIEST)


def count_buckets(weight: int) -> int:
    """Count the buckets that streams need.

    Args:
        weight: the weight of all of them.

    Returns:
        The smallest power of two that is enough.

    Example:
        >>> count_buckets(0), count_buckets(32_768), count_buckets(32_769), count_buckets(480 * 10**6)
        (1, 1, 2, 16384)
    """
    return 1 << max(-(-weight // BUCKET) - 1, 0).bit_length()


def count_places(weight: int) -> int:
    """Count the streams of the same terms that a bucket takes before it takes no new one.

    Args:
        weight: the weight of each.

    Returns:
        Three times as many as lie in a bucket on average, and 32: more than names come to by chance.

    Example:
        >>> count_places(480), count_places(100_000)
        (236, 32)
    """
    return _TIMES * BUCKET // weight + _MORE


def explain_crowd(places: int) -> str:
    """Explain why a bucket takes no new stream.

    Args:
        places: what `count_places` returned.

    Returns:
        What is wrong with the name of the stream, and the remedy.
    """
    return (
        f"its bucket has {places:,} streams of these terms, which names do not come to by chance, and each commit of "
        "one of them writes all; use another name"
    )


def check_lengths(lengths: Ints) -> Ints:
    """Check that entries fit into a bucket.

    Args:
        lengths: bytes of each.

    Returns:
        The lengths.

    Raises:
        StoreError: one of them is too long.
    """
    if (longest := int(lengths.max(initial=0))) > _LONGEST_ENTRY:
        raise StoreError(
            f"the state of a stream takes {longest:,} bytes, above the {_LONGEST_ENTRY:,} that a store has room for; "
            "give streams smaller limits: retention=..."
        )
    return lengths


def pack_names(names: Sequence[bytes], lengths: Sequence[int] | Ints) -> bytes:
    """Pack the names of a bucket.

    Args:
        names: the names, encoded and sorted.
        lengths: bytes of the entry of each.

    Returns:
        The lengths of names and entries, then the names.

    Raises:
        StoreError: an entry is too long.
    """
    table = np.empty(len(names), _LENGTHS)
    table["name"], table["entry"] = [len(name) for name in names], check_lengths(np.asarray(lengths, np.int64))
    return table.tobytes() + b"".join(names)


class OverlongNameError(DamagedError):
    """A bucket was written with a name whose length does not fit into its 16 bits, by a Vestige that did not check."""

    cause = ""


def unpack_names(body: bytes, streams: int) -> tuple[list[bytes], NDArray[np.int64]]:
    """Unpack the names of a bucket.

    Args:
        body: what was packed.
        streams: number of names.

    Returns:
        The names, and the bytes of the entry of each.

    Raises:
        DamagedError: the lengths do not fit.
    """
    if len(body) < streams * _LENGTHS.itemsize:
        raise DamagedError("the names of streams are damaged")
    table = np.frombuffer(body, _LENGTHS, streams)
    ends = np.cumsum(table["name"], dtype=np.int64) + streams * _LENGTHS.itemsize
    if (int(ends[-1]) if streams else 0) != len(body):
        raise DamagedError("the names of streams are damaged")
    starts = (ends - table["name"]).tolist()
    names = [body[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
    return names, table["entry"].astype(np.int64)


def split_entries(body: bytes, lengths: Ints) -> list[bytes]:
    """Split the entries of a bucket.

    Args:
        body: the entries, and what comes after them.
        lengths: bytes of each.

    Returns:
        The entries; those that the body does not have are cut off or empty.
    """
    ends = np.cumsum(lengths)
    return [body[start:end] for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]


def pack_head(row: int, summary: Summary, names: bytes) -> bytes:
    """Pack the head of a bucket.

    Args:
        row: the number of its row.
        summary: what it says.
        names: the names as they are stored.

    Returns:
        A checksum that covers the row and the head, the summary, the checksum of the names, and zeros.
    """
    facts = summary.streams, summary.length, summary.due, summary.newest
    plain = _HEAD.pack(*facts, summary.settled, summary.arrived, summary.open, zlib.crc32(names))
    plain += bytes(HEAD - _CHECKSUM.size - len(plain))
    return _CHECKSUM.pack(_compute_head(row, plain)) + plain


def _compute_head(row: int, plain: bytes) -> int:
    return zlib.crc32(plain, zlib.crc32(b"buckets %d" % row))


def is_sound_head(head: object, row: int) -> TypeGuard[bytes]:
    """Tell whether the head of a bucket is what was written.

    Args:
        head: the head.
        row: the number of its row.

    Returns:
        True if its checksum fits.
    """
    return (
        isinstance(head, bytes)
        and len(head) == HEAD
        and int.from_bytes(head[:4], "little") == _compute_head(row, head[4:])
    )


def check_head(row: int, head: object) -> Summary:
    """Read the head of a bucket, after checking it.

    Args:
        row: the number of its row.
        head: the head.

    Returns:
        What it says.

    Raises:
        DamagedError: it is not what was written.
    """
    if not is_sound_head(head, row):
        raise DamagedError("the head of a bucket is damaged")
    return Summary(*_HEAD.unpack_from(head, _CHECKSUM.size)[:-1])


class Heads:
    """What the heads of many buckets say, as arrays with the names of `Summary`.

    Args:
        buckets: the bucket of each head.
        heads: the heads, which were checked.

    Attributes:
        buckets: the buckets; shape (heads,).
        due: see `Summary`; shape (heads,).
        newest: see `Summary`; shape (heads,).
        settled: see `Summary`; shape (heads,).
        arrived: see `Summary`; shape (heads,).
        open: see `Summary`; shape (heads,).
    """

    def __init__(self, buckets: Sequence[int], heads: Sequence[bytes]) -> None:
        table = np.frombuffer(b"".join(heads), _HEADS)
        self.buckets = np.array(buckets, np.int64)
        self.due, self.newest, self.settled = (table[name] for name in ("due", "newest", "settled"))
        self.arrived, self.open = table["arrived"], table["open"]


def check_names(head: bytes, names: object) -> bytes:
    """Check the names of a bucket.

    Args:
        head: the head, which was checked.
        names: the names as they are stored.

    Returns:
        The names.

    Raises:
        DamagedError: they are not what was written.
        OverlongNameError: they are, but their lengths do not fit.
    """
    streams, *_, checksum = _HEAD.unpack_from(head, _CHECKSUM.size)
    if not isinstance(names, bytes) or zlib.crc32(names) != checksum:
        raise DamagedError("the names of a bucket are damaged")
    lengths = np.frombuffer(names, _LENGTHS, streams)["name"]
    if len(names) != streams * _LENGTHS.itemsize + int(lengths.sum(dtype=np.int64)):
        raise OverlongNameError("was written with a key of 65,536 bytes or more, by a Vestige that did not check that")
    return names
