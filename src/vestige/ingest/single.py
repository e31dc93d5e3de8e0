"""From a source into one stream, which writes itself with its position.

Guarantee: a run that was killed and run again ends in the same state as one that was not; held by
tests/store/test_crashes.py and tests/ingest/test_ingest.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import overload

import numpy as np

from vestige.errors import DataError, NoAnswerError, RuleError, SourceError
from vestige.ingest.commits import retry
from vestige.ingest.maintenance import Maintenance
from vestige.ingest.messages import translate_error
from vestige.ingest.trouble import Trouble
from vestige.sources import Block, Resumption, Source
from vestige.sources.held import HeldRows
from vestige.sources.protocol import SourcePositions
from vestige.sources.relocation import Move
from vestige.store import Store
from vestige.stream import Stream
from vestige.types import Ints, Times


@dataclass(slots=True)
class SingleStream:
    """The one stream of a run.

    Attributes:
        open_stream: function that creates or opens the stream of a name.
        name: name of the stream.
        store: where it is kept, if anywhere.
        max_age: maximum age of a record.
        lateness: how late rows may be.
        warn: function that shows a message to the user.
        taken: number of records that were taken.
        late: number of rows that came later than `lateness` allows.
        troubles: empty; a row that cannot be taken ends the run.
        removed: number of times that another process removed the stream.
    """

    open_stream: Callable[[str], Stream]
    name: str
    store: Store | None
    max_age: timedelta | None
    lateness: timedelta | None
    warn: Callable[[str], None]
    taken: int = 0
    late: int = 0
    removed: int = 0
    troubles: dict[str, Trouble] = field(default_factory=dict)
    _stream: Stream | None = None
    _source: Source | None = None
    _known: str | None = None
    """The name under which the store knows the source; None if its positions are not kept."""

    @property
    def stream(self) -> Stream:
        """The stream, which is opened if needed."""
        if self._stream is None:
            self._stream = self.open_stream(self.name)
        return self._stream

    def list_sources(self) -> tuple[str, ...]:
        """List the sources that were read into streams of the store."""
        return () if self.store is None else self.store.sources()

    def find_positions(self, source: str) -> SourcePositions:
        """Find how far a source was read.

        Args:
            source: its name.

        Returns:
            Its position.
        """
        value = self.stream.position(source).value
        return SourcePositions(value, value)

    def find_held(self, source: str) -> HeldRows:
        """Find the records of a source that are still held.

        Args:
            source: its name.

        Returns:
            The records.
        """
        return HeldRows.collect([("", self.stream.find_records(source))], self.stream._read_rows)

    def move_sources(self, moves: Mapping[str, Move]) -> None:
        """Go on with sources that moved.

        Args:
            moves: what moved, by the names of the sources from now on.
        """
        self.stream.rename_sources({move.name: name for name, move in moves.items()})
        for name, move in moves.items():
            self.stream.move_source(name, move.renew(self.stream.position(name).value))
        self.flush()

    def begin(self, source: Source, resumption: Resumption | None) -> None:
        """Begin to read a source.

        Args:
            source: the source.
            resumption: where it continues; None if its positions are not kept.
        """
        self._source, self._known = source, None if resumption is None else resumption.name
        if resumption is None:
            return
        if resumption.is_restarted:
            self.stream.restart_source(resumption.name)
        position = self.stream.position(resumption.name).value
        if resumption.renew is not None and position:
            self.stream.move_source(resumption.name, resumption.renew(position))
            self.flush()

    def take(self, block: Block, maintenance: Maintenance) -> None:
        """Take the rows of a block that are new.

        Args:
            block: the rows.
            maintenance: what has to know which clock counts.

        Raises:
            SourceError: a row cannot be taken.
        """
        rows = np.arange(self._count_covered(block), len(block.numbers))
        if not len(rows):
            self._note_end(block)
            return
        stream = self.stream
        before = stream.t
        try:
            self._extend(stream, block, rows)
        except (DataError, RuleError, NoAnswerError) as problem:
            text = translate_error(str(problem), block.numbers[rows])
            name, remedy = ("", "") if self._source is None else (self._source.name, self._source.remedy)
            raise SourceError(f"{name}: {text}{'; ' if remedy else ''}{remedy}") from None
        times = None if block.times is None else block.times[rows]
        maintenance.note_rows(self.name, stream, times, block.arrived, before)
        self._note_end(block)

    def _note_end(self, block: Block) -> None:
        """Note how far the source was read, also where the last rows were skipped."""
        known, source = self._known, self._source
        if block.end and known is not None and source is not None:
            before = self.stream.position(known).value
            if before and source.order(block.end) > source.order(before):
                self.stream.move_source(known, block.end)

    def commit_due(self, *, is_waiting: bool) -> bool:
        """Write what a source has brought that is waited for.

        Args:
            is_waiting: whether the source waits for rows.

        Returns:
            Whether all that was taken is written.
        """
        if is_waiting:
            self.flush()
        return is_waiting

    def flush(self) -> None:
        """Write what the stream has not written yet, if there is a store."""
        if self.store is not None:
            retry(self.store.flush, self.warn)

    def note_unreadable(self) -> None:
        """Note nothing: a stream that cannot be read ends the run."""

    def mark_whole(self) -> None:
        """Note that the source was read to its end."""
        position = b"" if self._known is None else self.stream.position(self._known).value
        if self._known is not None and self._source is not None and position:
            self.stream.move_source(self._known, self._source.mark_whole(position))
            self.flush()

    def run_maintenance(self, maintenance: Maintenance, *, is_waiting: bool) -> None:
        """Carry out requests, and erase what is due; see `Maintenance.run_due`.

        Args:
            maintenance: does it.
            is_waiting: whether the source is a pipe.
        """
        streams = [] if self._stream is None else [(self.name, self._stream)]
        maintenance.run_due(streams, is_waiting=is_waiting)
        if self._stream is not None and self.store is not None and self.store.live(self.name) is not self._stream:
            self._stream = None
            self.removed += 1

    def _count_covered(self, block: Block) -> int:
        """Count the rows of a block that were taken before."""
        if self._known is None or self._source is None:
            return 0
        return count_covered(self._source, block, self.stream.position(self._known).value)

    def _extend(self, stream: Stream, block: Block, rows: Ints) -> None:
        """Take some rows of a block; a second attempt skips those that the first has taken."""
        start, known = stream.t, self._known

        def extend() -> None:
            taken = stream.t - start
            skipped = taken if known is None or not taken else self._count_covered(block) - int(rows[0])
            rest = rows[skipped:]
            stream.extend(
                block.select_rows(rest),
                times=find_times(block, rest, self.max_age),
                subjects=None if block.subjects is None else block.subjects[rest],
                source=known,
                numbers=block.numbers[rest],
                positions=_Selection(block.positions, rest),
            )

        try:
            if known is None and self.lateness is not None:
                extend()  # after a failure it is unknown which rows were too late, and which are still to be taken
            else:
                retry(extend, self.warn)
            self.late += len(rows) - (stream.t - start)
        finally:
            self.taken += stream.t - start


def count_covered(source: Source, block: Block, position: bytes) -> int:
    """Count the rows of a block up to a position.

    Args:
        source: where the block comes from.
        block: the rows.
        position: a position of the source.

    Returns:
        The number of rows.
    """
    if not position or not len(block.positions):
        return 0
    order, end = source.order, source.order(position)
    return 0 if order(block.positions[0]) > end else bisect_right(block.positions, end, key=order)


def find_times(block: Block, rows: Ints, max_age: timedelta | None) -> Times | None:
    """Find the times of records, or that of their arrival.

    Args:
        block: the rows.
        rows: indices of some of them.
        max_age: maximum age of a record; None if times do not matter.

    Returns:
        One time per row; None if they have none.
    """
    if block.times is not None:
        return block.times[rows]
    if max_age is None:
        return None
    return np.full(len(rows), np.datetime64(block.arrived.replace(tzinfo=None), "us"))


class _Selection(Sequence[bytes]):
    """Positions after some rows of a block, encoded when they are needed."""

    def __init__(self, positions: Sequence[bytes], rows: Ints) -> None:
        self._positions, self._rows = positions, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return _Selection(self._positions, self._rows[index])
        return self._positions[int(self._rows[index])]
