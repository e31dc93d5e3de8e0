"""What the commands print: progress, tables, and JSON for machines."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import ParamSpec

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

P = ParamSpec("P")

SHOWN = 20
"""How many names of streams are shown; JSON has them all."""
PATIENCE = 2.0
"""Seconds after which we say what takes so long; and between progress lines where there is no terminal."""
_ASKED = "vestige.progress"


def as_json(facts: object) -> None:
    """One line."""
    click.echo(json.dumps(facts))


def console() -> Console:
    """Standard output; a fixed width where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 100, highlight=False)


def plain(text: str) -> str:
    r"""`text` as a terminal may have it: what is not printable, such as an escape sequence in a name, is spelled out.

    >>> print(plain("a\x1b[2J\u202eb"))
    a\x1b[2J\u202eb
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str) -> None:
    """A line of plain text."""
    console().print(Text(plain(text)))


def warn(text: str) -> None:
    """A line of plain text on standard error."""
    click.echo(plain(text), err=True)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[str] = ()) -> None:
    """A table; the first column and those named in `words` hold text, the others numbers."""
    table = Table()
    for i, name in enumerate(header):
        table.add_column(Text(plain(name)), justify="left" if i == 0 or name in words else "right")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console().print(table)


def count(number: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "stream"), count(2_000, "record")
    ('1 stream', '2,000 records')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def list_some(names: Sequence[str]) -> str:
    """The first of these names in brackets, and how many more there are; nothing if there are none."""
    if not names:
        return ""
    more = f" and {len(names) - SHOWN:,} more; --json prints them all" if len(names) > SHOWN else ""
    return f" ({', '.join(names[:SHOWN])}{more})"


def shown_time(moment: datetime | None) -> str:
    """A time to the second, or a dash."""
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def json_time(moment: datetime | None) -> str | None:
    """A time in ISO 8601."""
    return None if moment is None else moment.isoformat()


def ask_for_progress(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """The option --progress: show progress, and what the library logs, where standard error is not a terminal too."""
    if asked and not _is_terminal():
        ctx.meta[_ASKED] = True
        log, handler = logging.getLogger("vestige"), logging.StreamHandler(sys.stderr)
        before = log.level
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        ctx.call_on_close(partial(log.removeHandler, handler))
        ctx.call_on_close(partial(log.setLevel, before))


def _is_terminal() -> bool:
    return Console(stderr=True).is_terminal


def _is_asked_for() -> bool:
    return _ASKED in click.get_current_context().meta


@contextmanager
def announced(text: str) -> Iterator[None]:
    """Say what takes so long, if it does, on a terminal or where progress is asked for."""
    if not (_is_terminal() or _is_asked_for()):
        yield
        return
    said = threading.Timer(PATIENCE, click.echo, (text,), {"err": True})
    said.start()
    try:
        yield
    finally:
        said.cancel()


def now_and_then(worded: Callable[P, str]) -> Callable[P, None]:
    """Progress where there is no terminal: where it is asked for, a plain line every two seconds, in these words."""
    asked = _is_asked_for()
    last = [time.monotonic()]

    def line(*arguments: P.args, **options: P.kwargs) -> None:
        if asked and time.monotonic() - last[0] >= PATIENCE:
            click.echo(worded(*arguments, **options), err=True)
            last[0] = time.monotonic()

    return line


@contextmanager
def meter(what: str) -> Iterator[Callable[[float], None]]:
    """A bar for a share of the work on a terminal; elsewhere, if asked for, a plain line every two seconds."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield now_and_then(lambda share: f"{what}: {share:.0%}")
        return
    with Progress(
        SpinnerColumn(),
        TextColumn(what),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def progress(size: int | None) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; elsewhere, if asked for, a plain line every two seconds."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield now_and_then(lambda t, position: f"{t:,} records{f', {position / size:.0%}' if size else ''}")
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[t]:,} records"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=size, t=0)
        yield lambda t, position: bar.update(task, completed=position, t=t)
