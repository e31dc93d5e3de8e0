"""From a source into streams: one, or one for each key, each record counted once.

The position of a source is written in the same transaction as the streams, so that a run that was stopped at any moment
continues where it stopped. With keys, an error of one stream does not affect the others.
Guarantee: a run that was killed and run again ends in the same state as one that was not; held by
tests/store/test_crashes.py and tests/ingest/test_ingest.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from vestige.errors import ParameterError, SourceError
from vestige.ingest.by_key import StreamsByKey
from vestige.ingest.maintenance import Maintenance
from vestige.ingest.names import StreamNames
from vestige.ingest.single import SingleStream
from vestige.ingest.trouble import Trouble
from vestige.keyed import KeyedStreams
from vestige.sources import Block, FileSource, History, IfReplaced, Resumption, Source
from vestige.sources.protocol import KEEP_NUMBERS, IfMoved
from vestige.sources.relocation import find_moves
from vestige.store import Store
from vestige.stream import Stream

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Ingest:
    r"""A run over a source, or over several in turn; see `follow`.

    Attributes:
        source: what to read.
        streams: the streams by key, under the names that `names` makes; or a function that creates or opens the single
            stream of a name.
        names: which stream a row goes to.
        store: where the streams are kept, if anywhere.
        if_replaced: what to do with a source that is not the one that was read before under its name.
        if_moved: what to do with a source that may be one that was read before at another place.
        max_age: maximum age of a record in the streams; see `Stream`.
        lateness: how late rows may be; see `Stream`.
        warn: function that shows a message to the user at once.
        is_stopped: function that says whether to end, once the rows that have arrived are taken and flushed.
        before: number of rows of all its sources that were read before this run.
        compared: number of held records that were compared with their rows.
        skipped: number of rows with a missing value, time or key.
        keyless: number of these rows that have no key.
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
        >>> ingest.taken, ingest.stream.estimate().value
        (2, 1.5)
    """

    source: Source
    streams: KeyedStreams | Callable[[str], Stream]
    names: StreamNames = field(default_factory=StreamNames)
    store: Store | None = None
    if_replaced: IfReplaced = "refuse"
    max_age: timedelta | None = None
    lateness: timedelta | None = None
    warn: Callable[[str], None] = lambda _: None
    is_stopped: Callable[[], bool] = lambda: False
    before: int = 0
    compared: int = 0
    skipped: int = 0
    keyless: int = 0
    unfinished: list[str] = field(default_factory=list)
    known: int = 0
    grown: int = 0
    requests: Mapping[str, str] = field(default_factory=dict)
    if_moved: IfMoved = "refuse"
    _settled: set[str] = field(default_factory=set)
    _target: SingleStream | StreamsByKey = field(init=False)
    _maintenance: Maintenance = field(init=False)

    def __post_init__(self) -> None:
        self._maintenance = Maintenance(self.store, self.max_age, self.warn)
        if isinstance(self.streams, KeyedStreams):
            self._target = StreamsByKey(self.streams, self.names, self.store, self.max_age, self.warn)
        else:
            name = self.names.find_name("")
            self._target = SingleStream(self.streams, name, self.store, self.max_age, self.lateness, self.warn)

    @property
    def stream(self) -> Stream:
        """The single stream of the run.

        Raises:
            ParameterError: there is one for each key.
        """
        if isinstance(self._target, StreamsByKey):
            raise ParameterError("the run has one stream for each key; ask its KeyedStreams")
        return self._target.stream

    @property
    def taken(self) -> int:
        """Number of records that were taken in this run."""
        return self._target.taken

    @property
    def late(self) -> int:
        """Number of rows that came later than `lateness` allows, and were not taken."""
        return self._target.late

    @property
    def removed(self) -> int:
        """Number of streams of this run that another process removed meanwhile."""
        return self._target.removed

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        """Streams, by key, whose rows were not all taken."""
        return self._target.troubles

    def run(self, progress: Progress = lambda *_: None) -> None:
        """Read the source and take each row into its stream.

        Args:
            progress: function that is called after each block with the number of records taken and `Block.offset`.

        Raises:
            SourceError: the source cannot be read, or was replaced; the message says what was taken before.
        """
        taken, maintenance, target = self.taken, self._maintenance, self._target
        self.requests = maintenance.requests
        if self.source.name not in self._settled:
            self.settle_moves([self.source])
        is_waiting, resumption = self.source.waits, self._resume()
        source = self.source if resumption is None else resumption.source
        is_whole = resumption is not None and resumption.is_whole
        target.begin(self.source, resumption)
        try:
            for block in () if is_whole else source.blocks(b"" if resumption is None else resumption.start):
                target.take(block, maintenance)
                self._count(block)
                if target.commit_due(is_waiting=is_waiting):
                    self._acknowledge(source, resumption)
                progress(self.taken, block.offset)
                target.run_maintenance(maintenance, is_waiting=is_waiting)
                if self.is_stopped():
                    break
        except SourceError as problem:
            target.flush()
            self._acknowledge(source, resumption)
            raise SourceError(f"{problem}{self._explain_taken(self.taken - taken)}") from None
        self.grown += self.taken > taken
        target.flush()
        self._acknowledge(source, resumption)
        target.note_unreadable()
        if not (is_whole or self.troubles or self.source.name in self.unfinished or self.is_stopped()):
            target.mark_whole()
        if self.store is not None:
            maintenance.confirm(self.store)

    def settle_moves(self, sources: Sequence[Source]) -> None:
        """Find the files that were read before at other places, and go on with them; `run` does that for a single one.

        Args:
            sources: all sources of the run.

        Raises:
            SourceError: a file may be one that was read before, and nothing that is held tells.
        """
        self._settled.update(source.name for source in sources)
        files = [source for source in sources if isinstance(source, FileSource) and source.resumable]
        if self.store is not None and files and (moves := find_moves(files, self.make_history())):
            self._target.move_sources(moves)

    def follow(self, source: Source) -> None:
        """Continue with another source, which `run` then reads; the counts go on.

        Args:
            source: source that comes after the one that was read.
        """
        self.source = source

    def make_history(self) -> History:
        """Collect what the store knows of the streams of this run.

        Returns:
            The history for `Source.resume`.

        Raises:
            ParameterError: there is no store.
        """
        if self.store is None:
            raise ParameterError("a run without a store has no history; pass store=...")
        target = self._target
        return History(
            target.list_sources(),
            target.find_positions,
            target.find_held,
            self.store.pseudonym,
            self.names.by,
            self.if_replaced,
            self.warn,
            self.if_moved,
        )

    def _resume(self) -> Resumption | None:
        """Ask the source where to continue; None if its positions are not kept."""
        if self.store is None or not self.source.resumable:
            return None
        resumption = self.source.resume(self.make_history())
        self.before += resumption.before
        self.known += bool(resumption.before)
        self.compared += resumption.compared
        return resumption

    def _acknowledge(self, source: Source, resumption: Resumption | None) -> None:
        """Tell a source that waits what is in the store; no stream, not even a new one, will ask for it again."""
        if resumption is not None and source.waits:
            source.acknowledge(self._target.find_positions(resumption.name).find_start(source.order))

    def _count(self, block: Block) -> None:
        self.skipped += block.skipped
        self.keyless += block.keyless
        self.unfinished += [self.source.name] if block.unfinished else []

    def _explain_taken(self, taken: int) -> str:
        """Say what happened to the rows before one that cannot be read."""
        if self.store is None:
            return ""
        if not taken:
            return "; nothing was taken"
        is_file = self.source.resumable and not self.source.remedy
        remedy = f"; {KEEP_NUMBERS}, and run this again with --if-replaced continue" if is_file else ""
        return f"; {taken:,} records of the rows before were taken and stay{remedy}"
