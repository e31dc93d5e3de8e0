"""The two errors of an adversary at several thresholds, with a band that holds for all of them at once.

The trade-off function of a mechanism is the smallest rate of false negatives that any adversary can have at each rate
of false positives; f-differential privacy (Dong, Roth, Su 2022, https://doi.org/10.1111/rssb.12454) promises that it is
not below a function f. An adversary's own rates lie on or above it. Thresholds are chosen on training trials; Clopper
and Pearson (1934, https://doi.org/10.1093/biomet/26.4.404) bound both rates at each of them, from both sides, and the
error probability is shared equally among all intervals (Bonferroni), so that the band holds simultaneously.
Guarantee: all rates lie in the band in at least the stated share of audits; held by tests/audit/test_validity.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vestige.errors import ParameterError
from vestige.types import Floats
from vestige.validation import check_float, check_floats

_THRESHOLDS = 15
_TAIL = 2.5
"""Thresholds are quantiles of the training scores, evenly spaced between so many deviations of a normal."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An error rate: as observed, and its confidence interval.

    Attributes:
        low: lower end.
        observed: share of the trials.
        high: upper end.
    """

    low: float
    observed: float
    high: float


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The errors of one adversary at several thresholds; all intervals hold together with the stated confidence.

    Attributes:
        points: rates of false positives and of false negatives at each threshold, from lenient to strict.
        confidence: probability that all intervals contain the true rates, at least.
    """

    points: tuple[tuple[Interval, Interval], ...]
    confidence: float

    def refutes(self, promise: Callable[[float], float]) -> bool:
        """Whether the band shows that a mechanism does not keep a promise.

        Args:
            promise: the promised trade-off function, from a rate of false positives to one of false negatives; it must
                not increase.

        Returns:
            Whether both errors are smaller than promised at some threshold, at the upper ends of their intervals. A
            mechanism that keeps the promise is refuted with a probability of at most 1 - `confidence`.

        Example:
            >>> import numpy as np
            >>> found = measure_trade_off(np.zeros(100), np.ones(100), np.array([0.5]))
            >>> found.refutes(lambda rate: gaussian_trade_off(rate, mu=1.0))
            True
        """
        return any(negative.high < promise(positive.high) for positive, negative in self.points)


def measure_trade_off(null: Floats, alternative: Floats, thresholds: Floats, *, confidence: float = 0.95) -> TradeOff:
    """Measure the two errors at each threshold, with intervals that hold simultaneously.

    Args:
        null: scores of the trials of the null hypothesis; shape (trials,).
        alternative: scores of the trials of the alternative; shape (trials,).
        thresholds: smallest scores that are decided as the alternative, which were not chosen on these trials; shape
            (thresholds,).
        confidence: probability that all intervals contain the true rates, at least.

    Returns:
        The errors.

    Raises:
        ParameterError: if an argument is not a one-dimensional array of at least one number, or `confidence` is not
            between 0 and 1.

    Example:
        >>> import numpy as np
        >>> found = measure_trade_off(np.zeros(100), np.ones(100), np.array([0.5]))
        >>> round(found.points[0][0].high, 3), found.points[0][1].observed
        (0.043, 0.0)
    """
    check_float("confidence", confidence, lambda n: 0.0 < n < 1.0, "a number between 0 and 1, such as 0.95")
    null, alternative = check_floats("null", null), check_floats("alternative", alternative)
    thresholds = check_floats("thresholds", thresholds)
    if not all(given.ndim == 1 and given.size for given in (null, alternative, thresholds)):
        raise ParameterError(
            "null, alternative and thresholds must be lists of at least one number; pass one score for each trial"
        )
    tail = (1.0 - confidence) / (4.0 * len(thresholds))
    false_positives = [int((null >= threshold).sum()) for threshold in thresholds]
    false_negatives = [len(alternative) - int((alternative >= threshold).sum()) for threshold in thresholds]
    points = tuple(
        (_bound_rate(fp, len(null), tail), _bound_rate(fn, len(alternative), tail))
        for fp, fn in zip(false_positives, false_negatives, strict=True)
    )
    return TradeOff(points, confidence)


def _bound_rate(count: int, trials: int, tail: float) -> Interval:
    from scipy.special import betaincinv  # noqa: PLC0415

    low = 0.0 if count == 0 else float(betaincinv(count, trials - count + 1, tail))
    high = 1.0 if count == trials else float(betaincinv(count + 1, trials - count, 1.0 - tail))
    return Interval(low, count / trials, high)


def choose_thresholds(null: Floats, alternative: Floats) -> Floats:
    """Choose thresholds for a trade-off, on trials that will not count.

    Args:
        null: scores of the trials of the null hypothesis; shape (trials,).
        alternative: scores of the trials of the alternative; shape (trials,).

    Returns:
        Different quantiles of all scores, dense in the tails; at most fifteen, at least one.

    Example:
        >>> import numpy as np
        >>> choose_thresholds(np.zeros(50), np.ones(50))
        array([1.])
    """
    from scipy.special import ndtr  # noqa: PLC0415

    scores = np.sort(np.concatenate((null, alternative)))
    places = np.rint(ndtr(np.linspace(-_TAIL, _TAIL, _THRESHOLDS)) * (len(scores) - 1)).astype(int)
    different = np.unique(scores[places])
    above = different[different > scores[0]]
    return above if len(above) else different


def gaussian_trade_off(rate: float, mu: float) -> float:
    """Compute the trade-off function of Gaussian differential privacy.

    Args:
        rate: rate of false positives, from 0 to 1.
        mu: the parameter; 0 reveals nothing.

    Returns:
        The smallest possible rate of false negatives.

    Raises:
        ParameterError: if `rate` is not from 0 to 1, or `mu` is negative.

    Example:
        >>> round(gaussian_trade_off(0.1, mu=0.0), 3), round(gaussian_trade_off(0.1, mu=1.0), 3)
        (0.9, 0.611)
    """
    from scipy.special import ndtr, ndtri  # noqa: PLC0415

    check_float("rate", rate, lambda n: 0.0 <= n <= 1.0, "a number from 0 to 1")
    check_float("mu", mu, lambda n: n >= 0.0, "a number, 0 or more")
    return float(ndtr(-ndtri(rate) - mu)) if 0.0 < rate < 1.0 else 1.0 - rate


def approximate_trade_off(rate: float, epsilon: float, delta: float) -> float:
    """Compute the trade-off function of (epsilon, delta)-differential privacy.

    Wasserman and Zhou (2010), https://doi.org/10.1198/jasa.2009.tm08651.

    Args:
        rate: rate of false positives, from 0 to 1.
        epsilon: the epsilon of the guarantee.
        delta: the delta of the guarantee.

    Returns:
        The smallest possible rate of false negatives.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> round(approximate_trade_off(0.1, epsilon=1.0, delta=0.0), 3)
        0.728
    """
    check_float("rate", rate, lambda n: 0.0 <= n <= 1.0, "a number from 0 to 1")
    check_float("epsilon", epsilon, lambda n: n >= 0.0, "a number, 0 or more")
    check_float("delta", delta, lambda n: 0.0 <= n <= 1.0, "a number from 0 to 1")
    strict = 1.0 - delta - math.exp(min(epsilon, 700.0)) * rate
    return max(0.0, strict, math.exp(-epsilon) * (1.0 - delta - rate))
