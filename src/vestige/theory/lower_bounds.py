"""No policy that holds only the last few records can be closer to the mean than the best subset of them.

Theorem 3.6 of Immorlica et al. (2024, https://doi.org/10.48550/arXiv.2404.10997) and its proof (Appendix B). Records
are normal, with unit variance in each coordinate. Let whoever chooses the subset know the mean, but fix in advance how
the subset is read: the average of k given records is within `error` with probability at most P[chi2_dim < k error], and
there are C(m, k) choices of k records. So no algorithm, for all means, is within `error` with probability above
U_m(error) = sum_k C(m, k) P[chi2_dim < k error]. The theorem's formula is the limit of this for small errors; the sum
itself is stronger. For another variance, divide the error by it.
Guarantee: an oracle that knows the mean does not beat the bounds; held by tests/theory/test_lower_bounds.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from vestige.errors import ParameterError
from vestige.types import Floats
from vestige.validation import check_int, check_positive

_SUCCESS = 1.0 / 3.0  # the theorem: squared error above `error` with probability at least 2/3
MAX_DIM, _MAX_RETENTION = 10**6, 10**7
_SMALLEST_LOG = -708.0  # e^-708 is about the smallest float


def lower_bound(dim: int, error: float) -> int:
    """Return the retention that Theorem 3.6 requires: d log(1/error) / (log d + log log(1/error)), rounded up.

    With a shorter retention, for some mean, the squared error is above `error` with probability at least 2/3. The
    theorem says "any error", its proof "sufficiently small": at dim 1 and error 0.3 it would rule out retention 6,
    where a plain window succeeds with probability 82%. This function refuses errors for which the formula claims more
    than the proof gives, which is `finite_lower_bound`: above about 0.002 at dim 1, 0.06 at dim 2, 0.2 at dim 3, 0.6
    at dim 4, and close to 1 beyond.

    Args:
        dim: d, the dimension.
        error: total squared error.

    Returns:
        The retention.

    Raises:
        ParameterError: if an argument is out of range, or `error` is too large for the theorem.

    Example:
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
    """Return the retention that the proof of Theorem 3.6 requires: the smallest m with U_m(error) >= 1/3.

    With a shorter retention, for some mean, the squared error is above `error` with probability above 2/3, whatever the
    algorithm.

    Args:
        dim: d, the dimension.
        error: total squared error.

    Returns:
        The retention.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> finite_lower_bound(1, 1e-6), finite_lower_bound(1000, 1e-6)
        (8, 8210)
    """
    d, epsilon = check_int("dim", dim, 1, MAX_DIM), check_positive("error", error)
    above = 1
    while _log_success(d, above, epsilon) < math.log(_SUCCESS):
        above *= 2
    candidates = range(above // 2 + 1, above)
    return candidates.start + bisect_left(
        candidates, math.log(_SUCCESS), key=lambda retention: _log_success(d, retention, epsilon)
    )


def success_upper_bound(dim: int, error: float, retention: int) -> float:
    """Return an upper bound on the probability that the squared error is below `error`, for the worst mean.

    Args:
        dim: d, the dimension.
        error: total squared error.
        retention: m, the number of records held.

    Returns:
        The bound min(1, U_m(error)).

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> round(success_upper_bound(1, 1e-6, 7), 3), round(success_upper_bound(1, 1e-6, 8), 3)
        (0.187, 0.401)
    """
    d, epsilon = check_int("dim", dim, 1, MAX_DIM), check_positive("error", error)
    return math.exp(min(0.0, _log_success(d, check_int("retention", retention, 1, _MAX_RETENTION), epsilon)))


def mean_squared_error_floor(dim: int, retention: int) -> float:
    """Return a lower bound on the expected squared error for the worst mean.

    It is the integral of 1 - min(1, U_m(x)) over x > 0. With x* where U_m is 1, it is, by parts,
    sum_k C(m, k) (dim / k) P[chi2_(dim + 2) < k x*]. It is 0 where x* is too small for a float: at dim 1, from a
    retention of about 506.

    Args:
        dim: d, the dimension.
        retention: m, the number of records held.

    Returns:
        The bound, in units of the variance.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        The error of a single record is its variance:

        >>> mean_squared_error_floor(3, 1)
        3.0
        >>> f"{mean_squared_error_floor(1, 20):.1e}"
        '4.8e-14'
    """
    from scipy.optimize import brentq  # noqa: PLC0415

    d, m = check_int("dim", dim, 1, MAX_DIM), check_int("retention", retention, 1, _MAX_RETENTION)
    if m == 1:
        return float(d)
    if _log_success(d, m, math.exp(_SMALLEST_LOG)) >= 0.0:
        return 0.0
    largest = math.log(2 * d)  # there, two records alone give P + P + P > 1
    full = math.exp(brentq(lambda log: _log_success(d, m, math.exp(log)), _SMALLEST_LOG, largest, xtol=1e-12))
    counts = np.arange(1.0, m + 1.0)
    terms: Floats = _log_binomials(m) - np.log(counts / d) + log_chi2_cdf(d + 2, counts * full)
    return math.exp(_log_sum_exp(terms)) - full * math.expm1(_log_success(d, m, full))


def log_chi2_cdf(dim: int, x: Floats) -> Floats:
    """Return the logarithm of P[chi2_dim < x], also where the probability itself is too small for a float.

    Below the middle it is the series x^a e^-x / Gamma(a + 1) * (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...), with
    a = dim / 2 and x halved, all of whose terms are positive; above it, the probability is not small.

    Args:
        dim: degrees of freedom.
        x: quantiles above 0; shape (n,).

    Returns:
        The logarithms; shape (n,).

    Example:
        >>> log_chi2_cdf(1000, np.array([1e-6])).round(3)
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


def _log_success(dim: int, retention: int, error: float) -> float:
    """Return the logarithm of U_m(error)."""
    terms: Floats = _log_binomials(retention) + log_chi2_cdf(dim, error * np.arange(1.0, retention + 1.0))
    return _log_sum_exp(terms)


def _log_binomials(n: int) -> Floats:
    """Return the logarithms of C(n, k) for k = 1 .. n."""
    from scipy.special import gammaln  # noqa: PLC0415

    k = np.arange(1, n + 1)
    binomials: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return binomials


def _log_sum_exp(logs: Floats) -> float:
    """Return the logarithm of the sum of numbers that are given by their logarithms."""
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()))
