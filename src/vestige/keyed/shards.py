"""All streams under the same rules, by number: kernels do the plain case, a `Stream` whatever else is to be done.

Guarantee: the same records and seed give the same state as one `Stream` for each key; held by
tests/keyed/test_streams.py. A policy that fails in one stream affects no other; held by tests/keyed/test_take.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import StoreError
from vestige.keyed.arrivals import UNKNOWN
from vestige.keyed.layout import STREAMS, pack_subjects, unpack_subjects
from vestige.keyed.taken import StreamTrouble
from vestige.keyed.terms import make_terms
from vestige.keyed.workers import run_tasks
from vestige.random.keys import AuditSeed
from vestige.records import Records
from vestige.row_numbers import move_slots
from vestige.store import Receipt, State
from vestige.stream import Stream
from vestige.stream.arrivals import Arrivals
from vestige.stream.deadlines import find_ahead
from vestige.stream.event import find_event
from vestige.stream.rules import Rules
from vestige.stream.update import close_full_batch
from vestige.times import make_missing_times
from vestige.types import Bools, Floats, Ints, Times

if TYPE_CHECKING:
    from vestige.keyed.batch_kernels import Terms
    from vestige.keyed.chain_kernels import Rows
    from vestige.keyed.shard import Shard

_ROWS_PER_CALL = 1 << 11
"""Number of rows of a shard that are taken in one call of a kernel: a free chunk is kept at hand for each."""


_SMALL = 1 << 16


class Intake(NamedTuple):
    """What became of rows, by the numbers of their streams.

    Attributes:
        counts: numbers of rows that were taken, of those that came too late, and of streams that started over; shape
            (3,).
        troubles: what kept streams from taking all of their rows.
    """

    counts: Ints
    troubles: dict[int, StreamTrouble]


class Expired(NamedTuple):
    """What became of records that are too old.

    Attributes:
        left: the streams for which something may still have to be done.
        changed: the streams of which records were erased.
        erased: number of records that were erased.
        restarts: number of streams that started over.
    """

    left: list[int]
    changed: Ints
    erased: int = 0
    restarts: int = 0


class Shards:
    """Streams by number, in shards.

    Args:
        rules: the rules of each stream.
        seed: makes the run reproducible; see `KeyedStreams`.

    Attributes:
        rules: the rules of each stream.
        requests: number of the newest removal request.
        blocked: why streams cannot be read from their store, by number.
        bits: number of bits of the word of a full batch.
    """

    def __init__(self, rules: Rules, seed: int | AuditSeed | None) -> None:
        self.rules = rules
        self.requests = 0
        self.blocked: dict[int, StoreError] = {}
        self._seed = seed
        self.bits = rules.policy.count_bits(rules.batch)
        self._shards: list[Shard] = []

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    def __getitem__(self, place: int) -> Shard:
        return self._shards[place]

    @property
    def is_batched(self) -> bool:
        """Whether the arrays can hold the streams: not if each record stands for itself, or each round is an update."""
        return self.rules.all_or_nothing and not self.rules.policy.every_round

    def resize(self, count: int) -> None:
        """Let there be so many streams: new ones are empty; those that are dropped must be.

        Args:
            count: number of streams.
        """
        from vestige.keyed.shard import Shard  # noqa: PLC0415  # it takes long to import

        while len(self._shards) * STREAMS < count:
            self._shards.append(Shard(self.rules.policy.columns, self.bits, is_timed=self.rules.is_timed))
        for place, shard in enumerate(self._shards):
            size = min(max(count - place * STREAMS, 0), STREAMS)
            if size > shard.count:
                shard.add_streams(size, self.requests, is_batched=self.is_batched)
            shard.count = size

    def begin_request(self, number: int) -> None:
        """Note that there are removal requests up to a number; from now on streams note which they have met.

        Args:
            number: number of the newest of them.
        """
        self.requests = number
        for shard in self._shards:
            shard.track_requests()

    def read(self, number: int) -> tuple[Clock, Records]:
        """Read the state of a stream.

        Args:
            number: its number.

        Returns:
            Its clock, and a copy of its records.

        Raises:
            StoreError: it cannot be read from its store.
        """
        if number in self.blocked:
            raise self.blocked[number]
        shard, key = self._shards[number // STREAMS], number % STREAMS
        stream = shard.elsewhere.get(key)
        if stream is not None:
            return stream.clock, stream.retained
        if shard.columns.pending[key] < 0:
            return Clock(), Records.empty(self.rules.policy.columns)
        return shard.get_clock(key), shard.get_records(key)

    def read_clock(self, number: int) -> Clock:
        """Read the clock of a stream that is kept in the arrays.

        Args:
            number: its number.

        Returns:
            Its clock.
        """
        return self._shards[number // STREAMS].get_clock(number % STREAMS)

    def gather(self, name: str, numbers: Ints, blank: int) -> Ints:
        """Gather a column of streams that are kept in the arrays.

        Args:
            name: name of the column, see `vestige.keyed.chain_kernels.Columns`.
            numbers: which streams; shape (n,).
            blank: what all streams have where there is no such column.

        Returns:
            Shape (n,).
        """
        found = np.full(len(self._shards) * STREAMS, blank)
        for place, shard in enumerate(self._shards):
            column = getattr(shard.columns, name)
            if len(column):
                found[place * STREAMS :][: shard.count] = column[: shard.count]
        gathered: Ints = found[numbers]
        return gathered

    def make_terms(self) -> Terms:
        """Gather what is the same for all streams.

        Returns:
            What kernels take.
        """
        return make_terms(self.rules, self.bits, self.requests)

    def clear(self, number: int) -> None:
        """Make a stream empty, as a new one is.

        Args:
            number: its number.
        """
        shard, key = self._shards[number // STREAMS], number % STREAMS
        self.blocked.pop(number, None)
        shard.elsewhere.pop(key, None)
        shard.clear(key)

    def count_arrived(self, number: int) -> int:
        """Count the records of a stream that have arrived.

        Args:
            number: its number.

        Returns:
            The number of records.
        """
        shard, key = self._shards[number // STREAMS], number % STREAMS
        stream = shard.elsewhere.get(key)
        return int(shard.columns.t[key]) if stream is None else stream.t

    def attempt(self, number: int, action: Callable[[Stream], object]) -> Exception | None:
        """Do something with one stream as a `Stream`, and put it back into the arrays if these can hold it.

        Args:
            number: the number of the stream.
            action: what to do; it must leave the stream in a valid state if it fails.

        Returns:
            What it raised, or why it cannot be read; None if there is no such problem.
        """
        if number in self.blocked:
            return self.blocked[number]
        shard, key = self._shards[number // STREAMS], number % STREAMS
        stream = shard.elsewhere.pop(key, None) or self._make_stream(*self.read(number))
        before, problem = stream.clock.updates, None
        try:
            action(stream)
        except Exception as raised:  # the policy's, which must not affect other streams
            problem = raised
        if stream.clock.updates != before and not _has_open(stream):
            shard.note_settled(key, self.requests)
        self._keep(shard, key, stream)
        return problem

    def take(self, numbers: Ints, new: Arrivals, workers: Executor) -> Intake:
        """Take rows that were checked.

        Args:
            numbers: the number of the stream of each row; shape (n,).
            new: the rows.
            workers: take them, one shard in each task.

        Returns:
            What became of them.
        """
        shards = numbers // STREAMS
        small = shards.astype(np.uint16) if len(self._shards) <= _SMALL else shards  # which numpy sorts faster
        order = np.argsort(small, kind="stable") if len(self._shards) > 1 else np.arange(len(numbers))
        counts = np.bincount(shards, minlength=len(self._shards))
        ends, made = np.cumsum(counts), Intake(np.zeros(3, np.int64), {})

        def work(place: int) -> Intake:
            return _ShardIntake(self, place, order[ends[place] - counts[place] : ends[place]], numbers, new).run()

        for part in run_tasks(workers, work, np.flatnonzero(counts).tolist()):
            made.counts[:] += part.counts
            made.troubles.update(part.troubles)
        return made

    def find_newest(self) -> Ints:
        """Find the newest time that is known of each stream; see `vestige.stream.deadlines.find_newest`.

        Returns:
            Microseconds since 1970; `UNKNOWN` where no time is known.
        """
        newest = np.full(sum(shard.count for shard in self._shards), UNKNOWN)
        for place, shard in enumerate(self._shards):
            here = slice(place * STREAMS, place * STREAMS + shard.count)
            newest[here] = shard.find_newest(self.rules.limits.age)
            for key, stream in shard.elsewhere.items():
                known = stream._find_newest_time()
                newest[here.start + key] = UNKNOWN if known is None else known
        return newest

    def expire(self, instant: int, excluded: Ints, workers: Executor) -> Expired:
        """Erase records that are too old where statistics start over.

        Args:
            instant: microseconds since 1970.
            excluded: numbers of streams to leave as they are.
            workers: erase them, one shard in each task.

        Returns:
            How many were erased, and the streams for which something may still have to be done.
        """
        elsewhere = [place * STREAMS + key for place, shard in enumerate(self._shards) for key in shard.elsewhere]
        made = Expired([*{*elsewhere}.difference(excluded.tolist())], np.empty(0, np.int64))
        if not self.rules.is_timed or not self.is_batched:
            return made

        def work(place: int) -> tuple[Ints, Ints, Ints]:
            from vestige.keyed.batch_kernels import make_batch  # noqa: PLC0415
            from vestige.keyed.deadline_kernels import expire_each  # noqa: PLC0415

            shard, rules, counts = self._shards[place], self.rules, np.zeros(2, np.int64)
            if not shard.count:
                return counts, counts[:0], counts[:0]
            batch = make_batch(rules.batch, max(rules.batch, shard.longest), rules.policy.columns, *shard.labels)
            left = find_ahead(rules.limits, shard.columns.newest[: shard.count].view("M8[us]"), instant)
            here = excluded[excluded // STREAMS == place] % STREAMS
            left[here], changed = True, np.zeros(shard.count, np.bool_)
            terms = self.make_terms()
            expire_each(shard.columns, shard.arena, shard.count, instant, terms, batch, left, changed, counts)
            shard.shrink(0)
            left[here] = False
            return counts, np.flatnonzero(left) + place * STREAMS, np.flatnonzero(changed) + place * STREAMS

        for counts, left, changed in run_tasks(workers, work, range(len(self._shards))):
            made = Expired(
                made.left + left.tolist(),
                np.concatenate((made.changed, changed)),
                made.erased + int(counts[0]),
                made.restarts + int(counts[1]),
            )
        return made

    def find_subject(self, subject: str) -> list[int]:
        """Find the streams that hold a record of a subject.

        Args:
            subject: its pseudonym.

        Returns:
            Their numbers.
        """
        return [
            place * STREAMS + key for place, shard in enumerate(self._shards) for key in shard.find_subject(subject)
        ]

    @property
    def has_open(self) -> bool:
        """Whether a stream has a request that was not met yet."""
        return any(_has_open(stream) for shard in self._shards for stream in shard.elsewhere.values())

    def find_records(self, slot: int) -> tuple[Ints, Floats, Times, NDArray[np.object_], Bools, Ints]:
        """Find the records that are rows of a source.

        Args:
            slot: the slot of the source.

        Returns:
            Their rows in the source, values, times and pseudonyms, whether they are leaving, and the numbers of their
            streams.
        """
        parts = [self._find_alone(place, slot) for place in range(len(self._shards))]
        for place, shard in enumerate(self._shards):
            keys, rows = shard.collect_rows(slot)
            n = len(keys)
            times = rows.times.view("M8[us]") if len(rows.times) else make_missing_times(n)
            subjects = unpack_subjects(rows.subjects) if len(rows.subjects) else np.full(n, None)
            parts.append((rows.numbers, rows.values, times, subjects, np.zeros(n, np.bool_), keys + place * STREAMS))
        rows_, values, times_, subjects_, leaving, numbers = (np.concatenate(part) for part in zip(*parts, strict=True))
        return rows_, values, times_, subjects_, leaving, numbers

    def _find_alone(self, place: int, slot: int) -> tuple[Ints, Floats, Times, NDArray[np.object_], Bools, Ints]:
        """The same for the streams of a shard that its arrays do not hold."""
        made = [Records.empty(self.rules.policy.columns)]
        numbers = [np.empty(0, np.int64)]
        for key, stream in self._shards[place].elsewhere.items():
            made.append(stream.retained.from_source(slot))
            numbers.append(np.full(len(made[-1]), place * STREAMS + key))
        held = [
            np.concatenate([getattr(part, name) for part in made])
            for name in ("numbers", "values", "times", "subjects", "leaving")
        ]
        return held[0], held[1], held[2], held[3], held[4], np.concatenate(numbers)

    def count_overdue(self, deadline: int) -> int:
        """Count the records whose time is not after a deadline.

        Args:
            deadline: microseconds since 1970.

        Returns:
            The number of records.
        """
        count, moment = 0, np.datetime64(deadline, "us")
        for shard in self._shards:
            times = shard.arena.times
            count += int(np.count_nonzero((times <= deadline) & (times != UNKNOWN)))
            count += sum(int((stream.retained.times <= moment).sum()) for stream in shard.elsewhere.values())
        return count

    def count_held(self, numbers: Ints) -> Ints:
        """Count the records that streams hold.

        Args:
            numbers: their numbers; -1 for none.

        Returns:
            How many each holds.
        """
        counts = np.zeros(len(numbers), np.int64)
        for place, shard in enumerate(self._shards):
            here = np.flatnonzero(numbers // STREAMS == place)
            keys = numbers[here] % STREAMS
            counts[here] = shard.columns.kept[keys] + np.maximum(shard.columns.pending[keys], 0)
            for row in here[[int(key) in shard.elsewhere for key in keys]] if shard.elsewhere else ():
                counts[row] = len(shard.elsewhere[int(numbers[row]) % STREAMS].retained)
        return counts

    def find_settled(self) -> int:
        """Find the newest removal request that all streams have met.

        Returns:
            Its number.
        """
        return min((shard.find_settled(self.requests) for shard in self._shards), default=self.requests)

    def get_state(self, number: int) -> State:
        """Return all that a store keeps of a stream but for its positions.

        Args:
            number: its number.

        Returns:
            The state.
        """
        shard, key = self._shards[number // STREAMS], number % STREAMS
        stream = shard.elsewhere.get(key) or self._make_stream(*self.read(number))
        settled = int(shard.columns.settled[key]) if len(shard.columns.settled) else 0
        state = stream._state.to_saved()
        return replace(state, settled=settled, event=find_event(self.rules, state))

    def adopt(self, number: int, state: State) -> None:
        """Take in a stream as a store has kept it.

        Args:
            number: its number; the stream is empty.
            state: its state.
        """
        shard, key = self._shards[number // STREAMS], number % STREAMS
        if state.settled:
            shard.note_settled(key, state.settled)
        stream = self._make_stream(state.clock, state.retained, state.receipts)
        self._keep(shard, key, stream)

    def block(self, number: int, problem: StoreError) -> None:
        """Keep rows from a stream that cannot be read from its store.

        Args:
            number: its number.
            problem: why it cannot be read.
        """
        self._shards[number // STREAMS].wipe(number % STREAMS)
        self.blocked[number] = problem

    def renumber(self, number: int, slots: Mapping[int, int]) -> None:
        """Let the records of a stream know sources by other slots.

        Args:
            number: its number.
            slots: the new slot for each slot that has changed.
        """
        clock, retained = self.read(number)
        shard, key = self._shards[number // STREAMS], number % STREAMS
        stream = shard.elsewhere.pop(key, None)
        receipts = () if stream is None else stream.receipts
        moved = retained.with_numbers(move_slots(retained.numbers, slots))
        self._keep(shard, key, self._make_stream(clock, moved, receipts))

    def _keep(self, shard: Shard, key: int, stream: Stream) -> None:
        """Keep a stream in the arrays if these can hold it."""
        if _has_open(stream) or not self.is_batched or not shard.put(key, stream.clock, stream.retained):
            shard.wipe(key)
            shard.elsewhere[key] = stream

    def _make_stream(self, clock: Clock, retained: Records, receipts: tuple[Receipt, ...] = ()) -> Stream:
        limits = self.rules.limits
        stream = Stream(
            self.rules.policy,
            retention=limits.retention,
            notice=limits.notice,
            max_age=limits.max_age,
            max_ahead=limits.max_ahead,
            lateness=limits.lateness,
            seed=self._seed,
            retained=retained,
            clock=clock,
        )
        if receipts:
            stream._state.receipts = receipts
            stream._schedule()
        return stream


def _has_open(stream: Stream) -> bool:
    """Whether a stream has a request that was not met yet."""
    return any(receipt.erased is None for receipt in stream.receipts)


class _ShardIntake:
    """Takes rows into one shard: plain ones by kernels, all others by a `Stream` for each key."""

    def __init__(self, shards: Shards, place: int, chosen: Ints, numbers: Ints, new: Arrivals) -> None:
        self._shards, self._shard, self._first = shards, shards[place], place * STREAMS
        self._chosen, self._new = chosen, new
        self._rows = _make_rows(numbers[chosen] - self._first, new, chosen)
        self._shard.add_labels(
            times=new.times is not None, subjects=new.subjects is not None, numbers=new.numbers is not None
        )
        columns = self._shard.columns
        self._t, self._settled = columns.t.copy(), columns.settled.copy()
        self._before: dict[int, tuple[Clock, Records]] = {}
        self._left = np.zeros(len(chosen), np.bool_)
        self._deferred = np.zeros(len(columns.t), np.bool_)
        self._made = Intake(np.zeros(3, np.int64), {})

    def run(self) -> Intake:
        """Take all rows."""
        from vestige.channels.averages import make_scratch  # noqa: PLC0415
        from vestige.keyed.batch_kernels import make_batch  # noqa: PLC0415
        from vestige.keyed.intake_kernels import take  # noqa: PLC0415

        shard, rules, rows = self._shard, self._shards.rules, self._rows
        terms, columns = self._shards.make_terms(), rules.policy.columns
        batch = make_batch(rules.batch, max(rules.batch, shard.longest), columns, *shard.labels)
        rest = terms, batch, make_scratch(rules.batch, columns), self._left, self._deferred, self._made.counts
        start = 0
        while start < len(self._chosen):
            stop = min(start + _ROWS_PER_CALL, len(self._chosen))
            shard.reserve(stop - start + 2 * rules.batch)
            start = take(shard.columns, shard.arena, rows, start, stop, self._first, *rest)
            key = int(rows.keys[start - 1])
            if shard.columns.pending[key] == rules.batch:
                self._update(key, start)
        self._take_left()
        shard.shrink(_ROWS_PER_CALL + 2 * rules.batch)
        return self._made

    def _update(self, key: int, stop: int) -> None:
        """Close a full batch where there is no kernel for it; `stop` is the row after the one that filled it."""
        shard, rules = self._shard, self._shards.rules
        clock, retained = shard.get_clock(key), shard.get_records(key)
        taken = clock.t - int(self._t[key])
        if key not in self._before:
            self._before[key] = replace(clock, t=clock.t - taken), retained.where(slice(0, len(retained) - taken))
        waits = retained.rounds > clock.last
        waiting = retained.where(waits)
        arrivals = Arrivals(waiting.values.copy(), waiting.times, waiting.subjects, waiting.numbers)
        try:
            done, kept = close_full_batch(rules, replace(clock, t=clock.last), retained.where(~waits), arrivals)
        except Exception:  # the policy's: what it means for the rows is for a `Stream` to say, which meets it again
            self._defer(key, stop, taken)
            return
        shard.put(key, done, kept)
        shard.note_settled(key, self._shards.requests)

    def _defer(self, key: int, stop: int, taken: int) -> None:
        """Let a stream be as it was before the call, and leave all of its rows to be taken elsewhere."""
        mine = self._rows.keys == key
        handled = int(np.count_nonzero(mine[:stop]))
        self._made.counts[:2] -= taken, handled - taken
        self._left |= mine
        self._deferred[key] = True
        self._shard.put(key, *self._before[key])
        if len(self._settled):
            self._shard.columns.settled[key] = self._settled[key]

    def _take_left(self) -> None:
        """Take the rows that are left, those of each key by a `Stream`."""
        left = np.flatnonzero(self._left)
        if not len(left):
            return
        order = left[np.argsort(self._rows.keys[left], kind="stable")]
        for here in np.split(order, np.flatnonzero(np.diff(self._rows.keys[order])) + 1):
            number = self._first + int(self._rows.keys[here[0]])
            part = self._new.part(self._chosen[here])
            problem = self._shards.attempt(number, partial(_extend, new=part, counts=self._made.counts))
            if problem is not None:
                self._made.troubles[number] = StreamTrouble(problem, int(self._chosen[here[part.handled]]))


def _make_rows(keys: Ints, new: Arrivals, chosen: Ints) -> Rows:
    """Some of the rows, as kernels take them."""
    from vestige.keyed.chain_kernels import Rows  # noqa: PLC0415

    return Rows(
        keys,
        new.rows[chosen],
        new.times[chosen].view(np.int64) if new.times is not None else np.empty(0, np.int64),
        pack_subjects(new.subjects[chosen]) if new.subjects is not None else np.empty((0, 2), np.uint64),
        new.numbers[chosen] if new.numbers is not None else np.empty(0, np.int64),
    )


def _extend(stream: Stream, new: Arrivals, counts: Ints) -> None:
    """Take rows that were checked."""
    before = stream.t
    try:
        stream._take_all(new, None, None)
    finally:
        taken = stream.t - before
        counts[:2] += taken, new.handled - taken
