"""The batched model: a batch arrives whole, and what is kept is a part of it.

Section 2.2 of Immorlica et al. (2024), and the first half of Proposition 2.1: a streaming policy is run on the records
of the batch one by one, under recency, so that what it holds at the end is a part of the batch.
Guarantee: a batched policy goes through the same states here and in a stream of twice the memory; held by
tests/stream/test_batched.py.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Generic, Self

import numpy as np
from numpy.typing import ArrayLike

from vestige.clock import Clock
from vestige.errors import DataError, ParameterError
from vestige.estimate import E_co
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.store import Receipt
from vestige.stream.arrivals import read_rows
from vestige.stream.estimate import count_represented, make_estimate
from vestige.stream.frames import find_names, select_columns
from vestige.stream.limits import MAX_RECORDS, drop_expired
from vestige.stream.removal import Rounds, check_rounds, keep_receipts, settle_receipts
from vestige.stream.rules import check_restart, check_seed, choose_batch
from vestige.stream.update import update_batch
from vestige.times import wall_clock
from vestige.types import Floats
from vestige.validation import check_int


class Batched(Generic[E_co]):
    """A stream whose records arrive in batches, each of which replaces the one before.

    Args:
        policy: decides which records are kept, and answers from them.
        batch: number of records in a batch.
        seed: makes the run reproducible; default: coins from the operating system.
        retained: with `clock`, continues the stream that these records and this clock belong to.
        clock: see `retained`; its `t` counts records, here too.

    Raises:
        ParameterError: the policy cannot work with such batches, or the state to continue from is not valid.

    Example:
        >>> from vestige import Mean
        >>> batched = Batched(Mean(), batch=50, seed=0)
        >>> batched.extend(range(1, 1_001))
        >>> round(batched.estimate().value, 6), batched.clock.first
        (500.5, 951)
    """

    def __init__(
        self,
        policy: Policy[E_co],
        *,
        batch: int,
        seed: int | AuditSeed | None = None,
        retained: Records | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._policy = policy
        self._batch = choose_batch(policy, "batch", check_int("batch", batch, 1, MAX_RECORDS), batches=1)
        self._seed = check_seed(policy, seed)
        self._update_every = 1 if policy.every_round else self._batch
        self._retained, self._clock = check_restart(policy, retained, clock)
        self._receipts: tuple[Receipt, ...] = ()
        self._column_names = find_names(policy, {})
        self._lock = threading.RLock()
        if self._clock.pending:
            raise ParameterError(
                f"{self._clock} is in mid-batch; the batched model holds nothing between batches: "
                "restart from a clock whose t equals its last, or use a Stream"
            )

    def push(self, rows: ArrayLike | Iterable[object]) -> None:
        """Take one batch.

        Args:
            rows: as many as a batch has.

        Raises:
            DataError: a row cannot be taken, or the number of rows is another; then none of them was taken.

        Example:
            >>> from vestige import Mean
            >>> batched = Batched(Mean(), batch=30)
            >>> batched.push(range(30))
            >>> batched.t
            30
        """
        rows, column_names = select_columns(rows, self._column_names, self._policy, is_begun=self.t > 0)
        table = read_rows(rows, self._policy)
        if len(table) != self._batch:
            raise DataError(f"rows has {len(table)} records; a batch has batch={self._batch}: pass exactly that many")
        self._take(table)
        self._column_names = column_names

    def extend(self, rows: ArrayLike | Iterable[object]) -> None:
        """Take several whole batches.

        Args:
            rows: as many as several batches have.

        Raises:
            DataError: a row cannot be taken, or the last batch is not whole; then none of them was taken.

        Example:
            >>> from vestige import Mean
            >>> batched = Batched(Mean(), batch=30)
            >>> batched.extend(range(90))
            >>> batched.t
            90
        """
        rows, column_names = select_columns(rows, self._column_names, self._policy, is_begun=self.t > 0)
        table = read_rows(rows, self._policy)
        if len(table) % self._batch:
            raise DataError(
                f"rows has {len(table)} records, which are not whole batches of batch={self._batch}; "
                "the batched model holds nothing between batches: pass a multiple, or use a Stream"
            )
        self._take(table)
        self._column_names = column_names

    def estimate(self) -> E_co:
        """Compute the policy's answer from the retained records and the clock alone.

        Returns:
            The answer, and what to know about it.

        Raises:
            NoRecordsError: no record is held.

        Example:
            >>> from vestige import Mean
            >>> batched = Batched(Mean(), batch=30, seed=0)
            >>> batched.push(range(30))
            >>> round(batched.estimate().value, 6)
            14.5
        """
        with self._lock:
            clock, retained = self._clock, self._retained
        return make_estimate(self._policy, self._batch, clock, retained, self._column_names)

    def forget(self, *, rounds: Rounds, reference: str | None = None) -> Receipt:
        """Request the removal of records: the next update may learn from them, but not keep them.

        Args:
            rounds: rounds of the records.
            reference: what you call the request; see `Stream.forget`.

        Returns:
            A receipt, which says nothing of the records, not even whether there were any.

        Raises:
            ParameterError: `rounds` are not rounds of records that have arrived, or the reference is not valid.

        Example:
            >>> from vestige import Mean
            >>> batched = Batched(Mean(), batch=30)
            >>> batched.push(range(30))
            >>> batched.forget(rounds=[7]).due_round
            60
        """
        with self._lock:
            requested = np.isin(self._retained.rounds, check_rounds(rounds, self.t))
            receipt = Receipt.create(wall_clock(), self.t, self.t + self._update_every, None, None, reference)
            self._retained = self._retained.with_leaving(self._retained.leaving | requested)
            self._receipts = (*self._receipts, receipt)
            return receipt

    @property
    def clock(self) -> Clock:
        """The public clock; with `retained`, the whole state."""
        return self._clock

    @property
    def retained(self) -> Records:
        """The records that are held; with the clock, the whole state."""
        return self._retained

    @property
    def t(self) -> int:
        """Number of records that have arrived."""
        return self._clock.t

    @property
    def counted(self) -> int:
        """Number of records that the statistic counts; where each stands for itself alone, those that are held."""
        with self._lock:
            return count_represented(self._policy, self._clock, self._retained)

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The removal requests that are open, and those whose receipts are kept."""
        return keep_receipts(self._receipts, wall_clock())

    @property
    def policy(self) -> Policy[E_co]:
        """The policy that decides what is kept."""
        return self._policy

    @property
    def batch(self) -> int:
        """Number of records in a batch; a policy that updates every round does so within it."""
        return self._batch

    def __repr__(self) -> str:
        return f"<Batched of {self._policy}: t={self.t}, {len(self.retained)} held>"

    def __getstate__(self) -> dict[str, object]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def __copy__(self) -> Self:
        """As deep as any copy, since two streams cannot share records."""
        return copy.deepcopy(self)

    def _take(self, table: Floats) -> None:
        """Update with batch after batch; on any error the state is as it was."""
        with self._lock:
            clock, held, every = self._clock, self._retained, self._update_every
            for start in range(0, len(table), every):
                rows = table[start : start + every]
                arrivals = Records(np.arange(clock.t + 1, clock.t + 1 + len(rows)), rows)
                clock = replace(clock, t=clock.t + len(rows))
                if self._policy.every_round:
                    held = drop_expired(held, clock.t, self._batch)
                else:  # the batch before is read once more and must go
                    held = held.with_leaving(np.ones(len(held), np.bool_))
                clock, held = update_batch(self._policy, self._seed, clock, held, arrivals)
            if len(table):
                self._receipts = settle_receipts(self.receipts, clock.t, wall_clock())
            self._clock, self._retained = clock, held
