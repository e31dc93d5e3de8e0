"""The paper's streaming model: one record a round, erased in time.

Section 2 of Immorlica et al. (2024): the m-recency property, its footnote 2 (removal on request), and the second half
of Proposition 2.1 (a batched policy runs in a stream with twice the memory; between updates records are appended).
Guarantee: after every round the retained records obey the limits; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige import coins
from vestige.errors import DataError, ParameterError
from vestige.policies import Encoded
from vestige.policy import Policy
from vestige.records import Clock, Floats, Records
from vestige.stream.arriving import Appended, Time, instant_of, rows_of
from vestige.stream.runtime import Runtime

_AT_ONCE = 1 << 16
"""Records per call of the kernel: enough to spend the time there, few enough to answer an interrupt."""


def _limit(name: str, value: int | None) -> int | None:
    """A limit in rounds, checked."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 2):
        raise ParameterError(f"{name}={value!r} is no number of rounds; use a whole number, 2 or more")
    return None if value is None else int(value)


class Stream(Runtime):
    """A stream of records under a legal limit, one record a round.

    Args:
        policy: what to keep and what to answer.
        retention: a record is gone this many rounds after it arrived.
        notice: a record is gone this many rounds after its removal was requested.
        seed: makes the run reproducible; None takes coins from the operating system.
        retained: with `clock`, restarts the stream that these records and this clock belong to.
        clock: see `retained`.

    At least one of the limits is needed; a batch is half of the smaller one, so that a record that is kept once has
    left at the update after.

    >>> from vestige import Mean
    >>> stream = Stream(Mean(), retention=96, seed=0)
    >>> for minute in range(1, 101):
    ...     stream.push(minute)
    >>> round(stream.estimate().value, 9)
    50.5
    >>> again = Stream(Mean(), retention=96, seed=0, retained=stream.retained, clock=stream.clock)
    >>> again.estimate().value == stream.estimate().value
    True
    """

    def __init__(
        self,
        policy: Policy,
        *,
        retention: int | None = None,
        notice: int | None = None,
        seed: int | None = None,
        retained: Records | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.retention, self.notice = _limit("retention", retention), _limit("notice", notice)
        limits = {k: v for k, v in (("retention", self.retention), ("notice", self.notice)) if v is not None}
        if not limits:
            raise ParameterError("a stream needs a limit; pass retention=..., notice=... or both, in rounds")
        name = min(limits, key=lambda limit: limits[limit])
        super().__init__(policy, (name, limits[name]), 2, seed, retained, clock)
        if self._clock.pending >= self._batch:
            raise ParameterError(
                f"clock has {self._clock.pending} records after its batch, but batches are of {self._batch}; "
                "restart with the limits that the stream had"
            )
        self._fresh = Appended(self._batch, policy.columns)
        fresh = self._held.rounds > self._clock.last
        self._fresh.append(**self._held.where(fresh).as_columns())
        self._held = self._held.where(~fresh)
        self._erase_due()

    @property
    def retained(self) -> Records:
        """The records that are held: with the clock, the whole state."""
        return self._held.followed_by(self._fresh.records())

    def push(self, row: ArrayLike, *, time: Time | None = None, subject: str | None = None) -> None:
        """Take one record.

        Args:
            row: its values; a number will do in one dimension.
            time: when it arrived; kept with it, erased with it.
            subject: whom it is about; kept with it, erased with it.
        """
        table = rows_of(np.atleast_1d(np.asarray(row))[None, :], self._policy.columns)
        self._take(table, np.array([instant_of(time)]), np.array([subject], dtype=np.object_))

    def extend(
        self,
        rows: ArrayLike,
        *,
        times: Sequence[Time | None] | NDArray[np.datetime64] | None = None,
        subjects: Sequence[str | None] | None = None,
    ) -> None:
        """Take many records in order: the same as pushing them one by one, but faster, and all or nothing.

        Args:
            rows: shape (n, columns), or (n,) in one dimension.
            times: one per row, or none at all.
            subjects: one per row, or none at all.
        """
        table = rows_of(rows if isinstance(rows, np.ndarray) else list(rows), self._policy.columns)  # type: ignore[arg-type]
        n = len(table)
        when = np.full(n, "NaT", "datetime64[us]")
        who = np.full(n, None, dtype=np.object_)
        for name, given in (("times", times), ("subjects", subjects)):
            if given is not None and len(given) != n:
                raise DataError(f"{name} has {len(given)} entries for {n} rows; pass one per row, or none at all")
        if times is not None:
            when[:] = [instant_of(time) for time in times]
        if subjects is not None:
            who[:] = subjects
        self._take(table, when, who)

    def _take(self, rows: Floats, times: NDArray[np.datetime64], subjects: NDArray[np.object_]) -> None:
        """Append rows and update whenever a batch is full; on any error the state is as it was."""
        before = self._clock, self._held, self._fresh.records()
        start = 0
        try:
            while start < len(rows):
                stop = start + self._whole_batches(len(rows) - start)
                if stop > start and self._update_many(rows[start:stop], times[start:stop], subjects[start:stop]):
                    start = stop
                    continue
                stop = min(len(rows), start + self._batch - self._clock.pending)
                self._append(rows[start:stop], times[start:stop], subjects[start:stop])
                if self._clock.pending == self._batch:
                    self._update()
                start = stop
        except BaseException:
            self._clock, self._held, fresh = before
            self._fresh.clear()
            self._fresh.append(**fresh.as_columns())
            raise
        self._erase_due()

    def _append(self, rows: Floats, times: NDArray[np.datetime64], subjects: NDArray[np.object_]) -> None:
        n, t = len(rows), self._clock.t
        self._fresh.append(rounds=np.arange(t + 1, t + 1 + n), values=rows, times=times, subjects=subjects)
        self._clock = replace(self._clock, t=t + n)

    def _whole_batches(self, n: int) -> int:
        """How many of the next `n` records can go through one kernel."""
        if self._clock.pending or type(self._policy).update is not Encoded.update:
            return 0
        return min(n, max(self._batch, _AT_ONCE)) // self._batch * self._batch

    def _update_many(self, rows: Floats, times: NDArray[np.datetime64], subjects: NDArray[np.object_]) -> bool:
        """Update for several whole batches in one kernel; False, and nothing done, where the state before is lost."""
        policy, clock, last = cast(Encoded, self._policy), self._clock, slice(-self._batch, None)
        closings = np.arange(clock.t + self._batch, clock.t + len(rows) + 1, self._batch)
        keep = policy.update_many(clock, self._held.shown(), rows, coins.keys(self._seed, closings))
        if not keep.any():
            return False
        t = clock.t + len(rows)
        rounds = np.arange(t - self._batch + 1, t + 1)
        arrivals = Records(rounds, rows[last], times=times[last], subjects=subjects[last])
        self._clock = replace(clock, t=t, first=int(rounds[0]), last=t)
        self._held = arrivals.where(keep)
        return True

    def _update(self) -> None:
        """Close the batch: the policy chooses, and all else is erased."""
        self._erase_due()
        self._clock, self._held = self._updated(self._clock, self._held, self._fresh.records())
        self._fresh.clear()

    def _erase_due(self) -> None:
        """Erase what `retention` no longer allows; the next update meets requests, and comes before they are due."""
        if self.retention is not None and len(self._held):
            due = self._held.rounds <= self._clock.t - self.retention
            if due.any():
                self._held = self._held.where(~due)

    def _mark(self, rounds: NDArray[np.int64]) -> int:
        return super()._mark(rounds) + self._fresh.mark(rounds)
