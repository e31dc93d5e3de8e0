"""A retention that grows with the logarithm of 1 / error suffices, where a window's must grow with 1 / error.

Immorlica et al. (2024): Theorem 3.1 for the mean, coordinate by coordinate; Proposition 3.4 for Algorithm 1 in any
dimension; Theorem 4.1 for regression. Each says how many records must have arrived (T), and how many a batch must have
(m); a stream holds them for two batches, by Proposition 2.1, and that is the retention here. Units are those of the
variance. The constants depend on the distribution and have no names in the paper; those here are measured for normals.
Guarantee: the paper's algorithms reach the error with them; held by tests/theory/test_upper_bounds.py, where they were
measured.
"""

from __future__ import annotations

import math

from vestige.theory.batching import batched_to_streaming
from vestige.theory.groups import group_size
from vestige.validation import MOST, check_at_most, check_bool, check_int, check_positive, check_ratio

MEAN_RETENTION = 4.5
MEAN_ROUNDS = 4.0
SIMPLE_RETENTION = 5.0
SIMPLE_ROUNDS = 12.0
REGRESSION_RETENTION = 2.0
REGRESSION_ROUNDS = 6.0


def window_retention(dim: int, error: float, *, variance: float = 1.0) -> int:
    """What the baseline needs that keeps all it may and averages: d sigma^2 / error (Introduction).

    >>> window_retention(2, 1e-4)
    20000
    """
    return math.ceil(
        check_int("dim", dim, 1, MOST) * check_positive("variance", variance) / check_positive("error", error)
    )


def mean_retention(dim: int, error: float, *, variance: float = 1.0, constant: float = MEAN_RETENTION) -> int:
    """The retention with which the mean is found coordinate by coordinate (Theorem 3.1): m = C_2 d log(d / error).

    It is for `vestige.paper.CoordinateMean`, after `mean_rounds` records. Each coordinate has an even number of records
    of a batch to itself, since half of them are learned from.

    Args:
        dim: d.
        error: expected total squared error; at most half of `dim * variance`.
        variance: sigma^2, of each coordinate.
        constant: C_2; it is proportional to 1 / (alpha gamma), so that a distribution with a lower density about its
            mean needs more. The paper leaves it open. Measured on standard normals: with 4, MSE / error was 0.56, 0.43,
            0.48, 0.71 at errors 0.5, 0.1, 1e-2, 1e-3 in 400 trials, but 1.4 +- 0.9 at 1e-4, since the tail of the
            residual decides; with 4.5 it was 0.48 +- 0.03 and 0.54 +- 0.04 at 1e-3 and 1e-4. It is 0.5 at best.

    >>> mean_retention(1, 1e-4), window_retention(1, 1e-4)
    (84, 10000)
    >>> mean_retention(10, 1e-4)
    1040
    """
    d, relative = _relative(dim, error, variance)
    segment = _even(check_positive("constant", constant) * math.log(d / relative))
    return batched_to_streaming(d * segment, 1)[0]


def mean_rounds(
    dim: int, error: float, *, variance: float = 1.0, segmented: bool = True, constant: float = MEAN_ROUNDS
) -> int:
    """How many records must have arrived for `mean_retention` to reach its error: above C_1 d sigma^2 / error.

    Args:
        dim: d.
        error: see `mean_retention`.
        variance: see `mean_retention`.
        segmented: whether a coordinate is learned from its own segment only, as Section 3.3 does and
            `vestige.paper.CoordinateMean` too. That takes d times as many records, which the text overlooks; the
            theorem's count holds for one that learns each coordinate from all.
        constant: C_1. The paper leaves it open; learning from halves costs 2 at best, and 4 leaves as much again for
            the residual. It is what `mean_retention`'s constant was measured with.

    >>> mean_rounds(1, 1e-4), mean_rounds(3, 1e-4), mean_rounds(3, 1e-4, segmented=False)
    (40001, 360001, 120001)
    """
    check_bool("segmented", segmented)
    d, relative = _relative(dim, error, variance)
    return _above(check_positive("constant", constant) * d * (d if segmented else 1) / relative)


def simple_mean_retention(
    dim: int, error: float, *, variance: float = 1.0, ratio: float = 1.0, constant: float = SIMPLE_RETENTION
) -> int:
    """The retention with which Algorithm 1 finds a mean as a whole (Proposition 3.4): m = C a d^2 log^2(d / (a error)).

    It is for `vestige.paper.SimpleMean`, after `simple_mean_rounds` records, which must be normal. The text has
    eigenvalues in [sigma / a, sigma] and log(d sigma / (a error)), but squares sigma elsewhere; here sigma^2 is the
    variance, and error is in its units. The factor a is that of Lemma 3.3, which the text moves into C.

    Args:
        dim: d.
        error: expected total squared error; at most half of `dim * variance / ratio`.
        variance: sigma^2, the largest in any direction.
        ratio: a, the largest over the smallest standard deviation.
        constant: C. The paper leaves it open. Measured on standard normals, with 200 trials at dim 1, 2 and 3: the
            least that did was 4.2 at dim 1 and error 0.5, 2.8 at 0.3, 1.2 at 0.1, 0.7 at 0.01, and less in more
            dimensions. So it is generous where errors are small: the formula grows faster than the need.

    >>> simple_mean_retention(1, 1e-2), simple_mean_retention(2, 1e-2)
    (216, 1124)
    """
    d, a = check_int("dim", dim, 1, MOST), check_ratio("ratio", ratio)
    _, relative = _relative(d, error, check_positive("variance", variance) / a)
    batch = _even(check_positive("constant", constant) * a * (d * math.log(d / relative)) ** 2)
    return batched_to_streaming(batch, 1)[0]


def simple_mean_rounds(dim: int, error: float, *, variance: float = 1.0, constant: float = SIMPLE_ROUNDS) -> int:
    """How many records must have arrived for `simple_mean_retention` to reach its error: above 12 d sigma^2 / error.

    The 12 is the paper's. Its proof, with 7 from Lemma 3.2 and E|g|^2 <= 3 d sigma^2 / m for halves, gives 21; 2 is
    what learning from halves costs at best.

    >>> simple_mean_rounds(1, 1e-3)
    12001
    """
    d, relative = _relative(dim, error, variance)
    return _above(check_positive("constant", constant) * d / relative)


def regression_retention(
    dim: int,
    error: float,
    *,
    noise: float = 1.0,
    smallest_eigenvalue: float = 1.0,
    group: int | None = None,
    constant: float = REGRESSION_RETENTION,
) -> int:
    """The retention with which Algorithm 2 finds a regression (Theorem 4.1): m = C_2 d^2 log(d) log(d / error).

    It is for `vestige.paper.Regression`, after `regression_rounds` records: half of a batch has, for each coordinate,
    C log(d / error) groups, each of C' d log d records. Errors are of the coefficients, which is the stronger claim.

    Args:
        dim: d, the predictors.
        error: expected total squared error of the coefficients; at most half of `dim * noise^2 / smallest_eigenvalue`.
        noise: sigma, the standard deviation of the noise.
        smallest_eigenvalue: lambda_0, the smallest eigenvalue of E[x x^T].
        group: k, records in a group; `group_size(dim)` unless said, which is what the theorem's d log d stands for.
        constant: C, groups per coordinate over log(d / error). The paper leaves it open. Measured on standard normal
            predictors with groups of 2 d + 1: at error 1e-3, MSE / error was 0.8 +- 0.1 with 1.45 at dim 1; at dim 2 it
            was 3.5 +- 0.8 with 1.05, and 0.6 +- 0.1 with 1.6, in 60 trials of 4 d / error records.

    >>> regression_retention(1, 1e-3), regression_retention(2, 1e-3)
    (168, 640)
    """
    d, relative = _relative(dim, error, _of_coefficients(noise, smallest_eigenvalue))
    size = group_size(d) if group is None else check_int("group", group, d, MOST)
    groups = math.ceil(check_positive("constant", constant) * math.log(d / relative))
    return batched_to_streaming(2 * d * groups * size, 1)[0]


def regression_rounds(
    dim: int,
    error: float,
    *,
    noise: float = 1.0,
    smallest_eigenvalue: float = 1.0,
    group: int | None = None,
    constant: float = REGRESSION_ROUNDS,
) -> int:
    """How many records must have arrived for `regression_retention` to reach its error: above C_1 d / error.

    And four batches, which the theorem does not ask for, but where the error is large, the first batch may have all
    these records, and it says each coordinate in groups of its own segment only, not nearly as well as least squares.

    Args:
        dim: d, the predictors.
        error: see `regression_retention`.
        noise: see `regression_retention`.
        smallest_eigenvalue: see `regression_retention`.
        group: see `regression_retention`.
        constant: C_1. The paper leaves it open; learning from halves costs 2 at best, and the first steps of a descent
            are worse than an average. With 4, MSE / error was 1.05 +- 0.15 at dim 2 after 2 batches; so it is 6.

    >>> regression_rounds(2, 1e-3)
    12001
    """
    d, relative = _relative(dim, error, _of_coefficients(noise, smallest_eigenvalue))
    held = regression_retention(d, error, noise=noise, smallest_eigenvalue=smallest_eigenvalue, group=group)
    return max(2 * held, _above(check_positive("constant", constant) * d / relative))


def _relative(dim: int, error: float, variance: float) -> tuple[int, float]:
    """The dimension, and the error in units of the variance, where it is small enough for a logarithm to mean much."""
    d, unit = check_int("dim", dim, 1, MOST), check_positive("variance", variance)
    return d, check_at_most("error", error, d * unit / 2.0, "a short window reaches that; use window_retention") / unit


def _of_coefficients(noise: float, smallest_eigenvalue: float) -> float:
    """The variance of a coefficient, at most, that one record stands for: sigma^2 / lambda_0."""
    return check_positive("noise", noise) ** 2 / check_positive("smallest_eigenvalue", smallest_eigenvalue)


def _even(x: float) -> int:
    """The least even number that is not below x, and at least 2: one record to learn from, and one to keep."""
    return max(2, 2 * math.ceil(x / 2.0))


def _above(x: float) -> int:
    """The least whole number above x."""
    return math.floor(x) + 1
