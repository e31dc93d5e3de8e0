"""When a run writes to its store: often enough to lose little, seldom enough to leave time for reading.

Guarantee: at most a third of the time goes into commits, and a commit that another process blocks is tried again; held
by tests/ingest/test_commits.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from vestige.errors import StoreBusyError
from vestige.ingest import maintenance

ATTEMPTS = 12
"""Number of attempts at a commit that another process blocks; each takes as long as the store waits for a lock."""
_SHARE = 3.0
"""A commit begins this many times its duration after the one before it began, or later."""
_SLACK = 0.9
"""Part of the usual pause after which a commit is due, so that it is not put off to the next look."""


def retry(action: Callable[[], None], warn: Callable[[str], None]) -> None:
    """Carry out an action that writes; if another process blocks it, warn and try again.

    Args:
        action: what to do.
        warn: function that shows a message to the user.

    Raises:
        StoreBusyError: another process blocked every attempt.

    Example:
        >>> retry(lambda: print("written"), print)
        written
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return action()
        except StoreBusyError as problem:
            warn(f"Overdue: {problem} (attempt {attempt} of {ATTEMPTS})")
    return action()


class Commits:
    """Decides when a run writes.

    Args:
        write: function that writes all that has changed.
        warn: function that shows a message to the user.
    """

    def __init__(self, write: Callable[[], None], warn: Callable[[str], None]) -> None:
        self._write, self._warn = write, warn
        self._began, self._took = time.monotonic(), 0.0

    def commit_due(self) -> bool:
        """Write, unless the last commit was less than about a second ago, or took long.

        Returns:
            Whether it did.

        Raises:
            StoreBusyError: another process blocked every attempt.
        """
        pause = max(_SLACK * maintenance.EVERY, _SHARE * self._took)
        is_due = time.monotonic() - self._began >= pause
        if is_due:
            self.commit()
        return is_due

    def commit(self) -> None:
        """Write now.

        Raises:
            StoreBusyError: another process blocked every attempt.
        """
        self._began = time.monotonic()
        retry(self._write, self._warn)
        self._took = time.monotonic() - self._began
