"""A retention that grows with log(1 / error) suffices; the retention of a plain window must grow with 1 / error.

Immorlica et al. (2024, https://doi.org/10.48550/arXiv.2404.10997): Theorem 3.1 for the mean, coordinate by coordinate;
Proposition 3.4 for Algorithm 1 in any dimension; Theorem 4.1 for regression. Each states how many records must have
arrived (T) and how many records a batch must have (m); by Proposition 2.1 a stream holds them for two batches, and that
is the retention here. Errors are in units of the variance. The constants depend on the distribution, and the paper does
not name them; those here are measured for normal distributions.
Guarantee: the paper's algorithms reach the error with these constants; held by tests/theory/test_upper_bounds.py,
which measured them.
"""

from __future__ import annotations

import math

from vestige.theory.conversion import batched_to_streaming
from vestige.theory.groups import group_size
from vestige.validation import MAX_COUNT, check_at_most, check_bool, check_int, check_moderate, check_ratio

MEAN_RETENTION = 4.5
MEAN_ROUNDS = 4.0
SIMPLE_RETENTION = 5.0
SIMPLE_ROUNDS = 12.0
REGRESSION_RETENTION = 2.0
REGRESSION_ROUNDS = 6.0


def window_retention(dim: int, error: float, *, variance: float = 1.0) -> int:
    """Return the retention that the sliding-window baseline needs: d sigma^2 / error (Introduction).

    Args:
        dim: d, the dimension.
        error: expected total squared error.
        variance: sigma^2, the variance of each coordinate.

    Returns:
        The retention.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> window_retention(2, 1e-4)
        20000
    """
    d = check_int("dim", dim, 1, MAX_COUNT)
    return math.ceil(d * check_moderate("variance", variance) / check_moderate("error", error))


def mean_retention(dim: int, error: float, *, variance: float = 1.0, constant: float = MEAN_RETENTION) -> int:
    """Return the retention for the mean, coordinate by coordinate (Theorem 3.1): m = C_2 d log(d / error).

    It applies to `vestige.paper.CoordinateMean` after `mean_rounds` records. Each coordinate has an even number of
    records per batch of its own, since it learns from half of them.

    Args:
        dim: d, the dimension.
        error: expected total squared error; at most half of `dim * variance`.
        variance: sigma^2, the variance of each coordinate.
        constant: C_2, which the paper leaves open. It is proportional to 1 / (alpha gamma), so a distribution with a
            lower density near its mean needs more. Measured on standard normals: with 4, MSE / error was 0.56, 0.43,
            0.48, 0.71 at errors 0.5, 0.1, 1e-2, 1e-3 in 400 trials, but 1.4 +- 0.9 at 1e-4, where the tail of the
            residual dominates; with 4.5 it was 0.48 +- 0.03 and 0.54 +- 0.04 at 1e-3 and 1e-4. The best possible is
            0.5.

    Returns:
        The retention of a stream: two batches.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> mean_retention(1, 1e-4), window_retention(1, 1e-4)
        (84, 10000)
        >>> mean_retention(10, 1e-4)
        1040
    """
    d, relative = _check_relative_error(dim, error, check_moderate("variance", variance))
    segment = _round_up_to_even(check_moderate("constant", constant) * math.log(d / relative))
    return batched_to_streaming(d * segment, 1)[0]


def mean_rounds(
    dim: int, error: float, *, variance: float = 1.0, segmented: bool = True, constant: float = MEAN_ROUNDS
) -> int:
    """Return how many records must have arrived for `mean_retention` to reach its error: above C_1 d sigma^2 / error.

    Args:
        dim: d; see `mean_retention`.
        error: see `mean_retention`.
        variance: see `mean_retention`.
        segmented: whether each coordinate is learned from its own segment only, as in Section 3.3 and in
            `vestige.paper.CoordinateMean`. That takes d times as many records, which the text overlooks; the theorem's
            count holds if each coordinate is learned from all records.
        constant: C_1, which the paper leaves open. Learning from halves costs a factor of at least 2; 4 leaves as much
            again for the residual. The constant of `mean_retention` was measured with it.

    Returns:
        The number of records.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> mean_rounds(1, 1e-4), mean_rounds(3, 1e-4), mean_rounds(3, 1e-4, segmented=False)
        (40001, 360001, 120001)
    """
    check_bool("segmented", segmented)
    d, relative = _check_relative_error(dim, error, check_moderate("variance", variance))
    return _next_integer(check_moderate("constant", constant) * d * (d if segmented else 1) / relative)


def simple_mean_retention(
    dim: int, error: float, *, variance: float = 1.0, ratio: float = 1.0, constant: float = SIMPLE_RETENTION
) -> int:
    """Return the retention for Algorithm 1 in any dimension (Proposition 3.4): m = C a d^2 log^2(d / (a error)).

    It applies to `vestige.paper.SimpleMean` after `simple_mean_rounds` records, which must be normal. The text has
    eigenvalues in [sigma / a, sigma] and log(d sigma / (a error)), but squares sigma elsewhere; here sigma^2 is the
    variance, and the error is in its units. The factor a is that of Lemma 3.3, which the text moves into C.

    Args:
        dim: d, the dimension.
        error: expected total squared error; at most half of `dim * variance / ratio`.
        variance: sigma^2, the largest variance in any direction.
        ratio: a, the largest over the smallest standard deviation.
        constant: C, which the paper leaves open. Measured on standard normals, with 200 trials at dim 1, 2 and 3: the
            smallest sufficient value was 4.2 at dim 1 and error 0.5, 2.8 at 0.3, 1.2 at 0.1, 0.7 at 0.01, and less in
            higher dimensions. So it is generous for small errors: the formula grows faster than the need.

    Returns:
        The retention of a stream: two batches.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> simple_mean_retention(1, 1e-2), simple_mean_retention(2, 1e-2)
        (216, 1124)
    """
    d, a = check_int("dim", dim, 1, MAX_COUNT), check_ratio("ratio", ratio)
    _, relative = _check_relative_error(d, error, check_moderate("variance", variance) / a)
    batch = _round_up_to_even(check_moderate("constant", constant) * a * (d * math.log(d / relative)) ** 2)
    return batched_to_streaming(batch, 1)[0]


def simple_mean_rounds(dim: int, error: float, *, variance: float = 1.0, constant: float = SIMPLE_ROUNDS) -> int:
    """Return how many records must have arrived for `simple_mean_retention`: above 12 d sigma^2 / error.

    Args:
        dim: d, the dimension.
        error: see `simple_mean_retention`.
        variance: see `simple_mean_retention`.
        constant: the paper's 12. Its proof, with 7 from Lemma 3.2 and E|g|^2 <= 3 d sigma^2 / m for halves, gives 21;
            learning from halves costs a factor of at least 2.

    Returns:
        The number of records.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> simple_mean_rounds(1, 1e-3)
        12001
    """
    d, relative = _check_relative_error(dim, error, check_moderate("variance", variance))
    return _next_integer(check_moderate("constant", constant) * d / relative)


def regression_retention(
    dim: int,
    error: float,
    *,
    noise: float = 1.0,
    smallest_eigenvalue: float = 1.0,
    group: int | None = None,
    constant: float = REGRESSION_RETENTION,
) -> int:
    """Return the retention for Algorithm 2 (Theorem 4.1): m = C_2 d^2 log(d) log(d / error).

    It applies to `vestige.paper.Regression` after `regression_rounds` records: half of a batch has, for each
    coordinate, C log(d / error) groups of C' d log d records each. Errors are those of the coefficients,
    which is the stronger claim.

    Args:
        dim: d, the number of predictors.
        error: expected total squared error of the coefficients; at most half of
            `dim * noise^2 / smallest_eigenvalue`.
        noise: sigma, the standard deviation of the noise.
        smallest_eigenvalue: lambda_0, the smallest eigenvalue of E[x x^T].
        group: k, the number of records per group; default: `group_size(dim)`, the d log d of the theorem.
        constant: C, the number of groups per coordinate over log(d / error), which the paper leaves open. Measured on
            standard normal predictors with groups of 2 d + 1: at error 1e-3, MSE / error was 0.8 +- 0.1 with 1.45 at
            dim 1; at dim 2 it was 3.5 +- 0.8 with 1.05, and 0.6 +- 0.1 with 1.6, in 60 trials of 4 d / error records.

    Returns:
        The retention of a stream: two batches.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> regression_retention(1, 1e-3), regression_retention(2, 1e-3)
        (168, 640)
    """
    d, relative = _check_relative_error(dim, error, _coefficient_variance(noise, smallest_eigenvalue))
    size = group_size(d) if group is None else check_int("group", group, d, MAX_COUNT)
    groups = math.ceil(check_moderate("constant", constant) * math.log(d / relative))
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
    """Return how many records must have arrived for `regression_retention` to reach its error: above C_1 d / error.

    It is at least four batches, which the theorem does not require. For a large error the first batch alone may contain
    all these records, but it encodes each coordinate in the groups of one segment only, which is much less accurate
    than least squares.

    Args:
        dim: d, the number of predictors.
        error: see `regression_retention`.
        noise: see `regression_retention`.
        smallest_eigenvalue: see `regression_retention`.
        group: see `regression_retention`.
        constant: C_1, which the paper leaves open. Learning from halves costs a factor of at least 2, and the first
            steps of a descent are worse than an average. With 4, MSE / error was 1.05 +- 0.15 at dim 2 after 2 batches;
            so the default is 6.

    Returns:
        The number of records.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> regression_rounds(2, 1e-3)
        12001
    """
    d, relative = _check_relative_error(dim, error, _coefficient_variance(noise, smallest_eigenvalue))
    retention = regression_retention(d, error, noise=noise, smallest_eigenvalue=smallest_eigenvalue, group=group)
    return max(2 * retention, _next_integer(check_moderate("constant", constant) * d / relative))


def _check_relative_error(dim: int, error: float, variance: float) -> tuple[int, float]:
    """Return the dimension and the error in units of the variance; errors that a short window reaches are refused."""
    d = check_int("dim", dim, 1, MAX_COUNT)
    limit = d * variance / 2.0
    return d, check_at_most("error", error, limit, "a short window reaches that; use window_retention") / variance


def _coefficient_variance(noise: float, smallest_eigenvalue: float) -> float:
    """Return an upper bound on the variance of a coefficient per record: sigma^2 / lambda_0."""
    return check_moderate("noise", noise) ** 2 / check_moderate("smallest_eigenvalue", smallest_eigenvalue)


def _round_up_to_even(x: float) -> int:
    """Return the smallest even number that is at least x and at least 2: one record to learn from, one to keep."""
    return max(2, 2 * math.ceil(x / 2.0))


def _next_integer(x: float) -> int:
    """Return the smallest whole number above x."""
    return math.floor(x) + 1
