"""Batches cost a factor of two: what a batched algorithm does with m records, a streaming one does with 2 m.

Proposition 2.1 of Immorlica et al. (2024), both directions, with the error unchanged.
Guarantee: the runtime does as these functions say, state for state; held by tests/theory/test_batching.py and
tests/stream/test_batched.py.
"""

from __future__ import annotations

from vestige.validation import check_int


def batched_to_streaming(batch: int, batches: int) -> tuple[int, int]:
    """The retention and the rounds with which a stream does what batches did: (2 m, m T).

    Between two updates the new records are appended, so that the oldest held is one short of two batches old.

    >>> batched_to_streaming(batch=48, batches=1_000)
    (96, 48000)
    """
    size = check_int("batch", batch, 1)
    return 2 * size, size * check_int("batches", batches, 1)


def streaming_to_batched(retention: int, rounds: int) -> tuple[int, int]:
    """The batch and the number of batches with which the batched model does what a stream did: (m, ceil(T / m)).

    >>> streaming_to_batched(retention=96, rounds=48_001)
    (96, 501)
    """
    size = check_int("retention", retention, 1)
    return size, -(-check_int("rounds", rounds, 1) // size)
