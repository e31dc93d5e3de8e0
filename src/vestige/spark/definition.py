"""What the streams of a query are, in one value that travels to every worker: policy, limits, seed and layout.

Guarantee: two queries with definitions that do not continue each other are told apart by their digests; held by
tests/spark/test_shard_keys.py.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from vestige.keyed import KeyedStreams
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.store import MemoryStore, Terms
from vestige.store.memory_rows import MemoryRows
from vestige.stream.limits import Limits
from vestige.stream.rules import make_rules, make_terms


@dataclass(frozen=True)
class Definition:
    """What the streams of a query are.

    Attributes:
        policy: decides which records of each stream are kept.
        limits: how long records may be held.
        seed: makes the run reproducible; None takes coins from the operating system.
        key: the column with the key of each row.
        columns: the columns with the values of a record.
        shards: number of shards that the keys are spread over.
        has_times: whether rows have times.
        has_subjects: whether rows have subjects.
        order: number of columns that say the order of the rows of a key.
    """

    policy: Policy[Any]
    limits: Limits
    seed: int | AuditSeed | None
    key: str
    columns: tuple[str, ...]
    shards: int
    has_times: bool = False
    has_subjects: bool = False
    order: int = 0

    @property
    def about(self) -> dict[str, object]:
        """What must stay the same besides policy and limits, as plain data."""
        return {"key": self.key, "columns": list(self.columns), "shards": self.shards}

    @property
    def terms(self) -> Terms:
        """The terms of the streams."""
        return make_terms(make_rules(self.policy, self.limits, self.seed), self.about)

    @property
    def digest(self) -> bytes:
        """32 bytes that are the same for queries that continue each other."""
        return hashlib.sha256(self.terms.fixed_text.encode()).digest()

    def open(self, rows: MemoryRows, secret: bytes | None) -> tuple[KeyedStreams[Any], MemoryStore]:
        """Open the streams of a shard.

        Args:
            rows: the rows that they are kept in.
            secret: the key that subjects are hashed with; None draws one.

        Returns:
            The streams, and the store in memory that they live in.
        """
        store = MemoryStore(rows, key=secret)
        limits = self.limits
        streams = KeyedStreams(
            self.policy,
            retention=limits.retention,
            notice=limits.notice,
            max_age=limits.max_age,
            max_ahead=limits.max_ahead,
            lateness=limits.lateness,
            seed=self.seed,
            workers=1,  # Spark runs a task on each core
            store=store.family(about=self.about),
        )
        return streams, store
