"""Late rows: which of them are taken, and how many rows can be taken before something must be done.

These rules are ours. A row is late by how much its time lies before the newest one since the last update; no row waits
for others, so that each deadline follows from the record's own time. What is decided depends on times alone, never on
values, and is the same however rows are split into calls.
Guarantee: extending is pushing one by one; held by tests/stream/test_lateness.py against a plain reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.records import Records
from vestige.stream.deadlines import NEVER, find_earliest, find_newest, find_next_event, find_patience
from vestige.stream.limits import Limits
from vestige.types import Bools, Ints


@dataclass(frozen=True, slots=True)
class ArrivalWindow:
    """What the times of the next rows are compared with, in microseconds; times are since 1970.

    Attributes:
        newest: newest time since the last update; lateness is counted from it.
        lateness: how late a row may be; None if rows are known to come in the order of their times.
        oldest: oldest time of a record that waits for an update.
        patience: how long a record may wait before its batch must be closed.
        event: when something must be done for the records that were kept.
    """

    newest: int
    lateness: int | None
    oldest: int
    patience: int
    event: int

    def admit(self, times: Ints) -> Bools | slice:
        """Select the rows that are taken: those that are not too late, given the rows before them.

        Args:
            times: of the next rows, in order of arrival.

        Returns:
            One flag per row, or a slice of all of them.
        """
        return slice(0, len(times)) if self.lateness is None else self._find_punctual(times, self.lateness)

    def count_quiet(self, times: Ints) -> int:
        """Count the rows that can be taken before something must be done.

        Args:
            times: of the next rows, in order of arrival.

        Returns:
            The number of rows; at least 1.
        """
        if self.lateness is None:
            event = min(min(self.oldest, int(times[0])) + self.patience, self.event)
            return max(1, int(np.searchsorted(times, event)))
        taken = self._find_punctual(times, self.lateness)
        oldest = np.minimum(np.minimum.accumulate(np.where(taken, times, NEVER)), self.oldest)
        events = np.minimum(np.minimum(oldest, NEVER - self.patience) + self.patience, self.event)
        busy = self._find_newest(times)[1:] >= events[:-1]
        return 1 + int(np.argmax(busy)) if busy.any() else len(times)

    def _find_punctual(self, times: Ints, lateness: int) -> Bools:
        return times >= self._find_newest(times) - lateness

    def _find_newest(self, times: Ints) -> Ints:
        """Find the newest time so far, at each row."""
        running: Ints = np.maximum(np.maximum.accumulate(times), self.newest)
        return running


def make_window(
    limits: Limits, arriving: int, pending_times: NDArray[np.datetime64], held: Records, due: int | None
) -> ArrivalWindow:
    """Gather what the times of the next rows are compared with.

    Args:
        limits: have a `max_age`.
        arriving: time of the first row.
        pending_times: of the records since the last update.
        held: the records that this update kept.
        due: deadline of the encoded batch.

    Returns:
        The window.
    """
    newest = find_newest(limits, pending_times, due)
    oldest = find_earliest(pending_times)
    return ArrivalWindow(
        newest=arriving if newest is None else newest,
        lateness=None if limits.lateness is None else limits.lateness // timedelta(microseconds=1),
        oldest=NEVER if oldest is None else oldest,
        patience=find_patience(limits),
        event=find_next_event(limits, find_earliest(held.times), due),
    )
