"""A kernel that takes records into many streams, with nothing per key in Python.

Whatever is not the plain case, such as a batch that must be closed early, is left to `vestige.stream.Stream`, one key
at a time.
Guarantee: the same records give the same state as one `Stream` for each key, bit for bit; held by
tests/keyed/test_streams.py.
"""

from __future__ import annotations

from vestige._numba import inner_kernel
from vestige.channels.averages import Scratch
from vestige.keyed.batch_kernels import AGE, Batch, Terms, update
from vestige.keyed.chain_kernels import ELSEWHERE, Arena, Columns, Rows, append
from vestige.keyed.deadline_kernels import BUSY, LATE, expire, find_newest, judge_time
from vestige.types import Bools, Ints


@inner_kernel
def take(
    columns: Columns,
    arena: Arena,
    rows: Rows,
    start: int,
    stop: int,
    first: int,
    terms: Terms,
    batch: Batch,
    scratch: Scratch,
    left: Bools,
    deferred: Bools,
    counts: Ints,
) -> int:
    """Take rows into their streams, in order, and close each batch that is full.

    Args:
        columns: the streams.
        arena: their records; it must have a free chunk for each row.
        rows: the rows.
        start: the first row to take.
        stop: the row to stop before.
        first: number of the first stream of the shard, for its coins.
        terms: what is the same for all streams.
        batch: room for a batch.
        scratch: room for an update.
        left: output, which rows are left to be taken elsewhere; shape (n,).
        deferred: which streams take all rows that follow elsewhere; changed; shape (streams,).
        counts: output, to which the numbers of rows that were taken, of those that came too late, and of streams that
            started over are added; shape (3,).

    Returns:
        the row to go on with: `stop`, or the row after one that filled a batch that is to be closed elsewhere.
    """
    timed = len(columns.due) > 0
    for row in range(start, stop):
        key = rows.keys[row]
        length = columns.length[key]
        if columns.pending[key] == ELSEWHERE or (length and terms.retention and terms.retention - length < terms.batch):
            deferred[key] = True
        if not deferred[key] and timed:
            time = rows.times[row]
            verdict = judge_time(columns, key, time, terms)
            if verdict == BUSY and terms.mode >= 0 and time >= find_newest(columns, key, terms.times[AGE]):
                erased = expire(columns, arena, key, time, terms, batch)
                counts[2] += erased > 0
                if erased >= 0:
                    verdict = judge_time(columns, key, time, terms)
            if verdict == LATE:
                counts[1] += 1
                continue
            deferred[key] = verdict == BUSY
        if deferred[key]:
            left[row] = True
            continue
        append(columns, arena, rows, row, key)
        counts[0] += 1
        if timed:
            columns.oldest[key] = min(columns.oldest[key], rows.times[row])
            columns.newest[key] = max(columns.newest[key], rows.times[row])
        if columns.pending[key] == terms.batch and (
            terms.mode < 0 or not update(columns, arena, key, first + key, terms, batch, scratch)
        ):
            return row + 1
    return stop
