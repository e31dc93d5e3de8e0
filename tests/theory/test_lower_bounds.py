"""The lower bounds: known values, scipy where it can, and an oracle that tries to beat them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from vestige import theory
from vestige.errors import ParameterError
from vestige.theory.lower_bounds import log_chi2_cdf
from vestige.types import Floats

KNOWN = [
    (1, 1e-2, 3),
    (1, 1e-6, 8),
    (1, 1e-8, 11),
    (4, 1e-4, 22),
    (8, 1e-6, 67),
    (16, 1e-8, 183),
    (1000, 1e-2, 2417),
    (1000, 1e-6, 8210),
]


@pytest.mark.parametrize(("dim", "error", "expected"), KNOWN)
def test_known_values(dim: int, error: float, expected: int) -> None:
    assert theory.finite_lower_bound(dim, error) == expected


dims, errors = st.integers(1, 300), st.floats(-25.0, 2.0).map(math.exp)


@settings(max_examples=40)
@given(dims, dims, errors, errors)
def test_more_dimensions_and_smaller_errors_need_more(d1: int, d2: int, e1: float, e2: float) -> None:
    less = theory.finite_lower_bound(min(d1, d2), max(e1, e2))
    assert less <= theory.finite_lower_bound(max(d1, d2), min(e1, e2))


@settings(max_examples=40)
@given(dims, st.integers(1, 100), st.integers(1, 100))
def test_the_floor_rises_with_dimensions_and_falls_with_retention(dim: int, m1: int, m2: int) -> None:
    few, many = min(m1, m2), max(m1, m2)
    assert theory.mean_squared_error_floor(dim, many) <= theory.mean_squared_error_floor(dim, few)
    assert theory.mean_squared_error_floor(dim, few) <= theory.mean_squared_error_floor(dim + 1, few)
    assert theory.mean_squared_error_floor(dim, few) <= dim / few * (1 + 1e-9)  # which a plain window reaches


@given(st.integers(1, 400), st.floats(-6.0, 8.0))
def test_the_series_against_scipy(dim: int, log: float) -> None:
    x = math.exp(log)
    below = stats.chi2.cdf(x, dim)
    if below > 1e-290:
        assert log_chi2_cdf(dim, np.array([x]))[0] == pytest.approx(math.log(below), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(
    ("dim", "x"), [(1, 1e-9), (1, 3.0), (2, 1e-3), (7, 5.0), (7, 20.0), (1000, 1e-5), (1000, 300.0)]
)
def test_the_series_against_an_integral(dim: int, x: float) -> None:
    """P[chi2 < x] = x^a / (2^a Gamma(a)) times the integral over (0, 1) of u^(a - 1) e^(-x u / 2), a = dim / 2.

    With v = u^a that is an integral of e^(-x v^(1 / a) / 2) over (0, 1): no underflow, whatever the dimension.
    """
    a = dim / 2
    whole = integrate.quad(lambda v: math.exp(-x * (v ** (1 / a) - 1.0) / 2), 0.0, 1.0, epsabs=0.0, limit=500)[0]
    expected = a * math.log(x / 2) - math.lgamma(a + 1) - x / 2 + math.log(whole)
    assert log_chi2_cdf(dim, np.array([x]))[0] == pytest.approx(expected, rel=1e-9)


def union_bound(dim: int, retention: int, error: float) -> float:
    """U_m(error), term by term."""
    terms = (math.comb(retention, k) * stats.chi2.cdf(k * error, dim) for k in range(1, retention + 1))
    return math.fsum(terms)


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("error", [1.0, 0.1, 1e-3])
def test_the_finite_bound_is_where_the_sum_passes_a_third(dim: int, error: float) -> None:
    m = theory.finite_lower_bound(dim, error)
    assert union_bound(dim, m, error) >= 1 / 3
    assert m == 1 or union_bound(dim, m - 1, error) < 1 / 3
    expected = min(1.0, union_bound(dim, m, error))
    assert theory.success_upper_bound(dim, error, m) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("dim", "retention"), [(1, 2), (1, 5), (1, 12), (2, 8), (3, 20), (8, 30)])
def test_the_floor_is_the_integral(dim: int, retention: int) -> None:
    """In steps of the logarithm of x, up to beyond where the sum is 1."""
    logs = np.linspace(-60.0, 6.0, 20_001)
    total = np.zeros_like(logs)
    for k in range(1, retention + 1):
        total += math.comb(retention, k) * stats.chi2.cdf(k * np.exp(logs), dim)
    expected = integrate.trapezoid((1.0 - np.minimum(1.0, total)) * np.exp(logs), logs)
    assert theory.mean_squared_error_floor(dim, retention) == pytest.approx(expected, rel=1e-4)


def oracle(dim: int, retention: int, trials: int) -> Floats:
    """The squared error of the subset whose average is nearest the mean, which the one who chooses knows."""
    rng, nearest = np.random.default_rng([dim, retention]), np.empty(trials)
    for trial in range(trials):
        sums, counts = np.zeros((1, dim)), np.zeros(1)
        for record in rng.normal(size=(retention, dim)):
            sums, counts = np.concatenate((sums, sums + record)), np.concatenate((counts, counts + 1.0))
        nearest[trial] = ((sums[1:] / counts[1:, None]) ** 2).sum(axis=1).min()
    return nearest


CASES = [
    (1, 1, 4_000),
    (1, 2, 4_000),
    (1, 4, 4_000),
    (1, 8, 2_000),
    (1, 12, 1_000),
    (1, 15, 300),
    (2, 4, 2_000),
    (2, 9, 1_000),
]


@pytest.mark.parametrize(("dim", "retention", "trials"), [*CASES, (4, 6, 2_000), (8, 12, 500), (16, 10, 500)])
def test_the_oracle_is_not_below_the_floor(dim: int, retention: int, trials: int) -> None:
    """Nor are its errors when cut where the union bound is 1, for which the floor holds too and chance matters less.

    Four standard errors: one case in 30,000 would fail by chance.
    """
    errors, floor = oracle(dim, retention, trials), theory.mean_squared_error_floor(dim, retention)
    cut = (
        optimize.brentq(lambda x: union_bound(dim, retention, x) - 1.0, 1e-12, 1e3, xtol=1e-15)
        if retention > 1
        else 1e3
    )
    for found in (errors, np.minimum(errors, cut)):
        assert found.mean() + 4.0 * found.std(ddof=1) / math.sqrt(trials) > floor


def test_one_record_and_the_floor_of_a_window() -> None:
    """With one record there is one subset, and the floor is what it has; the floor is at most the error of a window."""
    errors = oracle(3, 1, 4_000)
    assert errors.mean() == pytest.approx(
        theory.mean_squared_error_floor(3, 1), abs=4.0 * errors.std() / math.sqrt(4_000)
    )
    assert theory.mean_squared_error_floor(1000, 2) > 0.4 * 1000  # hardly any choice: close to the 500 of a window


def test_floors_and_errors_that_floats_hardly_hold() -> None:
    assert 0.0 < theory.mean_squared_error_floor(1, 500) < 1e-300
    assert theory.mean_squared_error_floor(1, 520) == theory.mean_squared_error_floor(1, 5_000) == 0.0
    assert theory.mean_squared_error_floor(1_000, 5_000) > 0.0
    assert theory.finite_lower_bound(1, 5e-324) > theory.finite_lower_bound(1, 1e-300) > 490
    assert theory.finite_lower_bound(1, 1e300) == 1


@pytest.mark.parametrize(("dim", "error"), [(1, 1e-2), (1, 1e-4), (2, 1e-2), (3, 0.1), (4, 0.3)])
def test_the_oracle_succeeds_no_more_often_than_the_bound(dim: int, error: float) -> None:
    """Just below the finite bound it is within `error` in fewer than a third of the trials; a window in fewer still."""
    retention, trials = theory.finite_lower_bound(dim, error) - 1, 2_000
    chance, window = theory.success_upper_bound(dim, error, retention), float(stats.chi2.cdf(retention * error, dim))
    assert window < chance < 1 / 3
    succeeded = (oracle(dim, retention, trials) < error).mean()
    assert succeeded < chance + 4.0 * math.sqrt(chance * (1.0 - chance) / trials)
    assert succeeded > window - 4.0 * math.sqrt(window * (1.0 - window) / trials)


@given(dims, st.floats(-25.0, -0.01).map(math.exp))
@settings(max_examples=60)
def test_the_theorem_never_claims_more_than_its_proof(dim: int, error: float) -> None:
    try:
        claimed = theory.lower_bound(dim, error)
    except ParameterError:
        return
    assert claimed == math.ceil(dim * math.log(1 / error) / (math.log(dim) + math.log(math.log(1 / error))))
    assert claimed <= theory.finite_lower_bound(dim, error)


def test_the_theorem_is_refused_for_large_errors() -> None:
    """At dim 1 and error 0.3 its formula forbids 6 records, where a plain window succeeds with a chance of 82%."""
    assert stats.chi2.cdf(6 * 0.3, 1) == pytest.approx(0.82, abs=0.005)
    assert math.log(1 / 0.3) / math.log(math.log(1 / 0.3)) > 6
    with pytest.raises(
        ParameterError, match=r"error=0.3 is too large .* at dim=1: its formula gives 6.4\d*, its proof only 1"
    ):
        theory.lower_bound(1, 0.3)
    with pytest.raises(ParameterError, match="use a smaller error, or finite_lower_bound"):
        theory.lower_bound(5, 1.5)


@pytest.mark.parametrize(("dim", "limit"), [(1, 0.002), (2, 0.05), (3, 0.19), (4, 0.6), (16, 0.9), (300, 0.99)])
def test_the_theorem_is_taken_for_small_errors(dim: int, limit: float) -> None:
    for error in np.geomspace(1e-12, limit, 40):
        assert theory.lower_bound(dim, float(error)) <= theory.finite_lower_bound(dim, float(error))


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="dim=0 is out of range; use a whole number, 1 or more"):
        theory.finite_lower_bound(0, 0.1)
    for error in (0.0, -1.0, math.nan, math.inf, 10**400, "small", True, None, np.ones(2)):
        with pytest.raises(ParameterError, match=r"error=.* is out of range; use a number above 0"):
            theory.finite_lower_bound(1, error)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="retention=0 is out of range"):
        theory.mean_squared_error_floor(1, 0)
    with pytest.raises(ParameterError, match=r"retention=2.5 is out of range"):
        theory.success_upper_bound(1, 0.1, 2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("dim", [1, 2, 4, 16])
def test_the_density_of_the_proof_grows_with_half_the_dimension(dim: int) -> None:
    """It says O(sqrt(m)) in any dimension. A ball's chance is its volume times (m / 2 pi)^(dim / 2), for small ones."""
    error, few, many = 1e-12, 10.0, 1_000.0
    chances = log_chi2_cdf(dim, error * np.array([few, many]))
    assert chances[1] - chances[0] == pytest.approx(dim / 2.0 * math.log(many / few), rel=1e-6)
    volume = dim / 2.0 * math.log(math.pi) - math.lgamma(dim / 2.0 + 1.0)
    expected = volume + dim / 2.0 * math.log(few * error / (2.0 * math.pi))
    assert chances[0] == pytest.approx(expected, rel=1e-6)


def test_the_union_bound_is_not_inverted_as_the_proof_inverts_it() -> None:
    """The text loses a logarithm: 2^m sqrt(m) reaches error^(-d / 2) at about m = (d / 2) log2(1 / error)."""
    for nats in (50.0, 500.0, 5_000.0):  # d log(1 / error)
        whole = optimize.brentq(lambda m, n=nats: m * math.log(2.0) + math.log(m) / 2.0 - n / 2.0, 1.0, nats)
        said = optimize.brentq(lambda m, n=nats: m * math.log(m) - n, 1.0, nats)
        assert whole == pytest.approx(nats / 2.0 / math.log(2.0), rel=0.1)
        assert abs(said / whole - 1.0) > 0.2


@pytest.mark.parametrize(("dim", "error"), [(1, 1e-8), (4, 1e-4), (16, 1e-3)])
def test_the_formula_follows_from_the_right_density(dim: int, error: float) -> None:
    """Below the theorem's retention, the union bound with the right density is below one third."""
    nats = -dim * math.log(error)
    m = math.ceil(nats / math.log(nats)) - 1
    volume = dim / 2.0 * math.log(math.pi) - math.lgamma(dim / 2.0 + 1.0)
    log = m * math.log(2.0) + volume + dim / 2.0 * math.log(m * error / (2.0 * math.pi))
    assert log < math.log(1.0 / 3.0)
