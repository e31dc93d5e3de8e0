"""What a source is: rows in blocks, with positions from which it can be read on.

A position is opaque: the source encodes it, streams and stores keep its bytes beside the records, and hand it back.
A queue is added as one module that implements `Source`; nothing else has to know it.
Guarantee: a source from outside this package is stopped and resumed with each row counted once; held by
tests/sources/test_protocol.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from vestige.records import Records
from vestige.sources.block import Block
from vestige.sources.keys import By

IfReplaced = Literal["refuse", "restart", "continue"]
"""What to do with a source that is not the one that was read before under its name."""

Unit = Literal["s", "ms", "us", "ns"]
"""Unit of time stamps that are plain numbers."""


class Source(Protocol):
    """Where records come from; subclass it to inherit the defaults.

    Example:
        >>> class Numbers(Source):
        ...     name = "numbers:"
        ...
        ...     def blocks(self, position=b""):
        ...         start = self.order(position)
        ...         for n in range(start + 1, 4):
        ...             yield Block(np.array([[float(n)]]), np.array([n]), [b"%d" % n], read=n)
        ...
        ...     def order(self, position):
        ...         return int(position or b"0")
        >>> import numpy as np
        >>> [block.rows.tolist() for block in Numbers().blocks(b"1")]
        [[[2.0]], [[3.0]]]
    """

    @property
    def name(self) -> str:
        """Name under which messages and stores know the source."""

    @property
    def resumable(self) -> bool:
        """Whether the source can be read again from a position; a pipe cannot."""
        return True

    @property
    def size(self) -> int | None:
        """Amount there is to read, in the unit of `Block.offset`; None if unknown."""
        return None

    def blocks(self, position: bytes = b"") -> Iterator[Block]:
        """Read the rows that come after a position, block by block.

        A source that waits for rows yields a block without rows about every second, so that limits in time are kept.

        Args:
            position: position after the last row that was read; empty to read from the first row.

        Returns:
            An iterator over blocks: the next rows, with the position after each.

        Raises:
            SourceError: the source cannot be read. The message never shows what a row holds.
        """

    def order(self, position: bytes) -> Any:
        """Return a sort key: positions of this source compare as their keys do, and the empty position comes first.

        Args:
            position: position that this source made, or an empty one.

        Returns:
            A value that can be compared with those of other positions.
        """

    def mark_whole(self, position: bytes, streams: int) -> bytes:  # noqa: ARG002
        """Note in a position that the source was read to its end, so that `resume` need not look at its rows again.

        Args:
            position: position of a stream after its last row.
            streams: number of streams that have rows of the source.

        Returns:
            The position with the note; by default as it was.
        """
        return position

    def resume(self, history: History) -> Resumption:
        """Decide where a run continues.

        By default a single stream continues at its position. With keys, everything is read again and each stream skips
        the rows up to its own position, since a stream that a stopped run did not write has no position.

        Args:
            history: what a store knows of the streams of this run.

        Returns:
            The position to read from, and what each stream has read.
        """
        positions = history.positions(self.name)
        single = history.by is None and bool(positions)
        return Resumption(self, self.name, min(positions.values(), key=self.order) if single else b"", positions)


@dataclass(frozen=True, slots=True)
class History:
    """What a store knows of the sources and streams of a run, for `Source.resume`.

    Attributes:
        sources: names of all sources that were read into the store.
        positions: function from a source's name to the position of each stream, by key.
        held: function from a source's name and keys to the records of that source that each stream still holds, with
            their row numbers as `numbers`.
        pseudonym: function from a subject to the pseudonym that the store keeps.
        by: column of keys, or several; None if all rows go into one stream.
        batch: number of streams that may be open at a time.
        if_replaced: what to do with a source that was replaced.
        warn: function that shows a message to the user.
    """

    sources: tuple[str, ...]
    positions: Callable[[str], Mapping[str, bytes]]
    held: Callable[[str, Sequence[str]], Iterable[tuple[str, Records]]]
    pseudonym: Callable[[str], str]
    by: By = None
    batch: int = 50_000
    if_replaced: IfReplaced = "refuse"
    warn: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where a run continues in its source.

    Attributes:
        source: source to read from.
        name: name under which the store knows it.
        start: position to read from.
        positions: position of each stream, by key; rows up to it are skipped. A stream that has a position in the
            store, but none here, has read a source that was replaced.
        keys: keys that were seen on the way.
        changed: whether `positions` differ from those in the store and have to be written.
        before: number of rows that were read before this run.
        compared: number of held records that were compared with their rows.
        is_whole: whether the source has no rows beyond those that were read before, so that it need not be read.
    """

    source: Source
    name: str
    start: bytes = b""
    positions: Mapping[str, bytes] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    changed: bool = False
    before: int = 0
    compared: int = 0
    is_whole: bool = False
