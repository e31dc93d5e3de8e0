"""Server-sent events from lines."""

from __future__ import annotations

from vestige.client import Event
from vestige.client.events import EventReader


def test_events_are_read_and_all_else_is_left_out() -> None:
    lines = [
        ": connected",
        "",
        "event: commit",
        'data: {"taken":',
        "data: 3}",
        "id: 7",
        "",
        "data: 1",
        "",
        "data: {",
        "",
    ]
    reader = EventReader()
    found = [reader.read(line) for line in lines]
    assert [each for each in found if each is not None] == [Event("commit", {"taken": 3}), Event("message", 1)]  # type: ignore[arg-type]
