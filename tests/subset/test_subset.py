"""The subset searches against brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, islice

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige.errors import ParameterError
from vestige.subset import improve, nearest_average, nearest_averages
from vestige.subset.fixed_point import to_fixed
from vestige.subset.four_list import search_four_lists
from vestige.subset.meet_in_middle import meet_in_middle
from vestige.subset.search import _list_sums, _mark_sums, find_near_average
from vestige.subset.workspace import LISTED, make_workspace, write_sort_order
from vestige.types import Bools, Floats, Ints

RNG = np.random.default_rng


def search_mask(values: Floats, target: float, tolerance: float, seed: int = 0) -> Bools:
    mask = np.zeros(len(values), np.bool_)
    find_near_average(
        values, len(values), target, 0.0, tolerance, np.uint64(seed), True, make_workspace(len(values)), mask
    )
    return mask


numbers = st.one_of(
    st.floats(-1e3, 1e3, allow_nan=False),
    st.integers(-20, 20).map(float),
    st.integers(-500, 500).map(lambda cents: cents / 100),
    st.sampled_from([0.0, 5e-324, 1e-300, 1e12, -1e12]),
)


def close_to(residual: float, values: list[float], target: float) -> object:
    """Exact but for rounding each offset once, to 2^-59 of the sum of all."""
    return pytest.approx(residual, rel=1e-12, abs=2.0**-58 * sum(abs(value - target) for value in values))


@settings(max_examples=40)
@given(st.lists(numbers, min_size=1, max_size=16), numbers)
@pytest.mark.parametrize("method", ["auto", "exhaustive", "meet", "search"])
def test_every_method_finds_the_nearest_of_up_to_16(method: str, values: list[float], target: float) -> None:
    chosen = nearest_average(values, target, method=method)
    assert chosen.exact == (method != "search")
    assert chosen.mask.any()
    tolerance = 1e-13 * max(abs(target), *map(abs, values)) if method in ("search", "exhaustive") else 0.0
    expected = brute.nearest(values, target)
    assert chosen.residual == close_to(expected, values, target) or abs(chosen.residual - expected) <= tolerance


@settings(max_examples=60)
@given(st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=12), numbers)
@pytest.mark.parametrize("method", ["auto", "exhaustive", "meet"])
def test_what_must_be_in_is_in(method: str, items: list[tuple[float, bool]], target: float) -> None:
    values, keep = [value for value, _ in items], [kept for _, kept in items]
    chosen = nearest_average(values, target, method=method, keep=keep)
    assert chosen.mask[keep].all()
    expected = brute.nearest(values, target, keep)
    tolerance = 1e-13 * max(abs(target), *map(abs, values)) if method == "exhaustive" else 0.0
    assert chosen.residual == close_to(expected, values, target) or abs(chosen.residual - expected) <= tolerance


@pytest.mark.parametrize("n", [23, *(pytest.param(n, marks=pytest.mark.slow) for n in (24, 27, 31, 36))])
@pytest.mark.parametrize("kind", ["normal", "skewed", "two values", "huge range"])
def test_four_lists_agree_with_sorted_lists(n: int, kind: str) -> None:
    rng = RNG(n)
    values = {
        "normal": rng.normal(size=n),
        "skewed": rng.lognormal(0.0, 2.0, n),
        "two values": rng.integers(0, 2, n) / 3.0,
        "huge range": rng.normal(size=n) * 10.0 ** rng.integers(-12, 12, n),
    }[kind]
    offsets, _ = to_fixed(values, 0.1)
    for base, forced_count in ((0, 0), (int(offsets[0]), 1)):
        alone = np.abs(base + offsets) / (forced_count + 1)
        start = min(float(alone.min()), abs(base) / forced_count if forced_count else np.inf)
        word, proven = search_four_lists(offsets, base, forced_count, start, 0.0)
        by_lists = int(meet_in_middle(offsets, base, forced_count, 0.0))
        if proven:
            best = min(start, average(offsets, base, forced_count, int(word)))
            assert best == pytest.approx(average(offsets, base, forced_count, by_lists), rel=1e-12)
        assert proven or kind != "normal"


@pytest.mark.parametrize("n", [1, 12, 30, 44])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_numbers_on_one_side_of_the_target_need_no_search(n: int, sign: float) -> None:
    values = sign * (5.0 + RNG(n).random(n))
    chosen = nearest_average(values, 0.0, method="meet")
    assert chosen.residual == np.abs(values).min()
    keep = np.abs(values) == np.abs(values).max()
    beside = nearest_average(values, 0.0, method="meet", keep=keep)
    ordered = np.sort(np.abs(values[~keep]))
    with_most = (np.abs(values).max() + np.concatenate(([0.0], np.cumsum(ordered)))) / np.arange(1, n + 1)
    assert beside.residual == pytest.approx(with_most.min(), rel=1e-12)


def average(offsets: Ints, base: int, forced_count: int, word: int) -> float:
    """The distance from zero of the average of a subset, in units; infinite if it is empty."""
    members = [int(offset) for i, offset in enumerate(offsets) if word >> i & 1]
    return abs(base + sum(members)) / (forced_count + len(members)) if forced_count + len(members) else np.inf


def test_residuals_of_1e_15_are_exact() -> None:
    """At n = 40 the best residual is near the rounding of doubles; what is reported is exact."""
    values = RNG(5).normal(size=40)
    chosen = nearest_average(values, 0.1, method="meet")
    picked = [Fraction(value) for value in values[chosen.mask]]
    exact = abs(sum(picked, Fraction(0)) / len(picked) - Fraction(0.1))
    assert chosen.residual == pytest.approx(float(exact), rel=1e-9)
    assert chosen.residual < 1e-11


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_improve_never_gets_worse(dim: int) -> None:
    values = RNG(1).normal(size=(80, dim)) if dim > 1 else RNG(1).normal(size=80)
    target = np.full(dim, 0.1) if dim > 1 else 0.1
    first, second = (list(islice(improve(values, target, seed=3), 4)) for _ in range(2))
    residuals = [chosen.residual for chosen in first]
    assert residuals == sorted(residuals, reverse=True)
    assert [chosen.mask.tolist() for chosen in first] == [chosen.mask.tolist() for chosen in second]
    single = float(np.linalg.norm(np.reshape(values, (80, dim)) - target, axis=1).min())
    assert residuals[0] <= single


def test_improve_ends_with_a_proof() -> None:
    values = RNG(2).normal(size=30)
    last = list(improve(values, 0.1))[-1]
    assert last.exact
    assert last.residual == nearest_average(values, 0.1, method="meet").residual


def test_a_tolerance_is_obeyed() -> None:
    values = RNG(3).normal(size=30)
    chosen = nearest_average(values, 0.1, tolerance=1e-4)
    assert 0.0 < chosen.residual <= 1e-4
    assert not chosen.exact


def test_many_problems_at_once() -> None:
    rows, targets = RNG(4).normal(size=(50, 48)), np.linspace(-0.3, 0.3, 50)
    for method, tolerance in (("search", 1e-6), ("auto", 1e-6)):
        together = nearest_averages(rows, targets, method=method, tolerance=tolerance, seed=9)
        for i, chosen in enumerate(together):
            alone = nearest_average(rows[i], targets[i], method=method, tolerance=tolerance, seed=9 + i)
            assert chosen.mask.tolist() == alone.mask.tolist()
            assert chosen.residual <= 1e-6
    with pytest.raises(ParameterError, match="targets has 2 entries for 3 problems"):
        nearest_averages([[1.0], [2.0], [3.0]], [1.0, 2.0])


@pytest.mark.parametrize("n", [12, 17, 24, 30])
def test_exact_methods_agree_beyond_brute_force(n: int) -> None:
    whole = np.rint(RNG(n).normal(0.0, 30.0, n))
    by_lattice, by_meet = (nearest_average(whole, 1.2345, method=method) for method in ("lattice", "meet"))
    assert by_lattice.exact
    assert by_lattice.residual == pytest.approx(by_meet.residual, abs=1e-12)


@given(st.lists(numbers, min_size=1, max_size=9), numbers)
def test_a_search_of_few_numbers_is_the_optimum(values: list[float], target: float) -> None:
    table = np.array(values)
    mask = search_mask(table, target, 0.0)
    scale = max(abs(target), np.abs(table).max())
    assert abs(table[mask].mean() - target) == pytest.approx(brute.nearest(values, target), rel=1e-9, abs=1e-13 * scale)


@given(st.lists(numbers, min_size=25, max_size=60), numbers)
def test_a_search_is_never_worse_than_one_record(values: list[float], target: float) -> None:
    table = np.array(values)
    mask = search_mask(table, target, 0.0)
    nearest = np.abs(table - target).min()
    assert abs(table[mask].mean() - target) <= nearest + 1e-12 * max(1.0, np.abs(table).max())


@given(st.lists(st.sampled_from([0.0, 5.0, 6.0, 7.0, 10.0, 16.0, 28.0]), min_size=2, max_size=9), st.floats(-1, 30))
def test_a_search_of_few_numbers_is_the_optimum_on_a_sparse_lattice(values: list[float], target: float) -> None:
    table = np.array(values)
    mask = search_mask(table, target, 0.0)
    assert abs(table[mask].mean() - target) == pytest.approx(brute.nearest(values, target), abs=1e-9)


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
    residuals = np.array([row[search_mask(row, 0.02, 1e-4, i)].mean() - 0.02 for i, row in enumerate(values)])
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
        ([1.0, -np.inf], 0.0, {}, "not finite"),
        ([1e301, 1.0], 0.0, {}, "beyond 1e\\+300 in magnitude"),
        ([1.0], -1e301, {}, "beyond 1e\\+300 in magnitude"),
        ([1.0], 0.0, {"tolerance": -1.0}, "tolerance=-1.0 is out of range; use 0"),
        ([1.0], 0.0, {"method": "magic"}, "method='magic' is unknown"),
        (np.ones((27, 2)), [0.0, 0.0], {"method": "exhaustive"}, "27 records to choose from are above the 26"),
        (np.arange(50) / 7, 0.0, {"method": "meet"}, "50 records to choose from are above the 48"),
        (np.ones((40, 2)), [0.0, 0.0], {"method": "grid"}, "40 records to choose from are above the 36"),
        (np.ones((4, 2)), [0.0, 0.0], {"method": "meet"}, "method='meet' takes one dimension, not 2"),
        (np.ones((4, 2)), [0.0, 0.0], {"method": "lattice"}, "method='lattice' takes one dimension, not 2"),
        ([1.0], 0.0, {"method": "grid"}, "two dimensions or more"),
        ([1.0], 0.0, {"keep": [1]}, "needs a mask of 1 booleans"),
        ([1.0], 0.0, {"seed": -1}, "seed=-1 is out of range"),
        ([1 / 3, 1 / 7], 0.0, {"method": "lattice"}, "decimal lattice"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    values: object, target: object, options: dict[str, object], text: str
) -> None:
    with pytest.raises(ParameterError, match=text):
        nearest_average(values, target, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("tolerance", [1e-9, 1e-7, 1e-5, 1e-3])
def test_a_search_that_may_give_up_still_chooses_something(tolerance: float) -> None:
    found = 0
    for seed in range(300):
        values = RNG(seed).normal(size=RNG(seed).integers(2, 48))
        mask = np.zeros(len(values), np.bool_)
        find_near_average(
            values, len(values), 0.1, 0.0, tolerance, np.uint64(seed), False, make_workspace(len(values)), mask
        )
        assert mask.any()
        residual = abs(values[mask].mean() - 0.1)
        assert residual <= max(np.abs(values - 0.1).min(), tolerance) * (1 + 1e-12)
        found += residual <= tolerance
    assert found > 0


@pytest.mark.parametrize("share", [1e-7, 1e-6, 1e-5, 3e-5])
def test_no_match_is_missed(share: float) -> None:
    """Whatever lies within the limit of a listed sum lies in a marked cell, and few cells are marked."""
    for seed in range(20):
        workspace = make_workspace(LISTED)
        workspace.offsets[:], workspace.free[:LISTED] = RNG(seed).normal(size=LISTED), np.arange(LISTED)
        least, scale = _list_sums(workspace, LISTED)
        limit = share * np.ptp(workspace.sums)
        fine = _mark_sums(workspace, len(workspace.sums), least, scale, limit)
        marked = np.unpackbits(workspace.marks.view(np.uint8), bitorder="little")
        within = workspace.sums + limit * RNG(seed).uniform(-1.0, 1.0, (50, len(workspace.sums)))
        assert marked[((np.append(within, workspace.sums) - least) * fine + 2.0).astype(int)].all()
        assert marked.sum() <= 2 * len(workspace.sums)


def test_all_marks_are_set_where_they_do_not_help() -> None:
    workspace = make_workspace(LISTED)
    workspace.free[:LISTED] = np.arange(LISTED)
    for offset, limit in ((1.0, 1.0), (0.0, 1.0), (0.0, 0.0), (5e-324, 0.0)):
        workspace.offsets[:] = offset
        least, scale = _list_sums(workspace, LISTED)
        assert _mark_sums(workspace, len(workspace.sums), least, scale, limit) == 0.0
        assert (workspace.marks == ~np.uint64(0)).all()


@pytest.mark.parametrize("n", [1, 2, 48, 63, 64, 65, 128, 129, 1000])
def test_the_order_is_a_stable_sort(n: int) -> None:
    for keys in (RNG(n).normal(size=n), RNG(n).integers(0, 5, n).astype(float), np.zeros(n)):
        workspace = make_workspace(n)
        write_sort_order(keys, n, workspace.order, workspace.spare)
        assert workspace.order.tolist() == np.argsort(keys, kind="stable").tolist()
