"""What a process does with keyed streams, done once in memory, so that nobody waits while kernels are compiled.

Compiling takes up to a minute on a new installation, and loading from the cache seconds. Who does either while it
writes holds the store, so that rows, answers and erasures wait.
Guarantee: after it, rows of a service, erasures by age and the commits of a run by key need no kernel that is not
loaded; held by tests/service/test_rehearsal.py and tests/ingest/test_rehearsal.py.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from vestige.keyed.streams import KeyedStreams
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.store import MemoryStore
from vestige.times import wall_clock
from vestige.types import Floats

_MOST = 512
"""Largest retention that is rehearsed; larger batches run the same kernels."""
_AGE = timedelta(hours=1)
_STEPS = 12
"""The age that is rehearsed, and the number of steps in which records come to it."""


def rehearse(policy: Policy, retention: int | None, *, is_timed: bool = False) -> None:
    """Take rows of one key over several batches, write them, and answer; read them again; and erase what is too old.

    Args:
        policy: the policy of the streams.
        retention: their retention; None for limits in time alone.
        is_timed: whether records are erased by their age.

    Example:
        >>> from vestige import Mean
        >>> rehearse(Mean(), 96)
    """
    used = max(2 * policy.min_batch, min(retention or _MOST, _MOST))
    rows, age = make_generator(0).integers(0, 2, (2 * used, policy.columns)).astype(float), _AGE if is_timed else None
    with MemoryStore() as store:
        streams = KeyedStreams(policy, retention=used, max_age=age, seed=AuditSeed(0), store=store.family())
        for part in (rows[:1], rows[1 : used + 1], rows[used + 1 :]):  # one row, several batches, and from what is held
            streams.extend(["a"] * len(part), part, subjects=["p"] * len(part))
            streams.flush()
        streams.estimates(["a"])
        streams.counts(["a"])
        if is_timed:
            _take_over_hours(streams, rows)
        # the next process reads what this one has written
        later = KeyedStreams(policy, retention=used, max_age=age, seed=AuditSeed(0), store=store.family())
        later.extend(["a"], rows[:1], subjects=["p"])
        later.flush()


def _take_over_hours(streams: KeyedStreams, rows: Floats) -> None:
    """Take few and many rows over three ages, with removals between: batches are full, closed early, or too old."""
    begun, coins = wall_clock() - 4 * _AGE, make_generator(1)
    for step in range(3 * _STEPS):
        at = begun + step * _AGE / _STEPS
        part = rows[: coins.integers(1, len(rows) // 2 + 1)]
        people = [f"{i}" for i in coins.integers(0, 8, len(part))]
        times = np.full(len(part), np.datetime64(at.replace(tzinfo=None), "us"))
        streams.take([f"{i}" for i in coins.integers(0, 3, len(part))], part, times=times, subjects=people)
        streams.sweep(at + _AGE / _STEPS / 2)
        if step % 4 == 3:
            streams.forget(subject="1", now=bool(step % 8 == 7))
