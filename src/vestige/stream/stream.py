"""The streaming model: one record a round, erased in time.

Section 2 of Immorlica et al. (2024), with the m-recency property. A `Stream` only orchestrates: a lock, its state
(`vestige.stream.state`), its store, and functions for updates (`update`), deadlines (`deadlines`, `lateness`) and
removal requests (`removal`) under rules that never change (`rules`).
Guarantee: after every round the retained records obey the limits; held by tests/stream/test_rules.py and
tests/stream/test_times.py.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.clock import Clock
from vestige.errors import DataError, ParameterError, StoreError
from vestige.estimate import E_co
from vestige.markup import make_table
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.store import RECEIPTS_KEPT, Place, Position, Receipt, State, Terms
from vestige.store.receipt import check_receipt_id
from vestige.stream.arrivals import (
    Arrivals,
    Time,
    read_arrivals,
    read_rows,
    read_subject,
    read_table,
    read_time,
    repeat_now,
)
from vestige.stream.deadlines import check_times, expire, find_ahead, find_earliest, find_newest, must_close
from vestige.stream.estimate import count_represented, make_estimate
from vestige.stream.event import find_event
from vestige.stream.frames import adopt_names, find_names, replace_names, select_columns
from vestige.stream.lateness import make_window
from vestige.stream.limits import Limits, drop_expired
from vestige.stream.log import log_restart, log_update
from vestige.stream.masks import check_limits
from vestige.stream.pending import Pending
from vestige.stream.positions import check_positions, find_slot
from vestige.stream.removal import (
    Rounds,
    check_rounds,
    drop_leaving,
    has_overdue,
    keep_receipts,
    plan_erasure,
    settle_receipts,
)
from vestige.stream.rules import check_restart, check_schedule, count_until_update, make_rules, make_terms
from vestige.stream.state import Snapshot, StreamState
from vestige.stream.update import can_close_early, close_batch, update_batches
from vestige.times import to_ticks, wall_clock
from vestige.types import Floats, Ints
from vestige.validation import check_bool, check_list, show_value

_UNNAMED = frozenset({float, int, list, np.ndarray, np.float64, np.int64})
"""Types of a row that has no names."""
_RECORDS_PER_CALL = 1 << 16
"""Records per call of `update_many`: enough to spend the time there, few enough to answer an interrupt."""


class Stream(Generic[E_co]):
    """A stream of records under a legal limit, one record a round.

    At least one limit is needed. A batch is half of the smaller limit in rounds, so that a record that is kept once has
    left at the update after. Under `max_age` alone it is half of the policy's `default_retention`, or what has arrived
    when the oldest record has lived half of `max_age`.

    Args:
        policy: decides which records are kept, and answers from them.
        retention: number of rounds after its arrival by which a record is erased.
        notice: number of rounds after a removal request by which the record is erased.
        max_age: age at which a record is erased, if that comes first. Its own time counts, or its arrival if it has
            none; times may not decrease. While nothing arrives, `sweep` has to be called to keep this limit.
        max_ahead: with `max_age`, a record that is dated further ahead of the machine's clock is refused; default: a
            day or a tenth of `max_age`, whichever is less.
        lateness: with `max_age`, how much a row may be dated before the newest record since the last update. It is
            taken with its own date; a row that is later still is not taken. Default: rows must come in the order of
            their times.
        seed: makes the run reproducible; default: coins from the operating system.
        retained: with `clock`, continues the stream that these records and this clock belong to.
        clock: see `retained`.
        store: where the stream is kept, as `store.stream(name)`; it continues from there. Each update is durable
            before the next batch is taken; `flush`, or closing the store, writes what came after the last.

    Raises:
        ParameterError: the policy cannot work under these limits, or the state to continue from is not valid.

    Example:
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

    def __init__(
        self,
        policy: Policy[E_co],
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
        self._rules = rules = make_rules(policy, Limits(retention, notice, max_age, max_ahead, lateness), seed)
        if store is not None and not isinstance(store, Place):
            raise ParameterError(
                f"store={show_value(store)} is not a place in a store; pass store.stream(NAME) of an open one"
            )
        if store is not None and (retained is not None or clock is not None):
            raise ParameterError("a stream continues from its store; leave out retained=... and clock=...")
        self._place = store
        self._lock = threading.RLock() if store is None else store.store.lock
        self._pseudonym = None if store is None else store.store.pseudonym
        backend_errors = () if store is None else store.store.backend_errors
        self._store_errors: tuple[type[Exception], ...] = (StoreError, *backend_errors)
        self._terms = make_terms(rules, {} if store is None else store.about)
        self._is_timed, self._max_magnitude = rules.is_timed, policy.max_magnitude
        if policy.checks_rows or (policy.columns == 1 and policy.read_whole_numbers(0) == "coded"):
            self._max_magnitude = -np.inf  # no row is taken unchecked
        self._column_names = find_names(policy, self._terms.about)
        self._pending = Pending(rules.update_every, policy.columns, quick=not rules.is_timed)  # at hand for push
        if store is None:
            retained, clock = check_restart(policy, retained, clock)
            self._resume(State(clock, retained))
        else:
            self._open(store)

    def _open(self, place: Place) -> None:
        """Continue from a store, and be the one that is open there."""
        saved = place.open(self._terms)
        try:
            if not self._column_names and saved.clock.t:
                self._terms = adopt_names(self._terms, place.store.terms(place.name))
                self._column_names = find_names(self._rules.policy, self._terms.about)
            self._resume(saved)
        except BaseException:
            place.give_up()
            raise
        place.take(self)

    def _resume(self, saved: State) -> None:
        """Continue from a state."""
        retained, clock = check_restart(self._rules.policy, saved.retained, saved.clock)
        check_schedule(self._rules, retained, clock)
        self._state = StreamState(saved, self._pending)
        if not len(retained):
            self._state.settled = self._find_newest_request()  # of nothing, nothing is left to be erased
        self._note_saved()
        self._schedule()
        self._erase_expired()

    def push(self, row: ArrayLike, *, time: Time | None = None, subject: str | None = None) -> bool:
        """Take one record.

        Args:
            row: its values; a number in one dimension.
            time: when it arrived, in UTC if it has no zone; kept and erased with it.
            subject: who or what it is about; kept and erased with it.

        Returns:
            Whether it was taken: False if it came later than `lateness` allows.

        Raises:
            DataError: it cannot be taken.

        Example:
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96)
            >>> stream.push(1.5, subject="ada")
            True
        """
        self._lock.acquire()  # not a with statement, which takes twice as long
        try:
            pending = self._pending
            size = pending.size
            if self._place is not None:
                self._place.check_open()
            if self._is_timed:
                return self.extend([row], times=None if time is None else [time], subjects=[subject]) == 1
            labels = None
            if time is not None or subject is not None:
                labels = read_time(time), read_subject(subject, self._pseudonym)
            if type(row) is float and pending.single is not None and -(limit := self._max_magnitude) <= row <= limit:
                pending.single[size] = row  # the common case, fast
            elif type(row) in _UNNAMED:
                pending.values[size] = read_rows([row], self._rules.policy)[0]
            else:
                rows, column_names = self._select_columns([row])
                pending.values[size] = read_rows(rows, self._rules.policy)[0]
                if column_names != self._column_names:
                    self._terms, self._column_names = replace_names(self._terms, column_names), column_names
            if labels is not None:
                pending.label_next(*labels)
            pending.size = size + 1
            if size >= self._alarm:
                self._finish_push()
        except BaseException:
            self._pending.wipe_next()
            raise
        finally:
            self._lock.release()
        return True

    def extend(
        self,
        rows: ArrayLike | Iterable[object],
        *,
        times: Iterable[Time | None] | NDArray[np.datetime64] | None = None,
        subjects: Iterable[str | None] | NDArray[np.object_] | None = None,
        source: str | None = None,
        positions: Sequence[bytes] | None = None,
        numbers: Ints | None = None,
    ) -> int:
        """Take many records in order: the same as pushing them one by one, but faster, and all or nothing.

        A row that cannot be taken is found before any is taken. With `max_age` and without `lateness`, the rows of one
        call must be in the order of their times, and none may be before those that came since the last update. Of what
        came before that update, only what the clock says is known: rows must not be before `clock.due - max_age`,
        whichever records were kept. So rows that are pushed one by one may go back a little where an update lies
        between them; those that are taken lead to the same state however they are split into calls.

        With a store or `max_age`, where an update or a commit fails, each batch is all or nothing: then `t` and
        `position` say how far it came.

        Args:
            rows: shape (n, columns), or (n,) in one dimension; or rows with names: a data frame or table of pandas,
                polars or Arrow, a structured array, a dict of columns, or rows that are dicts, named tuples or series.
                The columns of the first of these are taken in their order, and name those of the stream unless its
                policy or store does; then the columns with these names are taken, wherever they are. A store keeps the
                names. Where several columns came without names first, names are refused.
            times: one per row, in UTC where one has no zone; default: none.
            subjects: one per row; default: none.
            source: name of the source that the rows come from; its position is remembered with them.
            positions: position of the source after each row, up to 72 bytes each; default: the number of rows that were
                read, as `vestige.store.position.encode_count` encodes it.
            numbers: number of each row in its source, from 1 up and increasing; default: none if `positions` are given,
                else those that follow the number of rows that were read. They stay with the records until the source is
                read from its start again.

        Returns:
            The number of rows that were taken: all but those that came later than `lateness` allows.

        Raises:
            DataError: a row cannot be taken; then none of them was.

        Example:
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96)
            >>> stream.extend([1.0, 2.0, 3.0])
            3
        """
        with self._lock:
            self._check_open()
            rows, column_names = self._select_columns(rows)
            new = read_arrivals(self._rules.policy, rows, times, subjects, self._pseudonym)
            if self._is_timed:
                new.times = repeat_now(len(new)) if new.times is None else new.times
                check_times(self._rules.limits, new.times, self._find_newest_time(), to_ticks(wall_clock()))
            if source is not None:
                new.numbers, positions = check_positions(self.position(source).value, positions, numbers, len(new))
            if column_names != self._column_names:  # the first commit, which says the terms, is still to come
                self._terms = replace_names(self._terms, column_names)
            taken = self._take_all(new, source, positions)
            self._column_names = column_names
            return taken

    def _read_rows(self, rows: ArrayLike | Iterable[object]) -> Floats:
        """Rows as `extend` reads them: columns by their names, values as the stream holds them."""
        return read_table(self._select_columns(rows)[0], self._rules.policy)

    def _select_columns(self, rows: object) -> tuple[Any, tuple[str, ...]]:
        return select_columns(rows, self._column_names, self._rules.policy, is_begun=self.t > 0)

    async def apush(self, row: ArrayLike, *, time: Time | None = None, subject: str | None = None) -> bool:
        """Take one record in another thread, so that an event loop does not wait for an update or the store.

        Records that one task awaits one after another arrive in that order; those of several tasks arrive in any order.
        A record is taken even if the task that awaits it is cancelled meanwhile.

        Args:
            row: its values; a number in one dimension.
            time: when it arrived, in UTC if it has no zone; kept and erased with it.
            subject: who or what it is about; kept and erased with it.

        Returns:
            Whether it was taken: False if it came later than `lateness` allows.

        Raises:
            DataError: it cannot be taken.

        Example:
            >>> import asyncio
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96)
            >>> asyncio.run(stream.apush(1.5, subject="ada"))
            True
        """
        from asyncio import to_thread  # noqa: PLC0415  # whoever awaits this has loaded it

        return await to_thread(self.push, row, time=time, subject=subject)

    async def aextend(
        self,
        rows: ArrayLike | Iterable[object],
        *,
        times: Iterable[Time | None] | NDArray[np.datetime64] | None = None,
        subjects: Iterable[str | None] | NDArray[np.object_] | None = None,
    ) -> int:
        """Take many records in another thread, as `extend` does; for order and cancellation see `apush`.

        Args:
            rows: shape (n, columns), or (n,) in one dimension; or a data frame.
            times: one per row, in UTC where one has no zone; default: none.
            subjects: one per row; default: none.

        Returns:
            The number of rows that were taken.

        Raises:
            DataError: a row cannot be taken; then none of them was.

        Example:
            >>> import asyncio
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96)
            >>> asyncio.run(stream.aextend([1.0, 2.0, 3.0]))
            3
        """
        from asyncio import to_thread  # noqa: PLC0415

        return await to_thread(self.extend, rows, times=times, subjects=subjects)

    def estimate(self, *, waiting: bool = False) -> E_co:
        """Compute the policy's answer from the retained records and the clock alone.

        Args:
            waiting: whether a private answer counts the records too that have arrived since the last update, which it
                does not by default. It protects nobody among them: two such answers tell the records between them.
                Other answers always count them.

        Returns:
            The answer, and what to know about it.

        Raises:
            NoRecordsError: no record is held.
            NoAnswerError: the records do not determine an answer, or there is nothing to say before the first update.

        Example:
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96)
            >>> _ = stream.extend([1.0, 2.0, 3.0])
            >>> stream.estimate().value
            2.0
        """
        check_bool("waiting", waiting)
        with self._lock:
            clock, retained = self._state.clock, self._state.retained
        rules, names = self._rules, self._column_names
        return make_estimate(rules.policy, rules.batch, clock, retained, names, waiting=waiting)

    def forget(
        self,
        *,
        rounds: Rounds | None = None,
        subject: str | None = None,
        now: bool = False,
        receipt_id: str | None = None,
        reference: str | None = None,
        keep_receipt: timedelta = RECEIPTS_KEPT,
    ) -> Receipt:
        """Request the removal of records: the next update may learn from them, but not keep them.

        Args:
            rounds: rounds of the records; the records of other rounds stay.
            subject: whose records to remove, in place of `rounds`.
            now: erase them immediately. What they helped to encode is written into the newest records if there are
                enough, or into all that are left if that is possible; if not, the statistic starts over from the newest
                records, and says since when. Which of these happens depends on which records are still held; so from
                then on the clock depends on values too, through them. Records that are erased before an update has
                learned from them never count.
            receipt_id: sixteen hexadecimal digits for the receipt; default: random ones. A request whose receipt exists
                already is not carried out again, so that it can be repeated after a crash.
            reference: what you call the request, such as the number of a ticket, up to 100 characters. It outlives the
                records: do not name the person.
            keep_receipt: how long the receipt is kept after the erasure. It stays with the stream; to keep many for
                years, use `vestige.operations.forget`.

        Returns:
            A receipt, which says nothing of the records, not even whether there were any.

        Raises:
            ParameterError: not exactly one of `rounds` and `subject` is given, or one of the arguments is not valid.

        Example:
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96)
            >>> _ = stream.extend([1.0, 2.0, 3.0], subjects=["ada", "bob", "ada"])
            >>> stream.forget(subject="ada", now=True).erased_round
            3
            >>> stream.retained.rounds
            array([2])
        """
        if (rounds is None) == (subject is None):
            raise ParameterError("forget takes either rounds=... or subject=..., not both")
        check_bool("now", now)
        with self._lock:
            return self._request([(rounds, subject)], [receipt_id], reference, keep_receipt, now=now)[0]

    def forget_each(
        self,
        requests: Sequence[Rounds],
        *,
        now: bool = False,
        receipt_ids: Sequence[str | None] | None = None,
        keep_receipts: timedelta = RECEIPTS_KEPT,
    ) -> tuple[Receipt, ...]:
        """Make several removal requests at once, such as those of several people; see `forget`.

        Args:
            requests: for each of them, the rounds of the records.
            now: erase them immediately.
            receipt_ids: one id for each request, as for `forget`; default: random ones.
            keep_receipts: how long the receipts are kept after the erasure.

        Returns:
            A receipt for each request.

        Raises:
            ParameterError: one of the arguments is not valid; then none of the requests was made.

        Example:
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96)
            >>> _ = stream.extend([1.0, 2.0, 3.0])
            >>> [receipt.due_round for receipt in stream.forget_each([[1], [2]], now=True)]
            [3, 3]
        """
        check_list("requests", requests, object, "lists of rounds")
        check_bool("now", now)
        ids = [None] * len(requests) if receipt_ids is None else receipt_ids
        check_list("receipt_ids", ids, object, "ids")
        if len(ids) != len(requests):
            raise ParameterError(f"receipt_ids has {len(ids)} entries for {len(requests)} requests; pass one each")
        with self._lock:
            return self._request([(rounds, None) for rounds in requests], ids, None, keep_receipts, now=now)

    def sweep(self, at: Time | None = None) -> int:
        """Erase what is due while nothing arrives; a batch that would be lost otherwise is closed early.

        Call it every eighth of `max_age`, or more often.

        Args:
            at: the time that limits in time are checked against; default: the machine's clock.

        Returns:
            The number of records that were erased.

        Raises:
            DataError: `at` is not a time, or is before the time of a record by more than `max_ahead`.

        Example:
            >>> from datetime import datetime, timedelta
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96, max_age=timedelta(days=1))
            >>> stream.push(1.0, time=datetime(2024, 1, 1))
            True
            >>> stream.sweep(datetime(2024, 1, 2))
            1
        """
        moment = read_time(wall_clock() if at is None else at)
        if np.isnat(moment):
            raise DataError("at is not a time; pass a datetime or a numpy.datetime64")
        instant, limits = int(moment.astype(np.int64)), self._rules.limits
        with self._lock:
            self._check_open()
            if self._is_timed and find_ahead(limits, self.retained.times, instant).any():
                problem = self._meet_requests()
                raise DataError(
                    f"at lies more than max_ahead={limits.max_ahead} before the time of a record that is held: a "
                    "clock cannot run backwards; set it right, pass the time by the clock that the records' times come "
                    "from, or remove the record, if its time is wrong, with forget(rounds=...): nothing was erased for "
                    "its age"
                ) from problem
            before = len(self.retained)
            if self._is_timed:
                self._expire(instant)
            problem = self._meet_requests()
            if self._is_timed:
                self._close_early(instant)
            if problem is not None:
                raise problem
            return before - len(self.retained)

    def flush(self) -> None:
        """Make durable what has arrived since the last update; without a store there is nothing to do.

        Raises:
            StoreError: the store cannot be written.

        Example:
            >>> from vestige import Mean, MemoryStore
            >>> store = MemoryStore()
            >>> stream = Stream(Mean(), retention=96, store=store.stream("delays"))
            >>> stream.push(1.5)
            True
            >>> store.names()
            ()
            >>> stream.flush()
            >>> store.names()
            ('delays',)
        """
        with self._lock:
            state, place = self._state, self._place
            lost = place is not None and place.lost and (state.t or state.positions or state.receipts)
            if lost or self._unsaved or self._saved != (state.t, state.positions):
                self._save()

    def reload(self) -> None:
        """Continue from what the store has, because another process has changed it; without a store nothing is done.

        What was not flushed is lost. A store that lends its streams to other processes calls this.

        Raises:
            StoreError: the store cannot be read.

        Example:
            >>> from vestige import Mean, MemoryStore
            >>> stream = Stream(Mean(), retention=96, store=MemoryStore().stream("delays"))
            >>> stream.push(1.5)
            True
            >>> stream.reload()
            >>> stream.t
            0
        """
        with self._lock:
            if self._place is not None:
                self._resume(self._place.read(self._terms))

    @property
    def clock(self) -> Clock:
        """The public clock; with `retained`, the whole state."""
        with self._lock:
            return self._state.clock

    @property
    def retained(self) -> Records:
        """The records that are held; with the clock, the whole state."""
        with self._lock:
            return self._state.retained

    @property
    def t(self) -> int:
        """Number of records that have arrived."""
        with self._lock:
            return self._state.t

    @property
    def counted(self) -> int:
        """Number of records that the statistic counts: those that updates have learned from, and those that wait.

        Where each record stands for itself alone, as in a window, those that are held; with `Private`, without those
        that wait.
        """
        with self._lock:
            return count_represented(self._rules.policy, self._state.clock, self._state.retained)

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The removal requests that are open, and those whose receipts are kept."""
        return keep_receipts(self._state.receipts, wall_clock())

    @property
    def settled(self) -> int:
        """Number of the newest request to the store that has been met here; see `vestige.store.Ledger`."""
        return self._state.settled

    @property
    def policy(self) -> Policy[E_co]:
        """The policy that decides what is kept."""
        return self._rules.policy

    @property
    def terms(self) -> Terms:
        """What must stay the same for the whole life of the stream; a store remembers it."""
        return self._terms

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of a record, from the policy, the store or the first data frame; empty if unknown.

        A store has them if they were given as `store.stream(name, about={"columns": [...]})`. Those of a frame last as
        long as this object.
        """
        return self._column_names

    @property
    def batch(self) -> int:
        """Number of records in a batch; a policy that updates every round does so within it."""
        return self._rules.batch

    @property
    def retention(self) -> int | None:
        """Number of rounds after its arrival by which a record is erased."""
        return self._rules.limits.retention

    @property
    def notice(self) -> int | None:
        """Number of rounds after a removal request by which the record is erased."""
        return self._rules.limits.notice

    @property
    def max_age(self) -> timedelta | None:
        """Age at which a record is erased."""
        return self._rules.limits.max_age

    @property
    def max_ahead(self) -> timedelta | None:
        """With `max_age`, how far ahead of the machine's clock a record may be dated."""
        return self._rules.limits.max_ahead

    def position(self, source: str) -> Position:
        """Look up how far a source was read; see `extend`.

        Args:
            source: the name that it was read under.

        Returns:
            The position; the start if it was not read.

        Raises:
            ParameterError: the name is not a text.
        """
        if not isinstance(source, str):
            raise ParameterError(f"source={show_value(source)} is not a name; pass the text that it was read under")
        return self._state.positions.get(source, Position())

    def restart_source(self, source: str) -> None:
        """Let a source count as not read, because another file took its place; records lose the numbers of its rows.

        Args:
            source: the name that it was read under.

        Raises:
            ParameterError: the name is not a text.
            StoreError: the store was closed.
        """
        with self._lock:
            self._check_open()
            self._state.drop_numbers(self.position(source).slot)
            self._state.positions = {name: at for name, at in self._state.positions.items() if name != source}

    def move_source(self, source: str, position: bytes) -> None:
        """Change the position of a source that was read; one that was not read keeps none.

        Args:
            source: the name that it was read under.
            position: the new position, up to 72 bytes.

        Raises:
            ParameterError: the name is not a text, or the position is not bytes or is too long.
            StoreError: the store was closed.
        """
        with self._lock:
            self._check_open()
            moved = replace(self.position(source), value=position)
            if source in self._state.positions:
                self._state.positions = {**self._state.positions, source: moved}

    def rename_sources(self, names: Mapping[str, str]) -> None:
        """Give sources other names, because they are elsewhere now; what was read under a new name is forgotten.

        Args:
            names: the new names, by the names that the sources were read under.

        Raises:
            ParameterError: the names are not texts.
            StoreError: the store was closed.

        Example:
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96)
            >>> _ = stream.extend([1.0, 2.0], source="visits.csv")
            >>> stream.rename_sources({"visits.csv": "old/visits.csv"})
            >>> stream.find_records("old/visits.csv").numbers
            array([1, 2])
        """
        if not isinstance(names, Mapping) or not all(isinstance(name, str) for pair in names.items() for name in pair):
            raise ParameterError(f"names={show_value(names)} are not new names by name; pass a dict of texts")
        with self._lock:
            self._check_open()
            for name in set(names.values()) - names.keys():
                self._state.drop_numbers(self.position(name).slot)
            self._state.positions = {
                names.get(name, name): at
                for name, at in self._state.positions.items()
                if name in names or name not in names.values()
            }

    def find_records(self, source: str) -> Records:
        """Find the retained records that are rows of a source.

        Args:
            source: the name that it was read under.

        Returns:
            The records, with their row numbers as `numbers`.

        Example:
            >>> from vestige import Mean
            >>> stream = Stream(Mean(), retention=96)
            >>> stream.extend([1.0, 2.0], source="visits.csv")
            2
            >>> stream.find_records("visits.csv").numbers
            array([1, 2])
        """
        return self.retained.from_source(self.position(source).slot)

    def __repr__(self) -> str:
        return f"<Stream of {self.policy}: t={self.t}, {len(self.retained)} held>"

    def _repr_html_(self) -> str:
        with self._lock:
            clock, held, counted = self._state.clock, len(self._state.retained), self.counted
        limits = {"retention": self.retention, "notice": self.notice, "max_age": self.max_age}
        facts = {
            "policy": self.policy,
            "records that have arrived": clock.t,
            "counts from round": clock.since,
            "records that it counts": counted,
            "records that are held": held,
            **{name: limit for name, limit in limits.items() if limit is not None},
        }
        return make_table("Stream", ("term", "value"), [(name, str(value)) for name, value in facts.items()])

    def __getstate__(self) -> dict[str, object]:
        if self._place is not None:
            raise StoreError(
                f"stream {self._place.name!r} is kept in a store, which has only one of it; do not copy or pickle it, "
                "but open it from the store where it is needed"
            )
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def __copy__(self) -> Self:
        """As deep as any copy, since two streams cannot share records."""
        return copy.deepcopy(self)

    # Taking records.

    def _check_open(self) -> None:
        if self._place is not None:
            self._place.check_open()

    def _finish_push(self) -> None:
        """Do what is due with the newest record, an update or an erasure; an update that fails does not take it."""
        pending = self._state.pending
        if pending.size == self._room:
            try:
                self._close_batch()
            except BaseException:
                pending.cut(pending.size - 1)
                raise
        self._erase_expired()

    def _take_all(self, new: Arrivals, source: str | None, positions: Sequence[bytes] | None) -> int:
        """Take rows that were checked; returns how many of them were not too late."""
        state, start, t = self._state, 0, self._state.t
        piecewise = self._is_timed or self._place is not None
        before = None if piecewise else state.snapshot()
        try:
            slot = 0 if source is None or not len(new) else find_slot(state.positions, source)
            if source is not None:
                new.numbers = state.assign_numbers(slot, new.numbers)
            while start < len(new):
                if self._is_timed and new.times is not None:
                    before = None  # what is too old does not come back, whatever happens then
                    self._meet_deadlines(int(new.times[start].astype(np.int64)))
                if piecewise:
                    before = state.snapshot(copy_pending=False)
                stop = self._take(new, start)
                if source is not None and positions is not None:
                    state.positions = {**state.positions, source: Position(positions[stop - 1], slot)}
                if state.pending.size == self._room:
                    self._close_batch()
                start, before = stop, None if piecewise else before
                new.handled = start if piecewise else 0
            self._erase_expired()
            new.handled = start
        except BaseException:
            if before is not None:
                self._restore(before)
            raise
        return state.t - t

    def _take(self, new: Arrivals, start: int) -> int:
        """Take rows from `start` on until something is due, or many whole batches at once; returns where to go on."""
        rules, state = self._rules, self._state
        pending, size = state.pending, rules.update_every
        if rules.has_update_many and self._place is None and not self._is_timed and not pending.size:
            whole = min(len(new) - start, max(size, _RECORDS_PER_CALL)) // size
            if whole and self._room == size:
                stop = start + whole * size
                batches = new.part(slice(start, stop))
                self._commit(*update_batches(rules.policy, rules.seed, state.updated, state.held, batches, size))
                return stop
        stop = min(len(new), start + self._room - pending.size)
        part = new.part(slice(start, stop))
        if self._is_timed and new.times is not None:
            times = new.times[start:stop].view(np.int64)
            waiting = pending.times[: pending.size]
            window = make_window(rules.limits, int(times[0]), waiting, state.held, state.updated.due)
            stop = start + window.count_quiet(times)
            part = new.part(slice(start, stop)).part(window.admit(times[: stop - start]))
        pending.append(part)
        return stop

    # Updates.

    def _close_batch(self) -> None:
        """Close the batch that waits: the policy chooses, and everything else is erased."""
        self._erase_expired()
        state = self._state
        self._commit(*close_batch(self._rules, state.updated, state.held, state.pending))

    def _commit(self, clock: Clock, kept: Records) -> None:
        """Move on after an update; the store has the new state before the stream does."""
        state, rules, before = self._state, self._rules, self._state.updated
        receipts = settle_receipts(self.receipts, clock.t, wall_clock()) if state.receipts else ()
        settled = self._find_newest_request()
        # a store cannot erase between two updates, so what is due before the next one goes now
        ahead = 0 if self._place is None else count_until_update(rules, clock, receipts) - 1
        kept = drop_expired(kept, clock.last + ahead, rules.limits.retention)
        check_limits(rules.policy, kept, clock.t, rules.limits.retention)
        if self._place is not None:
            self._write(State(clock, kept, state.positions, receipts, settled))
        state.advance(clock, kept, receipts, settled)
        self._note_saved()
        self._schedule()
        log_update(rules.policy, rules.batch, before, clock)

    def _schedule(self) -> None:
        """Note after how many records something is to be done; has to follow each change of the state."""
        state, retention = self._state, self._rules.limits.retention
        self._room = count_until_update(self._rules, state.updated, state.receipts)
        self._next_expiry = sys.maxsize
        if retention is not None and len(state.held):
            self._next_expiry = int(state.held.rounds[0]) + retention
        self._alarm = min(self._room, self._next_expiry - state.updated.last) - 1

    def _restore(self, before: Snapshot) -> None:
        self._state.restore(before)
        self._schedule()

    def _erase_expired(self) -> None:
        """Erase what `retention` no longer allows; the next update meets requests, and comes before they are due."""
        state = self._state
        if state.t >= self._next_expiry:
            state.held = drop_expired(state.held, state.t, self._rules.limits.retention)
            self._schedule()

    # Limits in time.

    def _find_newest_time(self) -> int | None:
        state = self._state
        return find_newest(self._rules.limits, state.pending.times[: state.pending.size], state.updated.due)

    def _meet_deadlines(self, arriving: int) -> None:
        """Let it be the time of a row that arrives, or a later one that is known."""
        newest = self._find_newest_time()
        now = arriving if newest is None else max(arriving, newest)
        self._expire(now)
        self._close_early(now)

    def _expire(self, now: int) -> None:
        """Erase what is too old at `now`, durably."""
        state, deadline = self._state, np.datetime64(now - self._rules.limits.age, "us")
        passed = state.updated.due is not None and state.updated.due <= now
        waiting = state.pending.times[: state.pending.size]
        if passed or (state.held.times <= deadline).any() or (waiting <= deadline).any():
            retained = state.retained
            late, all_or_nothing = retained.times <= deadline, self._rules.all_or_nothing
            clock, left = expire(state.clock, retained, late, now, all_or_nothing=all_or_nothing)
            if not len(left):
                state.receipts = settle_receipts(state.receipts, clock.t, wall_clock())
                state.settled = self._find_newest_request()
            log_restart(self._rules.policy, state.updated, clock)
            state.resume(clock, left)
            self._schedule()
            self._unsaved = True
        if self._unsaved:
            self._save()

    def _close_early(self, now: int) -> None:
        """Close the batch that waits if it could not be saved after `now`."""
        rules, state = self._rules, self._state
        if not rules.closes_early or not state.pending.size:
            return
        oldest = find_earliest(state.pending.times[: state.pending.size])
        urgent = must_close(rules.limits, now, oldest, state.updated.due)
        if urgent and can_close_early(rules, state.clock, state.waiting, now):  # the second question takes far longer
            self._close_batch()

    # Removal requests.

    def _request(
        self,
        requests: Sequence[tuple[Rounds | None, str | None]],
        ids: Sequence[str | None],
        reference: str | None,
        keep: timedelta,
        *,
        now: bool,
    ) -> tuple[Receipt, ...]:
        """Make all of these requests or none; one whose receipt exists already is not made again."""
        state, made = self._state, list(map(check_receipt_id, ids))
        known: dict[str | None, Receipt] = {receipt.id: receipt for receipt in state.receipts}
        if all(receipt_id in known for receipt_id in made):
            return tuple(known[receipt_id] for receipt_id in made)
        self._check_open()
        before, problem, requested = state.snapshot(), None, wall_clock()
        due = state.t if now else state.updated.last + self._room
        try:
            for i, (rounds, subject) in enumerate(requests):
                if made[i] not in known:
                    self._mark_leaving(rounds, subject)
                    receipt = Receipt.create(requested, state.t, due, self.max_age, made[i], reference, keep)
                    known[receipt.id], made[i] = receipt, receipt.id
            state.receipts = tuple(known.values())
            if now:
                problem = self._erase_leaving()
            else:
                self._save()
        except BaseException:
            self._restore(before)
            raise
        if problem is not None:
            problem.add_note("The requested records were erased anyway.")
            raise problem
        if now:
            known = {name: receipt.mark_erased(state.t, wall_clock()) for name, receipt in known.items()}
        known |= {receipt.id: receipt for receipt in state.receipts}
        return tuple(known[receipt_id] for receipt_id in made)

    def _mark_leaving(self, rounds: Rounds | None, subject: str | None) -> None:
        """Mark the records that a request asks for."""
        state = self._state
        if rounds is not None:
            asked = check_rounds(rounds, state.t)
            waiting = np.arange(state.updated.last + 1, state.t + 1)
            state.mark_leaving(np.isin(state.held.rounds, asked), np.isin(waiting, asked))
        else:
            name = read_subject(subject, self._pseudonym)
            waiting_subjects = state.pending.subjects[: state.pending.size]
            state.mark_leaving(state.held.subjects == name, waiting_subjects == name)

    def _meet_requests(self) -> Exception | None:
        """Erase what was requested if its time has come; returns what the policy raised, if it did."""
        state, now = self._state, wall_clock()
        receipts = keep_receipts(state.receipts, now)
        if has_overdue(receipts, state.t, now):
            return self._erase_leaving()
        if receipts != state.receipts:
            state.receipts, self._unsaved = receipts, True
            self._schedule()
            self._save()
        return None

    def _erase_leaving(self) -> Exception | None:
        """Erase what is leaving immediately, whatever the policy does; returns what it raised, if it did."""
        rules, state = self._rules, self._state
        rewritten, problem = None, None
        try:
            close, rewritten = plan_erasure(rules, state.clock, state.retained, state.receipts)
            if close:
                self._close_batch()
                return None
        except self._store_errors:
            raise
        except Exception as raised:  # the policy's, which comes after what has to be erased
            rewritten, problem = None, raised
        clock, left = drop_leaving(rules, state.clock, state.retained, rewritten)
        log_restart(rules.policy, state.updated, clock)
        state.resume(clock, left)
        state.receipts = settle_receipts(state.receipts, state.t, wall_clock())
        state.settled = self._find_newest_request()
        self._schedule()
        self._unsaved = True
        self._save()
        return problem

    # The store.

    def _find_newest_request(self) -> int:
        return 0 if self._place is None else self._place.store.newest_request

    def _save(self) -> None:
        if self._place is not None:
            self._write(self._state.to_saved())
        self._note_saved()

    def _write(self, state: State) -> None:
        """Replace what the store has of the stream, with when something is due there next."""
        assert self._place is not None  # noqa: S101  # asked before
        self._place.commit(self._terms, replace(state, event=find_event(self._rules, state)))

    def _note_saved(self) -> None:
        self._saved, self._unsaved = (self._state.t, self._state.positions), False
