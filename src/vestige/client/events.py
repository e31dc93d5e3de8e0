"""Server-sent events, line by line.

The event stream of HTML (WHATWG), as far as the service uses it.
Guarantee: comments and unknown fields are left out; held by tests/client/test_events.py.
"""

from __future__ import annotations

import json

from vestige.client.answers import Event


class EventReader:
    """Reads events from lines.

    Example:
        >>> reader = EventReader()
        >>> [reader.read(line) for line in ("event: commit", 'data: {"taken": 3}', "")][-1]
        Event(kind='commit', facts={'taken': 3})
    """

    def __init__(self) -> None:
        self._kind, self._data = "message", list[str]()

    def read(self, line: str) -> Event | None:
        """Read the next line.

        Args:
            line: the line, without its end.

        Returns:
            The event that it ends; None if it ends none.
        """
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line:
            if name == "event":
                self._kind = value
            elif name == "data":
                self._data.append(value)
            return None
        kind, data = self._kind, "\n".join(self._data)
        self._kind, self._data = "message", []
        try:
            return Event(kind, json.loads(data)) if data else None
        except ValueError:
            return None
