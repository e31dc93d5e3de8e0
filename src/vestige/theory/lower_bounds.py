"""Whoever holds the last few records only cannot be nearer the mean than the best subset of them can tell.

Theorem 3.6 of Immorlica et al. (2024) and its proof (Appendix B). Records are normal, with unit variance in each
coordinate. Tell the mean to whoever chooses the subset, but fix beforehand how it is read: one of k records is within
`error` with a chance of at most P[chi2_dim < k error], and there are C(m, k) of them. So no algorithm, for all means,
is within `error` with a chance above U_m(error) = sum_k C(m, k) P[chi2_dim < k error]. The theorem's formula is what
remains of this for small errors; the sum itself says more. For another variance, divide the error by it.
Guarantee: an oracle that knows the mean is not better; held by tests/theory/test_lower_bounds.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from vestige.errors import ParameterError
from vestige.types import Floats
from vestige.validation import check_int, check_positive

_CHANCE = 1.0 / 3.0  # the theorem: squared error above `error` with a chance of at least 2/3


def lower_bound(dim: int, error: float) -> int:
    """The retention that Theorem 3.6 asks for at least: d log(1/error) / (log d + log log(1/error)), rounded up.

    Below it, for some mean, the squared error is above `error` with a chance of at least 2/3. The theorem says "any
    error", its proof "for sufficiently small": at dim 1 and error 0.3 it would forbid retention 6, where a plain window
    succeeds with a chance of 82%. It is refused where it claims more than its proof gives, which is
    `finite_lower_bound`: above about 0.002 at dim 1, 0.06 at dim 2, 0.2 at dim 3, 0.6 at dim 4, and close to 1 beyond.

    Args:
        dim: d.
        error: total squared error.

    >>> lower_bound(1, 1e-6), lower_bound(1000, 1e-6)
    (6, 1450)
    """
    proven = finite_lower_bound(dim, error)
    nats = -dim * math.log(error)
    claimed = math.inf if nats <= 1.0 else nats / math.log(nats)
    if claimed > proven:
        raise ParameterError(
            f"error={error} is too large for Theorem 3.6 at dim={dim}: its formula gives {claimed:.3g}, its proof only "
            f"{proven}; use a smaller error, or finite_lower_bound"
        )
    return math.ceil(claimed)


def finite_lower_bound(dim: int, error: float) -> int:
    """The retention that the proof of Theorem 3.6 asks for at least: the smallest m with U_m(error) >= 1/3.

    Below it, for some mean, the squared error is above `error` with a chance of more than 2/3, whatever the algorithm.

    Args:
        dim: d.
        error: total squared error.

    >>> finite_lower_bound(1, 1e-6), finite_lower_bound(1000, 1e-6)
    (8, 8210)
    """
    d, epsilon = check_int("dim", dim, 1, 10**6), check_positive("error", error)
    above = 1
    while _log_sum(d, above, epsilon) < math.log(_CHANCE):
        above *= 2
    tried = range(above // 2 + 1, above)
    return tried.start + bisect_left(tried, math.log(_CHANCE), key=lambda m: _log_sum(d, m, epsilon))


def success_upper_bound(dim: int, error: float, retention: int) -> float:
    """The chance that a squared error is below `error`, at most, for the worst mean: min(1, U_m(error)).

    >>> round(success_upper_bound(1, 1e-6, 7), 3), round(success_upper_bound(1, 1e-6, 8), 3)
    (0.187, 0.401)
    """
    d, epsilon = check_int("dim", dim, 1, 10**6), check_positive("error", error)
    return math.exp(min(0.0, _log_sum(d, check_int("retention", retention, 1, 10**7), epsilon)))


def mean_squared_error_floor(dim: int, retention: int) -> float:
    """The expected squared error, at least, for the worst mean: the integral of 1 - min(1, U_m(x)) over x > 0.

    With x* where U_m is 1, it is sum_k C(m, k) (dim / k) P[chi2_(dim + 2) < k x*], by parts. It is 0 where x* is too
    small for a float: at dim 1, from a retention of about 506 on.

    >>> mean_squared_error_floor(3, 1)        # one record is as far off as it varies
    3.0
    >>> f"{mean_squared_error_floor(1, 20):.1e}"
    '4.8e-14'
    """
    from scipy.optimize import brentq  # noqa: PLC0415

    d, m = check_int("dim", dim, 1, 10**6), check_int("retention", retention, 1, 10**7)
    if m == 1:
        return float(d)
    least = -708.0  # e^-708 is about the smallest float; at 2 dim, two records alone give P + P + P > 1
    if _log_sum(d, m, math.exp(least)) >= 0.0:
        return 0.0
    full = math.exp(brentq(lambda log: _log_sum(d, m, math.exp(log)), least, math.log(2 * d), xtol=1e-12))
    counts = np.arange(1.0, m + 1.0)
    below: Floats = _log_choices(m) - np.log(counts / d) + log_chi2_below(d + 2, counts * full)
    return math.exp(_log_total(below)) - full * math.expm1(_log_sum(d, m, full))


def log_chi2_below(dim: int, x: Floats) -> Floats:
    """The logarithm of P[chi2_dim < x], also where the chance itself is too small for a float.

    Below the middle it is the series x^a e^-x / Gamma(a + 1) * (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...), with
    a = dim / 2 and x halved, whose terms are all positive; above, the chance is no small number.

    >>> log_chi2_below(1000, np.array([1e-6])).round(3)
    array([-9865.659])
    """
    from scipy.special import gammainc, gammaln  # noqa: PLC0415

    a, halved = dim / 2.0, np.asarray(x, np.float64) / 2.0
    small = np.minimum(halved, a)
    term = np.ones_like(small)
    series, n = term.copy(), 0
    while term.max(initial=0.0) > np.finfo(np.float64).eps / 4.0:
        n += 1
        term *= small / (a + n)
        series += term
    tail = a * (np.log(np.minimum(x, dim)) - math.log(2.0)) - small - gammaln(a + 1.0) + np.log(series)
    result: Floats = np.where(halved < a, tail, np.log(gammainc(a, np.maximum(halved, a))))
    return result


def _log_sum(dim: int, retention: int, error: float) -> float:
    """The logarithm of U_m(error)."""
    terms: Floats = _log_choices(retention) + log_chi2_below(dim, error * np.arange(1.0, retention + 1.0))
    return _log_total(terms)


def _log_choices(n: int) -> Floats:
    """The logarithms of C(n, k) for k = 1 .. n."""
    from scipy.special import gammaln  # noqa: PLC0415

    k = np.arange(1, n + 1)
    choices: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return choices


def _log_total(logs: Floats) -> float:
    """The logarithm of the sum of numbers that are given by their logarithms."""
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()))
