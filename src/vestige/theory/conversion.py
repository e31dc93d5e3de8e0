"""A stream needs twice the retention of a batched algorithm, and no more.

Proposition 2.1 of Immorlica et al. (2024, https://doi.org/10.48550/arXiv.2404.10997), both directions, with the error
unchanged.
Guarantee: the runtime produces the same states as these functions say; held by tests/theory/test_conversion.py and
tests/stream/test_batched.py.
"""

from __future__ import annotations

from vestige.validation import check_int


def batched_to_streaming(batch: int, batches: int) -> tuple[int, int]:
    """Return the retention and the number of rounds of a stream that does what a batched algorithm does.

    Between two updates the stream appends new records, so the oldest record that it holds is one round younger than two
    batches.

    Args:
        batch: m, the number of records per batch.
        batches: T, the number of batches.

    Returns:
        The retention 2 m and the number of rounds m T.

    Raises:
        ParameterError: if an argument is not a whole number, 1 or more.

    Example:
        >>> batched_to_streaming(batch=48, batches=1_000)
        (96, 48000)
    """
    size = check_int("batch", batch, 1)
    return 2 * size, size * check_int("batches", batches, 1)


def streaming_to_batched(retention: int, rounds: int) -> tuple[int, int]:
    """Return the batch size and the number of batches of a batched algorithm that does what a stream does.

    Args:
        retention: m, the retention of the stream.
        rounds: T, the number of rounds.

    Returns:
        The batch size m and the number of batches, T / m rounded up.

    Raises:
        ParameterError: if an argument is not a whole number, 1 or more.

    Example:
        >>> streaming_to_batched(retention=96, rounds=48_001)
        (96, 501)
    """
    size = check_int("retention", retention, 1)
    return size, -(-check_int("rounds", rounds, 1) // size)
