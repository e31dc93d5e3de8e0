"""A validated problem, and its answer, measured in exact arithmetic.

Guarantee: a residual is rounded once; held by tests/subset/test_subset.py in rational arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import ParameterError
from vestige.types import Bools, Floats, Ints
from vestige.validation import check_floats

_LARGEST = 1e300
"""Sums of larger numbers could overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """A choice of records.

    Attributes:
        mask: which records are chosen; shape (n,).
        average: their average; shape (dim,), or () in one dimension.
        residual: l2 distance of the average from the target.
        exact: whether it is proven that no other choice is nearer (to within 2^-59 of the sum of all offsets).

    Example:
        >>> from vestige.subset import nearest_average
        >>> nearest_average([1.0, 2.0, 4.0], 3.0).mask
        array([False,  True,  True])
    """

    mask: Bools
    average: Floats | np.float64
    residual: float
    exact: bool


@dataclass(slots=True, eq=False)
class Problem:
    """A validated problem.

    Attributes:
        values: the records; shape (n, dim).
        target: the wanted average; shape (dim,).
        forced: which records must be chosen; shape (n,).
        is_flat: whether the values were given as shape (n,).
    """

    values: Floats
    target: Floats
    forced: Bools
    is_flat: bool

    @property
    def free(self) -> Ints:
        """Indices of the records that may be chosen or not."""
        return np.flatnonzero(~self.forced)

    @property
    def forced_count(self) -> int:
        """Number of records that must be chosen."""
        return int(np.count_nonzero(self.forced))

    @property
    def free_count(self) -> int:
        """Number of records that may be chosen or not."""
        return len(self.forced) - self.forced_count

    @property
    def dim(self) -> int:
        """Number of values per record."""
        return int(self.values.shape[1])

    def offsets(self) -> tuple[Floats, Floats]:
        """Return the offsets from the target, scaled to at most 1 in magnitude, and the sum of the forced ones."""
        offsets = self.values - self.target
        offsets /= np.abs(offsets).max() or 1.0
        return np.ascontiguousarray(offsets), offsets[self.forced].sum(axis=0)

    def to_mask(self, word: int, free: Ints) -> Bools:
        """Return a mask of the forced records and of those `free` ones whose bits are set in `word`."""
        mask = self.forced.copy()
        mask[free] = (np.uint64(word) >> np.arange(len(free), dtype=np.uint64)) & np.uint64(1) == 1
        return mask

    def measure(self, mask: Bools, *, exact: bool) -> Selection:
        """Return the selection for a mask, with average and residual measured by sums that are rounded once."""
        columns = self.values.compress(mask, 0).T.tolist()
        count = len(columns[0])
        averages = [math.fsum(column) / count for column in columns]
        goals = self.target.tolist()
        gaps = [math.fsum(column + [-goal] * count) / count for column, goal in zip(columns, goals, strict=True)]
        mask.setflags(write=False)
        return Selection(
            mask, np.float64(averages[0]) if self.is_flat else np.array(averages), math.hypot(*gaps), exact
        )


def _are_summable(numbers: Floats) -> bool:
    """Return whether all numbers can be summed; for small numbers the sum of squares tells at once."""
    return bool(np.vdot(numbers, numbers) <= _LARGEST or (np.abs(numbers) <= _LARGEST).all())


def make_problem(values: ArrayLike, target: ArrayLike, keep: ArrayLike | None) -> Problem:
    """Return the problem that arguments of `nearest_average` state.

    Args:
        values: shape (n,) or (n, dim).
        target: shape () or (dim,).
        keep: mask of the records that must be chosen, shape (n,); default: none.

    Returns:
        The problem.

    Raises:
        ParameterError: if shapes do not fit, or numbers are not finite or too large.
    """
    table = check_floats("values", values)
    goal = np.atleast_1d(check_floats("target", target))
    is_flat = table.ndim == 1
    table = table[:, None] if is_flat else table
    if table.ndim != 2 or not table.size:
        raise ParameterError(f"values has shape {np.shape(values)}; needs (n,) or (n, dim) with n >= 1")
    if goal.shape != (table.shape[1],):
        raise ParameterError(f"target has shape {np.shape(target)}; needs one number per dimension, {table.shape[1]}")
    if not (_are_summable(table) and _are_summable(goal)):
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
    return Problem(table, goal, forced, is_flat)
