"""Kernels that write many streams as the bytes of a store, and read them back: see `vestige.store.entry`.

Only regular states are handled here: no record is leaving, and none that waits was erased. All others are packed one by
one by `vestige.store.entry`.
Guarantee: the same bytes as `vestige.store.entry.pack_entry` writes for each stream, and what is read is what was
written; held by tests/keyed/test_entry_kernels.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import inner_kernel, kernel
from vestige.keyed.batch_kernels import AGE, PATIENCE, WARNING, Terms
from vestige.keyed.chain_kernels import NEVER, UNKNOWN, Arena, Columns, Rows, export_records, import_records
from vestige.types import Bools, Ints, Words

Bytes = NDArray[np.uint8]
TIMED, IRREGULAR, TIMES, SUBJECTS, NUMBERS, SOURCES, RECEIPTS = (1 << i for i in range(7))
"""Flags of an entry."""
MOST_HEADER = 4 + 1 + 9 * 10 + 3 * 8
"""The most bytes of an entry before its presence bits: checksum, flags, nine counts and three times."""
_SEVEN = np.uint64(7)
_LOW, _MORE, _BYTE = np.uint64(0x7F), np.uint64(0x80), np.uint64(0xFF)
_POLYNOMIAL = 0xEDB88320


def _make_tables() -> NDArray[np.uint32]:
    """Tables for eight bytes of a CRC-32 at a time."""
    tables = np.zeros((8, 256), np.uint32)
    for i in range(256):
        crc = i
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, i] = crc
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> 8) ^ tables[0, tables[k - 1] & 0xFF]
    return tables


_TABLES = _make_tables()


@inner_kernel
def get_word(content: Bytes, at: int) -> np.uint64:
    """Read eight bytes."""
    word = np.uint64(0)
    for i in range(8):
        word |= np.uint64(content[at + i]) << np.uint64(8 * i)
    return word


@inner_kernel
def put_word(content: Bytes, at: int, word: np.uint64) -> int:
    """Write eight bytes; return where to go on."""
    for i in range(8):
        content[at + i] = (word >> np.uint64(8 * i)) & _BYTE
    return at + 8


@inner_kernel
def put_count(content: Bytes, at: int, count: np.uint64) -> int:
    """Write a whole number in as few groups of seven bits as it takes; return where to go on."""
    while count >= _MORE:
        content[at] = (count & _LOW) | _MORE
        count >>= _SEVEN
        at += 1
    content[at] = count
    return at + 1


@inner_kernel
def get_count(content: Bytes, at: int, stop: int) -> tuple[np.uint64, int]:
    """Read what `put_count` writes; where to go on is beyond `stop` if it is cut off."""
    count, shift = np.uint64(0), np.uint64(0)
    while at < stop and shift < np.uint64(64):
        byte = np.uint64(content[at])
        count |= (byte & _LOW) << shift
        at += 1
        if byte < _MORE:
            return count, at
        shift += _SEVEN
    return count, stop + 1


@inner_kernel
def compute_crc(content: Bytes, start: int, stop: int, crc: np.uint32) -> np.uint32:
    """Compute the CRC-32 of bytes that follow others, as `zlib.crc32` does."""
    crc = ~np.uint32(crc)
    at = start
    while at + 8 <= stop:
        low = crc ^ np.uint32(
            np.uint32(content[at])
            | (np.uint32(content[at + 1]) << np.uint32(8))
            | (np.uint32(content[at + 2]) << np.uint32(16))
            | (np.uint32(content[at + 3]) << np.uint32(24))
        )
        crc = (
            _TABLES[7, low & np.uint32(0xFF)]
            ^ _TABLES[6, (low >> np.uint32(8)) & np.uint32(0xFF)]
            ^ _TABLES[5, (low >> np.uint32(16)) & np.uint32(0xFF)]
            ^ _TABLES[4, low >> np.uint32(24)]
            ^ _TABLES[3, content[at + 4]]
            ^ _TABLES[2, content[at + 5]]
            ^ _TABLES[1, content[at + 6]]
            ^ _TABLES[0, content[at + 7]]
        )
        at += 8
    for i in range(at, stop):
        crc = _TABLES[0, (crc ^ np.uint32(content[i])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return ~np.uint32(crc)


@inner_kernel
def find_buckets(offsets: Ints, content: Bytes, first: int, mask: int, buckets: NDArray[np.int32]) -> None:
    """Write the bucket of each name from `first` on; -1 for a name that was erased."""
    for i in range(first, len(offsets) - 1):
        crc = compute_crc(content, offsets[i], offsets[i + 1], np.uint32(0))
        buckets[i] = np.int64(crc) & mask if content[offsets[i]] else -1


class Facts(NamedTuple):
    """What the head of a bucket says of its streams, one row each.

    Attributes:
        t: number of records that have arrived.
        event: when a sweep has something to do next, in microseconds since 1970, or `NEVER`.
        newest: latest time that is known, or `UNKNOWN`.
        settled: number of the newest request that has been met, or `NEVER` if no record is held.
        is_open: whether a request is open.
    """

    t: Ints
    event: Ints
    newest: Ints
    settled: Ints
    is_open: Bools


@inner_kernel
def find_event(columns: Columns, key: int, terms: Terms) -> int:
    """Find when something must be done for a stream next; see `vestige.keyed.deadline_kernels.judge_time`."""
    due, oldest, event = columns.due[key], columns.oldest[key], NEVER
    if due != NEVER:
        event = due
    if oldest != NEVER:
        event = min(event, oldest + terms.times[AGE])
    if columns.pending[key] > 0 and columns.pending[key] >= terms.min_last_batch and oldest != NEVER:
        event = min(event, oldest + terms.times[PATIENCE])
        if due != NEVER:
            event = min(event, due - terms.times[WARNING])
    return event


@inner_kernel
def put_presence(content: Bytes, at: int, present: Bools, length: int) -> int:
    """Write one bit for each round of the encoded batch; return where to go on."""
    for start in range(0, length, 8):
        byte = 0
        for i in range(start, min(length, start + 8)):
            if present[i]:
                byte |= 1 << (i - start)
        content[at] = byte
        at += 1
    return at


@inner_kernel
def put_labels(content: Bytes, at: int, flags: int, rows: Rows, n: int) -> int:
    """Write times, subjects and numbers of records; return where to go on."""
    if flags & TIMES:
        for row in range(n):
            at = put_word(content, at, np.uint64(rows.times[row]))
    if flags & SUBJECTS:
        for row in range(n):
            at = put_word(content, at, rows.subjects[row, 0])
            at = put_word(content, at, rows.subjects[row, 1])
    if flags & NUMBERS:
        before = 0
        for row in range(n):
            step = rows.numbers[row] - before
            at = put_count(content, at, np.uint64((step << 1) ^ (step >> 63)))
            before = rows.numbers[row]
    return at


@inner_kernel
def find_labels(arena: Arena, rows: Rows, n: int) -> int:
    """Find which labels records have, as flags."""
    flags = 0
    for row in range(n):
        if len(arena.times) and rows.times[row] != UNKNOWN:
            flags |= TIMES
        if len(arena.subjects) and (rows.subjects[row, 0] or rows.subjects[row, 1]):
            flags |= SUBJECTS
        if len(arena.numbers) and rows.numbers[row]:
            flags |= NUMBERS
    return flags


@inner_kernel
def find_newest_held(columns: Columns, key: int, terms: Terms, times: Ints) -> int:
    """Find the latest time that is known of a stream, of its records and by the deadline of its batch."""
    newest = UNKNOWN
    for time in times:
        newest = max(newest, time)
    if len(columns.due) and columns.due[key] != NEVER:
        newest = max(newest, columns.due[key] - terms.times[AGE])
    return newest


@inner_kernel
def pack_regular(
    columns: Columns,
    arena: Arena,
    keys: Ints,
    numbers: Ints,
    rows: Ints,
    offsets: Ints,
    names: Bytes,
    family: int,
    terms: Terms,
    present: Bools,
    records: Rows,
    content: Bytes,
    at: int,
    places: Ints,
    facts: Facts,
) -> int:
    """Write the entries of streams of a shard one after the other.

    Args:
        columns: the streams of the shard.
        arena: their records.
        keys: places of the streams in the shard; none of them is kept elsewhere.
        numbers: their numbers, which say where their names are.
        rows: rows of `places` and `facts` to write to, one per stream.
        offsets: where the name of each number begins in `names`.
        names: the names of all streams.
        family: number of the terms of the streams.
        terms: what is the same for all streams.
        present: room for the longest encoded batch.
        records: room for as many records as a stream can hold.
        content: output, the entries.
        at: where to begin in it.
        places: output, where each entry begins and ends; shape (rows, 2).
        facts: output, what the head of a bucket says of each of them.

    Returns:
        Where to go on in `content`.
    """
    for i in range(len(keys)):
        key, number, out = keys[i], numbers[i], rows[i]
        pending, length, kept = columns.pending[key], columns.length[key], columns.kept[key]
        n = kept + pending
        here = Rows(records.keys, records.values[:n], records.times[:n], records.subjects[:n], records.numbers[:n])
        export_records(columns, arena, key, present, here)
        start, flags = at, find_labels(arena, here, n)
        due = event = NEVER
        newest = find_newest_held(columns, key, terms, here.times)
        if len(columns.due):
            due, event = columns.due[key], find_event(columns, key, terms)
        if due != NEVER or event != NEVER or newest != UNKNOWN:
            flags |= TIMED
        usual = terms.bits if columns.updates[key] else 0
        settled = columns.settled[key] if len(columns.settled) else 0
        content[at + 4] = flags
        at = put_count(content, at + 5, np.uint64(family))
        at = put_count(content, at, np.uint64(columns.t[key]))
        at = put_count(content, at, np.uint64(pending))
        at = put_count(content, at, np.uint64(length))
        at = put_count(content, at, np.uint64(columns.updates[key]))
        at = put_count(content, at, np.uint64(columns.bits[key] if len(columns.bits) else usual))
        at = put_count(content, at, np.uint64(settled))
        at = put_count(content, at, np.uint64(columns.since[key] - 1 if len(columns.since) else 0))
        at = put_count(content, at, np.uint64(columns.gaps[key] if len(columns.gaps) else 0))
        if flags & TIMED:
            at = put_word(content, at, np.uint64(due))
            at = put_word(content, at, np.uint64(event))
            at = put_word(content, at, np.uint64(newest))
        at = put_presence(content, at, present, length)
        for row in range(n):
            for column in range(here.values.shape[1]):
                at = put_word(content, at, np.float64(here.values[row, column]).view(np.uint64))
        at = put_labels(content, at, flags, here, n)
        crc = compute_crc(names, offsets[number], offsets[number + 1], np.uint32(0))
        crc = compute_crc(content, start + 4, at, crc)
        for k in range(4):
            content[start + k] = (crc >> np.uint32(8 * k)) & np.uint32(0xFF)
        places[out, 0], places[out, 1] = start, at
        facts.t[out], facts.event[out], facts.newest[out] = columns.t[key], event, newest
        facts.settled[out], facts.is_open[out] = settled if n else NEVER, False
    return at


@kernel
def is_before(names: Bytes, start: int, stop: int, other_start: int, other_stop: int) -> bool:
    """Tell whether a name comes before another in the order of their bytes."""
    for i in range(min(stop - start, other_stop - other_start)):
        one, other = names[start + i], names[other_start + i]
        if one != other:
            return bool(one < other)
    return stop - start < other_stop - other_start


@inner_kernel
def list_members(
    heads: NDArray[np.int32],
    links: NDArray[np.int32],
    buckets: Ints,
    offsets: Ints,
    names: Bytes,
    members: Ints,
    ends: Ints,
) -> None:
    """List the streams of buckets, each in the order of their names.

    Args:
        heads: the first stream of each bucket, or -1.
        links: the stream that follows each stream in its bucket, or -1.
        buckets: the buckets.
        offsets: where the name of each stream begins.
        names: their bytes.
        members: output, the streams; with room for all.
        ends: output, where each bucket ends in `members`; shape (buckets,).
    """
    count = 0
    for row in range(len(buckets)):
        first, number = count, heads[buckets[row]]
        while number >= 0:
            place = count
            while place > first and is_before(
                names,
                offsets[number],
                offsets[number + 1],
                offsets[members[place - 1]],
                offsets[members[place - 1] + 1],
            ):
                members[place] = members[place - 1]
                place -= 1
            members[place] = number
            count += 1
            number = links[number]
        ends[row] = count


@inner_kernel
def count_members(heads: NDArray[np.int32], links: NDArray[np.int32], buckets: Ints, counts: Ints) -> int:
    """Count the streams of buckets; return the number of all."""
    total = 0
    for row in range(len(buckets)):
        counts[row], number = 0, heads[buckets[row]]
        while number >= 0:
            counts[row] += 1
            number = links[number]
        total += counts[row]
    return total


@inner_kernel
def assemble(
    members: Ints,
    ends: Ints,
    offsets: Ints,
    names: Bytes,
    content: Bytes,
    places: Ints,
    sections: Bytes,
    bodies: Bytes,
    borders: Ints,
) -> None:
    """Put names and entries of streams together by buckets.

    Args:
        members: the streams, bucket by bucket.
        ends: where each bucket ends in `members`.
        offsets: where the name of each stream begins.
        names: their bytes.
        content: the entries.
        places: where the entry of each member begins and ends; shape (members, 2).
        sections: output, the sections of names.
        bodies: output, the entries.
        borders: output, where each bucket ends in `sections` and in `bodies`; shape (buckets, 2).
    """
    first, at, into = 0, 0, 0
    for row in range(len(ends)):
        for i in range(first, ends[row]):
            length, size = offsets[members[i] + 1] - offsets[members[i]], places[i, 1] - places[i, 0]
            for k in range(2):
                sections[at + k] = (length >> (8 * k)) & 0xFF
            for k in range(4):
                sections[at + 2 + k] = (size >> (8 * k)) & 0xFF
            at += 6
        for i in range(first, ends[row]):
            for k in range(offsets[members[i]], offsets[members[i] + 1]):
                sections[at] = names[k]
                at += 1
            for k in range(places[i, 0], places[i, 1]):
                bodies[into] = content[k]
                into += 1
        borders[row, 0], borders[row, 1] = at, into
        first = ends[row]


class Entries(NamedTuple):
    """Entries of buckets that were read, one row each.

    Attributes:
        bucket: row of the bucket among those that were read.
        name: where the name begins and ends; shape (n, 2).
        entry: where the entry begins and ends, its checksum included; shape (n, 2).
    """

    bucket: Ints
    name: Ints
    entry: Ints


@inner_kernel
def find_entries(sections: Bytes, borders: Ints, counts: Ints, entries: Entries) -> None:
    """Find where names and entries lie in buckets that were read.

    Args:
        sections: the sections of names.
        borders: where each bucket ends in `sections` and in the entries; shape (buckets, 2).
        counts: number of streams in each bucket.
        entries: output.
    """
    row, start, body = 0, np.int64(0), np.int64(0)
    for bucket in range(len(counts)):
        name = start + 6 * counts[bucket]
        for i in range(counts[bucket]):
            at = start + 6 * i
            length = np.int64(sections[at]) | (np.int64(sections[at + 1]) << 8)
            size = np.int64(0)
            for k in range(4):
                size |= np.int64(sections[at + 2 + k]) << (8 * k)
            entries.bucket[row] = bucket
            entries.name[row, 0], entries.name[row, 1] = name, name + length
            entries.entry[row, 0], entries.entry[row, 1] = body, body + size
            name, body, row = name + length, body + size, row + 1
        start, body = borders[bucket, 0], borders[bucket, 1]


class Headers(NamedTuple):
    """What stands before the records of entries, one row each; see `vestige.store.entry`.

    Attributes:
        flags: see `TIMED` and those that follow; -1 if the entry is damaged.
        family: number of the terms.
        t: number of records that have arrived.
        pending: number of rounds since the last update.
        length: number of rounds of the encoded batch.
        updates: number of updates.
        bits: the fewest bits of a word.
        settled: number of the newest request that has been met.
        since: first round that counts.
        gaps: number of gaps.
        due: deadline of the encoded batch, or `NEVER`.
        at: where the presence bits begin, or the list of rounds.
        records: number of records.
        values: where their values begin.
    """

    flags: Ints
    family: Ints
    t: Ints
    pending: Ints
    length: Ints
    updates: Ints
    bits: Ints
    settled: Ints
    since: Ints
    gaps: Ints
    due: Ints
    at: Ints
    records: Ints
    values: Ints


@inner_kernel
def count_records(content: Bytes, headers: Headers, row: int, stop: int) -> tuple[int, int]:
    """Count the records of an entry; return that and where its values begin, or -1 and 0 if it is cut off."""
    at: int = headers.at[row]
    if headers.flags[row] & IRREGULAR:
        count, at = get_count(content, at, stop)
        n = int(count)
        if n > stop - at:
            return -1, 0
        for _ in range(n):
            _, at = get_count(content, at, stop)
        return n, at + (n + 7) // 8
    n, size = headers.pending[row], (headers.length[row] + 7) // 8
    if headers.length[row] > 8 * (stop - at):
        return -1, 0
    for i in range(size):
        byte = content[at + i]
        while byte:
            n += byte & 1
            byte >>= 1
    return n, at + size


@inner_kernel
def read_headers(names: Bytes, content: Bytes, entries: Entries, headers: Headers, is_checked: bool) -> None:
    """Read the headers of entries; with `is_checked`, compare checksums."""
    for row in range(len(entries.bucket)):
        start, stop = entries.entry[row, 0], entries.entry[row, 1]
        headers.flags[row] = -1
        if stop - start < 14 or stop > len(content):
            continue
        if is_checked:
            crc = compute_crc(names, entries.name[row, 0], entries.name[row, 1], np.uint32(0))
            crc = compute_crc(content, start + 4, stop, crc)
            is_same = True
            for k in range(4):
                is_same &= content[start + k] == (crc >> np.uint32(8 * k)) & np.uint32(0xFF)
            if not is_same:
                continue
        family, at = get_count(content, start + 5, stop)
        t, at = get_count(content, at, stop)
        pending, at = get_count(content, at, stop)
        length, at = get_count(content, at, stop)
        updates, at = get_count(content, at, stop)
        bits, at = get_count(content, at, stop)
        settled, at = get_count(content, at, stop)
        since, at = get_count(content, at, stop)
        gaps, at = get_count(content, at, stop)
        flags = np.int64(content[start + 4])
        due = NEVER
        if flags & TIMED and at + 24 <= stop:
            due, at = int(np.int64(get_word(content, at))), at + 24
        if at > stop:
            continue
        headers.family[row], headers.t[row], headers.pending[row] = family, t, pending
        headers.length[row], headers.updates[row], headers.bits[row] = length, updates, bits
        headers.settled[row], headers.since[row], headers.gaps[row] = settled, since + np.uint64(1), gaps
        headers.due[row], headers.at[row], headers.flags[row] = due, at, flags
        n, values = count_records(content, headers, row, stop)
        headers.records[row], headers.values[row] = n, values
        if n < 0:
            headers.flags[row] = -1


@inner_kernel
def get_presence(content: Bytes, at: int, length: int, present: Bools) -> None:
    """Read which rounds of a batch are held."""
    for i in range(length):
        present[i] = (content[at + i // 8] >> (i % 8)) & 1


@inner_kernel
def get_labels(content: Bytes, at: int, stop: int, flags: int, rows: Rows) -> int:
    """Read what `put_labels` writes; where to go on is beyond `stop` if it is cut off."""
    n = len(rows.values)
    if at + n * (8 * ((flags & TIMES) > 0) + 16 * ((flags & SUBJECTS) > 0)) > stop:
        return stop + 1
    for row in range(len(rows.times)):
        rows.times[row] = np.int64(get_word(content, at + 8 * row)) if flags & TIMES else UNKNOWN
    at += 8 * n if flags & TIMES else 0
    for row in range(len(rows.subjects)):
        for half in range(2):
            word = get_word(content, at + 16 * row + 8 * half) if flags & SUBJECTS else np.uint64(0)
            rows.subjects[row, half] = word
    at += 16 * n if flags & SUBJECTS else 0
    number = np.int64(0)
    for row in range(len(rows.numbers)):
        if flags & NUMBERS:
            step, at = get_count(content, at, stop)
            number += np.int64(step >> np.uint64(1)) ^ -np.int64(step & np.uint64(1))
        rows.numbers[row] = number
    return at


@inner_kernel
def import_entries(
    columns: Columns,
    arena: Arena,
    keys: Ints,
    rows: Ints,
    content: Bytes,
    entries: Entries,
    headers: Headers,
    present: Bools,
    records: Rows,
) -> int:
    """Put the records of regular entries in place; the clocks are in place already, and there is room.

    Args:
        columns: the streams of a shard.
        arena: their records.
        keys: places of the streams in the shard.
        rows: row of the entry of each stream.
        content: the entries.
        entries: where they are.
        headers: what stands before their records.
        present: room for the longest encoded batch.
        records: room for as many records as an entry has.

    Returns:
        The number of streams that were read; fewer than there are if the next does not fit its length.
    """
    for i in range(len(keys)):
        key, row = keys[i], rows[i]
        stop, flags, length = entries.entry[row, 1], headers.flags[row], headers.length[row]
        n, at, dim = headers.records[row], headers.values[row], records.values.shape[1]
        if at + 8 * dim * n > stop:
            return i
        get_presence(content, headers.at[row], length, present)
        here = Rows(records.keys, records.values[:n], records.times[:n], records.subjects[:n], records.numbers[:n])
        for k in range(n):
            for column in range(dim):
                here.values[k, column] = np.uint64(get_word(content, at)).view(np.float64)
                at += 8
        at = get_labels(content, at, stop, flags, here)
        if at > stop:
            return i
        import_records(columns, arena, key, present[:length], here)
        if len(columns.due):
            for k in range(n - headers.pending[row], n):
                columns.oldest[key] = min(columns.oldest[key], here.times[k])
                columns.newest[key] = max(columns.newest[key], here.times[k])
    return len(keys)


@kernel
def collect_prefixes(
    content: Bytes, entries: Entries, headers: Headers, widths: Ints, prefixes: Words, ends: Ints
) -> None:
    """Collect the first eight bytes of the pseudonyms in each bucket, sorted and each once.

    Args:
        content: the entries.
        entries: where they are.
        headers: what stands before their records.
        widths: number of values in a record, by the number of the terms.
        prefixes: output; with room for the pseudonym of each record.
        ends: output, where each bucket ends in `prefixes`; shape (buckets,).
    """
    count, row = 0, 0
    for bucket in range(len(ends)):
        first = count
        while row < len(entries.bucket) and entries.bucket[row] == bucket:
            stop, flags, family = entries.entry[row, 1], headers.flags[row], headers.family[row]
            if flags >= 0 and flags & SUBJECTS and family < len(widths):
                n = headers.records[row]
                at = headers.values[row] + n * (8 * widths[family] + (8 if flags & TIMES else 0))
                if n > 0 and at + 16 * n <= stop:
                    for k in range(n):
                        word = get_word(content, at + 16 * k)
                        if word or get_word(content, at + 16 * k + 8):
                            prefixes[count] = word
                            count += 1
            row += 1
        prefixes[first:count].sort()
        kept = first
        for k in range(first, count):
            if k == first or prefixes[k] != prefixes[kept - 1]:
                prefixes[kept] = prefixes[k]
                kept += 1
        count = ends[bucket] = kept


@inner_kernel
def subtract(one: Words, one_ends: Ints, other: Words, other_ends: Ints, left: Words, rows: Ints) -> int:
    """Write what is in the sorted parts of `one` and not in those of `other`, with the row of each; return how many."""
    count, i, j = 0, 0, 0
    for row in range(len(one_ends)):
        while i < one_ends[row]:
            while j < other_ends[row] and other[j] < one[i]:
                j += 1
            if j >= other_ends[row] or other[j] != one[i]:
                left[count], rows[count] = one[i], row
                count += 1
            i += 1
        j = other_ends[row]
    return count


@inner_kernel
def copy_parts(source: Bytes, places: Ints, target: Bytes) -> None:
    """Copy parts of `source`, given by where they begin and end, one after the other."""
    at = 0
    for row in range(len(places)):
        for i in range(places[row, 0], places[row, 1]):
            target[at] = source[i]
            at += 1


@inner_kernel
def link_streams(
    heads: NDArray[np.int32], links: NDArray[np.int32], buckets: NDArray[np.int32], first: int, last: int
) -> None:
    """Put the streams from `first` to before `last` into the lists of their buckets, if they have one."""
    for number in range(first, last):
        bucket = buckets[number]
        if bucket >= 0:
            links[number] = heads[bucket]
            heads[bucket] = number


@inner_kernel
def unlink_stream(heads: NDArray[np.int32], links: NDArray[np.int32], bucket: int, number: int) -> None:
    """Take a stream out of the list of its bucket."""
    before = -1
    here = heads[bucket]
    while here != number:
        before, here = here, links[here]
    if before < 0:
        heads[bucket] = links[number]
    else:
        links[before] = links[number]
    links[number] = -1
