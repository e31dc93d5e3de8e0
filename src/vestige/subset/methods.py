"""Each method to solve a problem, and `auto`, which chooses among them.

Guarantee: the methods agree with each other and with brute force; held by tests/subset/test_subset.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from vestige.errors import ParameterError
from vestige.subset.problem import Problem, Selection
from vestige.types import Bools, Floats

EXHAUSTIVE_LIMIT = 26
MEET_LIMIT = 48
GRID_LIMIT = 36
_EXACT_LIMITS = {1: 36, 2: 30, 3: 26}
"""Largest number of records, by dimension, for which `auto` is exact; that takes milliseconds."""
_EXACT_LIMIT_BEYOND = 20
_LATTICE_CELLS = 1 << 26


def solve_auto(problem: Problem, tolerance: float, seed: int) -> Selection:
    """Solve by the method that suits the problem; see `vestige.subset.nearest_average`."""
    from vestige.subset.anytime import solve_by_search  # noqa: PLC0415

    selection = _solve_on_lattice(problem, seed) if problem.dim == 1 else None
    if selection is not None:
        return selection
    is_small = problem.free_count <= _EXACT_LIMITS.get(problem.dim, _EXACT_LIMIT_BEYOND)
    if tolerance > 0.0 or not is_small:
        near = solve_by_search(problem, tolerance, seed)
        if near.residual <= tolerance or not is_small:
            return near
    return solve_meet(problem, tolerance, seed) if problem.dim == 1 else solve_grid(problem, tolerance, seed)


def solve_exhaustive(problem: Problem, tolerance: float, seed: int) -> Selection:  # noqa: ARG001
    """Solve by trying every subset; ties go to the one with fewer records."""
    from vestige.subset.exhaustive import search_all_subsets  # noqa: PLC0415

    _check_size(problem, EXHAUSTIVE_LIMIT, "exhaustive", "auto")
    return _solve(problem, search_all_subsets)


def solve_meet(problem: Problem, tolerance: float, seed: int) -> Selection:  # noqa: ARG001
    """Solve exactly in one dimension."""
    if problem.dim > 1:
        raise ParameterError(f"method='meet' takes one dimension, not {problem.dim}; use method='grid'")
    _check_size(problem, MEET_LIMIT, "meet", "search")
    return problem.measure(choose_exactly(problem, ~problem.forced, tolerance), exact=tolerance == 0.0)


def solve_grid(problem: Problem, tolerance: float, seed: int) -> Selection:  # noqa: ARG001
    """Solve exactly in several dimensions."""
    from vestige.subset.grid import meet_on_grid  # noqa: PLC0415

    if problem.dim == 1:
        raise ParameterError("method='grid' takes two dimensions or more; use method='meet'")
    _check_size(problem, GRID_LIMIT, "grid", "search")
    return _solve(problem, meet_on_grid)


def solve_lattice(problem: Problem, tolerance: float, seed: int) -> Selection:  # noqa: ARG001
    """Solve exactly for values on a lattice."""
    if problem.dim > 1:
        raise ParameterError(f"method='lattice' takes one dimension, not {problem.dim}; use method='grid'")
    selection = _solve_on_lattice(problem, seed)
    if selection is None:
        raise ParameterError(
            "method='lattice' needs values on a decimal lattice (to four places) that is not too large; "
            "use method='auto'"
        )
    return selection


def choose_exactly(problem: Problem, free: Bools, tolerance: float) -> Bools:
    """Return the mask of the best choice of `free` records with the forced ones, all others left out."""
    return _exact_kernel()(problem.values[:, 0], problem.forced, free, float(problem.target[0]), tolerance)


@cache
def _exact_kernel() -> Callable[[Floats, Bools, Bools, float, float], Bools]:
    """Return the kernel; it is imported once, since an import statement takes a twentieth of the time of a call."""
    from vestige.subset.exact import find_nearest_exactly  # noqa: PLC0415

    return find_nearest_exactly


def _solve(problem: Problem, kernel: Callable[[Floats, Floats, int], np.uint64]) -> Selection:
    """Return what an exact kernel chooses, given the offsets, the sum of the forced records and their number."""
    free = problem.free
    offsets, base = problem.offsets()
    return problem.measure(problem.to_mask(int(kernel(offsets[free], base, problem.forced_count)), free), exact=True)


def _check_size(problem: Problem, most: int, method: str, instead: str) -> None:
    """Check that a method can handle the number of free records."""
    if len(problem.values) > most and problem.free_count > most:
        raise ParameterError(
            f"{problem.free_count} records to choose from are above the {most} that method={method!r} takes; "
            f"use method={instead!r}"
        )


def _solve_on_lattice(problem: Problem, seed: int) -> Selection | None:
    """Return the proven nearest average on a lattice; None if there is no lattice, or it is too large."""
    from vestige.subset.dynamic_program import solve_dynamic_program  # noqa: PLC0415
    from vestige.subset.lattice import find_scale, search_counts, write_steps  # noqa: PLC0415
    from vestige.subset.workspace import make_workspace, write_sort_order  # noqa: PLC0415

    values = np.ascontiguousarray(problem.values[:, 0])
    n = len(values)
    scale = find_scale(values, n)
    if scale == 0.0 or problem.forced.all():
        return None
    workspace = make_workspace(n)
    write_sort_order(values, n, workspace.order, workspace.spare)
    least, spacing = write_steps(values, n, scale, workspace)
    order = workspace.order.copy()
    goal = (float(problem.target[0]) * scale - least) / spacing
    forced = problem.forced[order]
    base, free = int(workspace.steps[forced].sum()), int((~forced).sum())
    workspace.steps[:free] = workspace.steps[~forced]
    left = search_counts(workspace, free, goal, np.uint64(seed), base, problem.forced_count)
    if left and solve_dynamic_program(workspace, free, goal, _LATTICE_CELLS, base, problem.forced_count):
        return None
    mask = problem.forced.copy()
    mask[order[~forced]] = workspace.inside[:free]
    return problem.measure(mask, exact=True)
