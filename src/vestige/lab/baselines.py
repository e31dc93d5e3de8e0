"""The policies that most experiments compare: the window, the paper's algorithms, and `Mean` with each channel.

All of them run under `vestige.Stream`, which enforces retention whatever the policy does: held by
tests/stream/test_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from vestige import paper
from vestige.errors import ParameterError
from vestige.policies import Mean, Window
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.types import Floats

MakePolicy = Callable[[int], Policy]
"""From the dimension to a policy."""
Sample = Callable[[np.random.Generator, int], Floats]
"""From a random generator and a number of values to that many values; shape (n,)."""
RETENTION, LENGTH = 64, 8_192  # where kinds of data are compared


def _make_window(dim: int) -> Policy:
    return Window(Mean(dim))


def _make_mean(dim: int, channel: str) -> Policy:
    return Mean(dim, channel)


MEANS: dict[str, MakePolicy] = {
    "window": _make_window,
    "algorithm 1": paper.SimpleMean,
    "coordinate-wise": paper.CoordinateMean,
    "Mean, average": partial(_make_mean, channel="average"),
    "Mean, bits": partial(_make_mean, channel="bits"),
    "Mean, auto": partial(_make_mean, channel="auto"),
}
"""Policies that estimate a mean, by name."""


def is_feasible(name: str, dim: int, retention: int, max_choices: int = 16) -> bool:
    """Tell whether a policy can run at a retention in reasonable time.

    Args:
        name: one of `MEANS`.
        dim: dimension of the records.
        retention: retention of the stream, in records.
        max_choices: largest number of records among which an exhaustive search may choose.

    Returns:
        Whether the batch is large enough for the policy and small enough for its search.

    Example:
        >>> is_feasible("algorithm 1", 1, 64), is_feasible("algorithm 1", 1, 128)
        (True, False)
    """
    policy = MEANS[name](dim)
    batch = retention // 2
    choices = {"algorithm 1": batch / 2, "coordinate-wise": batch / 2 / dim}.get(name, 0)
    return policy.min_batch <= batch and choices <= max_choices


def run_stream(policy: Policy, rows: Floats, retention: int, rng: np.random.Generator) -> Floats:
    """Run a stream to its end.

    Args:
        policy: the policy of the stream.
        rows: the records that arrive; shape (n, columns).
        retention: retention of the stream, in records.
        rng: generator for the seed of the stream.

    Returns:
        The final answer, as an array of at least one dimension.

    Example:
        >>> run_stream(Mean(), np.ones((100, 1)), 64, np.random.default_rng(0))
        array([1.])
    """
    stream = Stream(policy, retention=retention, seed=AuditSeed(int(rng.integers(2**62))))
    stream.extend(rows)
    return np.atleast_1d(np.asarray(stream.estimate().value, np.float64))


def measure_kind(sample: Sample, policy: Policy, rng: np.random.Generator) -> dict[str, float]:
    """Measure the error of a policy on one kind of data.

    Args:
        sample: draws the data.
        policy: the policy of the stream.
        rng: generator for data and seed.

    Returns:
        The measurement `ratio`: the squared error as a multiple of that of all data.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> measure_kind(lambda rng, n: rng.normal(size=n), Mean(), rng)["ratio"] < 1.05
        True
    """
    rows = sample(rng, LENGTH)[:, None]
    return {"ratio": error_ratio(run_stream(policy, rows, RETENTION, rng), rows, float(rows.var()))}


def squared_norm(x: Floats) -> float:
    """Square the Euclidean norm of a vector.

    Args:
        x: the vector; shape (dim,).

    Returns:
        The sum of its squares.

    Example:
        >>> squared_norm(np.array([3.0, 4.0]))
        25.0
    """
    return float((x**2).sum())


def error_ratio(answer: Floats, rows: Floats, variance: float) -> float:
    """Estimate the mean squared error of an answer as a multiple of that of the mean of all rows.

    How far the answer is from that mean, and how far that mean is from the truth, are independent for normals if the
    answer moves with the data (Basu 1955, Sankhya 15, 377-380). So the two errors add up, and only the first has to be
    measured.

    Args:
        answer: the answer of a policy; shape (dim,).
        rows: all records that arrived; shape (n, dim).
        variance: variance of a row, summed over its coordinates.

    Returns:
        The ratio, at least 1.

    Raises:
        ParameterError: the answer is not a finite number for each column.

    Example:
        >>> error_ratio(np.array([0.5]), np.array([[0.0], [1.0]]), 0.25)
        1.0
    """
    if answer.shape != rows.shape[1:] or not np.isfinite(answer).all():
        said = "is not finite" if answer.shape == rows.shape[1:] else f"has {answer.size} numbers"
        raise ParameterError(
            f"the answer {said}, for records of {rows.shape[1]} columns; the experiments compare estimates of the mean "
            "of each column"
        )
    return 1.0 + squared_norm(answer - rows.mean(axis=0)) * len(rows) / variance
