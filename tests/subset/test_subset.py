"""The subset searches against brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.errors import ParameterError
from vestige.records import Bools, Floats
from vestige.subset import nearest_average
from vestige.subset.desk import make_desk
from vestige.subset.fixed import to_fixed
from vestige.subset.lattice import complete
from vestige.subset.search import search

RNG = np.random.default_rng


def searched(values: Floats, target: float, tolerance: float, seed: int = 0) -> Bools:
    mask = np.zeros(len(values), np.bool_)
    search(values, len(values), target, tolerance, np.uint64(seed), True, make_desk(len(values)), mask)
    return mask


def brute(values: list[float], target: float) -> float:
    """The least distance of any subset's average, in exact arithmetic."""
    exact = [Fraction(value) - Fraction(target) for value in values]
    return float(
        min(abs(sum(c, Fraction(0))) / len(c) for n in range(1, len(exact) + 1) for c in combinations(exact, n))
    )


numbers = st.one_of(
    st.floats(-1e3, 1e3, allow_nan=False),
    st.integers(-20, 20).map(float),
    st.integers(-500, 500).map(lambda cents: cents / 100),
    st.sampled_from([0.0, 5e-324, 1e-300, 1e12, -1e12]),
)


@given(st.lists(numbers, min_size=1, max_size=9), numbers)
@pytest.mark.parametrize("method", ["auto", "exhaustive", "meet"])
def test_exact_methods_find_the_nearest(method: str, values: list[float], target: float) -> None:
    chosen = nearest_average(values, target, method=method)
    scale = max(abs(target), *map(abs, values))
    assert chosen.exact
    assert chosen.mask.any()
    assert chosen.residual == pytest.approx(brute(values, target), rel=1e-9, abs=1e-13 * scale)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=10), st.floats(-60, 60))
def test_the_dynamic_programme_finds_the_nearest(values: list[int], target: float) -> None:
    ordered = np.sort(np.array(values))
    inside = complete(ordered - ordered[0], target - ordered[0])
    residual = abs(ordered[inside].mean() - target)
    assert residual == pytest.approx(brute([float(v) for v in values], target), abs=1e-12)


@pytest.mark.parametrize("n", [12, 17, 24, 30])
def test_exact_methods_agree_beyond_brute_force(n: int) -> None:
    whole = np.rint(RNG(n).normal(0.0, 30.0, n))
    by_lattice, by_meet = (nearest_average(whole, 1.2345, method=method) for method in ("lattice", "meet"))
    assert by_lattice.exact
    assert by_lattice.residual == pytest.approx(by_meet.residual, abs=1e-12)


@given(st.lists(numbers, min_size=1, max_size=9), numbers)
def test_a_search_of_few_numbers_is_the_optimum(values: list[float], target: float) -> None:
    table = np.array(values)
    mask = searched(table, target, 0.0)
    scale = max(abs(target), np.abs(table).max())
    assert abs(table[mask].mean() - target) == pytest.approx(brute(values, target), rel=1e-9, abs=1e-13 * scale)


@given(st.lists(numbers, min_size=25, max_size=60), numbers)
def test_a_search_is_never_worse_than_one_record(values: list[float], target: float) -> None:
    table = np.array(values)
    mask = searched(table, target, 0.0)
    nearest = np.abs(table - target).min()
    assert abs(table[mask].mean() - target) <= nearest + 1e-12 * max(1.0, np.abs(table).max())


@given(st.lists(st.sampled_from([0.0, 5.0, 6.0, 7.0, 10.0, 16.0, 28.0]), min_size=2, max_size=9), st.floats(-1, 30))
def test_a_search_of_few_numbers_is_the_optimum_on_a_sparse_lattice(values: list[float], target: float) -> None:
    table = np.array(values)
    mask = searched(table, target, 0.0)
    assert abs(table[mask].mean() - target) == pytest.approx(brute(values, target), abs=1e-9)


@given(st.lists(numbers, min_size=1, max_size=20), numbers)
def test_fixed_numbers_are_off_by_at_most_one_unit(values: list[float], target: float) -> None:
    fixed, unit = to_fixed(np.array(values), target)
    for whole, value in zip(fixed.tolist(), values, strict=True):
        assert abs(Fraction(whole) * Fraction(unit) - (Fraction(value) - Fraction(target))) <= Fraction(unit)
    total = float(np.abs(np.array(values) - target).sum())
    assert total == 0.0 or unit <= max(total * 2.0**-58, 2.0**-1000)


def test_a_search_stops_at_its_tolerance_without_preferring_a_side() -> None:
    trials = 2_000
    values = RNG(3).normal(size=(trials, 48))
    residuals = np.array([row[searched(row, 0.02, 1e-4, i)].mean() - 0.02 for i, row in enumerate(values)])
    assert np.abs(residuals).max() <= 1e-4
    # a fair sign: the mean lies within 4 standard errors of zero with probability 0.9999
    assert abs(residuals.mean()) < 4 * residuals.std() / np.sqrt(trials)


def test_lattice_data_use_many_records_and_reach_the_arithmetic_bound() -> None:
    for seed in range(20):
        rng = RNG(seed)
        delays = np.rint(rng.exponential(40.0, 256) - 15.0)
        target = rng.uniform(0.0, 30.0)
        chosen = nearest_average(delays, target, method="lattice")
        counts, ordered = np.arange(1, 257), np.sort(delays)
        least, most = np.cumsum(ordered), np.cumsum(ordered[::-1])
        bound = np.abs(np.clip(np.rint(counts * target), least, most) / counts - target).min()
        assert chosen.exact
        assert chosen.residual == pytest.approx(bound, abs=1e-12)


def test_several_dimensions() -> None:
    rng = RNG(0)
    values, target = rng.normal(size=(9, 3)), rng.normal(size=3) / 4
    chosen = nearest_average(values, target)
    every = (list(c) for n in range(1, 10) for c in combinations(range(9), n))
    assert chosen.residual == pytest.approx(min(np.linalg.norm(values[c].mean(axis=0) - target) for c in every))
    assert chosen.average.shape == (3,)


def test_the_nearest_average_is_not_the_nearest_sum() -> None:
    """The sum would take the first number alone (off by 0.2); the average of the other two is nearer."""
    chosen = nearest_average([0.2, 1.0, -0.7], 0.0, method="meet")
    assert chosen.mask.tolist() == [False, True, True] or chosen.residual <= 0.15


@pytest.mark.parametrize(
    ("values", "target", "options", "text"),
    [
        ([], 0.0, {}, r"values has shape \(0,\)"),
        ([1.0], [0.0, 0.0], {}, "needs one number per dimension, 1"),
        ([np.nan], 0.0, {}, "not finite"),
        ([1.0], np.inf, {}, "not finite"),
        ([1.0], 0.0, {"tolerance": -1.0}, "tolerance=-1.0 is below 0"),
        ([1.0], 0.0, {"method": "magic"}, "method='magic' is unknown"),
        (np.ones((27, 2)), [0.0, 0.0], {}, "27 records to choose from are above the 26"),
        (np.arange(50) / 7, 0.0, {"method": "meet"}, "50 records are above the 44"),
        ([1.0], 0.0, {"seed": -1}, "seed=-1 is out of range"),
        ([1 / 3, 1 / 7], 0.0, {"method": "lattice"}, "decimal lattice"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    values: object, target: object, options: dict[str, object], text: str
) -> None:
    with pytest.raises(ParameterError, match=text):
        nearest_average(values, target, **options)  # type: ignore[arg-type]
