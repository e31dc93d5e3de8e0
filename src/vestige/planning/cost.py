"""What a stream costs where it runs: the memory of its records, and the time that one takes on this machine.

Guarantee: no stream holds more records, and all that it allocates is within twice of their bytes; held by
tests/planning/test_cost.py.
"""

from __future__ import annotations

import time

import numpy as np

from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.records import Clock, Records
from vestige.stream import Stream
from vestige.types import Floats

_LONGEST = 8_192
_SECONDS = 0.05
_LARGEST = 10_000_000


def bytes_held(columns: int, retention: int) -> int:
    """How many bytes the records of a stream take at most: round, values, time, subject, mark and row number of each.

    Texts of subjects, and what Python itself takes, come on top.

    >>> bytes_held(columns=1, retention=512)
    20992
    """
    one = Records([1], np.zeros((1, columns)))
    return retention * sum(int(getattr(one, name).nbytes) for name in one.__slots__)


def seconds_per_record(policy: Policy, retention: int, records: int, rows: Floats) -> float | None:
    """How long a record takes on this machine, if many are handed over at once; None if a batch is too large to try.

    A stream is run for a moment, once its kernels are compiled, at the age that it will have in the end, when the
    search for an average takes longest. Batches beyond a few thousand records take as long for each, and are not tried.

    Args:
        policy: what runs.
        retention: see `vestige.Stream`.
        records: how many will have arrived.
        rows: what arrives, again and again; shape (n, columns).
    """
    tried = max(min(retention, _LONGEST), 2 * policy.min_batch)
    if tried * policy.columns > _LARGEST:
        return None
    stream = Stream(policy, retention=tried, seed=AuditSeed(0))
    stream.extend(np.resize(rows, (2 * stream.batch, policy.columns)))
    stream = _aged(stream, max(records - stream.t, 0))
    stream.extend(np.resize(rows, (2 * stream.batch, policy.columns)))
    batches, took = 1, 0.0
    while took < _SECONDS:
        block = np.resize(rows, (batches * stream.batch, policy.columns))
        started = time.perf_counter()
        stream.extend(block)
        took = time.perf_counter() - started
        batches *= 2
    return took / len(block)


def _aged(stream: Stream, rounds: int) -> Stream:
    """The same stream, as if so many more records had come before."""
    held, clock = stream.retained, stream.clock
    later = Records(held.rounds + rounds, held.values)
    aged = Clock(clock.t + rounds, first=clock.first + rounds, last=clock.last + rounds, rounding=clock.rounding)
    return Stream(stream.policy, retention=2 * stream.batch, seed=AuditSeed(1), retained=later, clock=aged)
