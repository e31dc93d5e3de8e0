"""Lines of the log without what was sent: of an error its type and place, never its text.

The text of an error may quote a row. So lines with an error, those of uvicorn and asyncio included, name the type of
the error, the file and the line; and what the system said of a file or a database, which is not about a row. A line
is written once a minute at most, so that nobody who sends nonsense floods the log.
Guarantee: an error with any text leaves nothing of it in the log; held by tests/service/test_logs.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from vestige.stream.log import LOG as STREAMS

_log = logging.getLogger("vestige.service")
_NAMES = ("vestige", "uvicorn", "asyncio")
_QUIET_SECONDS = 60.0


def describe(problem: BaseException) -> str:
    """Describe an error without its text.

    Args:
        problem: the error.

    Returns:
        Its type and place, and what the system said.

    Example:
        >>> try:
        ...     [].index("ada@example.org")
        ... except ValueError as error:
        ...     print(describe(error).partition(" at ")[0])
        ValueError
    """
    place = ""
    if (trace := problem.__traceback__) is not None:
        while trace.tb_next is not None:
            trace = trace.tb_next
        place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return type(problem).__name__ + place + "".join(f" ({reason})" for reason in _find_reasons(problem))


def _find_reasons(problem: BaseException | None) -> Iterator[str]:
    """What the system said, of this error or of one that it came from."""
    for _ in range(8):
        if isinstance(problem, OSError) and problem.errno:
            yield os.strerror(problem.errno)
            return
        if isinstance(problem, sqlite3.Error) and getattr(problem, "sqlite_errorname", None):
            yield problem.sqlite_errorname
            return
        if problem is None:
            return
        problem = problem.__cause__ or problem.__context__


def find_template(record: logging.LogRecord) -> str:
    """The text of a line before values are put into it.

    Args:
        record: the line.

    Returns:
        The text: of thousands of streams, each would say the same.
    """
    return str(record.msg)


def find_line(record: logging.LogRecord) -> str:
    """The whole line, but for its time.

    Args:
        record: the line.

    Returns:
        Who writes it, and what.
    """
    problem = record.exc_info[1] if record.exc_info else None
    return f"{record.name} {record.msg} {record.args} {_describe_or_none(problem)}"


class RepetitionFilter(logging.Filter):
    """Lets one line of each kind through in a while.

    Args:
        find_kind: what tells the kinds apart.
        clock: seconds that never go back.
    """

    def __init__(
        self, find_kind: Callable[[logging.LogRecord], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._find_kind, self._clock, self._until = find_kind, clock, dict[str, float]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written.

        Args:
            record: the line.

        Returns:
            False for one of a kind that was written less than a minute ago.
        """
        now, kind = self._clock(), self._find_kind(record)
        if self._until.get(kind, now) > now:
            return False
        self._until = {known: until for known, until in self._until.items() if until > now}
        self._until[kind] = now + _QUIET_SECONDS
        return True


class SafeFormatter(logging.Formatter):
    """Writes lines of the log; of an error only what `describe` says."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatException(self, ei: Any) -> str:  # noqa: N802  # the name is logging's
        """Describe an error.

        Args:
            ei: what `sys.exc_info` returned.

        Returns:
            Its type and place.
        """
        return describe(ei[1]) if ei and ei[1] is not None else ""

    def formatStack(self, stack_info: str) -> str:  # noqa: N802, ARG002
        """Leave out the lines of a stack.

        Args:
            stack_info: the lines.

        Returns:
            Nothing.
        """
        return ""


def start_log(stream: TextIO | None = None) -> None:
    """Write the log of a service, of its threads and of the libraries below it.

    Args:
        stream: where to; default: standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(SafeFormatter())
    handler.addFilter(RepetitionFilter(find_line))
    for name in _NAMES:
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.WARNING)
    STREAMS.addFilter(RepetitionFilter(find_template))
    logging.raiseExceptions = False  # a line that cannot be written would be shown with its arguments
    threading.excepthook = lambda given: _log.error("a thread ended: %s", _describe_or_none(given.exc_value))


def _describe_or_none(problem: BaseException | None) -> str:
    return "no error" if problem is None else describe(problem)


def hear_loop(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that nobody has caught in an event loop.

    Args:
        context: what asyncio knows of it, of which only the type of the error is logged.
    """
    _log.error("a task ended: %s", _describe_or_none(context.get("exception")))
