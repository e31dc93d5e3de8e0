"""A queue into the streams of a definition: rows and position are written by the one writer, in one transaction.

A thread reads blocks, and hands each to the engine as one job, which takes the rows, notes the position and flushes, so
that nobody's commit can come between them. Entries are acknowledged after that. If a block cannot be written, the
streams are read from the store again, and the queue from the position that is there.
Guarantee: each entry is counted once, wherever the service or the queue is killed; held by tests/service/test_feed.py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import NoReturn, TypeVar

import numpy as np

from vestige.errors import ParameterError, SourceError
from vestige.ingest.by_key import StreamsByKey
from vestige.ingest.maintenance import Maintenance
from vestige.ingest.messages import explain_problem
from vestige.ingest.names import hash_key
from vestige.ingest.single import count_covered, find_times
from vestige.keyed import KeyedStreams
from vestige.service.catalog import Served
from vestige.service.engine import Engine, count_records
from vestige.service.problems import RefusalError
from vestige.sources import Block, History, IfReplaced, Resumption, Source
from vestige.sources.protocol import SourcePositions
from vestige.sources.redis import RedisSource
from vestige.sources.redis.address import RedisAddress
from vestige.sources.redis.positions import RedisPosition

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
"""Seconds between two attempts to read a queue that cannot be read."""
_BUSY_PAUSE = 0.05
"""Seconds between two attempts to hand over a block while too many requests wait."""
_log = logging.getLogger("vestige.service")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """What to feed from, and how.

    Attributes:
        name: name of the definition.
        address: where the queue is.
        trim: whether to remove entries that are committed and that no other group needs.
        if_replaced: what to do if the queue is not the one that was read before.

    Example:
        >>> FeedOptions.parse("redis://localhost/0/visits").name
        'visits'
    """

    name: str
    address: RedisAddress
    trim: bool = False
    if_replaced: IfReplaced = "refuse"

    @classmethod
    def parse(cls, text: str, *, trim: bool = False, if_replaced: IfReplaced = "refuse") -> FeedOptions:
        """Read a name and an address.

        Args:
            text: the name of a definition, an equals sign and the address of a queue; or the address alone, for the
                definition that has the name of the stream.
            trim: whether to remove entries that are committed and that no other group needs.
            if_replaced: what to do if the queue is not the one that was read before.

        Returns:
            The options.

        Raises:
            ParameterError: it is not an address of a queue.
        """
        before, sign, after = text.partition("=redis")
        address = RedisAddress.parse(f"redis{after}" if sign else text)
        return cls(before if sign else address.stream, address, trim, if_replaced)


class Feed:
    """Reads a queue into the streams of a definition, until it is stopped.

    Args:
        engine: the engine.
        options: what to feed from.

    Attributes:
        is_failing: whether the queue could not be read at the last attempt, or rows of it wait.
        taken: number of rows that were taken since the service was started.
    """

    def __init__(self, engine: Engine, options: FeedOptions) -> None:
        self._engine, self._options = engine, options
        self._stopped, self._said, self._troubled = threading.Event(), "", 0
        self.is_failing, self.taken = False, 0
        self._thread = threading.Thread(target=self._run, name=f"vestige-feed-{options.name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End once the block that was begun is written."""
        self._stopped.set()
        self._thread.join(2 * _LONGEST_PAUSE)

    def _run(self) -> None:
        """Read, and begin again after a failure."""
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                for is_well in self._read():
                    pause, self._said, self.is_failing = _FIRST_PAUSE, "", not is_well
                    if self._stopped.is_set():
                        return
            except RefusalError as problem:
                self._warn(f"{self._options.address.name}: {problem}")
                pause = _FIRST_PAUSE  # the queue is not asked before the stream is open here
            except (SourceError, ParameterError) as problem:
                self._warn(str(problem))
            except Exception as problem:
                self._warn(f"{self._options.address.name}: {type(problem).__name__}")
            self.is_failing = True
            self._stopped.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _read(self) -> Iterator[bool]:
        """Read block after block; after each that is written, yield whether the queue answers and no row waits."""
        served, known, positions = self._submit(self._look)
        source = self._make_source(served)
        source.check()
        history = History(
            known,
            lambda _: positions,
            _hold_nothing,
            self._engine.store.pseudonym,
            if_replaced=self._options.if_replaced,
        )
        resumption = source.resume(history)
        target = self._submit(partial(self._begin, served, resumption))
        for block in resumption.source.blocks(resumption.start):
            if len(block.numbers) or block.end:
                done, facts = self._submit(partial(self._take, served, target, block))
                resumption.source.acknowledge(done)
                self._engine.tell("commit", facts)
                self._check(target)
            is_lost = isinstance(resumption.source, RedisSource) and resumption.source.is_lost
            yield not is_lost and not (isinstance(target, StreamsByKey) and target.troubles)

    def _check(self, target: StreamsByKey | SingleKey) -> None:
        """Say if rows were refused; those of one stream by key wait, and do not stop the others."""
        if isinstance(target, SingleKey):
            target.check()
        elif len(target.troubles) > self._troubled:
            self._troubled = len(target.troubles)
            self._warn(
                f"{self._options.address.name}: rows of {len(target.troubles):,} streams cannot be taken and wait; "
                "vestige run with the same address says why"
            )

    def _submit(self, action: Callable[[], _Result]) -> _Result:
        """Have the writer do something; wait while too many requests do."""
        while True:
            try:
                return self._engine.submit(action).result()
            except RefusalError as refusal:
                if refusal.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
                self._stopped.wait(_BUSY_PAUSE)

    def _make_source(self, served: Served) -> RedisSource:
        return RedisSource(
            self._options.address,
            served.columns,
            served.name,
            trim=self._options.trim,
            hash_key=partial(hash_key, self._engine.store.pseudonym) if served.definition.hash_keys else None,
            warn=self._warn,
        )

    # What the writer does.

    def _look(self) -> tuple[Served, tuple[str, ...], SourcePositions]:
        """Look up the definition, and how far the queue was read into it."""
        served = self._engine.catalog.find(self._options.name)
        target = self._make_target(served)
        return served, target.list_sources(), target.find_positions(self._options.address.name)

    def _begin(self, served: Served, resumption: Resumption) -> StreamsByKey | SingleKey:
        target = self._make_target(served)
        with self._engine.store.transaction():
            target.begin(resumption.source, resumption)
            served.streams.flush()
        return target

    def _make_target(self, served: Served) -> StreamsByKey | SingleKey:
        if not served.definition.by:
            return SingleKey(served.streams, served.name, served.definition.max_age)
        return StreamsByKey(served.streams, served.names, self._engine.store, served.definition.max_age, self._warn)

    def _take(self, served: Served, target: StreamsByKey | SingleKey, block: Block) -> tuple[bytes, dict[str, object]]:
        """Take a block and note its position, in one transaction; return up to where all is written."""
        if self._engine.catalog.find(self._options.name) is not served:
            raise RefusalError(409, "the definition was created again; its queue is read again from the first entry")
        before = target.taken
        with self._engine.store.transaction():
            target.take(block, Maintenance(None, None, self._warn))
            served.streams.flush()
        self.taken += target.taken - before
        positions = target.find_positions(self._options.address.name)
        t, held = count_records(served)
        facts: dict[str, object] = {"stream": served.name, "taken": target.taken - before, "t": t, "held": held}
        return positions.find_start(_order), facts

    def _warn(self, text: str) -> None:
        """Log a sentence, each once until the queue can be read again."""
        if text != self._said:
            self._said = text
            _log.warning("feed of a stream: %s", text)


class SingleKey:
    """The stream of a definition without keys, which has a position of its own in a family of several.

    Args:
        streams: the family.
        name: name of the stream.
        max_age: maximum age of a record.

    Attributes:
        taken: number of records that were taken.
    """

    def __init__(self, streams: KeyedStreams, name: str, max_age: timedelta | None) -> None:
        self._streams, self._name, self._max_age, self.taken = streams, name, max_age, 0
        self._source: Source | None = None
        self._problem = ""

    def list_sources(self) -> tuple[str, ...]:
        """List the sources that were read into the stream.

        Returns:
            Their names.
        """
        return tuple(source for source, own in self._streams.positions.own.items() if self._name in own)

    def find_positions(self, source: str) -> SourcePositions:
        """Find how far a source was read.

        Args:
            source: its name.

        Returns:
            Its position.
        """
        value = self._streams.positions.own.get(source, {}).get(self._name, b"")
        return SourcePositions(value, value)

    def begin(self, source: Source, resumption: Resumption) -> None:
        """Begin to read a source.

        Args:
            source: the source.
            resumption: where it continues.
        """
        self._source = source
        positions, before = self._streams.positions, self.find_positions(source.name).value
        positions.read(source.name, source.order)
        if before and resumption.is_restarted:
            positions.set_own(source.name, self._name, resumption.start)
        elif before and resumption.renew is not None:
            positions.set_own(source.name, self._name, resumption.renew(before))

    def take(self, block: Block, _: Maintenance) -> None:
        """Take the rows of a block that are new.

        Args:
            block: the rows.
        """
        assert self._source is not None  # noqa: S101  # `begin` comes first
        self._problem = ""
        covered = count_covered(self._source, block, self.find_positions(self._source.name).value)
        rows, end = np.arange(covered, len(block.numbers)), block.end
        if len(rows):
            made = self._streams.take(
                np.full(len(rows), self._name, np.object_),
                block.select_rows(rows),
                times=find_times(block, rows, self._max_age),
                subjects=None if block.subjects is None else block.subjects[rows],
            )
            self.taken += made.taken
            for trouble in made.troubles.values():
                self._problem, left = explain_problem(trouble.problem, block.numbers[rows]), covered + trouble.row
                end = block.positions[left - 1] if left else b""
        if end and self._name in self._streams:
            self._streams.positions.set_own(self._source.name, self._name, end)

    def check(self) -> None:
        """Raise what kept the stream from taking a row, once what came before it is written.

        Raises:
            SourceError: a row was refused.
        """
        if self._problem and self._source is not None:
            raise SourceError(f"{self._source.name}: {self._problem}; {self._source.remedy}")


def _hold_nothing(_: str) -> NoReturn:
    raise SourceError("a queue does not compare records that are held")


def _order(position: bytes) -> tuple[int, int, int]:
    return RedisPosition.decode(position).order
