"""The paper's streaming model: one record a round, erased in time.

Section 2 of Immorlica et al. (2024), with the m-recency property. How a batch is closed is in
`vestige.stream.updating`; limits in time and removal requests, for which it is closed early where it must be, in
`vestige.stream.deadlines` and `vestige.stream.removal`.
Guarantee: after every round the retained records obey the limits; held by tests/stream/test_rules.py and
tests/stream/test_times.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.errors import DataError, ParameterError
from vestige.records import LARGEST_ROW, LARGEST_SLOT, drop_rows, number_rows
from vestige.store import Position
from vestige.stream.deadlines import Deadlines
from vestige.stream.pending import Arrivals, Time, instant_of, instants_of, now_for, rows_of
from vestige.types import Ints
from vestige.validation import show_value

_AT_ONCE = 1 << 16
"""Records per call of `update_many`: enough to spend the time there, few enough to answer an interrupt."""


class Stream(Deadlines):
    """A stream of records under a legal limit, one record a round.

    Args:
        policy: what to keep and what to answer.
        retention: a record is gone this many rounds after it arrived.
        notice: a record is gone this many rounds after its removal was requested.
        max_age: a record is gone when it is this old, whatever comes first. Its time counts, or when it arrived if it
            has none; times may not decrease. Without arrivals, `sweep` has to be called to keep this.
        max_ahead: with `max_age`, a record that is dated further ahead of the machine's clock is refused; default: a
            day or a tenth of `max_age`, whichever is less.
        lateness: with `max_age`, a row may be dated this much before the newest record since the last update. It is
            taken at once, with its own date; a row that comes later still is not taken. Default: rows must come in the
            order of their times.
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
    ...     _ = stream.push(minute)
    >>> round(stream.estimate().value, 9)
    50.5
    >>> again = Stream(Mean(), retention=96, seed=0, retained=stream.retained, clock=stream.clock)
    >>> again.estimate().value == stream.estimate().value
    True
    """

    def position(self, source: str) -> Position:
        """How far `source` was read; see `extend`."""
        if not isinstance(source, str):
            raise ParameterError(f"source={show_value(source)} is not a name; pass the text that it was read under")
        return self._positions.get(source, Position())

    def restart_source(self, source: str) -> None:
        """Let `source` count as not read, since another file took its place; records keep no numbers of its rows."""
        with self._lock:
            self._drop_numbers(self.position(source).slot)
            self._positions = {name: position for name, position in self._positions.items() if name != source}

    def mark_source(self, source: str, mark: bytes) -> None:
        """Let `mark` be what `source` is recognised by from now on; see `extend`. One that was not read has none."""
        with self._lock:
            if source in self._positions:
                known = self.position(source)
                self._positions = {**self._positions, source: replace(known, mark=mark)}

    def push(self, row: ArrayLike, *, time: Time | None = None, subject: str | None = None) -> bool:
        """Take one record.

        Args:
            row: its values; a number will do in one dimension.
            time: when it arrived; kept with it, erased with it.
            subject: whom it is about; kept with it, erased with it.

        Returns:
            whether it was taken: False if it came later than `lateness` allows.

        Raises:
            DataError: it cannot be taken.
        """
        self._lock.acquire()  # not a with statement, which takes twice as long
        try:
            fresh = self._fresh
            size = fresh.size
            if self._place is not None:
                self._place.check_open()
            if self._timed:
                return self.extend([row], times=None if time is None else [time], subjects=[subject]) == 1
            label = None if time is None and subject is None else (instant_of(time), self._named(subject))
            if type(row) is float and fresh.single is not None and -(largest := self._largest) <= row <= largest:
                fresh.single[size] = row  # the common case, fast
            else:
                fresh.values[size] = rows_of([row], self._policy)[0]
            if label is not None:
                fresh.label_next(*label)
            fresh.size = size + 1
            if size >= self._alarm:
                self._ring()
        except BaseException:
            self._fresh.wipe_next()
            raise
        finally:
            self._lock.release()
        return True

    def _ring(self) -> None:
        """Do what is due with the newest record, an update or an erasure; an update that fails does not take it."""
        if self._fresh.size == self._full:
            try:
                self._update()
            except BaseException:
                self._fresh.cut(self._fresh.size - 1)
                raise
        self._erase_due()

    def extend(
        self,
        rows: ArrayLike | Iterable[object],
        *,
        times: Iterable[Time | None] | NDArray[np.datetime64] | None = None,
        subjects: Iterable[str | None] | NDArray[np.object_] | None = None,
        source: str | None = None,
        numbers: Ints | None = None,
        mark: bytes = b"",
    ) -> int:
        """Take many records in order: the same as pushing them one by one, but faster, and all or nothing.

        A row that cannot be taken is found before any is taken. With `max_age` and without `lateness`, the rows of one
        call must be in the order of their times, and none may lie before those that came since the last update. Of what
        came before that update, only what the clock says is known: rows must not lie before `clock.due - max_age`,
        whatever records were kept. So rows that are pushed one by one may go back a little where an update lies between
        them; those that are taken lead to the same state however they are cut into calls.

        With a store or `max_age`, where an update or a commit fails, what is all or nothing is each batch: then `t` and
        `position` say how far it came.

        Args:
            rows: shape (n, columns), or (n,) in one dimension.
            times: one per row, or none at all.
            subjects: one per row, or none at all.
            source: where the rows come from; how many of its rows were read is remembered with them.
            numbers: the number of each row in its source, counted from 1 and increasing; default: those that follow
                its position. They stay with the records until the source is read from its start again.
            mark: what the source can be recognised by, up to 64 bytes; remembered beside the position.

        Returns:
            how many rows were taken: all but those that came later than `lateness` allows.

        Raises:
            DataError: a row cannot be taken; then none of them was.
        """
        with self._lock:
            if self._place is not None:
                self._place.check_open()
            new = self._checked(rows, times, subjects)
            if source is not None:
                new = replace(new, numbers=self._numbered(source, numbers, mark, len(new)))
            return self._extend(new, source, mark)

    def _extend(self, new: Arrivals, source: str | None, mark: bytes) -> int:
        """Take what was checked; how many of the rows were not too late."""
        bit_by_bit = self._timed or self._place is not None
        before, start, t = None if bit_by_bit else self._kept(whole=True), 0, self._t
        try:
            slot, rows = 0, new.numbers
            if source is not None and rows is not None and len(rows):
                slot = self._slot(source)
                if rows[0] <= self.position(source).rows:
                    self._drop_numbers(slot)  # it is read from its start again
                new = replace(new, numbers=number_rows(rows, slot))
            while start < len(new):
                if self._timed and new.times is not None:
                    before, now = None, self._now(new.times[start])
                    self._expire(now)  # what was too old does not come back, whatever happens then
                    self._close_early(now)
                if bit_by_bit:
                    before = self._kept(whole=False)
                stop = self._take(new, start)
                if source is not None and rows is not None:
                    self._positions = {**self._positions, source: Position(int(rows[stop - 1]), mark, slot)}
                if self._fresh.size == self._full:
                    self._update()
                start = stop
            self._erase_due()
        except BaseException:
            if before is not None:
                self._return_to(before)
            raise
        return self._t - t

    def _checked(
        self,
        rows: ArrayLike | Iterable[object],
        times: Iterable[Time | None] | NDArray[np.datetime64] | None,
        subjects: Iterable[str | None] | NDArray[np.object_] | None,
    ) -> Arrivals:
        """What arrives, if it can be taken."""
        table = rows_of(rows, self._policy)
        when = None if times is None else instants_of(times)
        if self._timed:
            when = now_for(len(table)) if when is None else when
        who = None if subjects is None else self._all_named(subjects)
        for name, given in (("times", when), ("subjects", who)):
            if given is not None and len(given) != len(table):
                raise DataError(
                    f"{name} has {len(given)} entries for {len(table)} rows; pass one per row, or none at all"
                )
        if self._timed and when is not None:
            self._check_times(when)
        return Arrivals(table, when, who)

    def _now(self, arriving: np.datetime64) -> int:
        """The time when a row arrives: its own, or a later one that is known."""
        time, newest = int(arriving.astype(np.int64)), self._newest
        return time if newest is None else max(time, newest)

    def _numbered(self, source: str, numbers: Ints | None, mark: bytes, n: int) -> Ints:
        """The rows of `source` that n records are, checked."""
        known = self.position(source).rows
        Position(known, mark)  # says what is wrong with the mark
        if numbers is None:
            numbers = np.arange(known + 1, known + n + 1)
        try:
            given = np.asarray(numbers)
        except ValueError:  # lists of different lengths
            given = np.empty(0, np.int64)
        if given.shape != (n,):
            raise DataError(f"numbers has shape {given.shape} for {n} rows; pass one per row, or none at all")
        if n and (given.dtype.kind not in "iu" or given[0] < 1 or (given[1:] <= given[:-1]).any()):
            raise ParameterError("numbers are not whole numbers from 1 up that increase; pass those of the rows")
        if n and given[-1] > LARGEST_ROW:
            raise ParameterError(
                f"numbers end beyond row {LARGEST_ROW:,}; read the rest under the name of another source"
            )
        return given.astype(np.int64)

    def _slot(self, source: str) -> int:
        """The slot of a source, the smallest that is free if it has none; 0 if all are taken."""
        if slot := self.position(source).slot:
            return slot
        taken = {position.slot for position in self._positions.values()}
        return next((slot for slot in range(1, LARGEST_SLOT + 1) if slot not in taken), 0)

    def _drop_numbers(self, slot: int) -> None:
        """Let no record be a row of the source in `slot` any more."""
        self._hold(self._held.without_numbers(slot))
        waiting = self._fresh.numbers[: self._fresh.size]
        waiting[:] = drop_rows(waiting, slot)

    def _take(self, new: Arrivals, start: int) -> int:
        """Take rows from `start` on until something is due, or many whole batches at once; where to go on."""
        size, free = self._update_every, self._place is None and not self._timed
        whole = min(len(new) - start, max(size, _AT_ONCE)) // size if free and self._many_at_once else 0
        if whole > 0 and self._fresh.size == 0 and self._full == size:
            stop = start + whole * size
            self._adopt(*self._at_once(new.part(slice(start, stop)), size))
            return stop
        stop = min(len(new), start + self._full - self._fresh.size)
        part = new.part(slice(start, stop))
        if self._timed and new.times is not None:
            times = new.times[start:stop].view(np.int64)
            moment = self._moment(int(times[0]))
            stop = start + moment.quiet(times)
            part = new.part(slice(start, stop)).part(moment.admit(times[: stop - start]))
        self._fresh.append(part)
        return stop
