"""From a source into streams: one, or one for each key, each record counted just once.

How many rows of its source a stream has read is written in the same transaction as its state, so that a run that was
stopped at any moment goes on where each stream stands.
Guarantee: a run that was killed and run again ends in the same state as one that was not; held by
tests/store/test_crashes.py and tests/test_ingest.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vestige.errors import DataError, SourceError, StoreBusyError
from vestige.records import Ints
from vestige.sources import Block, Source
from vestige.store import Store
from vestige.stream import Stream

TRIES = 12
"""How often a commit is tried that another process blocks; each try takes as long as the store has patience."""
_OPEN_STREAMS = 50_000
"""How many streams of a store are held open; beyond it all are flushed and opened again when they are needed."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Feed:
    """What to read.

    Attributes:
        source: from where.
        columns: the values of a record.
        time: the column that says when, and `subject` that says about whom, and `by` that says to which stream.
    """

    source: Source
    columns: tuple[str, ...]
    time: str | None = None
    subject: str | None = None
    by: str | None = None

    @property
    def name(self) -> str | None:
        """What the store calls it; none for a pipe, which is never the same twice."""
        return None if self.source.pipe else str(Path(self.source.name).absolute())

    def blocks(self, after: int) -> Iterator[Block]:
        """What comes after so many rows."""
        return self.source.blocks(self.columns, time=self.time, subject=self.subject, by=self.by, after=after)


@dataclass(slots=True)
class Ingest:
    """A run over a source.

    Attributes:
        feed: what to read.
        opened: makes or opens the stream of a name.
        store: where the streams live, if anywhere.
        warn: is told what the user should know at once.
        taken: how many records have been taken in this run, and `skipped` how many rows had a missing value.
    """

    feed: Feed
    opened: Callable[[str], Stream]
    store: Store | None = None
    warn: Callable[[str], None] = lambda _: None
    taken: int = 0
    skipped: int = 0

    def into_one(self, name: str, progress: Progress) -> Stream:
        """Let all rows go into one stream."""
        stream = self.opened(name)
        for block in self.feed.blocks(self._position(stream)):
            self._extend(stream, block, slice(None))
            self._after(block, progress)
        if self.store is not None:
            self._retried(self.store.flush)
        return stream

    def into_many(self, named: Callable[[str], str], progress: Progress) -> dict[str, Stream]:
        """Let each row go into the stream of its key; those that are open at the end, by key."""
        streams: dict[str, Stream] = {}
        read = furthest = 0
        for block in self.feed.blocks(0):
            for key, rows in _grouped(block):
                if key not in streams:
                    streams[key] = self.opened(named(key))
                    furthest = max(furthest, self._position(streams[key]))
                fresh = rows[block.numbers[rows] > self._position(streams[key])]
                if len(fresh):
                    self._extend(streams[key], block, fresh)
            read = block.read
            self._after(block, progress)
            if self.store is not None and len(streams) > _OPEN_STREAMS:
                self._retried(self.store.release)
                streams.clear()
        if read < furthest:
            raise SourceError(
                f"{self.feed.source.name}: has {read:,} rows, but {furthest:,} were read from it before; was it "
                "replaced? give the new file another name"
            )
        if self.store is not None:
            self._retried(self.store.flush)
        return streams

    def _position(self, stream: Stream) -> int:
        return 0 if self.feed.name is None else stream.position(self.feed.name).rows

    def _after(self, block: Block, progress: Progress) -> None:
        self.skipped += block.skipped
        if self.feed.name is None and self.store is not None:
            self._retried(self.store.flush)  # what came through a pipe comes only once
        progress(self.taken, block.position)

    def _extend(self, stream: Stream, block: Block, rows: Ints | slice) -> None:
        """Take some rows of a block, those that an attempt has taken no second time."""
        values, numbers = np.ascontiguousarray(block.rows[rows]), block.numbers[rows]
        times = None if block.times is None else block.times[rows]
        subjects = None if block.subjects is None else block.subjects[rows]
        start = stream.t

        def extend() -> None:
            rest = slice(stream.t - start, None)
            stream.extend(
                values[rest],
                times=None if times is None else times[rest],
                subjects=None if subjects is None else subjects[rest],
                source=self.feed.name,
                numbers=numbers[rest],
            )

        try:
            self._retried(extend)
        except DataError as problem:
            raise SourceError(
                f"{self.feed.source.name}: rows {int(numbers[0]):,} to {int(numbers[-1]):,}: {problem}"
            ) from None
        finally:
            self.taken += stream.t - start

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


def _grouped(block: Block) -> Iterator[tuple[str, Ints]]:
    """Each key of a block with the indices of its rows, in order."""
    assert block.keys is not None  # noqa: S101
    assert block.codes is not None  # noqa: S101
    order = np.argsort(block.codes, kind="stable")
    ends = np.cumsum(np.bincount(block.codes, minlength=len(block.keys)))
    for key, start, end in zip(block.keys, np.concatenate(([0], ends[:-1])), ends, strict=True):
        yield str(key), order[start:end]
