"""The table of buckets: rows of streams, each with a head that sums up their clocks.

Guarantee: a row whose head or names were changed outside Vestige is reported and never used; damage to an entry
concerns one stream; held by tests/store/test_damage.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vestige.store.bucket import (
    Heads,
    OverlongNameError,
    Summary,
    check_head,
    check_names,
    is_sound_head,
    pack_head,
    pack_names,
    split_entries,
    unpack_names,
)
from vestige.store.entry import NO_TIME, Header, is_sound, read_header, read_receipts
from vestige.store.families import Families
from vestige.store.keyring.seal import SealError
from vestige.store.layout import DamagedError
from vestige.store.receipt import Receipt
from vestige.store.rows import Rows

BROKEN = (DamagedError, ValueError, KeyError, TypeError, IndexError)
"""What reading damaged bytes raises."""


AHEAD = 256
"""Number of rows that are read ahead: a few megabytes."""
_KEPT = pack_head(0, Summary(), b"")
"""The head of a bucket that is kept for streams of a damaged one; there is no row 0, so that no other is like it."""


class BucketRow(NamedTuple):
    """A row of the table of buckets, as its head and its names say, whose checksum fits.

    Attributes:
        bucket: the bucket, from 0.
        summary: what the head says.
        names: the names as they are stored.
        entries: the entries, one after the other.
    """

    bucket: int
    summary: Summary
    names: bytes
    entries: bytes


@dataclass(slots=True)
class Bucket:
    """The streams of a bucket.

    Attributes:
        bucket: the bucket, from 0.
        names: the names of its streams, encoded and sorted.
        entries: their entries, in the same order.
        summary: what its head has to say; None if that is to be found from the streams.
    """

    bucket: int
    names: list[bytes] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)
    summary: Summary | None = None

    @classmethod
    def parse(cls, row: BucketRow) -> Bucket:
        """Parse a row."""
        names, lengths = unpack_names(row.names, row.summary.streams)
        return cls(row.bucket, names, split_entries(row.entries, lengths), row.summary)

    def get(self, name: bytes) -> bytes | None:
        """Return the entry of a stream; None if it is not here."""
        at = bisect_left(self.names, name)
        return self.entries[at] if self.names[at : at + 1] == [name] else None

    def put(self, name: bytes, entry: bytes) -> None:
        """Replace or add the entry of a stream."""
        self.summary, at = None, bisect_left(self.names, name)
        if self.names[at : at + 1] == [name]:
            self.entries[at] = entry
        else:
            self.names.insert(at, name)
            self.entries.insert(at, entry)

    def pop(self, name: bytes) -> None:
        """Remove a stream that is here."""
        self.summary, at = None, bisect_left(self.names, name)
        del self.names[at], self.entries[at]

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(zip(self.names, self.entries, strict=True))


class Buckets:
    """The table of buckets in a store.

    Args:
        rows: the rows of the store.
        families: the terms of its streams.
    """

    def __init__(self, rows: Rows, families: Families) -> None:
        self._rows = rows
        self._families = families

    def read(self, bucket: int) -> Bucket:
        """Read the streams of a bucket; a DamagedError unless its head and its names are what was written."""
        return Bucket.parse(self.read_row(bucket))

    def read_row(self, bucket: int) -> BucketRow:
        """Read the row of a bucket; a DamagedError unless its head and its names are what was written."""
        row = bucket + 1
        stored = self._rows.read("buckets", row)
        if stored is None:
            raise DamagedError(f"row {row} of the table buckets has vanished")
        summary = _check(row, *stored[:2])
        if isinstance(summary, DamagedError):
            raise summary
        return BucketRow(bucket, summary, stored[1], stored[2][: summary.length])

    def iterate(self) -> Iterator[Bucket]:
        """Iterate over the streams of all buckets that can be read."""
        for bucket in self.iterate_ahead(range(self._rows.about.buckets)):
            try:
                found = self.read(bucket)
            except DamagedError:
                continue
            yield found

    def iterate_ahead(self, buckets: Sequence[int]) -> Iterator[int]:
        """Iterate over numbers of buckets, whose rows are ready to be read."""
        for start in range(0, len(buckets), AHEAD):
            group = buckets[start : start + AHEAD]
            self._rows.read_ahead("buckets", [bucket + 1 for bucket in group])
            yield from group

    def iterate_names(self) -> Iterator[tuple[int, Summary | DamagedError, bytes]]:
        """Iterate over what each head says, or what is wrong with it, and the names; entries are not read."""
        following = 1
        for row, (head, names) in self._rows.iterate("buckets", ("head", "names")):
            yield from _list_vanished(following, row)
            yield row - 1, _check(row, head, names), names
            following = row + 1
        yield from _list_vanished(following, self._rows.about.buckets + 1)

    def keep_free(self, bucket: int) -> None:
        """Keep a bucket for streams of one that is damaged, so that nobody takes their names."""
        self._rows.write("buckets", bucket + 1, _KEPT, b"", b"")
        self._rows.mark_untidy()

    def open_kept(self) -> None:
        """Open the buckets that are kept for streams of damaged ones to all, once there is no damaged one any more."""
        wrong = {bucket: text for bucket in range(self._rows.about.buckets) if (text := self.describe(bucket))}
        if all(text == str(_make_kept(bucket + 1)) for bucket, text in wrong.items()):
            for bucket in wrong:
                self.write(Bucket(bucket))

    def read_heads(self) -> tuple[Heads, list[str]]:
        """Read what the heads say, and what is wrong with the others; nothing else is read."""
        buckets, heads, wrong, following = list[int](), list[bytes](), list[str](), 1
        for row, head in self._rows.read_column("buckets", "head"):
            wrong += map(_say_vanished, range(following, row))
            if is_sound_head(head, row):
                buckets.append(row - 1)
                heads.append(head)
            else:
                wrong.append(str(_check(row, head, b"")))
            following = row + 1
        wrong += map(_say_vanished, range(following, self._rows.about.buckets + 1))
        return Heads(buckets, heads), wrong

    def iterate_summaries(self, bucket: int) -> Iterator[tuple[bytes, Summary]]:
        """Iterate over the streams of a bucket, each with its summary."""
        for name, entry in self.read(bucket):
            yield name, self.summarize(name, entry)

    def has_streams(self, bucket: int) -> bool:
        """Tell whether a bucket has a stream, by its head."""
        stored = self._rows.read("buckets", bucket + 1, ("head",))
        return stored is None or check_head(bucket + 1, stored[0]).streams > 0

    def find_wrong(self, text: str) -> int | None:
        """Find the bucket that is damaged, by what is said of it; None if there is none."""
        words = text.split()
        if not (text.startswith("row ") and " of the table buckets " in text and words[1].isdigit()):
            return None
        row = int(words[1])
        return row - 1 if row <= self._rows.about.buckets and self.describe(row - 1) == text else None

    def describe(self, bucket: int) -> str:
        """Say what is wrong with a bucket, in the words by which it is removed; nothing if it can be read."""
        try:
            self.read_row(bucket)
        except SealError:
            return _say_damaged(bucket + 1)
        except DamagedError as problem:
            return str(problem)
        return ""

    def write(self, bucket: Bucket) -> None:
        """Write the streams of a bucket."""
        self.write_row(*self.make_row(bucket))

    def change(self, bucket: Bucket, name: bytes, entry: bytes | None) -> None:
        """Replace or add the entry of a stream, or remove it; the other streams are only checked."""
        before, old = bucket.summary, bucket.get(name)
        if entry is None:
            bucket.pop(name)
        else:
            bucket.put(name, entry)
        if (
            before is not None
            and all(is_sound(part, of) for of, part in bucket)
            and (old is None or is_sound(old, name))
        ):
            parts = [Summary() if part is None else self.summarize(name, part) for part in (old, entry)]
            bucket.summary = before.exchange(*parts)

    def make_row(self, bucket: Bucket) -> BucketRow:
        """Make the row of a bucket from its streams."""
        summary = bucket.summary or Summary.join(self.summarize(name, entry) for name, entry in bucket)
        names = pack_names(bucket.names, [len(entry) for entry in bucket.entries])
        return BucketRow(bucket.bucket, summary, names, b"".join(bucket.entries))

    def write_row(self, bucket: int, summary: Summary, names: bytes, entries: bytes) -> None:
        """Write the row of a bucket."""
        self._rows.write("buckets", bucket + 1, pack_head(bucket + 1, summary, names), names, entries)
        self._rows.mark_untidy()

    def summarize(self, name: bytes, entry: bytes) -> Summary:
        """Sum up a stream; a damaged one has something to do always, so that it is reported."""
        try:
            if is_sound(entry, name):
                header = read_header(entry)
                is_open = any(receipt.erased is None for receipt in self._read_receipts(header, entry))
                return Summary.of(header, len(entry), is_open=is_open)
        except BROKEN:
            pass
        return Summary(1, len(entry), due=NO_TIME, settled=0)

    def _read_receipts(self, header: Header, entry: bytes) -> tuple[Receipt, ...]:
        return read_receipts(entry, self._families.terms(header.terms).columns) if header.has_receipts else ()


def _check(row: int, head: object, names: object) -> Summary | DamagedError:
    """What a head says, or what is wrong with it or with the names."""
    if head == _KEPT:
        return _make_kept(row)
    try:
        if is_sound_head(head, row):
            check_names(head, names)
        return check_head(row, head)
    except OverlongNameError as problem:
        return OverlongNameError(f"row {row} of the table buckets {problem}")
    except BROKEN:
        return DamagedError(_say_damaged(row))


def _make_kept(row: int) -> DamagedError:
    return DamagedError(f"row {row} of the table buckets is kept for streams of one that is damaged")


def _say_damaged(row: int) -> str:
    return f"row {row} of the table buckets is damaged"


def _say_vanished(row: int) -> str:
    return f"row {row} of the table buckets has vanished"


def _list_vanished(start: int, end: int) -> Iterator[tuple[int, DamagedError, bytes]]:
    for row in range(start, end):
        yield row - 1, DamagedError(_say_vanished(row)), b""
