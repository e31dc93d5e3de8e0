"""Streams by key: millions of them in arrays, under the rules of one `Stream` each.

The plain case, rows that wait and batches that are full, is done on all cores by kernels, see
`vestige.keyed.intake_kernels`. Deadlines, requests and batches that are closed early are done by
`vestige.stream.Stream`, one key at a time, so that there is one set of rules.
Guarantee: the same records and seed give the same state as one `Stream` for each key, bit for bit, whatever the order
in which blocks interleave keys; held by tests/keyed/test_streams.py.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestige.clock import Clock
from vestige.errors import DataError, ParameterError, StoreBusyError, StoreError, StreamsError
from vestige.estimate import E_co
from vestige.keyed.answers import count_streams, make_estimates
from vestige.keyed.arrivals import UNKNOWN, RawRows, find_problem, find_refused, read_numbers, read_raw_rows
from vestige.keyed.counts import KeyedCounts
from vestige.keyed.estimates import KeyedEstimates
from vestige.keyed.names import KeyNames, Texts, read_keys
from vestige.keyed.positions import KeyedPositions
from vestige.keyed.requests import forget_subject, settle, settle_store
from vestige.keyed.shards import Shards
from vestige.keyed.taken import StreamTrouble, Taken
from vestige.policy import Policy
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.row_numbers import LARGEST_SLOT
from vestige.store import RECEIPTS_KEPT, FamilyPlace, Ledger, Receipt
from vestige.store.keys import SIZE, hash_subject
from vestige.store.terms import Terms
from vestige.stream import Stream
from vestige.stream.arrivals import Arrivals, Time, read_arrivals, read_subject, read_table, read_time, repeat_now
from vestige.stream.deadlines import check_times
from vestige.stream.estimate import make_estimate
from vestige.stream.frames import find_names, replace_names, select_columns
from vestige.stream.limits import Limits
from vestige.stream.log import log_restarts
from vestige.stream.rules import Rules, make_rules, make_terms
from vestige.times import to_ticks, wall_clock
from vestige.types import Bools, Floats, Ints, Times
from vestige.validation import check_bool, check_int, show_value

if TYPE_CHECKING:
    from vestige.keyed.storage import FamilyStorage


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
        store: where the streams are kept, as `store.family()`; they continue from there. Each call that takes, erases
            or removes something is durable when it returns, but for `take`, after which `flush` has to be called.

    Raises:
        ParameterError: the policy cannot work under these limits.
        StoreError: the store cannot be read.

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
        store: FamilyPlace | None = None,
    ) -> None:
        limits = Limits(retention, notice, max_age, max_ahead, lateness)
        self._rules: Rules[E_co] = make_rules(policy, limits, seed)
        if store is not None and not isinstance(store, FamilyPlace):
            raise ParameterError(
                f"store={show_value(store)} is not a place in a store; pass store.family() of an open one"
            )
        self._seed = seed
        self._names = KeyNames()
        self._shards = Shards(self._rules, seed)
        self._ledger, self._positions = Ledger(), KeyedPositions()
        self._secret = secrets.token_bytes(SIZE)
        self._refused: dict[str, Exception] = {}
        """Why new streams could not be written, since another process has created them, by key."""
        self._lock = threading.RLock() if store is None else store.store.lock
        threads = os.cpu_count() or 1 if workers is None else check_int("workers", workers, 1)
        self._workers = ThreadPoolExecutor(threads, "vestige")
        self._terms = make_terms(self._rules, {} if store is None else store.about)
        self._column_names = find_names(policy, self._terms.about)
        self._place, self._storage = store, None if store is None else self._open(store)

    def _open(self, place: FamilyPlace) -> FamilyStorage:
        """Read the streams from their store, and be the ones that are open there."""
        with self._lock:
            place.open(self._terms)
            try:
                storage = self._load(place)
            except BaseException:
                place.give_up()
                raise
            place.take(self)
        return storage

    def _load(self, place: FamilyPlace) -> FamilyStorage:
        """Read the streams into arrays that are empty."""
        from vestige.keyed.storage import FamilyStorage  # noqa: PLC0415  # it takes long to import

        self._shards.requests = place.store.newest_request
        storage = FamilyStorage(place, self._terms, self._names, self._shards, self._workers)
        storage.load()
        self._terms = storage.terms
        self._column_names = find_names(self._rules.policy, self._terms.about)
        return storage

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str | int | np.integer) and key != "" and self._names.find(str(key)) is not None

    @property
    def policy(self) -> Policy[E_co]:
        """The policy that decides what is kept."""
        return self._rules.policy

    @property
    def names(self) -> KeyNames:
        """The names of the streams by their numbers; `reload` puts another object in its place."""
        return self._names

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns of a record; empty if they are not known."""
        return self._column_names

    @property
    def terms(self) -> Terms:
        """What the streams were made with."""
        return self._terms

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
            rows: shape (n, columns), or (n,) in one dimension; or rows with names, whose columns are taken by these as
                in `Stream.extend`.
            times: one per row, in UTC where one has no zone; default: none.
            subjects: one per row; default: none.

        Returns:
            The number of rows that were taken: all but those that came later than `lateness` allows.

        Raises:
            DataError: a row cannot be taken; then none of them was.
            StreamsError: the policy failed in some streams, which have not taken all of their rows, or another process
                has created some of the new ones with other terms meanwhile; all others have.
            StoreError: the store cannot be written; the rows were taken, and `flush` writes them later.

        Example:
            >>> from vestige import Mean
            >>> KeyedStreams(Mean(), retention=96).extend([7, 8, 7], [1.0, 2.0, 3.0])
            3
        """
        with self._lock:
            self._check_open()
            made = self._take_whole(read_keys(keys), rows, times, subjects, None)
            try:
                self._write()
            except StoreError as problem:
                kind = StoreBusyError if isinstance(problem, StoreBusyError) else StoreError
                raise kind(
                    f"{problem}. The rows were taken, and wait in memory: call flush() to write them, and do not pass "
                    "them again, which would count them twice"
                ) from problem
            failed = {key: trouble.problem for key, trouble in made.troubles.items()} | self._pop_refused()
        _raise_troubles(failed, f"{made.taken:,} rows were taken, all of those of other streams among them")
        return made.taken

    def take(
        self,
        keys: object,
        rows: ArrayLike | Iterable[object],
        *,
        times: Iterable[Time | None] | NDArray[np.datetime64] | None = None,
        subjects: Iterable[str | None] | NDArray[np.object_] | None = None,
        numbers: Ints | None = None,
        whole: bool = False,
    ) -> Taken:
        """Take many records as `extend` does, where a row that cannot be taken affects no stream but its own.

        Each stream takes its rows as `Stream.extend` would in one call: where one of them is refused, none is taken;
        where the policy fails, none or, with `max_age`, those before the batch in which it did. A new key of which no
        row was taken leaves nothing behind, not even its name.

        Args:
            keys: the key of each row; see `extend`.
            rows: the rows; see `extend`.
            times: one per row, in UTC where one has no zone; default: none.
            subjects: one per row; default: none.
            numbers: source and row of each record, as `vestige.Records.numbers`; default: none.
            whole: take all rows or none: a row that is refused is an error then, as in `extend`. A policy that fails
                is still the trouble of its stream alone.

        Returns:
            How many rows were taken, and which streams could not take all of theirs.

        Raises:
            DataError: one of the arguments is not a column, has not one entry per row, or a key is not valid, or a row
                is refused and `whole` is set; then nothing was taken, and no new key is left.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> taken = shops.take(["DE", "FR", "DE"], [1.0, float("nan"), 3.0])
            >>> taken.taken, list(taken.troubles), list(shops)
            (2, ['FR'], ['DE'])
        """
        with self._lock:
            self._check_open()
            check_bool("whole", whole)
            if whole:
                return self._take_whole(read_keys(keys), rows, times, subjects, numbers)
            texts, now = read_keys(keys), to_ticks(wall_clock())
            rows, column_names = self._select_columns(rows)
            raw = read_raw_rows(self._rules, rows, times, subjects, numbers, cache(self._hash_subject), now)
            self._check_keys(texts, len(raw.table))
            known, streams = self._names.count, self._number(texts)
            newest = self._shards.find_newest() if self._is_ordered else None
            refused = find_refused(self._rules, raw, streams, self._names.count, newest)
            taking, troubles = np.arange(len(streams)), dict[str, StreamTrouble]()
            if refused.any():
                troubles = self._explain(raw, streams, np.flatnonzero(refused), newest, now)
                taking = np.flatnonzero(~refused[streams])
                if refused[known:].any():
                    self._truncate(known)
                    streams = self._number(texts.where(taking))
                else:
                    streams = streams[taking]
            made = self._take(streams, raw.new if not troubles else raw.new.part(taking), known, taking, troubles)
            self._name_columns(column_names)
            return made

    def estimate(self, key: str | int, *, waiting: bool = False) -> E_co:
        """Compute the policy's answer from the retained records and the clock of one stream alone.

        Args:
            key: its key.
            waiting: see `Stream.estimate`.

        Returns:
            The answer, and what to know about it.

        Raises:
            ParameterError: there is no stream of this key.
            NoRecordsError: no record is held.
            NoAnswerError: see `Stream.estimate`.
        """
        check_bool("waiting", waiting)
        with self._lock:
            clock, retained = self._shards.read(self._find(key))
        return make_estimate(
            self._rules.policy, self._rules.batch, clock, retained, self._column_names, waiting=waiting
        )

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
            return self._shards.read(self._find(key))[1]

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
            return self._shards.read(self._find(key))[0]

    def estimates(self, keys: object = None, *, waiting: bool = False) -> KeyedEstimates:
        """Compute the answers of many streams, as columns.

        Args:
            keys: whose answers, each once; see `extend`. Default: those of all streams.
            waiting: see `Stream.estimate`.

        Returns:
            One row for each stream and number; a stream without an answer has one row that says why.

        Raises:
            DataError: `keys` are not keys.
            ParameterError: there is no stream of one of them, or one of them is there twice.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE", "FR", "DE"], [1.0, 5.0, 3.0])
            >>> shops.estimates().to_pandas()[["stream", "value", "counted"]].values.tolist()
            [['DE', 2.0, 2], ['FR', 5.0, 1]]
        """
        with self._lock:
            return make_estimates(self._shards, self._names, self._find_all(keys), self._workers, waiting=waiting)

    def counts(self, keys: object = None) -> KeyedCounts:
        """Count the records of many streams, without their answers: quickly, as to find the largest of millions.

        Args:
            keys: of which streams, each once; see `extend`. Default: all streams.

        Returns:
            For each stream how many records have arrived, are counted and are held.

        Raises:
            DataError: `keys` are not keys.
            ParameterError: there is no stream of one of them, or one of them is there twice.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE", "FR", "DE"], [1.0, 5.0, 3.0])
            >>> counts = shops.counts()
            >>> counts.names, counts.held
            (array(['DE', 'FR'], dtype=object), array([2, 1]))
        """
        with self._lock:
            return count_streams(self._shards, self._names, self._find_all(keys))

    def count_all(self) -> tuple[int, int]:
        """Count the records of all streams together, which takes the same time for a million of them as for one.

        Returns:
            The number of records that have arrived, and of those that are held.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE", "FR", "DE"], [1.0, 5.0, 3.0])
            >>> shops.count_all()
            (3, 3)
        """
        with self._lock:
            apart = sum(len(stream.retained) for shard in self._shards for stream in shard.elsewhere.values())
            return sum(shard.arrived for shard in self._shards), self.held // self.policy.columns + apart

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
        with self._lock:
            self._check_open()
            name = read_subject(subject, self._hash_subject)
            t, at = sum(shard.arrived for shard in self._shards), wall_clock()
            receipt = Receipt.create(
                at, t, t if now else None, self._rules.limits.max_age, None, reference, keep_receipt
            )
            asked, failed = forget_subject(self._shards, str(name), now=now)
            receipt = receipt.mark_erased(t, at) if now else receipt
            self._file(receipt, asked)
            troubles = {self._names[number]: problem for number, problem in failed.items()}
        _raise_troubles(troubles, "their records were erased all the same")
        return receipt

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The removal requests that are open, and those whose receipts are kept."""
        with self._lock:
            self._settle(None)
            return self._ledger.receipts if self._place is None else self._place.store.read_ledger().receipts

    def sweep(self, at: Time | None = None, *, exclude: Collection[str] = ()) -> int:
        """Erase what is due while nothing arrives; a batch that would be lost otherwise is closed early.

        Call it every eighth of `max_age`, or more often.

        Args:
            at: the time that limits in time are checked against; default: the machine's clock.
            exclude: keys of streams to leave as they are.

        Returns:
            The number of records that were erased.

        Raises:
            DataError: `at` is not a time.
            ParameterError: `exclude` is not a list of keys.
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
        if isinstance(exclude, str) or not isinstance(exclude, Collection):
            raise ParameterError(f"exclude={show_value(exclude)} is not a list of keys; pass a list")
        moment = read_time(wall_clock() if at is None else at)
        if np.isnat(moment):
            raise DataError("at is not a time; pass a datetime or a numpy.datetime64")
        instant, erased = int(moment.astype(np.int64)), 0

        def sweep(stream: Stream) -> None:
            nonlocal erased
            erased += stream.sweep(moment)

        troubles: dict[str, Exception] = {}
        with self._lock:
            self._check_open()
            excluded = self.find_numbers(list(exclude)) if len(exclude) else np.empty(0, np.int64)
            expired = self._shards.expire(instant, excluded, self._workers)
            self._mark(expired.changed)
            erased = expired.erased
            log_restarts(self._rules.policy, expired.restarts)
            for number in expired.left:
                problem = self._shards.attempt(number, sweep)
                if problem is not None:
                    troubles[self._names[number]] = problem
            self._mark(np.array(expired.left, np.int64))
            self._write()
            self._settle(instant)
        _raise_troubles(troubles, "all others were swept")
        return erased

    def remove(self, *keys: str | int) -> None:
        """Erase the streams of keys, all in one transaction: their records and their names.

        Args:
            keys: the keys.

        Raises:
            ParameterError: there is no stream of one of them; then none was erased.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE", "FR"], [1.0, 5.0])
            >>> shops.remove("DE")
            >>> list(shops)
            ['FR']
        """
        with self._lock:
            self._check_open()
            for number in {self._find(key) for key in keys}:
                self._erase(number)
            self._write()

    def flush(self) -> None:
        """Write what was not written yet; without a store there is nothing to write.

        Raises:
            StoreError: the store cannot be written. The streams go on from what they are in memory, and the next call
                that writes tries again; until then what is erased here is still in the store.
            StreamsError: another process has created some of the new streams with other terms, so that what they took
                here is lost; all others were written.

        Example:
            >>> from vestige import Mean, open_store
            >>> with open_store("memory:") as store:
            ...     shops = KeyedStreams(Mean(), retention=96, store=store.family())
            ...     _ = shops.take(["DE"], [1.0])
            ...     shops.flush()
            ...     store.names()
            ('DE',)
        """
        with self._lock:
            self._write()
            refused = self._pop_refused()
        _raise_troubles(refused, "all others were written")

    def reload(self) -> None:
        """Read all streams again, because another process has changed them; without a store there is nothing to read.

        What was not flushed is lost. A store that lends its streams to other processes calls this.

        Raises:
            StoreError: the store cannot be read.

        Example:
            >>> from vestige import Mean, open_store
            >>> with open_store("memory:") as store:
            ...     shops = KeyedStreams(Mean(), retention=96, store=store.family())
            ...     _ = shops.extend(["DE"], [1.0])
            ...     _ = shops.take(["DE"], [3.0])
            ...     shops.reload()
            ...     print(shops.estimate("DE").value)
            1.0
        """
        with self._lock:
            if self._storage is None or self._place is None:
                return
            before = self._names, self._shards
            self._names, self._shards = KeyNames(), Shards(self._rules, self._seed)
            try:
                storage = self._load(self._place)
            except BaseException:
                self._names, self._shards = before
                raise
            self._storage.positions.replace(storage.positions)
            storage.positions, self._storage = self._storage.positions, storage

    @property
    def positions(self) -> KeyedPositions:
        """How far sources were read into these streams; written with the next flush."""
        return self._positions if self._storage is None else self._storage.positions

    def find_numbers(self, keys: object) -> Ints:
        """Find the numbers that the streams of keys have in this object.

        Args:
            keys: texts or whole numbers; see `extend`.

        Returns:
            One number per key; -1 for a key without a stream.

        Example:
            >>> from vestige import Mean
            >>> shops = KeyedStreams(Mean(), retention=96)
            >>> _ = shops.extend(["DE", "FR"], [1.0, 5.0])
            >>> shops.find_numbers(["FR", "IT"])
            array([ 1, -1])
        """
        with self._lock:
            return self._names.find_each(read_keys(keys))

    def count_held(self, keys: object) -> Ints:
        """Count the records that the streams of keys hold.

        Args:
            keys: texts or whole numbers; see `extend`.

        Returns:
            One count per key; 0 for a key without a stream.
        """
        with self._lock:
            return self._shards.count_held(self.find_numbers(keys))

    def find_records(self, slot: int) -> tuple[Ints, Floats, Times, NDArray[np.object_], Bools, Ints]:
        """Find the held records that are rows of a source.

        Args:
            slot: the slot of the source; see `positions`.

        Returns:
            Their rows in the source, values, times and pseudonyms, whether they are leaving, and the numbers of their
            streams.
        """
        check_int("slot", slot, 0, LARGEST_SLOT)
        with self._lock:
            return self._shards.find_records(slot)

    def renumber(self, key: str, slots: Mapping[int, int]) -> None:
        """Let the records of a stream know their sources by other slots; written with the next flush.

        Args:
            key: its key.
            slots: the new slot for each slot that has changed; 0 if the source is not known any more.

        Raises:
            ParameterError: there is no stream of this key, or `slots` is not a mapping.
        """
        if not isinstance(slots, Mapping):
            raise ParameterError(f"slots={show_value(slots)} is not a new slot by slot; pass a dict")
        with self._lock:
            number = self._find(key)
            self._shards.renumber(number, slots)
            self._mark(np.array([number]))

    def mark_lost(self) -> None:
        """Note that what was written last may be missing from the store, so that all is written again."""
        if self._storage is not None:
            self._storage.mark_lost()

    def __repr__(self) -> str:
        return f"<KeyedStreams of {self.policy}: {len(self):,} streams, {self.held:,} numbers held>"

    def __getstate__(self) -> dict[str, object]:
        if self._place is not None:
            raise StoreError(
                "these streams are kept in a store, which has only one of each; do not copy or pickle them, but open "
                "them from the store where they are needed"
            )
        with self._lock:
            dropped = {"_lock": None, "_workers": self._workers._max_workers}
            return {**vars(self), **dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()
        self._workers = ThreadPoolExecutor(state["_workers"], "vestige")

    # Taking rows.

    def _select_columns(self, rows: object) -> tuple[Any, tuple[str, ...]]:
        return select_columns(rows, self._column_names, self._rules.policy, is_begun=len(self) > 0)

    def _read_rows(self, rows: ArrayLike | Iterable[object]) -> Floats:
        """Rows as `extend` reads them: columns by their names, values as the streams hold them."""
        return read_table(self._select_columns(rows)[0], self._rules.policy)

    def _name_columns(self, names: tuple[str, ...]) -> None:
        """Name the columns once a row was taken, before the first stream is written."""
        if names != self._column_names and len(self):
            self._column_names, self._terms = names, replace_names(self._terms, names)
            if self._storage is not None:
                self._storage.terms = self._terms

    def _hash_subject(self, subject: str) -> str:
        return hash_subject(subject, self._secret) if self._place is None else self._place.store.pseudonym(subject)

    def _check_open(self) -> None:
        """Check that the streams may be written, and note which requests the store has had meanwhile."""
        if self._place is not None:
            self._place.check_open()
            newest = self._place.store.newest_request
            if newest != self._shards.requests:  # also requests that other processes have filed
                self._shards.begin_request(newest)

    def _write(self) -> None:
        """Write what has changed; streams that another process has created meanwhile are noted for `flush`."""
        if self._storage is not None and self._place is not None:
            self._place.check_open()
            self._refused |= self._storage.flush()

    def _pop_refused(self) -> dict[str, Exception]:
        refused, self._refused = self._refused, {}
        return refused

    def _mark(self, numbers: Ints) -> None:
        """Note that streams have changed."""
        if self._storage is not None:
            self._storage.mark(numbers)

    def _erase(self, number: int) -> None:
        """Erase a stream and its name."""
        if self._storage is not None:
            self._storage.remove(number)
        self._shards.clear(number)
        self._names.remove(number)

    def _file(self, receipt: Receipt, asked: Sequence[int]) -> None:
        """Note a request to all streams, of which some were asked to erase records."""
        if self._place is None:
            self._ledger = self._ledger.file([receipt], None)
            return
        store = self._place.store
        with store.transaction():
            self._mark(np.array(asked, np.int64))
            self._write()
            store.write_ledger(store.read_ledger().file([receipt], None))

    def _settle(self, swept: int | None) -> None:
        """Note which requests have been met."""
        if self._place is not None:
            settle_store(self._place.store, swept)
        else:
            arrived = sum(shard.arrived for shard in self._shards)
            has_open = self._shards.has_open
            self._ledger = settle(self._ledger, self._shards.find_settled(), arrived, swept, has_open=has_open)

    @property
    def _is_ordered(self) -> bool:
        """Whether the rows of each key must be in the order of their times."""
        return self._rules.is_timed and self._rules.limits.lateness is None

    def _find_late(self, keys: object, times: Ints) -> Bools:
        """Find the rows that are dated before one of their key that came earlier, where that is refused."""
        from vestige.keyed.deadline_kernels import mark_late  # noqa: PLC0415

        late = np.zeros(len(times), np.bool_)
        if self._is_ordered and len(late):
            given, texts = KeyNames(), read_keys(keys)
            rows = given.number(texts)
            known, newest = self._names.find_each(given.texts), np.full(given.count, UNKNOWN)
            newest[known >= 0] = self._shards.find_newest()[known[known >= 0]]
            mark_late(rows, times, newest, late)
        return late

    def _check_keys(self, texts: Texts, n: int) -> None:
        if texts.rows != n:
            raise DataError(f"keys has {texts.rows} entries for {n} rows; pass one per row")

    def _number(self, texts: Texts) -> Ints:
        """Find the number of each row's stream, and make room for new ones."""
        known, numbers = self._names.count, self._names.number(texts, self._workers)
        self._shards.resize(self._names.count)
        if self._storage is not None:
            try:
                self._storage.add_streams()
            except BaseException:
                self._truncate(known)
                raise
        return numbers

    def _truncate(self, count: int) -> None:
        """Drop the newest streams, which have no records, so that so many are left."""
        if self._storage is not None:
            self._storage.truncate(count)
        self._names.truncate(count)
        self._shards.resize(count)

    def _check_order(self, numbers: Ints, new: Arrivals) -> None:
        """Check that the rows of each key are in the order of their times."""
        from vestige.keyed.deadline_kernels import find_disorder  # noqa: PLC0415

        assert new.times is not None  # noqa: S101
        row = find_disorder(numbers, new.times.view(np.int64), self._shards.find_newest())
        if row >= 0:
            raise DataError(
                f"the time of row {row} of {len(new)} (counted from 0) lies before that of an earlier record of its "
                "key: with max_age a clock cannot run backwards; sort the records by time, set the clock right, or "
                "allow rows to be late with lateness=...: nothing of this call was taken"
            )

    def _explain(
        self, raw: RawRows, streams: Ints, refused: Ints, newest: Ints | None, now: int
    ) -> dict[str, StreamTrouble]:
        """Say why each of these streams cannot take its rows."""
        rows = np.flatnonzero(np.isin(streams, refused))
        rows = rows[np.argsort(streams[rows], kind="stable")]
        troubles = {}
        for here in np.split(rows, np.flatnonzero(np.diff(streams[rows])) + 1):
            number = int(streams[here[0]])
            latest = None if newest is None or newest[number] == UNKNOWN else int(newest[number])
            problem = find_problem(self._rules, raw, here, latest, now)
            troubles[self._names[number]] = StreamTrouble(problem, int(here[0]))
        return troubles

    def _take_whole(
        self,
        texts: Texts,
        rows: ArrayLike | Iterable[object],
        times: Iterable[Time | None] | NDArray[np.datetime64] | None,
        subjects: Iterable[str | None] | NDArray[np.object_] | None,
        numbers: Ints | None,
    ) -> Taken:
        """Take all rows or, with a DataError about the first that is found to be refused, none."""
        rows, column_names = self._select_columns(rows)
        new = read_arrivals(self._rules.policy, rows, times, subjects, cache(self._hash_subject))
        new.numbers = read_numbers(numbers, len(new))
        self._check_keys(texts, len(new))
        if self._rules.is_timed:
            new.times = repeat_now(len(new)) if new.times is None else new.times
            in_any_order = replace(self._rules.limits, lateness=timedelta(0))
            check_times(in_any_order, new.times, None, to_ticks(wall_clock()))
        known, streams = self._names.count, self._number(texts)
        if self._is_ordered:
            try:
                self._check_order(streams, new)
            except DataError:
                self._truncate(known)
                raise
        made = self._take(streams, new, known, np.arange(len(new)), {})
        self._name_columns(column_names)
        return made

    def _take(self, streams: Ints, new: Arrivals, known: int, rows: Ints, troubles: dict[str, StreamTrouble]) -> Taken:
        """Take rows that were checked; `rows` has their indices in the call, `troubles` what was found before."""
        made = self._shards.take(streams, new, self._workers)
        self._mark(streams)
        log_restarts(self._rules.policy, int(made.counts[2]))
        for number, trouble in made.troubles.items():
            troubles[self._names[number]] = replace(trouble, row=int(rows[trouble.row]))
            if number >= known and not self._shards.count_arrived(number):
                self._erase(number)
        there = np.flatnonzero(self._names.is_there[known:])
        self._truncate(known + int(there[-1]) + 1 if len(there) else known)
        in_order = dict(sorted(troubles.items(), key=lambda item: item[1].row))
        return Taken(int(made.counts[0]), int(made.counts[1]), in_order)

    def _find_all(self, keys: object) -> Ints:
        """Find the numbers of streams; of all that there are if `keys` is None."""
        if keys is None:
            return np.flatnonzero(self._names.is_there)
        numbers = self._names.find_each(read_keys(keys))
        missing = np.flatnonzero(numbers < 0)
        if len(missing):
            raise ParameterError(f"key {missing[0]} of {len(numbers)} (counted from 0) has no stream; leave it out")
        if len(np.unique(numbers)) < len(numbers):
            raise ParameterError("keys has one of them twice; pass each once")
        return numbers

    def _find(self, key: str | int) -> int:
        number = self._names.find(str(key)) if isinstance(key, str | int | np.integer) and key != "" else None
        if number is None:
            raise ParameterError(f"key={show_value(key)} has no stream; pass a key that has had a record")
        return number


def _raise_troubles(troubles: Mapping[str, Exception], rest: str) -> None:
    if troubles:
        key, problem = next(iter(troubles.items()))
        many = "1 stream" if len(troubles) == 1 else f"{len(troubles):,} streams"
        raise StreamsError(f"{many} failed, {key!r} first: {problem}; {rest}", troubles)
