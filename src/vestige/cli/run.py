"""`vestige run`: a source through a window of records, and the all-time answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, get_args

import click

from vestige.channels import CHANNELS
from vestige.cli.answers import StreamAnswer
from vestige.cli.categories import explain_text, find_undeclared
from vestige.cli.config import config_option, describe_use, is_on_command_line, name_origins
from vestige.cli.exit_status import end
from vestige.cli.group import command, parse_duration
from vestige.cli.keyed_answers import KeyedAnswers
from vestige.cli.noise_options import (
    bound_option,
    collect_guarantee,
    delta_option,
    describe_guarantee,
    epsilon_option,
    window_option,
)
from vestige.cli.output import format_count, say, show_record_progress, warn
from vestige.cli.run_options import DIALECT, AnySource, RunOptions
from vestige.cli.run_report import (
    Answers,
    check_late,
    check_troubles,
    collect_facts,
    explain_before,
    explain_keyless,
    print_facts,
    print_notes,
    show_answers,
)
from vestige.cli.signals import catch_signals, end_by_signal
from vestige.cli.store_options import StoreOptions, key_option, keyring_option
from vestige.cli.store_terms import check_by, check_keyed, complete_options
from vestige.cli.summary import check_strict
from vestige.errors import NoAnswerError, SourceError, StoreError
from vestige.ingest import Ingest, StreamNames
from vestige.ingest.condition import count_overdue
from vestige.ingest.names import check_hashed, hash_key
from vestige.keyed import KeyedStreams
from vestige.policies import STATISTICS, Encoded, NamedPolicy
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.sources import FileSource, IfReplaced
from vestige.sources.identity import find_name
from vestige.sources.listing import list_files, split_by_time
from vestige.sources.protocol import IfMoved, Unit
from vestige.sources.resumption import find_progress, has_new_rows, recall_dialect
from vestige.store import Store
from vestige.stream import Stream
from vestige.times import format_duration, wall_clock

_SMALL = 1 << 20
"""Files of fewer bytes in all are read without compiling anything beforehand."""


@command.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option(
    "--column",
    "columns",
    multiple=True,
    help="Numeric column to read; repeat it for records of several values.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="COLUMN:STATISTIC,...",
    help="Statistics of a column, in place of --column and --statistic, such as amount:mean,sum,p50 or "
    "rating:histogram[1,2,3]; repeat it for other columns. A value that is missing in one column leaves the metrics of "
    "the others alone.",
)
@click.option(
    "--statistic",
    type=click.Choice(list(STATISTICS)),
    default="mean",
    show_default=True,
    help="Statistic to keep. regression and logistic predict --target from the columns.",
)
@click.option("--target", "targets", multiple=True, help="Column to predict; for logistic its values are 0 and 1.")
@click.option("--edges", metavar="NUMBERS", help="Borders between the bins of a histogram, such as 0,10,20.")
@click.option(
    "--categories",
    metavar="NAMES",
    help="Names of the categories of shares, such as ok,failed; any other text counts as other. Default: the texts of "
    "at least 20 rows of the first file, at most 50.",
)
@click.option(
    "--half-life", type=float, help="Number of records after which a record counts half as much; for data that drift."
)
@click.option(
    "--retention",
    type=int,
    help="Number of records after which a record is erased. Default, with --max-age: no such limit.",
)
@click.option("--notice", type=int, help="Number of records after a removal request by which the record is erased.")
@click.option(
    "--max-age", type=parse_duration, metavar="DURATION", help="Age at which a record is erased, such as 30d or 12h."
)
@click.option(
    "--time",
    "time_column",
    metavar="COLUMN",
    help="Timestamp column used for --max-age, in UTC where a time has no zone; default: time of arrival.",
)
@click.option(
    "--time-unit",
    type=click.Choice(get_args(Unit)),
    help="Unit of timestamps that are plain numbers since 1970; default: inferred from their size.",
)
@click.option(
    "--max-ahead",
    type=parse_duration,
    metavar="DURATION",
    help="Refuse a record whose time is further than this ahead of the machine's clock; needs --max-age. Default: one "
    "day or a tenth of --max-age, whichever is less.",
)
@click.option(
    "--lateness",
    type=parse_duration,
    metavar="DURATION",
    help="How much older than an earlier row a row may be; rows that are later still are skipped and counted. Default: "
    "rows must be in the order of their times.",
)
@click.option(
    "--separator", metavar="CHARACTER", help="What separates the fields of CSV, such as ';' or tab.  [default: ,]"
)
@click.option("--decimal", type=click.Choice([".", ","]), help="Decimal point of numbers in CSV.  [default: .]")
@click.option(
    "--encoding", metavar="NAME", help="Encoding of CSV and NDJSON, such as cp1252 or utf-16.  [default: utf-8]"
)
@click.option(
    "--by",
    multiple=True,
    metavar="COLUMN",
    help="Column of keys, such as customers; one stream is kept for each key. Repeat it for a stream of each "
    "combination of keys, such as DE/web.",
)
@click.option(
    "--hash-keys",
    is_flag=True,
    help="Keep keyed hashes of the keys in place of the keys, with the key of the store; needs --by and --store.",
)
@click.option(
    "--store",
    "path",
    metavar="ADDRESS",
    help="Store that keeps the streams, such as the name of a file; created if it does not exist.",
)
@keyring_option
@click.option(
    "--stream", "name", help="Name of the stream in the store; with --by, a prefix of the keys.  [default: main]"
)
@click.option(
    "--subject",
    metavar="COLUMN",
    help="Column with the person a record is about, for removals; needs --store. A row may have none.",
)
@key_option
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
    "--if-moved",
    type=click.Choice(get_args(IfMoved)),
    default="refuse",
    show_default=True,
    help="What to do if SOURCE may be a file that was read before at another place, and no held row tells. same: it is "
    "that file; continue after the last row that was taken. new: it is another one; count it from its first row.",
)
@click.option(
    "--query",
    metavar="SELECT",
    help="Query whose rows to read, if SOURCE is a database; other options name its columns.",
)
@click.option(
    "--cursor",
    metavar="COLUMN",
    help="Column of --query that is larger in each later row and never the same twice: a whole number or a time, such "
    "as a primary key. Rows without one are not read.",
)
@click.option(
    "--settle",
    type=parse_duration,
    metavar="DURATION",
    help="How long rows of --query wait at least for rows with a smaller --cursor that are committed later; they also "
    "wait for the transactions that run.  [default: 1 s]",
)
@click.option(
    "--follow/--no-follow",
    default=None,
    help="Whether to wait for more rows at the end of a queue or a query, until interrupted.  [default: a queue is "
    "followed, a query is not]",
)
@click.option(
    "--trim",
    is_flag=True,
    help="Remove entries from the stream of a queue once they are committed, and all other groups have acknowledged "
    "them.",
)
@click.option(
    "--channel",
    type=click.Choice(sorted(CHANNELS)),
    default="auto",
    show_default=True,
    help="How the answer is encoded. average: as the average of the kept records. bits: in the choice of records. "
    "auto: as an average if that is accurate enough, else in bits.",
)
@click.option(
    "--standard-error",
    is_flag=True,
    help="Keep the variance of a mean too, so that it has a standard error; metrics and other statistics have theirs.",
)
@epsilon_option
@delta_option
@bound_option
@window_option
@click.option("--seed", type=int, help="Seed that makes the run reproducible; default: random.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with status 1 if a statistic restarted, missed its target or has no answer, or if rows came too late.",
)
@click.option("--json", "machine", is_flag=True, help="Print one JSON object.")
@config_option
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> None:
    """Stream SOURCE and print an all-time statistic.

    Options that are not given are read from vestige.toml in this folder, if it exists, so vestige run alone does the
    job that it describes; vestige init writes such a file. Its keys are SOURCE and the options, without dashes, and
    paths in it are relative to it. What is given here replaces what is there.

    SOURCE is a CSV, NDJSON or Parquet file, a folder of such files, a pattern in quotes such as 'visits*.csv', or -
    for CSV or NDJSON on standard input; or redis://HOST:PORT/DATABASE/STREAM, a stream of Redis, whose fields are
    columns; or postgresql://HOST/DATABASE, with --query and --cursor. Several files are read in the order of their
    first times if --time is given, otherwise in that of their names, in which numbers count as numbers. A row with a
    missing value in a column is skipped and counted; with --metric, it counts for the metrics whose columns it has. A
    row without a time or a key is skipped too; one without a subject is a record like others. true and false, in any
    case, are the numbers 1 and 0.

    With --store, the same command on the same SOURCE continues where it stopped, and counts each record once; another
    SOURCE adds to the stream. Without --column and --metric, or without any limit, the missing options are taken from
    the streams in the store. A file that was replaced is refused. Standard input is always read from its current
    position; while it is idle, records are still erased in time, and rows that have arrived are in the store within
    about a second.

    With --epsilon, noise hides each record once it is erased, with all its metrics; a person with several records or
    keys is not covered. The error is smaller the more records a batch has, which is half of --retention.

    \b
    Examples:
      vestige run flights.csv --column dep_delay --retention 512
      vestige run flights.csv --column dep_delay --retention 512 --by carrier --store delays.db
      vestige run visits.csv --column spent --retention 512 --by country --by channel --store visits.db
      vestige run visits.csv --column spent --max-age 30d --time at --subject email --store visits.db
      vestige run 'visits*.csv' --column spent --max-age 30d --time at --store visits.db
      vestige run flights.parquet --column dep_delay --column distance --retention 512 --json
      vestige run flights.csv --metric dep_delay:mean,moments --metric air_time:mean --retention 2048
      vestige run visits.csv --metric 'status:shares[ok,failed]' --metric spent:mean --retention 2048
      vestige run visits.csv --metric spent:mean,sum --epsilon 1 --bound spent=0:200 --retention 2000
      vestige run flights.csv --statistic regression --column distance --target air_time --retention 1024
      vestige run redis://localhost:6379/0/visits --column spent --retention 512 --store visits.db
      vestige run postgresql://localhost/shop --query "SELECT id, spent FROM visits" --cursor id --column spent
          --retention 512 --store visits.db
      zcat log.csv.gz | vestige run - --column latency --retention 1000
    """  # noqa: D301  # \b keeps the lines as they are
    completed, from_store = complete_options(ctx, given)
    for used in filter(None, (describe_use(ctx), from_store)):
        warn(used)
    options = RunOptions(**completed, recalled=tuple(part for part in DIALECT if not is_on_command_line(ctx, part)))
    with name_origins(ctx):
        options.check()
        paths = list_files(options.sources)
        policy = options.make_policy(find_undeclared(options, paths))
    kept: NamedPolicy = policy.unwrap()  # type: ignore[assignment]  # options and stores give no others
    categories = kept.name_categories(options.numbers)
    sources = [options.make_source(path, categories) for path in paths]
    options.make_stream(policy)  # errors in the limits are reported first, then those in the file
    if not isinstance(sources[0], FileSource):
        sources[0].check()
    elif sources[0].resumable:
        _check_begin(sources[0], kept, options)
    if sum(source.size or _SMALL for source in sources) >= _SMALL:
        _load_kernels(policy, kept)
    started = time.perf_counter()
    ingest, answers = _ingest(options, sources, policy)
    seconds = round(time.perf_counter() - started, 3)
    label = sources[0].name if len(paths) == 1 else format_count(len(paths), "file")
    _check_taken(label, options, ingest, answers)
    _report(options, policy, ingest, answers, {"files": len(paths), "seconds": seconds})
    check_troubles(label, ingest)
    end(has_error=bool(ingest.requests))  # they were reported when they failed
    if options.strict:
        if isinstance(answers, KeyedAnswers):
            answers.check_strict()
        else:
            check_strict(answers)
        check_late(ingest)


def _ingest(options: RunOptions, sources: Sequence[AnySource], policy: Policy) -> tuple[Ingest, Answers]:
    """Read the sources into streams, and ask each of them; a signal ends the program between two blocks."""
    opening: AbstractContextManager[Store | None] = (
        nullcontext() if options.store is None else options.store.open(create=True)
    )
    with opening as store, catch_signals() as caught:
        if store is not None and (put_back := store.find_rollback()) is not None:
            warn(f"Error: {put_back.text}; nothing was taken")
            end(has_error=True)
        if store is not None:
            check_by(store, options.about, options.name)
        if store is not None and options.by:
            check_hashed((terms.about for terms in store.list_terms()), options.about)
            check_keyed(store, replace(options.make_stream(policy).terms, about=options.about))
            if options.hash_keys:
                sources = [replace(source, hash_key=partial(hash_key, store.pseudonym)) for source in sources]
        names = StreamNames(options.keys, options.name)
        ingest = Ingest(
            sources[0],
            options.make_streams(policy, store) if options.by else partial(options.make_stream, policy, store),
            names,
            store,
            options.if_replaced,
            options.max_age,
            options.lateness,
            warn=warn,
            is_stopped=lambda: bool(caught),
            if_moved=options.if_moved,
        )
        ingest.settle_moves(sources)
        files = [source for source in sources if isinstance(source, FileSource)]
        _run_each(ingest, sources if len(sources) == 1 else _order_sources(ingest, files))
        if caught:
            end_by_signal(caught[0], ingest)
        if store is not None and options.max_age is not None:
            held_in = ingest.streams if isinstance(ingest.streams, KeyedStreams) else ingest.stream
            _warn_of_overdue(count_overdue(held_in, wall_clock()), options.max_age)
        if isinstance(ingest.streams, KeyedStreams):
            return ingest, KeyedAnswers(
                ingest.streams,
                names.find_key,
                options.numbers,
                options.max_age,
                has_requests=bool(ingest.streams.receipts),
            )
        return ingest, {"": StreamAnswer.from_stream(ingest.stream, options.numbers)}


def _warn_of_overdue(count: int, max_age: timedelta) -> None:
    if not count:
        return
    are, they = ("is", "it") if count == 1 else ("are", "they")
    them = "it" if count == 1 else "them"
    warn(
        f"{format_count(count, 'record')} {are} overdue: by this machine's clock, {they} {are} older than --max-age "
        f"{format_duration(max_age)}. The next vestige sweep erases {them}, and statistics that are held in {them} "
        "restart."
    )


def _order_sources(ingest: Ingest, sources: Sequence[FileSource]) -> tuple[FileSource, ...]:
    """Put several files in the order of time, and say so; those without new rows come first, since they add none."""
    new = list(sources)
    if ingest.store is not None:
        history = ingest.make_history()
        new = [source for source in sources if has_new_rows(source, history)]
    known = [source for source in sources if source not in new]
    timed = bool(new) and new[0].time is not None
    if timed and ingest.store is not None:  # their first times are read in the dialects of before
        new = [recall_dialect(source, find_progress(source, history)[1].identity) for source in new]
    ordered, last = split_by_time(new) if timed else (tuple(new), ())
    given = {source.path: source for source in sources}
    ordered, last = (tuple(given[source.path] for source in part) for part in (ordered, last))
    order = f"first times in {new[0].time}" if timed else "names"
    ends = f" in the order of their {order}: {ordered[0].path} to {ordered[-1].path}" if len(ordered) > 1 else ""
    if last:
        ends += f"; {format_count(len(last), 'file')} without a time {'comes' if len(last) == 1 else 'come'} last"
    were = "was read whole before, and has" if len(known) == 1 else "were read whole before, and have"
    unchanged = f"{format_count(len(known), 'file')} {were} no new rows. " if known else ""
    warn(f"{unchanged}Reading {format_count(len(new), 'file')}{ends}.")
    return (*known, *ordered, *last)


def _run_each(ingest: Ingest, sources: Sequence[AnySource]) -> None:
    """Read one file after the other; an error in one leaves those before it taken."""
    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with show_record_progress(total) as show:
        for number, source in enumerate(sources):
            offset = sum(size or 0 for size in sizes[:number])
            ingest.follow(source)
            try:
                ingest.run(lambda taken, position, offset=offset: show(taken, offset + position))  # type: ignore[misc]
            except SourceError as problem:
                if ingest.store is None or not number:
                    raise
                of_it = " of this file" if str(problem).endswith("nothing was taken") else ""
                raise SourceError(f"{problem}{of_it}; what the files before it had is taken and stays") from None
            if ingest.is_stopped():
                return


def _check_taken(label: str, options: RunOptions, ingest: Ingest, answers: Answers) -> None:
    """Raise an error if no record has arrived in any stream."""
    if ingest.troubles or (len(answers) if isinstance(answers, KeyedAnswers) else answers[""].t):
        return
    if ingest.removed:
        raise NoAnswerError(
            f"{label}: the records that were taken from it were removed meanwhile; there is nothing to answer from"
        )
    skipped = format_count(ingest.skipped, "row") + (f", {explain_keyless(ingest)}" if ingest.keyless else "")
    raise SourceError(
        f"{label}: no row has a value in each of {', '.join(options.numbers)} ({skipped}); nothing to answer from"
    )


def _report(
    options: RunOptions,
    policy: Policy,
    ingest: Ingest,
    answers: Answers,
    work: dict[str, Any],
) -> None:
    """Print the answers and what happened to the rows."""
    if options.machine:
        channel = policy.encoding.name if isinstance(policy, Encoded) else None
        facts = {
            "retention": options.retention,
            "half_life": getattr(policy.unwrap(), "half_life", None),
            "channel": channel,
            **collect_guarantee(policy, options.numbers),
        }
        counts = collect_facts(ingest) | work
        print_facts(options.kind, options.keys, answers, facts | counts, explain_before(ingest, work["files"]))
        return
    try:
        hashed = options.hash_keys and ", ".join(options.by)
        show_answers(hashed or options.keys, answers, options.limit)
        if guarantee := describe_guarantee(policy):
            say(guarantee)
    finally:
        print_notes(ingest, options.lateness, work["files"])


def _check_begin(source: FileSource, kept: NamedPolicy, options: RunOptions) -> None:
    """Raise an error if the first rows of a file cannot be read, unless a store may remember another dialect of it."""
    try:
        next(source.blocks(), None)
    except SourceError as problem:
        taken = "" if options.store is None else "; nothing was taken"
        if options.store is not None and source.recalled and _is_known(options.store, source.path):
            return
        raise SourceError(f"{problem}{explain_text(source, kept)}{taken}") from None


def _is_known(store: StoreOptions, path: str) -> bool:
    """Whether a store has read a file before."""
    try:
        return find_name(path, known := store.open_reader().sources()) in known
    except (StoreError, OSError):
        return False


def _load_kernels(policy: Policy, kept: NamedPolicy) -> None:
    """Compile or load the kernels before the time is measured; small files may need none of them."""
    rehearsal = Stream(policy, retention=2 * policy.min_batch, seed=AuditSeed(0))
    rehearsal.extend(kept.draw_rows(make_generator(0), 2 * rehearsal.batch + 1, 0.0))
    rehearsal.estimate()
