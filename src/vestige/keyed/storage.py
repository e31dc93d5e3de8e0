"""The streams of a family in a store: which bucket each lies in, and which buckets have to be written.

All that changed since the last flush is written in one transaction, bucket by bucket; kernels pack the streams
(`vestige.keyed.entry_kernels`), so that nothing is done per key in Python but for those that arrays cannot hold.
Guarantee: what is loaded is what was flushed, bit for bit, and a stream that is opened alone by
`vestige.store.Store.stream` is the same; held by tests/keyed/test_storage.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Set
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from vestige.errors import ParameterError, StoreBusyError, StoreError
from vestige.keyed import entry_kernels as kernels
from vestige.keyed.chain_kernels import ELSEWHERE, NEVER, UNKNOWN, Rows, make_rows
from vestige.keyed.directory import Directory
from vestige.keyed.entry_kernels import (
    IRREGULAR,
    NUMBERS,
    RECEIPTS,
    SOURCES,
    SUBJECTS,
    TIMES,
    Bytes,
    Entries,
    Facts,
    Headers,
)
from vestige.keyed.layout import STREAMS
from vestige.keyed.names import KeyNames, Texts
from vestige.keyed.positions import KeyedPositions
from vestige.keyed.shard import Shard
from vestige.keyed.shards import Shards
from vestige.keyed.workers import run_tasks
from vestige.store import FamilyPlace, Position, State, Terms
from vestige.store.bucket import (
    Summary,
    check_lengths,
    count_buckets,
    count_places,
    explain_crowd,
    find_bucket,
    find_weight,
)
from vestige.store.buckets import Bucket, BucketRow
from vestige.store.entry import CHECKSUM, is_sound, pack_entry, read_header, read_sources, unpack_entry
from vestige.store.layout import DamagedError
from vestige.store.subject_index import Pairs, join_pairs
from vestige.store.tables import Tables
from vestige.store.text import decode_text, encode_text
from vestige.stream.frames import adopt_names
from vestige.types import Bools, Ints, Words

_log = logging.getLogger("vestige")
_BUCKETS_PER_GROUP = 256
"""Number of buckets that are packed at a time."""
_BYTES_PER_GROUP = 1 << 24
"""Number of bytes of entries that are read at a time."""
_SPECIAL = IRREGULAR | SOURCES | RECEIPTS
"""Flags of entries that kernels do not read."""


class Group(NamedTuple):
    """Buckets that were read, one after the other.

    Attributes:
        buckets: their numbers.
        sections: their sections of names.
        content: their entries.
        entries: where names and entries lie.
        headers: what stands before the records of each entry.
    """

    buckets: Ints
    sections: Bytes
    content: Bytes
    entries: Entries
    headers: Headers

    @classmethod
    def read(cls, rows: list[BucketRow], *, is_checked: bool) -> Group:
        """Find names, entries and headers in rows.

        Args:
            rows: the rows.
            is_checked: whether to compare the checksums of entries.

        Returns:
            The group.
        """
        counts = np.array([row.summary.streams for row in rows], np.int64)
        borders = np.cumsum([[len(row.names), len(row.entries)] for row in rows], axis=0, dtype=np.int64)
        sections = np.frombuffer(b"".join(row.names for row in rows), np.uint8)
        content = np.frombuffer(b"".join(row.entries for row in rows), np.uint8)
        n = int(counts.sum())
        entries = Entries(np.empty(n, np.int64), np.empty((n, 2), np.int64), np.empty((n, 2), np.int64))
        kernels.find_entries(sections, borders, counts, entries)
        headers = Headers(*(np.zeros(n, np.int64) for _ in Headers._fields))
        kernels.read_headers(sections, content, entries, headers, is_checked)
        return cls(np.array([row.bucket for row in rows], np.int64), sections, content, entries, headers)

    def take_names(self, chosen: Ints) -> Texts:
        """Gather the names of some entries.

        Args:
            chosen: rows of the entries.

        Returns:
            Their names, one after the other.
        """
        places = self.entries.name[chosen]
        offsets = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(places[:, 1] - places[:, 0], out=offsets[1:])
        content = np.empty(int(offsets[-1]), np.uint8)
        kernels.copy_parts(self.sections, places, content)
        return Texts(offsets, content)

    def get_name(self, row: int) -> bytes:
        """Return the name of an entry."""
        start, stop = self.entries.name[row]
        return self.sections[start:stop].tobytes()

    def get_entry(self, row: int) -> bytes:
        """Return the bytes of an entry."""
        start, stop = self.entries.entry[row]
        return self.content[start:stop].tobytes()

    def collect_prefixes(self, widths: Ints) -> tuple[Words, Ints]:
        """Collect under what the subjects of each bucket are listed; see `vestige.store.subject_index`.

        Args:
            widths: number of values in a record, by the number of the terms.

        Returns:
            The prefixes of all buckets, those of each sorted, and where each bucket ends among them.
        """
        named = (self.headers.flags >= 0) & (self.headers.flags & SUBJECTS > 0)
        prefixes = np.empty(int(self.headers.records[named].sum()), np.uint64)
        ends = np.zeros(len(self.buckets), np.int64)
        kernels.collect_prefixes(self.content, self.entries, self.headers, widths, prefixes, ends)
        return prefixes, ends


class Packed(NamedTuple):
    """Buckets as they are to be written, with the streams of one family only.

    Attributes:
        buckets: their numbers.
        members: the streams of all of them.
        ends: where each bucket ends among these.
        stored: how many streams of each were in the store before.
        sections: the sections of names.
        bodies: the entries.
        borders: where each bucket ends in `sections` and in `bodies`; shape (buckets, 2).
        facts: what the head of a bucket says of each stream.
    """

    buckets: Ints
    members: Ints
    ends: Ints
    stored: Ints
    sections: Bytes
    bodies: Bytes
    borders: Ints
    facts: Facts

    def get_row(self, i: int) -> BucketRow:
        """Return a bucket as it is to be written."""
        here, facts = slice(self.ends[i - 1] if i else 0, self.ends[i]), self.facts
        section, body = self.borders[i - 1] if i else (0, 0)
        stop, end = self.borders[i]
        summary = Summary(
            int(here.stop - here.start),
            int(end - body),
            int(facts.event[here].min(initial=NEVER)),
            int(facts.newest[here].max(initial=UNKNOWN)),
            int(facts.settled[here].min(initial=NEVER)),
            int(facts.t[here].sum()),
            int(facts.is_open[here].sum()),
        )
        names, entries = self.sections[section:stop].tobytes(), self.bodies[body:end].tobytes()
        return BucketRow(int(self.buckets[i]), summary, names, entries)


class Written(NamedTuple):
    """What was written in a transaction besides streams, in case it is rolled back.

    Attributes:
        transaction: number of the transaction.
        removed: names of streams that were erased, encoded.
        sources: sources whose position was written.
        streams: names of streams whose own positions were written.
    """

    transaction: int = 0
    removed: Set[bytes] = frozenset()
    sources: Set[str] = frozenset()
    streams: Set[str] = frozenset()

    def add(self, transaction: int, removed: Set[bytes], sources: Set[str], streams: Set[str]) -> Written:
        """Add what was written in the same transaction, or begin with another."""
        known = self if transaction == self.transaction else Written()
        return Written(transaction, known.removed | removed, known.sources | sources, known.streams | streams)


class FamilyStorage:
    """The streams of a family in a store.

    Args:
        place: where the streams live.
        terms: the terms of the streams.
        names: the names of the streams.
        shards: the streams.
        workers: threads for kernels.

    Attributes:
        terms: the terms of the streams, with the names that rows gave to columns.
        positions: how far sources were read into the streams.
    """

    def __init__(self, place: FamilyPlace, terms: Terms, names: KeyNames, shards: Shards, workers: Executor) -> None:
        self._place, self._store, self.terms, self._workers = place, place.store, terms, workers
        self._names, self._shards = names, shards
        self._directory = Directory(names)
        self._removed, self._written = set[bytes](), Written()
        self._damaged: dict[int, StoreError] = {}
        self._unreadable = set[int]()
        self._has_subjects = False
        self._epoch = 0
        """What `Tables.epoch` was when all streams were written."""
        self.positions = KeyedPositions()

    # Reading.

    def load(self) -> None:
        """Read all streams of the family.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._store._use() as tables:
            self._directory.resize(tables.about.buckets)
            self._epoch = tables.epoch
            families = tables.find_families(self.terms)
            if not families:
                self._check_limits(tables)
                return
            buckets = tables.about.buckets
            for number in reversed(families):
                self.terms = adopt_names(self.terms, tables.families.terms(number))
            own: list[tuple[str, Mapping[str, Position]]] = []
            for rows in _group_rows(self._iterate_rows(tables)):
                own += self._load_group(Group.read(rows, is_checked=True), families, tables)
            self.positions, renumbering = KeyedPositions.load(tables.read_shared(families[0]), own)
            for name, slots in renumbering.items():
                self._shards.renumber(self._find(name), slots)
        self._directory.mark(np.array([self._find(name) for name in self.positions.changed_streams], np.int64))
        if self._damaged:
            first = next(iter(self._damaged.values()))
            _log.warning("%s (%d of %d rows of streams cannot be read)", first, len(self._damaged), buckets)

    def _check_limits(self, tables: Tables) -> None:
        """Check that no streams differ in their limits alone: they are those that are meant, and a limit is not."""
        if self.terms.fixed.get("by", self) is None:  # a service keeps single streams of different limits
            return
        for number, terms in tables.families.list_terms().items():
            differing = terms.explain_limits(self.terms)
            if differing and tables.has_family(number):
                raise StoreError(
                    f"the store has no streams with these limits, but some that differ in nothing else: {differing}; "
                    "pass the limits that they were created with, or about={...}, which tells new ones apart"
                )

    def _iterate_rows(self, tables: Tables) -> Iterator[BucketRow]:
        """The rows of all buckets that can be read; the others are noted."""
        for bucket in tables.buckets.iterate_ahead(range(tables.about.buckets)):
            try:
                row = tables.read_row(bucket)
            except StoreBusyError:
                raise
            except StoreError as problem:
                self._damaged[bucket] = problem
                continue
            yield row

    def add_streams(self) -> None:
        """Note that there are new streams; those that cannot be written are blocked.

        That is, if their bucket cannot be read, or if there is a stream of their name in another family.
        """
        directory = self._directory
        if directory.has_all():
            return
        first = directory.add_streams()
        with self._store._use() as tables:
            self._resize(tables.about.buckets)  # another process may have changed it
            self._block_conflicts(np.arange(first, self._names.count))
            about = tables.about
        weight, new = find_weight(self.terms), directory.count_new()
        places, crowded, wanted = count_places(weight), np.empty(0, np.int64), 0
        while wanted != (buckets := max(about.buckets, count_buckets(about.weight + weight * (new - len(crowded))))):
            wanted = buckets  # fewer, since those that are left out need none
            crowded = directory.find_crowded(first, wanted, places)
        for number in crowded.tolist():
            directory.ignore(number)
            self._shards.block(number, StoreError(f"stream {self._names[number]!r}: {explain_crowd(places)}"))

    def _resize(self, buckets: int) -> None:
        """Note another number of buckets; a damaged one keeps others from the names of its streams."""
        before = len(self._directory.dirty)
        for bucket in range(before, buckets) if self._damaged else ():
            if (bucket % before) in self._damaged:
                self._damaged[bucket] = self._damaged[bucket % before]
        self._directory.resize(buckets)

    def _block_conflicts(self, numbers: Ints) -> dict[str, StoreError]:
        """Block those of new streams that cannot be written; return why, by name."""
        directory, found = self._directory, dict[str, StoreError]()
        buckets = directory.find_buckets(numbers)
        others = self._store.count() > directory.count_stored() or self._store.live_names()
        if not len(buckets) or not (self._damaged or others or len(self._store.families) > 1):
            return found
        order = np.argsort(buckets, kind="stable")
        for here in np.split(order, np.flatnonzero(np.diff(buckets[order])) + 1):
            for number, problem in self._find_conflicts(int(buckets[here[0]]), numbers[here].tolist()):
                directory.ignore(number)
                self._shards.block(number, problem)
                found[self._names[number]] = problem
        return found

    def _find_conflicts(self, bucket: int, numbers: list[int]) -> Iterator[tuple[int, StoreError]]:
        """New streams of a bucket that cannot be written, and why."""
        if bucket in self._damaged:
            yield from ((number, self._damaged[bucket]) for number in numbers)
            return
        with self._store._use() as tables, tables.rows.report_damage():
            there = tables.buckets.read(bucket)
            for number in numbers:
                name = self._names[number]
                try:
                    self._check_free(name)
                    if there.get(encode_text(name)) is not None and encode_text(name) not in self._removed:
                        self._store.terms(name).check(name, self.terms)
                except StoreError as problem:
                    yield number, problem

    def _check_free(self, name: str) -> None:
        """Check that no other open stream, which may not be written yet, has a name."""
        mine = self.terms.fixed_text
        others = [family for terms, (_, family) in self._store._families.items() if terms != mine]
        if self._store.live(name) is not None or any(name in family for family in others):
            raise StoreError(f"stream {name!r} is open elsewhere with other terms; use another key or another store")

    def _find(self, name: str) -> int:
        number = self._names.find(name)
        assert number is not None  # noqa: S101  # it was just read
        return number

    def _load_group(
        self, group: Group, families: list[int], tables: Tables
    ) -> Iterator[tuple[str, Mapping[str, Position]]]:
        """Take in the streams of some buckets; yield those that have own positions, with these."""
        headers = group.headers
        here = (headers.flags >= 0) & np.isin(headers.family, families)
        plain = here & (headers.flags & _SPECIAL == 0) & (headers.family == families[0]) & self._shards.is_batched
        self._has_subjects |= bool((headers.flags[here] & SUBJECTS).any())
        rows = np.flatnonzero(plain)
        numbers = self._add(group, rows)
        for place in np.unique(numbers // STREAMS).tolist():
            chosen = numbers // STREAMS == place
            _import(self._shards[place], numbers[chosen] % STREAMS, rows[chosen], group)
        others = np.flatnonzero((here | (headers.flags < 0)) & ~plain)
        for row, number in zip(others.tolist(), self._add(group, others).tolist(), strict=True):
            name = decode_text(group.get_name(row))
            try:
                state = self._unpack(group.get_name(row), group.get_entry(row), tables)
                self._shards.adopt(number, state)
            except (StoreError, ParameterError) as problem:  # its entry stays as it is
                self._directory.ignore(number)
                self._unreadable.add(number)
                self._shards.block(number, problem if isinstance(problem, StoreError) else StoreError(str(problem)))
                continue
            family = int(headers.family[row])
            shared = {} if family == families[0] else tables.read_shared(family)
            positions = {source: at.position for source, at in shared.items()} | dict(state.positions)
            if positions:
                yield name, positions

    def _add(self, group: Group, rows: Ints) -> Ints:
        numbers = self._names.number(group.take_names(rows), self._workers)
        self._shards.resize(self._names.count)
        self._directory.add_streams()
        self._directory.note_stored(numbers)
        return numbers

    def _unpack(self, name: bytes, entry: bytes, tables: Tables) -> State:
        """The state of a stream, of whose positions only its own are there."""
        with tables.rows.report_damage(decode_text(name)):
            if not is_sound(entry, name):
                raise DamagedError("a stored row is damaged")
            return unpack_entry(entry, self.terms, self._read_own(name, entry, tables))

    def _read_own(self, name: bytes, entry: bytes, tables: Tables) -> dict[int, tuple[str, Position]]:
        return tables.families.read_own(name, read_sources(entry, self.terms.columns))

    # Writing.

    def mark(self, numbers: Ints) -> None:
        """Note that streams have changed, and have to be written.

        Args:
            numbers: numbers of the streams.
        """
        self._directory.mark(numbers)

    def truncate(self, count: int) -> None:
        """Note that the newest streams, which were never written, are dropped.

        Args:
            count: number of streams that are left.
        """
        self._directory.drop_streams(count)

    def remove(self, number: int) -> None:
        """Note that a stream is to be erased.

        Args:
            number: number of the stream, which still has its name.
        """
        name = self._names[number]
        if self._directory.has_stored(number) or number in self._unreadable:
            self._removed.add(encode_text(name))
            self._directory.mark_name(encode_text(name))
        self._unreadable.discard(number)
        self._directory.unlink(number)
        self.positions.drop(name)

    def mark_lost(self) -> None:
        """Note that the present transaction of the store is rolled back, with what was written in it."""
        if self._written.transaction == self._store._transactions:
            self._directory.mark_lost()
            self._removed |= self._written.removed
            self.positions.changed_sources |= self._written.sources
            self.positions.changed_streams |= self._written.streams

    @property
    def is_dirty(self) -> bool:
        """Whether something has to be written."""
        return bool(self._directory.dirty.any() or self.positions.changed_sources or self.positions.changed_streams)

    def flush(self) -> dict[str, StoreError]:
        """Write all that has changed, in one transaction.

        Returns:
            Why new streams were blocked, by name: another process has created them with other terms meanwhile.

        Raises:
            StoreError: the store cannot be written; what has changed is written by a later call.
        """
        refused = dict[str, StoreError]()
        directory, positions = self._directory, self.positions
        numbers = [number for name in positions.changed_streams if (number := self._names.find(name)) is not None]
        directory.mark(np.array(numbers, np.int64))
        if not self.is_dirty:
            return refused
        with self._store.transaction(), self._store._use() as tables:
            self._place.check_open()  # a store that had to be connected anew may have lost the streams
            epoch = tables.epoch
            if epoch != self._epoch and len(unseen := directory.list_unseen()):  # others may have created them
                self._resize(tables.about.buckets)
                refused = self._block_conflicts(unseen)
            family = next(iter(tables.find_families(self.terms)), None) or tables.add_family(self.terms)
            weight = find_weight(self.terms)
            tables.reserve(weight * directory.count_new())
            self._resize(tables.about.buckets)
            dirty = np.flatnonzero(directory.dirty)
            written, gone, added = [], [], []
            for start in range(0, len(dirty), _BUCKETS_PER_GROUP):
                packed, *pairs = self._write(tables, family, dirty[start : start + _BUCKETS_PER_GROUP])
                written.append(packed)
                gone.append(pairs[0])
                added.append(pairs[1])
            tables.change_subjects(join_pairs(gone), join_pairs(added))
            for source in positions.changed_sources:
                tables.write_shared(family, source, positions.shared.get(source))
        for members in written:
            directory.note_stored(members)
        directory.dirty[:] = False
        self._written = self._written.add(
            self._store._transactions, self._removed, positions.changed_sources, positions.changed_streams
        )
        self._removed = set()
        positions.mark_saved()
        self._epoch = epoch
        return refused

    def _write(self, tables: Tables, family: int, buckets: Ints) -> tuple[Ints, Pairs, Pairs]:
        """Write some buckets; return the streams that are in them, and how the index of subjects changes."""
        old = [tables.read_row(bucket) for bucket in tables.buckets.iterate_ahead(buckets.tolist())]
        packed = self._pack(tables, family, buckets)
        new = [packed.get_row(i) for i in range(len(buckets))]
        for i, row in enumerate(old):
            if row.summary.streams != packed.stored[i]:
                new[i] = self._merge(tables, family, row, new[i])
            tables.write_row(new[i].bucket, new[i].summary, new[i].names, new[i].entries)
        more = sum(row.summary.streams for row in new) - sum(row.summary.streams for row in old)
        tables.add_streams(more, more * find_weight(self.terms))
        if not self._has_subjects:
            return packed.members, *((np.empty(0, np.uint64), np.empty(0, np.uint32)),) * 2
        return packed.members, *_compare_subjects(old, new, _list_widths(tables))

    def _pack(self, tables: Tables, family: int, buckets: Ints) -> Packed:
        """Pack the streams of buckets."""
        members, ends, stored = self._directory.list_members(buckets)
        count, texts = len(members), self._names.texts
        places = np.zeros((count, 2), np.int64)
        t, event, newest, settled = np.zeros((4, count), np.int64)
        facts = Facts(t, event, newest, settled, np.zeros(count, np.bool_))
        alone = np.isin(members, self._list_own())
        tasks, others, size = [], [], 0
        for place in np.unique(members // STREAMS).tolist():
            shard, rows = self._shards[place], np.flatnonzero(members // STREAMS == place)
            keys = members[rows] % STREAMS
            plain = (shard.columns.pending[keys] != ELSEWHERE) & ~alone[rows]
            others += rows[~plain].tolist()
            tasks.append((shard, keys[plain], rows[plain], size))
            size += _bound_bytes(shard, keys[plain])
        entries = [self._pack_alone(tables, family, int(members[row]), row, facts) for row in others]
        content = np.empty(size + sum(map(len, entries)), np.uint8)
        for row, entry in zip(others, entries, strict=True):
            content[size : size + len(entry)] = np.frombuffer(entry, np.uint8)
            places[row] = size, size + len(entry)
            size += len(entry)
        terms = self._shards.make_terms()

        def work(task: tuple[Shard, Ints, Ints, int]) -> None:
            shard, keys, rows, start = task
            arrays = shard.columns, shard.arena, keys, members[rows], rows, texts.offsets, texts.content
            room = _make_room(shard, keys)
            kernels.pack_regular(*arrays, family, terms, *room, content, start, places, facts)

        run_tasks(self._workers, work, tasks)
        check_lengths(places[:, 1] - places[:, 0])
        self._has_subjects |= bool((content[places[:, 0] + CHECKSUM] & SUBJECTS).any())
        lengths = texts.offsets[members + 1] - texts.offsets[members]
        sections = np.empty(6 * count + int(lengths.sum()), np.uint8)
        bodies = np.empty(int((places[:, 1] - places[:, 0]).sum()), np.uint8)
        borders = np.empty((len(buckets), 2), np.int64)
        kernels.assemble(members, ends, texts.offsets, texts.content, content, places, sections, bodies, borders)
        return Packed(buckets, members, ends, stored, sections, bodies, borders, facts)

    def _list_own(self) -> Ints:
        """List the streams that have, or had, own positions."""
        names = self.positions.changed_streams.union(*self.positions.own.values())
        return np.array([number for name in names if (number := self._names.find(name)) is not None], np.int64)

    def _pack_alone(self, tables: Tables, family: int, number: int, row: int, facts: Facts) -> bytes:
        """Pack a stream that kernels do not pack."""
        name, state = encode_text(self._names[number]), self._shards.get_state(number)
        old = tables.buckets.read(find_bucket(name, tables.about.buckets)).get(name)
        known = {} if old is None or not is_sound(old, name) else self._read_own(name, old, tables)
        sources = tables.families.write_own(name, known, self.positions.find_own(self._names[number]))
        entry = pack_entry(name, family, self.terms, state, sources)
        header, is_open = read_header(entry), any(receipt.erased is None for receipt in state.receipts)
        facts.t[row], facts.event[row], facts.newest[row] = header.t, header.event, header.newest
        facts.settled[row], facts.is_open[row] = header.settled if header.count else NEVER, is_open
        return entry

    def _merge(self, tables: Tables, family: int, old: BucketRow, ours: BucketRow) -> BucketRow:
        """Put streams of other families, and damaged ones, beside those of this one."""
        merged, before = Bucket.parse(ours), Bucket.parse(old)
        for name, entry in before:
            if name in self._removed:
                continue
            if merged.get(name) is None:
                merged.put(name, entry)
            elif is_sound(entry, name) and read_header(entry).terms != family:
                self._check_same(decode_text(name), tables.families.terms(read_header(entry).terms))
        return tables.buckets.make_row(merged)

    def _check_same(self, name: str, terms: Terms) -> None:
        """Check the terms of a stream that is there; one whose creation was rolled back may have others by now."""
        try:
            terms.check(name, self.terms)
        except StoreError as problem:
            number = self._find(name)
            self._directory.ignore(number)
            self._shards.block(number, problem)
            raise


def _bound_bytes(shard: Shard, keys: Ints) -> int:
    """The most bytes that the entries of streams take."""
    columns, dim = shard.columns, shard.arena.values.shape[2]
    records = columns.kept[keys].astype(np.int64) + columns.pending[keys]
    times, subjects, numbers = shard.labels
    each = 8 * dim + 8 * times + 16 * subjects + 10 * numbers
    return int((kernels.MOST_HEADER + (columns.length[keys] + 7) // 8 + records * each).sum())


def _make_room(shard: Shard, keys: Ints) -> tuple[Bools, Rows]:
    """Room for the longest batch and the most records of streams."""
    columns = shard.columns
    records = int((columns.kept[keys].astype(np.int64) + columns.pending[keys]).max(initial=0))
    present = np.empty(int(columns.length[keys].max(initial=0)), np.bool_)
    return present, make_rows(records, shard.arena.values.shape[2], *shard.labels)


def _import(shard: Shard, keys: Ints, rows: Ints, group: Group) -> None:
    """Put streams that were read into the arrays of a shard."""
    headers = Headers(*(column[rows] for column in group.headers))
    flags = int(np.bitwise_or.reduce(headers.flags))
    shard.add_labels(times=bool(flags & TIMES), subjects=bool(flags & SUBJECTS), numbers=bool(flags & NUMBERS))
    shard.put_clocks(keys, headers)
    dim, size = shard.arena.values.shape[2], shard.arena.values.shape[1]
    used = headers.records + (-(-headers.length // 64) + dim - 1) // dim
    shard.reserve(int((-(-used // size)).sum()))
    present = np.empty(int(headers.length.max(initial=0)), np.bool_)
    records = make_rows(int(headers.records.max(initial=0)), dim, *shard.labels)
    place = group.content, group.entries, group.headers
    if kernels.import_entries(shard.columns, shard.arena, keys, rows, *place, present, records) < len(keys):
        raise StoreError("a stored state has another length than its header says; restore a copy")


def _list_widths(tables: Tables) -> Ints:
    """Number of values in a record, by the number of the terms."""
    known = tables.families.list_terms()
    widths = np.zeros(max(known, default=0) + 1, np.int64)
    for number, terms in known.items():
        widths[number] = terms.columns
    return widths


def _group_rows(rows: Iterable[BucketRow]) -> Iterator[list[BucketRow]]:
    """Rows in groups of limited size."""
    group: list[BucketRow] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row.entries)
        if size >= _BYTES_PER_GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def _compare_subjects(before: list[BucketRow], after: list[BucketRow], widths: Ints) -> tuple[Pairs, Pairs]:
    """Find under what subjects are listed no more in buckets, and under what they are new."""
    old, new = Group.read(before, is_checked=False), Group.read(after, is_checked=False)
    one, other = old.collect_prefixes(widths), new.collect_prefixes(widths)
    return _subtract(one, other, old.buckets), _subtract(other, one, old.buckets)


def _subtract(one: tuple[Words, Ints], other: tuple[Words, Ints], buckets: Ints) -> Pairs:
    left, rows = np.empty(len(one[0]), np.uint64), np.empty(len(one[0]), np.int64)
    count = kernels.subtract(*one, *other, left, rows)
    return left[:count], buckets[rows[:count]].astype(np.uint32)
