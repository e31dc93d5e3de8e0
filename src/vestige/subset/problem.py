"""A problem, checked, and its answer, measured in exact arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.errors import ParameterError
from vestige.types import Bools, Floats
from vestige.validation import check_floats

_LARGEST = 1e300
"""Larger numbers might have sums that are infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """A choice of records: which, their average, its distance from the target, and whether none is nearer.

    Attributes:
        mask: the records chosen; shape (n,).
        average: their average; shape (dim,), or () for one dimension.
        residual: l2 distance from the target.
        exact: whether it is proven that no other choice is nearer (to within 2^-59 of the sum of all offsets).
    """

    mask: Bools
    average: Floats | np.float64
    residual: float
    exact: bool


@dataclass(slots=True, eq=False)
class Problem:
    """What was asked, checked: `values` of shape (n, dim), `target` of shape (dim,), `forced` of shape (n,)."""

    values: Floats
    target: Floats
    forced: Bools
    flat: bool

    @property
    def free(self) -> NDArray[np.int64]:
        """The records that may be chosen or not."""
        return np.flatnonzero(~self.forced)

    @property
    def counted(self) -> int:
        """How many records must be in."""
        return int(np.count_nonzero(self.forced))

    @property
    def undecided(self) -> int:
        """How many records may be chosen or not."""
        return len(self.forced) - self.counted

    @property
    def dim(self) -> int:
        """How many numbers a record has."""
        return int(self.values.shape[1])

    def offsets(self) -> tuple[Floats, Floats]:
        """Offsets from the target, scaled so that squares neither overflow nor vanish; the sum of the forced ones."""
        offsets = self.values - self.target
        offsets /= np.abs(offsets).max() or 1.0
        return np.ascontiguousarray(offsets), offsets[self.forced].sum(axis=0)

    def chosen(self, word: int, free: NDArray[np.int64]) -> Bools:
        """The forced records and those of the `free` ones that the bit mask `word` names."""
        mask = self.forced.copy()
        mask[free] = (np.uint64(word) >> np.arange(len(free), dtype=np.uint64)) & np.uint64(1) == 1
        return mask

    def selection(self, mask: Bools, *, exact: bool) -> Selection:
        """The answer, measured: sums are rounded once."""
        columns = self.values.compress(mask, 0).T.tolist()
        count = len(columns[0])
        averages = [math.fsum(column) / count for column in columns]
        goals = self.target.tolist()
        gaps = [math.fsum(column + [-goal] * count) / count for column, goal in zip(columns, goals, strict=True)]
        mask.setflags(write=False)
        return Selection(mask, np.float64(averages[0]) if self.flat else np.array(averages), math.hypot(*gaps), exact)


def _all_within(numbers: Floats) -> bool:
    """Whether all are numbers that can be summed; if they are small, the sum of their squares says so at once."""
    return bool(np.vdot(numbers, numbers) <= _LARGEST or (np.abs(numbers) <= _LARGEST).all())


def check_problem(values: ArrayLike, target: ArrayLike, keep: ArrayLike | None) -> Problem:
    """The problem, or an error."""
    table = check_floats("values", values)
    goal = np.atleast_1d(check_floats("target", target))
    flat = table.ndim == 1
    table = table[:, None] if flat else table
    if table.ndim != 2 or not table.size:
        raise ParameterError(f"values has shape {np.shape(values)}; needs (n,) or (n, dim) with n >= 1")
    if goal.shape != (table.shape[1],):
        raise ParameterError(f"target has shape {np.shape(target)}; needs one number per dimension, {table.shape[1]}")
    if not (_all_within(table) and _all_within(goal)):
        raise ParameterError(
            f"values or target are not finite, or beyond {_LARGEST:.0e} in magnitude; drop or fill what is missing, "
            "or scale all by the same factor"
        )
    try:
        forced = np.zeros(len(table), np.bool_) if keep is None else np.asarray(keep)
    except ValueError:  # lists of different lengths
        forced = np.empty(0)
    if forced.dtype != np.bool_ or forced.shape != (len(table),):
        raise ParameterError(f"keep has shape {forced.shape}; needs a mask of {len(table)} booleans")
    return Problem(table, goal, forced, flat)
