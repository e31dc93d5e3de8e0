"""The cost of a stream: the memory of its records, and the time per record on this machine.

Guarantee: a stream holds no more records than stated, and allocates at most twice their bytes; held by
tests/planning/test_cost.py.
"""

from __future__ import annotations

import time

import numpy as np

from vestige.clock import Clock
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.stream import Stream
from vestige.types import Floats

_MAX_RETENTION = 8_192
_MIN_SECONDS = 0.02
_MAX_VALUES = 10_000_000


def memory_bytes(columns: int, retention: int) -> int:
    """Compute the largest number of bytes that the records of a stream occupy.

    Each record has a round, values, a time, a subject, a mark and a row number. The texts of subjects, and the overhead
    of Python itself, come on top.

    Args:
        columns: number of values in a record.
        retention: retention of the stream, in records.

    Returns:
        The number of bytes.

    Example:
        >>> memory_bytes(columns=1, retention=512)
        20992
    """
    one = Records([1], np.zeros((1, columns)))
    return retention * sum(int(getattr(one, name).nbytes) for name in one.__slots__)


def measure_seconds_per_record(policy: Policy, retention: int, records: int, rows: Floats) -> float | None:
    """Measure the time per record on this machine, for records that arrive many at a time.

    A stream runs for a moment, after its kernels have been compiled, at the age that it will have in the end, when the
    search for an average takes longest. The time per record does not grow beyond batches of a few thousand records, so
    larger ones are not run.

    Args:
        policy: policy of the stream.
        retention: retention of the stream, in records.
        records: number of records that will have arrived.
        rows: records that arrive repeatedly; shape (n, columns).

    Returns:
        Seconds per record; None if a batch has too many values to run.

    Example:
        >>> from vestige import Mean
        >>> measure_seconds_per_record(Mean(), 64, 1_000, np.zeros((1, 1))) > 0.0
        True
    """
    from vestige._numba import limit_interpretation  # noqa: PLC0415  # it takes long to import

    limit_interpretation(0)  # a kernel that is interpreted takes a thousand times as long
    retention = max(min(retention, _MAX_RETENTION), 2 * policy.min_batch)
    if retention * policy.columns > _MAX_VALUES:
        return None
    stream = Stream(policy, retention=retention, seed=AuditSeed(0))
    stream.extend(np.resize(rows, (2 * stream.batch, policy.columns)))
    stream = _shift_rounds(stream, max(records - stream.t, 0))
    stream.extend(np.resize(rows, (2 * stream.batch, policy.columns)))
    batches, seconds = 1, 0.0
    while seconds < _MIN_SECONDS:
        block = np.resize(rows, (batches * stream.batch, policy.columns))
        started = time.perf_counter()
        stream.extend(block)
        seconds = time.perf_counter() - started
        batches *= 2
    return seconds / len(block)


def _shift_rounds(stream: Stream, rounds: int) -> Stream:
    """Copy a stream as if that many more records had arrived before."""
    retained, clock = stream.retained, stream.clock
    shifted = Records(retained.rounds + rounds, retained.values)
    later = Clock(clock.t + rounds, first=clock.first + rounds, last=clock.last + rounds)
    return Stream(stream.policy, retention=2 * stream.batch, seed=AuditSeed(1), retained=shifted, clock=later)
