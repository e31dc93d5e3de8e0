"""A shard: some thousands of streams in arrays that grow with what is held.

A stream whose state the arrays cannot say, because records are leaving or were erased while they waited, a request is
open or an earlier word is held, is kept as a `vestige.stream.Stream` meanwhile.
Guarantee: what is put in comes out as it was, bit for bit; held by tests/keyed/test_shard.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.keyed.chain_kernels import (
    ELSEWHERE,
    NEVER,
    NONE,
    UNKNOWN,
    Arena,
    Columns,
    Rows,
    collect_rows,
    copy_chains,
    export_records,
    find_lead,
    import_records,
    make_rows,
    mark_chunks,
    mark_owners,
)
from vestige.keyed.layout import STREAMS, pack_subjects, unpack_subjects
from vestige.records import Records
from vestige.row_numbers import ROW_BITS
from vestige.stream import Stream
from vestige.times import make_missing_times
from vestige.types import Ints

if TYPE_CHECKING:
    from vestige.keyed.entry_kernels import Headers

_CHUNK_NUMBERS = 4
"""Number of numbers in a chunk, unless a record has more: room that is not used stays small."""
_LONG = frozenset(("t", "updates", "since", "gaps", "bits", "settled", "due", "oldest", "newest"))
"""Columns of 64 bits."""
_GROWTH = 16
"""Arrays that are full grow by this part of themselves."""
_SHRINKAGE = 8
"""If more than this part of the chunks is free, and not about to be needed, memory is given back."""


class Shard:
    """Streams in arrays.

    Args:
        columns: number of values in a record.
        bits: number of bits of the word of a full batch.
        is_timed: whether records have a deadline in time.

    Attributes:
        count: number of streams.
        columns: the streams, see `vestige.keyed.chain_kernels.Columns`.
        arena: their records.
        elsewhere: the streams that are not kept in the arrays at present, by their places.
    """

    def __init__(self, columns: int, bits: int, *, is_timed: bool) -> None:
        self.count = 0
        self.elsewhere: dict[int, Stream] = {}
        ints, small = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.columns = Columns(**{name: ints if name in _LONG else small for name in Columns._fields})  # type: ignore[arg-type]
        size = max(1, _CHUNK_NUMBERS // columns)
        none = np.zeros((0, size), np.int64)
        self.arena = Arena(
            np.zeros((0, size, columns)), small, np.array([NONE, 0]), none, np.zeros((0, size, 2), np.uint64), none
        )
        self._bits, self._is_timed = bits, is_timed

    @property
    def nbytes(self) -> int:
        """Number of bytes of all arrays."""
        arrays: tuple[NDArray[Any], ...] = (*self.columns, *self.arena)
        return sum(array.nbytes for array in arrays)

    @property
    def numbers(self) -> int:
        """Number of numbers that are held in the arrays: the values of all records."""
        records = int(self.columns.kept[: self.count].sum()) + int(np.maximum(self.columns.pending, 0).sum())
        return records * int(self.arena.values.shape[2])

    @property
    def arrived(self) -> int:
        """Number of records that have arrived in all streams."""
        here = self.columns.t[: self.count][self.columns.pending[: self.count] != ELSEWHERE]
        return int(here.sum()) + sum(stream.t for stream in self.elsewhere.values())

    @property
    def longest(self) -> int:
        """Number of rounds of the longest encoded batch."""
        return int(self.columns.length[: self.count].max(initial=0))

    def add_streams(self, count: int, newest_request: int = 0, *, is_batched: bool = True) -> None:
        """Make room for streams up to so many; new ones are empty.

        Args:
            count: number of streams.
            newest_request: number of the newest removal request, which asks nothing of new streams.
            is_batched: whether the arrays can hold them.
        """
        if count > len(self.columns.t):
            size = min(max(count, len(self.columns.t) + len(self.columns.t) // _GROWTH, 16), max(STREAMS, count))
            defaults = {"head": NONE, "tail": NONE, "since": 1, "due": NEVER, "oldest": NEVER, "newest": UNKNOWN}
            always = {"t", "pending", "length", "kept", "updates", "head", "tail"}
            always |= {"due", "oldest", "newest", "since"} if self._is_timed else set()
            grown = {}
            for name, column in self.columns._asdict().items():
                needed = name in always or len(column)
                grown[name] = enlarge(column, size, defaults.get(name, 0)) if needed else column
            self.columns = Columns(**grown)
        here = slice(self.count, max(self.count, count))
        if len(self.columns.settled):
            self.columns.settled[here] = newest_request
        if not is_batched:
            self.columns.pending[here] = ELSEWHERE
        self.count = here.stop

    def reserve(self, chunks: int) -> None:
        """Make sure that so many chunks are free.

        Args:
            chunks: number of chunks.
        """
        arena = self.arena
        if arena.free[1] >= chunks:
            return
        before = len(arena.links)
        more = max(chunks - int(arena.free[1]), before // _GROWTH)
        links = enlarge(arena.links, before + more, NONE)
        links[before:-1] = np.arange(before + 1, before + more)
        links[-1] = arena.free[0]
        self.arena = Arena(
            enlarge(arena.values, before + more, 0.0),
            links,
            np.array([before, arena.free[1] + more]),
            enlarge(arena.times, before + more, UNKNOWN) if len(arena.times) else arena.times,
            enlarge(arena.subjects, before + more, 0) if len(arena.subjects) else arena.subjects,
            enlarge(arena.numbers, before + more, 0) if len(arena.numbers) else arena.numbers,
        )
        _wipe(arena)

    def shrink(self, spare: int) -> None:
        """Give memory back if far more chunks are free than are needed.

        Args:
            spare: number of chunks that should stay free.
        """
        arena = self.arena
        chunks, free = len(arena.links), int(arena.free[1])
        if free <= chunks // _SHRINKAGE + 2 * spare:
            return
        size = chunks - free + max((chunks - free) // _GROWTH, spare, 1)
        blanks = (0.0, NONE, 0, UNKNOWN, 0, 0)
        made = Arena(*(_make_blank(each, size, blank) for each, blank in zip(arena, blanks, strict=True)))  # type: ignore[arg-type]
        used = copy_chains(self.columns, arena, made)
        made.links[used:-1] = np.arange(used + 1, size)
        made.links[-1] = NONE
        self.arena = made._replace(free=np.array([used, size - used]))
        _wipe(arena)

    def add_labels(self, *, times: bool, subjects: bool, numbers: bool) -> None:
        """Make room for labels that records have not had so far.

        Args:
            times: whether there are times.
            subjects: whether there are subjects.
            numbers: whether there are numbers of rows.
        """
        chunks = len(self.arena.links)
        if not chunks:
            self.reserve(1)
            chunks = 1
        for name, wanted, blank in (("times", times, UNKNOWN), ("subjects", subjects, 0), ("numbers", numbers, 0)):
            column = getattr(self.arena, name)
            if wanted and not len(column):
                self.arena = self.arena._replace(**{name: enlarge(column, chunks, blank)})

    @property
    def labels(self) -> tuple[bool, bool, bool]:
        """Whether there is room for times, subjects and numbers of rows."""
        return len(self.arena.times) > 0, len(self.arena.subjects) > 0, len(self.arena.numbers) > 0

    def get_clock(self, key: int) -> Clock:
        """Return the clock of a stream that is kept in the arrays.

        Args:
            key: its place.

        Returns:
            The public clock.
        """
        columns = self.columns
        t, pending, length = int(columns.t[key]), int(columns.pending[key]), int(columns.length[key])
        due = int(columns.due[key]) if len(columns.due) else NEVER
        return Clock(
            t,
            first=t - pending - length + 1,
            last=t - pending,
            since=int(columns.since[key]) if len(columns.since) else 1,
            due=None if due == NEVER else due,
            updates=int(columns.updates[key]),
            gaps=int(columns.gaps[key]) if len(columns.gaps) else 0,
            bits=int(columns.bits[key]) if len(columns.bits) else self._find_usual_bits(int(columns.updates[key])),
        )

    def _find_usual_bits(self, updates: int) -> int:
        return self._bits if updates else 0

    def get_records(self, key: int) -> Records:
        """Return the records of a stream that is kept in the arrays.

        Args:
            key: its place.

        Returns:
            A copy of its records.
        """
        columns, arena = self.columns, self.arena
        length, kept, pending = (int(column[key]) for column in (columns.length, columns.kept, columns.pending))
        present, n = np.zeros(length, np.bool_), kept + pending
        rows = make_rows(n, arena.values.shape[2], *self.labels)
        export_records(columns, arena, key, present, rows)
        last = int(columns.t[key]) - pending
        rounds = np.concatenate((np.flatnonzero(present) + last - length + 1, np.arange(last + 1, last + pending + 1)))
        times, named, numbered = self.labels
        return Records._wrap(
            rounds,
            rows.values,
            np.zeros(n, np.bool_),
            rows.times.view("M8[us]") if times else make_missing_times(n),
            unpack_subjects(rows.subjects) if named else np.full(n, None),
            rows.numbers if numbered else np.zeros(n, np.int64),
        )

    def count_records(self, keys: Ints, *, hides_waiting: bool) -> dict[str, Ints]:
        """Count the records of streams.

        Args:
            keys: their places; shape (n,).
            hides_waiting: see `vestige.Policy`.

        Returns:
            For each stream t, since, counted and held; see `vestige.Estimate`.
        """
        columns = self.columns
        t, pending = columns.t[keys], np.maximum(columns.pending[keys], 0).astype(np.int64)
        since = columns.since[keys] if len(columns.since) else np.ones(len(keys), np.int64)
        gaps = columns.gaps[keys] if len(columns.gaps) else 0
        counted = t - since + 1 - gaps - pending * hides_waiting
        found = {"t": t, "since": since, "counted": counted, "held": columns.kept[keys] + pending}
        for row in np.flatnonzero(np.isin(keys, list(self.elsewhere))) if self.elsewhere else ():
            stream = self.elsewhere[int(keys[row])]
            found["t"][row], found["since"][row] = stream.t, stream.clock.since
            found["counted"][row], found["held"][row] = stream.counted, len(stream.retained)
        return found

    def put(self, key: int, clock: Clock, retained: Records) -> bool:
        """Put the state of a stream in place, if the arrays can say it.

        Args:
            key: its place.
            clock: the public clock.
            retained: its records.

        Returns:
            Whether that was possible; if not, the place is marked as kept elsewhere.
        """
        self.wipe(key)
        waits = retained.rounds > clock.last
        held = retained.rounds[~waits]
        fits = clock.pending == np.count_nonzero(waits) and not retained.leaving.any()
        fits = fits and (not len(held) or bool(held[0] >= clock.first))
        if not fits:
            return False
        present = np.zeros(clock.last - clock.first + 1, np.bool_)
        present[held - clock.first] = True
        self._put_clock(key, clock, retained.times[waits].view(np.int64))
        times = not np.isnat(retained.times).all()
        subjects, numbers = bool((retained.subjects != None).any()), bool(retained.numbers.any())  # noqa: E711
        if times or subjects or numbers:
            self.add_labels(times=times, subjects=subjects, numbers=numbers)
        dim = self.arena.values.shape[2]
        self.reserve(len(retained) + find_lead(len(present), dim))
        rows = Rows(
            np.empty(0, np.int64),
            retained.values,
            retained.times.view(np.int64) if self.labels[0] else np.empty(0, np.int64),
            pack_subjects(retained.subjects) if self.labels[1] else np.empty((0, 2), np.uint64),
            retained.numbers if self.labels[2] else np.empty(0, np.int64),
        )
        import_records(self.columns, self.arena, key, present, _copy_rows(rows))
        return True

    def put_clocks(self, keys: Ints, headers: Headers) -> None:
        """Put the clocks of streams in place that are empty so far.

        Args:
            keys: their places.
            headers: what a store says of them.
        """
        columns, usual = self.columns, np.where(headers.updates > 0, self._bits, 0)
        blanks = {"since": 1, "gaps": 0, "settled": 0, "bits": 0}
        wanted = {"since": headers.since, "gaps": headers.gaps, "settled": headers.settled, "bits": headers.bits}
        for name, values in wanted.items():
            if (values != (usual if name == "bits" else blanks[name])).any() and not len(getattr(columns, name)):
                blank = np.full(len(columns.t), blanks[name], np.int64)
                blank = np.where(columns.updates > 0, self._bits, 0) if name == "bits" else blank
                columns = self.columns = columns._replace(**{name: blank})  # type: ignore[arg-type]
            if len(getattr(columns, name)):
                getattr(columns, name)[keys] = values
        columns.t[keys], columns.updates[keys] = headers.t, headers.updates
        if len(columns.due):
            columns.due[keys], columns.oldest[keys], columns.newest[keys] = headers.due, NEVER, UNKNOWN

    def clear(self, key: int) -> None:
        """Make a stream empty, as a new one is.

        Args:
            key: its place.
        """
        self.wipe(key)
        self._put_clock(key, Clock(), np.zeros(0, np.int64))
        self.columns.pending[key] = 0

    def find_subject(self, subject: str) -> list[int]:
        """Find the streams that hold a record of a subject.

        Args:
            subject: its pseudonym.

        Returns:
            Their places.
        """
        found = [key for key, stream in self.elsewhere.items() if (stream.retained.subjects == subject).any()]
        if len(self.arena.subjects):
            words = pack_subjects(np.array([subject], np.object_))[0]
            chunks = np.zeros(len(self.arena.subjects), np.bool_)
            if mark_chunks(self.arena, words[0], words[1], chunks):
                held = np.zeros(self.count, np.bool_)
                mark_owners(self.columns, self.arena, self.count, chunks, held)
                found += np.flatnonzero(held).tolist()
        return found

    def collect_rows(self, slot: int) -> tuple[Ints, Rows]:
        """Collect the records that are rows of a source.

        Args:
            slot: the slot of the source.

        Returns:
            The places of their streams; and the records, of which `numbers` are the rows in the source.
        """
        n = int(np.count_nonzero(self.arena.numbers >> ROW_BITS == slot)) if slot else 0
        keys, rows = np.empty(n, np.int64), make_rows(n, self.arena.values.shape[2], *self.labels[:2], True)
        if n:
            collect_rows(self.columns, self.arena, self.count, slot, keys, rows)
        return keys, rows

    def find_newest(self, age: int) -> Ints:
        """Find the newest time that is known of each stream; see `vestige.stream.deadlines.find_newest`.

        Args:
            age: `max_age` in microseconds.

        Returns:
            Microseconds since 1970; the least integer where no time is known.
        """
        columns, here = self.columns, slice(0, self.count)
        due = columns.due[here]
        newest: Ints = np.maximum(columns.newest[here], np.where(due == NEVER, UNKNOWN, due - age))
        return newest

    def find_settled(self, newest_request: int) -> int:
        """Find the newest request that all streams have met.

        Args:
            newest_request: number of the newest request.

        Returns:
            Its number.
        """
        columns, here = self.columns, slice(0, self.count)
        if not len(columns.settled):
            return newest_request
        held = (columns.kept[here] > 0) | (columns.pending[here] != 0)  # elsewhere counts as held
        met: int = columns.settled[here][held].min(initial=newest_request)
        return int(met)

    def note_settled(self, key: int, newest_request: int) -> None:
        """Note that a stream has met all removal requests.

        Args:
            key: its place.
            newest_request: number of the newest of them.
        """
        if newest_request:
            self.track_requests()
            self.columns.settled[key] = newest_request

    def track_requests(self) -> None:
        """Make room to note which requests have been met."""
        if not len(self.columns.settled):
            self.columns = self.columns._replace(settled=np.zeros(len(self.columns.t), np.int64))

    def wipe(self, key: int) -> None:
        """Wipe the records of a stream, and mark it as kept elsewhere.

        Args:
            key: its place.
        """
        empty = make_rows(0, self.arena.values.shape[2], False, False, False)
        import_records(self.columns, self.arena, key, np.zeros(0, np.bool_), empty)
        self.columns.pending[key] = ELSEWHERE

    def _put_clock(self, key: int, clock: Clock, waiting_times: Ints) -> None:
        columns = self.columns
        usual_bits = np.where(columns.updates > 0, self._bits, 0)
        for name, value, usual in (
            ("since", clock.since, np.ones(len(columns.t), np.int64)),
            ("gaps", clock.gaps, np.zeros(len(columns.t), np.int64)),
            ("bits", clock.bits, usual_bits),
        ):
            expected = self._find_usual_bits(clock.updates) if name == "bits" else usual[key]
            if value != expected and not len(getattr(columns, name)):
                columns = self.columns = columns._replace(**{name: usual})  # type: ignore[arg-type]
            if len(getattr(columns, name)):
                getattr(columns, name)[key] = value
        columns.t[key], columns.updates[key] = clock.t, clock.updates
        if len(columns.due):
            columns.due[key] = NEVER if clock.due is None else clock.due
            columns.oldest[key] = waiting_times.min(initial=NEVER)
            columns.newest[key] = waiting_times.max(initial=UNKNOWN)


def _copy_rows(rows: Rows) -> Rows:
    """Arrays of our own, since those of records cannot be written to, which would be another type for the compiler."""
    return Rows(*(np.array(array) for array in rows))  # type: ignore[arg-type]


def _make_blank(array: NDArray[Any], size: int, blank: float) -> NDArray[Any]:
    """An array like another one with so many entries; without any if the other has none."""
    return np.full((size, *array.shape[1:]), blank, array.dtype) if len(array) else array


def _wipe(arena: Arena) -> None:
    """Overwrite the records of an arena that another has taken the place of."""
    for array in (arena.values, arena.times, arena.subjects, arena.numbers):
        array.fill(0)


def enlarge(array: NDArray[Any], size: int, blank: float) -> NDArray[Any]:
    """Make an array longer.

    Args:
        array: the array.
        size: number of entries.
        blank: what new entries are.

    Returns:
        A longer copy; the array itself if it has as many entries.
    """
    if size <= len(array):
        return array
    larger = np.empty((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    larger[len(array) :] = blank
    return larger
