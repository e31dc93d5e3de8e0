"""What tests read from a store, beside whoever writes to it, and from commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import Result

from vestige import open_reader
from vestige.store import State, Terms


def read_streams(path: str | Path) -> dict[str, tuple[Terms, State]]:
    """All streams of a store; an error if one is damaged."""
    return open_reader(path).snapshot().all_streams()


def read_rows(result: Result) -> list[dict[str, Any]]:
    """The rows that a command printed as JSON."""
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows
