"""`vestige run`: a source through a window of records, and the all-time answer."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from typing import get_args

import click

from vestige.channels import CHANNELS
from vestige.cli.answers import StreamAnswer, check_strict
from vestige.cli.group import command, duration
from vestige.cli.output import count, plain, progress
from vestige.cli.reports import make_policy
from vestige.cli.run_report import check_troubles, collect_facts, explain_before, print_json, print_notes, show_answers
from vestige.cli.signals import catch_signals, end_by_signal
from vestige.errors import NoAnswerError, ParameterError, SourceError
from vestige.ingest import Ingest, StreamNames
from vestige.ingest.maintenance import EVERY
from vestige.policies import STATISTICS, Encoded
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.sources import FileSource, IfReplaced
from vestige.sources.timestamps import Unit
from vestige.store import Store, open_store
from vestige.stream import Stream
from vestige.times import format_duration


@command.command()
@click.argument("source")
@click.option(
    "--column",
    "columns",
    multiple=True,
    required=True,
    help="Numeric column to read; repeat it for records of several values.",
)
@click.option(
    "--statistic",
    type=click.Choice(list(STATISTICS)),
    default="mean",
    show_default=True,
    help="Statistic to keep. regression and logistic predict --target from the columns.",
)
@click.option("--target", "targets", multiple=True, help="Column to predict; for logistic its values are 0 and 1.")
@click.option(
    "--half-life", type=float, help="Number of records after which a record counts half as much; for data that drift."
)
@click.option("--retention", type=int, required=True, help="Number of records after which a record is erased.")
@click.option("--notice", type=int, help="Number of records after a removal request by which the record is erased.")
@click.option(
    "--max-age", type=duration, metavar="DURATION", help="Age at which a record is erased, such as 30d or 12h."
)
@click.option(
    "--time", "time_column", metavar="COLUMN", help="Timestamp column used for --max-age; default: time of arrival."
)
@click.option(
    "--time-unit",
    type=click.Choice(get_args(Unit)),
    help="Unit of time stamps that are plain numbers since 1970; default: inferred from their size.",
)
@click.option(
    "--max-ahead",
    type=duration,
    metavar="DURATION",
    help="Refuse a record whose time is further than this ahead of the machine's clock; needs --max-age. Default: one "
    "day or a tenth of --max-age, whichever is less.",
)
@click.option(
    "--lateness",
    type=duration,
    metavar="DURATION",
    help="How much older than an earlier row a row may be; rows that are later still are skipped and counted. Default: "
    "rows must be in the order of their times.",
)
@click.option("--by", metavar="COLUMN", help="Column of keys, such as customers; one stream is kept for each key.")
@click.option("--store", "path", metavar="FILE", help="Store that keeps the streams; created if it does not exist.")
@click.option(
    "--stream", "name", help="Name of the stream in the store; with --by, a prefix of the keys.  [default: main]"
)
@click.option(
    "--subject",
    metavar="COLUMN",
    help="Column with the person a record is about, for removals; needs --store.",
)
@click.option("--key", metavar="FILE", help="File with the key that subjects are hashed with.  [default: STORE.key]")
@click.option(
    "--if-replaced",
    type=click.Choice(get_args(IfReplaced)),
    default="refuse",
    show_default=True,
    help="What to do if SOURCE is not the file that was read before under its name. restart: count it from its first "
    "row, including rows that were taken before. continue: it contains the same rows and more; continue after the last "
    "row that was taken.",
)
@click.option(
    "--channel",
    type=click.Choice(sorted(CHANNELS)),
    default="auto",
    show_default=True,
    help="How the answer is encoded. average: as the average of the kept records. bits: in the choice of records. "
    "auto: as an average if that is accurate enough, else in bits.",
)
@click.option("--seed", type=int, help="Seed that makes the run reproducible; default: random.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with status 1 if a statistic was restarted, missed its target or has no answer.",
)
@click.option("--json", "machine", is_flag=True, help="Print one JSON object.")
def run(
    source: str,
    columns: tuple[str, ...],
    statistic: str,
    targets: tuple[str, ...],
    half_life: float | None,
    retention: int,
    notice: int | None,
    max_age: timedelta | None,
    time_column: str | None,
    time_unit: Unit | None,
    max_ahead: timedelta | None,
    lateness: timedelta | None,
    by: str | None,
    path: str | None,
    name: str | None,
    subject: str | None,
    key: str | None,
    if_replaced: IfReplaced,
    channel: str,
    seed: int | None,
    *,
    strict: bool,
    machine: bool,
) -> None:
    """Stream SOURCE and print an all-time statistic.

    SOURCE is a CSV, NDJSON or Parquet file, or - for CSV or NDJSON on standard input. A row with a missing value in a
    column is skipped and counted.

    With --store, the same command on the same SOURCE continues where it stopped, and counts each record once; another
    SOURCE adds to the stream. A file that was replaced is refused. Standard input is always read from its current
    position; while it is idle, records are still erased in time, and rows that have arrived are in the store within
    about a second.

    \b
    Examples:
      vestige run flights.csv --column dep_delay --retention 512
      vestige run flights.csv --column dep_delay --retention 512 --by carrier --store delays.db
      vestige run visits.csv --column spent --retention 512 --max-age 30d --time at --subject email --store visits.db
      vestige run flights.parquet --column dep_delay --column distance --retention 512 --json
      vestige run flights.csv --statistic regression --column distance --target air_time --retention 1024
      zcat log.csv.gz | vestige run - --column latency --retention 1000
    """  # noqa: D301  # \b keeps the lines as they are
    _check(columns + targets, time_column=time_column, max_age=max_age, subject=subject, path=path, name=name)
    _check_use("--key", key, "--subject", subject)
    _check_use("--time-unit", time_unit, "--time", time_column)
    _check_use("--max-ahead", max_ahead, "--max-age", max_age)
    _check_use("--lateness", lateness, "--max-age", max_age)
    _check_below("--lateness", lateness, max_age, "a row could be too old when it arrives")
    _check_below("--max-ahead", max_ahead, max_age, "one wrong date could erase all records as too old")
    policy = make_policy(statistic, columns, targets, channel, half_life)
    about: dict[str, object] = {
        "statistic": statistic,
        "columns": list(columns),
        "targets": list(targets),
        "time": time_column,
        "subject": subject,
        "by": by,
    }
    if by is not None and name is not None:
        about["stream"] = name
    rows = FileSource(
        source, columns + targets, time_column, subject, by, time_unit, growing=path is not None, every=EVERY
    )
    stream = partial(
        Stream,
        policy,
        retention=retention,
        notice=notice,
        max_age=max_age,
        max_ahead=max_ahead,
        lateness=lateness,
        seed=seed,
    )
    stream()  # errors in the limits are reported first, then those in the file
    if rows.resumable:
        _check_begin(rows, path)
    _load_kernels(policy)
    opening: AbstractContextManager[Store | None] = nullcontext() if path is None else open_store(path, key=key)
    with opening as store, catch_signals() as caught:

        def open_stream(called: str) -> Stream:
            return stream(store=None if store is None else store.stream(called, about=about))

        started = time.perf_counter()
        ingest = Ingest(
            rows,
            open_stream,
            StreamNames(by, name),
            about,
            store,
            if_replaced,
            max_age,
            lateness,
            warn=lambda text: click.echo(plain(text), err=True),
            is_stopped=lambda: bool(caught),
        )
        with progress(rows.size) as report:
            ingest.run(report)
        if caught:
            end_by_signal(caught[0], ingest)
        made = {key: StreamAnswer.from_stream(stream, columns + targets) for key, stream in ingest.streams()}
        seconds = round(time.perf_counter() - started, 3)
    if not ingest.troubles and not any(asked.t for asked in made.values()):
        if ingest.removed:
            raise NoAnswerError(
                f"{source}: the records that were taken from it were removed meanwhile; there is nothing to answer from"
            )
        raise SourceError(
            f"{source}: no row has a number in each of {', '.join(columns + targets)} "
            f"({count(ingest.skipped, 'row')}); nothing to answer from"
        )
    if machine:
        facts = {"retention": retention, "half_life": policy.half_life, "channel": policy.encoding.name}
        print_json(statistic, by, made, facts | collect_facts(ingest) | {"seconds": seconds}, explain_before(ingest))
    else:
        try:
            show_answers(by, made, retention)
        finally:
            print_notes(source, ingest, lateness)
    check_troubles(source, ingest)
    if strict:
        check_strict(made)
    if ingest.requests:  # they were reported when they failed
        sys.exit(1)


def _check(
    names: tuple[str, ...], *, time_column: object, max_age: object, subject: object, path: object, name: object
) -> None:
    for column in names:
        if names.count(column) > 1:
            raise ParameterError(f"column {column!r} is given twice; name each column once")
    if time_column is not None and max_age is None:
        raise ParameterError(f"--time {time_column} needs --max-age; give one, such as --max-age 30d")
    if subject is not None and path is None:
        raise ParameterError(f"--subject {subject} needs --store, from which its records can be removed")
    if name is not None and path is None:
        raise ParameterError(f"--stream {name} needs --store, in which the stream has that name")


def _check_use(option: str, value: object, needed: str, other: object) -> None:
    if value is not None and other is None:
        said = format_duration(value) if isinstance(value, timedelta) else value
        raise ParameterError(f"{option} {said} needs {needed}; give both, or leave it out")


def _check_below(option: str, value: timedelta | None, max_age: timedelta | None, why: str) -> None:
    if value is not None and max_age is not None and value >= max_age:
        raise ParameterError(
            f"{option} {format_duration(value)} is not below --max-age {format_duration(max_age)}, so that {why}; use "
            "a shorter one"
        )


def _check_begin(source: FileSource, path: str | None) -> None:
    """Raise an error if the first rows of a file cannot be read."""
    try:
        next(source.blocks(), None)
    except SourceError as problem:
        raise SourceError(f"{problem}{'' if path is None else '; nothing was taken'}") from None


def _load_kernels(policy: Encoded) -> None:
    """Compile or load the kernels before the time is measured."""
    rehearsal = Stream(policy, retention=2 * policy.min_batch, seed=AuditSeed(0))
    rehearsal.extend(policy.draw_rows(make_generator(0), 2 * rehearsal.batch + 1, 0.0))
    rehearsal.estimate()
