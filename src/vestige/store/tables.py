"""The streams of a store in its rows: one is read or written with one bucket, however many there are.

A stream lies in the bucket that its name says (`vestige.store.bucket`). Damage to an entry concerns one stream, whose
bytes are then copied as they are; damage to a head or to names concerns one bucket.
Guarantee: a row whose bits were changed outside Vestige is refused, and so is a store from which one has vanished; held
by tests/store/test_damage.py. The index of deadlines and that of subjects say what the streams say; held by
tests/store/test_tables.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from vestige.errors import StoreError
from vestige.store.bucket import (
    Summary,
    count_buckets,
    count_places,
    explain_crowd,
    find_bucket,
    find_weight,
    unpack_names,
)
from vestige.store.buckets import BROKEN, Bucket, BucketRow, Buckets
from vestige.store.entry import (
    CHECKSUM,
    SUBJECTS,
    Header,
    is_sound,
    pack_entry,
    read_header,
    read_sources,
    read_subjects,
    unpack_entry,
)
from vestige.store.families import Families, SharedPosition
from vestige.store.keys import PSEUDONYM
from vestige.store.layout import DamagedError
from vestige.store.ledger import Ledger
from vestige.store.ledger_rows import read_ledger, write_ledger
from vestige.store.position import Position
from vestige.store.rows import About, Rows
from vestige.store.state import State
from vestige.store.subject_index import Pairs, SubjectIndex, find_prefixes, join_pairs, make_pairs
from vestige.store.taken_requests import TakenRequests
from vestige.store.terms import Terms
from vestige.store.text import decode_text, encode_text


class Tables:
    """The tables of a store; whoever writes holds a transaction.

    Args:
        rows: the rows of the store.

    Attributes:
        rows: the rows of the store.
        families: the terms of its streams, and their positions.
        buckets: the streams.
        index: the index of their subjects.
        requests: the requests that a service has taken.
        epoch: a number that changes when streams may lie in other buckets, or terms may have other numbers.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.families = Families(rows)
        self.buckets = Buckets(rows, self.families)
        self.index = SubjectIndex(rows)
        self.requests = TakenRequests(rows)
        self.epoch = 0

    @property
    def about(self) -> About:
        """What the store says of itself."""
        return self.rows.about

    @about.setter
    def about(self, about: About) -> None:
        self.rows.about = about

    def forget(self) -> None:
        """Read everything again when it is needed next."""
        self.rows.forget()
        self.families.forget()
        self.requests.forget()
        self.epoch += 1

    # One stream.

    def terms(self, name: str) -> Terms | None:
        """Return the terms of a stream; None if there is no such stream."""
        with self.rows.report_damage(name):
            entry = self._find(encode_text(name))
            if entry is None:
                return None
            return self.families.terms(read_header(entry).terms)

    def read(self, name: str) -> tuple[Terms, State] | None:
        """Return the terms and the state of a stream; None if there is no such stream."""
        with self.rows.report_damage(name):
            encoded = encode_text(name)
            entry = self._find(encoded)
            return None if entry is None else self.unpack(encoded, entry)

    def read_header(self, name: str) -> Header | None:
        """Return the header of a stream; None if there is no such stream."""
        with self.rows.report_damage(name):
            entry = self._find(encode_text(name))
            return None if entry is None else read_header(entry)

    def has(self, name: str) -> bool:
        """Tell whether there is a stream, sound or not, or a damaged bucket of which `survey` says this.

        A DamagedError if that cannot be told, because its bucket is damaged.
        """
        encoded = encode_text(name)
        return (
            self.buckets.find_wrong(name) is not None
            or self.buckets.read(find_bucket(encoded, self.about.buckets)).get(encoded) is not None
        )

    def _find(self, name: bytes) -> bytes | None:
        """The entry of a stream, whose checksum fits."""
        return _get_sound(self.buckets.read(find_bucket(name, self.about.buckets)), name)

    def unpack(self, name: bytes, entry: bytes) -> tuple[Terms, State]:
        """Return the terms and the state of a stream, whose entry has a checksum that fits."""
        number = read_header(entry).terms
        terms = self.families.terms(number)
        own = self.families.read_own(name, read_sources(entry, terms.columns))
        state = unpack_entry(entry, terms, own)
        return terms, replace(state, positions=self._add_shared(number, state.positions))

    def _add_shared(self, number: int, own: Mapping[str, Position]) -> Mapping[str, Position]:
        """The positions of a stream: its own, and those of its family where it has none."""
        shared = {source: at.position for source, at in self.families.read_shared(number).items()}
        return {source: at for source, at in {**shared, **own}.items() if at != Position()} if shared else own

    def _find_own(self, number: int, positions: Mapping[str, Position]) -> Mapping[str, Position]:
        """The positions that differ from those of the family."""
        shared = {source: at.position for source, at in self.families.read_shared(number).items()}
        unread = {source: Position() for source in shared if source not in positions}
        return unread | {source: at for source, at in positions.items() if at != shared.get(source)}

    def put(self, name: str, terms: Terms, state: State) -> None:
        """Replace a state: all of it or nothing, also where others are written in the same transaction.

        A stream that is there keeps the terms that it was created with; an error if these are others, since another
        process has created it then.
        """
        encoded = encode_text(name)
        with self.rows.report_damage(name):
            bucket = self.buckets.read(find_bucket(encoded, self.about.buckets))
            known = _get_sound(bucket, encoded)
        about = self.about
        try:
            with self.rows.savepoint():
                if known is None:
                    self.reserve(find_weight(terms))
                    with self.rows.report_damage(name):
                        number, own = self.add_family(terms), {}
                        bucket = self.buckets.read(find_bucket(encoded, self.about.buckets))
                    self._check_place(name, bucket, number, find_weight(terms))
                    self.add_streams(1, find_weight(terms))
                else:
                    with self.rows.report_damage(name):
                        number = read_header(known).terms
                        stored = self.families.terms(number)
                        if stored != terms:
                            stored.check(name, terms)
                        terms = stored
                        own = self.families.read_own(encoded, read_sources(known, terms.columns))
                with self.rows.report_damage(name):
                    sources = self.families.write_own(encoded, own, self._find_own(number, state.positions))
                entry = pack_entry(encoded, number, terms, state, sources)
                with self.rows.report_damage(name):
                    self._write_entry(bucket, encoded, entry)
        except BaseException:
            self.families.forget()
            self.epoch += 1
            self.about = about
            raise

    def _check_place(self, name: str, bucket: Bucket, number: int, weight: int) -> None:
        """Check that there is a place for one more stream of these terms."""
        places = count_places(weight)
        if len(bucket.names) >= places and count_terms(bucket)[number] >= places:
            raise StoreError(f"{self.rows.where}, stream {name!r}: {explain_crowd(places)}")

    def _write_entry(self, bucket: Bucket, name: bytes, entry: bytes | None) -> None:
        """Replace the entry of a stream, or remove it, with what the indexes say of it."""
        old = bucket.get(name)
        before = set() if old is None else self._find_prefixes(name, old)
        after = set() if entry is None else self._find_prefixes(name, entry)
        self.buckets.change(bucket, name, entry)
        gone = before - after
        if gone:
            gone -= self._list_prefixes(bucket)
        self.buckets.write(bucket)
        self.change_subjects(make_pairs(gone, bucket.bucket), make_pairs(after - before, bucket.bucket))

    def _find_prefixes(self, name: bytes, entry: bytes) -> set[int]:
        """What the subjects of a stream are listed under; nothing if it is damaged."""
        return find_prefixes(self.read_subjects(name, entry))

    def read_subjects(self, name: bytes, entry: bytes) -> NDArray[np.uint8]:
        """Return the pseudonyms of a stream's records, as `vestige.store.entry` does; none if it is damaged."""
        with suppress(*BROKEN):
            if is_sound(entry, name) and entry[CHECKSUM] & SUBJECTS:
                return read_subjects(entry, self.families.terms(read_header(entry).terms).columns)
        return np.empty((0, PSEUDONYM), np.uint8)

    def _list_prefixes(self, bucket: Bucket) -> set[int]:
        """What the subjects of a bucket are listed under."""
        return set[int]().union(*(self._find_prefixes(name, entry) for name, entry in bucket))

    def erase(self, name: str) -> bool:
        """Erase a stream, also a damaged one; or, by what `survey` says of it, a bucket that cannot be read.

        Args:
            name: the name of the stream, or what is said of the bucket.

        Returns:
            Whether it was damaged.
        """
        with self.rows.report_damage():
            wrong = self.buckets.find_wrong(name)
            if wrong is not None:
                self.buckets.write(Bucket(wrong))
                self.buckets.open_kept()
                self.recount()
                return True
            encoded = encode_text(name)
            bucket = self.buckets.read(find_bucket(encoded, self.about.buckets))
            try:
                self._erase_sound(bucket, encoded)
            except (*BROKEN, StoreError):
                self.families.blank_sources(self.families.find_owned(encoded))
                if bucket.get(encoded) is not None:
                    bucket.pop(encoded)
                self.buckets.write(bucket)
                self.recount()
                return True
            return False

    def _erase_sound(self, bucket: Bucket, name: bytes) -> None:
        entry = self._find(name)
        if entry is None:
            raise DamagedError("there is no such stream")
        number, (terms, _) = read_header(entry).terms, self.unpack(name, entry)
        self.families.blank_sources(read_sources(entry, terms.columns))
        self._write_entry(bucket, name, None)
        self.add_streams(-1, -find_weight(terms))
        if not self.has_family(number, bucket.bucket):
            self.families.blank(number)

    def erase_terms(self, terms: Terms) -> None:
        """Erase terms that no stream has any more, and those that differ only in what may change."""
        with self.rows.report_damage():
            for number in self.families.find_alike(terms):
                if not self.has_family(number):
                    self.families.blank(number)

    def has_family(self, number: int, first: int = 0) -> bool:
        """Whether a stream has these terms, or may have; the bucket that is looked at first often says it."""
        for bucket in (first, *range(self.about.buckets)):
            try:
                found = self.buckets.read(bucket)
            except DamagedError:
                return True
            if any(not is_sound(entry, name) or read_header(entry).terms == number for name, entry in found):
                return True
        return False

    def recount(self) -> None:
        """Count all streams anew, and bring index and positions in line with them, after damage was removed."""
        streams, weight, used, damaged, readable = 0, 0, set[int](), False, 0
        for bucket in self.buckets.iterate():
            streams, readable = streams + len(bucket.names), readable + 1
            for name, entry in bucket:
                try:
                    if not is_sound(entry, name):
                        raise DamagedError("a stored row is damaged")
                    terms = self.families.terms(read_header(entry).terms)
                    used |= {*read_sources(entry, terms.columns)}
                    weight += find_weight(terms)
                except BROKEN:
                    damaged = True
        self.about = replace(self.about, streams=streams, weight=weight, untidy=True)
        self.index.replace(self._collect_pairs())
        if not damaged and readable == self.about.buckets:
            for number in self.families.list_terms():
                used |= {*self.families.read(number).sources}
            rows = [row for row, _ in self.rows.iterate("sources")]
            self.families.blank_sources([row for row in rows if row not in used])

    def _collect_pairs(self) -> Pairs:
        """All pairs of the index, from the streams."""
        parts = [make_pairs(self._list_prefixes(bucket), bucket.bucket) for bucket in self.buckets.iterate()]
        return join_pairs(parts)

    # All streams.

    def survey(self, after: str | None = None, limit: int | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return names of streams, sorted, and what is wrong with buckets, one sentence each.

        Only names after one, and so many at most; all if that is not said.
        """
        names, wrong = list[bytes](), list[str]()
        for _, head, packed in self.buckets.iterate_names():
            if isinstance(head, DamagedError):
                wrong.append(str(head))
            else:
                here = unpack_names(packed, head.streams)[0] if head.streams else []
                start = 0 if after is None else bisect_right(here, encode_text(after))
                names += here[start:] if limit is None else here[start : start + limit]
        chosen = sorted(names) if limit is None else nsmallest(limit, names)
        return tuple(map(decode_text, chosen)), tuple(wrong)

    def names(self) -> tuple[str, ...]:
        """Return the names of all streams, sorted; an error if some cannot be read."""
        with self.rows.report_damage():
            names, wrong = self.survey()
            for text in wrong:
                raise DamagedError(text)
        return names

    def iterate_states(self) -> Iterator[tuple[str, tuple[Terms, State] | StoreError]]:
        """Yield each stream that has a name: its terms and state, or what is wrong with it; in no order."""
        for bucket in self.buckets.iterate():
            for encoded, entry in bucket:
                name = decode_text(encoded)
                try:
                    with self.rows.report_damage(name):
                        if not is_sound(entry, encoded):
                            raise DamagedError("a stored row is damaged")
                        found = self.unpack(encoded, entry)
                except StoreError as problem:
                    yield name, problem
                else:
                    yield name, found

    def iterate_positions(self) -> Iterator[tuple[str, Terms, Mapping[str, Position]]]:
        """Yield name, terms and positions of each stream that can be read; records are not read. In no order."""
        for bucket in self.buckets.iterate():
            for encoded, entry in bucket:
                with suppress(*BROKEN):
                    if is_sound(entry, encoded):
                        number = read_header(entry).terms
                        terms = self.families.terms(number)
                        own = self.families.read_own(encoded, read_sources(entry, terms.columns))
                        yield decode_text(encoded), terms, self._add_shared(number, dict(own.values()))

    # The ledger.

    def ledger(self) -> Ledger:
        """Return the requests to streams of the store."""
        with self.rows.report_damage():
            return read_ledger(self.rows)

    def put_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger; rows that are as they were are not written."""
        self.ledger()  # a damaged one is left as it is
        write_ledger(self.rows, ledger)

    # Many streams at once.

    def find_families(self, terms: Terms) -> list[int]:
        """Return the numbers of terms that differ only in what may change; that of equal ones first."""
        with self.rows.report_damage():
            return self.families.find_alike(terms)

    def add_family(self, terms: Terms) -> int:
        """Return the number of terms, which are added if they are new."""
        known = self.families.find(terms)
        return self.families.add(terms) if known is None else known

    def read_shared(self, family: int) -> dict[str, SharedPosition]:
        """Return the positions that the streams of a family share, by source."""
        with self.rows.report_damage():
            return self.families.read_shared(family)

    def write_shared(self, family: int, source: str, position: SharedPosition | None) -> None:
        """Write a position that the streams of a family share, or erase it."""
        with self.rows.report_damage():
            self.families.write_shared(family, source, position)

    def read_row(self, bucket: int) -> BucketRow:
        """Return the row of a bucket; an error unless its head and its names are what was written."""
        with self.rows.report_damage():
            return self.buckets.read_row(bucket)

    def iterate_rows(self) -> Iterator[BucketRow]:
        """Yield the rows of all buckets, in order; an error at one whose head or names are damaged."""
        for bucket in self.buckets.iterate_ahead(range(self.about.buckets)):
            yield self.read_row(bucket)

    def write_row(self, bucket: int, summary: Summary, names: bytes, entries: bytes) -> None:
        """Write the row of a bucket; the index of subjects is not kept, see `change_subjects`."""
        self.buckets.write_row(bucket, summary, names, entries)

    def change_subjects(self, removed: Pairs, added: Pairs) -> None:
        """Change the index of subjects; where it is damaged, it is written anew from the streams."""
        try:
            self.index.change(removed, added)
        except DamagedError:
            self.index.replace(self._collect_pairs())

    def add_streams(self, count: int, weight: int) -> None:
        """Note that streams were added; negative where they were removed. See `reserve`."""
        about = self.about
        self.about = replace(about, streams=about.streams + count, weight=about.weight + weight, untidy=True)

    def reserve(self, weight: int) -> bool:
        """Make room for streams of a weight in addition; whether streams lie in other buckets then.

        A damaged bucket stays as it is, and keeps others from the names of its streams.
        """
        had, wanted = self.about.buckets, count_buckets(self.about.weight + weight)
        with self.rows.report_damage():
            while self.about.buckets < wanted:
                self._split()
        return self.about.buckets != had

    def _split(self) -> None:
        """Split each bucket in two."""
        half, damaged = self.about.buckets, list[int]()
        for bucket in range(half):
            try:
                whole = self.buckets.read(bucket) if self.buckets.has_streams(bucket) else Bucket(bucket)
            except DamagedError:
                damaged.append(bucket)
                self.buckets.keep_free(bucket + half)
                continue
            parts = Bucket(bucket), Bucket(bucket + half)
            for name, entry in whole:
                parts[find_bucket(name, 2 * half) // half].put(name, entry)
            if parts[1].names:
                self.buckets.write(parts[0])
            self.buckets.write(parts[1])
        self._resize(2 * half, damaged)

    def merge(self) -> None:
        """Join buckets in pairs until there are no more than the streams need."""
        while self.about.buckets > count_buckets(self.about.weight):
            half = self.about.buckets // 2
            for bucket in range(half):
                if self.buckets.has_streams(bucket + half):
                    whole = self.buckets.read(bucket)
                    for name, entry in self.buckets.read(bucket + half):
                        whole.put(name, entry)
                    self.buckets.write(whole)
            self._resize(half)

    def _resize(self, buckets: int, damaged: Sequence[int] = ()) -> None:
        """Note another number of buckets, once the streams lie in them; some cannot be read."""
        known = self.index.read_in(damaged) if damaged and self.rows.find_end("subjects") else None
        self.rows.cut("buckets", buckets + 1)
        self.about = replace(self.about, buckets=buckets, untidy=True)
        if self.rows.find_end("subjects"):
            pairs = self._collect_pairs()
            self.index.replace(pairs if known is None else join_pairs([pairs, known]))
        self.epoch += 1


def count_terms(bucket: Bucket) -> Counter[int]:
    """Count the streams of a bucket by the number of their terms; damaged ones are left out."""
    return Counter(read_header(entry).terms for name, entry in bucket if is_sound(entry, name))


def _get_sound(bucket: Bucket, name: bytes) -> bytes | None:
    """The entry of a stream in its bucket, whose checksum fits."""
    entry = bucket.get(name)
    if entry is not None and not is_sound(entry, name):
        raise DamagedError("a stored row is damaged")
    return entry
