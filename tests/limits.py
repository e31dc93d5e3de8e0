"""Limits for what tests wait for: a test that waits for something that does not come fails, and says for what."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SECONDS = 60.0
"""Seconds for which a test waits for a thread or a process, far below the limit of the test as a whole."""


def join(*threads: threading.Thread) -> None:
    """Wait for the end of threads."""
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), f"{thread.name} has not ended within {SECONDS:g} s"


def wait(event: threading.Event, what: str) -> None:
    """Wait for an event."""
    assert event.wait(SECONDS), f"waited {SECONDS:g} s in vain for {what}"


@contextmanager
def kill_late(process: subprocess.Popen[str] | subprocess.Popen[bytes], *others: int) -> Iterator[None]:
    """Kill a process, and others by their numbers, if the block takes too long: whoever reads from them is told so."""

    def kill() -> None:
        for number in (process.pid, *others):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    timer = threading.Timer(SECONDS, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
