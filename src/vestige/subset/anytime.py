"""Ever better choices, for any number of records: good at once, better with time.

In one dimension, the best subset of ever more free records is found exactly; then of other choices of them, with some
of the others fixed beside them. In several, rounds of a grid search.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vestige.random import keys
from vestige.random.generators import make_generator
from vestige.subset.methods import met
from vestige.subset.problem import Problem, Selection
from vestige.types import Bools, Floats

_CHOICES = (16, 24, 32, 36, 40)
"""How many free records the anytime search takes at first; then the last of these again and again."""


def search(problem: Problem, tolerance: float, seed: int) -> Selection:
    """Good at once, for any number of records."""
    n = len(problem.values)
    if problem.dim > 1 or problem.counted:
        best = None
        for _, best in zip(range(len(_CHOICES)), improving(problem, seed), strict=False):
            if best.residual <= tolerance:
                break
        assert best is not None  # noqa: S101  # the first comes at once
        return best
    from vestige.subset.search import search  # noqa: PLC0415
    from vestige.subset.workspace import make_workspace  # noqa: PLC0415

    mask = np.zeros(n, np.bool_)
    values = np.ascontiguousarray(problem.values[:, 0])
    search(values, n, float(problem.target[0]), tolerance, np.uint64(seed), True, make_workspace(n), mask)
    return problem.selection(mask, exact=False)


def improving(problem: Problem, seed: int) -> Iterator[Selection]:
    """The best selection so far, after every round."""
    best: Selection | None = None
    tries = _choices_of_one if problem.dim == 1 else _choices_of_many
    for mask, exact in tries(problem, seed):
        selection = problem.selection(mask, exact=exact)
        if best is None or exact or selection.residual < best.residual:
            best = selection
        yield best
        if exact or best.residual == 0.0:
            return


def _choices_of_one(problem: Problem, seed: int) -> Iterator[tuple[Bools, bool]]:
    """In one dimension: the best of ever more free records, then of other choices, with others fixed beside them.

    What is fixed is balanced around the target, so that it changes the sum little and the count much.
    """
    offsets = problem.values[:, 0] - problem.target[0]
    free = problem.free
    nearest = free[[np.abs(offsets[free]).argmin()]] if len(free) else free
    yield met(problem, _mask_of(nearest, len(offsets)), 0.0), len(free) <= 1
    for turn in itertools.count():
        rng = make_generator(seed, turn)
        size = min(len(free), _CHOICES[min(turn, len(_CHOICES) - 1)])
        chosen = _around(offsets, free, size, rng if turn >= len(_CHOICES) else None)
        everyone = size == len(free)
        beside = problem.forced.copy()
        if not everyone and turn >= len(_CHOICES):
            beside[_balanced(offsets, rng.permutation(np.setdiff1d(free, chosen)))] = True
        yield met(replace(problem, forced=beside), _mask_of(chosen, len(offsets)), 0.0), everyone


def _mask_of(places: NDArray[np.int64], n: int) -> Bools:
    """The records at these places, as a mask over all."""
    mask = np.zeros(n, np.bool_)
    mask[places] = True
    return mask


def _around(offsets: Floats, free: NDArray[np.int64], size: int, rng: np.random.Generator | None) -> NDArray[np.int64]:
    """`size` free records, half from each side of the target: the nearest, or some of twice as many."""
    sides = [free[offsets[free] < 0.0], free[offsets[free] >= 0.0]]
    take = min(len(sides[0]), max(size // 2, size - len(sides[1])))
    chosen = []
    for side, count in zip(sides, (take, size - take), strict=True):
        nearest = side[np.argsort(np.abs(offsets[side]), kind="stable")]
        chosen.append(nearest[:count] if rng is None else rng.permutation(nearest[: 2 * count])[:count])
    return np.concatenate(chosen)


def _balanced(offsets: Floats, others: NDArray[np.int64]) -> NDArray[np.int64]:
    """As many of `others` as can be taken so that each brings the sum of their offsets back towards zero."""
    below, above = list(others[offsets[others] < 0.0]), list(others[offsets[others] >= 0.0])
    total, taken = 0.0, []
    while above if total < 0.0 else below:
        taken.append((above if total < 0.0 else below).pop())
        total += offsets[taken[-1]]
    return np.array(taken, np.int64)


def _choices_of_many(problem: Problem, seed: int) -> Iterator[tuple[Bools, bool]]:
    """In several dimensions: rounds of the anytime grid search."""
    from vestige.subset.grid_search import EFFORT, grid_search  # noqa: PLC0415

    offsets, base = problem.offsets()
    free = problem.free
    for turn in itertools.count():
        key, effort = np.uint64(keys.draw(seed, turn)), min(4**turn, EFFORT)
        chosen = grid_search(offsets[free], base, problem.counted, 0.0, key, effort)
        mask = problem.forced.copy()
        mask[free] = chosen
        yield mask, False
