"""Limits in time: what is too old is erased, and a batch is closed early where it could not be saved later.

These limits are ours.
Guarantee: no record is held when it is too old; held by tests/stream/test_times.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vestige.errors import DataError
from vestige.records import Clock, Records
from vestige.store.state import wall_clock
from vestige.stream.arriving import Time, instant_of
from vestige.stream.limits import earliest
from vestige.stream.updating import Updating


class Deadlines(Updating):
    """A stream that keeps `max_age`."""

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
            pending = earliest(fresh.times[: fresh.size])
            if pending is not None and self._limits.presses(now, pending, self._clock.due):
                self._update()

    def _expired(self, now: int) -> bool:
        """Erase what is too old; where that speaks only together, all of it. Whether anything was erased."""
        deadline = np.datetime64(now - self._limits.age, "us")
        held, clock, fresh = self._held, self._clock, self._fresh.records(self._clock.last)
        late = bool(len(held)) and bool(held.times[0] <= deadline)
        passed = clock.due is not None and clock.due <= now
        lost = self._together and (late or passed)
        waiting = fresh.where(fresh.times > deadline)
        if not (late or passed or len(waiting) < len(fresh)):
            return False
        t = self._t
        if passed:
            self._clock = replace(clock, due=None)
        if len(waiting) < len(fresh) or lost:
            start = int(waiting.rounds[0]) if len(waiting) else t + 1
            since, updates = (start, 0) if self._together else (clock.since, clock.updates)
            self._clock = Clock(start - 1, first=start, last=start - 1, since=since, updates=updates)
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
        pending = earliest(self._fresh.times[: self._fresh.size])
        return np.datetime64(
            self._limits.next_event(
                earliest(self._held.times),
                int(arriving.astype(np.int64)) if pending is None else pending,
                self._clock.due,
            ),
            "us",
        )
