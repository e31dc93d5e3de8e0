"""The streams that a run has open, at most so many at a time.

Guarantee: each stream is taken and answered, whether or not it had to be closed on the way; held by
tests/ingest/test_ingest.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vestige.errors import StoreBusyError
from vestige.ingest.names import StreamNames
from vestige.records import Records
from vestige.sources import History, IfReplaced
from vestige.store import Position, Store
from vestige.stream import Stream

ATTEMPTS = 12
"""Number of attempts at a commit that another process blocks; each takes as long as the store waits for a lock."""
OPEN_STREAMS = 50_000
"""Number of streams that are open at a time; beyond it all are flushed, closed, and opened again when needed."""


@dataclass(slots=True)
class OpenStreams:
    """The streams that a run has open, by key.

    Attributes:
        open_stream: function that creates or opens the stream of a name.
        names: names of the streams.
        store: where the streams are kept, if anywhere.
        max_open: number of streams that may be open at a time, if there is a store.
        warn: function that shows a message to the user.
    """

    open_stream: Callable[[str], Stream]
    names: StreamNames
    store: Store | None
    max_open: int
    warn: Callable[[str], None]
    _streams: dict[str, Stream] = field(default_factory=dict)
    _known: dict[str, dict[str, Position]] | None = None
    """Positions of all sources before this run, each of which it reads once."""

    def open(self, key: str) -> Stream:
        """Return the stream of a key, opening it if needed.

        Args:
            key: key; empty for the single stream.

        Returns:
            The stream.

        Raises:
            VestigeError: the stream cannot be opened.
        """
        if key not in self._streams:
            if self.store is not None and len(self._streams) >= self.max_open:
                self.retry(self.store.release)
                self._streams.clear()
            self._streams[key] = self.open_stream(self.names.find_name(key))
        return self._streams[key]

    def items(self) -> Iterator[tuple[str, Stream]]:
        """Iterate over the open streams.

        Returns:
            An iterator over names and their streams.
        """
        return ((self.names.find_name(key), stream) for key, stream in self._streams.items())

    def drop_removed(self) -> list[str]:
        """Close the streams that another process has removed.

        Returns:
            The keys of these streams.
        """
        if self.store is None:
            return []
        removed = [
            key for key, stream in self._streams.items() if self.store.live(self.names.find_name(key)) is not stream
        ]
        for key in removed:
            del self._streams[key]
            self._known = None
        return removed

    def flush(self) -> None:
        """Write what the streams have not written yet, if there is a store.

        Raises:
            StoreBusyError: another process blocked every attempt.
        """
        if self.store is not None:
            self.retry(self.store.flush)

    def retry(self, action: Callable[[], None]) -> None:
        """Carry out an action that writes; if another process blocks it, warn and try again.

        Args:
            action: what to do.

        Raises:
            StoreBusyError: another process blocked every attempt.
        """
        for attempt in range(1, ATTEMPTS):
            try:
                return action()
            except StoreBusyError as problem:
                self.warn(f"Overdue: {problem} (attempt {attempt} of {ATTEMPTS})")
        return action()

    def history(
        self,
        about: Mapping[str, object],
        if_replaced: IfReplaced,
        open_stream: Callable[[str], Stream | None],
    ) -> History:
        """Return what the store knows of the sources and streams of a run.

        Args:
            about: what the streams of this run were made with.
            if_replaced: what to do with a source that was replaced.
            open_stream: function that opens the stream of a key; it returns None if the stream cannot be opened.

        Returns:
            The history for `Source.resume`.
        """
        assert self.store is not None  # noqa: S101
        store, names = self.store, self.names

        def find_positions(name: str) -> dict[str, bytes]:
            if names.by is not None:
                if self._known is None:
                    self._known = store.list_positions(about)
                return {names.find_key(n): position.value for n, position in self._known.get(name, {}).items()}
            stream = open_stream("")
            if stream is None:
                return {}
            return {"": stream.position(name).value}

        def find_held(name: str, keys: Sequence[str]) -> Iterable[tuple[str, Records]]:
            for key in keys:
                stream = open_stream(key)
                if stream is not None:
                    yield key, stream.find_records(name)

        return History(
            store.sources(), find_positions, find_held, store.pseudonym, names.by, self.max_open, if_replaced, self.warn
        )
