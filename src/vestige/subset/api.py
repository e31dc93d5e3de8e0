"""Select the numbers whose average is nearest to a target: the public functions of `vestige.subset`.

Guarantee: selections that are marked `exact` agree with brute force; held by tests/subset/test_subset.py.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import ParameterError
from vestige.subset import methods
from vestige.subset.anytime import improve_selection, solve_by_search
from vestige.subset.problem import Selection, make_problem
from vestige.types import Floats
from vestige.validation import check_choice, check_float, check_floats, check_int

_LARGEST_SEED = 2**63 - 1
METHODS = {
    "auto": methods.solve_auto,
    "exhaustive": methods.solve_exhaustive,
    "grid": methods.solve_grid,
    "lattice": methods.solve_lattice,
    "meet": methods.solve_meet,
    "search": solve_by_search,
}


def nearest_average(
    values: ArrayLike,
    target: ArrayLike,
    *,
    tolerance: float = 0.0,
    method: str = "auto",
    keep: ArrayLike | None = None,
    seed: int = 0,
) -> Selection:
    """Find the nonempty subset of `values` whose average is nearest `target`.

    Args:
        values: the numbers or vectors to choose from; shape (n,) or (n, dim).
        target: the wanted average; shape () or (dim,).
        tolerance: residual that is good enough: the first selection within it is returned; default: 0, the nearest.
        method: one of `auto`, `meet`, `grid`, `lattice`, `search` and `exhaustive`. Exact are `meet` (one dimension, up
            to 48 records), `grid` (several dimensions, up to 36 records), `lattice` (whole numbers, cents and the like,
            hundreds of records) and `exhaustive` (up to 26 records, for checking). `search` is fast for any number of
            records. `auto` uses `lattice` where it applies and is not too large; with a tolerance, `search`; without
            one, or where that misses it, `meet` up to 36 records, `grid` up to 30, 26, 20 records in two, three, more
            dimensions, and `search` beyond.
        keep: mask of the records that must be in the subset, shape (n,); default: none.
        seed: the same seed gives the same selection.

    Returns:
        The selection: its mask, average, residual, and whether it is proven to be the nearest.

    Raises:
        ParameterError: if shapes do not fit, a value is not finite, or the method cannot handle the problem.

    Example:
        >>> chosen = nearest_average([1.0, 2.0, 4.0, 8.0], 3.3)
        >>> chosen.mask, float(chosen.average), chosen.exact
        (array([False,  True,  True, False]), 3.0, True)
        >>> nearest_average([1.0, 2.0, 4.0, 8.0], 3.3, keep=[False, False, False, True]).mask
        array([ True,  True, False,  True])
    """
    problem = make_problem(values, target, keep)
    check_float("tolerance", tolerance, lambda n: n >= 0.0, "0 for the nearest average, or more")
    check_int("seed", seed, 0, _LARGEST_SEED)
    return METHODS[check_choice("method", method, METHODS)](problem, tolerance, seed)


def nearest_averages(
    values: Sequence[ArrayLike] | Floats,
    targets: ArrayLike,
    *,
    tolerance: float = 0.0,
    method: str = "auto",
    seed: int = 0,
) -> list[Selection]:
    """Solve many independent problems in one call, on all cores; see `nearest_average`.

    Args:
        values: the problems, each of shape (n,) or (n, dim); they may differ in n.
        targets: one target per problem; shape (problems,) or (problems, dim).
        tolerance: see `nearest_average`; the same for all problems.
        method: see `nearest_average`; the same for all problems.
        seed: problem i gets the seed `seed + i`.

    Returns:
        One selection per problem.

    Raises:
        ParameterError: if there is not one target per problem, or a problem is invalid.

    Example:
        >>> [float(chosen.average) for chosen in nearest_averages([[1.0, 2.0], [4.0, 6.0, 8.0]], [1.4, 7.1])]
        [1.5, 7.0]
    """
    goals = check_floats("targets", targets)
    is_list = isinstance(values, np.ndarray | Sequence) and not isinstance(values, str | bytes)
    if not is_list or np.ndim(goals) == 0 or (isinstance(values, np.ndarray) and values.ndim == 0):
        raise ParameterError("values or targets is not a list; pass an array of numbers and a target for each problem")
    check_float("tolerance", tolerance, lambda n: n >= 0.0, "0 for the nearest average, or more")
    check_choice("method", method, METHODS)
    if len(values) != len(goals):
        raise ParameterError(f"targets has {len(goals)} entries for {len(values)} problems; needs one each")
    check_int("seed", seed, 0, _LARGEST_SEED)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        if method == "search" and isinstance(values, np.ndarray) and values.ndim == 2:
            return _search_many(values, goals, tolerance, seed, pool)
        solve = partial(nearest_average, tolerance=tolerance, method=method)
        return list(pool.map(lambda i: solve(values[i], goals[i], seed=seed + i), range(len(goals))))


def _search_many(
    values: Floats, goals: Floats, tolerance: float, seed: int, pool: ThreadPoolExecutor
) -> list[Selection]:
    """Apply `search` to each row, with one kernel call per core."""
    from vestige.subset.search import find_near_averages  # noqa: PLC0415

    problems = [make_problem(row, goal, None) for row, goal in zip(values, goals, strict=True)]
    table = np.ascontiguousarray(values, np.float64)
    masks = np.zeros(table.shape, np.bool_)
    edges = np.linspace(0, len(table), (os.cpu_count() or 1) + 1).astype(int)
    parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
    list(pool.map(lambda p: find_near_averages(table[p], goals[p], tolerance, seed + p.start, masks[p]), parts))
    return [problem.measure(mask, exact=False) for problem, mask in zip(problems, masks, strict=True)]


def improve(
    values: ArrayLike, target: ArrayLike, *, keep: ArrayLike | None = None, seed: int = 0
) -> Iterator[Selection]:
    """Yield selections that improve with time, for any number of records.

    Args:
        values: the numbers or vectors to choose from; shape (n,) or (n, dim).
        target: the wanted average; shape () or (dim,).
        keep: mask of the records that must be in the subset, shape (n,); default: none.
        seed: the same seed gives the same sequence.

    Returns:
        An iterator over the best selection so far after each round. The first comes at once. The last one is exact
        where that can be proven; otherwise the iterator is endless.

    Raises:
        ParameterError: if shapes do not fit, or a value is not finite.

    Example:
        >>> import itertools
        >>> values = np.random.default_rng(0).normal(size=100)
        >>> residuals = [chosen.residual for chosen in itertools.islice(improve(values, 0.1), 3)]
        >>> residuals == sorted(residuals, reverse=True)
        True
    """
    problem = make_problem(values, target, keep)
    check_int("seed", seed, 0, _LARGEST_SEED)
    return improve_selection(problem, seed)
