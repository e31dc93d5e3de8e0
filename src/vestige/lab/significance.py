"""Statistical tests behind the verdicts, all at one significance level that was fixed before there were results.

A bound or an equality from theory stands until it is refuted; functions that begin with `is_` tell whether it is. A
difference between policies, and the claim that a policy is as good as keeping all data, must be shown; functions that
begin with `show_` tell whether it is shown, refuted, or neither. Answers are taken to be normal about the truth, so
squared errors follow the laws of squared normals.
Guarantee: a true hypothesis is rejected as rarely as the level says; held by tests/lab/test_significance.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from vestige.types import Floats

Shown = bool | None
"""What trials say of a claim: True if it is shown (or stands), False if it is refuted, None if they cannot decide."""
LEVEL = 1e-3
"""Significance level of one comparison: its error rate where the hypothesis is exactly on the limit."""
PROMISED = 1.05
"""Limit for "as good as all data": the ratio of squared errors that `Mean` and `LinearRegression` guarantee."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An average with one-sided confidence limits, each at confidence 1 - `LEVEL`.

    Attributes:
        low: lower limit.
        mid: the average.
        high: upper limit.
    """

    low: float
    mid: float
    high: float


def confidence_interval(values: Floats) -> Interval:
    """Compute Student's confidence limits for the mean of some values.

    Args:
        values: one value for each trial, at least two; shape (n,).

    Returns:
        The average and its limits.

    Example:
        >>> confidence_interval(np.array([1.0, 1.0, 1.0]))
        Interval(low=1.0, mid=1.0, high=1.0)
    """
    from scipy.special import stdtrit  # noqa: PLC0415

    mid = float(np.mean(values))
    width = float(stdtrit(len(values) - 1, 1.0 - LEVEL) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Interval(mid - width, mid, mid + width)


def show_less(interval: Interval, limit: float) -> Shown:
    """Decide whether a mean is shown to be below a limit.

    Args:
        interval: the average, with its confidence limits.
        limit: the limit.

    Returns:
        True if it is shown; False if the mean is shown to be at the limit or above; None otherwise.

    Example:
        >>> [show_less(interval, 1.0) for interval in (Interval(0.7, 0.8, 0.9), Interval(2, 3, 4), Interval(0, 1, 2))]
        [True, False, None]
    """
    if interval.high < limit:
        return True
    return False if interval.low >= limit else None


def show_greater(interval: Interval, limit: float) -> Shown:
    """Decide whether a mean is shown to be above a limit.

    Args:
        interval: the average, with its confidence limits.
        limit: the limit.

    Returns:
        True if it is shown; False if the mean is shown to be at the limit or below; None otherwise.

    Example:
        >>> show_greater(Interval(2.0, 3.0, 4.0), 1.0)
        True
    """
    return show_less(Interval(-interval.high, -interval.mid, -interval.low), -limit)


def show_as_good(ratios: Floats, limit: float = PROMISED) -> Shown:
    """Decide whether a policy is as good as keeping all data.

    Args:
        ratios: squared errors as multiples of that of all data, one for each trial; shape (n,).
        limit: the largest multiple that counts as good.

    Returns:
        True if their mean is shown to be below the limit, by Student's t; False if it is shown to be above, by the
        chi-squared distribution, which can tell with fewer trials; None otherwise.

    Example:
        >>> show_as_good(np.array([1.0, 1.001, 1.002])), show_as_good(np.array([1.0, 1.2]))
        (True, None)
    """
    if confidence_interval(ratios).high < limit:
        return True
    return False if is_above(ratios, limit) else None


def show_above(errors: Floats, expected: float, dim: int = 1) -> Shown:
    """Decide whether the mean of squared errors is above a value, by the chi-squared distribution.

    Args:
        errors: squared norms of normal vectors, one for each trial; shape (n,).
        expected: the value.
        dim: dimension of the vectors.

    Returns:
        True if it is shown; False if the mean is shown to be below; None otherwise.

    Example:
        >>> show_above(np.full(8, 12.0), 3.0, dim=2)
        True
    """
    if is_above(errors, expected, dim):
        return True
    return False if is_below(errors, expected, dim) else None


def every(parts: Iterable[Shown]) -> Shown:
    """Decide about a claim that has several parts.

    Args:
        parts: what the trials say of each part.

    Returns:
        False if a part is refuted; None if one is not shown; True otherwise.

    Example:
        >>> every([True, None]), every([True, None, False]), every([])
        (None, False, True)
    """
    said = list(parts)
    if any(part is not None and not part for part in said):
        return False
    return None if None in said else True


def is_above(errors: Floats, expected: float, dim: int = 1) -> bool:
    """Test whether squared errors show that their mean is above a value, by the chi-squared distribution.

    Args:
        errors: squared norms of normal vectors, one for each trial; shape (n,).
        expected: the largest mean that theory allows.
        dim: dimension of the vectors.

    Returns:
        Whether `expected` is refuted.

    Example:
        >>> is_above(np.full(8, 12.0), 3.0, dim=2)
        True
    """
    from scipy.special import chdtrc  # noqa: PLC0415

    return bool(chdtrc(dim * len(errors), dim * float(np.sum(errors)) / expected) < LEVEL)


def is_below(errors: Floats, expected: float, dim: int = 1) -> bool:
    """Test whether squared errors show that their mean is below a value, by the chi-squared distribution.

    Args:
        errors: squared norms of normal vectors, one for each trial; shape (n,).
        expected: the smallest mean that theory allows.
        dim: dimension of the vectors.

    Returns:
        Whether `expected` is refuted.

    Example:
        >>> is_below(np.full(8, 0.5), 3.0, dim=2)
        True
    """
    from scipy.special import chdtr  # noqa: PLC0415

    return bool(chdtr(dim * len(errors), dim * float(np.sum(errors)) / expected) < LEVEL)


def show_smaller(errors: Floats, others: Floats, factor: float = 1.0, dim: int = 1) -> Shown:
    """Decide whether squared errors are smaller than others by more than a factor, by Fisher's F test.

    Args:
        errors: squared norms of normal vectors, one for each trial; shape (n,).
        others: those that they are compared with; shape (m,).
        factor: how many times smaller they must be on average.
        dim: dimension of the vectors.

    Returns:
        True if the difference is shown; False if it is shown to be smaller than this factor; None otherwise.

    Example:
        >>> show_smaller(np.full(8, 1.0), np.full(8, 20.0), factor=3.0, dim=2)
        True
        >>> show_smaller(np.full(8, 1.0), np.full(8, 0.01)), show_smaller(np.full(8, 1.0), np.full(8, 1.0))
        (False, None)
    """
    from scipy.special import fdtrc  # noqa: PLC0415

    ratio = float(np.mean(others) / np.mean(errors)) / factor
    if fdtrc(dim * len(others), dim * len(errors), ratio) < LEVEL:
        return True
    return False if fdtrc(dim * len(errors), dim * len(others), 1.0 / ratio) < LEVEL else None


def is_more_often(hits: float, trials: int, chance: float) -> bool:
    """Test whether hits are shown to occur with more than a given chance, by the binomial distribution.

    Args:
        hits: number of trials that hit.
        trials: number of trials.
        chance: the chance that is to be refuted.

    Returns:
        Whether there are too many hits for this chance.

    Example:
        >>> is_more_often(50, 100, 0.3)
        True
    """
    from scipy.special import bdtrc  # noqa: PLC0415

    return hits > 0 and bool(bdtrc(round(hits) - 1, trials, chance) < LEVEL)


def is_less_often(hits: float, trials: int, chance: float) -> bool:
    """Test whether hits are shown to occur with less than a given chance, by the binomial distribution.

    Args:
        hits: number of trials that hit.
        trials: number of trials.
        chance: the chance that is to be refuted.

    Returns:
        Whether there are too few hits for this chance.

    Example:
        >>> is_less_often(10, 100, 0.3)
        True
    """
    from scipy.special import bdtr  # noqa: PLC0415

    return bool(bdtr(round(hits), trials, chance) < LEVEL)


def show_more_often(hits: float, trials: int, chance: float) -> Shown:
    """Decide whether hits occur with more than a given chance, by the binomial distribution.

    Args:
        hits: number of trials that hit.
        trials: number of trials.
        chance: the chance.

    Returns:
        True if it is shown; False if they are shown to occur less often; None otherwise.

    Example:
        >>> show_more_often(50, 100, 0.3), show_more_often(30, 100, 0.3), show_more_often(10, 100, 0.3)
        (True, None, False)
    """
    if is_more_often(hits, trials, chance):
        return True
    return False if is_less_often(hits, trials, chance) else None


def promised_error(
    dim: int,
    retention: int,
    length: int,
    retention_for: Callable[[int, float], int],
    rounds_for: Callable[[int, float], int],
) -> float:
    """Find the smallest error that a theorem promises at a retention and a length of stream.

    Args:
        dim: dimension of the records.
        retention: retention of the stream, in records.
        length: number of records that have arrived.
        retention_for: from dimension and error to the retention required, such as `vestige.theory.mean_retention`.
        rounds_for: from dimension and error to the number of records required, such as `vestige.theory.mean_rounds`.

    Returns:
        The error; infinite where the theorem promises none.

    Example:
        >>> from vestige import theory
        >>> round(promised_error(1, 64, 4_096, theory.mean_retention, theory.mean_rounds), 6)
        0.000986
    """
    errors = dim / 2.0 * 10.0 ** -np.arange(0.0, 8.0, 0.005)
    feasible = (e for e in map(float, errors) if retention_for(dim, e) <= retention and rounds_for(dim, e) <= length)
    return min(feasible, default=math.inf)
