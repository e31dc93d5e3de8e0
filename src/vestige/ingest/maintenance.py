"""Deadlines and requests while a run waits for rows: both are handled about every second.

Records that are due are erased from open streams within about a second, and from all other streams of the store within
a hundredth of their maximum age. Records of the past that are loaded later go by their own times, each stream on its
own. Requests that other processes left beside the store are carried out.
Guarantee: a run that waits on a quiet pipe holds no record that is too old; held by tests/ingest/test_maintenance.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.errors import StoreBusyError, StreamsError, VestigeError
from vestige.keyed import KeyedStreams
from vestige.operations import process_inbox, sweep
from vestige.operations.confirmation import confirm_requests
from vestige.sources.block import Texts
from vestige.store import Store
from vestige.stream import Stream
from vestige.types import Ints, Times

EVERY = 1.0
"""Seconds between two rounds of maintenance."""
_MAX_PAUSE = 600.0
"""Maximum number of seconds between two sweeps of the whole store."""
_REST = 20.0
"""Pause after a sweep, as a multiple of the time that it took."""


class Maintenance:
    """Maintains streams while a run holds them.

    Args:
        store: where the streams are kept, if anywhere.
        max_age: maximum age of a record in the run's own streams.
        warn: function that shows a message to the user.

    Attributes:
        requests: requests that could not be carried out, with a sentence each.
    """

    def __init__(self, store: Store | None, max_age: timedelta | None, warn: Callable[[str], None]) -> None:
        self._store, self._max_age, self._warn = store, max_age, warn
        self._warned: set[str] = set()
        self.requests: dict[str, str] = {}
        self._history: dict[str, bool] = {}
        """For each stream that was given rows in this run, whether they are records of the past."""
        self._next_round = self._next_open = self._next_all = time.monotonic()

    def note_rows(
        self, name: str, stream: Stream, times: NDArray[np.datetime64] | None, arrived: datetime, after: int
    ) -> None:
        """Note which clock counts for a stream that has taken rows.

        Rows that are too old when they arrive are records of the past: their own times are the clock, since that of the
        machine would erase them all. This holds until a row arrives that is not too old. Records that arrived in time
        keep their deadline whatever follows; so do those of an earlier run, which may have arrived in time.

        Args:
            name: name of the stream.
            stream: stream after it has taken the rows.
            times: times of the rows; None if they have none, and are as old as their arrival.
            arrived: time of arrival.
            after: number of records that the stream had taken before.
        """
        if self._max_age is None or times is None or stream.t == after:
            return
        deadline = np.datetime64(arrived.replace(tzinfo=None), "us") - np.timedelta64(self._max_age)
        if times.max() > deadline:
            self._history[name] = False
        elif not self._history.get(name, False):
            self._history[name] = not (stream.retained.rounds <= after).any()

    def note_keyed(
        self, names: Texts, newest: Times, held: Ints, arrived: datetime, *, exclude: Collection[str] = ()
    ) -> None:
        """Note which clock counts for many streams that have taken rows; see `note_rows`.

        Args:
            names: names of the streams.
            newest: newest time of the rows of each.
            held: number of records that each held before.
            arrived: time of arrival.
            exclude: names of streams that took no rows.
        """
        if self._max_age is None:
            return
        is_old = newest <= np.datetime64(arrived.replace(tzinfo=None), "us") - np.timedelta64(self._max_age)
        for name, old, empty in zip(names, is_old.tolist(), (held == 0).tolist(), strict=True):
            if name in exclude:
                continue
            if not old:
                self._history.pop(name, None)
            elif empty:
                self._history[name] = True

    def run_due(self, streams: Iterable[tuple[str, Stream]] | KeyedStreams, *, is_waiting: bool) -> None:
        """Carry out requests; and on a pipe, which may be quiet for long, erase what is due.

        Does nothing if the last round was less than a second ago.

        Args:
            streams: open streams of the run, by name.
            is_waiting: whether the run reads from a source that it has to wait for.
        """
        now = time.monotonic()
        if now < self._next_round:
            return
        self._next_round = now + EVERY
        try:
            if self._store is not None:
                for name, trouble in process_inbox(self._store).troubles.items():
                    if name not in self.requests:
                        self._warn(f"{name}: {trouble}")
                    self.requests[name] = trouble
            if is_waiting:
                self._sweep(streams, now)
        except StoreBusyError as problem:  # the next round tries again
            self._warn(f"Overdue: {problem}")

    def confirm(self, store: Store) -> None:
        """Note in the receipts of a store which requests have been met.

        Args:
            store: the store.
        """
        troubles: dict[str, str] = {}
        try:
            confirm_requests(store, troubles)
        except StoreBusyError as problem:  # the next run or sweep tries again
            self._warn(str(problem))
        for name, trouble in troubles.items():
            self._warn_once(name, trouble)

    def _sweep(self, streams: Iterable[tuple[str, Stream]] | KeyedStreams, now: float) -> None:
        history = [name for name, is_history in self._history.items() if is_history]
        if self._max_age is not None and now >= self._next_open:
            if isinstance(streams, KeyedStreams):
                self._sweep_keyed(streams, history)
            else:
                self._sweep_each(streams, history)
            self._next_open = time.monotonic() + _REST * (time.monotonic() - now)
        if self._store is not None and now >= self._next_all:
            for name, trouble in sweep(self._store, exclude=history).troubles.items():
                self._warn_once(name, trouble)
            self._next_all = time.monotonic() + max(self._find_pause(), _REST * (time.monotonic() - now))

    def _sweep_keyed(self, streams: KeyedStreams, history: Collection[str]) -> None:
        """Erase what is due in the streams by key, which writes them."""
        try:
            streams.sweep(exclude=history)
        except StreamsError as problem:
            for name, trouble in problem.troubles.items():
                self._warn_once(name, str(trouble))

    def _sweep_each(self, streams: Iterable[tuple[str, Stream]], history: Collection[str]) -> None:
        """Erase what is due in streams that were not removed meanwhile."""
        for name, stream in streams:
            removed = self._store is not None and self._store.live(name) is not stream
            if removed or name in history:
                continue
            try:
                stream.sweep()
            except StoreBusyError:
                raise
            except VestigeError as problem:
                self._warn_once(name, str(problem))

    def _find_pause(self) -> float:
        """Return the seconds between two sweeps of the whole store: a hundredth of the smallest maximum age in it."""
        assert self._store is not None  # noqa: S101
        limits = [self._max_age]
        for name in self._store.survey()[0]:
            try:
                limits.append(self._store.terms(name).max_age)
            except VestigeError as problem:
                self._warn_once(name, str(problem))
        shortest = min((limit.total_seconds() for limit in limits if limit is not None), default=_MAX_PAUSE * 100)
        return min(max(shortest / 100, EVERY), _MAX_PAUSE)

    def _warn_once(self, name: str, trouble: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            self._warn(f"Trouble with {name!r}: {trouble}")
