"""Lines of the log have the type and the place of an error, never its text."""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import sqlite3
import threading
from collections.abc import Iterator

import pytest

from vestige import Mean
from vestige.clock import Clock
from vestige.service import logs
from vestige.stream.log import LOG as STREAMS
from vestige.stream.log import log_restart, log_restarts

CANARY = "canary-7391"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What the log says; all is as before afterwards."""
    named = [logging.getLogger(name) for name in logs._NAMES]
    before = [(log.handlers, log.propagate, log.level) for log in named]
    filters = [*STREAMS.filters]
    hook, raises, made = threading.excepthook, logging.raiseExceptions, io.StringIO()
    logs.start_log(made)
    yield made
    threading.excepthook, logging.raiseExceptions = hook, raises
    for log, (handlers, propagate, level) in zip(named, before, strict=True):
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)
    STREAMS.filters = filters


def fail() -> None:
    raise LookupError(CANARY)


def test_errors_of_libraries_threads_and_tasks_leave_no_text(stream: io.StringIO) -> None:
    for name in ("uvicorn.error", "vestige.service", "asyncio"):
        with pytest.raises(LookupError) as found:
            fail()
        logging.getLogger(name).error("it failed", exc_info=found.value, stack_info=True)
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()

    async def leave() -> None:
        asyncio.get_running_loop().set_exception_handler(logs.hear_loop)
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(0)

    asyncio.run(leave())
    logging.getLogger("uvicorn.error").warning("%d", CANARY)  # which logging itself reports
    text = stream.getvalue()
    assert CANARY not in text
    assert text.count("LookupError at test_logs.py:") == 5


def test_what_many_streams_say_is_written_once_in_a_while(stream: io.StringIO) -> None:
    now = [0.0]
    STREAMS.filters[-1] = logs.RepetitionFilter(logs.find_template, lambda: now[0])
    logging.getLogger("vestige").handlers[0].filters = []
    for now[0] in (0.0, 1.0, 59.0, 61.0, 62.0):
        for round_ in range(3):
            log_restart(Mean(), Clock(), Clock(t=9, first=6, last=9, since=round_ + 2))
            log_restarts(Mean(), 2)
    assert stream.getvalue().count("started over and counts from") == 2
    assert stream.getvalue().count("started over in 2 streams") == 2


def test_a_line_is_written_once_a_minute_and_others_are_written(stream: io.StringIO) -> None:
    now, log = [0.0], logging.getLogger("uvicorn.error")
    logging.getLogger("uvicorn").handlers[0].filters = [logs.RepetitionFilter(logs.find_line, lambda: now[0])]
    for now[0] in (0.0, 1.0, 59.0, 61.0, 62.0):
        for number in range(3):
            log.warning("Invalid HTTP request received.")
            log.warning("%d of three", number)
        logging.getLogger("vestige.service").warning("Invalid HTTP request received.")
    lines = [line.partition(" WARNING ")[2] for line in stream.getvalue().splitlines()]
    assert lines.count("Invalid HTTP request received.") == 4
    assert len(lines) == 4 + 2 * 3


def test_the_log_of_a_service_is_not_flooded(stream: io.StringIO) -> None:
    for _ in range(100):
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert stream.getvalue().count("Invalid") == 1


def test_what_the_system_said_is_told() -> None:
    problem = LookupError(CANARY)
    problem.__cause__ = OSError(errno.ENOSPC, CANARY, CANARY)
    assert logs.describe(problem) == "LookupError (No space left on device)"
    with pytest.raises(sqlite3.OperationalError) as found:
        sqlite3.connect(":memory:").execute(f'SELECT "{CANARY}')
    assert logs.describe(found.value).endswith("(SQLITE_ERROR)")
    assert CANARY not in logs.describe(found.value)
