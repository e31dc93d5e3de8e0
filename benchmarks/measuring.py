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


def seconds(task: Callable[[], object], repeats: int = 5) -> float:
    """The median time of `task`, after one run that compiles and warms up."""
    task()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        task()
        times.append(time.perf_counter() - started)
    return median(times)
