"""Select the numbers whose average is nearest to a target: the public functions of `vestige.subset`."""

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
from vestige.subset.anytime import improving, search
from vestige.subset.problem import Selection, check_problem
from vestige.types import Floats
from vestige.validation import check_choice, check_float, check_floats, check_int

_LARGEST_SEED = 2**63 - 1
METHODS = {
    "auto": methods.auto,
    "exhaustive": methods.exhaustive,
    "grid": methods.grid,
    "lattice": methods.lattice,
    "meet": methods.meet,
    "search": search,
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
    """The nonempty subset of `values` whose average is nearest `target`.

    Args:
        values: shape (n,) or (n, dim).
        target: shape () or (dim,).
        tolerance: a residual of at most this is as good as zero: whatever reaches it first is returned.
        method: exact are `meet` (one dimension, up to 48 records), `grid` (several dimensions, few records), `lattice`
            (whole numbers, cents and the like, hundreds of records) and `exhaustive` (up to 26 records, for checking).
            `search` is good at once for any number of records. `auto` takes `lattice` where it applies and is not too
            large; else, where a tolerance is given, `search`; and where that misses it, or none is given, `meet` up to
            36 records, `grid` up to 30, 26, 20 in two, three, more dimensions, and `search` beyond.
        keep: which records must be in, as a mask of shape (n,).
        seed: the same seed gives the same selection.

    >>> chosen = nearest_average([1.0, 2.0, 4.0, 8.0], 3.3)
    >>> chosen.mask, float(chosen.average), chosen.exact
    (array([False,  True,  True, False]), 3.0, True)
    >>> nearest_average([1.0, 2.0, 4.0, 8.0], 3.3, keep=[False, False, False, True]).mask
    array([ True,  True, False,  True])
    """
    problem = check_problem(values, target, keep)
    check_float("tolerance", tolerance, lambda n: n >= 0.0, "0 for the nearest average there is, or more")
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
    """Many independent problems in one call, on all cores; see `nearest_average`.

    Args:
        values: the problems, each of shape (n,) or (n, dim); they may differ in n.
        targets: one for each.
        tolerance: the same for all.
        method: the same for all.
        seed: problem i gets the seed `seed + i`.

    >>> [float(chosen.average) for chosen in nearest_averages([[1.0, 2.0], [4.0, 6.0, 8.0]], [1.4, 7.1])]
    [1.5, 7.0]
    """
    goals = check_floats("targets", targets)
    if not isinstance(values, np.ndarray | Sequence) or isinstance(values, str | bytes) or np.ndim(goals) == 0:
        raise ParameterError("values or targets is not a list; pass an array of numbers and a target for each problem")
    check_float("tolerance", tolerance, lambda n: n >= 0.0, "0 for the nearest average there is, or more")
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
    """`search` for each row, in as many kernels as there are cores."""
    from vestige.subset.search import search_many  # noqa: PLC0415

    problems = [check_problem(row, goal, None) for row, goal in zip(values, goals, strict=True)]
    table = np.ascontiguousarray(values, np.float64)
    masks = np.zeros(table.shape, np.bool_)
    edges = np.linspace(0, len(table), (os.cpu_count() or 1) + 1).astype(int)
    parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
    list(pool.map(lambda p: search_many(table[p], goals[p], tolerance, seed + p.start, masks[p]), parts))
    return [problem.selection(mask, exact=False) for problem, mask in zip(problems, masks, strict=True)]


def improve(
    values: ArrayLike, target: ArrayLike, *, keep: ArrayLike | None = None, seed: int = 0
) -> Iterator[Selection]:
    """Ever better selections, for any number of records: good at once, better with time.

    Yields the best so far after every round. The first comes at once; the last is exact where that can be proven; else
    it goes on for as long as it is asked.
    The same seed gives the same sequence.

    >>> import itertools
    >>> values = np.random.default_rng(0).normal(size=100)
    >>> residuals = [chosen.residual for chosen in itertools.islice(improve(values, 0.1), 3)]
    >>> residuals == sorted(residuals, reverse=True)
    True
    """
    problem = check_problem(values, target, keep)
    check_int("seed", seed, 0, _LARGEST_SEED)
    return improving(problem, seed)
