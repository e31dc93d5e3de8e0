"""The commands that read a store: list, estimate, retained.

A stream that cannot be read is named in its row; the others are shown, and the exit status is 2.
"""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any

import click
import numpy as np

from vestige.cli.access import (
    exit_with,
    json_option,
    list_terms,
    read_snapshot,
    read_streams,
    streams_option,
)
from vestige.cli.config import find_files
from vestige.cli.group import command
from vestige.cli.output import (
    announce_if_slow,
    escape,
    format_count,
    print_json,
    protect_cell,
    say,
    show_progress,
    show_table,
)
from vestige.cli.rows import FORMATS, Row, check_output, check_sources, write_rows
from vestige.cli.store_answers import StoreAnswers
from vestige.cli.store_options import StoreOptions, key_option, store_argument
from vestige.errors import NoAnswerError, SourceError, VestigeError
from vestige.policy import list_values
from vestige.records import Records
from vestige.serialization import from_dict
from vestige.sources.identity import FileIdentity
from vestige.sources.listing import list_files
from vestige.sources.positions import decode_position
from vestige.store import State, StoreSnapshot, Terms
from vestige.store.snapshot import UNNAMED
from vestige.stream.frames import find_names
from vestige.times import format_duration
from vestige.whole_numbers import to_plain

_UNREADABLE = "cannot be read"
_TELL_EACH = 100
"""Number of streams after which progress is shown."""


@command.command("list")
@store_argument
@click.option("--after", metavar="NAME", help="Only show streams after this name, in the order of names.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Number of streams to show at most."
)
@json_option
def list_streams(store: StoreOptions, after: str | None, limit: int, *, machine: bool) -> None:
    """Show the streams in STORE and their limits.

    arrived: number of records that have ever arrived; since: the first record that the statistic counts, 1 unless it
    restarted; held: number of records that STORE holds now.

    The streams are shown in the order of their names, 50 at a time; --after continues after the last one that was
    shown. Only these are read, so that a store of a million streams is listed as fast as a small one. With --json,
    "total" is the number of all streams, and "next" is what to give as --after, or null after the last page.

    \b
    Examples:
      vestige list visits.db
      vestige list visits.db --after shop/4711 --limit 200
    """  # noqa: D301  # the sign says to leave the lines as they are
    reader = store.open_reader()
    with announce_if_slow(f"Reading {store} ..."):
        names, wrong = reader.survey(after, limit + 1)
        copy, total = read_streams(reader, names[:limit]), reader.count()
    following = names[limit - 1] if len(names) > limit else None
    troubles = {**copy.troubles, **dict.fromkeys(wrong, UNNAMED)}
    facts = {name: _collect_facts(terms, state) for name, (terms, state) in copy.streams.items()}
    if machine:
        listed = facts | {name: {"problem": text} for name, text in troubles.items()}
        print_json({"streams": listed, "total": total, "next": following})
    else:
        _show_streams(copy, facts, troubles)
        if total > len(names[:limit]):
            more = "" if following is None else f"; --after {shlex.quote(following)} shows the next"
            say(f"{len(names[:limit]):,} of {format_count(total, 'stream')}{more}")
    exit_with(troubles)


def _show_streams(copy: StoreSnapshot, facts: Mapping[str, Mapping[str, object]], troubles: Iterable[str]) -> None:
    """Print a table of streams and their limits."""
    header = ("stream", "policy", "arrived", "since", "held", "retention", "max age", "open requests")
    rows: list[tuple[str, ...]] = [
        (
            name,
            str(fact["policy"]).removeprefix("vestige."),
            f"{fact['t']:,}",
            f"{fact['since']:,}",
            f"{fact['held']:,}",
            _format_or_dash(fact["retention"]),
            _format_or_dash(None if (age := copy.streams[name][0].max_age) is None else format_duration(age)),
            f"{fact['open_requests']}",
        )
        for name, fact in facts.items()
    ]
    rows += [(name, _UNREADABLE, *("-",) * (len(header) - 2)) for name in troubles]
    show_table(header, sorted(rows), words=("policy",))


def _collect_facts(terms: Terms, state: State) -> dict[str, object]:
    return {
        "policy": terms.policy["name"],
        "parameters": terms.policy["parameters"],
        "about": dict(terms.about),
        "t": state.clock.t,
        "since": state.clock.since,
        "held": len(state.retained),
        "retention": terms.retention,
        "notice": terms.notice,
        "max_age": None if terms.max_age is None else terms.max_age.total_seconds(),
        "open_requests": sum(receipt.erased is None for receipt in state.receipts),
        "sources": {name: _count_rows(position.value) for name, position in state.positions.items()},
    }


def _count_rows(position: bytes) -> int | None:
    """The rows that were read of a file; None for another source, whose positions only that source can read."""
    rows, identity = decode_position(position)
    return None if FileIdentity.decode(identity) is None else rows


def _format_or_dash(value: object) -> str:
    return "-" if value is None else str(value)


@command.command()
@store_argument
@key_option
@streams_option
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with status 1 if a statistic restarted, missed its target or has no answer.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="json, csv and parquet have one row for each stream and number, with its standard error.",
)
@click.option("--out", metavar="FILE", help="File to write json, csv or parquet to; default: standard output.")
@click.pass_context
def estimate(
    ctx: click.Context, store: StoreOptions, names: tuple[str, ...], *, strict: bool, form: str, out: str | None
) -> None:
    """Print the answers in STORE.

    They are all-time answers. If a statistic restarted, because its records were due before it could be written again,
    the answer says since which record it counts.

    \b
    Examples:
      vestige estimate visits.db
      vestige estimate visits.db --stream main --strict
      vestige estimate visits.db --format json
    """  # noqa: D301  # the sign says to leave the lines as they are
    check_output(form, out, store.files)
    copy = read_snapshot(store, names)
    if out is not None:
        _refuse_sources(ctx, out, store.open_reader().sources())
    with announce_if_slow("Answering ..."):
        answers = StoreAnswers.ask(copy)
    if form != "table":
        with show_progress("Writing answers") as tell:
            write_rows(_report_progress(answers.iterate_rows(), len(answers), tell), form, out)
    elif len(answers) == 1 and not answers.unanswered and answers.asked:
        ((name, asked),) = answers.asked.items()
        asked.show(_describe_limit(copy.streams[name][0]))
    elif len(answers):
        with announce_if_slow("Answering ..."):
            answers.show("--format json")
    elif not answers.unanswered:
        raise NoAnswerError(f"{store}: there is no stream yet; vestige run --store {store} makes one")
    exit_with(answers.troubles)
    if problem := answers.problem:
        raise NoAnswerError(f"{store}: no stream has an answer: {problem}")
    if strict:
        with announce_if_slow("Answering ..."):
            tally = answers.examine()
        tally.check_strict()


def _report_progress(rows: Iterator[Row], streams: int, tell: Callable[[float], None]) -> Iterator[Row]:
    """The same rows; tells now and then which share of the streams is done."""
    done, last = 0, None
    for row in rows:
        if row["stream"] != last:
            done, last = done + 1, row["stream"]
            if not done % _TELL_EACH:
                tell(min(done / streams, 1.0))
        yield row


def _refuse_sources(ctx: click.Context, out: str, sources: Iterable[str]) -> None:
    """Refuse to overwrite a file that runs read."""
    read = set(sources)
    config, named = find_files(ctx)
    for source in named:
        with suppress(SourceError, OSError):  # such as a pattern that no file fits
            read.update(list_files([source]))
    check_sources(out, read, [config])


def _describe_limit(terms: Terms) -> str:
    if terms.retention is not None:
        return f"limit {terms.retention}"
    return "no limit in records" if terms.max_age is None else f"limit {format_duration(terms.max_age)}"


def _read_texts(value: object) -> Iterator[str]:
    yield from (str(text) for text in value) if isinstance(value, list) else ()


@command.command()
@store_argument
@key_option
@streams_option
@json_option
def retained(store: StoreOptions, names: tuple[str, ...], *, machine: bool) -> None:
    """Export the records that STORE holds.

    The records and their values are printed as CSV, or as one JSON object per line. STORE holds nothing else of the
    records that arrived. Subjects are printed as pseudonyms.

    \b
    Example:
      vestige retained visits.db --stream main
    """  # noqa: D301  # the sign says to leave the lines as they are
    copy = read_snapshot(store, names)
    known = list_terms(copy)
    labels = {tuple(list_labels(terms)) for terms in known}
    width = max((terms.columns for terms in known), default=0)
    header = list(labels.pop()) if len(labels) == 1 else [f"value_{i + 1}" for i in range(width)]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    on_paper = escape if sys.stdout.isatty() else protect_cell
    if not machine:
        writer.writerow(["stream", "round", "time", "subject", "leaving", *map(on_paper, header)])
    with nullcontext(_say_nothing) if sys.stdout.isatty() else show_progress("Writing records") as tell:
        for place, (name, (terms, state)) in enumerate(copy.streams.items()):
            if machine:
                _print_records(name, terms, state.retained)
            else:
                shown = on_paper(name)
                writer.writerows(
                    [shown, number, when or "", who or "", int(leaving), *map(_write, values)]
                    for number, when, who, leaving, values in _iterate_records(terms, state.retained)
                )
            if not place % _TELL_EACH:
                tell(place / len(copy.streams))
    exit_with(copy.troubles)


def _write(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _say_nothing(_: float) -> None:
    """On a terminal, the records themselves show how far it is."""


def _print_records(name: str, terms: Terms, records: Records) -> None:
    """Print records as JSON, one object per line."""
    labels = list_labels(terms)
    for number, when, who, leaving, values in _iterate_records(terms, records):
        fields = dict(zip(labels, map(to_plain, values), strict=True))
        print_json({"stream": name, "round": number, "time": when, "subject": who, "leaving": leaving} | fields)


def list_labels(terms: Terms) -> list[str]:
    """Name the values of a record of a stream: by its columns, or value_1 and so on if they are not known."""
    named = [*_read_texts(terms.about.get("columns")), *_read_texts(terms.about.get("targets"))]
    with suppress(VestigeError):  # a policy that cannot be made again
        named = list(find_names(from_dict(terms.policy), terms.about)) or named
    return named if len(named) == terms.columns else [f"value_{i + 1}" for i in range(terms.columns)]


def find_values(terms: Terms, records: Records) -> list[list[Any]]:
    """Find the values of records of a stream as they came; as they are held if its policy cannot be made again."""
    with suppress(VestigeError):
        return list_values(from_dict(terms.policy), records)
    held: list[list[Any]] = records.values.tolist()
    return held


def _iterate_records(terms: Terms, records: Records) -> Iterator[tuple[int, str | None, str | None, bool, list[Any]]]:
    times = [None if text == "NaT" else f"{text}Z" for text in np.datetime_as_string(records.times).tolist()]
    rounds, subjects, leaving = (each.tolist() for each in (records.rounds, records.subjects, records.leaving))
    return zip(rounds, times, subjects, leaving, find_values(terms, records), strict=True)
