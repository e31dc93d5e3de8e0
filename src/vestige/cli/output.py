"""What the commands print: progress, tables, and JSON for machines."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import ParamSpec

import click
from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

P = ParamSpec("P")

_WIDEST = 160
"""The most characters in a line of a table that is not shown in a terminal."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_FORMULA = re.compile(r"'*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""What a spreadsheet computes, also in the full width of Asian scripts; one that begins with apostrophes gets another,
so that no two texts become the same."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
SHOWN = 20
"""Number of stream names to show; --json prints them all."""
PATIENCE = 2.0
"""Seconds after which a slow step is announced, and between progress lines without a terminal."""
_ENABLED = "vestige.progress"


def print_json(facts: object) -> None:
    """Print `facts` as JSON, on one line."""
    click.echo(json.dumps(facts))


def make_console() -> Console:
    """Make a console for standard output; it has a fixed width if that is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 100, highlight=False)


def escape(text: str) -> str:
    r"""Escape what is not printable, such as an escape sequence in a name, so that it cannot control a terminal.

    >>> print(escape("a\x1b[2J\u202eb"))
    a\x1b[2J\u202eb
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def protect_cell(text: str) -> str:
    r"""Write a text as a cell of CSV that no terminal obeys and no spreadsheet computes.

    Control characters are escaped, and an apostrophe is put before what would be a formula. JSON has all texts exactly.

    >>> print(protect_cell("=cmd"), protect_cell("-7"), protect_cell("a\x1b[2J"))
    '=cmd -7 a\x1b[2J
    """
    plain = _CONTROL.sub(lambda found: escape(found[0]), text)
    return f"'{plain}" if _FORMULA.match(plain) and not _NUMBER.fullmatch(plain) else plain


def say(text: str) -> None:
    """Print a line of plain text."""
    make_console().print(Text(escape(text)))


def warn(text: str) -> None:
    """Print a line of plain text on standard error."""
    click.echo(escape(text), err=True)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[str] = ()) -> None:
    """Print a table; the first column and those named in `words` hold text, the others numbers; nothing is cut off.

    A terminal may be too narrow for whole words; a file or pipe is as wide as the table, up to a limit.
    """
    table = Table()
    for i, name in enumerate(header):
        justify: JustifyMethod = "left" if i == 0 or name in words else "right"
        table.add_column(Text(escape(name)), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(escape(cell)) for cell in row))
    console = make_console()
    if not sys.stdout.isatty():
        needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
        console.width = max(console.width, needed)
    console.print(table)


def format_count(number: int, noun: str) -> str:
    """Format a number of things.

    >>> format_count(1, "stream"), format_count(2_000, "record")
    ('1 stream', '2,000 records')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def list_some(names: Sequence[str]) -> str:
    """List the first of these names in brackets, and how many more there are; nothing if there are none."""
    if not names:
        return ""
    more = f" and {len(names) - SHOWN:,} more; --json prints them all" if len(names) > SHOWN else ""
    return f" ({', '.join(names[:SHOWN])}{more})"


def format_time(moment: datetime | None) -> str:
    """Format a time to the second, or a dash."""
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def to_iso(moment: datetime | None) -> str | None:
    """Format a time in ISO 8601."""
    return None if moment is None else moment.isoformat()


def enable_progress(ctx: click.Context, _: click.Parameter, enabled: bool) -> None:
    """Carry out --progress: show progress and the log of the library even if standard error is not a terminal."""
    if enabled and not _is_terminal():
        ctx.meta[_ENABLED] = True
        log, handler = logging.getLogger("vestige"), logging.StreamHandler(sys.stderr)
        before = log.level
        handler.addFilter(lambda record: record.name == log.name)  # a line for each stream would be too many
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        ctx.call_on_close(partial(log.removeHandler, handler))
        ctx.call_on_close(partial(log.setLevel, before))


def _is_terminal() -> bool:
    return Console(stderr=True).is_terminal


def _is_enabled() -> bool:
    return _ENABLED in click.get_current_context().meta


@contextmanager
def announce_if_slow(text: str) -> Iterator[None]:
    """Print `text` if the work takes long, on a terminal or with --progress."""
    if not (_is_terminal() or _is_enabled()):
        yield
        return
    timer = threading.Timer(PATIENCE, click.echo, (text,), {"err": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def throttle(describe: Callable[P, str]) -> Callable[P, None]:
    """Make a function that, with --progress, prints what `describe` returns, but at most every two seconds."""
    enabled = _is_enabled()
    last = [time.monotonic()]

    def line(*arguments: P.args, **options: P.kwargs) -> None:
        if enabled and time.monotonic() - last[0] >= PATIENCE:
            click.echo(describe(*arguments, **options), err=True)
            last[0] = time.monotonic()

    return line


@contextmanager
def show_progress(task: str) -> Iterator[Callable[[float], None]]:
    """Show the fraction done: a bar on a terminal; otherwise, with --progress, a line every two seconds."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield throttle(lambda fraction: f"{task}: {fraction:.0%}")
        return
    with Progress(
        SpinnerColumn(),
        TextColumn(task),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    ) as bar:
        bar_task = bar.add_task("", total=1.0)
        yield lambda fraction: bar.update(bar_task, completed=fraction)


@contextmanager
def show_record_progress(size: int | None) -> Iterator[Callable[[int, int], None]]:
    """Show records and position: a bar on a terminal; otherwise, with --progress, a line every two seconds."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield throttle(lambda t, position: f"{t:,} records{f', {position / size:.0%}' if size else ''}")
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
