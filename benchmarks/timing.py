"""Timing: one row of the table, two tasks measured side by side in one run, and their ratio."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

IS_SHORT = bool(os.environ.get("VESTIGE_SHORT_BENCH"))
"""Whether this is a short round, which shows that all benchmarks run; its figures say nothing."""
T = TypeVar("T")


def choose(usual: T, short: T) -> T:
    """Return what applies: the usual size, or that of a short round.

    Args:
        usual: the size that gives figures.
        short: the size that only shows that it runs.

    Returns:
        One of both.
    """
    return short if IS_SHORT else usual


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison.

    Attributes:
        what: the task, with its size.
        ours: our figure, with its unit.
        peer: the peer's name and figure, or why there is none.
        ratio: how many times better ours is; None without a peer.
        goal: the smallest ratio that is acceptable.
    """

    what: str
    ours: str
    peer: str
    ratio: float | None
    goal: float


def time_alternately(
    ours: Callable[[], object], theirs: Callable[[], object], repeats: int = 9
) -> tuple[float, float, float]:
    """Return the median time of each task, and the median of the ratios of theirs to ours.

    The tasks alternate, after one run each that compiles and warms up, so that a machine that is slow for a while is
    slow for both.

    Args:
        ours: our task.
        theirs: the peer's task.
        repeats: number of timed runs of each.

    Returns:
        Seconds of ours, seconds of theirs, and the ratio.
    """
    pairs = []
    for _ in range(choose(repeats, 1) + 1):
        started = time.perf_counter()
        ours()
        between = time.perf_counter()
        theirs()
        pairs.append((between - started, time.perf_counter() - between))
    mine, other = zip(*pairs[1:], strict=True)
    return median(mine), median(other), median(b / a for a, b in pairs[1:])
