"""One row of the table: two things measured side by side in one run, and their ratio."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Row:
    """What was compared, how each fared, and the ratio that is claimed.

    Attributes:
        what: the task, with its size.
        ours: our figure, with its unit.
        peer: the peer's name and figure, or why there is none.
        ratio: how many times better ours is; None without a peer.
        goal: the least ratio that we want.
    """

    what: str
    ours: str
    peer: str
    ratio: float | None
    goal: float


def in_turns(ours: Callable[[], object], theirs: Callable[[], object], repeats: int = 9) -> tuple[float, float, float]:
    """The median time of each task, and the median of their ratios, theirs over ours.

    They run in turns, after one run each that compiles and warms up: then a machine that is slow for a while is slow
    for both.
    """
    pairs = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        ours()
        between = time.perf_counter()
        theirs()
        pairs.append((between - started, time.perf_counter() - between))
    mine, other = zip(*pairs[1:], strict=True)
    return median(mine), median(other), median(b / a for a, b in pairs[1:])
