"""Kernels that read the batches of streams, and close those that are full.

Guarantee: the same records give the same state as one `Stream` for each key, bit for bit; held by
tests/keyed/test_streams.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige._numba import inner_kernel, kernel
from vestige.channels.averages import Scratch, advance_with
from vestige.channels.kernels import read_batch
from vestige.keyed.chain_kernels import (
    NEVER,
    UNKNOWN,
    Arena,
    Columns,
    Rows,
    begin_chain,
    count_used,
    export_records,
    make_rows,
    put,
)
from vestige.random.kernels import draw
from vestige.statistics.kernels import find_deviation
from vestige.types import Bools, Floats, Ints, Words

AGE, PATIENCE, WARNING, STEP, LATENESS = 0, 1, 2, 3, 4
"""Places in `Terms.times`."""


class Terms(NamedTuple):
    """What is the same for all streams.

    Attributes:
        batch: number of records in a batch.
        bits: number of bits of its word.
        min_last_batch: number of records that a batch needs to be closed early at all.
        retention: the limit in rounds; 0 if there is none.
        mode: how a batch is written, see `vestige.channels.kernels`; -1 if updates are made elsewhere.
        decay: the share of a record's weight that is left after each that follows.
        allowed: how far from its target an average may be; see `vestige.channels.averages.advance`.
        root: key from which the coins of all rounds are derived.
        each: whether the coins of each key are its own; else they are the same.
        newest_request: number of the newest removal request.
        times: age, patience, warning, step and lateness in microseconds; lateness is -1 if rows must be in order.
            No entries without a limit in time.
    """

    batch: int
    bits: int
    min_last_batch: int
    retention: int
    mode: int
    decay: float
    allowed: float
    root: np.uint64
    each: bool
    newest_request: int
    times: Ints


class Batch(NamedTuple):
    """Room for the records of one stream; made by `make_batch`.

    Attributes:
        records: the kept records and those that wait; as many as a stream can hold.
        held: those of the encoded batch by slot; shape (longest, columns).
        present: which of its slots are kept; shape (longest,).
        keep: which of the records that wait to keep; shape (batch,).
        everyone: True for each; shape (batch,).
        alike: a weight of 1 for each slot; shape (longest,).
        numbers: what is encoded; shape (columns,).
        off: which numbers are marked as off; shape (columns,).
        rest: what is to be added to the numbers; shape (columns,).
        usual: the deviation of the kept records; shape (columns,).
        coins: of one update; shape (1,).
    """

    records: Rows
    held: Floats
    present: Bools
    keep: Bools
    everyone: Bools
    alike: Floats
    numbers: Floats
    off: Bools
    rest: Floats
    usual: Floats
    coins: Words


@kernel
def make_batch(batch: int, longest: int, columns: int, timed: bool, named: bool, numbered: bool) -> Batch:
    """Make room for batches of so many records, and for encoded ones of up to `longest` rounds."""
    return Batch(
        make_rows(batch + longest, columns, timed, named, numbered),
        np.empty((longest, columns)),
        np.empty(longest, np.bool_),
        np.empty(batch, np.bool_),
        np.ones(batch, np.bool_),
        np.ones(longest),
        np.empty(columns),
        np.empty(columns, np.bool_),
        np.empty(columns),
        np.empty(columns),
        np.empty(1, np.uint64),
    )


@inner_kernel
def gather(columns: Columns, arena: Arena, key: int, batch: Batch) -> None:
    """Copy the records of a stream, and lay out those of the encoded batch by slot."""
    length, count, row = columns.length[key], columns.kept[key] + columns.pending[key], 0
    records = batch.records
    here = Rows(
        records.keys,
        records.values[:count],
        records.times[:count],
        records.subjects[:count],
        records.numbers[:count],
    )
    export_records(columns, arena, key, batch.present, here)
    for slot in range(length):
        there = batch.present[slot]
        for i in range(records.values.shape[1]):
            batch.held[slot, i] = records.values[row, i] if there else 0.0
        row += there


@inner_kernel
def read_encoded(columns: Columns, key: int, terms: Terms, batch: Batch) -> bool:
    """Read what the encoded batch says, after `gather`; tell whether it could be read."""
    length, dim = columns.length[key], batch.held.shape[1]
    first = columns.t[key] - columns.pending[key] - length + 1
    for i in range(dim):
        batch.off[i] = False
    read_batch(batch.held[:length], batch.present[:length], first, terms.mode, batch.numbers, batch.off, batch.rest)
    is_read = True
    for i in range(dim):
        is_read &= not np.isnan(batch.numbers[i])
    return is_read


@inner_kernel
def count_encoded(columns: Columns, key: int) -> int:
    """Count the records that the encoded batch represents."""
    since = columns.since[key] if len(columns.since) else 1
    gaps = columns.gaps[key] if len(columns.gaps) else 0
    encoded: int = columns.t[key] - columns.pending[key] - since + 1 - gaps
    return encoded


@inner_kernel
def update(columns: Columns, arena: Arena, key: int, number: int, terms: Terms, batch: Batch, scratch: Scratch) -> bool:
    """Close the batch of a stream that is full; tell whether what was encoded could be read."""
    dim, length = arena.values.shape[2], columns.length[key]
    gather(columns, arena, key, batch)
    for i in range(dim):
        batch.numbers[i], batch.rest[i], batch.usual[i], batch.off[i] = 0.0, 0.0, 0.0, False
    if length:
        if not read_encoded(columns, key, terms, batch):
            return False
        for i in range(dim):
            batch.usual[i] = find_deviation(
                batch.numbers[i], batch.held[:length, i], batch.present[:length], batch.alike[:length]
            )
    t, kept = columns.t[key], columns.kept[key]
    batch.coins[0] = draw(draw(terms.root, number) if terms.each else terms.root, t)
    advance_with(
        scratch,
        batch.records.values[kept : kept + terms.batch],
        batch.everyone,
        batch.everyone,
        True,
        batch.numbers,
        batch.off,
        batch.rest,
        batch.usual,
        count_encoded(columns, key),
        terms.decay,
        terms.allowed,
        t - terms.batch + 1,
        batch.coins,
        terms.mode,
        batch.keep,
    )
    if len(columns.due):
        step, age = terms.times[STEP], terms.times[AGE]
        columns.due[key] = (columns.oldest[key] + age) // step * step
        columns.oldest[key], columns.newest[key] = NEVER, UNKNOWN
    columns.updates[key] += 1
    if len(columns.bits):
        columns.bits[key] = min(columns.bits[key], terms.bits) if columns.bits[key] else terms.bits
    if len(columns.settled):
        columns.settled[key] = terms.newest_request
    begin_chain(columns, arena, key, batch.keep)
    for slot in range(terms.batch):
        if batch.keep[slot]:
            put(columns, arena, key, count_used(columns, arena, key), batch.records, kept + slot)
            columns.kept[key] += 1
    return True
