"""What a source is: rows in blocks, with positions from which it can be read on.

A position is opaque: the source encodes it, streams and stores keep its bytes beside the records, and hand it back.
A queue is added as one module that implements `Source`; nothing else has to know it.
Guarantee: a source from outside this package is stopped and resumed with each row counted once; held by
tests/sources/test_protocol.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from vestige.errors import SourceError
from vestige.sources.block import Block
from vestige.sources.held import HeldRows
from vestige.sources.keys import By

KEEP_NUMBERS = "correct the row in its place, or empty its value so that it is skipped"
"""How to correct rows of a file that is read again, since they are identified by their numbers."""

IfReplaced = Literal["refuse", "restart", "continue"]
"""What to do with a source that is not the one that was read before under its name."""

IfMoved = Literal["refuse", "same", "new"]
"""What to do with a source that may be one that was read before at another place, if nothing that is held tells."""

_MOST_RESTARTS = 255
"""How often a source may be begun anew: positions count it in a byte."""

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
    def waits(self) -> bool:
        """Whether the source waits for rows, so that what has arrived is written soon; default: if it is a pipe."""
        return not self.resumable

    @property
    def remedy(self) -> str:
        """How to get past a row that a stream refuses, as an order to the user; empty for what holds for files."""
        return ""

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

    def mark_whole(self, position: bytes) -> bytes:
        """Note in a position that the source was read to its end, so that `resume` need not look at its rows again.

        Args:
            position: position after the last row.

        Returns:
            The position with the note; by default as it was.
        """
        return position

    def acknowledge(self, position: bytes) -> None:
        """Hear that all rows up to a position are in the store for good, or need not be; by default this is ignored.

        Args:
            position: position up to which no stream will need a row again.
        """
        del position  # a file has nobody to tell

    def resume(self, history: History) -> Resumption:
        """Decide where a run continues; by default at the smallest position, so that no stream misses a row.

        Args:
            history: what a store knows of the streams of this run.

        Returns:
            The position to read from.
        """
        return Resumption(self, self.name, history.positions(self.name).find_start(self.order))


@dataclass(frozen=True, slots=True)
class SourcePositions:
    """How far the streams of a run have read a source.

    Attributes:
        value: position of all streams but those of `own`; empty if they have read nothing.
        newcomers: position from which keys without a stream are read: the same, or earlier.
        own: positions of the streams that differ from it, by key.

    Example:
        >>> SourcePositions(b"7", b"5", {"DE": b"3"}).find_start(int)
        b'3'
    """

    value: bytes = b""
    newcomers: bytes = b""
    own: Mapping[str, bytes] = field(default_factory=dict)

    def find_start(self, order: Callable[[bytes], Any]) -> bytes:
        """Find where to begin to read, so that no stream misses a row.

        Args:
            order: function from a position to a value by which positions compare; see `Source.order`.

        Returns:
            The smallest position.
        """
        return min((self.newcomers, *self.own.values()), key=order)


@dataclass(frozen=True, slots=True)
class History:
    """What a store knows of the sources and streams of a run, for `Source.resume`.

    Attributes:
        sources: names of all sources that were read into the streams.
        positions: function from a source's name to how far it was read.
        held: function from a source's name to the records of that source that the streams still hold.
        pseudonym: function from a subject to the pseudonym that the store keeps.
        by: column of keys, or several; None if all rows go into one stream.
        if_replaced: what to do with a source that was replaced.
        warn: function that shows a message to the user.
        if_moved: what to do with a source that may be one that was read before at another place.
    """

    sources: tuple[str, ...]
    positions: Callable[[str], SourcePositions]
    held: Callable[[str], HeldRows]
    pseudonym: Callable[[str], str]
    by: By = None
    if_replaced: IfReplaced = "refuse"
    warn: Callable[[str], None] = lambda _: None
    if_moved: IfMoved = "refuse"


def count_restart(name: str, generation: int) -> int:
    """Count that a source is begun anew.

    Args:
        name: its name.
        generation: how often it was before.

    Returns:
        One more.

    Raises:
        SourceError: it is one more than a position has room for.

    Example:
        >>> count_restart("visits", 2)
        3
    """
    if generation >= _MOST_RESTARTS:
        raise SourceError(f"{name}: was begun anew {generation} times, which is the most; read it into another store")
    return generation + 1


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where a run continues in its source.

    Attributes:
        source: source to read from.
        name: name under which the store knows it.
        start: position to read from.
        is_restarted: whether the positions in the store are those of a source that was replaced, and do not count.
        outdated: keys of the streams whose own positions are those of a source that was replaced.
        renew: function from a position in the store to what has to be written in its place; None if they stay.
        before: number of rows that were read before this run.
        compared: number of held records that were compared with their rows.
        is_whole: whether the source has no rows beyond those that were read before, so that it need not be read.
    """

    source: Source
    name: str
    start: bytes = b""
    is_restarted: bool = False
    outdated: tuple[str, ...] = ()
    renew: Callable[[bytes], bytes] | None = None
    before: int = 0
    compared: int = 0
    is_whole: bool = False
