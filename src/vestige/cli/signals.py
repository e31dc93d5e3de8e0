"""Signals that end a run: what has arrived is taken and flushed first.

Guarantee: a run that is stopped keeps what it has taken, and ends with the status that shells expect; held by
tests/ingest/test_maintenance.py.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from vestige.cli.output import format_count
from vestige.ingest import Ingest


@contextmanager
def catch_signals() -> Iterator[list[int]]:
    """Catch the signals to end; a second signal of the same kind ends the process at once, as usual.

    Yields:
        The signals that have arrived.
    """
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return

    def note(number: int, _: object) -> None:
        caught.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, note)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_by_signal(number: int, ingest: Ingest) -> NoReturn:
    """End as a signal asked, with the status that shells expect.

    Args:
        number: number of the signal.
        ingest: run that has been stopped.
    """
    were = "was" if ingest.taken == 1 else "were"
    kept = "kept in the store" if ingest.store is not None else "lost, since there is no --store"
    click.echo(
        f"Stopped by {signal.Signals(number).name}: {format_count(ingest.taken, 'record')} {were} taken and {kept}.",
        err=True,
    )
    sys.exit(128 + number)
