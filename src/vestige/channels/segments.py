"""Averages in segments: every dim-th record is for one number, and the average of those that are kept is the number.

Sections 3.1 and 3.3 of Immorlica et al. (2024). The channel `average` ends each segment with two flags: a record that
is kept there says that the number is off, farther from its target than the answer can bear.
Guarantee: what is farther off than it may be is marked; held by tests/channels/test_channels.py.
"""

from __future__ import annotations

import numpy as np

from vestige._numba import kernel
from vestige.statistics.kernels import add_exactly
from vestige.subset.search import find_near_average
from vestige.subset.workspace import Workspace
from vestige.types import Bools, Floats

FLAGS = 2
"""The records at the end of a segment that can say that an average is off."""
FEWEST = 8
"""An average is chosen among this many records at least, or among all of a segment that has fewer."""


@kernel
def can_average(can: Bools, dim: int, flags: int) -> bool:
    """Tell whether each of `dim` segments has enough records for an average, and one for a flag if there are flags."""
    for i in range(dim):
        mine = can[i::dim]
        others = len(mine) - flags
        if others < 1 or (flags and not mine[others:].any()) or mine[:others].sum() < min(FEWEST, others):
            return False
    return True


@kernel
def write_average(
    values: Floats,
    can: Bools,
    target: float,
    low: float,
    near: float,
    key: np.uint64,
    persist: bool,
    workspace: Workspace,
    keep: Bools,
) -> float:
    """Keep records whose average is near `target + low`; return how far it is off."""
    usable = 0
    for i in range(len(values)):
        keep[i] = False
        if can[i]:
            workspace.values[usable], workspace.places[usable] = values[i], i
            usable += 1
    if not usable:
        return np.inf
    find_near_average(workspace.values, usable, target, low, near, key, persist, workspace, workspace.chosen)
    total, count = 0.0, 0
    for i in range(usable):
        keep[workspace.places[i]] = workspace.chosen[i]
        if workspace.chosen[i]:
            total += workspace.offsets[i]
            count += 1
    return abs(total) / count


@kernel
def write_near_averages(
    values: Floats,
    can: Bools,
    target: Floats,
    low: Floats,
    near: Floats,
    key: np.uint64,
    workspace: Workspace,
    keep: Bools,
) -> bool:
    """Keep records whose averages are within `near` of their targets; return whether there are such records."""
    dim = values.shape[1]
    for i in range(dim):
        mine = keep[i::dim]
        residual = write_average(
            values[i::dim, i], can[i::dim], target[i], low[i], near[i], key + np.uint64(i), False, workspace, mine
        )
        if not residual <= near[i]:
            return False
    return True


@kernel
def write_flagged_averages(
    values: Floats,
    can: Bools,
    target: Floats,
    low: Floats,
    near: Floats,
    far: Floats,
    off: Bools,
    key: np.uint64,
    workspace: Workspace,
    keep: Bools,
) -> None:
    """Keep the records whose averages are nearest their targets; a flag says which are off, or were before."""
    dim = values.shape[1]
    for i in range(dim):
        mine, segment = keep[i::dim], can[i::dim]
        others = len(mine) - FLAGS
        mine[:] = False
        residual = write_average(
            values[i::dim, i][:others],
            segment[:others],
            target[i],
            low[i],
            near[i],
            key + np.uint64(i),
            True,
            workspace,
            mine[:others],
        )
        if off[i] or not residual <= far[i]:
            for k in range(others, len(mine)):
                if not mine[others:].any():
                    mine[k] = segment[k]


@kernel
def read_averages(values: Floats, present: Bools, flags: int, numbers: Floats, off: Bools, rest: Floats) -> None:
    """Write the averages of the segments, which of them are flagged as off, and what is to be added to them.

    Differences from the first value are summed, so that a common offset costs no digits; nan if nothing is kept.
    """
    dim = values.shape[1]
    for i in range(dim):
        mine = present[i::dim]
        others = len(mine) - flags
        segment = values[i::dim, i]
        pivot, total, count = np.nan, 0.0, 0
        for j in range(others):
            if mine[j]:
                if count == 0:
                    pivot = segment[j]
                total += segment[j] - pivot
                count += 1
        numbers[i], rest[i] = add_exactly(pivot, total / max(count, 1))
        off[i] = mine[others:].any()
