"""Selections that improve with time, for any number of records.

In one dimension, the search finds the best subset of more and more free records exactly; then of other choices of free
records, with some of the remaining ones fixed. In several dimensions it runs rounds of a grid search.
Guarantee: residuals never grow, and the last selection is exact where that can be proven; held by
tests/subset/test_subset.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vestige.random import keys
from vestige.random.generators import make_generator
from vestige.subset.methods import choose_exactly
from vestige.subset.problem import Problem, Selection
from vestige.types import Bools, Floats, Ints

_CHOICES = (16, 24, 32, 36, 40)
"""Numbers of free records in the first rounds; later rounds use the last."""


def solve_by_search(problem: Problem, tolerance: float, seed: int) -> Selection:
    """Solve a problem by the anytime search: fast, for any number of records.

    Args:
        problem: the problem.
        tolerance: residual at which the search stops.
        seed: the same seed gives the same selection.

    Returns:
        The best selection found.
    """
    n = len(problem.values)
    if problem.dim > 1 or problem.forced_count:
        best = None
        for _, best in zip(range(len(_CHOICES)), improve_selection(problem, seed), strict=False):
            if best.residual <= tolerance:
                break
        assert best is not None  # noqa: S101  # the generator yields at least once
        return best
    from vestige.subset.search import find_near_average  # noqa: PLC0415
    from vestige.subset.workspace import make_workspace  # noqa: PLC0415

    mask = np.zeros(n, np.bool_)
    values = np.ascontiguousarray(problem.values[:, 0])
    find_near_average(
        values, n, float(problem.target[0]), 0.0, tolerance, np.uint64(seed), True, make_workspace(n), mask
    )
    return problem.measure(mask, exact=False)


def improve_selection(problem: Problem, seed: int) -> Iterator[Selection]:
    """Yield the best selection so far after each round of the search.

    Args:
        problem: the problem.
        seed: the same seed gives the same sequence.

    Yields:
        Selections whose residuals never grow; the last one is exact where that can be proven.
    """
    best: Selection | None = None
    tries = _search_line if problem.dim == 1 else _search_space
    for mask, exact in tries(problem, seed):
        selection = problem.measure(mask, exact=exact)
        if best is None or exact or selection.residual < best.residual:
            best = selection
        yield best
        if exact or best.residual == 0.0:
            return


def _search_line(problem: Problem, seed: int) -> Iterator[tuple[Bools, bool]]:
    """Yield choices in one dimension, and whether each is exact.

    First the best subset of more and more free records, then of other choices of free records, with others fixed. The
    fixed records are balanced around the target, so they change the sum little and the count much.
    """
    offsets = problem.values[:, 0] - problem.target[0]
    free = problem.free
    nearest = free[[np.abs(offsets[free]).argmin()]] if len(free) else free
    yield choose_exactly(problem, _to_mask(nearest, len(offsets)), 0.0), len(free) <= 1
    for turn in itertools.count():
        rng = make_generator(seed, turn)
        size = min(len(free), _CHOICES[min(turn, len(_CHOICES) - 1)])
        chosen = _choose_around(offsets, free, size, rng if turn >= len(_CHOICES) else None)
        everyone = size == len(free)
        beside = problem.forced.copy()
        if not everyone and turn >= len(_CHOICES):
            beside[_choose_balanced(offsets, rng.permutation(np.setdiff1d(free, chosen)))] = True
        yield choose_exactly(replace(problem, forced=beside), _to_mask(chosen, len(offsets)), 0.0), everyone


def _to_mask(places: Ints, n: int) -> Bools:
    """Return the records at these indices as a mask over all `n`."""
    mask = np.zeros(n, np.bool_)
    mask[places] = True
    return mask


def _choose_around(offsets: Floats, free: Ints, size: int, rng: np.random.Generator | None) -> Ints:
    """Return `size` free records, half from each side of the target: the nearest, or random ones of twice as many."""
    sides = [free[offsets[free] < 0.0], free[offsets[free] >= 0.0]]
    take = min(len(sides[0]), max(size // 2, size - len(sides[1])))
    chosen = []
    for side, count in zip(sides, (take, size - take), strict=True):
        nearest = side[np.argsort(np.abs(offsets[side]), kind="stable")]
        chosen.append(nearest[:count] if rng is None else rng.permutation(nearest[: 2 * count])[:count])
    return np.concatenate(chosen)


def _choose_balanced(offsets: Floats, others: Ints) -> Ints:
    """Return as many of `others` as can be taken such that each brings the sum of offsets back towards zero."""
    below, above = list(others[offsets[others] < 0.0]), list(others[offsets[others] >= 0.0])
    total, taken = 0.0, []
    while above if total < 0.0 else below:
        taken.append((above if total < 0.0 else below).pop())
        total += offsets[taken[-1]]
    return np.array(taken, np.int64)


def _search_space(problem: Problem, seed: int) -> Iterator[tuple[Bools, bool]]:
    """Yield choices in several dimensions, none of them proven: rounds of the anytime grid search."""
    from vestige.subset.grid_search import EFFORT, search_grid  # noqa: PLC0415

    offsets, base = problem.offsets()
    free = problem.free
    for turn in itertools.count():
        key, effort = np.uint64(keys.draw(seed, turn)), min(4**turn, EFFORT)
        chosen = search_grid(offsets[free], base, problem.forced_count, 0.0, key, effort)
        mask = problem.forced.copy()
        mask[free] = chosen
        yield mask, False
