"""The paper's batched model: a batch arrives whole, and what is kept is a part of it.

Section 2.2 of Immorlica et al. (2024), and the first half of Proposition 2.1: a streaming policy is run on the records
of the batch one by one, under recency, so that what it holds at the end is a part of the batch.
Guarantee: a batched policy goes through the same states here and in a stream of twice the memory; held by
tests/stream/test_batched.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.errors import DataError, ParameterError
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.records import Clock, Records
from vestige.stream.limits import MOST_RECORDS
from vestige.stream.pending import rows_of
from vestige.stream.runtime import Runtime, check_restart, check_rounds
from vestige.types import Floats
from vestige.validation import check_int


class Batched(Runtime):
    """A stream whose records arrive in batches, each of which replaces the one before.

    Args:
        policy: what to keep and what to answer.
        batch: records in a batch.
        seed: makes the run reproducible; None takes coins from the operating system.
        retained: with `clock`, restarts the stream that these records and this clock belong to.
        clock: see `retained`; its `t` counts records, here too.

    >>> from vestige import Mean
    >>> batched = Batched(Mean(), batch=50, seed=0)
    >>> batched.extend(range(1, 1_001))
    >>> round(batched.estimate().value, 6), batched.clock.first
    (500.5, 951)
    """

    def __init__(
        self,
        policy: Policy,
        *,
        batch: int,
        seed: int | AuditSeed | None = None,
        retained: Records | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(policy, ("batch", check_int("batch", batch, 1, MOST_RECORDS)), 1, seed)
        self._held, self._clock = check_restart(policy, retained, clock)
        if self._clock.pending:
            raise ParameterError(
                f"{self._clock} is in mid-batch; the batched model holds nothing between batches: "
                "restart from a clock whose t equals its last, or use a Stream"
            )

    @property
    def clock(self) -> Clock:
        """The public clock; with `retained`, the whole state."""
        return self._clock

    @property
    def retained(self) -> Records:
        """The records that are held; with the clock, the whole state."""
        return self._held

    def push(self, rows: ArrayLike | Iterable[object]) -> None:
        """Take one batch: as many rows as a batch has."""
        table = rows_of(rows, self._policy)
        if len(table) != self._batch:
            raise DataError(f"rows has {len(table)} records; a batch has batch={self._batch}: pass just so many")
        self._take(table)

    def extend(self, rows: ArrayLike | Iterable[object]) -> None:
        """Take several whole batches."""
        table = rows_of(rows, self._policy)
        if len(table) % self._batch:
            raise DataError(
                f"rows has {len(table)} records, which are no whole batches of batch={self._batch}; "
                "the batched model holds nothing between batches: pass a multiple, or use a Stream"
            )
        self._take(table)

    def _take(self, table: Floats) -> None:
        """Go through the batches; on any error the state is as it was."""
        clock, held = self._clock, self._held
        every = 1 if self._policy.every_round else self._batch
        for start in range(0, len(table), every):
            rows = table[start : start + every]
            rounds = np.arange(clock.t + 1, clock.t + 1 + len(rows))
            clock = replace(clock, t=clock.t + len(rows))
            if self._policy.every_round:
                held = held.where(held.rounds > clock.t - self._batch)
            else:  # the batch before is read once more and must go
                held = held.with_leaving(np.ones(len(held), np.bool_))
            clock, held = self._updated(clock, held, Records(rounds, rows))
        self._clock, self._held = clock, held

    def forget(self, *, rounds: int | Sequence[int] | NDArray[np.int64]) -> int:
        """Ask for the records of these rounds to be removed: the next update may learn from them, not keep them.

        Returns:
            how many of them are still held, and will be gone with the next update; the others are gone already.
        """
        named = np.isin(self._held.rounds, check_rounds(rounds, self.t))
        self._held = self._held.with_leaving(self._held.leaving | named)
        return int(named.sum())
