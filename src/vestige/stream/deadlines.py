"""Limits in time: what is too old is erased, and a batch is closed early where it could not be saved later.

These limits are ours.
Guarantee: no record is held when it is too old; held by tests/stream/test_times.py.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.errors import DataError
from vestige.store.state import wall_clock
from vestige.stream.lateness import FAR, Moment
from vestige.stream.limits import earliest, expire, latest
from vestige.stream.pending import Time, check_known, check_order, instant_of
from vestige.stream.removal import Requests


class Deadlines(Requests):
    """A stream that keeps `max_age`."""

    def sweep(self, now: Time | None = None) -> int:
        """Erase what is due without an arrival; a batch that would be lost otherwise is closed early.

        Call it every eighth of `max_age`, or more often.

        Args:
            now: the time by the clock that counts; that of the machine unless said.

        Returns:
            how many records were erased.
        """
        moment = instant_of(wall_clock() if now is None else now)
        if np.isnat(moment):
            raise DataError("now is not a time; pass a datetime or a numpy.datetime64")
        instant = int(moment.astype(np.int64))
        with self._lock:
            if self._place is not None:
                self._place.check_open()
            return self._sweep(instant)

    def _sweep(self, instant: int) -> int:
        if self._timed and self._limits.ahead(self.retained.times, instant).any():
            problem = self._meet_requests()
            raise DataError(
                f"now lies more than max_ahead={self._limits.max_ahead} before the time of a record that is held: a "
                "clock cannot run backwards; set it right, pass the time by the clock that the records' times come "
                "from, or remove the record, if its time is wrong, with forget(rounds=...): nothing was erased for "
                "its age"
            ) from problem
        before = len(self.retained)
        if self._timed:
            self._expire(instant)
        problem = self._meet_requests()
        if self._timed:
            self._close_early(instant)
        if problem is not None:
            raise problem
        return before - len(self.retained)

    def _meet_requests(self) -> Exception | None:
        """Erase at once what requests asked for whose time has come; what the policy raised, if it did."""
        at, left = wall_clock(), self.receipts
        if any(receipt.erased is None and receipt.due is not None and receipt.due <= at for receipt in left):
            return self._forget_now()
        if left != self._receipts:
            self._receipts, self._unsaved = left, True
            self._hold(self._held)
            self._save()
        return None

    def _expire(self, now: int) -> None:
        """Let it be `now`: erase what is too old, durably."""
        if self._expired(now):
            self._unsaved = True
        if self._unsaved:
            self._save()

    def _close_early(self, now: int) -> None:
        """Let it be `now`: close the batch early where it could not be saved later."""
        fresh = self._fresh
        if self._all_or_nothing and fresh.size:
            pending = earliest(fresh.times[: fresh.size])
            pressing = pending is not None and self._limits.presses(now, pending, self._clock.due)
            if pressing and self._can_close(self._enough):
                self._update()

    def _expired(self, now: int) -> bool:
        """Erase what is too old, see `expire`; whether anything was."""
        deadline = np.datetime64(now - self._limits.age, "us")
        due, waiting = self._clock.due, self._fresh.times[: self._fresh.size]
        passed = due is not None and due <= now
        if not (passed or (self._held.times <= deadline).any() or (waiting <= deadline).any()):
            return False
        retained = self.retained
        clock, left = expire(self.clock, retained, retained.times <= deadline, now, all_or_nothing=self._all_or_nothing)
        if not len(left):
            self._receipts = tuple(receipt.settled(clock.t) for receipt in self._receipts)
        self._take_over(clock, left)
        return True

    def _check_times(self, times: NDArray[np.datetime64]) -> None:
        """Raise a DataError where rows of these times cannot be taken."""
        check_known(times)
        ahead = self._limits.ahead(times, int(instant_of(wall_clock()).astype(np.int64)))
        if ahead.any():
            raise DataError(
                f"the time of row {int(np.argmax(ahead))} of {len(times)} (counted from 0) lies more than "
                f"max_ahead={self._limits.max_ahead} ahead of the machine's clock, and would erase what is held as too "
                "old; correct it or drop the row, set the clock right, or allow more: nothing of this call was taken"
            )
        if self._limits.lateness is None:
            check_order(times, self._newest)

    @property
    def _newest(self) -> int | None:
        """The newest time since the last update; before one has come, that of the oldest record before, rounded down.

        So it does not depend on which records were kept, and neither does which rows are taken.
        """
        due = self._clock.due
        known = (latest(self._fresh.times[: self._fresh.size]), None if due is None else due - self._limits.age)
        return max((time for time in known if time is not None), default=None)

    def _moment(self, arriving: int) -> Moment:
        """What the times of the next rows are compared with, the first of which is `arriving`."""
        newest, limits = self._newest, self._limits
        oldest = earliest(self._fresh.times[: self._fresh.size])
        return Moment(
            newest=arriving if newest is None else newest,
            lateness=None if limits.lateness is None else limits.lateness // timedelta(microseconds=1),
            oldest=FAR if oldest is None else oldest,
            patience=limits.patience,
            event=limits.next_event(earliest(self._held.times), self._clock.due),
        )
