"""What tests read from a store, beside whoever writes to it."""

from __future__ import annotations

from pathlib import Path

from vestige import open_reader
from vestige.store import State, Terms


def read_streams(path: str | Path) -> dict[str, tuple[Terms, State]]:
    """All streams of a store; an error if one is damaged."""
    return open_reader(path).snapshot().all_streams()
