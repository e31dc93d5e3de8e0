"""From a source into streams: one, or one for each key, each record counted once.

The position of a source is written in the same transaction as a stream's state, so that a run that was stopped at any
moment continues where each stream stopped. An error of one stream does not affect the others: its rows wait for a later
run, the others are taken.
Guarantee: a run that was killed and run again ends in the same state as one that was not; held by
tests/store/test_crashes.py and tests/ingest/test_ingest.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import overload

import numpy as np

from vestige.errors import DataError, NoAnswerError, RuleError, SourceError, StoreBusyError, VestigeError
from vestige.ingest.maintenance import Maintenance
from vestige.ingest.messages import translate_error
from vestige.ingest.names import StreamNames
from vestige.ingest.streams import OPEN_STREAMS, OpenStreams
from vestige.sources import Block, History, IfReplaced, Resumption, Source
from vestige.sources.resumption import KEEP_NUMBERS
from vestige.store import Store
from vestige.stream import Stream
from vestige.types import Ints, Times

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why rows of one stream were not taken.

    Attributes:
        reason: a sentence.
        row: number of the first of these rows.
        rows: number of these rows.
        of_row: whether the cause is in a row, so that the source can be corrected.
        source: name of the source that the first of these rows is in.
    """

    reason: str
    row: int
    rows: int = 0
    of_row: bool = False
    source: str = ""


@dataclass(slots=True)
class Ingest:
    r"""A run over a source, or over several in turn; see `follow`.

    Attributes:
        source: what to read.
        open_stream: function that creates or opens the stream of a name.
        names: which stream a row goes to.
        about: what the streams of this run were made with; see `Store.stream`.
        store: where the streams are kept, if anywhere.
        if_replaced: what to do with a source that is not the one that was read before under its name.
        max_age: maximum age of a record in the streams; see `Stream`.
        lateness: how late rows may be; see `Stream`.
        max_open: number of streams that may be open at a time, if there is a store.
        warn: function that shows a message to the user at once.
        is_stopped: function that says whether to end, once the rows that have arrived are taken and flushed.
        before: number of rows of all its sources that were read before this run.
        compared: number of held records that were compared with their rows.
        taken: number of records that were taken in this run.
        skipped: number of rows with a missing value, time or key.
        keyless: number of these rows that have no key.
        late: number of rows that came later than `lateness` allows, and were not taken.
        removed: number of streams of this run that another process removed meanwhile.
        troubles: streams, by key, whose rows were not all taken.
        requests: requests of other processes that could not be carried out, with a sentence each.
        unfinished: names of the sources whose last line has no line break, and was left for the next run.
        known: number of sources of which rows were read before this run.
        grown: number of sources of which records were taken in this run.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from vestige import Mean
        >>> from vestige.sources import FileSource
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "visits.csv")
        ...     _ = path.write_text("spent\n1\n2\n")
        ...     ingest = Ingest(FileSource(str(path), ["spent"]), lambda name: Stream(Mean(), retention=96))
        ...     ingest.run()
        >>> [(key, stream.estimate().value) for key, stream in ingest.streams()]
        [('', 1.5)]
    """

    source: Source
    open_stream: Callable[[str], Stream]
    names: StreamNames = field(default_factory=StreamNames)
    about: Mapping[str, object] = field(default_factory=dict)
    store: Store | None = None
    if_replaced: IfReplaced = "refuse"
    max_age: timedelta | None = None
    lateness: timedelta | None = None
    max_open: int = OPEN_STREAMS
    warn: Callable[[str], None] = lambda _: None
    is_stopped: Callable[[], bool] = lambda: False
    before: int = 0
    compared: int = 0
    taken: int = 0
    skipped: int = 0
    keyless: int = 0
    late: int = 0
    removed: int = 0
    unfinished: list[str] = field(default_factory=list)
    known: int = 0
    grown: int = 0
    troubles: dict[str, Trouble] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    _streams: OpenStreams = field(init=False)
    _keys: dict[str, None] = field(default_factory=dict)
    _positions: Mapping[str, bytes] = field(default_factory=dict)
    _begun: set[str] = field(default_factory=set)
    _name: str | None = None
    _maintenance: Maintenance = field(init=False)

    def __post_init__(self) -> None:
        self._maintenance = Maintenance(self.store, self.max_age, self.warn)
        self._streams = OpenStreams(self.open_stream, self.names, self.store, self.max_open, self.warn)

    def run(self, progress: Progress = lambda *_: None) -> None:
        """Read the source and take each row into its stream.

        Args:
            progress: function that is called after each block with the number of records taken and `Block.offset`.

        Raises:
            SourceError: the source cannot be read, or was replaced; the message says what was taken before.
        """
        taken, maintenance = self.taken, self._maintenance
        self.requests = maintenance.requests
        resumption = self._resume()
        blocks = () if resumption.is_whole else resumption.source.blocks(resumption.start)
        try:
            for block in blocks:
                for key, rows in block.by_key():
                    self._take(key, block, rows, maintenance)
                self._finish(block, progress)
                maintenance.run_due(self._streams.items(), is_waiting=not self.source.resumable)
                self._drop_removed()
                if self.is_stopped():
                    break
        except SourceError as problem:
            self._streams.flush()
            raise SourceError(f"{problem}{self._explain_taken(self.taken - taken)}") from None
        self.grown += self.taken > taken
        self._streams.flush()
        if not resumption.is_whole:
            self._mark_whole()
        if self.store is not None:
            maintenance.confirm(self.store)

    def follow(self, source: Source) -> None:
        """Continue with another source, which `run` then reads; the counts go on.

        Args:
            source: source that comes after the one that was read.
        """
        self.source, self._name, self._positions = source, None, {}
        self._begun.clear()

    def make_history(self) -> History:
        """Collect what the store knows of the streams of this run.

        Returns:
            The history for `Source.resume`.
        """
        return self._streams.history(self.about, self.if_replaced, self._open)

    def streams(self) -> Iterator[tuple[str, Stream]]:
        """Yield each stream that has rows in the source; those that had to be closed are opened again.

        Yields:
            A key and its stream.
        """
        for key in self._keys if self.names.by is not None else ("",):
            stream = self._open(key)
            if stream is not None:
                yield key, stream

    def _resume(self) -> Resumption:
        """Ask the source where to continue."""
        if self.store is None or not self.source.resumable:
            return Resumption(self.source, self.source.name)
        resumption = self.source.resume(self.make_history())
        self._name, self._positions = resumption.name, resumption.positions
        self.before += resumption.before
        self.known += bool(resumption.before)
        self.compared += resumption.compared
        self._keys.update(dict.fromkeys(resumption.keys))
        if resumption.changed:
            self._write_positions(resumption)
        return resumption

    def _write_positions(self, resumption: Resumption) -> None:
        """Give all streams their new position, also those that have no new rows."""
        for key, position in resumption.positions.items():
            stream = self._open(key)
            if stream is not None:
                stream.move_source(resumption.name, position)
        self._streams.flush()

    def _open(self, key: str) -> Stream | None:
        """Open the stream of a key; None if it cannot be opened."""
        try:
            return self._streams.open(key)
        except VestigeError as problem:
            if self.names.by is None or isinstance(problem, StoreBusyError):
                raise
            self.troubles.setdefault(key, Trouble(str(problem), 0))
            return None

    def _take(self, key: str, block: Block, rows: Ints, maintenance: Maintenance) -> None:
        """Take the rows of a key that are new into its stream."""
        self._keys[key] = None
        new = rows[np.searchsorted(rows, self._count_covered(block, self._positions.get(key, b""))) :]
        if not len(new):
            return
        stream = None if key in self.troubles else self._open(key)
        try:
            if stream is not None:
                before = stream.t
                self._extend(key, stream, block, new)
                times = None if block.times is None else block.times[new]
                maintenance.note_rows(self.names.find_name(key), stream, times, block.arrived, before)
                return
        except (DataError, RuleError, NoAnswerError) as problem:
            text = translate_error(str(problem), block.numbers[new])
            if self.names.by is None:
                raise SourceError(f"{self.source.name}: {text}") from None
            self.troubles[key] = Trouble(text, 0, of_row=isinstance(problem, DataError))
        trouble = self.troubles[key]
        self.troubles[key] = replace(
            trouble,
            row=trouble.row or int(block.numbers[new[0]]),
            rows=trouble.rows + len(new),
            source=trouble.source or self.source.name,
        )

    def _count_covered(self, block: Block, position: bytes) -> int:
        """Count the rows of a block up to a position."""
        if not position or not len(block.positions):
            return 0
        order, end = self.source.order, self.source.order(position)
        return 0 if order(block.positions[0]) > end else bisect_right(block.positions, end, key=order)

    def _extend(self, key: str, stream: Stream, block: Block, rows: Ints) -> None:
        """Take some rows of a block; a second attempt skips those that the first has taken."""
        start, name = stream.t, self._name
        if name is not None and key not in self._begun and key not in self._positions and stream.position(name).value:
            stream.restart_source(name)  # what it has read was another source under the same name
        self._begun.add(key)

        def extend() -> None:
            covered = self._count_taken(stream, block, rows, stream.t - start)
            rest = rows[covered:]
            stream.extend(
                np.ascontiguousarray(block.rows[rest]),
                times=self._find_times(block, rest),
                subjects=None if block.subjects is None else block.subjects[rest],
                source=name,
                numbers=block.numbers[rest],
                positions=_Selection(block.positions, rest),
            )

        try:
            if name is None and self.lateness is not None:
                extend()  # after a failure it is unknown which rows were too late, and which are still to be taken
            else:
                self._streams.retry(extend)
            self.late += len(rows) - (stream.t - start)
        finally:
            self.taken += stream.t - start

    def _count_taken(self, stream: Stream, block: Block, rows: Ints, taken: int) -> int:
        """Count the rows that earlier attempts have handled."""
        if self._name is None or not taken:
            return taken
        return int(np.searchsorted(rows, self._count_covered(block, stream.position(self._name).value)))

    def _find_times(self, block: Block, rows: Ints) -> Times | None:
        """Return the times of the records, or of their arrival."""
        if block.times is not None:
            return block.times[rows]
        if self.max_age is None:
            return None
        return np.full(len(rows), np.datetime64(block.arrived.replace(tzinfo=None), "us"))

    def _drop_removed(self) -> None:
        """Close streams that another process asked to remove."""
        for key in self._streams.drop_removed():
            self._keys.pop(key, None)
            self.removed += 1

    def _finish(self, block: Block, progress: Progress) -> None:
        self.skipped += block.skipped
        self.keyless += block.keyless
        self.unfinished += [self.source.name] if block.unfinished else []
        if not self.source.resumable:
            self._streams.flush()  # what came through a pipe cannot be read again
        progress(self.taken, block.offset)

    def _mark_whole(self) -> None:
        """Note in one stream that the source was read to its end, if it was; all streams have been written before."""
        streams = len({*self._positions, *self._begun})
        if self._name is None or self.troubles or self.source.name in self.unfinished or self.is_stopped():
            return
        for key in (*self._begun, *self._positions):
            stream = self._open(key)
            position = b"" if stream is None else stream.position(self._name).value
            if stream is not None and position:
                stream.move_source(self._name, self.source.mark_whole(position, streams))
                self._streams.flush()
                return

    def _explain_taken(self, taken: int) -> str:
        """Say what happened to the rows before one that cannot be read."""
        if self.store is None:
            return ""
        if not taken:
            return "; nothing was taken"
        remedy = f"; {KEEP_NUMBERS}, and run this again with --if-replaced continue" if self.source.resumable else ""
        return f"; {taken:,} records of the rows before were taken and stay{remedy}"


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
