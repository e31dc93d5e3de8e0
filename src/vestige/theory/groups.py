"""Least-squares estimates of small groups of records have a density that is bounded from below near the truth.

Lemma 4.2 of Immorlica et al. (2024, https://doi.org/10.48550/arXiv.2404.10997): records (x, y) with x in [0, B]^dim,
y = <theta, x> + normal noise, and the eigenvalues of E[x x^T] in [lambda_0, lambda_1]. With more than C d log d records
in a group, each coordinate of its estimate has a density of at least alpha within gamma of the truth. The paper does
not name the constants, but its proof contains them: the matrix Chernoff bound, Theorem 1.1 of Tropp (2012,
https://doi.org/10.1007/s10208-011-9099-z). The text uses the same alpha and gamma for all group sizes; since the spread
falls as 1 / sqrt(group), only the product alpha * gamma is the same.
Guarantee: no density is below its bound in Monte Carlo trials; held by tests/theory/test_groups.py.
"""

from __future__ import annotations

import math

from vestige.errors import ParameterError
from vestige.validation import MAX_COUNT, check_int, check_moderate

_CHERNOFF_RATE = (1.0 - math.log(2.0)) / 2.0  # c of the proof, for delta = 1/2: the smallest eigenvalue at most halves
GROUP_SIZE = 2.0


def group_size(dim: int, *, constant: float = GROUP_SIZE) -> int:
    """Return a practical group size: above C d log d records, and at least 2 d + 1 as in `vestige.paper.Regression`.

    Args:
        dim: d, the number of predictors.
        constant: C, which the paper leaves open; `proven_group_size` gives the far larger value of its proof. With the
            default of 2, estimates for normal predictors have at least dim + 2 degrees of freedom, hence a variance.

    Returns:
        The number of records per group.

    Raises:
        ParameterError: if `dim` is not a whole number, 1 or more, or `constant` is not above 0.

    Example:
        >>> [group_size(dim) for dim in (1, 2, 3, 10)]
        [3, 5, 7, 47]
    """
    d = check_int("dim", dim, 1, MAX_COUNT)
    return max(2 * d + 1, math.floor(check_moderate("constant", constant) * d * math.log(d)) + 1)


def proven_group_size(dim: int, *, bound: float, smallest_eigenvalue: float, largest_eigenvalue: float) -> int:
    """Return the group size at which the proof of Lemma 4.2 holds with probability 1/2: d B^2 log(4 d) / (c lambda_0).

    Args:
        dim: d, the number of predictors.
        bound: B, the largest value of a predictor.
        smallest_eigenvalue: lambda_0, the smallest eigenvalue of E[x x^T].
        largest_eigenvalue: lambda_1, the largest eigenvalue of E[x x^T]; at most d B^2.

    Returns:
        The number of records per group.

    Raises:
        ParameterError: if an argument is out of range, or the eigenvalues are not in order.

    Example:
        Predictors that are uniform on [0, 1]^2:

        >>> proven_group_size(2, bound=1.0, smallest_eigenvalue=1 / 12, largest_eigenvalue=7 / 12)
        326
    """
    d, exponent = _chernoff_exponent(dim, bound, smallest_eigenvalue, largest_eigenvalue)
    return math.ceil(math.log(4.0 * d) / exponent)


def group_density(
    dim: int,
    group: int,
    radius: float,
    *,
    bound: float,
    smallest_eigenvalue: float,
    largest_eigenvalue: float,
    noise: float = 1.0,
) -> float:
    """Return alpha: a lower bound on the density of a coordinate of a group's estimate within `radius` of the truth.

    With probability at least 1 - 2 d e^(-c k lambda_0 / (d B^2)), the estimate given the predictors is normal with a
    variance between sigma^2 / (2 k lambda_1) and 2 sigma^2 / (k lambda_0). The bound is 0 where that probability is 0,
    for groups that are too small for the proof; see `proven_group_size`.

    Args:
        dim: d, the number of predictors.
        group: k, the number of records in the group.
        radius: gamma, the distance from the truth.
        bound: B; see `proven_group_size`.
        smallest_eigenvalue: lambda_0; see `proven_group_size`.
        largest_eigenvalue: lambda_1; see `proven_group_size`.
        noise: sigma, the standard deviation of the noise.

    Returns:
        The lower bound on the density.

    Raises:
        ParameterError: if an argument is out of range, or the eigenvalues are not in order.

    Example:
        >>> round(group_density(2, 326, 0.05, bound=1.0, smallest_eigenvalue=1 / 12, largest_eigenvalue=7 / 12), 3)
        0.726
    """
    d, exponent = _chernoff_exponent(dim, bound, smallest_eigenvalue, largest_eigenvalue)
    k, gamma = check_int("group", group, d, MAX_COUNT), check_moderate("radius", radius)
    sigma = check_moderate("noise", noise)
    probability = max(0.0, 1.0 - 2.0 * d * math.exp(-k * exponent))
    variances = sigma**2 / (2.0 * k * largest_eigenvalue), 2.0 * sigma**2 / (k * smallest_eigenvalue)
    return probability * min(math.exp(-(gamma**2) / (2.0 * v)) / math.sqrt(2.0 * math.pi * v) for v in variances)


def normal_group_density(dim: int, group: int, radius: float, *, noise: float = 1.0) -> float:
    """Return the exact density of a coordinate of a group's estimate for independent standard normal predictors.

    The error of the estimate is noise / sqrt(nu) times a Student t variable with nu = group - dim + 1 degrees of
    freedom, which has heavy tails for small groups. It holds for any group of `dim` records or more.

    Args:
        dim: d, the number of predictors.
        group: k, the number of records in the group.
        radius: gamma, the distance from the truth.
        noise: sigma, the standard deviation of the noise.

    Returns:
        The density at `radius`.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> round(normal_group_density(2, 5, 0.5), 4)
        0.4293
    """
    from scipy.special import gammaln  # noqa: PLC0415

    d = check_int("dim", dim, 1, MAX_COUNT)
    nu = check_int("group", group, d, MAX_COUNT) - d + 1
    off = check_moderate("radius", radius) / check_moderate("noise", noise)
    log = gammaln((nu + 1) / 2) - gammaln(nu / 2) - math.log(math.pi) / 2 - (nu + 1) / 2 * math.log1p(off * off)
    return math.exp(log) / noise


def _chernoff_exponent(
    dim: int, bound: float, smallest_eigenvalue: float, largest_eigenvalue: float
) -> tuple[int, float]:
    """Return d and c lambda_0 / (d B^2), the rate at which each record makes a bad group less likely."""
    d, largest = check_int("dim", dim, 1, MAX_COUNT), check_moderate("bound", bound)
    smallest = check_moderate("smallest_eigenvalue", smallest_eigenvalue)
    if smallest > check_moderate("largest_eigenvalue", largest_eigenvalue):
        raise ParameterError(
            f"smallest_eigenvalue={smallest_eigenvalue} is above largest_eigenvalue={largest_eigenvalue}; "
            "give the eigenvalues of E[x x^T] in order"
        )
    if largest_eigenvalue > d * largest**2:
        raise ParameterError(
            f"largest_eigenvalue={largest_eigenvalue} is above dim * bound^2 = {d * largest**2:g}; use a larger bound"
        )
    return d, _CHERNOFF_RATE * smallest_eigenvalue / (d * largest**2)
