"""What a process does with keyed streams, done once in memory, so that nobody waits while kernels are compiled.

Compiling takes up to a minute on a new installation, and loading from the cache seconds. Who does either while it
writes holds the store, so that rows, answers and erasures wait.
Guarantee: after it, rows of a service and the commits of a run by key need no kernel that is not loaded; held by
tests/service/test_rehearsal.py and tests/ingest/test_rehearsal.py.
"""

from __future__ import annotations

from vestige.keyed.streams import KeyedStreams
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.store import MemoryStore

_MOST = 512
"""Largest retention that is rehearsed; larger batches run the same kernels."""


def rehearse(policy: Policy, retention: int | None) -> None:
    """Take rows of one key over several batches, write them, and answer.

    Args:
        policy: the policy of the streams.
        retention: their retention; None for limits in time.

    Example:
        >>> from vestige import Mean
        >>> rehearse(Mean(), 96)
    """
    used = max(2 * policy.min_batch, min(retention or _MOST, _MOST))
    rows = make_generator(0).integers(0, 2, (2 * used, policy.columns)).astype(float)
    with MemoryStore() as store:
        streams = KeyedStreams(policy, retention=used, seed=AuditSeed(0), store=store.family())
        for part in (rows[:1], rows[1 : used + 1], rows[used + 1 :]):  # one row, several batches, and from what is held
            streams.extend(["a"] * len(part), part)
            streams.flush()
        streams.estimates(["a"])
        streams.counts(["a"])
