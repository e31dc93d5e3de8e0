"""`vestige run`: a source through a window of records, and the all-time answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import click
import numpy as np

from vestige.channels import CHANNELS
from vestige.cli.answers import Asked, check_strict, show_many
from vestige.cli.group import command, duration
from vestige.cli.output import as_json, progress, say
from vestige.coins import Rehearsal
from vestige.errors import NoAnswerError, ParameterError, SourceError
from vestige.ingest import Feed, Ingest
from vestige.policies import LogisticRegression
from vestige.policy import Policy
from vestige.reporting import STATISTICS
from vestige.sources import Source
from vestige.store import SqliteStore, Store
from vestige.stream import Stream


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
@click.option("--notice", type=int, help="A record is erased this many records after its removal was requested.")
@click.option(
    "--max-age", type=duration, metavar="DURATION", help="A record is erased when it is so old, such as 30d or 12h."
)
@click.option("--time", "time_column", metavar="COLUMN", help="Whose clock counts for --max-age; else the arrival's.")
@click.option("--by", metavar="COLUMN", help="Keep one stream per key in this column, such as a customer.")
@click.option("--store", "path", metavar="FILE", help="Where the streams live; made if it is not there.")
@click.option(
    "--stream", "name", help="The stream's name in the store; with --by, keys come after it.  [default: main]"
)
@click.option("--subject", metavar="COLUMN", help="Whom a record is about, so that it can be removed; needs --store.")
@click.option(
    "--channel",
    type=click.Choice(sorted(CHANNELS)),
    default="auto",
    show_default=True,
    help="How the answer is kept. average: the kept records' plain average is it. bits: which records are kept spells "
    "it. auto: an average where that is near enough, bits where not.",
)
@click.option("--seed", type=int, help="Makes the run reproducible.")
@click.option("--strict", is_flag=True, help="Exit with status 1 where a statistic started over or has no answer.")
@click.option("--json", "machine", is_flag=True, help="Print one JSON object, for machines.")
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
    by: str | None,
    path: str | None,
    name: str | None,
    subject: str | None,
    channel: str,
    seed: int | None,
    *,
    strict: bool,
    machine: bool,
) -> None:
    """Stream SOURCE and print an all-time statistic.

    The records go through a window; the mean is kept unless said. SOURCE is a CSV, NDJSON or
    Parquet file, or - for CSV or NDJSON on standard input. A row with a missing value in a column takes no round; such
    rows are counted and reported.

    With --store, the same command on the same SOURCE goes on where it stopped, each record counted once; another
    SOURCE adds to the stream. Standard input never skips.

    \b
    Examples:
      vestige run flights.csv --column dep_delay --retention 512
      vestige run flights.csv --column dep_delay --retention 512 --by carrier --store delays.db
      vestige run visits.csv --column spent --retention 512 --max-age 30d --time at --subject email --store visits.db
      vestige run flights.parquet --column dep_delay --column distance --retention 512 --json
      vestige run flights.csv --statistic regression --column distance --target air_time --retention 1024
      zcat log.csv.gz | vestige run - --column latency --retention 1000
    """  # noqa: D301  # the sign says to leave the lines as they are
    _check(columns + targets, time_column=time_column, max_age=max_age, subject=subject, path=path, name=name)
    chosen = STATISTICS[statistic]
    policy = chosen.policy(columns, targets, channel, half_life)
    about = {
        "statistic": statistic,
        "columns": list(columns),
        "targets": list(targets),
        "time": time_column,
        "subject": subject,
        "by": by,
    }
    feed = Feed(Source(source), columns + targets, time_column, subject, by)
    rehearsal = Stream(policy, retention=retention, notice=notice, max_age=max_age, seed=seed)
    if not feed.source.pipe:
        next(feed.blocks(0), None)  # what is wrong with a file is said before all else
    _rehearse(rehearsal.policy)
    opening: AbstractContextManager[Store | None] = nullcontext() if path is None else SqliteStore(path)
    with opening as store:

        def opened(called: str) -> Stream:
            place = None if store is None else store.stream(called, about=about)
            return Stream(policy, retention=retention, notice=notice, max_age=max_age, seed=seed, store=place)

        started = time.perf_counter()
        ingest = Ingest(feed, opened, store, warn=lambda text: click.echo(text, err=True))
        with progress(Source(source).size) as report:
            if by is None:
                streams = {"": ingest.into_one(name or "main", report)}
            else:
                streams = ingest.into_many(lambda key: f"{name}/{key}" if name else key, report)
        if not any(stream.t for stream in streams.values()):
            raise SourceError(
                f"{source}: no row has a number in each of {', '.join(columns + targets)} ({ingest.skipped:,} rows); "
                "nothing to answer from"
            )
        facts = {"retention": retention, "half_life": policy.half_life, "channel": policy.written.name}
        run_facts = {"skipped": ingest.skipped, "taken": ingest.taken, "seconds": time.perf_counter() - started}
        made = {key: Asked.of(stream, chosen.report, columns, targets) for key, stream in streams.items()}
    if machine:
        _print_json(statistic, by, made, facts | run_facts | {"seconds": round(run_facts["seconds"], 3)})
    elif by is None:
        made[""].show(f"limit {retention}")
        _skipped(ingest.skipped)
    else:
        show_many(by, made)
        _skipped(ingest.skipped)
    if strict:
        check_strict(made)


def _check(
    names: tuple[str, ...], *, time_column: object, max_age: object, subject: object, path: object, name: object
) -> None:
    for column in names:
        if names.count(column) > 1:
            raise ParameterError(f"column {column!r} is given twice; name each column once")
    if time_column is not None and max_age is None:
        raise ParameterError(f"--time {time_column} has no use without --max-age; give one, such as --max-age 30d")
    if subject is not None and path is None:
        raise ParameterError(f"--subject {subject} has no use without --store, where its records can be removed")
    if name is not None and path is None:
        raise ParameterError(f"--stream {name} has no use without --store, where the stream has that name")


def _print_json(statistic: str, by: str | None, made: Mapping[str, Asked], run_facts: dict[str, Any]) -> None:
    if by is None:
        asked = made[""]
        if asked.estimate is None:
            raise NoAnswerError(asked.problem)
        as_json({"statistic": statistic, **asked.facts, **run_facts})
    else:
        streams = {key: asked.facts for key, asked in made.items()}
        restarted = sum(asked.restarted for asked in made.values())
        as_json({"statistic": statistic, "by": by, "streams": streams, "restarted": restarted, **run_facts})


def _skipped(count: int) -> None:
    if count:
        say(f"Skipped: {count:,} rows with a missing value.")


def _rehearse(policy: Policy) -> None:
    """Compile or load the kernels before the clock starts."""
    rehearsal = Stream(policy, retention=2 * policy.minimum, seed=Rehearsal(0))
    rows = np.random.default_rng(0).normal(size=(2 * rehearsal.batch + 1, policy.columns))
    rows[:, -1] = rows[:, -1] > 0.0 if isinstance(policy, LogisticRegression) else rows[:, -1]
    rehearsal.extend(rows)
    rehearsal.estimate()
