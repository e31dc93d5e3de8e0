"""The least-squares estimates of small groups of records are spread smoothly about the truth.

Lemma 4.2 of Immorlica et al. (2024): records (x, y) with x in [0, B]^dim, y = <theta, x> + normal noise, and the
eigenvalues of E[x x^T] in [lambda_0, lambda_1]. Above C d log d records to a group, each coordinate of its estimate has
a density of at least alpha within gamma of the truth. The paper names no constants, but its proof has them: the matrix
Chernoff bound of Tropp, "User-friendly tail bounds for sums of random matrices" (2012), Theorem 1.1. The text takes
alpha and gamma to be the same for all groups; the spread falls as 1 / sqrt(group), so that it is alpha * gamma that is.
Guarantee: no density is below its bound, in Monte Carlo trials; held by tests/theory/test_groups.py.
"""

from __future__ import annotations

import math

from vestige.errors import ParameterError
from vestige.validation import MOST, check_int, check_positive

_HALVED = (1.0 - math.log(2.0)) / 2.0  # c of the proof: the smallest eigenvalue is halved at most, delta = 1/2
GROUP_SIZE = 2.0


def group_size(dim: int, *, constant: float = GROUP_SIZE) -> int:
    """A group for work: above C d log d records, and never below 2 d + 1, where `vestige.paper.Regression` begins.

    Args:
        dim: d, the predictors.
        constant: C. The paper leaves it open; `proven_group_size` is what its proof gives, and is far larger. With 2,
            the estimates of normal predictors have dim + 2 degrees of freedom or more, and so a variance.

    >>> [group_size(dim) for dim in (1, 2, 3, 10)]
    [3, 5, 7, 47]
    """
    d = check_int("dim", dim, 1, MOST)
    return max(2 * d + 1, math.floor(check_positive("constant", constant) * d * math.log(d)) + 1)


def proven_group_size(dim: int, *, bound: float, smallest_eigenvalue: float, largest_eigenvalue: float) -> int:
    """The group from which on the proof of Lemma 4.2 holds with a chance of 1/2: d B^2 log(4 d) / (c lambda_0).

    Args:
        dim: d, the predictors.
        bound: B, the largest that a predictor can be.
        smallest_eigenvalue: lambda_0, the smallest eigenvalue of E[x x^T].
        largest_eigenvalue: lambda_1, the largest; at most d B^2.

    >>> proven_group_size(2, bound=1.0, smallest_eigenvalue=1 / 12, largest_eigenvalue=7 / 12)    # uniform on [0, 1]^2
    326
    """
    d, exponent = _chernoff(dim, bound, smallest_eigenvalue, largest_eigenvalue)
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
    """The density that a coordinate of a group's estimate has at least, within `radius` of the truth: alpha.

    With a chance of at least 1 - 2 d e^(-c k lambda_0 / (d B^2)), the estimate given the predictors is normal with a
    variance between sigma^2 / (2 k lambda_1) and 2 sigma^2 / (k lambda_0). It is 0 where that chance is: in groups that
    are too small for the proof; see `proven_group_size`.

    Args:
        dim: d, the predictors.
        group: k, records in the group.
        radius: gamma.
        bound: see `proven_group_size`.
        smallest_eigenvalue: see `proven_group_size`.
        largest_eigenvalue: see `proven_group_size`.
        noise: sigma, the standard deviation of the noise.

    >>> round(group_density(2, 326, 0.05, bound=1.0, smallest_eigenvalue=1 / 12, largest_eigenvalue=7 / 12), 3)
    0.726
    """
    d, exponent = _chernoff(dim, bound, smallest_eigenvalue, largest_eigenvalue)
    k, gamma, sigma = (
        check_int("group", group, d, MOST),
        check_positive("radius", radius),
        check_positive("noise", noise),
    )
    chance = max(0.0, 1.0 - 2.0 * d * math.exp(-k * exponent))
    variances = sigma**2 / (2.0 * k * largest_eigenvalue), 2.0 * sigma**2 / (k * smallest_eigenvalue)
    return chance * min(math.exp(-(gamma**2) / (2.0 * v)) / math.sqrt(2.0 * math.pi * v) for v in variances)


def normal_group_density(dim: int, group: int, radius: float, *, noise: float = 1.0) -> float:
    """The same where predictors are independent standard normals: exact, and for any group of `dim` records or more.

    The estimate is off by noise / sqrt(nu) times Student's t with nu = group - dim + 1 degrees of freedom: the heavy
    tails of small groups.

    >>> round(normal_group_density(2, 5, 0.5), 4)
    0.4293
    """
    from scipy.special import gammaln  # noqa: PLC0415

    d = check_int("dim", dim, 1, MOST)
    nu = check_int("group", group, d, MOST) - d + 1
    off = check_positive("radius", radius) / check_positive("noise", noise)
    log = gammaln((nu + 1) / 2) - gammaln(nu / 2) - math.log(math.pi) / 2 - (nu + 1) / 2 * math.log1p(off * off)
    return math.exp(log) / noise


def _chernoff(dim: int, bound: float, smallest_eigenvalue: float, largest_eigenvalue: float) -> tuple[int, float]:
    """The dimension, and c lambda_0 / (d B^2): by how much each record makes a bad group less likely."""
    d, most = check_int("dim", dim, 1, MOST), check_positive("bound", bound)
    if check_positive("smallest_eigenvalue", smallest_eigenvalue) > check_positive(
        "largest_eigenvalue", largest_eigenvalue
    ):
        raise ParameterError(
            f"smallest_eigenvalue={smallest_eigenvalue} is above largest_eigenvalue={largest_eigenvalue}; "
            "give the eigenvalues of E[x x^T] in order"
        )
    if largest_eigenvalue > d * most**2:
        raise ParameterError(
            f"largest_eigenvalue={largest_eigenvalue} is above dim * bound^2 = {d * most**2:g}; use a larger bound"
        )
    return d, _HALVED * smallest_eigenvalue / (d * most**2)
