"""Events for those who watch: each has a bounded queue, and one that reads too slowly is dropped.

Guarantee: the writer never waits for a reader; held by tests/service/test_events.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from vestige.service.problems import RefusalError

LISTENERS = 64
"""Number of readers at the same time; more are refused."""
_MOST = 256
"""Number of events that may wait for one reader."""
_HEARTBEAT_SECONDS = 15.0


class Events:
    """Sends events to readers."""

    def __init__(self) -> None:
        self._readers: dict[asyncio.Queue[str | None], asyncio.AbstractEventLoop] = {}

    @property
    def listeners(self) -> int:
        """Number of readers."""
        return len(self._readers)

    def check_room(self) -> None:
        """Check that there may be one more reader.

        Raises:
            RefusalError: there are too many.
        """
        if self.listeners >= LISTENERS:
            raise RefusalError(429, f"{LISTENERS} listeners are connected; try again later")

    def tell(self, kind: str, facts: dict[str, object]) -> None:
        """Send an event to all readers; may be called in any thread.

        Args:
            kind: its kind.
            facts: what happened; no values of records.
        """
        text = f"event: {kind}\ndata: {json.dumps(facts)}\n\n"
        for queue, loop in tuple(self._readers.items()):
            loop.call_soon_threadsafe(self._put, queue, text)

    def _put(self, queue: asyncio.Queue[str | None], text: str | None) -> None:
        if queue.full():
            self._readers.pop(queue, None)
            queue.get_nowait()
            queue.put_nowait(None)
        elif queue in self._readers:
            queue.put_nowait(text)

    def end(self) -> None:
        """End all readers."""
        for queue, loop in tuple(self._readers.items()):
            loop.call_soon_threadsafe(self._put, queue, None)

    async def listen(self, check: Callable[[], object] = lambda: None) -> AsyncIterator[str]:
        """Receive events, and a comment where there are none for long.

        Args:
            check: called before each text; a refusal ends the events.

        Yields:
            The text of server-sent events.
        """
        queue: asyncio.Queue[str | None] = asyncio.Queue(_MOST)
        self._readers[queue] = asyncio.get_running_loop()
        try:
            yield ": connected\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None or not _is_allowed(check):
                    return
                yield text
        finally:
            self._readers.pop(queue, None)


def _is_allowed(check: Callable[[], object]) -> bool:
    try:
        check()
    except RefusalError:
        return False
    return True
