"""From a source into streams: one, or one for each key, each record counted just once.

How many rows of its source a stream has read is written in the same transaction as its state, so that a run that was
stopped at any moment goes on where each stream stands. A source that was replaced is refused before anything is taken
(`vestige.origin`). One stream's trouble is its own: its rows wait for a later run, the others go on.
Guarantee: a run that was killed and run again ends in the same state as one that was not; held by
tests/store/test_crashes.py and tests/test_ingest.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from vestige.errors import DataError, NoAnswerError, RuleError, SourceError, StoreBusyError, VestigeError
from vestige.feed import Feed, Naming, group_rows
from vestige.maintenance import Upkeep
from vestige.origin import Known, Mark, Witnesses, digest_key, explain_difference, is_generation, name_source
from vestige.sources import Block
from vestige.store import Position, Store
from vestige.stream import Stream
from vestige.types import Ints

TRIES = 12
"""How often a commit is tried that another process blocks; each try takes as long as the store has patience."""
OPEN_STREAMS = 50_000
"""How many streams of a store are held open; beyond it all are flushed and opened again when they are needed."""

KEEP_PLACES = "correct the row where it stands, or empty its value so that it is skipped"
"""How rows of a file that is read again are mended, since they are known by their numbers."""

Progress = Callable[[int, int], None]
IfReplaced = Literal["refuse", "restart", "continue"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why rows of one stream were not taken.

    Attributes:
        reason: a sentence.
        row: the first of these rows.
        rows: how many.
        of_row: whether what is wrong stands in a row, so that the source can be mended.
    """

    reason: str
    row: int
    rows: int = 0
    of_row: bool = False


@dataclass(slots=True)
class Ingest:
    """A run over a source.

    Attributes:
        feed: what to read.
        opened: makes or opens the stream of a name.
        naming: which stream a row goes to.
        about: what the streams of this run were made with; see `Store.stream`.
        store: where the streams live, if anywhere.
        if_replaced: what to do with a source that is not the one that was read before under its name.
        max_age: the limit in time of the streams, and `lateness` how late their rows may be; see `Stream`.
        open_streams: how many streams may be open at a time, where there is a store.
        warn: is told what the user should know at once.
        stopped: whether to end, once what has come is taken and flushed.
        before: how many rows of the source were read before this run, and `compared` how many of them are still held.
        taken: how many records have been taken in this run, and `skipped` how many rows had a missing value.
        late: how many rows came later than `lateness` allows, and were not taken.
        removed: how many streams of this run another process had removed meanwhile.
        troubles: of the streams, by key, whose rows were not all taken.
        requests: what of requests of other processes could not be carried out on the way, a sentence each.
        unfinished: whether a last line without its line break was left for the next time.
    """

    feed: Feed
    opened: Callable[[str], Stream]
    naming: Naming = field(default_factory=Naming)
    about: Mapping[str, object] = field(default_factory=dict)
    store: Store | None = None
    if_replaced: IfReplaced = "refuse"
    max_age: timedelta | None = None
    lateness: timedelta | None = None
    open_streams: int = OPEN_STREAMS
    warn: Callable[[str], None] = lambda _: None
    stopped: Callable[[], bool] = lambda: False
    before: int = 0
    compared: int = 0
    taken: int = 0
    skipped: int = 0
    late: int = 0
    removed: int = 0
    unfinished: bool = False
    troubles: dict[str, Trouble] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    _streams: dict[str, Stream] = field(default_factory=dict)
    _keys: dict[str, None] = field(default_factory=dict)
    _known: Mapping[str, int] = field(default_factory=dict)
    _name: str | None = None
    _mark: bytes = b""

    def take(self, progress: Progress = lambda *_: None) -> None:
        """Read the source and let each row go into its stream.

        Raises:
            SourceError: the source cannot be read, or was replaced; the text says what was taken before.
        """
        after = self._recognise()
        upkeep = Upkeep(self.store, self.max_age, self.warn)
        self.requests = upkeep.requests
        try:
            for block in self.feed.blocks(after):
                for key, rows in group_rows(block):
                    self._take(key, block, rows, upkeep)
                self._after(block, progress)
                names = ((self.naming.name(key), stream) for key, stream in self._streams.items())
                upkeep.look(names, waiting=self.feed.source.pipe)
                self._drop_removed()
                if self.stopped():
                    break
        except SourceError as problem:
            self._flush()
            raise SourceError(f"{problem}{self._so_far()}") from None
        self._flush()

    def streams(self) -> Iterator[tuple[str, Stream]]:
        """Each stream of which the source has rows, by key; those that had to be closed are opened again."""
        for key in self._keys if self.naming.by is not None else ("",):
            stream = self._open(key)
            if stream is not None:
                yield key, stream

    def _recognise(self) -> int:
        """Find out how far the source was read, and that it is still the same; after how many rows to go on."""
        if self.store is None or self.feed.source.pipe:
            return 0
        path = self.feed.source.name
        sources = self.store.sources()
        self._name = name_source(path, sources)
        known = Known.of(self._positions() if self._name in sources else {})
        generation = 0 if known.mark is None else known.mark.generation
        mark = self._mark_of(path, known)
        change = "" if known.mark is None else known.mark.explain_change(mark)
        changed = bool(change)
        if self.if_replaced == "continue":
            change = ""
        behind, differing = False, None
        if not change and known.furthest:
            try:
                behind, differing = self._compare(known, mark)
            except SourceError as problem:
                raise SourceError(f"{problem}{self._so_far()}") from None
            change = "" if differing is None else explain_difference(differing)
        if self.if_replaced == "restart" and not change and known.furthest:
            self.warn(
                f"{path}: seems to be the file that was read before, so --if-replaced restart goes on after row "
                f"{known.furthest:,}; if another file took its place all the same, copy it and move the copy here"
            )
        if self.if_replaced == "restart" and change:
            mark, known, behind = replace(mark, generation=generation + 1, other_key=0), Known({}, None), False
        elif change:
            raise SourceError(f"{path}: {change}; {self._remedy(known, differing)}: nothing was taken")
        self.before, self._mark = known.furthest, mark.pack()
        if changed or (known.mark is not None and known.mark.key != mark.key):
            self._settle(known)
        self._known = {self.naming.key(name): rows for name, rows in known.rows.items()}
        return 0 if behind else known.furthest

    def _mark_of(self, path: str, known: Known) -> Mark:
        """What the source looks like now, and with which key its subjects are hashed."""
        assert self.store is not None  # noqa: S101
        before = known.mark
        mark = Mark.of(path, 0 if before is None else before.generation)
        if self.feed.subject is None:
            return mark
        key = digest_key(self.store.pseudonym)
        if before is None or before.key == key:
            return replace(mark, key=key, other_key=0 if before is None else before.other_key)
        self.warn(
            f"Subjects of the rows up to row {known.furthest:,} cannot be compared with {path}: they were hashed with "
            "another key than the store has now"
        )
        return replace(mark, key=key, other_key=known.furthest)

    def _settle(self, known: Known) -> None:
        """Let all streams know what the source looks like now, also those that have no new rows in it."""
        assert self._name is not None  # noqa: S101
        for name in known.rows:
            stream = self._open(self.naming.key(name))
            if stream is not None:
                stream.mark_source(self._name, self._mark)
        self._flush()

    def _remedy(self, known: Known, differing: int | None) -> str:
        """What a user can do about a source that seems to be another one."""
        other = (
            "if another file took its place, --if-replaced restart counts it from its first row, also rows of it that "
            "were taken before"
        )
        if differing is not None:
            return f"if a row was dropped or moved, put it back, and {KEEP_PLACES}; {other}"
        behind = "" if self.naming.by is None else ", and takes earlier rows that a stream has not taken"
        same = (
            f"if it holds the same rows and more, --if-replaced continue goes on after row {known.furthest:,}{behind}"
        )
        return f"{same}; {other}"

    def _positions(self) -> dict[str, Position]:
        """How far each stream of this run has read the source; others may have been made of it otherwise."""
        assert self.store is not None  # noqa: S101
        assert self._name is not None  # noqa: S101
        if self.naming.by is not None:
            return self.store.positions(self._name, self.about)
        stream = self._open("")
        return {} if stream is None else {self.naming.name(""): stream.position(self._name)}

    def _compare(self, known: Known, mark: Mark) -> tuple[bool, int | None]:
        """Look for all records that are held in the rows that were read before.

        Returns:
            whether a stream has not taken all of these rows, and the first row that is not as it was.
        """
        behind, names = False, tuple(known.rows)

        def blocks() -> Iterator[Block]:
            nonlocal behind
            for block in self.feed.blocks(0):
                behind |= self._is_behind(block, known)
                yield block

        for start in range(0, len(names), self.open_streams):
            witnesses = self._witnesses(names[start : start + self.open_streams], mark)
            self.compared += len(witnesses)
            differing = witnesses.search(blocks(), known.furthest)
            if differing is not None:
                return behind, differing
        return behind, None

    def _witnesses(self, names: tuple[str, ...], mark: Mark) -> Witnesses:
        assert self.store is not None  # noqa: S101
        assert self._name is not None  # noqa: S101
        witnesses = Witnesses(self.store.pseudonym, mark.other_key)
        for name in names:
            stream = self._open(self.naming.key(name))
            if stream is not None:
                witnesses.add(self.naming.key(name), stream.retained.of_source(stream.position(self._name).slot))
        return witnesses

    def _is_behind(self, block: Block, known: Known) -> bool:
        """Whether rows that were read before are yet to be taken: a run was killed, or a stream was in trouble."""
        if block.keys is None or block.codes is None:
            return False
        self._keys.update(dict.fromkeys(map(str, block.keys)))
        reached = np.array([known.rows.get(self.naming.name(str(key)), 0) for key in block.keys], np.int64)
        return bool(((block.numbers > reached[block.codes]) & (block.numbers <= known.furthest)).any())

    def _open(self, key: str) -> Stream | None:
        """The stream of a key; None where it is in trouble that keeps it from being opened."""
        if key in self._streams:
            return self._streams[key]
        if self.store is not None and len(self._streams) >= self.open_streams:
            self._retried(self.store.release)
            self._streams.clear()
        try:
            self._streams[key] = self.opened(self.naming.name(key))
        except VestigeError as problem:
            if self.naming.by is None or isinstance(problem, StoreBusyError):
                raise
            self.troubles.setdefault(key, Trouble(str(problem), 0))
            return None
        return self._streams[key]

    def _take(self, key: str, block: Block, rows: Ints, upkeep: Upkeep) -> None:
        """Let the rows of a key that are new go into its stream."""
        self._keys[key] = None
        fresh = rows[block.numbers[rows] > self._known.get(key, 0)]
        if not len(fresh):
            return
        stream = None if key in self.troubles else self._open(key)
        try:
            if stream is not None:
                before = stream.t
                self._extend(stream, block, fresh)
                times = None if block.times is None else block.times[fresh]
                upkeep.see(self.naming.name(key), stream, times, block.arrived, before)
                return
        except (DataError, RuleError, NoAnswerError) as problem:
            text = _in_file(str(problem), block.numbers[fresh])
            if self.naming.by is None:
                raise SourceError(f"{self.feed.source.name}: {text}") from None
            self.troubles[key] = Trouble(text, 0, of_row=isinstance(problem, DataError))
        known = self.troubles[key]
        self.troubles[key] = replace(known, row=known.row or int(block.numbers[fresh[0]]), rows=known.rows + len(fresh))

    def _extend(self, stream: Stream, block: Block, rows: Ints) -> None:
        """Take some rows of a block, those that an attempt has taken no second time."""
        start = stream.t
        if self._name is not None and not is_generation(stream.position(self._name), self._mark):
            stream.restart_source(self._name)  # what it has read was another file

        def extend() -> None:
            rest = rows[self._consumed(stream, block.numbers[rows], stream.t - start) :]
            stream.extend(
                np.ascontiguousarray(block.rows[rest]),
                times=self._times(block, rest),
                subjects=None if block.subjects is None else block.subjects[rest],
                source=self._name,
                numbers=block.numbers[rest],
                mark=self._mark,
            )

        try:
            if self._name is None and self.lateness is not None:
                extend()  # after a failure nobody could tell which rows were too late, and which are yet to be taken
            else:
                self._retried(extend)
            self.late += len(rows) - (stream.t - start)
        finally:
            self.taken += stream.t - start

    def _consumed(self, stream: Stream, numbers: Ints, taken: int) -> int:
        """How many of these rows earlier attempts have dealt with."""
        if self._name is None:
            return taken
        position = stream.position(self._name)
        return int(np.searchsorted(numbers, position.rows, "right")) if taken and position.mark == self._mark else 0

    def _times(self, block: Block, rows: Ints) -> NDArray[np.datetime64] | None:
        """When the records were made, or when they came."""
        if block.times is not None:
            return block.times[rows]
        if self.max_age is None:
            return None
        return np.full(len(rows), np.datetime64(block.arrived.replace(tzinfo=None), "us"))

    def _drop_removed(self) -> None:
        """Let go of streams that another process asked to remove."""
        if self.store is not None:
            gone = [
                key for key, stream in self._streams.items() if self.store.live(self.naming.name(key)) is not stream
            ]
            for key in gone:
                del self._streams[key]
                self._keys.pop(key, None)
            self.removed += len(gone)

    def _after(self, block: Block, progress: Progress) -> None:
        self.skipped += block.skipped
        self.unfinished |= block.unfinished
        if self.feed.source.pipe:
            self._flush()  # what came through a pipe comes only once
        progress(self.taken, block.position)

    def _flush(self) -> None:
        if self.store is not None:
            self._retried(self.store.flush)

    def _so_far(self) -> str:
        """What is to be said of the rows before the one that cannot be read."""
        if self.store is None:
            return ""
        if not self.taken:
            return "; nothing was taken"
        further = "" if self.feed.source.pipe else f"; {KEEP_PLACES}, and run this again with --if-replaced continue"
        return f"; {self.taken:,} records of the rows before were taken and stay{further}"

    def _retried(self, action: Callable[[], None]) -> None:
        """Do what has to be written; where another process is in the way, say so and try again."""
        for attempt in range(1, TRIES + 1):
            try:
                return action()
            except StoreBusyError as problem:
                if attempt == TRIES:
                    raise
                self.warn(f"Overdue: {problem} (try {attempt} of {TRIES})")
        return None


_IN_RUN = (
    (r" \(counted from 0\)", ""),
    (": nothing of this call was taken", ""),
    (r"max_ahead=(\d+ days?), 0:00:00", r"--max-ahead \1"),
    ("max_ahead=", "--max-ahead "),
    ("correct it or drop the row, set the clock right, or allow more", "correct it, or allow more with --max-ahead"),
    (
        r"sort the records by time, set the clock right, or allow rows to be late with lateness=\.\.\.",
        "correct it, or allow rows to be late with --lateness",
    ),
)
"""What the library says of a call, and what a run says instead: of rows that stand in a file and cannot be moved."""


def _in_file(problem: str, numbers: Ints) -> str:
    """What is wrong with a row of a call, said of that row of the file."""
    text = problem
    for library, run in _IN_RUN:
        text = re.sub(library, run, text)
    return re.sub(r"\brow (\d+)(?: of \d+)?", lambda found: f"row {int(numbers[int(found[1])]):,}", text, count=1)
