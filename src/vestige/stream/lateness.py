"""Late rows: which are still taken, and how many rows can be taken before something has to be done.

These rules are ours. A row is late by how much its time lies before the newest one since the last update; none of them
waits for others, so that each deadline is that of the record's own time. What is decided depends on times alone, never
on values, and is the same however rows are cut into calls.
Guarantee: extending is pushing one by one; held by tests/stream/test_lateness.py against a plain reference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vestige.types import Bools, Ints

FAR = 2**63 - 1
"""A time that never comes."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What the times of the next rows are compared with; all in microseconds, times since 1970.

    Attributes:
        newest: the newest time since the last update, to which rows may be late.
        lateness: how late a row may be; None if rows are known to come in the order of their times.
        oldest: the oldest time of a record that waits for an update.
        patience: how long a record may wait before its batch has to be closed.
        event: when something has to be done for the records that were kept.
    """

    newest: int
    lateness: int | None
    oldest: int
    patience: int
    event: int

    def admit(self, times: Ints) -> Bools | slice:
        """Which rows are taken: those that are not too late when they come, after the rows before them."""
        return slice(0, len(times)) if self.lateness is None else self._punctual(times, self.lateness)

    def quiet(self, times: Ints) -> int:
        """How many of the next rows, at least one, come before something has to be done."""
        if self.lateness is None:
            event = min(min(self.oldest, int(times[0])) + self.patience, self.event)
            return max(1, int(np.searchsorted(times, event)))
        taken = self._punctual(times, self.lateness)
        oldest = np.minimum(np.minimum.accumulate(np.where(taken, times, FAR)), self.oldest)
        events = np.minimum(np.minimum(oldest, FAR - self.patience) + self.patience, self.event)
        busy = self._running(times)[1:] >= events[:-1]
        return 1 + int(np.argmax(busy)) if busy.any() else len(times)

    def _punctual(self, times: Ints, lateness: int) -> Bools:
        return times >= self._running(times) - lateness

    def _running(self, times: Ints) -> Ints:
        """The newest time so far, at each row."""
        running: Ints = np.maximum(np.maximum.accumulate(times), self.newest)
        return running
