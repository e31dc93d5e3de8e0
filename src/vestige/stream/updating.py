"""The state of a stream, and its update: a batch is closed, what is kept is held, and a store has it before we go on.

The second half of Proposition 2.1 of Immorlica et al. (2024): a batched policy runs in a stream with twice the memory;
between updates records are appended.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.channels import mantissa_bits
from vestige.channels.rounding import add_rounding
from vestige.errors import ParameterError, StoreError
from vestige.policy import Policy
from vestige.random import keys
from vestige.random.keys import AuditSeed
from vestige.records import Clock, Records, no_times
from vestige.serialization import to_dict
from vestige.store import Place, Position, Receipt, State, Terms
from vestige.store.state import wall_clock
from vestige.stream.limits import Limits
from vestige.stream.masks import check_encodable, check_limits, check_newest
from vestige.stream.pending import Appended, Arrivals
from vestige.stream.runtime import Runtime, check_restart
from vestige.validation import show_value

_Before = tuple[Clock, Records, Records | None, int, Mapping[str, Position], tuple[Receipt, ...]]


class Updating(Runtime):
    """What is held and what waits, under limits in rounds; see `Stream` for the arguments."""

    def __init__(
        self,
        policy: Policy,
        *,
        retention: int | None = None,
        notice: int | None = None,
        max_age: timedelta | None = None,
        max_ahead: timedelta | None = None,
        lateness: timedelta | None = None,
        seed: int | AuditSeed | None = None,
        retained: Records | None = None,
        clock: Clock | None = None,
        store: Place | None = None,
    ) -> None:
        self._limits = Limits(retention, notice, max_age, max_ahead, lateness)
        self._retention = self._limits.retention
        super().__init__(policy, self._limits.in_rounds(policy), 2, seed)
        if store is not None and not isinstance(store, Place):
            raise ParameterError(
                f"store={show_value(store)} is not a place in a store; pass store.stream(NAME) of an open one"
            )
        self._place = store
        if store is not None:
            self._lock = store.store._turn  # one for both, so that neither waits for the other
        self._terms = self._made_terms()
        self._positions: Mapping[str, Position] = {}
        self._receipts: tuple[Receipt, ...] = ()
        if store is not None:
            if retained is not None or clock is not None:
                raise ParameterError("a stream goes on from its store; leave out retained=... and clock=...")
            state = store.open(self._terms)
            retained, clock = state.retained, state.clock
            self._positions, self._receipts = state.positions, state.receipts
        held, clock = check_restart(policy, retained, clock)
        self._update_every = 1 if policy.every_round else self._batch
        self._check_start(held, clock)
        self._many_at_once = issubclass(_definer(policy, "update_many"), _definer(policy, "update"))
        self._all_or_nothing = policy.all_or_nothing and not policy.every_round
        self._minimum, self._enough = policy.min_batch, min(policy.min_early_batch, self._batch)
        self._largest = policy.max_magnitude
        self._timed = max_age is not None
        self._fresh = Appended(self._update_every, policy.columns, quick=not self._timed)
        self._take_over(clock, held)
        self._note_saved()
        self._erase_due()
        if store is not None:
            store.take(self)

    def __getstate__(self) -> dict[str, object]:
        if self._place is not None:
            raise StoreError(
                f"stream {self._place.name!r} lives in a store, which has just one of it; do not copy or pickle it, "
                "open it from the store where it is needed"
            )
        return super().__getstate__()

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
    def max_ahead(self) -> timedelta | None:
        """With `max_age`, how far ahead of the machine's clock a record may be dated."""
        return self._limits.max_ahead

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
            policy=to_dict(self._policy),
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
        with self._lock:
            return replace(self._clock, t=self._t)

    @property
    def retained(self) -> Records:
        """The records that are held; with the clock, the whole state."""
        with self._lock:
            return self._held.followed_by(self._fresh.records(self._clock.last))

    def _kept(self, *, whole: bool) -> _Before:
        """What to return to if something goes wrong; not `whole` if records can only have been added until then."""
        fresh, clock = self._fresh, self._clock
        waiting = fresh.records(clock.last) if whole else None
        return clock, self._held, waiting, fresh.size, self._positions, self._receipts

    def _return_to(self, before: _Before) -> None:
        self._clock, held, fresh, size, self._positions, self._receipts = before
        self._hold(held)
        if fresh is None:
            self._fresh.cut(size)
        else:
            self._fresh.replace(fresh, self._clock.last, size)

    def _update(self) -> None:
        """Close the batch that waits: the policy chooses, all else is erased, and the store has it before we go on."""
        self._erase_due()
        fresh = self._fresh
        if self._many_at_once and not (fresh.marked or fresh.holed) and fresh.size >= self._minimum:
            clock, held = self._at_once(fresh.arrivals(), fresh.size)
        else:
            clock, held = self._updated(self.clock, self._held, fresh.records(self._clock.last))
        if self._timed and clock.encoded:
            clock = replace(clock, due=self._limits.due(fresh.times[: fresh.size]))
        self._adopt(clock, held)

    def _can_close(self, fewest: int) -> bool:
        """Whether what waits can say all that is known, and `fewest` of its records can be kept."""
        fresh = self._fresh
        if not self._all_or_nothing or fresh.carriers < fewest:
            return False
        waiting, policy = fresh.records(self._clock.last), self._policy
        return check_encodable(policy, policy.can_encode(self.clock.copy(), waiting.rounds, waiting.leaving))

    def _adopt(self, clock: Clock, held: Records) -> None:
        """Make this the state, in which no records wait; durable first, if it has to be."""
        receipts = tuple(receipt.settled(clock.t) for receipt in self.receipts) if self._receipts else ()
        if len(held) and held.rounds[0] <= (bygone := self._bygone(clock)):
            held = held.where(held.rounds > bygone)
        check_limits(self._policy, held, clock.t, self._retention)
        if self._place is not None:
            self._place.commit(self._terms, State(clock, held, self._positions, receipts))
        self._receipts, self._clock = receipts, clock
        self._fresh.clear()
        self._hold(held)
        self._note_saved()

    def _bygone(self, clock: Clock) -> int:
        """The last round whose record is due; in a store one that would be before the next update has to go now."""
        if self._retention is None:
            return 0
        return clock.last - self._retention + (0 if self._place is None else self._room(clock) - 1)

    def _at_once(self, new: Arrivals, size: int) -> tuple[Clock, Records]:
        """The state after one or more whole batches of `size`, none of whose records are leaving, in one call."""
        clock, held, rows = self._clock, self._held, new.rows
        t = clock.last + len(rows)
        keys = self._keys(clock.last + size, size, len(rows) // size)
        mask = self._policy.update_many(clock.copy(), held.shown(), rows.copy(), keys)
        older, newer = check_newest(self._policy, mask, held, len(rows))
        chosen = newer.nonzero()[0] + (len(rows) - len(newer))
        n = len(chosen)
        kept = Records._trusted(
            chosen + (clock.last + 1),
            rows.take(chosen, 0),
            np.zeros(n, np.bool_),
            no_times(n) if new.times is None else new.times[chosen],
            np.empty(n, np.object_) if new.subjects is None else new.subjects[chosen],  # empty is None each
            np.zeros(n, np.int64) if new.numbers is None else new.numbers[chosen],
        )
        if len(older):
            kept = held.where(slice(len(held) - len(older), None)).where(older).followed_by(kept)
        rounding = self._rounded_often(clock, size, len(keys)) if self._words else 0.0
        return Clock(t, t - size + 1, t, clock.since, None, clock.updates + len(keys), rounding, clock.gaps), kept

    def _rounded_often(self, clock: Clock, size: int, batches: int) -> float:
        """The clock's rounding after several whole batches, one by one, so that it is the same however they came."""
        rounding, encoded, bits = clock.rounding, clock.encoded, mantissa_bits(size // self._words)
        for _ in range(batches):
            rounding = add_rounding(rounding, self._carried(encoded, size), bits)
            encoded += size
        return rounding

    def _keys(self, first: int, step: int, count: int) -> NDArray[np.uint64]:
        """The coins of `count` updates, every `step` rounds from `first` on."""
        if self._policy.requires_secret_coins:
            return self._secret_keys(first, step, count)
        if count == 1:
            return np.array([keys.key(self._seed, first)], np.uint64)
        from vestige.random.kernels import derive_keys  # noqa: PLC0415

        return derive_keys(np.uint64(keys.root(self._seed)), first, step, count)

    def _take_over(self, clock: Clock, retained: Records) -> None:
        """Make this the state: what has arrived since the last update waits for the next one."""
        waits = retained.rounds > clock.last
        self._clock = replace(clock, t=clock.last)
        self._fresh.replace(retained.where(waits), clock.last, clock.pending)
        self._hold(retained.where(~waits))

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
        if self._retention is not None and clock.encoded and self._all_or_nothing:
            room = min(room, clock.first + self._retention - 1 - clock.last)
        for receipt in self._receipts:
            if receipt.erased is None and receipt.due_round > clock.last:
                room = min(room, receipt.due_round - clock.last)
        return room

    def _erase_due(self) -> None:
        """Erase what `retention` no longer allows; the next update meets requests, and comes before they are due."""
        if self._retention is not None and self._t >= self._next_due:
            self._hold(self._held.where(self._held.rounds > self._t - self._retention))

    def flush(self) -> None:
        """Make durable what has arrived since the last update; nothing to do without a store."""
        with self._lock:
            lost = self._place is not None and self._place.lost and (self._t or self._positions or self._receipts)
            if lost or self._unsaved or self._saved != (self._t, self._positions):
                self._save()

    def _save(self) -> None:
        if self._place is not None:
            state = State(self.clock, self.retained, self._positions, self._receipts)
            self._place.commit(self._terms, state)
        self._note_saved()

    def _note_saved(self) -> None:
        self._saved, self._unsaved = (self._t, self._positions), False


def _definer(policy: Policy, method: str) -> type:
    """The class that says how this method works."""
    return next(cls for cls in type(policy).__mro__ if method in vars(cls))
