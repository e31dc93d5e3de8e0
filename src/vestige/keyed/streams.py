"""Streams by key: millions of them in arrays, under the rules of one `Stream` each.

The plain case, rows that wait and batches that are full, is done by kernels (`vestige.keyed.kernels`) on all cores.
Deadlines, requests and batches that are closed early are done by `vestige.stream.Stream`, one key at a time, so that
there is one set of rules.
Guarantee: the same records and seed give the same state as one `Stream` for each key, bit for bit, whatever the order
in which blocks interleave keys; held by tests/keyed/test_streams.py.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.clock import Clock
from vestige.errors import DataError, NoAnswerError, NoRecordsError, ParameterError, StreamsError
from vestige.estimate import E_co
from vestige.keyed.estimates import KeyedEstimates
from vestige.keyed.layout import STREAMS, pack_subjects
from vestige.keyed.names import KeyNames, Texts, read_keys
from vestige.keyed.terms import make_terms
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.store import RECEIPTS_KEPT, Receipt
from vestige.store.keys import SIZE, hash_subject
from vestige.stream import Stream
from vestige.stream.arrivals import Arrivals, Time, read_arrivals, read_subject, read_time, repeat_now
from vestige.stream.deadlines import check_times, find_ahead
from vestige.stream.estimate import make_estimate
from vestige.stream.limits import Limits
from vestige.stream.rules import Rules, make_rules
from vestige.stream.update import close_full_batch
from vestige.times import to_ticks, wall_clock
from vestige.types import Ints
from vestige.validation import check_bool, check_int, show_value

if TYPE_CHECKING:
    from vestige.keyed.shard import Shard

_ROWS_PER_CALL = 1 << 12
"""Number of rows of a shard that are taken in one call of a kernel: a free chunk is kept at hand for each."""


class KeyedStreams(Generic[E_co]):
    """One stream for each key, under the same policy and limits: as many `Stream` objects, in a fraction of the room.

    Args:
        policy: decides which records of each stream are kept, and answers from them.
        retention: number of rounds of a stream after its arrival by which a record is erased.
        notice: number of rounds after a removal request by which the record is erased.
        max_age: age at which a record is erased; see `Stream`.
        max_ahead: see `Stream`.
        lateness: see `Stream`.
        seed: makes the run reproducible: each stream is as `Stream(policy, ..., seed=seed)` would be. Default: coins
            from the operating system.
        workers: number of threads; default: one for each core.

    Raises:
        ParameterError: the policy cannot work under these limits.

    Example:
        >>> from vestige import Mean
        >>> shops = KeyedStreams(Mean(), retention=96, seed=0)
        >>> shops.extend(["DE", "FR", "DE"], [1.0, 5.0, 3.0])
        3
        >>> shops.estimate("DE").value
        2.0
        >>> len(shops), list(shops)
        (2, ['DE', 'FR'])
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
        workers: int | None = None,
    ) -> None:
        limits = Limits(retention, notice, max_age, max_ahead, lateness)
        self._rules: Rules[E_co] = make_rules(policy, limits, seed)
        self._seed = seed
        self._bits = policy.count_bits(self._rules.batch)
        self._names = KeyNames()
        self._shards: list[Shard] = []
        self._receipts: tuple[Receipt, ...] = ()
        self._requests = 0
        self._secret = secrets.token_bytes(SIZE)
        self._lock = threading.RLock()
        threads = os.cpu_count() or 1 if workers is None else check_int("workers", workers, 1)
        self._workers = ThreadPoolExecutor(threads, "vestige")

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, key: object) -> bool:
        try:
            return isinstance(key, str | int) and key != "" and self._names.find(str(key)) is not None
        except DataError:  # no such text can be a key
            return False

    @property
    def policy(self) -> Policy[E_co]:
        """The policy that decides what is kept."""
        return self._rules.policy

    @property
    def nbytes(self) -> int:
        """Number of bytes of the arrays of all streams and names."""
        return self._names.nbytes + sum(shard.nbytes for shard in self._shards)

    @property
    def held(self) -> int:
        """Number of numbers that are held: the values of all records."""
        return sum(shard.numbers for shard in self._shards)

    def extend(
        self,
        keys: object,
        rows: ArrayLike | Iterable[object],
        *,
        times: Iterable[Time | None] | NDArray[np.datetime64] | None = None,
        subjects: Iterable[str | None] | NDArray[np.object_] | None = None,
    ) -> int:
        """Take many records, each into the stream of its key, in order.

        A row that cannot be taken is found before any is taken. With `max_age` and without `lateness`, the rows of each
        key must be in the order of their times.

        Args:
            keys: the key of each row: texts or whole numbers, as a sequence, an array, or a column of pandas, polars or
                Arrow.
            rows: shape (n, columns), or (n,) in one dimension.
            times: one per row; default: none.
            subjects: one per row; default: none.

        Returns:
            The number of rows that were taken: all but those that came later than `lateness` allows.

        Raises:
            DataError: a row cannot be taken; then none of them was.
            StreamsError: the policy failed in some streams, which have not taken all of their rows; all others have.

        Example:
            >>> from vestige import Mean
            >>> KeyedStreams(Mean(), retention=96).extend([7, 8, 7], [1.0, 2.0, 3.0])
            3
        """
        with self._lock:
            texts = read_keys(keys)
            new = read_arrivals(self._rules.policy, rows, times, subjects, self._hash_subject)
            if texts.rows != len(new):
                raise DataError(f"keys has {texts.rows} entries for {len(new)} rows; pass one per row")
            if self._rules.is_timed:
                new.times = repeat_now(len(new)) if new.times is None else new.times
                in_any_order = replace(self._rules.limits, lateness=timedelta(0))
                check_times(in_any_order, new.times, None, to_ticks(wall_clock()))
            known, numbers = self._names.count, self._number(texts)
            if self._rules.is_timed and self._rules.limits.lateness is None:
                try:
                    self._check_order(numbers, new)
                except DataError:
                    self._drop_streams(known)
                    raise
            return self._take(numbers, new)

    def estimate(self, key: str | int) -> E_co:
        """Compute the policy's answer from the retained records and the clock of one stream alone.

        Args:
            key: its key.

        Returns:
            The answer, and what to know about it.

        Raises:
            ParameterError: there is no stream of this key.
            NoRecordsError: no record is held.
        """
        with self._lock:
            clock, retained = self._read(self._find(key))
        return make_estimate(self._rules.policy, self._rules.batch, clock, retained)

    def retained(self, key: str | int) -> Records:
        """Return the records that the stream of a key holds; with its clock, the whole state.

        Args:
            key: its key.

        Returns:
            A copy of the records; their subjects are pseudonyms.

        Raises:
            ParameterError: there is no stream of this key.
        """
        with self._lock:
            return self._read(self._find(key))[1]

    def clock(self, key: str | int) -> Clock:
        """Return the public clock of the stream of a key.

        Args:
            key: its key.

        Returns:
            The clock.

        Raises:
            ParameterError: there is no stream of this key.
        """
        with self._lock:
            return self._read(self._find(key))[0]

    def estimates(self) -> KeyedEstimates:
        """Compute the answers of all streams, as columns.

        Returns:
            One row for each stream and number; a stream without an answer has one row that says why.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE", "FR", "DE"], [1.0, 5.0, 3.0])
            >>> shops.estimates().to_pandas()[["stream", "value", "counted"]].values.tolist()
            [['DE', 2.0, 2], ['FR', 5.0, 1]]
        """
        rows: list[dict[str, Any]] = []
        with self._lock:
            for number in np.flatnonzero(self._names.is_there).tolist():
                clock, retained = self._read(number)
                try:
                    made = make_estimate(self._rules.policy, self._rules.batch, clock, retained)
                    rows += [{"stream": self._names[number], **row} for row in made.to_rows()]
                except (NoAnswerError, NoRecordsError) as problem:
                    rows.append(
                        {"stream": self._names[number], "t": clock.t, "since": clock.since, "problem": str(problem)}
                    )
        return KeyedEstimates.from_rows(rows)

    def forget(
        self,
        *,
        subject: str,
        now: bool = False,
        reference: str | None = None,
        keep_receipt: timedelta = RECEIPTS_KEPT,
    ) -> Receipt:
        """Request the removal of the records of a subject from all streams: updates may learn from them, not keep them.

        Args:
            subject: whose records to remove.
            now: erase them immediately; see `Stream.forget`. Only streams that hold such records are written again, so
                their clocks then show which these were.
            reference: what you call the request, such as the number of a ticket; do not name the person.
            keep_receipt: how long the receipt is kept after the erasure.

        Returns:
            A receipt, which says nothing of the records, not even whether there were any. It is met once each stream
            has had an update since or holds nothing, or when it is due; `receipts` then says so.

        Raises:
            ParameterError: an argument is not valid.
            StreamsError: the policy failed in some streams; the records were erased anyway.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE", "FR"], [1.0, 5.0], subjects=["ada", "ada"])
            >>> shops.forget(subject="ada", now=True).erased_round, len(shops.retained("DE"))
            (2, 0)
        """
        check_bool("now", now)
        if subject is None:
            raise ParameterError("subject=None is not a subject; pass a text")
        name = read_subject(subject, self._hash_subject)
        with self._lock:
            t, at = sum(shard.arrived for shard in self._shards), wall_clock()
            receipt = Receipt.create(
                at, t, t if now else None, self._rules.limits.max_age, None, reference, keep_receipt
            )
            self._requests += 1
            troubles: dict[str, Exception] = {}
            for place, shard in enumerate(self._shards):
                shard.track_requests()
                for key in shard.find_subject(str(name)):
                    self._forget_in(place, key, str(name), troubles, now=now)
            receipt = receipt.mark_erased(t, at) if now else receipt
            self._receipts = (*self._receipts, receipt)
            _raise_troubles(troubles, "their records were erased all the same")
            return receipt

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The removal requests that are open, and those whose receipts are kept."""
        with self._lock:
            self._confirm(None)
            return self._receipts

    def sweep(self, at: Time | None = None) -> int:
        """Erase what is due while nothing arrives; a batch that would be lost otherwise is closed early.

        Call it every eighth of `max_age`, or more often.

        Args:
            at: the time that limits in time are checked against; default: the machine's clock.

        Returns:
            The number of records that were erased.

        Raises:
            DataError: `at` is not a time.
            StreamsError: the policy failed in some streams, or `at` is before the time of a record of theirs by more
                than `max_ahead`; all others were swept.

        Example:
            >>> from datetime import datetime, timedelta
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96, max_age=timedelta(days=1))
            >>> _ = shops.extend(["DE"], [1.0], times=[datetime(2024, 1, 1)])
            >>> shops.sweep(datetime(2024, 1, 2))
            1
        """
        moment = read_time(wall_clock() if at is None else at)
        if np.isnat(moment):
            raise DataError("at is not a time; pass a datetime or a numpy.datetime64")
        instant, erased = int(moment.astype(np.int64)), 0
        troubles: dict[str, Exception] = {}
        with self._lock:
            for place, shard in enumerate(self._shards):
                for key in self._find_due(shard, instant):
                    erased += self._try(place, key, lambda stream: stream.sweep(moment), troubles)
            self._confirm(instant)
        _raise_troubles(troubles, "all others were swept")
        return erased

    def remove(self, key: str | int) -> None:
        """Erase the stream of a key: its records and its name.

        Args:
            key: its key.

        Raises:
            ParameterError: there is no stream of this key.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE", "FR"], [1.0, 5.0])
            >>> shops.remove("DE")
            >>> list(shops)
            ['FR']
        """
        with self._lock:
            number = self._find(key)
            shard, place = self._shards[number // STREAMS], number % STREAMS
            shard.elsewhere.pop(place, None)
            shard.clear(place)
            self._names.remove(number)

    def __repr__(self) -> str:
        return f"<KeyedStreams of {self.policy}: {len(self):,} streams, {self.held:,} numbers held>"

    def __getstate__(self) -> dict[str, object]:
        with self._lock:
            dropped = {"_lock": None, "_workers": self._workers._max_workers}
            return {**vars(self), **dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()
        self._workers = ThreadPoolExecutor(state["_workers"], "vestige")

    # Taking rows.

    def _hash_subject(self, subject: str) -> str:
        return hash_subject(subject, self._secret)

    def _number(self, texts: Texts) -> Ints:
        """Find the number of each row's stream, and make room for new ones."""
        from vestige.keyed.shard import Shard  # noqa: PLC0415  # it takes long to import

        numbers = self._names.number(texts, self._workers)
        while len(self._shards) * STREAMS < self._names.count:
            self._shards.append(Shard(self._rules.policy.columns, self._bits, is_timed=self._rules.is_timed))
        for place, shard in enumerate(self._shards):
            before, count = shard.count, min(self._names.count - place * STREAMS, STREAMS)
            if count > before:
                shard.add_streams(count, self._requests, is_batched=self._is_batched)
        return numbers

    def _drop_streams(self, count: int) -> None:
        """Drop the newest streams, which have no records, so that so many are left."""
        self._names.truncate(count)
        for place, shard in enumerate(self._shards):
            shard.count = min(shard.count, max(count - place * STREAMS, 0))

    @property
    def _is_batched(self) -> bool:
        """Whether the arrays can hold the streams: not if each record stands for itself, or each round is an update."""
        return self._rules.all_or_nothing and not self._rules.policy.every_round

    def _check_order(self, numbers: Ints, new: Arrivals) -> None:
        """Check that the rows of each key are in the order of their times."""
        from vestige.keyed.kernels import UNKNOWN, find_disorder  # noqa: PLC0415

        newest = np.full(self._names.count, UNKNOWN)
        for place, shard in enumerate(self._shards):
            here = slice(place * STREAMS, place * STREAMS + shard.count)
            newest[here] = shard.find_newest(self._rules.limits.age)
            for key, stream in shard.elsewhere.items():
                known = stream._find_newest_time()
                newest[here.start + key] = UNKNOWN if known is None else known
        assert new.times is not None  # noqa: S101
        row = find_disorder(numbers, new.times.view(np.int64), newest)
        if row >= 0:
            raise DataError(
                f"the time of row {row} of {len(new)} (counted from 0) lies before that of an earlier record of its "
                "key: with max_age a clock cannot run backwards; sort the records by time, set the clock right, or "
                "allow rows to be late with lateness=...: nothing of this call was taken"
            )

    def _take(self, numbers: Ints, new: Arrivals) -> int:
        """Take rows that were checked, shard by shard."""
        if not len(new):
            return 0
        shards = numbers // STREAMS
        order = np.argsort(shards, kind="stable") if len(self._shards) > 1 else np.arange(len(numbers))
        counts = np.bincount(shards, minlength=len(self._shards))
        ends, troubles = np.cumsum(counts), dict[str, Exception]()

        def work(place: int) -> int:
            chosen = order[ends[place] - counts[place] : ends[place]]
            return self._take_shard(place, chosen, numbers, new, troubles)

        taken = sum(self._workers.map(work, np.flatnonzero(counts).tolist()))
        _raise_troubles(troubles, f"{taken:,} rows were taken, all of those of other streams among them")
        return taken

    def _take_shard(
        self, place: int, chosen: Ints, numbers: Ints, new: Arrivals, troubles: dict[str, Exception]
    ) -> int:
        """Take the rows of one shard: the plain ones by kernels, all others by a `Stream`."""
        from vestige.channels.averages import make_scratch  # noqa: PLC0415
        from vestige.keyed.kernels import Rows, make_batch, take  # noqa: PLC0415

        shard, rules = self._shards[place], self._rules
        times, subjects = new.times is not None, new.subjects is not None
        rows = Rows(
            numbers[chosen] - place * STREAMS,
            new.rows[chosen],
            new.times[chosen].view(np.int64) if new.times is not None else np.empty(0, np.int64),
            pack_subjects(new.subjects[chosen]) if new.subjects is not None else np.empty((0, 2), np.uint64),
            np.empty(0, np.int64),
        )
        shard.add_labels(times=times, subjects=subjects, numbers=False)
        terms, columns = make_terms(rules, self._bits, self._requests), rules.policy.columns
        batch = make_batch(rules.batch, max(rules.batch, shard.longest), columns, *shard.labels)
        scratch = make_scratch(rules.batch, columns)
        left, deferred = np.zeros(len(chosen), np.bool_), np.zeros(len(shard.columns.t), np.bool_)
        counts, start = np.zeros(2, np.int64), 0
        while start < len(chosen):
            stop = min(start + _ROWS_PER_CALL, len(chosen))
            shard.reserve(stop - start + 2 * rules.batch)
            arrays = shard.columns, shard.arena, rows
            start = take(*arrays, start, stop, place * STREAMS, terms, batch, scratch, left, deferred, counts)
            key = int(rows.keys[start - 1])
            if shard.columns.pending[key] == rules.batch:
                deferred[key] = not self._update(place, key, troubles)
                counts[0] -= deferred[key]
        for key in dict.fromkeys(rows.keys[left].tolist()):
            part = new.part(chosen[left & (rows.keys == key)])
            counts[0] += self._try(place, key, partial(_extend, new=part), troubles)
        return int(counts[0])

    def _update(self, place: int, key: int, troubles: dict[str, Exception]) -> bool:
        """Close a full batch where there is no kernel for it; if the policy fails, the last row is not taken."""
        rules, shard = self._rules, self._shards[place]
        clock, retained = shard.get_clock(key), shard.get_records(key)
        waits = retained.rounds > clock.last
        waiting = retained.where(waits)
        arrivals = Arrivals(waiting.values.copy(), waiting.times, waiting.subjects, waiting.numbers)
        try:
            before = replace(clock, t=clock.last)
            done, kept = close_full_batch(rules, before, retained.where(~waits), arrivals)
        except Exception as problem:  # the policy's; a batch that stayed full would outlive its limit
            troubles[self._names[place * STREAMS + key]] = problem
            shard.put(key, replace(clock, t=clock.t - 1), retained.where(slice(0, len(retained) - 1)))
            return False
        shard.put(key, done, kept)
        shard.note_settled(key, self._requests)
        return True

    # One stream at a time.

    def _find(self, key: str | int) -> int:
        number = self._names.find(str(key)) if isinstance(key, str | int) and key != "" else None
        if number is None:
            raise ParameterError(f"key={show_value(key)} has no stream; pass a key that has had a record")
        return number

    def _read(self, number: int) -> tuple[Clock, Records]:
        shard, key = self._shards[number // STREAMS], number % STREAMS
        stream = shard.elsewhere.get(key)
        if stream is not None:
            return stream.clock, stream.retained
        if shard.columns.pending[key] < 0:
            return Clock(), Records.empty(self._rules.policy.columns)
        return shard.get_clock(key), shard.get_records(key)

    def _try(self, place: int, key: int, action: Callable[[Stream], int], troubles: dict[str, Exception]) -> int:
        """Do something with one stream as a `Stream`, and put it back into the arrays if these can hold it."""
        shard, limits = self._shards[place], self._rules.limits
        stream = shard.elsewhere.pop(key, None)
        if stream is None:
            clock, retained = self._read(place * STREAMS + key)
            stream = Stream(
                self._rules.policy,
                retention=limits.retention,
                notice=limits.notice,
                max_age=limits.max_age,
                max_ahead=limits.max_ahead,
                lateness=limits.lateness,
                seed=self._seed,
                retained=retained,
                clock=clock,
            )
        before, done = stream.clock.updates, 0
        try:
            done = action(stream)
        except Exception as problem:  # the policy's, which must not affect other streams
            troubles[self._names[place * STREAMS + key]] = problem
        is_open = any(receipt.erased is None for receipt in stream.receipts)
        if stream.clock.updates != before and not is_open:
            shard.note_settled(key, self._requests)
        if is_open or not self._is_batched or not shard.put(key, stream.clock, stream.retained):
            shard.wipe(key)
            shard.elsewhere[key] = stream
        return done

    def _forget_in(self, place: int, key: int, name: str, troubles: dict[str, Exception], *, now: bool) -> None:
        """Make the request in one stream, whose part of it is not kept once it has been met."""

        def forget(stream: Stream) -> int:
            held = stream.retained
            stream.forget(rounds=held.rounds[held.subjects == name], now=now, keep_receipt=timedelta(0))
            return 0

        self._try(place, key, forget, troubles)

    def _find_due(self, shard: Shard, instant: int) -> list[int]:
        """The streams for which something may have to be done at a time."""
        from vestige.keyed.kernels import find_due  # noqa: PLC0415

        due = list(shard.elsewhere)
        if self._rules.is_timed and self._is_batched:
            found = np.zeros(shard.count, np.bool_)
            terms = make_terms(self._rules, self._bits, self._requests)
            find_due(shard.columns, shard.count, instant, terms, found)
            ahead = find_ahead(self._rules.limits, shard.columns.newest[: shard.count].view("M8[us]"), instant)
            due += np.flatnonzero(found | ahead).tolist()
        return due

    def _confirm(self, swept: int | None) -> None:
        """Mark the requests that have been met, and drop receipts that have expired."""
        now, first = wall_clock(), self._requests - len(self._receipts) + 1
        met = min((shard.find_settled(self._requests) for shard in self._shards), default=self._requests)
        made = []
        for number, receipt in enumerate(self._receipts, first):
            due = swept is not None and receipt.due is not None and to_ticks(receipt.due) <= min(swept, to_ticks(now))
            made.append(receipt.mark_erased(receipt.requested_round, now) if number <= met or due else receipt)
        kept = [receipt for receipt in made if not receipt.is_expired(now)]
        self._receipts = tuple(kept)


def _extend(stream: Stream, new: Arrivals) -> int:
    """Take rows that were checked."""
    before = stream.t
    stream._take_all(new, None, None)
    return stream.t - before


def _raise_troubles(troubles: dict[str, Exception], rest: str) -> None:
    if troubles:
        key, problem = next(iter(troubles.items()))
        many = "1 stream" if len(troubles) == 1 else f"{len(troubles):,} streams"
        raise StreamsError(f"{many} failed, {key!r} first: {problem}; {rest}", troubles)
