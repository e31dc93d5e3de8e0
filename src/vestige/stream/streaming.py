"""The paper's streaming model: one record a round, erased in time.

Section 2 of Immorlica et al. (2024): the m-recency property, its footnote 2 (removal on request), and the second half
of Proposition 2.1 (a batched policy runs in a stream with twice the memory; between updates records are appended).
Limits in time, requests that are met at once and stores are ours: the batch is then closed early where it must be.
Guarantee: after every round the retained records obey the limits; held by tests/stream/test_rules.py and
tests/stream/test_times.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige import coins
from vestige.coins import Rehearsal
from vestige.errors import DataError, ParameterError
from vestige.naming import described
from vestige.policy import Policy
from vestige.records import Clock, Floats, Ints, Records, no_times
from vestige.store import Place, Receipt, State, Terms
from vestige.store.state import wall_clock
from vestige.stream.arriving import Appended, Time, in_order, instant_of, instants_of, now_for, rows_of
from vestige.stream.limits import Limits
from vestige.stream.runtime import Runtime, checked_mask, checked_restart, checked_rounds

Times = NDArray[np.datetime64] | None
Subjects = NDArray[np.object_] | None

_AT_ONCE = 1 << 16
"""Records per call of `update_many`: enough to spend the time there, few enough to answer an interrupt."""


class Stream(Runtime):
    """A stream of records under a legal limit, one record a round.

    Args:
        policy: what to keep and what to answer.
        retention: a record is gone this many rounds after it arrived.
        notice: a record is gone this many rounds after its removal was requested.
        max_age: a record is gone when it is this old, whatever comes first. Its time counts, or when it arrived if it
            has none; times may not decrease. Without arrivals, `sweep` has to be called to keep this.
        seed: makes the run reproducible; None takes coins from the operating system.
        retained: with `clock`, restarts the stream that these records and this clock belong to.
        clock: see `retained`.
        store: where the stream lives when no process runs, as `store.stream(name)`; it goes on from there. Each update
            is durable before the next batch is taken; `flush`, or closing the store, writes what came after the last.

    At least one of the limits in rounds is needed; a batch is half of the smaller one, so that a record that is kept
    once has left at the update after.

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
        max_age: timedelta | None = None,
        seed: int | Rehearsal | None = None,
        retained: Records | None = None,
        clock: Clock | None = None,
        store: Place | None = None,
    ) -> None:
        self._limits = Limits(retention, notice, max_age)
        self._retention = self._limits.retention
        super().__init__(policy, self._limits.in_rounds(policy), 2, seed)
        self._place = store
        self._terms = self._made_terms()
        self._positions: Mapping[str, int] = {}
        self._receipts: tuple[Receipt, ...] = ()
        if store is not None:
            if retained is not None or clock is not None:
                raise ParameterError("a stream goes on from its store; leave out retained=... and clock=...")
            state = store.open(self._terms)
            retained, clock = state.retained, state.clock
            self._positions, self._receipts = state.positions, state.receipts
        held, clock = checked_restart(policy, retained, clock)
        self._update_every = 1 if policy.every_round else self._batch
        self._check_start(held, clock)
        self._many_at_once = issubclass(_definer(policy, "update_many"), _definer(policy, "update"))
        self._together = policy.together and not policy.every_round
        self._minimum, self._enough = policy.minimum, min(policy.enough, self._batch)
        self._largest = policy.largest
        self._timed = max_age is not None
        fresh = held.rounds > clock.last
        self._clock = replace(clock, t=clock.last)
        self._fresh = Appended(self._update_every, policy.columns, quick=not self._timed)
        self._fresh.replace(held.where(fresh), clock.last, clock.pending)
        self._hold(held.where(~fresh))
        self._saved, self._unsaved = self._t, False
        self._erase_due()
        if store is not None:
            store.take(self.flush)

    def _check_start(self, held: Records, clock: Clock) -> None:
        late = self._retention is not None and clock.encoded and clock.t - clock.first >= self._retention
        if clock.pending >= self._update_every or (late and not self._policy.every_round):
            raise ParameterError(
                f"{clock} does not fit updates every {self._update_every} rounds; restart with the policy and the "
                "limits that the stream had"
            )
        if self._limits.max_age is not None and np.isnat(held.times).any():
            raise ParameterError("retained holds records without a time, but max_age is set; pass their times")

    @property
    def retention(self) -> int | None:
        """A record is gone this many rounds after it arrived."""
        return self._limits.retention

    @property
    def notice(self) -> int | None:
        """A record is gone this many rounds after its removal was requested."""
        return self._limits.notice

    @property
    def max_age(self) -> timedelta | None:
        """A record is gone when it is this old."""
        return self._limits.max_age

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The removal requests that are open, and those that were met in the last 30 days."""
        now = wall_clock()
        return tuple(receipt for receipt in self._receipts if not receipt.expired(now))

    @property
    def _t(self) -> int:
        return self._clock.last + self._fresh.size

    def _made_terms(self) -> Terms:
        limits = self._limits
        return Terms(
            policy=described(self._policy),
            columns=self._policy.columns,
            capacity=limits.retention or 3 * self._batch,
            retention=limits.retention,
            notice=limits.notice,
            max_age=limits.max_age,
            about={} if self._place is None else self._place.about,
        )

    @property
    def clock(self) -> Clock:
        """The public clock; with `retained`, the whole state."""
        return replace(self._clock, t=self._t)

    @property
    def retained(self) -> Records:
        """The records that are held; with the clock, the whole state."""
        return self._held.followed_by(self._fresh.records(self._clock.last))

    def position(self, source: str) -> int:
        """How many rows of `source` have been read; see `extend`."""
        return self._positions.get(source, 0)

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
        elif self._timed:
            self.extend([row], times=None if time is None else [time], subjects=[subject])
            return
        else:
            fresh.values[size] = rows_of([row], self._policy)[0]
        if time is not None or subject is not None:
            fresh.label_next(instant_of(time), self._named(subject))
        fresh.size = size + 1
        if size >= self._alarm:
            self._ring()

    def _ring(self) -> None:
        """Do what is due with the newest record, an update or an erasure; an update that fails does not take it."""
        if self._fresh.size == self._full:
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
        subjects: Sequence[str | None] | NDArray[np.object_] | None = None,
        source: str | None = None,
        numbers: Ints | None = None,
    ) -> None:
        """Take many records in order: the same as pushing them one by one, but faster, and all or nothing.

        In a store, what is all or nothing is each batch: after an error, `t` and `position` say how far it came.

        Args:
            rows: shape (n, columns), or (n,) in one dimension.
            times: one per row, or none at all.
            subjects: one per row, or none at all.
            source: where the rows come from; how many of its rows were read is remembered with them.
            numbers: the number of each row in its source, increasing; those that follow its position unless said.
        """
        table = rows_of(rows, self._policy)
        for name, given in (("times", times), ("subjects", subjects), ("numbers", numbers)):
            if given is not None and len(given) != len(table):
                raise DataError(
                    f"{name} has {len(given)} entries for {len(table)} rows; pass one per row, or none at all"
                )
        when = None if times is None else instants_of(times)
        if self._timed:
            when = in_order(now_for(len(table)) if when is None else when, self._newest)
        who = None if subjects is None else np.array([self._named(subject) for subject in subjects], np.object_)
        if source is not None and numbers is None:
            numbers = np.arange(1, len(table) + 1) + self.position(source)
        before, start = self._kept(), 0
        try:
            while start < len(table):
                if when is not None and self._timed:
                    self._tick(int(when[start].astype(np.int64)))
                if self._place is not None and (start or self._timed):
                    before = self._kept()
                stop = self._taken(table, when, who, start)
                if source is not None and numbers is not None:
                    self._positions = {**self._positions, source: int(numbers[stop - 1])}
                if self._fresh.size == self._full:
                    self._update()
                start = stop
            self._erase_due()
        except BaseException:
            self._return_to(before)
            raise

    def _taken(self, rows: Floats, times: Times, subjects: Subjects, start: int) -> int:
        """Take rows from `start` on until something is due, or many whole batches at once; where to go on."""
        size, free = self._update_every, self._place is None and not self._timed
        whole = min(len(rows) - start, max(size, _AT_ONCE)) // size if free and self._many_at_once else 0
        at_once = whole > 0 and self._fresh.size == 0 and self._full == size
        room = whole * size if at_once else self._full - self._fresh.size
        stop = min(len(rows), start + room)
        if times is not None and self._timed:
            stop = max(start + 1, min(stop, int(np.searchsorted(times, self._next_event(times[start])))))
        here = slice(start, stop)
        there = None if times is None else times[here], None if subjects is None else subjects[here]
        if at_once:
            self._adopt(*self._at_once(rows[here], *there, size))
        else:
            self._fresh.append(rows[here], *there)
        return stop

    def _kept(self) -> tuple[Clock, Records, Records, int, Mapping[str, int], tuple[Receipt, ...]]:
        """What to return to if something goes wrong."""
        fresh = self._fresh
        return self._clock, self._held, fresh.records(self._clock.last), fresh.size, self._positions, self._receipts

    def _return_to(self, before: tuple[Clock, Records, Records, int, Mapping[str, int], tuple[Receipt, ...]]) -> None:
        self._clock, held, fresh, size, self._positions, self._receipts = before
        self._hold(held)
        self._fresh.replace(fresh, self._clock.last, size)

    def _update(self) -> None:
        """Close the batch that waits: the policy chooses, all else is erased, and the store has it before we go on."""
        self._erase_due()
        fresh = self._fresh
        if self._many_at_once and not (fresh.marked or fresh.holed) and fresh.size >= self._minimum:
            here = slice(0, fresh.size)
            times, subjects = (fresh.times[here], fresh.subjects[here]) if fresh.labelled else (None, None)
            clock, held = self._at_once(fresh.values[here], times, subjects, fresh.size)
        else:
            clock, held = self._updated(self.clock, self._held, fresh.records(self._clock.last))
        if self._timed and clock.encoded:
            clock = replace(clock, began=_microseconds(fresh.times[: fresh.size]))
        self._adopt(clock, held)

    def _adopt(self, clock: Clock, held: Records) -> None:
        """Make this the state, in which no records wait; durable first, if it has to be."""
        receipts = tuple(receipt.settled(clock.t) for receipt in self.receipts) if self._receipts else ()
        if self._place is not None:
            if len(held) and held.rounds[0] <= (bygone := self._bygone(clock)):
                held = held.where(held.rounds > bygone)
            self._place.commit(self._terms, State(clock, held, self._positions, receipts))
            self._saved, self._unsaved = clock.t, False
        self._receipts, self._clock = receipts, clock
        self._fresh.clear()
        self._hold(held)

    def _bygone(self, clock: Clock) -> int:
        """The last round whose record would be due before the next update; its copy in the store has to go now."""
        return 0 if self._retention is None else clock.last + self._room(clock) - 1 - self._retention

    def _at_once(self, rows: Floats, times: Times, subjects: Subjects, size: int) -> tuple[Clock, Records]:
        """The state after one or more whole batches of `size`, none of whose records are leaving, in one call."""
        clock, held = self._clock, self._held
        t = clock.last + len(rows)
        keys = self._keys(clock.last + size, size, len(rows) // size)
        mask = self._policy.update_many(clock, held, rows, keys)
        older = max(0, len(mask) - len(rows))
        chosen = mask[older:].nonzero()[0] + max(0, len(rows) - len(mask))
        n = len(chosen)
        kept = Records._trusted(
            chosen + (clock.last + 1),
            rows.take(chosen, 0),
            np.zeros(n, np.bool_),
            no_times(n) if times is None else times[chosen],
            np.empty(n, np.object_) if subjects is None else subjects[chosen],  # empty is None each
        )
        if older:
            kept = held.where(mask[:older]).followed_by(kept)
        return Clock(t, t - size + 1, t, clock.since), kept

    def _keys(self, first: int, step: int, count: int) -> NDArray[np.uint64]:
        """The coins of `count` updates, every `step` rounds from `first` on."""
        if self._policy.secret:
            return self._secret_keys(first, step, count)
        if count == 1:
            return np.array([coins.key(self._seed, first)], np.uint64)
        from vestige.subset.words import keys_of  # noqa: PLC0415

        return keys_of(np.uint64(coins.root(self._seed)), first, step, count)

    def _hold(self, records: Records) -> None:
        """Hold these records from now on, and note after how many more something is to be done."""
        self._held = records
        self._next_due = sys.maxsize
        if self._retention is not None and len(records):
            self._next_due = int(records.rounds[0]) + self._retention
        self._full = self._room(self._clock)
        self._alarm = min(self._full, self._next_due - self._clock.last) - 1

    def _room(self, clock: Clock) -> int:
        """After how many records the next update comes: a batch, or fewer if the encoded one or a request is due."""
        room = self._update_every
        if self._retention is not None and clock.encoded and self._together:
            room = min(room, clock.first + self._retention - 1 - clock.last)
        for receipt in self._receipts:
            if receipt.erased is None and receipt.due_round > clock.last:
                room = min(room, receipt.due_round - clock.last)
        return room

    def _erase_due(self) -> None:
        """Erase what `retention` no longer allows; the next update meets requests, and comes before they are due."""
        if self._retention is not None and self._t >= self._next_due:
            self._hold(self._held.where(self._held.rounds > self._t - self._retention))

    def sweep(self, now: Time | None = None) -> int:
        """Erase what is due without an arrival; a batch that would be lost otherwise is closed early.

        Call it every eighth of `max_age`, or more often.

        Args:
            now: the time by the clock that counts; that of the machine unless said.

        Returns:
            how many records were erased.
        """
        instant = instant_of(wall_clock() if now is None else now)
        if self._newest is not None and instant < self._newest and self._timed:
            raise DataError(
                "now lies before the time of a record that is held: a clock cannot run backwards; set it right, or "
                "pass the time by the clock that the records' times come from: nothing was erased"
            )
        before = len(self.retained)
        if self._timed:
            self._tick(int(instant.astype(np.int64)))
        at = wall_clock()
        left = tuple(r.settled(self._t) if r.due is not None and r.due <= at else r for r in self.receipts)
        if left != self._receipts:
            self._receipts, self._unsaved = left, True
            self._hold(self._held)
            self._save()
        return before - len(self.retained)

    def _tick(self, now: int) -> None:
        """Let it be `now`: erase what is too old, and close the batch early where it could not be saved later."""
        self._unsaved |= self._expired(now)
        if self._unsaved:
            self._save()
        fresh = self._fresh
        if self._together and fresh.size and fresh.carriers >= self._enough:
            pending = _microseconds(fresh.times[: fresh.size])
            if pending is not None and self._limits.presses(now, pending, self._clock.began):
                self._update()

    def _expired(self, now: int) -> bool:
        """Erase what is too old; where that speaks only together, all of it. Whether anything was erased."""
        deadline = np.datetime64(now - self._limits.age, "us")
        held, clock, fresh = self._held, self._clock, self._fresh.records(self._clock.last)
        late = bool(len(held)) and bool(held.times[0] <= deadline)
        lost = self._together and (late or (clock.began is not None and clock.began <= now - self._limits.age))
        waiting = fresh.where(fresh.times > deadline)
        if not (late or lost or len(waiting) < len(fresh)):
            return False
        t = self._t
        if len(waiting) < len(fresh) or lost:
            start = int(waiting.rounds[0]) if len(waiting) else t + 1
            since = start if self._together else clock.since
            self._clock = Clock(start - 1, first=start, last=start - 1, since=since)
            self._fresh.replace(waiting, start - 1, t + 1 - start)
        held = Records.none(held.columns) if lost else held.where(held.times > deadline)
        if not len(waiting) and not len(held):
            self._receipts = tuple(receipt.settled(t) for receipt in self._receipts)
        self._hold(held)
        return True

    @property
    def _newest(self) -> np.datetime64 | None:
        """The latest time of a record that is held."""
        times = self.retained.times
        times = times[~np.isnat(times)]
        return times[-1] if len(times) else None

    def _next_event(self, arriving: np.datetime64) -> np.datetime64:
        """Before this time nothing is due that could not be done with the next arrival."""
        pending = _microseconds(self._fresh.times[: self._fresh.size])
        return np.datetime64(
            self._limits.next_event(
                _microseconds(self._held.times),
                int(arriving.astype(np.int64)) if pending is None else pending,
                self._clock.began,
            ),
            "us",
        )

    def forget(
        self,
        *,
        rounds: int | Sequence[int] | NDArray[np.int64] | None = None,
        subject: str | None = None,
        now: bool = False,
    ) -> Receipt:
        """Ask for records to be removed: the next update may learn from them, not keep them.

        Args:
            rounds: those of the records; the records of other rounds stay.
            subject: whose records are to go, in place of `rounds`.
            now: erase them at once. What they helped to say is written into the records that are left: into the newest
                ones if there are enough, else into the kept ones, which then say it less exactly.

        Returns:
            a receipt, which says nothing of the records, not even whether there were any.
        """
        if (rounds is None) == (subject is None):
            raise ParameterError("forget takes rounds=... or subject=..., just one of them")
        fresh, held = self._fresh, self._held
        waiting = np.arange(self._clock.last + 1, self._t + 1)
        if rounds is not None:
            asked = checked_rounds(rounds, self._t)
            leaving, fresh_leaving = np.isin(held.rounds, asked), np.isin(waiting, asked)
        else:
            name = self._named(subject)
            leaving, fresh_leaving = held.subjects == name, fresh.subjects[: fresh.size] == name
        before = self._kept()
        try:
            fresh.mark(fresh_leaving)
            self._held = held.with_leaving(held.leaving | leaving)
            due = self._t if now else self._clock.last + self._full
            self._receipts = (*self._receipts, Receipt.made(self._t, due, self.max_age))
            made = self._receipts[-1].id
            if now:
                self._forget_now()
            else:
                self._save()
        except BaseException:
            self._return_to(before)
            raise
        return next(receipt for receipt in self._receipts if receipt.id == made)

    def _forget_now(self) -> None:
        """Erase what is leaving at once; close the batch early if that can carry on what is known.

        So too if the answer would be written into kept records that could not wait for another batch.
        """
        fresh, clock, t = self._fresh, self._clock, self._t
        if self._together and fresh.carriers >= self._enough:
            self._update()
            return
        retained = self.retained
        if self._together and retained.leaving.any():
            made = self._policy.rewrite(self.clock, retained.shown(), self._coins(self._t))
            if made is not None and made[0] > clock.last and self._room(replace(clock, t=t, last=t)) < self._enough:
                self._update()
                return
            if made is not None:
                last, keep = made
                self._clock = Clock(last, first=clock.first, last=last, since=clock.since, began=clock.began)
                retained = retained.where(checked_mask(self._policy, keep, retained))
            else:
                if clock.encoded:
                    self._clock = Clock(clock.last, first=clock.last + 1, last=clock.last, since=clock.last + 1)
                retained = retained.where(~retained.leaving & (retained.rounds > clock.last))
        else:
            retained = retained.where(~retained.leaving)
        waits = retained.rounds > self._clock.last
        fresh.replace(retained.where(waits), self._clock.last, t - self._clock.last)
        self._receipts = tuple(receipt.settled(t) for receipt in self._receipts)
        self._hold(retained.where(~waits))
        self._save()

    def _named(self, subject: str | None) -> str | None:
        """What stands for a subject: a pseudonym in a store, itself elsewhere."""
        if subject is not None and not isinstance(subject, str):
            raise DataError(f"a subject is a {type(subject).__name__}; pass texts")
        return subject if subject is None or self._place is None else self._place.store.pseudonym(subject)

    def flush(self) -> None:
        """Make durable what has arrived since the last update; nothing to do without a store."""
        if self._unsaved or self._saved != self._t:
            self._save()

    def _save(self) -> None:
        if self._place is not None:
            self._place.commit(self._terms, State(self.clock, self.retained, self._positions, self._receipts))
        self._saved, self._unsaved = self._t, False


def _definer(policy: Policy, method: str) -> type:
    """The class that says how this method works."""
    return next(cls for cls in type(policy).__mro__ if method in vars(cls))


def _microseconds(times: NDArray[np.datetime64]) -> int | None:
    """The first of these times that is one, in microseconds since 1970."""
    known = times[~np.isnat(times)]
    return int(known[0].astype(np.int64)) if len(known) else None
