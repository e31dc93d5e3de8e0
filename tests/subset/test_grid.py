"""The grid searches in several dimensions against brute force, and against each other."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige.subset.exhaustive import search_all_subsets
from vestige.subset.grid import meet_on_grid
from vestige.subset.grid_search import EFFORT, search_grid
from vestige.types import Bools, Floats

RNG = np.random.default_rng

numbers = st.one_of(
    st.floats(-10, 10, allow_nan=False),
    st.integers(-3, 3).map(float),
    st.sampled_from([0.0, 5e-324, 1e-300, 1e-9, 1e12, -1e12]),
)


@st.composite
def problems(draw: st.DrawFn, most: int = 10) -> tuple[Floats, Floats, int]:
    """Offsets, the sum of those that must be in, and how many those are."""
    dim = draw(st.integers(2, 3))
    rows = st.lists(numbers, min_size=dim, max_size=dim)
    pool = draw(st.lists(rows, min_size=1, max_size=most))
    again = draw(st.lists(st.sampled_from(pool), max_size=most - len(pool)))
    forced = draw(st.lists(rows, max_size=2))
    return np.array(pool + again), np.array(forced or [[0.0] * dim]).sum(axis=0), len(forced)


def members(word: np.uint64, n: int) -> Bools:
    chosen: Bools = (np.uint64(word) >> np.arange(n, dtype=np.uint64)) & np.uint64(1) == 1
    return chosen


def distance(offsets: Floats, base: Floats, forced_count: int, chosen: Bools) -> float:
    """How far the average of the chosen and forced ones is from zero, in exact arithmetic but for the root."""
    count = forced_count + int(chosen.sum())
    assert count > 0
    totals = [Fraction(b) + sum(map(Fraction, column)) for b, column in zip(base, offsets[chosen].T, strict=True)]
    largest = max(map(abs, totals))
    if not largest:
        return 0.0
    return float(largest / count) * float(np.sqrt(float(sum((total / largest) ** 2 for total in totals))))


def brute(offsets: Floats, base: Floats, forced_count: int) -> float:
    """Return the smallest distance of any choice."""
    n = len(offsets)
    masks = (
        np.isin(np.arange(n), c) for k in range(0 if forced_count else 1, n + 1) for c in combinations(range(n), k)
    )
    scale = max(np.abs(offsets).max(), np.abs(base).max()) or 1.0
    table, start = offsets / scale, base / scale
    return scale * min(
        float(np.linalg.norm(start + table[mask].sum(axis=0))) / (forced_count + int(mask.sum())) for mask in masks
    )


def nearest_single(offsets: Floats, base: Floats, forced_count: int) -> float:
    singles = [distance(offsets, base, forced_count, row) for row in np.eye(len(offsets), dtype=np.bool_)]
    return min(
        [*singles, *([distance(offsets, base, forced_count, np.zeros(len(offsets), np.bool_))] if forced_count else [])]
    )


def slack(offsets: Floats, base: Floats) -> float:
    return 1e-13 * max(float(np.abs(offsets).max()), float(np.abs(base).max()))


@settings(max_examples=40)
@given(problems())
def test_meet_on_grid_finds_the_nearest(problem: tuple[Floats, Floats, int]) -> None:
    found = distance(*problem, members(meet_on_grid(*problem), len(problem[0])))
    assert found == pytest.approx(brute(*problem), rel=1e-9, abs=slack(*problem[:2]))


@given(problems(), st.sampled_from([1e-300, 1e-150, 1e150, 1e290]))
def test_the_scale_does_not_matter(problem: tuple[Floats, Floats, int], scale: float) -> None:
    offsets, base, forced_count = problem
    offsets, base = np.clip(offsets, -10, 10), np.clip(base, -10, 10)
    found = distance(
        offsets, base, forced_count, members(meet_on_grid(offsets * scale, base * scale, forced_count), len(offsets))
    )
    assert found == pytest.approx(brute(offsets, base, forced_count), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("n", [16, 18, 20])
@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("shift", [0.1, 3.0])
@pytest.mark.parametrize("forced_count", [0, 3])
def test_meet_on_grid_agrees_with_an_exhaustive_search(n: int, dim: int, shift: float, forced_count: int) -> None:
    rng = RNG(n * dim)
    kinds = [
        rng.normal(size=(n, dim)),
        rng.integers(-3, 4, (n, dim)) / 7,
        np.repeat(rng.normal(size=(n // 2, dim)), 2, 0),
    ]
    for values in kinds:
        offsets, base = values - shift, (rng.normal(size=dim) if forced_count else np.zeros(dim))
        by_grid = distance(offsets, base, forced_count, members(meet_on_grid(offsets, base, forced_count), n))
        by_all = distance(offsets, base, forced_count, members(search_all_subsets(offsets, base, forced_count), n))
        assert by_grid == pytest.approx(by_all, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(
    ("offsets", "nearest"),
    [
        (np.full((30, 2), 0.3), 0.3 * np.sqrt(2)),
        (np.zeros((30, 3)), 0.0),
        (np.repeat([[1.0, 0.25], [1.0, -0.5], [2.0, 0.0]], 10, axis=0), 1.0),
        (np.outer(np.arange(1.0, 31.0), [1.0, 1.0]), np.sqrt(2)),
        (np.column_stack([np.ones(30), np.linspace(-1.0, 1.0, 30)]), 1.0),
        (RNG(5).normal(10.0, 1.0, (30, 2)) * [1.0, 1e-9] + [0.0, 1.0], None),
    ],
)
def test_repeated_and_one_sided_vectors_take_no_longer(offsets: Floats, nearest: float | None) -> None:
    n, dim = offsets.shape
    found = distance(offsets, np.zeros(dim), 0, members(meet_on_grid(offsets, np.zeros(dim), 0), n))
    if nearest is None:
        assert found <= nearest_single(offsets, np.zeros(dim), 0)
    else:
        assert found == pytest.approx(nearest, abs=1e-12)


@settings(max_examples=40)
@given(problems(most=60), st.integers(0, 2**64 - 1))
def test_a_search_is_never_worse_than_one_vector(problem: tuple[Floats, Floats, int], key: int) -> None:
    offsets, base, forced_count = problem
    chosen = search_grid(offsets[:40], base, forced_count, 0.0, np.uint64(key), 1)
    limit = nearest_single(offsets[:40], base, forced_count)
    assert distance(offsets[:40], base, forced_count, chosen) <= limit * (1 + 1e-9) + slack(offsets, base)


def test_a_search_is_reproducible_and_stops_at_its_tolerance() -> None:
    offsets, base = RNG(0).normal(size=(60, 3)) - 0.1, np.zeros(3)
    first, again, other, loose = (
        search_grid(offsets, base, 0, tolerance, np.uint64(key), 4)
        for tolerance, key in [(0.0, 1), (0.0, 1), (0.0, 2), (0.01, 1)]
    )
    assert (first == again).all()
    assert (first != other).any()
    assert distance(offsets, base, 0, first) < distance(offsets, base, 0, loose) <= 0.01


def test_a_search_of_few_vectors_ends_at_the_optimum() -> None:
    for seed in range(5):
        offsets, base = RNG(seed).normal(size=(24, 5)) - 0.1, np.zeros(5)
        by_search = distance(offsets, base, 0, search_grid(offsets, base, 0, 0.0, np.uint64(seed), 300))
        assert by_search == pytest.approx(distance(offsets, base, 0, members(meet_on_grid(offsets, base, 0), 24)))


def test_five_dimensions_come_within_two_thousandths() -> None:
    """The median optimum of 40 normal vectors: 2^40 subsets, a normal density and a ball of that size."""
    found = []
    for seed in range(30):
        offsets, base = RNG(seed).normal(size=(40, 5)) - 0.1, np.zeros(5)
        found.append(distance(offsets, base, 0, search_grid(offsets, base, 0, 2e-3, np.uint64(seed), EFFORT)))
    assert np.median(found) <= 2e-3
