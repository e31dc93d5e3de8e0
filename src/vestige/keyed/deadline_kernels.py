"""Kernels that compare many streams with a time: what must be done first, and records that are too old.

What `vestige.stream.deadlines` says, where records are erased all together or from the first on. Batches that must be
closed early, and records that are erased between others, are left to `vestige.stream.Stream`.
Guarantee: the same state as one `Stream` for each key; held by tests/keyed/test_streams.py.
"""

from __future__ import annotations

from vestige._numba import inner_kernel, kernel
from vestige.keyed.batch_kernels import AGE, LATENESS, PATIENCE, WARNING, Batch, Terms, count_encoded, gather
from vestige.keyed.chain_kernels import ELSEWHERE, NEVER, UNKNOWN, Arena, Columns, begin_chain, count_used, put
from vestige.types import Bools, Ints

PLAIN, LATE, BUSY = 0, 1, 2


@inner_kernel
def find_newest(columns: Columns, key: int, age: int) -> int:
    """Find the newest time that is known of a stream; see `vestige.stream.deadlines.find_newest`."""
    newest: int = columns.newest[key]
    if columns.due[key] != NEVER:
        newest = max(newest, columns.due[key] - age)
    return newest


@inner_kernel
def judge_time(columns: Columns, key: int, time: int, terms: Terms) -> int:
    """Tell whether a row of this time is taken plainly, comes too late, or comes when something must be done first."""
    age, lateness = terms.times[AGE], terms.times[LATENESS]
    due, newest, oldest = columns.due[key], find_newest(columns, key, age), columns.oldest[key]
    now = max(time, newest)
    if due <= now or (oldest != NEVER and oldest <= now - age):
        return BUSY
    if columns.pending[key] >= terms.min_last_batch:
        event = oldest + terms.times[PATIENCE]
        if due != NEVER:
            event = min(event, due - terms.times[WARNING])
        if now >= event:
            return BUSY
    if lateness >= 0 and newest != UNKNOWN and time < newest - lateness:
        return LATE
    return PLAIN


@inner_kernel
def expire(columns: Columns, arena: Arena, key: int, now: int, terms: Terms, batch: Batch) -> int:
    """Erase the records of a stream that are too old, where its statistic starts over.

    Args:
        columns: the streams.
        arena: their records.
        key: place of the stream.
        now: microseconds since 1970.
        terms: what is the same for all streams.
        batch: room for a batch.

    Returns:
        Number of records that were erased; -1 if that is left to a `Stream`, and nothing was done.
    """
    age, kept, pending = terms.times[AGE], columns.kept[key], columns.pending[key]
    is_lost = columns.due[key] <= now
    if not is_lost and columns.oldest[key] > now - age:
        return 0
    if not is_lost and count_encoded(columns, key):
        return -1
    gather(columns, arena, key, batch)
    times, late = batch.records.times[kept : kept + pending], 0
    while late < pending and times[late] <= now - age:
        late += 1
    oldest, newest = NEVER, UNKNOWN
    for row in range(late, pending):
        oldest, newest = min(oldest, times[row]), max(newest, times[row])
    if oldest <= now - age:
        return -1  # a record between others
    begin_chain(columns, arena, key, batch.present[:0])
    for row in range(kept + late, kept + pending):
        put(columns, arena, key, count_used(columns, arena, key), batch.records, row)
        columns.pending[key] += 1
    columns.since[key], columns.updates[key] = columns.t[key] - (pending - late) + 1, 0
    columns.due[key], columns.oldest[key], columns.newest[key] = NEVER, oldest, newest
    if len(columns.gaps):
        columns.gaps[key] = 0
    if len(columns.bits):
        columns.bits[key] = 0
    if len(columns.settled) and late == pending:
        columns.settled[key] = terms.newest_request
    erased: int = kept + late
    return erased


@inner_kernel
def expire_each(
    columns: Columns,
    arena: Arena,
    count: int,
    now: int,
    terms: Terms,
    batch: Batch,
    left: Bools,
    changed: Bools,
    counts: Ints,
) -> None:
    """Erase the records of many streams that are too old, and mark those for which something is still to be done.

    Args:
        columns: the streams.
        arena: their records.
        count: number of streams.
        now: microseconds since 1970.
        terms: what is the same for all streams.
        batch: room for a batch.
        left: which streams to leave alone; those that are left for a `Stream` are added; shape (count,).
        changed: output, which streams have changed; shape (count,).
        counts: output, to which the numbers of records that were erased, and of streams that started over, are added;
            shape (2,).
    """
    for key in range(count):
        if columns.pending[key] == ELSEWHERE or left[key] or judge_time(columns, key, now, terms) != BUSY:
            continue
        erased = expire(columns, arena, key, now, terms, batch)
        if erased > 0:
            counts[0] += erased
            counts[1] += 1
            changed[key] = True
        left[key] = erased < 0 or judge_time(columns, key, now, terms) == BUSY


@kernel
def find_disorder(keys: Ints, times: Ints, newest: Ints) -> int:
    """Find the first row that is dated before one of its stream that came earlier, or -1; `newest` is changed."""
    for row in range(len(keys)):
        key = keys[row]
        if times[row] < newest[key]:
            return row
        newest[key] = times[row]
    return -1


@kernel
def mark_disorder(keys: Ints, times: Ints, newest: Ints, found: Bools) -> None:
    """Mark the streams that have a row dated before one that came earlier; `newest` is changed."""
    for row in range(len(keys)):
        key = keys[row]
        found[key] |= times[row] < newest[key]
        newest[key] = times[row]


@kernel
def mark_late(keys: Ints, times: Ints, newest: Ints, found: Bools) -> None:
    """Mark the rows that are dated before one of their stream that came earlier; `newest` is changed."""
    for row in range(len(keys)):
        key = keys[row]
        found[row] = times[row] < newest[key]
        newest[key] = max(newest[key], times[row])
