"""What is wrong with the rows of a store: each is read, and what they say of each other is compared.

Guarantee: finds records that are overdue, changed bits, rows that belong to nobody, indexes that say other than the
streams, and padding that is not zero; held by tests/store/test_inspection.py and tests/store/test_verify.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from vestige.errors import StoreError
from vestige.store.bucket import Summary, count_places, find_bucket, find_weight
from vestige.store.buckets import BROKEN, Bucket
from vestige.store.definition_rows import read_definitions
from vestige.store.entry import (
    CHECKSUM,
    IRREGULAR,
    NO_TIME,
    NUMBERS,
    RECEIPTS,
    SOURCES,
    SUBJECTS,
    TIMES,
    is_sound,
    read_header,
    read_sources,
)
from vestige.store.keys import PSEUDONYM
from vestige.store.layout import DamagedError
from vestige.store.overdue import find_overdue, find_overdue_receipts
from vestige.store.subject_index import PAIR, find_prefixes, make_pairs
from vestige.store.tables import Tables, count_terms
from vestige.store.terms import Terms
from vestige.store.text import decode_text
from vestige.times import TICK, to_ticks

_CHANGED = DamagedError.cause.strip()
_UNUSUAL = IRREGULAR | NUMBERS | SOURCES | RECEIPTS
"""Parts of an entry that are looked at by unpacking all of it."""


def inspect_tables(tables: Tables, at: datetime) -> Iterator[str]:
    """Find what is wrong with the rows of a store; if one stream cannot be read, the others still can.

    Args:
        tables: the tables of the store.
        at: the time that limits in time are checked against, in UTC.

    Yields:
        One sentence for each finding.
    """
    where, streams, sealed = tables.rows.where, _Streams(tables, at), tables.rows.find_damage()
    yield from (f"{where}: {text}" for text in sealed.values())
    for bucket, head, _ in tables.buckets.iterate_names():
        if ("buckets", bucket + 1) in sealed:
            streams.damaged.add(bucket)
        elif isinstance(head, DamagedError):
            streams.damaged.add(bucket)
            yield f"{where}: {head}{head.cause}"
        else:
            yield from streams.inspect(bucket, head)
    yield from (f"{where}: {text}" for text in streams.compare())
    try:
        yield from find_overdue_receipts("the ledger", tables.ledger().receipts, at)
    except StoreError as problem:
        yield str(problem)
    yield from _inspect_notes(tables, at)
    for table in ("terms", "ledger", "subjects", "definitions", "requests"):
        for row, (head_part, body) in tables.rows.iterate(table):
            if (table, row) not in sealed and body[int.from_bytes(head_part[8:16], "little") :].strip(b"\0"):
                yield f"{where}: row {row} of the table {table} is not zero behind what it holds"


def _inspect_notes(tables: Tables, at: datetime) -> Iterator[str]:
    """What is wrong with the notes of a service."""
    try:
        read_definitions(tables.rows)
    except (*BROKEN, StoreError) as problem:
        yield f"{tables.rows.where}: {problem} {_CHANGED}"
    try:
        yield from (f"{tables.rows.where}: {text}" for text in tables.requests.inspect(at))
    except (*BROKEN, StoreError) as problem:
        yield f"{tables.rows.where}: {problem} {_CHANGED}"


@dataclass(slots=True)
class _Streams:
    """All streams of a store, and what they add up to.

    Attributes:
        tables: the tables of the store.
        at: the time that limits in time are checked against.
        damaged: the buckets in which something cannot be read.
        streams: number of streams.
        weight: their weight.
        sources: the rows of their own positions.
        pairs: what the index of subjects has to hold.
    """

    tables: Tables
    at: datetime
    damaged: set[int] = field(default_factory=set)
    streams: int = 0
    weight: int = 0
    sources: list[int] = field(default_factory=list)
    pairs: list[bytes] = field(default_factory=list)

    def inspect(self, bucket: int, head: Summary) -> Iterator[str]:
        """What is wrong with a bucket whose head and names are sound, and with its streams."""
        stored = self.tables.rows.read("buckets", bucket + 1, ("body",))
        row = self.tables.buckets.read_row(bucket)
        found, parts, prefixes = Bucket.parse(row), list[Summary](), set[int]()
        place = f"{self.tables.rows.where}: row {bucket + 1} of the table buckets"
        if stored is not None and stored[0][head.length :].strip(b"\0"):
            yield f"{place} is not zero behind its streams"
        if found.names != sorted({*found.names}) or sum(map(len, found.entries)) != head.length:
            yield f"{place} is not in order"
        yield from self._find_crowds(found, place)
        for name, entry in found:
            if find_bucket(name, self.tables.about.buckets) != bucket:
                yield f"{place} has a stream that belongs elsewhere"
            problem = self._inspect_stream(name, entry)
            yield from problem
            parts.append(self.tables.buckets.summarize(name, entry))
            if parts[-1].due == NO_TIME and not is_sound(entry, name):
                self.damaged.add(bucket)
            prefixes |= find_prefixes(self.tables.read_subjects(name, entry))
        self.streams += len(found.names)
        self.pairs += _to_keys(*make_pairs(prefixes, bucket))
        if bucket not in self.damaged and Summary.join(parts) != head:
            yield f"{place} has a head that does not say what its streams say"

    def _find_crowds(self, found: Bucket, place: str) -> Iterator[str]:
        """Where a bucket has more streams of the same terms than it would take."""
        for number, count in count_terms(found).items():
            with suppress(*BROKEN):
                if count > (places := count_places(find_weight(self.tables.families.terms(number)))):
                    yield (
                        f"{place} has {count:,} streams of the same terms, where {places:,} are the most: whatever "
                        "changes in one of them writes all of them; remove those whose keys were chosen to lie there"
                    )

    def _inspect_stream(self, encoded: bytes, entry: bytes) -> Iterator[str]:
        """What is wrong with a stream: damage, and what is overdue."""
        name = decode_text(encoded)
        try:
            with self.tables.rows.report_damage(name):
                if not is_sound(entry, encoded):
                    raise DamagedError("a stored row is damaged")
                terms = self.tables.families.terms(read_header(entry).terms)
                self.weight += find_weight(terms)
                if not entry[CHECKSUM] & _UNUSUAL and not _may_be_overdue(entry, terms, self.at):
                    return
                self.sources += read_sources(entry, terms.columns)
                _, state = self.tables.unpack(encoded, entry)
        except StoreError as problem:
            yield str(problem)
            return
        yield from find_overdue(name, terms, state, self.at)

    def compare(self) -> Iterator[str]:
        """Where counts, positions and the index of subjects are not those of the streams."""
        about = self.tables.about
        if about.streams != self.streams and not self.damaged:
            yield f"counts {about.streams} streams, but there are {self.streams}"
        if about.weight != self.weight and not self.damaged:
            yield "has another weight than its streams"
        yield from self._compare_sources()
        try:
            kept = _to_keys(*self.tables.index.read_all())
        except BROKEN as problem:
            yield f"{problem} {_CHANGED}"
            return
        held = {key for key in kept if int.from_bytes(key[8:], "little") not in self.damaged}
        if len({*kept}) < len(kept) or held - {*self.pairs}:
            yield "the index of subjects lists some that no stream has"
        if {*self.pairs} - {*kept}:
            yield "the index of subjects lacks some that a stream has"

    def _compare_sources(self) -> Iterator[str]:
        """Rows of the table sources that belong to nobody must be zero, and the others to one owner."""
        used = list(self.sources)
        for number in self.tables.families.list_terms():
            used += self.tables.families.read(number).sources
            try:
                self.tables.families.read_shared(number)
            except BROKEN as problem:
                yield f"{problem} {_CHANGED}"
        if self.damaged:
            return
        left = [row for row, (body,) in self.tables.rows.iterate("sources") if any(body)]
        there = len(left)
        if sorted(used) != left:
            yield f"the table sources has {there} rows, but only {len(used)} belong to a sound stream"


def _to_keys(prefixes: np.ndarray, buckets: np.ndarray) -> list[bytes]:
    """Pairs as strings of bytes."""
    made = np.empty(len(prefixes), PAIR)
    made["prefix"], made["bucket"] = prefixes, buckets
    raw = made.tobytes()
    return [raw[at : at + PAIR.itemsize] for at in range(0, len(raw), PAIR.itemsize)]


def _may_be_overdue(entry: bytes, terms: Terms, at: datetime) -> bool:
    """Whether a regular entry has to be unpacked, because a limit may have passed or its length is wrong."""
    header = read_header(entry)
    n, mask = header.count, -(-header.length // 8)
    first = header.t - header.pending - header.length + 1
    times_at = header.records + mask + 8 * n * terms.columns
    sizes = (8 * n if header.flags & TIMES else 0) + (PSEUDONYM * n if header.flags & SUBJECTS else 0)
    if times_at + sizes != len(entry) or not 1 <= header.since <= first:
        return True
    if terms.retention is not None and header.t - first >= terms.retention:
        return True
    if terms.max_age is None or not n:
        return False
    if not header.flags & TIMES:
        return True
    times = np.frombuffer(entry, "<i8", n, times_at)
    return bool((times <= to_ticks(at) - terms.max_age // TICK).any())
