"""From a source into one stream for each key, all of which are written together with one position.

An error of one stream does not affect the others: its rows wait for a later run, the others are taken.
Guarantee: each row is counted once, wherever a run is stopped or killed; held by tests/ingest/test_by_key.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np

from vestige import _numba
from vestige.errors import DataError, StreamsError
from vestige.ingest.commits import Commits
from vestige.ingest.condition import find_unreadable
from vestige.ingest.maintenance import Maintenance
from vestige.ingest.messages import explain_problem
from vestige.ingest.names import StreamNames, find_bad_keys
from vestige.ingest.single import count_covered, find_times
from vestige.ingest.trouble import Trouble
from vestige.keyed import KeyedStreams, StreamTrouble
from vestige.keyed.positions import KeyedPositions, SourceReading
from vestige.keyed.rehearsal import rehearse
from vestige.row_numbers import number_rows
from vestige.sources import Block, Resumption, Source
from vestige.sources.block import Texts
from vestige.sources.held import HeldRows
from vestige.sources.protocol import SourcePositions
from vestige.sources.relocation import Move
from vestige.store import Store
from vestige.types import Bools, Ints, Times

_FEW = 1_000
"""Up to so many records taken and numbers held together, a write is interpreted, in a second at most."""


@dataclass(slots=True)
class StreamsByKey:
    """The streams of a run that has one for each key.

    Attributes:
        streams: the streams, by the names that the store knows them by.
        names: which stream a key goes to.
        store: where they are kept, if anywhere.
        max_age: maximum age of a record.
        warn: function that shows a message to the user.
        taken: number of records that were taken.
        late: number of rows that came later than the streams allow.
        removed: number of streams that another process removed.
        troubles: streams, by key, whose rows were not all taken.
    """

    streams: KeyedStreams
    names: StreamNames
    store: Store | None
    max_age: timedelta | None
    warn: Callable[[str], None]
    taken: int = 0
    late: int = 0
    removed: int = 0
    troubles: dict[str, Trouble] = field(default_factory=dict)
    _source: Source | None = None
    _reading: SourceReading | None = None
    _last: bytes = b""
    """Position before the next block."""
    _is_rehearsed: bool = False
    _commits: Commits = field(init=False)

    def __post_init__(self) -> None:
        self._commits = Commits(self._write, self.warn)

    @property
    def _positions(self) -> KeyedPositions:
        return self.streams.positions

    def list_sources(self) -> tuple[str, ...]:
        """List the sources that were read into these streams."""
        return tuple(self._positions.shared)

    def find_positions(self, source: str) -> SourcePositions:
        """Find how far a source was read.

        Args:
            source: its name.

        Returns:
            The position of all streams, and those of streams that were left behind, by key.
        """
        positions = self._positions
        if source not in positions.shared:
            return SourcePositions()
        shared, own = positions.shared[source], positions.own.get(source, {})
        by_key = {self.names.find_key(name): position for name, position in own.items()}
        return SourcePositions(shared.value, shared.newcomers, by_key)

    def find_held(self, source: str) -> HeldRows:
        """Find the records of a source that are still held.

        Args:
            source: its name.

        Returns:
            The records of all streams.
        """
        slot = self._positions.shared[source].slot
        rows, values, times, subjects, leaving, numbers = self.streams.find_records(slot)
        stay, read = ~leaving, self.streams._read_rows
        return HeldRows(rows[stay], values[stay], times[stay], subjects[stay], numbers[stay], self._find_streams, read)

    def _find_streams(self, keys: Texts) -> Ints:
        """Find the numbers of the streams of keys; -1 where there is none."""
        names, numbers = self.names.find_names(keys), np.full(len(keys), -1)
        bad = find_bad_keys(keys, names)
        good = np.array([key not in bad for key in keys], np.bool_)
        numbers[good] = self.streams.find_numbers(names[good])
        return numbers

    def move_sources(self, moves: Mapping[str, Move]) -> None:
        """Go on with sources that moved.

        Args:
            moves: what moved, by the names of the sources from now on.
        """
        positions, names = self._positions, {move.name: name for name, move in moves.items()}
        for source in moves.keys() & positions.shared.keys() - names.keys():
            slot = positions.shared[source].slot
            for number in np.unique(self.streams.find_records(slot)[-1]).tolist():
                self.streams.renumber(self.streams._names[number], {slot: 0})
        positions.rename(names)
        for name, move in moves.items():
            positions.move(name, move.renew)
        self.flush()

    def begin(self, source: Source, resumption: Resumption | None) -> None:
        """Begin to read a source.

        Args:
            source: the source.
            resumption: where it continues; None if its positions are not kept.
        """
        self._source, self._reading, self._last = source, None, b""
        if resumption is None:
            return
        positions, name = self._positions, resumption.name
        if resumption.is_restarted:
            positions.restart(name)
        for key in resumption.outdated:
            self._restart_stream(name, self.names.find_name(key))
        if resumption.renew is not None and name in positions.shared:
            positions.move(name, resumption.renew)
            self.flush()
        self._last = resumption.start
        self._reading = positions.read(name, source.order)

    def _restart_stream(self, source: str, name: str) -> None:
        """Let a stream that has read an earlier file under the name of a source begin anew with it."""
        self.streams.renumber(name, {self._positions.shared[source].slot: 0})
        self._positions.set_own(source, name, b"")

    def take(self, block: Block, maintenance: Maintenance) -> None:
        """Take the rows of a block that are new for their streams.

        Args:
            block: the rows.
            maintenance: what has to know which clock counts.
        """
        if not len(block.numbers):
            if block.end and self._reading is not None:
                self._reading.note(block.end)
                self._last = block.end
            return
        given = _Rows.from_block(block, self.names)
        is_new = self._find_new(given)
        self._refuse_bad_keys(given)
        left = self._leave_waiting(given, is_new) if self.troubles else {}
        rows = np.flatnonzero(is_new)
        if len(rows):
            left |= self._take_rows(given, rows, maintenance)
        self._note(given, rows, left)

    def commit_due(self, *, is_waiting: bool) -> bool:  # noqa: ARG002
        """Write if it is time.

        Args:
            is_waiting: whether the source waits for rows, which makes no difference here.

        Returns:
            Whether all that was taken is written.
        """
        return self.store is not None and self._commits.commit_due()

    def flush(self) -> None:
        """Write what the streams have not written yet, if there is a store."""
        if self.store is not None:
            self._commits.commit()

    def _write(self) -> None:
        self._rehearse()
        try:
            self.streams.flush()
        except StreamsError as problem:
            for name, reason in problem.troubles.items():
                said = f"{reason}; rows of it that were read since the last commit are lost"
                self.troubles.setdefault(self.names.find_key(name), Trouble(said, 0))

    def _rehearse(self) -> None:
        """Load kernels before they are needed in a transaction: others wait for the store until it ends."""
        if not self._is_rehearsed and self.taken + self.streams.held > _FEW:
            self._is_rehearsed = True
            _numba.limit_interpretation(0.0)
            rehearse(self.streams.policy, self.streams.terms.retention)

    def note_unreadable(self) -> None:
        """Note the streams that cannot be read from the store, also if they had no rows."""
        for name, problem in find_unreadable(self.streams).items():
            self.troubles.setdefault(self.names.find_key(name), Trouble(problem, 0))

    def mark_whole(self) -> None:
        """Note that the source was read to its end by all streams."""
        reading, source = self._reading, self._source
        if reading is None or source is None or not reading.shared.value:
            return
        if reading.shared.value == reading.shared.newcomers and not reading.own:
            self._positions.move(reading.source, source.mark_whole)
            self.flush()

    def run_maintenance(self, maintenance: Maintenance, *, is_waiting: bool) -> None:
        """Carry out requests, and erase what is due; see `Maintenance.run_due`.

        Args:
            maintenance: does it.
            is_waiting: whether the source is a pipe.
        """
        before = len(self.streams)
        maintenance.run_due(self.streams, is_waiting=is_waiting)
        self.removed += before - len(self.streams)

    def _find_new(self, given: _Rows) -> Bools:
        """Find the rows that their streams have not read yet."""
        block = given.block
        if self._reading is None or self._source is None:
            return np.ones(len(block.numbers), np.bool_)
        shared, own = self._reading.shared, self._reading.own
        read, fresh = (count_covered(self._source, block, each) for each in (shared.value, shared.newcomers))
        limits = np.full(len(given.names), read)
        if fresh != read:
            limits[self._find_streams(given.keys) < 0] = fresh
        if own:
            for code, name in enumerate(given.names):
                if name in own:
                    limits[code] = count_covered(self._source, block, own[name])
        new: Bools = np.arange(len(block.numbers)) >= limits[given.codes]
        return new

    def _refuse_bad_keys(self, given: _Rows) -> None:
        """Note keys that name no stream."""
        for key, why in find_bad_keys(given.keys, given.names).items():
            self.troubles.setdefault(key, Trouble(f"its key {why}", 0, of_row=True))

    def _leave_waiting(self, given: _Rows, is_new: Bools) -> dict[int, int]:
        """Leave out the rows of streams that are in trouble, which wait; return the first of each of them."""
        is_blocked = np.array([key in self.troubles for key in given.keys], np.bool_)
        waiting = np.flatnonzero(is_new & is_blocked[given.codes])
        is_new[waiting] = False
        codes, first, counts = np.unique(given.codes[waiting], return_index=True, return_counts=True)
        left = dict(zip(codes.tolist(), waiting[first].tolist(), strict=True))
        for (code, row), count in zip(left.items(), counts.tolist(), strict=True):
            self._add_rows(given, code, row, count, self.troubles[str(given.keys[code])])
        return left

    def _add_rows(self, given: _Rows, code: int, row: int, count: int, trouble: Trouble) -> None:
        """Count rows of a stream that is in trouble, from a row of the block on."""
        self.troubles[str(given.keys[code])] = replace(
            trouble,
            row=trouble.row or int(given.block.numbers[row]),
            rows=trouble.rows + count,
            source=trouble.source or ("" if self._source is None else self._source.name),
        )

    def _take_rows(self, given: _Rows, rows: Ints, maintenance: Maintenance) -> dict[int, int]:
        """Take some rows of a block; return the first row that was not taken, by the code of its key."""
        block, codes = given.block, given.codes[rows]
        slot = 0 if self._reading is None else self._reading.shared.slot
        ages = self._find_ages(given, rows)
        made = self.streams.take(
            _make_keys(given.names, codes),
            block.select_rows(rows),
            times=find_times(block, rows, self.max_age),
            subjects=None if block.subjects is None else block.subjects[rows],
            numbers=number_rows(block.numbers[rows], slot) if slot else None,
        )
        self.taken += made.taken
        self.late += made.late
        if ages is not None:
            maintenance.note_keyed(*ages, block.arrived, exclude=made.troubles)
        return self._note_troubles(given, rows, made.troubles) if made.troubles else {}

    def _find_ages(self, given: _Rows, rows: Ints) -> tuple[Texts, Times, Ints] | None:
        """Find streams, the newest time of their rows, and how many records they hold, if it matters for a pipe."""
        times = given.block.times
        if times is None or self.max_age is None or self._source is None or not self._source.waits:
            return None
        codes = np.unique(given.codes[rows])
        newest = np.full(len(given.names), np.iinfo(np.int64).min)
        np.maximum.at(newest, given.codes[rows], times[rows].astype("datetime64[us]").view(np.int64))
        names = given.names[codes]
        return names, newest[codes].view("datetime64[us]"), self.streams.count_held(names)

    def _note_troubles(self, given: _Rows, rows: Ints, troubles: Mapping[str, StreamTrouble]) -> dict[int, int]:
        """Note which streams could not take all of their rows; return the first row that was not taken, by code."""
        places, order = (
            {name: code for code, name in enumerate(given.names)},
            np.argsort(given.codes[rows], kind="stable"),
        )
        ordered, left = given.codes[rows][order], {}
        for name, trouble in troubles.items():
            code, row = places[name], int(rows[trouble.row])
            mine = rows[order[slice(*np.searchsorted(ordered, [code, code + 1]))]]
            of_row = isinstance(trouble.problem, DataError)
            noted = Trouble(explain_problem(trouble.problem, given.block.numbers[mine]), 0, of_row=of_row)
            self._add_rows(given, code, row, int((mine >= row).sum()), noted)
            left[code] = row
        return left

    def _note(self, given: _Rows, rows: Ints, left: Mapping[int, int]) -> None:
        """Note how far the source was read, and which streams were left behind."""
        if self._reading is None:
            return
        positions = given.block.positions
        end = given.block.end or positions[-1]
        behind, refused = dict[str, bytes](), len(positions)
        for code, row in left.items():
            name = given.names[code]
            if name in self._reading.stuck:
                continue
            if name in self.streams:
                behind[name] = positions[row - 1] if row else self._last
            else:
                refused = min(refused, row)
        held_back = None if refused == len(positions) else positions[refused - 1] if refused else self._last
        took = given.names[np.unique(given.codes[rows])].tolist() if self._reading.is_behind(end) else ()
        self._reading.note(end, took=[name for name in took if name in self.streams], behind=behind, refused=held_back)
        self._last = end


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows with their keys.

    Attributes:
        block: the rows.
        keys: the distinct keys.
        names: the name of each key's stream.
        codes: which of the keys each row has.
    """

    block: Block
    keys: Texts
    names: Texts
    codes: Ints

    @classmethod
    def from_block(cls, block: Block, names: StreamNames) -> _Rows:
        assert block.keys is not None  # noqa: S101  # a run by key asks its source for keys
        assert block.codes is not None  # noqa: S101
        return cls(block, block.keys, names.find_names(block.keys), block.codes)


def _make_keys(names: Texts, codes: Ints) -> object:
    """Make a column of names without a text for each row, if Arrow is there."""
    used = np.bincount(codes, minlength=len(names)) > 0
    if not used.all():
        names, codes = names[used], (np.cumsum(used) - 1)[codes]
    try:
        import pyarrow as pa  # noqa: PLC0415  # sources of other kinds may do without it
    except ModuleNotFoundError:
        return names[codes]
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.large_string()))
