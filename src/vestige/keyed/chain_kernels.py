"""Kernels over chains of chunks: the records of many streams in one arena, where nothing has to be moved.

A stream is a row of `Columns`, its public clock in short, and a chain of chunks of an `Arena`, which holds its records:
first the presence bits of the encoded batch, then the values of its kept records, then the records that wait. All
chunks have the same size, so memory follows what is held; a chunk that is given back is wiped.
Guarantee: what is put in comes out as it was, bit for bit; held by tests/keyed/test_shard.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import inner_kernel, kernel
from vestige.row_numbers import LARGEST_ROW, ROW_BITS
from vestige.types import Bools, Floats, Ints, Words

Numbers = NDArray[np.int32]
NONE = -1
"""No chunk."""
ELSEWHERE = -1
"""In place of the number of records that wait: the stream is not kept in the arrays at present."""
NEVER = 2**63 - 1
UNKNOWN = -(2**63)
_BITS = 64
_ONE = np.uint64(1)


class Columns(NamedTuple):
    """The streams of a shard, one row each; those columns that are not needed have no rows.

    Attributes:
        t: number of records that have arrived.
        pending: number of records since the last update; `ELSEWHERE` if the stream is not kept here.
        length: number of rounds of the encoded batch; 0 while none is.
        kept: number of its records that are kept.
        updates: number of updates since `since`.
        head: first chunk of the chain.
        tail: last chunk of the chain.
        since: first round that the statistic counts; no rows if that is 1 for all.
        gaps: see `vestige.Clock.gaps`; no rows if there are none.
        bits: see `vestige.Clock.bits`; no rows if all words of all streams had as many as a full batch.
        settled: number of the newest request that has been met; no rows if there was none.
        due: deadline of the encoded batch, in microseconds since 1970, or `NEVER`; no rows without a limit in time.
        oldest: earliest time of a record that waits, or `NEVER`; no rows without a limit in time.
        newest: latest time of a record that waits, or `UNKNOWN`; no rows without a limit in time.
    """

    t: Ints
    pending: Numbers
    length: Numbers
    kept: Numbers
    updates: Ints
    head: Numbers
    tail: Numbers
    since: Ints
    gaps: Ints
    bits: Ints
    settled: Ints
    due: Ints
    oldest: Ints
    newest: Ints


class Arena(NamedTuple):
    """The records of a shard in chunks; labels that no record has take no room.

    Attributes:
        values: shape (chunks, records in a chunk, columns).
        links: the chunk that follows each chunk in its chain, or `NONE`; shape (chunks,).
        free: the first chunk that is not used, and how many there are; shape (2,).
        times: in microseconds since 1970; shape (chunks, records in a chunk), or without chunks.
        subjects: pseudonyms, as two integers; shape (chunks, records in a chunk, 2), or without chunks.
        numbers: source and row; shape (chunks, records in a chunk), or without chunks.
    """

    values: NDArray[np.float64]
    links: Numbers
    free: Ints
    times: Ints
    subjects: Words
    numbers: Ints


class Rows(NamedTuple):
    """Rows that arrive, with the place of each stream in the shard; labels that there are not have no rows.

    Attributes:
        keys: place of the stream of each row; shape (n,).
        values: shape (n, columns).
        times: in microseconds since 1970; shape (n,).
        subjects: pseudonyms, as two integers; shape (n, 2).
        numbers: source and row; shape (n,).
    """

    keys: Ints
    values: Floats
    times: Ints
    subjects: Words
    numbers: Ints


@kernel
def make_rows(size: int, columns: int, times: bool, subjects: bool, numbers: bool) -> Rows:
    """Make room for so many records, with the labels that there are."""
    return Rows(
        np.empty(0, np.int64),
        np.empty((size, columns)),
        np.empty(size if times else 0, np.int64),
        np.empty((size if subjects else 0, 2), np.uint64),
        np.empty(size if numbers else 0, np.int64),
    )


@kernel
def _to_word(number: np.float64) -> np.uint64:
    """The bits of a number."""
    return np.float64(number).view(np.uint64)


@kernel
def _to_number(word: np.uint64) -> np.float64:
    """The number of these bits."""
    return np.uint64(word).view(np.float64)


@kernel
def find_lead(length: int, columns: int) -> int:
    """Find how many records of a chain hold the presence bits of a batch of so many rounds."""
    return ((length + _BITS - 1) // _BITS + columns - 1) // columns


@inner_kernel
def allocate(arena: Arena) -> int:
    """Take a chunk that is not used; there must be one."""
    chunk: int = arena.free[0]
    arena.free[0] = arena.links[chunk]
    arena.free[1] -= 1
    arena.links[chunk] = NONE
    return chunk


@inner_kernel
def release(arena: Arena, chunk: int) -> None:
    """Wipe a chain, and give its chunks back."""
    while chunk != NONE:
        following = arena.links[chunk]
        arena.values[chunk] = 0.0
        if len(arena.times):
            arena.times[chunk] = UNKNOWN
        if len(arena.subjects):
            arena.subjects[chunk] = 0
        if len(arena.numbers):
            arena.numbers[chunk] = 0
        arena.links[chunk] = arena.free[0]
        arena.free[0] = chunk
        arena.free[1] += 1
        chunk = following


@inner_kernel
def find_slot(columns: Columns, arena: Arena, key: int, used: int) -> tuple[int, int]:
    """Find the chunk and the place in it for one more record at the end of a chain of so many."""
    place = used % arena.values.shape[1]
    if place == 0:
        chunk = allocate(arena)
        if columns.head[key] == NONE:
            columns.head[key] = chunk
        else:
            arena.links[columns.tail[key]] = chunk
        columns.tail[key] = chunk
    return columns.tail[key], place


@inner_kernel
def count_used(columns: Columns, arena: Arena, key: int) -> int:
    """Count the records of a chain, those that hold presence bits among them."""
    lead = find_lead(columns.length[key], arena.values.shape[2])
    used: int = lead + columns.kept[key] + max(columns.pending[key], 0)
    return used


@inner_kernel
def put(columns: Columns, arena: Arena, key: int, used: int, rows: Rows, row: int) -> None:
    """Write a row at the end of a chain of so many records."""
    chunk, place = find_slot(columns, arena, key, used)
    for i in range(rows.values.shape[1]):
        arena.values[chunk, place, i] = rows.values[row, i]
    if len(arena.times):
        arena.times[chunk, place] = rows.times[row] if len(rows.times) else UNKNOWN
    if len(rows.subjects):
        arena.subjects[chunk, place, 0] = rows.subjects[row, 0]
        arena.subjects[chunk, place, 1] = rows.subjects[row, 1]
    if len(rows.numbers):
        arena.numbers[chunk, place] = rows.numbers[row]


@inner_kernel
def append(columns: Columns, arena: Arena, rows: Rows, row: int, key: int) -> None:
    """Add a row to the records of a stream that wait."""
    put(columns, arena, key, count_used(columns, arena, key), rows, row)
    columns.pending[key] += 1
    columns.t[key] += 1


@inner_kernel
def begin_chain(columns: Columns, arena: Arena, key: int, present: Bools) -> None:
    """Wipe what a stream holds, and begin with the presence bits of an encoded batch; no record is kept yet."""
    dim, length = arena.values.shape[2], len(present)
    release(arena, columns.head[key])
    columns.head[key] = columns.tail[key] = NONE
    columns.length[key], columns.pending[key], columns.kept[key] = length, 0, 0
    for record in range(find_lead(length, dim)):
        chunk, place = find_slot(columns, arena, key, record)
        for i in range(dim):
            start, bits = (record * dim + i) * _BITS, np.uint64(0)
            for slot in range(start, min(length, start + _BITS)):
                if present[slot]:
                    bits |= _ONE << np.uint64(slot - start)
            arena.values[chunk, place, i] = _to_number(bits)


@inner_kernel
def import_records(columns: Columns, arena: Arena, key: int, present: Bools, rows: Rows) -> None:
    """Put records in place of all that a stream holds: those of the encoded batch, then those that wait."""
    begin_chain(columns, arena, key, present)
    kept = 0
    for slot in range(len(present)):
        kept += present[slot]
    for row in range(len(rows.values)):
        put(columns, arena, key, count_used(columns, arena, key), rows, row)
        if row < kept:
            columns.kept[key] += 1
        else:
            columns.pending[key] += 1


@inner_kernel
def export_records(columns: Columns, arena: Arena, key: int, present: Bools, rows: Rows) -> None:
    """Write which slots of the encoded batch are kept, and the records of a stream in the order of their rounds."""
    size, dim, length = arena.values.shape[1], arena.values.shape[2], columns.length[key]
    chunk, lead = columns.head[key], find_lead(length, dim)
    for record in range(lead + len(rows.values)):
        place = record % size
        if record and place == 0:
            chunk = arena.links[chunk]
        if record < lead:
            for i in range(dim):
                start, bits = (record * dim + i) * _BITS, _to_word(arena.values[chunk, place, i])
                for slot in range(start, min(length, start + _BITS)):
                    present[slot] = (bits >> np.uint64(slot - start)) & _ONE == _ONE
            continue
        for i in range(dim):
            rows.values[record - lead, i] = arena.values[chunk, place, i]
        if len(arena.times):
            rows.times[record - lead] = arena.times[chunk, place]
        if len(arena.subjects):
            rows.subjects[record - lead, 0] = arena.subjects[chunk, place, 0]
            rows.subjects[record - lead, 1] = arena.subjects[chunk, place, 1]
        if len(arena.numbers):
            rows.numbers[record - lead] = arena.numbers[chunk, place]


@inner_kernel
def copy_chains(columns: Columns, arena: Arena, other: Arena) -> int:
    """Copy all chains to the first chunks of another arena, one after the other; return how many these are."""
    count = 0
    for key in range(len(columns.head)):
        chunk, before = columns.head[key], NONE
        while chunk != NONE:
            for place in range(arena.values.shape[1]):
                for i in range(arena.values.shape[2]):
                    other.values[count, place, i] = arena.values[chunk, place, i]
                if len(arena.times):
                    other.times[count, place] = arena.times[chunk, place]
                if len(arena.subjects):
                    other.subjects[count, place, 0] = arena.subjects[chunk, place, 0]
                    other.subjects[count, place, 1] = arena.subjects[chunk, place, 1]
                if len(arena.numbers):
                    other.numbers[count, place] = arena.numbers[chunk, place]
            if before == NONE:
                columns.head[key] = count
            else:
                other.links[before] = count
            other.links[count] = NONE
            before, chunk = count, arena.links[chunk]
            count += 1
        columns.tail[key] = before
    return count


@inner_kernel
def mark_chunks(arena: Arena, first: np.uint64, second: np.uint64, chunks: Bools) -> bool:
    """Mark the chunks that have a record of a subject, whose pseudonym is these two integers; tell whether any has."""
    is_there = False
    for chunk in range(len(arena.subjects)):
        for place in range(arena.subjects.shape[1]):
            if arena.subjects[chunk, place, 0] == first and arena.subjects[chunk, place, 1] == second:
                chunks[chunk] = is_there = True
    return is_there


@inner_kernel
def mark_owners(columns: Columns, arena: Arena, count: int, chunks: Bools, found: Bools) -> None:
    """Mark the streams whose chains have one of these chunks."""
    for key in range(count):
        chunk = columns.head[key]
        while chunk != NONE:
            found[key] |= chunks[chunk]
            chunk = arena.links[chunk]


@inner_kernel
def collect_rows(columns: Columns, arena: Arena, count: int, slot: int, keys: Ints, rows: Rows) -> int:
    """Collect the records of the source that has a slot, with the places of their streams; return how many."""
    size, dim, found = arena.values.shape[1], arena.values.shape[2], 0
    for key in range(count):
        chunk, used = columns.head[key], count_used(columns, arena, key)
        for record in range(used):
            place = record % size
            if record and place == 0:
                chunk = arena.links[chunk]
            if arena.numbers[chunk, place] >> ROW_BITS != slot:
                continue
            keys[found], rows.numbers[found] = key, arena.numbers[chunk, place] & LARGEST_ROW
            for i in range(dim):
                rows.values[found, i] = arena.values[chunk, place, i]
            if len(rows.times):
                rows.times[found] = arena.times[chunk, place]
            if len(rows.subjects):
                rows.subjects[found, 0] = arena.subjects[chunk, place, 0]
                rows.subjects[found, 1] = arena.subjects[chunk, place, 1]
            found += 1
    return found
