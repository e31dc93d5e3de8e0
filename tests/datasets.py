"""Tables of many kinds, to compare statistics with numpy and pandas over all data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vestige import Stream
from vestige.estimate import E
from vestige.flights import flights
from vestige.policy import Policy
from vestige.types import Floats

COLUMNS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "lognormal": lambda rng, n: rng.lognormal(0.0, 1.5, n),
    "far from zero": lambda rng, n: 1e6 + rng.normal(size=n),
    "very far from zero": lambda rng, n: 1e10 + rng.normal(size=n),
    "tiny": lambda rng, n: 1e-100 * rng.normal(size=n),
    "whole numbers": lambda rng, n: rng.poisson(3.0, n).astype(np.float64),
    "rare": lambda rng, n: (rng.random(n) < 1e-3).astype(np.float64),
    "sorted": lambda rng, n: np.sort(rng.lognormal(size=n)),
    "drifting": lambda rng, n: rng.normal(size=n) + np.linspace(0.0, 50.0, n),
    "jumping": lambda rng, n: rng.normal(size=n) + 100.0 * (np.arange(n) > n // 2),
    "constant": lambda _, n: np.full(n, 7.3),
    "distances of flights": lambda _, n: flights("distance")[:n, 0],
    "departure delays": lambda _, n: flights("dep_delay")[:n, 0],
}
"""Columns of numbers, by what they are like."""


def make_column(name: str, n: int, seed: int = 0) -> Floats:
    """Draw a column of one kind."""
    return COLUMNS[name](np.random.default_rng(seed), n)


def run_with_requests(policy: Policy[E], rows: Floats, retention: int, share: float, seed: int = 0) -> Stream[E]:
    """Stream rows, while a share of the records of each batch cannot be kept because their removal was requested."""
    stream, rng = Stream(policy, retention=retention, seed=seed), np.random.default_rng(seed)
    batch = retention // 2
    for start in range(0, len(rows), batch):
        stream.extend(rows[start : start + batch - 1])
        waiting = np.arange(start + 1, stream.t + 1)
        stream.forget(rounds=waiting[rng.random(len(waiting)) < share])
        stream.extend(rows[start + batch - 1 : start + batch])
    return stream
