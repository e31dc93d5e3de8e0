"""How much Gaussian noise an (epsilon, delta) guarantee needs, on a grid of whole numbers and in any dimension.

Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (2018, Theorem 8,
https://doi.org/10.48550/arXiv.1805.06530), is exact for normal noise. The discrete Gaussian (Canonne, Kamath and
Steinke, 2020, https://doi.org/10.48550/arXiv.2004.00010) can be sampled exactly, and differs a little, as proved here.
Let Z be discrete Gaussian with deviation s in d coordinates, X normal with the same deviation, R(X) its
rounding to whole numbers, and c(z) = P[R(X) = z]. In one coordinate, with u uniform on [-1/2, 1/2],

    c(z) = exp(-z^2 / 2 s^2) E[exp(-(2 z u + u^2) / 2 s^2)] / (s sqrt(2 pi)).

- By Jensen the expectation is at least exp(-1 / 24 s^2); and by Poisson summation the weights of the discrete Gaussian
  sum to at least s sqrt(2 pi), and at most exp(1 / s^2) times that. So P[Z = z] <= exp(1 / 24 s^2) c(z).
- By Hoeffding's lemma it is at most exp(z^2 / 8 s^4), so P[Z = z] >= exp(-201 / s^2) c(z) for |z| <= 40 s.

For a whole shift v, R(X) + v = R(X + v) is a function of X + v. If the normal noise gives (e, f) for shifts as long as
v, then for every set A, with T the chance that some |X_i| exceeds 40 s,

    P[Z in A] <= exp(d / 24 s^2) P[R(X) in A] <= exp(d / 24 s^2) (exp(e) P[R(X) + v in A] + f)
              <= exp(d / 24 s^2) (exp(e) (exp(201 d / s^2) P[Z + v in A] + T) + f),

so that Z gives epsilon = e + 202 d / s^2 and delta = exp(d / s^2) (f + exp(e) T), with T < 1e-300 d.
Guarantee: never below the sum over the whole grid; held by tests/noise/test_calibration.py.
"""

from __future__ import annotations

import math
from functools import lru_cache

from vestige.errors import ParameterError
from vestige.validation import check_float, check_int

LEAST_DEVIATION = 2.0**20
"""The smallest deviation of the noise, in steps of its grid."""
_LEAST_SCALE, _LARGEST_SCALE = 2.0**-8, 2.0**18
_PER_COORDINATE = 202.0
_LARGEST_EPSILON = 600.0
_BEYOND = 1e-300


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Compute the delta of normal noise at a given epsilon (Balle and Wang, 2018, Theorem 8).

    Args:
        epsilon: the epsilon of the guarantee.
        mu: the most that one record moves what is released, in deviations of the noise.

    Returns:
        the delta of the guarantee.

    Example:
        >>> round(gaussian_delta(1.0, 1 / 4.2247), 9)
        1e-06
    """
    from scipy.special import log_ndtr  # noqa: PLC0415

    inside, outside = log_ndtr(mu / 2.0 - epsilon / mu), epsilon + log_ndtr(-mu / 2.0 - epsilon / mu)
    return float(math.exp(inside) * -math.expm1(min(outside - inside, 0.0)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Compute the epsilon of normal noise at a given delta.

    Args:
        mu: the most that one record moves what is released, in deviations of the noise.
        delta: the delta of the guarantee.

    Returns:
        the epsilon of the guarantee.

    Example:
        >>> [round(gaussian_epsilon(mu, 1e-6), 2) for mu in (1.0, 2.0, 4.0)]
        [4.89, 11.0, 26.36]
    """
    from scipy.optimize import brentq  # noqa: PLC0415

    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    return float(
        brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, mu * mu / 2.0 + mu * 40.0, xtol=1e-12)
    )


def noise_scale(epsilon: float, delta: float, *, size: int = 1) -> float:
    """Compute the deviation of discrete Gaussian noise, divided by the most that one record moves the numbers (in l2).

    It is enough on every grid on which the deviation is `LEAST_DEVIATION` steps or more.

    Args:
        epsilon: the epsilon of the (epsilon, delta) guarantee.
        delta: the delta of the (epsilon, delta) guarantee.
        size: the number of numbers that get noise, each its own.

    Returns:
        the deviation.

    Raises:
        ParameterError: an argument is out of range, or the guarantee needs too much noise.

    Example:
        >>> round(noise_scale(1.0, 1e-6), 4)
        4.2247
    """
    check_float("epsilon", epsilon, lambda n: 0.0 < n < math.inf, "a number above 0, such as 1.0")
    check_float("delta", delta, lambda n: 0.0 < n < 1.0, "a number between 0 and 1, such as 1e-6")
    return _find_scale(epsilon, delta, check_int("size", size, 1))


@lru_cache(maxsize=64)  # a function of public parameters: nothing of any record is in it
def _find_scale(epsilon: float, delta: float, size: int) -> float:
    from scipy.optimize import brentq  # noqa: PLC0415

    correction = size / LEAST_DEVIATION**2
    left = min(epsilon, _LARGEST_EPSILON) - _PER_COORDINATE * correction
    share = delta * math.exp(-correction) - size * math.exp(left) * _BEYOND
    if left <= 0.0 or share <= 0.0 or gaussian_delta(left, 1.0 / _LARGEST_SCALE) > share:
        raise ParameterError(
            f"epsilon={epsilon} with delta={delta} is out of reach: it needs noise of more than {_LARGEST_SCALE:g} "
            "times what a record can move; use a larger epsilon or delta"
        )
    if gaussian_delta(left, 1.0 / _LEAST_SCALE) <= share:
        return _LEAST_SCALE
    low, high = math.log(_LEAST_SCALE), math.log(_LARGEST_SCALE)
    root = brentq(lambda log: gaussian_delta(left, math.exp(-log)) - share, low, high, xtol=1e-14)
    scale = math.exp(root)
    while gaussian_delta(left, 1.0 / scale) > share:  # on the safe side of the last digit
        scale *= 1.0 + 1e-14
    return scale
