"""The retention that a policy of one's own requires, measured in simulated streams where nothing can be predicted.

The policy is taken for an estimate of the mean of each column. Its error is that of the mean of all records, which is
known, and the distance from that mean, which is measured.
Guarantee: for a policy that can be predicted, the retention is close to the predicted one; held by
tests/planning/test_measurement.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from vestige.errors import ParameterError
from vestige.policies import Encoded, NamedPolicy
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.types import Floats

STREAMS = 40
_FEW, _HOPELESS = 6, 4.0
MAX_MEASURED = 200_000
"""Largest number of records of a simulated stream."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured at a retention.

    Attributes:
        retention: the retention.
        error: root mean square error, in standard deviations of a record.
        is_enough: whether it is within the target, also if the measured part is as large as chance leaves possible.
    """

    retention: int
    error: float
    is_enough: bool


def is_measured(policy: object) -> TypeGuard[Policy]:
    """Tell whether a policy has to be measured, because it does not say how its answer depends on a record.

    Args:
        policy: the policy.

    Returns:
        True for a policy of one's own; False for those of Vestige's statistics, and for what is not a policy.
    """
    if not isinstance(policy, Policy) or isinstance(policy, Encoded | NamedPolicy):
        return False
    return not policy.is_window and policy.unwrap() is policy


def find_measured(policy: Policy, rows: Floats, target: float, records: int) -> Measured | None:
    """Find the smallest retention that meets an error, to within a tenth: double the batch until it does, then bisect.

    Args:
        policy: the policy.
        rows: records to draw from with replacement; shape (n, columns).
        target: target error, in standard deviations of a record.
        records: number of records that will have arrived.

    Returns:
        What was measured there; None if no retention is enough.

    Raises:
        ParameterError: there are too many records, or the policy does not answer with a number for each column.
    """
    if records > MAX_MEASURED:
        raise ParameterError(
            f"records={records:,} is above {MAX_MEASURED:,}, the most for a policy whose error must be measured; use "
            "fewer, or a larger error"
        )

    def try_batch(batch: int) -> Measured:
        return _measure(policy, rows, 2 * batch, target, records)

    least, most = policy.min_batch, min(policy.max_batch or records, records)
    batch, found = least, try_batch(least)
    while not found.is_enough:
        if batch >= most:
            return None
        batch = min(2 * batch, most)
        found = try_batch(batch)
    below = max(batch // 2, least)
    while batch - below > max(1, batch // 10):
        middle = (batch + below) // 2
        tried = try_batch(middle)
        below, batch, found = (below, middle, tried) if tried.is_enough else (middle, batch, found)
    return found


def _measure(policy: Policy, rows: Floats, retention: int, target: float, records: int) -> Measured:
    """The error in some streams; in a few only, if it is far beyond the target."""
    allowed, scale = target**2 - 1.0 / records, rows.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    squares: list[float] = []
    for trial in range(STREAMS):
        drawn = rows[make_generator(trial, 5).integers(len(rows), size=records)]
        squares.append(float((((_answer(policy, drawn, retention, trial) - drawn.mean(axis=0)) / scale) ** 2).mean()))
        if len(squares) == _FEW and np.mean(squares) > _HOPELESS * allowed:
            break
    added = float(np.mean(squares))
    unsure = 1.0 + 2.0 * math.sqrt(2.0 / (len(squares) * rows.shape[1]))
    return Measured(retention, math.sqrt(1.0 / records + added), unsure * added <= allowed)


def _answer(policy: Policy, rows: Floats, retention: int, seed: int) -> Floats:
    stream = Stream(policy, retention=retention, seed=AuditSeed(seed))
    stream.extend(rows)
    answer = np.ravel(np.asarray(stream.estimate().value, np.float64))
    if answer.shape != rows.shape[1:]:
        raise ParameterError(
            f"{type(policy).__name__} answers with {answer.size} numbers for {rows.shape[1]} columns; a plan measures "
            "policies that answer with the mean of each column"
        )
    return answer
