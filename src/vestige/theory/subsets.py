"""A few dozen random numbers have a subset whose sum, or average, is as close to any target as required.

Theorem 3.5 of Immorlica et al. (2024, https://doi.org/10.48550/arXiv.2404.10997), which is Theorem 2.4 of Lueker (1998,
https://doi.org/10.1002/(SICI)1098-2418(199801)12:1%3C51::AID-RSA3%3E3.0.CO;2-S); and Lemma 3.3, after Corollary 24 of
Becchetti et al. (2022, https://doi.org/10.48550/arXiv.2207.13944). Neither names its constants; those here are
measured.
Guarantee: the statements hold, with these constants, in Monte Carlo trials; held by tests/theory/test_subsets.py.
"""

from __future__ import annotations

import math

from vestige.errors import ParameterError
from vestige.validation import MAX_COUNT, check_at_most, check_int, check_moderate, check_positive, check_ratio

SUM_SIZE = 3.0
SUM_FAILURE = 0.2
VECTOR_SIZE = 4.0


def subset_sum_size(error: float, *, constant: float = SUM_SIZE) -> int:
    """Return how many numbers, uniform on [-1, 1], have a subset sum within `error` of every target in [-1/2, 1/2].

    It is the smallest m above C_2 log(1 / error) in Theorem 3.5; `subset_sum_failure` bounds the probability of
    failure. The empty subset, whose sum is 0, counts.

    Args:
        error: required distance of a sum from the target, below 1.
        constant: C_2, which the paper leaves open. With 3, in 20,000 trials of m = 3 .. 10 numbers each, 6,000 up to 14
            and 1,000 up to 18, a fraction of at most e^(-0.217 m) missed `error` = e^(-m / 3) for some target; hence
            C_1 is 0.2. A larger C_2 allows a larger C_1: 4 goes with 0.3.

    Returns:
        The number of numbers m.

    Raises:
        ParameterError: if `error` is not between 0 and 1, or `constant` is not above 0.

    Example:
        >>> subset_sum_size(1e-6)
        42
    """
    if not 0.0 < check_positive("error", error) < 1.0:
        raise ParameterError(
            f"error={error!r} is not below 1; the empty sum is within 1/2 of every target, so use a smaller error"
        )
    return math.floor(check_moderate("constant", constant) * -math.log(error)) + 1


def subset_sum_failure(size: int, *, constant: float = SUM_FAILURE) -> float:
    """Return an upper bound on the probability that `size` numbers miss the error of `subset_sum_size`: e^(-C_1 m).

    Args:
        size: m, the number of numbers.
        constant: C_1, measured for the default C_2; see `subset_sum_size`.

    Returns:
        The probability.

    Raises:
        ParameterError: if `size` is not a whole number, 1 or more, or `constant` is not above 0.

    Example:
        >>> round(subset_sum_failure(42), 5)
        0.00022
    """
    return math.exp(-check_moderate("constant", constant) * check_int("size", size, 1, MAX_COUNT))


def vector_subset_size(
    dim: int, error: float, *, deviation: float = 1.0, ratio: float = 1.0, constant: float = VECTOR_SIZE
) -> int:
    """Return how many normal vectors have a subset whose average is within 2 `error`, in l2, of a target.

    Lemma 3.3: the smallest m with m >= C a d^2 log^2(d sigma / (a error)). Then the probability is at least
    1 - error / 2, for any target that is within sigma / a of the mean in each coordinate. The proof says that the
    normal distribution contains one of covariance (sigma / a)^2 I with probability 1 / a; over d coordinates it is
    a^-d. The statement is kept as printed.

    Args:
        dim: d, the dimension.
        error: required distance; at most a quarter of `deviation / ratio`.
        deviation: sigma, the largest standard deviation in any direction.
        ratio: a, the largest over the smallest standard deviation.
        constant: C, which the paper leaves open. For targets at a corner, 1,000 trials each with standard normals
            needed C = 3.7, 2.5, 2.4 at dim 1 and error 0.25, 0.1, 0.05, and 1.1 at dim 2 and error 0.25; it falls with
            both.

    Returns:
        The number of vectors m.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> vector_subset_size(1, 0.05), vector_subset_size(2, 0.05)
        (36, 218)
    """
    d = check_int("dim", dim, 1, MAX_COUNT)
    a, sigma = check_ratio("ratio", ratio), check_moderate("deviation", deviation)
    distance = check_at_most(
        "error", error, sigma / a / 4.0, "the measured constant is for a quarter of deviation / ratio or less"
    )
    return math.ceil(check_moderate("constant", constant) * a * (d * math.log(d * sigma / (a * distance))) ** 2)
