"""Who is on trial in most experiments: the window, the paper's algorithms, and `Mean` with each channel.

All run under `vestige.Stream`, which holds them to the rules, whatever they claim to be: held by
tests/stream/test_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from vestige import paper
from vestige.policies import Mean, Window
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.types import Floats

Maker = Callable[[int], Policy]
Draw = Callable[[np.random.Generator, int], Floats]
"""So many numbers of some kind."""
RETENTION, LENGTH = 64, 8_192  # where kinds of data are compared


def _window(dim: int) -> Policy:
    return Window(Mean(dim))


def _mean(dim: int, channel: str) -> Policy:
    return Mean(dim, channel)


MEANS: dict[str, Maker] = {
    "window": _window,
    "algorithm 1": paper.SimpleMean,
    "coordinate-wise": paper.CoordinateMean,
    "Mean, average": partial(_mean, channel="average"),
    "Mean, bits": partial(_mean, channel="bits"),
    "Mean, auto": partial(_mean, channel="auto"),
}
"""A policy for so many dimensions, by name."""


def fits(name: str, dim: int, retention: int, most: int = 16) -> bool:
    """Whether a contender can work with this retention, and chooses among at most `most` records where it tries all."""
    policy = MEANS[name](dim)
    batch = retention // 2
    choices = {"algorithm 1": batch / 2, "coordinate-wise": batch / 2 / dim}.get(name, 0)
    return policy.min_batch <= batch and choices <= most


def answered(policy: Policy, rows: Floats, retention: int, rng: np.random.Generator) -> Floats:
    """What a stream of these rows says in the end."""
    stream = Stream(policy, retention=retention, seed=AuditSeed(int(rng.integers(2**62))))
    stream.extend(rows)
    return np.atleast_1d(np.asarray(stream.estimate().value, np.float64))


def on_kind(draw: Draw, policy: Policy, rng: np.random.Generator) -> dict[str, float]:
    """The error of an answer over that of all data, on a stream of one kind."""
    rows = draw(rng, LENGTH)[:, None]
    return {"ratio": over_all_data(answered(policy, rows, RETENTION, rng), rows, float(rows.var()))}


def squared(x: Floats) -> float:
    """The squared length of a vector."""
    return float((x**2).sum())


def over_all_data(answer: Floats, rows: Floats, variance: float) -> float:
    """The mean squared error that an answer stands for, over that of the mean of all rows.

    How far an answer is from that mean, and how far the mean is off, are independent for normals, where the answer
    moves with the data (Basu's theorem). So the errors add up, and the second need not be measured.

    Args:
        answer: shape (dim,).
        rows: all that arrived; shape (n, dim).
        variance: of a row, all coordinates together.
    """
    return 1.0 + squared(answer - rows.mean(axis=0)) * len(rows) / variance
