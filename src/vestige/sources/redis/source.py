"""A Redis Stream as a source: the store's position decides what is counted, the consumer group shows and protects it.

The rule, which makes each entry count once:

1. Ids of a stream only grow. What has an id up to the position in the store was taken; what has a larger one was not.
   The position is written in the transaction that writes the update, so that this holds after any crash.
2. A store has one writer, so that a group has one reader at a time, and whoever holds the store knows that the one
   before is gone: it need not guess that from an idle time, as XAUTOCLAIM does. At the start, and whenever somebody has
   moved it, the reader sets its group to the position (`reader`). Entries that were delivered after the position, to
   a worker that died with them, are then delivered again and belong to this reader. So no entry can be older than the
   position and not taken, and entries are always taken in the order of their ids.
3. Entries are acknowledged after the commit, all up to the position, whichever worker they were delivered to. A worker
   that died between commit and acknowledgement leaves entries that the next one acknowledges and does not read.
4. Entries are removed only if that was asked for, up to the position, and not before all other groups have read and
   acknowledged them (`group`).
5. A stream whose last id or number of entries is below what was read, or that has lost its group, is not the one that
   was read: the server has lost data, or the stream was created anew. That is an error, until `if_replaced` decides.

Guarantee: each entry is counted once, wherever the reader or the server is killed; held by
tests/sources/test_redis_killed.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vestige.errors import MissingExtraError, SourceError
from vestige.sources.block import Block
from vestige.sources.dialect import USUAL, Dialect
from vestige.sources.protocol import History, Resumption, Source, count_restart
from vestige.sources.redis.address import RedisAddress
from vestige.sources.redis.group import acknowledge_entries, explain_persistence, trim_stream
from vestige.sources.redis.link import Link, LostError, RefusedError, StreamState, pair
from vestige.sources.redis.positions import FIRST, Id, RedisPosition, RedisPositions, read_id, write_id
from vestige.sources.redis.reader import GONE, Entries, Reader, find_change, keep_reading

if TYPE_CHECKING:
    from vestige.sources.columns import Columns


@dataclass(slots=True)
class _Progress:
    """What a source remembers while it is read; the store has all that counts."""

    link: Link | None = None
    acknowledged: Id = FIRST
    is_lost: bool = False
    said: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class RedisSource(Source):
    """Entries of a Redis Stream; fields are columns.

    Attributes:
        address: where the stream is.
        columns: fields to read.
        scope: name of the streams that it is read into, which is a part of the name of the reader's own group.
        follow: whether to wait for more entries at the end.
        trim: whether to remove entries that are committed and that no other group needs.
        dialect: decimal point of numbers.
        hash_key: function from a key to what takes its place in blocks; default: keys stay as they are.
        warn: function that shows a message to the user.
        group: name of the consumer group; None to read without one, and to acknowledge nothing. `resume` sets it.
        mark: the mark of the reader's own group, a part of each position. `resume` sets it.
        generation: number of times that the stream was begun anew. `resume` sets it.

    Example:
        >>> from vestige.sources.columns import Columns
        >>> address = RedisAddress.parse("redis://localhost/0/visits")
        >>> RedisSource(address, Columns(("spent",), None, None, (), None)).name
        'redis://localhost:6379/0/visits'
    """

    address: RedisAddress
    columns: Columns
    scope: str = "main"
    follow: bool = True
    trim: bool = False
    dialect: Dialect = USUAL
    hash_key: Callable[[str], str] | None = None
    warn: Callable[[str], None] = field(default=lambda _: None, repr=False)
    group: str | None = None
    mark: bytes = b"\0\0\0\0"
    generation: int = 0
    _progress: _Progress = field(default_factory=_Progress, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The address without user, password and group."""
        return self.address.name

    @property
    def is_lost(self) -> bool:
        """Whether the server did not answer when it was last asked."""
        return self._progress.is_lost

    @property
    def waits(self) -> bool:
        """True, so that what has arrived is written and acknowledged soon."""
        return True

    @property
    def remedy(self) -> str:
        """How to get past an entry that cannot be taken."""
        return "remove the entry from the stream (XDEL), and run this again"

    def order(self, position: bytes) -> tuple[int, int, int]:
        """Return the id of the entry before a position, after the generation of the stream.

        Args:
            position: position in this stream.

        Returns:
            Three numbers.
        """
        return RedisPosition.decode(position).order

    def check(self) -> None:
        """Check that the server answers, and say what it keeps on its disk.

        Raises:
            SourceError: it does not, or refuses.
        """
        try:
            kept = explain_persistence(self._link)
            self._find_state()
        except LostError:
            raise SourceError(
                f"{self.name}: no server answers there; start it, or correct host and port of the address"
            ) from None
        if kept is not None:
            self.warn(f"{self.name}: {kept}.")

    def resume(self, history: History) -> Resumption:
        """Find where the stream was left, whether it is still the same stream, and prepare its group.

        Args:
            history: what a store knows of the streams of this run.

        Returns:
            The position to read from.

        Raises:
            SourceError: the stream was replaced or set back, or cannot be read.
        """
        positions = history.positions(self.name) if self.name in history.sources else None
        known = [] if positions is None else [positions.value, positions.newcomers, *positions.own.values()]
        furthest = max(map(RedisPosition.decode, known), key=lambda each: each.order, default=RedisPosition())
        try:
            return self._resume(history, furthest, b"" if positions is None else positions.find_start(self.order))
        except LostError:
            raise SourceError(f"{self.name}: the server does not answer; try again") from None

    def _resume(self, history: History, furthest: RedisPosition, start: bytes) -> Resumption:
        mark = furthest.mark if any(furthest.mark) else secrets.token_bytes(4)
        group = self.address.group or f"vestige:{self.scope}:{mark.hex()}"
        state, seen = self._find_state(), self._find_group(group)
        change = find_change(state, furthest) or _find_group_change(group, seen, furthest)
        if change and history.if_replaced == "refuse":
            raise SourceError(f"{self.name}: {GONE.format(why=change)}: nothing was taken")
        is_restarted = bool(change) and history.if_replaced == "restart"
        generation = count_restart(self.name, furthest.generation) if is_restarted else furthest.generation
        at, renew = RedisPosition.decode(start), None
        if is_restarted or at.generation != generation:
            at = RedisPosition()
        elif change and furthest.entry == FIRST and seen is not None:
            at = RedisPosition(read_id(seen["last-delivered-id"]), seen.get("entries-read") or 0)
        elif change:
            renew = partial(_set_back, state)
            at = RedisPosition.decode(renew(start)) if start else at
        at = replace(at, mark=mark, generation=generation)
        self._warn_of_others(history)
        if seen is None:
            self._link.call("XGROUP", "CREATE", self.address.stream, group, write_id(at.entry), "MKSTREAM")
        source = replace(self, group=group, mark=mark, generation=generation)
        return Resumption(source, self.name, at.encode(), is_restarted=is_restarted, renew=renew)

    def blocks(self, position: bytes = b"") -> Iterator[Block]:
        """Yield the entries after a position, block by block; a block without rows about every second meanwhile.

        Args:
            position: position after the last entry that was read; empty to read from the first one.

        Yields:
            The next entries.

        Raises:
            SourceError: the stream was replaced or set back, or the server refuses.
        """
        at = RedisPosition.decode(position)
        at = replace(at, mark=self.mark, generation=self.generation)
        reader = Reader(self._link, self.name, self.address.stream, self.group, at, self.warn)
        for found in keep_reading(reader, self.name, self.warn, follow=self.follow):
            self._progress.is_lost = reader.is_lost
            yield self._make_block(found, reader.at)

    def acknowledge(self, position: bytes) -> None:
        """Acknowledge the entries up to a position, and remove them if that was asked for.

        Args:
            position: position up to which all is committed. A server that does not answer hears of it later.
        """
        last = RedisPosition.decode(position).entry
        if self.group is None or last in (FIRST, self._progress.acknowledged):
            return
        try:
            acknowledge_entries(self._link, self.address.stream, self.group, last)
            holder = trim_stream(self._link, self.address.stream, self.group, last) if self.trim else None
        except (LostError, RefusedError):  # the reader notices it too
            return
        self._progress.acknowledged = last
        if holder is not None:
            self._say_once(
                f"the group {holder} has not read or not acknowledged all that is committed here, so that --trim keeps "
                "it; if nobody uses that group any more, remove it (XGROUP DESTROY)"
            )

    @property
    def _link(self) -> Link:
        if self._progress.link is None:
            self._progress.link = Link(self.address)
        return self._progress.link

    def _find_state(self) -> StreamState | None:
        """What Redis says of the stream; None if it is not there."""
        try:
            return StreamState.read(self._link.call("XINFO", "STREAM", self.address.stream))
        except RefusedError:
            return None

    def _find_group(self, group: str) -> dict[str, Any] | None:
        """What Redis says of the group; None if it is not there."""
        try:
            groups = [pair(reply) for reply in self._link.call("XINFO", "GROUPS", self.address.stream)]
        except RefusedError:
            return None
        return next((said for said in groups if said["name"] == group.encode()), None)

    def _warn_of_others(self, history: History) -> None:
        """Say if the same stream may have been read under another address."""
        path = f"/{self.name.split('://')[1].partition('/')[2]}"
        others = [
            name
            for name in history.sources
            if name != self.name and name.startswith(("redis://", "rediss://")) and name.endswith(path)
        ]
        if others and self.name not in history.sources:
            self.warn(
                f"{self.name}: the store has read {others[0]}. If that is the same server, stop this run and use that "
                "address, since all entries would be counted again"
            )

    def _make_block(self, found: Entries | None, at: RedisPosition) -> Block:
        try:
            from vestige.sources.entries import read_entries  # noqa: PLC0415  # Arrow takes half a second to import
        except ModuleNotFoundError as missing:
            raise MissingExtraError(f"reading a Redis Stream (here: {missing.name})", "redis") from None
        if found is None:
            block, _ = read_entries([], self.columns, at.count, self.dialect)
            return replace(block, positions=())
        block, bad = read_entries(found.fields, self.columns, found.start, self.dialect)
        for name in bad:
            self._say_once(f"field {name!r} of an entry cannot be read; such entries are skipped and counted")
        rows = block.numbers - found.start - 1
        ids = [found.ids[row] for row in rows]
        positions = RedisPositions(ids, block.numbers.tolist(), found.end)
        return replace(block, positions=positions, end=found.end.encode()).hash_keys(self.hash_key)

    def _say_once(self, text: str) -> None:
        if text not in self._progress.said:
            self._progress.said.add(text)
            self.warn(f"{self.name}: {text}.")


def _find_group_change(group: str, seen: Mapping[str, Any] | None, furthest: RedisPosition) -> str:
    """Find why a group cannot be the one that the store was read with; empty if it can be."""
    if furthest.entry != FIRST:
        return f"its group {group} is not there" if seen is None else ""
    if seen is None or read_id(seen["last-delivered-id"]) == FIRST:
        return ""
    read, pending = seen.get("entries-read"), seen["pending"]
    if pending and (read is None or read <= pending):
        return ""  # a reader died before its first commit
    last = seen["last-delivered-id"].decode()
    return f"the store has read nothing from it, but its group {group} was read up to {last}"


def _set_back(state: StreamState | None, position: bytes) -> bytes:
    """Move a position to the end of a stream that ends before it, and count the entries as the stream does now."""
    before, last = RedisPosition.decode(position), FIRST if state is None else state.last
    added = 0 if state is None else state.added or 0
    count = added if last <= before.entry else 0 if state is None else state.removed or 0
    return replace(before, entry=min(before.entry, last), count=count).encode()
