"""The paper's streaming model: one record a round, erased in time.

Section 2 of Immorlica et al. (2024): the m-recency property, its footnote 2 (removal on request), and the second half
of Proposition 2.1 (a batched policy runs in a stream with twice the memory; between updates records are appended).
Guarantee: after every round the retained records obey the limits; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige import coins
from vestige.errors import DataError, ParameterError, whole_number
from vestige.policies import Encoded
from vestige.policy import Policy
from vestige.records import NO_TIME, Clock, Floats, Records, filled
from vestige.stream.arriving import Appended, Time, instant_of, rows_of
from vestige.stream.runtime import Runtime, checked_restart

Times = NDArray[np.datetime64] | None
Subjects = NDArray[np.object_] | None

_AT_ONCE = 1 << 16
"""Records per call of the kernel: enough to spend the time there, few enough to answer an interrupt."""


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
        self._retention = None if retention is None else whole_number("retention", retention, 2)
        self._notice = None if notice is None else whole_number("notice", notice, 2)
        limits = {k: v for k, v in (("retention", self._retention), ("notice", self._notice)) if v is not None}
        if not limits:
            raise ParameterError("a stream needs a limit; pass retention=..., notice=... or both, in rounds")
        tightest = min(limits.items(), key=lambda limit: limit[1])
        super().__init__(policy, tightest, 2, seed)
        held, clock = checked_restart(policy, retained, clock)
        self._update_every = 1 if policy.every_round else self._batch
        late = self._retention is not None and clock.encoded and clock.t - clock.first >= self._retention
        if clock.pending >= self._update_every or (late and not policy.every_round):
            raise ParameterError(
                f"{clock} does not fit updates every {self._update_every} rounds; restart with the policy and the "
                "limits that the stream had"
            )
        self._in_kernel = (
            isinstance(policy, Encoded)
            and type(policy).update is Encoded.update
            and type(policy).update_many is Encoded.update_many
        )
        self._largest = policy.largest
        fresh = held.rounds > clock.last
        self._clock = replace(clock, t=clock.last)
        self._fresh = Appended(self._update_every, policy.columns)
        self._fresh.replace(held.where(fresh))
        self._hold(held.where(~fresh))
        self._erase_due()

    @property
    def retention(self) -> int | None:
        """A record is gone this many rounds after it arrived."""
        return self._retention

    @property
    def notice(self) -> int | None:
        """A record is gone this many rounds after its removal was requested."""
        return self._notice

    @property
    def _t(self) -> int:
        return self._clock.last + self._fresh.size

    @property
    def clock(self) -> Clock:
        """The public clock; with `retained`, the whole state."""
        return replace(self._clock, t=self._t)

    @property
    def retained(self) -> Records:
        """The records that are held; with the clock, the whole state."""
        return self._held.followed_by(self._fresh.records(self._clock.last))

    def push(self, row: ArrayLike, *, time: Time | None = None, subject: str | None = None) -> None:
        """Take one record.

        Args:
            row: its values; a number will do in one dimension.
            time: when it arrived; kept with it, erased with it.
            subject: whom it is about; kept with it, erased with it.
        """
        fresh = self._fresh
        size = fresh.size
        if type(row) is float and fresh.single is not None and -(largest := self._largest) <= row <= largest:
            fresh.single[size] = row  # the common case, fast
        else:
            fresh.values[size] = rows_of([row], self._policy)[0]
        if time is not None or subject is not None:
            fresh.label_next(instant_of(time), subject)
        fresh.size = size + 1
        if size >= self._alarm:
            self._ring()

    def _ring(self) -> None:
        """Do what is due with the newest record, an update or an erasure; an update that fails does not take it."""
        if self._fresh.size == self._update_every:
            try:
                self._update()
            except BaseException:
                self._fresh.drop_last()
                raise
        self._erase_due()

    def extend(
        self,
        rows: ArrayLike | Iterable[object],
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
        table = rows_of(rows, self._policy)
        for name, given in (("times", times), ("subjects", subjects)):
            if given is not None and len(given) != len(table):
                raise DataError(
                    f"{name} has {len(given)} entries for {len(table)} rows; pass one per row, or none at all"
                )
        when = None if times is None else np.array([instant_of(time) for time in times], "datetime64[us]")
        who = None if subjects is None else np.array(subjects, np.object_)
        before = self._clock, self._held, self._fresh.records(self._clock.last)
        try:
            self._take(table, when, who)
        except BaseException:
            self._clock = before[0]
            self._hold(before[1])
            self._fresh.replace(before[2])
            raise

    def _take(self, rows: Floats, times: Times, subjects: Subjects) -> None:
        """Append rows and update whenever a batch is full; several whole batches go through one kernel."""
        start = 0
        while start < len(rows):
            whole = min(len(rows) - start, max(self._update_every, _AT_ONCE)) // self._update_every
            in_kernel = self._in_kernel and whole > 0 and self._fresh.size == 0
            room = whole * self._update_every if in_kernel else self._update_every - self._fresh.size
            here = slice(start, min(len(rows), start + room))
            there = None if times is None else times[here], None if subjects is None else subjects[here]
            if in_kernel:
                self._update_in_kernel(rows[here], *there)
            else:
                self._fresh.append(rows[here], *there)
                if self._fresh.size == self._update_every:
                    self._update()
            start = here.stop
        self._erase_due()

    def _update(self) -> None:
        """Close the batch that waits: the policy chooses, and all else is erased."""
        self._erase_due()
        fresh = self._fresh
        if self._in_kernel and not fresh.marked:
            self._update_in_kernel(fresh.values, *fresh.labels())
        else:
            self._clock, held = self._updated(self.clock, self._held, fresh.records(self._clock.last))
            self._hold(held)
        fresh.clear()

    def _update_in_kernel(self, rows: Floats, times: Times, subjects: Subjects) -> None:
        """Close one or more whole batches, none of whose records are leaving, in one kernel."""
        from vestige.subset.words import keys_of  # noqa: PLC0415

        size, clock = self._update_every, self._clock
        t = clock.last + len(rows)
        policy: Encoded = self._policy  # type: ignore[assignment]
        keys = keys_of(np.uint64(coins.root(self._seed)), clock.last + size, size, len(rows) // size)
        kept = policy.update_many(clock, self._held, rows, keys).nonzero()[0]
        chosen, n = kept + (len(rows) - size), len(kept)
        self._clock = Clock(t, first=t - size + 1, last=t, since=clock.since)
        self._hold(
            Records._trusted(
                kept + (t - size + 1),
                rows[chosen],
                np.zeros(n, np.bool_),
                filled(n, NO_TIME, "datetime64[us]") if times is None else times[chosen],
                filled(n, None, np.object_) if subjects is None else subjects[chosen],
            )
        )

    def _hold(self, records: Records) -> None:
        """Hold these records from now on, and note after how many more something is to be done."""
        self._held = records
        self._next_due = sys.maxsize
        if self._retention is not None and len(records):
            self._next_due = int(records.rounds[0]) + self._retention
        self._alarm = min(self._update_every, self._next_due - self._clock.last) - 1

    def _erase_due(self) -> None:
        """Erase what `retention` no longer allows; the next update meets requests, and comes before they are due."""
        if self._retention is not None and self._t >= self._next_due:
            self._hold(self._held.where(self._held.rounds > self._t - self._retention))

    def _mark(self, rounds: NDArray[np.int64]) -> int:
        fresh, waiting = self._fresh, np.arange(self._clock.last + 1, self._t + 1)
        fresh.mark(np.isin(waiting, rounds))
        self._held = self._held.with_leaving(self._held.leaving | np.isin(self._held.rounds, rounds))
        return int(np.isin(self.retained.rounds, rounds).sum())
