"""Each way to solve a problem, and `auto`, which chooses among them."""

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
_AT_ONCE = {1: 36, 2: 30, 3: 26}
"""Up to so many records, by dimension, `auto` is exact: it then takes milliseconds."""
_AT_ONCE_BEYOND = 20
_LATTICE_CELLS = 1 << 26


def auto(problem: Problem, tolerance: float, seed: int) -> Selection:
    """The way that suits: see `vestige.subset.nearest_average`."""
    from vestige.subset.anytime import search  # noqa: PLC0415

    found = _lattice_if_any(problem, seed) if problem.dim == 1 else None
    if found is not None:
        return found
    small = problem.undecided <= _AT_ONCE.get(problem.dim, _AT_ONCE_BEYOND)
    if tolerance > 0.0 or not small:
        near = search(problem, tolerance, seed)
        if near.residual <= tolerance or not small:
            return near
    return meet(problem, tolerance, seed) if problem.dim == 1 else grid(problem, tolerance, seed)


def exhaustive(problem: Problem, tolerance: float, seed: int) -> Selection:  # noqa: ARG001
    """By looking at every subset; ties go to the one with fewer records."""
    from vestige.subset.exhaustive import exhaustive as look_at_all  # noqa: PLC0415

    _limit(problem, EXHAUSTIVE_LIMIT, "exhaustive", "auto")
    return _solved(problem, look_at_all)


def meet(problem: Problem, tolerance: float, seed: int) -> Selection:  # noqa: ARG001
    """Exactly, in one dimension."""
    if problem.dim > 1:
        raise ParameterError(f"method='meet' takes one dimension, not {problem.dim}; use method='grid'")
    _limit(problem, MEET_LIMIT, "meet", "search")
    return problem.selection(met(problem, ~problem.forced, tolerance), exact=tolerance == 0.0)


def grid(problem: Problem, tolerance: float, seed: int) -> Selection:  # noqa: ARG001
    """Exactly, in several dimensions."""
    from vestige.subset.grid import grid_meet  # noqa: PLC0415

    if problem.dim == 1:
        raise ParameterError("method='grid' takes two dimensions or more; use method='meet'")
    _limit(problem, GRID_LIMIT, "grid", "search")
    return _solved(problem, grid_meet)


def lattice(problem: Problem, tolerance: float, seed: int) -> Selection:  # noqa: ARG001
    """Exactly, for values on a lattice."""
    if problem.dim > 1:
        raise ParameterError(f"method='lattice' takes one dimension, not {problem.dim}; use method='grid'")
    found = _lattice_if_any(problem, seed)
    if found is None:
        raise ParameterError(
            "method='lattice' needs values on a decimal lattice (to four places) that is not too large; "
            "use method='auto'"
        )
    return found


def met(problem: Problem, free: Bools, tolerance: float) -> Bools:
    """The best choice of the `free` records beside the forced ones, all others left out."""
    return _nearest_exactly()(problem.values[:, 0], problem.forced, free, float(problem.target[0]), tolerance)


@cache
def _nearest_exactly() -> Callable[[Floats, Bools, Bools, float, float], Bools]:
    """The kernel, imported once: an import statement takes a twentieth of the time of a call."""
    from vestige.subset.exact import nearest_exactly  # noqa: PLC0415

    return nearest_exactly


def _solved(problem: Problem, kernel: Callable[[Floats, Floats, int], np.uint64]) -> Selection:
    """What an exact kernel chooses of the free records, from offsets, the sum of the forced ones and their count."""
    free = problem.free
    offsets, base = problem.offsets()
    return problem.selection(problem.chosen(int(kernel(offsets[free], base, problem.counted)), free), exact=True)


def _limit(problem: Problem, most: int, method: str, instead: str) -> None:
    if len(problem.values) > most and problem.undecided > most:
        raise ParameterError(
            f"{problem.undecided} records to choose from are above the {most} that method={method!r} takes; "
            f"use method={instead!r}"
        )


def _lattice_if_any(problem: Problem, seed: int) -> Selection | None:
    """The nearest average on a lattice, proven; None where there is no lattice, or too large a one."""
    from vestige.subset.dynamic_program import settle  # noqa: PLC0415
    from vestige.subset.lattice import lay_steps, reach_bounds, scale_of  # noqa: PLC0415
    from vestige.subset.workspace import make_workspace, sort_order  # noqa: PLC0415

    values = np.ascontiguousarray(problem.values[:, 0])
    n = len(values)
    scale = scale_of(values, n)
    if scale == 0.0 or problem.forced.all():
        return None
    workspace = make_workspace(n)
    sort_order(values, n, workspace.order, workspace.spare)
    least, spacing = lay_steps(values, n, scale, workspace)
    order = workspace.order.copy()
    goal = (float(problem.target[0]) * scale - least) / spacing
    forced = problem.forced[order]
    base, free = int(workspace.steps[forced].sum()), int((~forced).sum())
    workspace.steps[:free] = workspace.steps[~forced]
    left = reach_bounds(workspace, free, goal, np.uint64(seed), base, problem.counted)
    if left and settle(workspace, free, goal, _LATTICE_CELLS, base, problem.counted):
        return None
    mask = problem.forced.copy()
    mask[order[~forced]] = workspace.inside[:free]
    return problem.selection(mask, exact=True)
