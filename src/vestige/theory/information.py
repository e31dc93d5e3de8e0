"""A lower bound on the error of every policy: that of all data, and what the bits in a choice of records leave open.

The bound of docs/theorems.md ("A sharper limit"), which is not in the paper: T records are normal with unit variance in
each coordinate, and after the last of them the state is a subset of the newest w, of which 2^n are possible. Even a
reader who is given all of these w records learns at most n bits of what the others say. So, by the rate-distortion
function of normal vectors (Cover and Thomas 2006, https://doi.org/10.1002/047174882X, Theorem 10.3.3), the mean squared
error for the worst mean is at least d / T + d (1 / w - 1 / T) 4^(-n / d). For another variance, divide the error by it.
Guarantee: no quantiser that knows the average of all data beats the bound; held by tests/theory/test_information.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from vestige.errors import ParameterError
from vestige.theory.lower_bounds import MAX_DIM, mean_squared_error_floor
from vestige.validation import MAX_COUNT, check_int, check_positive

_LONG = 10_000  # beyond, at most two dimensions would gain, and their errors are too small for a float
_ROUNDED_OFF = 1e-12  # of an error that is meant to be dim / records


def information_floor(dim: int, records: int, window: int, bits: int) -> float:
    """Return a lower bound on the expected squared error for the worst mean: d / T + d max(0, 1/w - 1/T) 4^(-n/d).

    In a stream, window and bits are both the retention; in the batched model right after an update both are the batch,
    and just before an update the window is two batches and the bits are one.

    Args:
        dim: d, the dimension.
        records: T, the number of records that have arrived.
        window: w, the number of newest records that the state is a subset of.
        bits: n, where 2^n such subsets are possible.

    Returns:
        The bound, in units of the variance.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> f"{information_floor(1, 1_100_000, window=10, bits=10):.2e}"
        '1.00e-06'
        >>> information_floor(3, records=10, window=10, bits=10)  # everything is held
        0.3
    """
    d, length = check_int("dim", dim, 1, MAX_DIM), check_int("records", records, 1, MAX_COUNT)
    held, n = check_int("window", window, 1, MAX_COUNT), check_int("bits", bits, 0, MAX_COUNT)
    return d / length + d * _share_lost(d, length, held, n) / length


def streaming_floor(dim: int, records: int, retention: int) -> float:
    """Return the sharper of two lower bounds on the expected squared error of a stream, for the worst mean.

    They are `information_floor` and `mean_squared_error_floor`, from the proof of Theorem 3.6; the second is sharper
    where far more records have arrived than the error requires, in few dimensions.

    Args:
        dim: d, the dimension.
        records: T, the number of records that have arrived.
        retention: m, the number of newest records that may be held.

    Returns:
        The bound, in units of the variance.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> f"{streaming_floor(1, 1_000, retention=4):.1e}, {streaming_floor(1, 1_000_000, retention=4):.1e}"
        '2.0e-03, 1.1e-03'
    """
    return max(information_floor(dim, records, retention, retention), _union_floor(dim, retention))


def least_retention(dim: int, error: float, records: int) -> int:
    """Return the retention that a mean squared error requires: with a shorter one, `streaming_floor` is above it.

    It is also the smallest batch with which a batched algorithm can have that error right after an update.

    Args:
        dim: d, the dimension.
        error: total expected squared error.
        records: T, the number of records that will have arrived.

    Returns:
        The retention, at most `records`.

    Raises:
        ParameterError: if an argument is out of range, or `error` is below dim / records, that of all data.

    Example:
        To be as good as a million records after 1.1 million:

        >>> [least_retention(dim, dim / 1e6, 1_100_000) for dim in (1, 4, 65)]
        [11, 37, 472]
    """
    d, length, excess = _check_error(dim, error, records)
    retention = _find_least(length, lambda m: _share_lost(d, length, m, m) <= excess)
    while retention < length and _union_floor(d, retention) > error:
        retention += 1
    return retention


def least_batch(dim: int, error: float, records: int) -> int:
    """Return the batch that a mean squared error requires just before an update, with two batches in sight.

    With a smaller one, `information_floor` for a window of two batches and the bits of one is above the error.

    Args:
        dim: d, the dimension.
        error: total expected squared error.
        records: T, the number of records that will have arrived.

    Returns:
        The batch, at most `records`.

    Raises:
        ParameterError: if an argument is out of range, or `error` is below dim / records, that of all data.

    Example:
        >>> [least_batch(dim, dim / 1e6, 1_100_000) for dim in (1, 4, 65)]
        [10, 35, 443]
    """
    d, length, excess = _check_error(dim, error, records)
    return _find_least(length, lambda b: _share_lost(d, length, 2 * b, b) <= excess)


def heuristic_batch(dim: int, error: float, records: int) -> int:
    """Return the batch that a mean squared error would require if each update added the error of one ideal writing.

    A heuristic, not a bound. The estimate is written again at each of K = T / b updates, and what update k adds shrinks
    by k / K until the end: together (K + 1) (2 K + 1) / (6 K), about K / 3, of the square that `information_floor`
    allows for one. An algorithm whose errors cancel would need less.

    Args:
        dim: d, the dimension.
        error: total expected squared error.
        records: T, the number of records that will have arrived.

    Returns:
        The batch, at most `records`.

    Raises:
        ParameterError: if an argument is out of range, or `error` is below dim / records, that of all data.

    Example:
        >>> [heuristic_batch(dim, dim / 1e6, 1_100_000) for dim in (1, 4)]
        [17, 61]
    """
    d, length, excess = _check_error(dim, error, records)

    def is_enough(batch: int) -> bool:
        updates = length / batch
        writings = (updates + 1.0) * (2.0 * updates + 1.0) / (6.0 * updates)
        return writings * _share_lost(d, length, batch, batch) <= excess

    return _find_least(length, is_enough)


def _share_lost(dim: int, records: int, window: int, bits: int) -> float:
    """Return what is added at least to the error of all data, as a multiple of it: (T / w - 1) 4^(-n / d)."""
    return max(0.0, records / window - 1.0) * math.exp2(-2.0 * bits / dim)


def _union_floor(dim: int, retention: int) -> float:
    """Return the bound from the proof of Theorem 3.6, or 0 where it is never the sharper one and takes long."""
    return mean_squared_error_floor(dim, retention) if retention <= _LONG else 0.0


def _check_error(dim: int, error: float, records: int) -> tuple[int, int, float]:
    """Return dimension, number of records, and what may be added to the error of all data, as a multiple of it."""
    d, length = check_int("dim", dim, 1, MAX_DIM), check_int("records", records, 1, MAX_COUNT)
    excess = check_positive("error", error) * length / d - 1.0
    if excess < -_ROUNDED_OFF:
        raise ParameterError(
            f"error={error} is below dim / records = {d / length:g}, the error of all data; use a larger error or more "
            "records"
        )
    return d, length, max(0.0, excess)


def _find_least(most: int, is_enough: Callable[[int], bool]) -> int:
    """Return the smallest number from 1 to `most` that is enough, where all larger ones are, and `most` is."""
    return 1 + bisect_left(range(1, most), True, key=is_enough)
