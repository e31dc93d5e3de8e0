"""The lattice searches against brute force, and against each other beyond it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.subset.dynamic_program import solve_dynamic_program
from vestige.subset.lattice import search_counts
from vestige.subset.workspace import Workspace, make_workspace
from vestige.types import Bools, Ints

RNG = np.random.default_rng
CELLS = 10_000_000


def make_steps(steps: Ints) -> Workspace:
    workspace = make_workspace(len(steps))
    workspace.steps[:] = np.sort(steps)
    return workspace


def residual(steps: Ints, inside: Bools, target: float, base: int = 0, forced_count: int = 0) -> Fraction:
    """How far the average of those inside, with those that must be in, is from the target; exact."""
    count = forced_count + int(inside.sum())
    return abs(Fraction(base + int(steps[inside].sum()), count) - Fraction(target))


def brute(steps: Ints, target: float, base: int, forced_count: int) -> Fraction:
    """The least residual of any choice that is not empty, in exact arithmetic."""
    sums = {(forced_count, base)}
    for step in steps.tolist():
        sums |= {(count + 1, total + step) for count, total in sums}
    return min(abs(Fraction(total, count) - Fraction(target)) for count, total in sums if count)


def start_poor(workspace: Workspace, forced_count: int) -> None:
    """Mark one record, or none where others must be in, so that the dynamic program has all to do."""
    workspace.inside[:] = False
    workspace.inside[0] = forced_count == 0


whole = st.one_of(
    st.lists(st.integers(0, 60), min_size=1, max_size=10),
    st.lists(st.sampled_from([0, 1, 30]), min_size=1, max_size=10),
    st.lists(st.sampled_from([0, 7]), min_size=1, max_size=10),
    st.lists(st.integers(0, 50_000), min_size=1, max_size=10),
)
targets = st.one_of(
    st.floats(-10, 80),
    st.integers(-5, 65).map(float),
    st.floats(-100, 60_000),
    st.sampled_from([0.5, 3.5, 1e18, -1e18]),
)
forced = st.one_of(
    st.just((0, 0)),
    st.tuples(st.integers(-500, 500), st.integers(1, 12)),
    st.tuples(st.integers(-(10**9), 10**9), st.integers(1, 5_000)),
)


@given(whole, targets, forced)
def test_exchanges_then_the_dynamic_program_find_the_nearest(
    values: list[int], target: float, must: tuple[int, int]
) -> None:
    workspace, n = make_steps(np.array(values)), len(values)
    least = brute(workspace.steps, target, *must)
    rank = search_counts(workspace, n, target, np.uint64(7), *must)
    found = residual(workspace.steps, workspace.inside, target, *must)
    slack = 1e-12 * max(1.0, float(found))
    assert found <= least + slack or rank > 0
    assert solve_dynamic_program(workspace, n, target, CELLS, *must) == 0
    assert residual(workspace.steps, workspace.inside, target, *must) <= least + slack


@given(whole, targets, forced)
def test_the_dynamic_program_needs_no_good_start(values: list[int], target: float, must: tuple[int, int]) -> None:
    workspace, n = make_steps(np.array(values)), len(values)
    search_counts(workspace, n, target, np.uint64(7), *must)
    start_poor(workspace, must[1])
    least = brute(workspace.steps, target, *must)
    assert solve_dynamic_program(workspace, n, target, CELLS, *must) == 0
    assert residual(workspace.steps, workspace.inside, target, *must) <= least + 1e-12 * max(1.0, float(least))


@pytest.mark.parametrize("forced_count", [0, 40])
def test_the_dynamic_program_agrees_with_exchanges_that_prove_the_optimum(forced_count: int) -> None:
    proven = 0
    for seed in range(20):
        rng = RNG(seed)
        workspace = make_steps(np.rint(rng.exponential(40.0, 256)).astype(np.int64))
        target = rng.uniform(5.0, 60.0)
        base = int(rng.integers(0, 3_000)) if forced_count else 0
        if search_counts(workspace, 256, target, np.uint64(seed), base, forced_count) == 0:
            proven += 1
            by_exchange = residual(workspace.steps, workspace.inside, target, base, forced_count)
            start_poor(workspace, forced_count)
            assert solve_dynamic_program(workspace, 256, target, CELLS, base, forced_count) == 0
            by_programme = residual(workspace.steps, workspace.inside, target, base, forced_count)
            assert float(by_programme) == pytest.approx(float(by_exchange), abs=1e-12)
    assert proven >= 15


@pytest.mark.parametrize("seed", range(12))
def test_the_dynamic_program_finds_what_exchanges_miss(seed: int) -> None:
    """Even steps and one odd one, or two values far apart: a given sum is rarely one exchange away."""
    rng = RNG(seed)
    steps = np.sort(np.append(2 * rng.integers(0, 30, 59), 31) if seed % 2 else rng.choice([0, 7, 700], 60))
    target = rng.uniform(0.0, steps[-1])
    least = brute(steps, target, 0, 0)
    workspace = make_workspace(len(steps))
    workspace.steps[:] = steps
    search_counts(workspace, len(steps), target, np.uint64(0), 0, 0)
    assert solve_dynamic_program(workspace, len(steps), target, 2**40, 0, 0) == 0
    assert residual(steps, workspace.inside, target) <= least + Fraction(1, 10**12)


def test_a_table_too_large_is_refused_and_leaves_what_was_found() -> None:
    workspace = make_steps(2 * RNG(0).integers(0, 10**8, 60))
    rank = search_counts(workspace, 60, 5e7 + 0.4, np.uint64(0))
    before = workspace.inside.copy()
    assert rank > 0
    assert solve_dynamic_program(workspace, 60, 5e7 + 0.4, 1_000, 0, 0) > 1_000
    assert (workspace.inside == before).all()


def test_nothing_is_chosen_only_where_what_must_be_in_is_best_alone() -> None:
    workspace = make_steps(np.array([10, 20]))
    assert search_counts(workspace, 2, 5.0, np.uint64(0), 15, 3) == 0
    assert not workspace.inside.any()
    assert search_counts(workspace, 2, 7.5, np.uint64(0), 20, 3) == 0
    assert workspace.inside.tolist() == [True, False]
