"""Which of these numbers have an average nearest this target? Arrays in, mask out; nothing here knows of records.

The nearest *average* is not the nearest *sum*: the sum favours tiny subsets, and on whole numbers it is a disaster.
Guarantee: methods that say `exact` are checked against brute force in tests/subset/test_subset.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import ParameterError, whole_number
from vestige.records import Bools, Floats

METHODS = ("auto", "exhaustive", "lattice", "meet", "search")
EXHAUSTIVE_LIMIT = 26
_MEET_LIMIT = 44
_MEET_AT_ONCE = 30
_LATTICE_CELLS = 50_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """A choice of records: which, their average, its distance from the target, and whether none is nearer.

    Attributes:
        mask: the records chosen; shape (n,).
        average: their average; shape (dim,), or () for one dimension.
        residual: l2 distance from the target.
        exact: whether it is proven that no nonempty subset is nearer.
    """

    mask: Bools
    average: Floats
    residual: float
    exact: bool


def nearest_average(
    values: ArrayLike, target: ArrayLike, *, tolerance: float = 0.0, method: str = "auto", seed: int = 0
) -> Selection:
    """The nonempty subset of `values` whose average is nearest `target`.

    Args:
        values: shape (n,) or (n, dim).
        target: shape () or (dim,).
        tolerance: `meet` and `search` stop as soon as the residual is at most this.
        method: `exhaustive` looks at all subsets, in any dimension, up to 26 records; `meet` is exact for up to 44 in
            one dimension; `lattice` is exact for whole numbers, cents and the like; `search` tries choices of 24
            records until the tolerance is met. `auto` takes `lattice` where it applies, else `meet` up to 30 records,
            else `search`; in several dimensions `exhaustive`.
        seed: the same seed gives the same selection.

    >>> chosen = nearest_average([1.0, 2.0, 4.0, 8.0], 3.3)
    >>> chosen.mask, float(chosen.average), chosen.exact
    (array([False,  True,  True, False]), 3.0, True)
    """
    table, goal = _checked(values, target, tolerance, method)
    whole_number("seed", seed, 0)
    if table.shape[1] > 1 or method == "exhaustive":
        mask, exact = _exhaustive(table - goal), True
    else:
        mask, exact = _one_dimension(np.ascontiguousarray(table[:, 0]), float(goal[0]), tolerance, method, seed)
    mask.flags.writeable = False
    count = int(mask.sum())
    average = np.array([math.fsum(column) / count for column in table[mask].T])
    residual = _norm(np.array([_sum_of_differences(table[mask, i], goal[i]) / count for i in range(len(goal))]))
    return Selection(mask, average if np.ndim(values) == 2 else average[0], residual, exact)


def _checked(values: ArrayLike, target: ArrayLike, tolerance: float, method: str) -> tuple[Floats, Floats]:
    """`values` as (n, dim) and `target` as (dim,), or an error."""
    table = np.asarray(values, np.float64)
    goal = np.atleast_1d(np.asarray(target, np.float64))
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or not table.size:
        raise ParameterError(f"values has shape {np.shape(values)}; needs (n,) or (n, dim) with n >= 1")
    if goal.shape != (table.shape[1],):
        raise ParameterError(f"target has shape {np.shape(target)}; needs one number per dimension, {table.shape[1]}")
    if not (np.isfinite(table).all() and np.isfinite(goal).all()):
        raise ParameterError("values or target are not finite; drop or fill what is missing")
    if not tolerance >= 0.0:
        raise ParameterError(f"tolerance={tolerance} is below 0; use 0 for the nearest average there is")
    if method not in METHODS:
        raise ParameterError(f"method={method!r} is unknown; use one of {', '.join(METHODS)}")
    return table, goal


def _sum_of_differences(values: Floats, target: float) -> float:
    """The sum of `values` less `target` each, rounded once."""
    return math.fsum([*values, *([-target] * len(values))])


def _norm(vector: Floats) -> float:
    """The l2 norm, safe from overflow and underflow of squares."""
    scale = float(np.abs(vector).max())
    return scale * float(np.linalg.norm(vector / scale)) if scale else 0.0


def _members(word: int, n: int) -> Bools:
    """The bit mask `word` as an array of n booleans."""
    members: Bools = (np.uint64(word) >> np.arange(n, dtype=np.uint64)) & np.uint64(1) == 1
    return members


def _exhaustive(offsets: Floats) -> Bools:
    """By looking at every subset."""
    from vestige.subset.exhaustive import exhaustive  # noqa: PLC0415

    n = len(offsets)
    if n > EXHAUSTIVE_LIMIT:
        raise ParameterError(
            f"{n} records to choose from are above the {EXHAUSTIVE_LIMIT} that an exhaustive search takes; "
            "use fewer records, or one coordinate at a time"
        )
    scale = np.abs(offsets).max() or 1.0  # so that squares neither overflow nor vanish
    return _members(int(exhaustive(np.ascontiguousarray(offsets / scale))), n)


def _one_dimension(values: Floats, target: float, tolerance: float, method: str, seed: int) -> tuple[Bools, bool]:
    """Dispatch to a kernel: the mask, and whether it is proven optimal."""
    from vestige.subset.desk import make_desk  # noqa: PLC0415
    from vestige.subset.fixed import to_fixed  # noqa: PLC0415
    from vestige.subset.meet import meet  # noqa: PLC0415
    from vestige.subset.search import search  # noqa: PLC0415

    n = len(values)
    if method in ("auto", "lattice"):
        found = _lattice(values, target, seed, must=method == "lattice")
        if found is not None:
            return found, True
    if method == "meet" or (method == "auto" and n <= _MEET_AT_ONCE):
        if n > _MEET_LIMIT:
            raise ParameterError(
                f"{n} records are above the {_MEET_LIMIT} that method='meet' takes; use method='search'"
            )
        fixed, unit = to_fixed(values, target)
        return _members(int(meet(fixed, 0, 0, tolerance / unit)), n), tolerance == 0.0
    mask = np.zeros(n, np.bool_)
    search(values, n, target, tolerance, np.uint64(seed), True, make_desk(n), mask)
    return mask, False


def _lattice(values: Floats, target: float, seed: int, *, must: bool) -> Bools | None:
    """The nearest average on a lattice, proven; None where there is no lattice, or too large a one."""
    from vestige.subset.desk import make_desk, sort_order  # noqa: PLC0415
    from vestige.subset.lattice import complete, lay_steps, reach_bounds, scale_of  # noqa: PLC0415

    n = len(values)
    scale = scale_of(values, n)
    if scale == 0.0:
        if must:
            raise ParameterError(
                "method='lattice' needs values on a decimal lattice (to four places); use method='auto'"
            )
        return None
    desk = make_desk(n)
    sort_order(values, n, desk.order, desk.spare)
    least, spacing = lay_steps(values, n, scale, desk)
    goal = (target * scale - least) / spacing
    inside = desk.inside
    if reach_bounds(desk, n, goal, np.uint64(seed)) > 0:
        cells = (n + 1) * (int(desk.steps.sum()) + 1)
        if cells > _LATTICE_CELLS:
            if must:
                raise ParameterError(
                    f"method='lattice' would need {cells:,} cells, above {_LATTICE_CELLS:,}; use method='search'"
                )
            return None
        inside = complete(desk.steps, goal)
    mask = np.zeros(n, np.bool_)
    mask[desk.order] = inside
    return mask
