"""`vestige run`: a source through a window of records, and the all-time answer."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, get_args

import click

from vestige.channels import CHANNELS
from vestige.cli.answers import Asked, check_strict, show_many
from vestige.cli.group import command, duration
from vestige.cli.output import as_json, count, plain, progress, say
from vestige.cli.reports import make_policy
from vestige.errors import NoAnswerError, ParameterError, SourceError
from vestige.ingest import Ingest, StreamNames
from vestige.ingest.maintenance import EVERY
from vestige.policies import STATISTICS, Encoded
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.sources import FileSource, IfReplaced
from vestige.sources.comparison import explain_uncompared
from vestige.sources.resumption import KEEP_NUMBERS
from vestige.sources.timestamps import Unit
from vestige.store import Store, open_store
from vestige.store.state import format_duration
from vestige.stream import Stream

_NAMED = 20
"""So many streams are named whose rows were not taken; JSON has them all."""


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
@click.option(
    "--time", "time_column", metavar="COLUMN", help="Time stamps that --max-age goes by; default: the time of arrival."
)
@click.option(
    "--time-unit",
    type=click.Choice(get_args(Unit)),
    help="Unit of time stamps that are bare numbers since 1970; default: told by their size.",
)
@click.option(
    "--max-ahead",
    type=duration,
    metavar="DURATION",
    help="With --max-age: a record that is dated further ahead of the machine's clock is refused.  [default: a day or "
    "a tenth of --max-age, whichever is less]",
)
@click.option(
    "--lateness",
    type=duration,
    metavar="DURATION",
    help="A row may be dated this much before one that came earlier; later ones are counted and not taken. Default: "
    "rows must come in the order of their times.",
)
@click.option("--by", metavar="COLUMN", help="Keep one stream per key in this column, such as a customer.")
@click.option("--store", "path", metavar="FILE", help="Where the streams live; made if it is not there.")
@click.option(
    "--stream", "name", help="The stream's name in the store; with --by, keys come after it.  [default: main]"
)
@click.option("--subject", metavar="COLUMN", help="Whom a record is about, so that it can be removed; needs --store.")
@click.option("--key", metavar="FILE", help="Key that subjects are hashed with.  [default: STORE.key]")
@click.option(
    "--if-replaced",
    type=click.Choice(get_args(IfReplaced)),
    default="refuse",
    show_default=True,
    help="What to do if SOURCE is not the file that was read before under its name. restart: count it from its first "
    "row, also rows of it that were taken before; once that is done, go on after the last one. continue: it holds the "
    "same rows and more; go on after the last one that was taken.",
)
@click.option(
    "--channel",
    type=click.Choice(sorted(CHANNELS)),
    default="auto",
    show_default=True,
    help="How the answer is kept. average: the kept records' plain average is it. bits: which records are kept spells "
    "it. auto: an average where that is near enough, bits where not.",
)
@click.option("--seed", type=int, help="Makes the run reproducible.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with status 1 where a statistic started over, missed its target or has no answer.",
)
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

    The records go through a window; default: their mean is kept. SOURCE is a CSV, NDJSON or Parquet file, or - for CSV
    or NDJSON on standard input. A row with a missing value in a column is skipped and counted.

    With --store, the same command on the same SOURCE goes on where it stopped, each record counted once; another
    SOURCE adds to the stream. A file that was replaced is refused. Standard input is always read from where it stands;
    while it is quiet, limits in time are kept, and what has come is in the store within about a second.

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
    _check_use("--key", key, "--subject", subject)
    _check_use("--time-unit", time_unit, "--time", time_column)
    _check_use("--max-ahead", max_ahead, "--max-age", max_age)
    _check_use("--lateness", lateness, "--max-age", max_age)
    _check_below("--lateness", lateness, max_age, "a row could be too old when it comes")
    _check_below("--max-ahead", max_ahead, max_age, "one wrong date could erase all that is held as too old")
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
    stream()  # what is wrong with the limits is said before all else, and what is wrong with a file
    if rows.resumable:
        _check_begin(rows, path)
    _rehearse(policy)
    opening: AbstractContextManager[Store | None] = nullcontext() if path is None else open_store(path, key=key)
    with opening as store, _signals() as caught:

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
            _end(caught[0], ingest)
        made = {key: Asked.of(stream, columns + targets) for key, stream in ingest.streams()}
        seconds = round(time.perf_counter() - started, 3)
    if not ingest.troubles and not any(asked.t for asked in made.values()):
        if ingest.removed:
            raise NoAnswerError(
                f"{source}: what was taken of it was removed meanwhile; there is nothing to answer from"
            )
        raise SourceError(
            f"{source}: no row has a number in each of {', '.join(columns + targets)} "
            f"({count(ingest.skipped, 'row')}); nothing to answer from"
        )
    if machine:
        facts = {"retention": retention, "half_life": policy.half_life, "channel": policy.encoding.name}
        _print_json(statistic, by, made, facts | _run_facts(ingest) | {"seconds": seconds}, _say_before(ingest))
    else:
        try:
            _show(by, made, retention)
        finally:
            _remark(source, ingest, lateness)
    _check_troubles(source, ingest)
    if strict:
        check_strict(made)
    if ingest.requests:  # they were named when they were attended to
        sys.exit(1)


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


def _check_use(option: str, value: object, needed: str, other: object) -> None:
    if value is not None and other is None:
        said = format_duration(value) if isinstance(value, timedelta) else value
        raise ParameterError(f"{option} {said} has no use without {needed}; give both, or leave it out")


def _check_below(option: str, value: timedelta | None, max_age: timedelta | None, why: str) -> None:
    if value is not None and max_age is not None and value >= max_age:
        raise ParameterError(
            f"{option} {format_duration(value)} is not below --max-age {format_duration(max_age)}, so that {why}; use "
            "a shorter one"
        )


def _check_begin(source: FileSource, path: str | None) -> None:
    """An error where the first rows of a file cannot be read."""
    try:
        next(source.blocks(), None)
    except SourceError as problem:
        raise SourceError(f"{problem}{'' if path is None else '; nothing was taken'}") from None


def _show(by: str | None, made: Mapping[str, Asked], retention: int) -> None:
    if by is None:
        made[""].show(f"limit {retention}")
    else:
        show_many(by, made)


def _print_json(
    statistic: str, by: str | None, made: Mapping[str, Asked], run_facts: dict[str, Any], passed: str
) -> None:
    if by is None:
        asked = made[""]
        if asked.estimate is None:
            raise NoAnswerError(f"{asked.problem}{passed}")
        as_json({"statistic": statistic, **asked.facts, **run_facts})
    else:
        streams = {key: asked.facts for key, asked in made.items()}
        restarted = sum(asked.restarted for asked in made.values())
        as_json({"statistic": statistic, "by": by, "streams": streams, "restarted": restarted, **run_facts})


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals to end that came meanwhile; a second one of its kind ends the process at once, as usual."""
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


def _end(number: int, ingest: Ingest) -> NoReturn:
    """End as a signal asked for, with the status that shells know."""
    were = "was" if ingest.taken == 1 else "were"
    kept = "kept in the store" if ingest.store is not None else "lost, since there is no --store"
    click.echo(
        f"Stopped by {signal.Signals(number).name}: {count(ingest.taken, 'record')} {were} taken and {kept}.", err=True
    )
    sys.exit(128 + number)


def _run_facts(ingest: Ingest) -> dict[str, object]:
    troubles = {
        key: {"rows": trouble.rows, "row": trouble.row, "reason": trouble.reason}
        for key, trouble in ingest.troubles.items()
    }
    counts = {
        "skipped": ingest.skipped,
        "before": ingest.before,
        "compared": ingest.compared,
        "taken": ingest.taken,
        "late": ingest.late,
        "removed": ingest.removed,
        "unfinished": ingest.unfinished,
    }
    return counts | ({"troubles": troubles} if troubles else {})


def _remark(source: str, ingest: Ingest, lateness: timedelta | None) -> None:
    """What is to be known of the rows that were read, for people."""
    if ingest.store is not None:
        say(f"Taken: {count(ingest.taken, 'row')}{_say_before(ingest)}.")
    if ingest.skipped:
        say(f"Skipped: {count(ingest.skipped, 'row')} with a missing value.")
    if ingest.late and lateness is not None:
        were = "was" if ingest.late == 1 else "were"
        say(f"Late: {count(ingest.late, 'row')} came more than {format_duration(lateness)} late and {were} not taken.")
    if ingest.removed:
        say(f"Removed: another process had {count(ingest.removed, 'stream')} removed meanwhile.")
    if ingest.unfinished:
        say(f"The last line of {source} has no line break yet; it waits for the next run.")


def _say_before(ingest: Ingest) -> str:
    """What is to be said of the rows that were read before, and passed over."""
    if not ingest.before:
        return ""
    if not ingest.compared:
        return f"; {explain_uncompared(ingest.before)}"
    return "; row 1 was read before" if ingest.before == 1 else f"; rows 1 to {ingest.before:,} were read before"


def _check_troubles(source: str, ingest: Ingest) -> None:
    """Name the streams whose rows were not taken, and fail."""
    if not ingest.troubles:
        return
    for key, trouble in list(ingest.troubles.items())[:_NAMED]:
        where = f", {count(trouble.rows, 'row')} from row {trouble.row:,} on not taken" if trouble.rows else ""
        click.echo(plain(f"Trouble with {key!r}{where}: {trouble.reason}"), err=True)
    rows = sum(trouble.rows for trouble in ingest.troubles.values())
    were = "was" if rows == 1 else "were"
    again = ingest.store is not None and ingest.source.resumable
    later = f". {_say_how_to_mend(ingest)}" if again else ""
    raise SourceError(
        f"{source}: {count(rows, 'row')} of {count(len(ingest.troubles), 'stream')} {were} not taken; all others were"
        f"{later}"
    )


def _say_how_to_mend(ingest: Ingest) -> str:
    """How a later run takes the rows that this one did not."""
    if not any(trouble.of_row for trouble in ingest.troubles.values()):
        return "Once that is mended, the same command takes them"
    return (
        f"To have them taken, {KEEP_NUMBERS}, and run this again, with --if-replaced continue if that saved a new file "
        "or a shorter one. Do not drop or sort rows, which are known by their numbers; --if-replaced restart would "
        "count those again that were taken"
    )


def _rehearse(policy: Encoded) -> None:
    """Compile or load the kernels before the clock starts."""
    rehearsal = Stream(policy, retention=2 * policy.min_batch, seed=AuditSeed(0))
    rehearsal.extend(policy.draw_rows(make_generator(0), 2 * rehearsal.batch + 1, 0.0))
    rehearsal.estimate()
