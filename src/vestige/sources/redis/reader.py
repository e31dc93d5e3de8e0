"""One pass over a Redis Stream: entries strictly after a position, and a look at the stream in the same transaction.

Each read is `MULTI; XINFO STREAM; XINFO GROUPS; XREADGROUP >; EXEC`. If somebody has moved the group, what was read is
not used: the group is set back to the position, and read again.
Guarantee: a stream that was emptied, replaced or set back is an error, and entries that were removed before they were
read are said; held by tests/sources/test_redis.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from vestige.errors import SourceError
from vestige.sources.redis.link import Link, LostError, RefusedError, StreamState, pair
from vestige.sources.redis.positions import FIRST, Id, RedisPosition, read_id, write_id

CONSUMER = "vestige"
"""Name of the consumer: a store has one reader at a time, so that all of them are one."""
AT_ONCE = 10_000
"""Number of entries that are read at once."""
EVERY = 1.0
"""Seconds after which a reader that waits says that it does."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_SAY_AGAIN = 60.0
GONE = (
    "the stream is not the one that was read before: {why}. The server may have lost its data. --if-replaced continue "
    "goes on after the last entry that was taken, or after the last one that is there if that came before it; "
    "--if-replaced restart counts all entries that are there"
)


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of a stream.

    Attributes:
        ids: their ids, in order.
        fields: names and values of each in turn.
        start: number of entries that were added before them.
        end: position after the last of them.
    """

    ids: Sequence[Id]
    fields: Sequence[Sequence[bytes]]
    start: int
    end: RedisPosition


def find_change(state: StreamState | None, at: RedisPosition) -> str:
    """Find why a stream cannot be the one that was read up to a position.

    Args:
        state: what Redis says of it; None if it is not there.
        at: position up to which it was read.

    Returns:
        The reason; empty if it can be.

    Example:
        >>> find_change(StreamState(0, (5, 0), 3, (0, 0), None), RedisPosition((7, 0), 3))
        'its last id is 5-0, and 7-0 was read'
    """
    if at.entry == FIRST:
        return ""
    if state is None:
        return "it is not there"
    if state.last < at.entry:
        return f"its last id is {write_id(state.last).decode()}, and {write_id(at.entry).decode()} was read"
    if state.added is not None and state.added < at.count:
        return f"{state.added:,} entries were added to it, and {at.count:,} were read"
    return ""


class Reader:
    """Reads the entries after a position.

    Args:
        link: the connection.
        name: name of the source, for messages.
        stream: name of the stream.
        group: name of the group; None to read without one.
        at: position to read from.
        warn: function that shows a message to the user.

    Attributes:
        at: position up to which entries were read.
        is_lost: whether the server did not answer when it was last asked.
    """

    def __init__(
        self, link: Link, name: str, stream: str, group: str | None, at: RedisPosition, warn: Callable[[str], None]
    ) -> None:
        self._link, self._name, self._stream, self._group, self._warn = link, name, stream, group, warn
        self.at = at
        self._is_moved, self._deleted = False, at.entry
        self._is_begun = False
        self.is_lost = False

    def read(self) -> Entries | None:
        """Read the next entries.

        Returns:
            The entries; None if there are none.

        Raises:
            SourceError: the stream is not the one that was read before.
        """
        while True:
            looks: list[Sequence[object]] = [("XINFO", "STREAM", self._stream)]
            if self._group is None:
                looks.append(("XREAD", "COUNT", AT_ONCE, "STREAMS", self._stream, write_id(self.at.entry)))
            else:
                looks.append(("XINFO", "GROUPS", self._stream))
                reading = ("XREADGROUP", "GROUP", self._group, CONSUMER, "COUNT", AT_ONCE, "STREAMS", self._stream, ">")
                looks.append(reading)
            said, *groups, found = self._link.send(looks, together=True)
            state = self._check(said, found)
            if state is None:
                return None
            if groups and self._is_group_moved(groups[0]):
                self._set_group(state)
                continue
            return self._accept(state, found[0][1] if found else [])

    def wait(self) -> None:
        """Wait until there is an entry, at most `EVERY`."""
        self._link.call(
            "XREAD", "COUNT", 1, "BLOCK", int(EVERY * 1_000), "STREAMS", self._stream, write_id(self.at.entry)
        )

    def _check(self, said: object, found: object) -> StreamState | None:
        """Read the state of the stream; an error if it is another one, None if it is not there yet."""
        for reply in (said, found):
            if isinstance(reply, LostError | SourceError):
                raise reply
        is_there = not isinstance(said, RefusedError)
        state = StreamState.read(said) if is_there and isinstance(said, list) else None
        change = find_change(state, self.at)
        if not change and isinstance(found, RefusedError) and self._group is not None:
            change = f"its group {self._group} is not there"
        if change:
            raise SourceError(f"{self._name}: {GONE.format(why=change)}")
        return state

    def _is_group_moved(self, groups: Sequence[Sequence[object]]) -> bool:
        for reply in groups:
            said = pair(reply)
            if said["name"] == (self._group or "").encode():
                return read_id(said["last-delivered-id"]) != self.at.entry
        return True

    def _set_group(self, state: StreamState) -> None:
        """Set the group to the position; what another worker of it holds after that is delivered again, to this one."""
        words: list[object] = ["XGROUP", "SETID", self._stream, self._group, write_id(self.at.entry)]
        if state.added is not None:
            words += ["ENTRIESREAD", self.at.count]
        self._link.call(*words)
        if self._is_begun and not self._is_moved:
            self._is_moved = True
            self._warn(
                f"{self._name}: somebody else reads with the group {self._group}; each entry is still counted once "
                "here, but what the group shows and acknowledges is mixed. Give each reader a group of its own"
            )

    def _accept(self, state: StreamState, found: Sequence[Sequence[object]]) -> Entries | None:
        """Take entries as read, and say which are missing before them."""
        self._is_begun = True
        start = self._find_start(state)
        if not found:
            self.at = replace(self.at, count=max(start, self.at.count)) if self.at.entry != FIRST else self.at
            return None
        ids = [read_id(entry) for entry, _ in found]  # type: ignore[arg-type]
        fields = [each or () for _, each in found]
        count = start + len(ids)
        if state.added is not None:
            count = state.added if ids[-1] == state.last else min(count, state.added)
        self.at = replace(self.at, entry=ids[-1], count=count)
        return Entries(ids, fields, start, self.at)  # type: ignore[arg-type]

    def _find_start(self, state: StreamState) -> int:
        """Find how many entries were added before the next one; say if some of them were removed unread."""
        before, removed = self.at, state.removed
        if removed is None:
            return before.count
        if state.first is None or state.first > before.entry:
            lost = 0 if before.entry == FIRST else removed - before.count
            start = max(removed, before.count)
        else:
            lost, start = int(state.deleted > max(before.entry, self._deleted)), before.count
        self._deleted = max(self._deleted, state.deleted)
        if lost > 0:
            entries = "an entry was" if lost == 1 else f"{lost:,} entries were"
            self._warn(
                f"{self._name}: {entries} removed from the stream before being read here (XDEL, XTRIM or MAXLEN), and "
                "will not be counted"
            )
        return start


def keep_reading(reader: Reader, name: str, warn: Callable[[str], None], *, follow: bool) -> Iterator[Entries | None]:
    """Read entries, wait for more, and connect again after the connection was lost.

    Args:
        reader: reads the entries.
        name: name of the source, for messages.
        warn: function that shows a message to the user.
        follow: whether to wait for more at the end.

    Yields:
        The next entries; None about every second while there are none.
    """
    lost_at, pause, said_at = 0.0, _FIRST_PAUSE, 0.0
    while True:
        try:
            found = reader.read()
            if lost_at:
                warn(f"{name}: connected again after {time.monotonic() - lost_at:.0f} s")
                lost_at, pause = 0.0, _FIRST_PAUSE
            if found is None and not follow:
                return
            if found is None:
                reader.wait()
        except LostError:
            now = time.monotonic()
            if not lost_at:
                lost_at = said_at = now
                warn(f"{name}: the server does not answer; trying again until it does")
            elif now - said_at > _SAY_AGAIN:
                said_at = now
                warn(f"{name}: the server has not answered for {now - lost_at:.0f} s; still trying")
            found = None
            time.sleep(min(pause, EVERY))
            pause = min(2 * pause, _LONGEST_PAUSE)
        reader.is_lost = bool(lost_at)
        yield found
