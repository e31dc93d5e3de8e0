"""The command: parse, call, print.

`vestige run` streams a file through a window of records and prints the all-time answer. Results go to standard output,
progress and errors to standard error, so that the command can stand in a pipe.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from vestige.channels import CHANNELS
from vestige.errors import DataError, ParameterError, SourceError, VestigeError
from vestige.policies import Encoded, LogisticRegression
from vestige.reporting import STATISTICS, Report
from vestige.sources import Block, Source
from vestige.stream import Estimate, Stream

_PATIENCE = 2.0
"""Seconds after which we say what takes so long; and between progress lines where there is no terminal."""


class _Command(click.Group):
    """Turns our errors into one line on standard error and exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except VestigeError as problem:
            raise click.ClickException(str(problem)) from None
        except OSError as problem:
            raise click.ClickException(f"{problem.filename or 'input/output'}: {problem.strerror}") from None


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="vestige")
def command() -> None:
    """All-time answers from a window of records.

    Vestige keeps statistics of an endless stream while holding nothing but a few recent records: it chooses which of
    the records that are still allowed to keep, so that the all-time answer can be recomputed from them.
    """


@command.command()
@click.argument("source")
@click.option(
    "--column",
    "columns",
    multiple=True,
    required=True,
    help="A numeric column; several make one record of that dimension.",
)
@click.option(
    "--statistic",
    type=click.Choice(list(STATISTICS)),
    default="mean",
    show_default=True,
    help="What to keep. regression and logistic explain --target by the columns.",
)
@click.option("--target", "targets", multiple=True, help="The column to explain; for logistic its values are 0 and 1.")
@click.option("--half-life", type=float, help="After so many records, a record counts half as much; for drift.")
@click.option("--retention", type=int, required=True, help="A record is erased this many records after it arrived.")
@click.option(
    "--channel",
    type=click.Choice(sorted(CHANNELS)),
    default="auto",
    show_default=True,
    help="How the answer is kept. average: the kept records' plain average is it. bits: which records are kept spells "
    "it. auto: an average where that is near enough, bits where not.",
)
@click.option("--seed", type=int, help="Makes the run reproducible.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
def run(
    source: str,
    columns: tuple[str, ...],
    statistic: str,
    targets: tuple[str, ...],
    half_life: float | None,
    retention: int,
    channel: str,
    seed: int | None,
    *,
    as_json: bool,
) -> None:
    r"""Stream SOURCE through a window of records and print an all-time statistic: the mean unless said.

    SOURCE is a CSV, NDJSON or Parquet file, or - for CSV or NDJSON on standard input. A row with a missing value in a
    column takes no round; such rows are counted and reported.

    \b
    Examples:
      vestige run flights.csv --column dep_delay --retention 512
      vestige run flights.parquet --column dep_delay --column distance --retention 512 --json
      vestige run flights.csv --statistic regression --column distance --target air_time --retention 1024
      zcat log.csv.gz | vestige run - --column latency --retention 1000
    """
    names = columns + targets
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"column {name!r} is given twice; name each column once")
    chosen = STATISTICS[statistic]
    policy = chosen.policy(columns, targets, channel, half_life)
    stream = Stream(policy, retention=retention, seed=seed)
    blocks = Source(source).blocks(names)
    head = next(blocks, None)
    _prepare(stream)
    started = time.perf_counter()
    skipped = 0
    with _progress(Source(source).size) as report:
        for block in _from(head, blocks):
            _extend(stream, block, source)
            skipped += block.skipped
            report(stream.t, block.position)
    if not stream.t:
        raise SourceError(
            f"{source}: no row has a number in each of {', '.join(names)} ({skipped:,} rows); nothing to answer from"
        )
    estimate = stream.estimate()
    seconds = time.perf_counter() - started
    report = chosen.report(estimate, columns, targets)
    if as_json:
        facts = {"statistic": statistic, **report.facts, **_facts(estimate, retention, policy, skipped, seconds)}
        click.echo(json.dumps(facts))
    else:
        _show(report, estimate, retention, skipped)


def _extend(stream: Stream, block: Block, source: str) -> None:
    try:
        stream.extend(block.rows)
    except DataError as problem:
        raise SourceError(f"{source}: after {stream.t:,} records: {problem}") from None


def _from(head: Block | None, rest: Iterator[Block]) -> Iterator[Block]:
    if head is not None:
        yield head
        yield from rest


def _prepare(stream: Stream) -> None:
    """Compile or load the kernels before the clock starts, and say so where it takes long."""
    said = threading.Timer(
        _PATIENCE, click.echo, ("Compiling kernels (once; cached for the next run) ...",), {"err": True}
    )
    said.start()
    rehearsal = Stream(stream.policy, retention=2 * stream.policy.minimum, seed=0)
    rows = np.random.default_rng(0).normal(size=(2 * rehearsal.batch + 1, stream.policy.columns))
    rows[:, -1] = rows[:, -1] > 0.0 if isinstance(stream.policy, LogisticRegression) else rows[:, -1]
    rehearsal.extend(rows)
    rehearsal.estimate()
    said.cancel()


@contextmanager
def _progress(size: int | None) -> Iterator[Any]:
    """A bar on a terminal, a plain line every two seconds elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        last = [time.perf_counter()]

        def line(t: int, position: int) -> None:
            if time.perf_counter() - last[0] >= _PATIENCE:
                share = f", {position / size:.0%}" if size else ""
                click.echo(f"{t:,} records{share}", err=True)
                last[0] = time.perf_counter()

        yield line
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[t]:,} records"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=size, t=0)
        yield lambda t, position: bar.update(task, completed=position, t=t)


def _facts(estimate: Estimate, retention: int, policy: Encoded, skipped: int, seconds: float) -> dict[str, object]:
    return {
        "t": estimate.t,
        "skipped": skipped,
        "retention": retention,
        "half_life": policy.half_life,
        "channel": policy.written.name,
        "held": estimate.held,
        "oldest_age": estimate.oldest_age,
        "notes": list(estimate.notes),
        "seconds": round(seconds, 3),
    }


def _show(report: Report, estimate: Estimate, retention: int, skipped: int) -> None:
    table = Table()
    for i, name in enumerate(report.header):
        words = i == 0 or name == "term"
        table.add_column(Text(name), justify="left" if words else "right")
    for row in report.rows:
        table.add_row(*map(Text, row))
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(f"{report.title} of {estimate.t:,} records", highlight=False)
    console.print(table)
    for remark in report.remarks:
        console.print(Text(remark))
    console.print(
        f"Held: {estimate.held} records; the oldest arrived {estimate.oldest_age} records ago (limit {retention}).",
        highlight=False,
    )
    if skipped:
        console.print(f"Skipped: {skipped:,} rows with a missing value.", highlight=False)
    for note in estimate.notes:
        console.print(Text(f"Note: {note}"))
