"""While a run waits for rows, deadlines and requests do not: both are looked after every second.

What is due goes from the streams that are open within about a second, and from all others in the store within a
hundredth of their limit in time; history that is filled in goes by its own times, each stream for itself. Requests
that other processes left beside the store are carried out.
Guarantee: a run that waits on a quiet pipe holds no record that is too old; held by tests/test_maintenance.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.errors import StoreBusyError, VestigeError
from vestige.operations import attend, sweep
from vestige.store import Store
from vestige.stream import Stream

EVERY = 1.0
"""Seconds between two looks."""
_LONGEST = 600.0
"""Seconds between two sweeps of the whole store, at most."""
_SHARE = 20.0
"""A sweep is made so rarely that it takes no more than one part in so many of the time."""


class Upkeep:
    """Looks after streams while a run holds them.

    Args:
        store: where they live, if anywhere.
        max_age: the limit in time of the run's own streams.
        warn: is told what the user should know, once.
    """

    def __init__(self, store: Store | None, max_age: timedelta | None, warn: Callable[[str], None]) -> None:
        self._store, self._max_age, self._warn = store, max_age, warn
        self._warned: set[str] = set()
        self.requests: dict[str, str] = {}
        """What of requests could not be carried out, a sentence each."""
        self._history: dict[str, bool] = {}
        """Of each stream that was given rows in this run, whether they are history that is filled in."""
        self._next_look = self._next_open = self._next_all = time.monotonic()

    def see(
        self, name: str, stream: Stream, times: NDArray[np.datetime64] | None, arrived: datetime, after: int
    ) -> None:
        """Find out whose clock counts for a stream that has taken rows.

        Rows that are too old when they come are history that is filled in: their own times are the clock, and that of
        the machine would erase them all. That is so until a row comes that is not too old. Records that came in time
        keep their deadline whatever comes after them; so do those of an earlier run, of which nobody can say whether
        they came in time.

        Args:
            name: of the stream.
            stream: as it is after it took the rows.
            times: of the rows; None where they say none, and then they are as old as their arrival.
            arrived: when they came.
            after: how many records the stream had taken before.
        """
        if self._max_age is None or times is None or stream.t == after:
            return
        deadline = np.datetime64(arrived.replace(tzinfo=None), "us") - np.timedelta64(self._max_age)
        if times.max() > deadline:
            self._history[name] = False
        elif not self._history.get(name, False):
            self._history[name] = not (stream.retained.rounds <= after).any()

    def look(self, streams: Iterable[tuple[str, Stream]], *, waiting: bool) -> None:
        """Carry out requests; and on a pipe, where rows may not come for long, erase what is due.

        Args:
            streams: those that the run has open, by name.
            waiting: whether the run reads from a pipe.
        """
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + EVERY
        try:
            if self._store is not None:
                for name, trouble in attend(self._store).troubles.items():
                    if name not in self.requests:
                        self._warn(f"{name}: {trouble}")
                    self.requests[name] = trouble
            if waiting:
                self._sweep(streams, now)
        except StoreBusyError as problem:  # it is tried again with the next look
            self._warn(f"Overdue: {problem}")

    def _sweep(self, streams: Iterable[tuple[str, Stream]], now: float) -> None:
        history = {name for name, is_history in self._history.items() if is_history}
        if self._max_age is not None and now >= self._next_open:
            for name, stream in streams:
                removed = self._store is not None and self._store.live(name) is not stream
                if removed or name in history:
                    continue
                try:
                    stream.sweep()
                except StoreBusyError:
                    raise
                except VestigeError as problem:
                    self._say(name, str(problem))
            self._next_open = time.monotonic() + _SHARE * (time.monotonic() - now)
        if self._store is not None and now >= self._next_all:
            for name, trouble in sweep(self._store, exclude=list(history)).troubles.items():
                self._say(name, trouble)
            self._next_all = time.monotonic() + max(self._pause(), _SHARE * (time.monotonic() - now))

    def _pause(self) -> float:
        """Seconds between two sweeps of the whole store: a hundredth of the shortest limit in it."""
        assert self._store is not None  # noqa: S101
        limits = [self._max_age]
        for name in self._store.survey()[0]:
            try:
                limits.append(self._store.terms(name).max_age)
            except VestigeError as problem:
                self._say(name, str(problem))
        shortest = min((limit.total_seconds() for limit in limits if limit is not None), default=_LONGEST * 100)
        return min(max(shortest / 100, EVERY), _LONGEST)

    def _say(self, name: str, trouble: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            self._warn(f"Trouble with {name!r}: {trouble}")
