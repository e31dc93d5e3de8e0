"""The commands that read a store: list, estimate, retained, verify.

A stream that cannot be read is named in its row; the others are shown, and the exit status is 1.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

import click
import numpy as np

from vestige.cli.access import (
    at_option,
    choose_streams,
    exit_with,
    json_option,
    read_snapshot,
    store_argument,
    streams_option,
)
from vestige.cli.answers import StreamAnswer, check_strict, show_many
from vestige.cli.config import find_files
from vestige.cli.group import command
from vestige.cli.output import announce_if_slow, escape, print_json, say, show_table
from vestige.cli.rows import FORMATS, check_output, check_sources, list_rows, write_rows
from vestige.errors import NoAnswerError, ParameterError, SourceError, StoreError, VestigeError
from vestige.ingest import StreamNames, verify_sources
from vestige.ingest.names import read_by
from vestige.policy import count_waiting
from vestige.records import Records
from vestige.serialization import from_dict
from vestige.sources.comparison import UNCHECKED
from vestige.sources.identity import FileIdentity
from vestige.sources.listing import list_files
from vestige.sources.positions import decode_position
from vestige.store import Reader, State, StoreSnapshot, Terms, open_reader
from vestige.stream import copy_stream
from vestige.stream.frames import find_names
from vestige.times import format_duration

_UNREADABLE = "cannot be read"


@command.command("list")
@store_argument
@json_option
def list_streams(store: str, *, machine: bool) -> None:
    """Show the streams in STORE and their limits.

    arrived: number of records that have ever arrived; since: the first record that the statistic counts, 1 unless it
    restarted; held: number of records that STORE holds now.

    \b
    Example:
      vestige list visits.db
    """  # noqa: D301  # the sign says to leave the lines as they are
    copy = read_snapshot(store)
    facts = {name: _collect_facts(terms, state) for name, (terms, state) in copy.streams.items()}
    if machine:
        print_json(facts | {name: {"problem": text} for name, text in copy.troubles.items()})
    else:
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
        rows += [(name, _UNREADABLE, *("-",) * (len(header) - 2)) for name in copy.troubles]
        show_table(header, sorted(rows), words=("policy",))
    exit_with(copy.troubles)


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
    ctx: click.Context, store: str, names: tuple[str, ...], *, strict: bool, form: str, out: str | None
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
    check_output(form, out, store)
    whole = read_snapshot(store)
    copy = whole.select(choose_streams(whole, names, store)) if names else whole
    if out is not None:
        _refuse_sources(ctx, out, whole)
    made, unanswered = answer_streams(copy)
    if form != "table":
        write_rows(list_rows(made | unanswered), form, out)
    elif len(made) == 1 and not unanswered:
        ((name, asked),) = made.items()
        terms, _ = copy.streams[name]
        asked.show(_describe_limit(terms))
    elif made:
        show_many(*_label_streams(copy, made | unanswered), "--format json")
    elif not unanswered:
        raise NoAnswerError(f"{store}: there is no stream yet; vestige run --store {store} makes one")
    exit_with({name: asked.problem for name, asked in unanswered.items()})
    if strict:
        check_strict(made)
    if made and all(asked.estimate is None for asked in made.values()):
        raise NoAnswerError(f"{store}: no stream has an answer: {next(iter(made.values())).problem}")


def _refuse_sources(ctx: click.Context, out: str, snapshot: StoreSnapshot) -> None:
    """Refuse to overwrite a file that runs read."""
    read = {source for _, state in snapshot.streams.values() for source in state.positions}
    config, named = find_files(ctx)
    for source in named:
        with suppress(SourceError, OSError):  # such as a pattern that no file fits
            read.update(list_files([source]))
    check_sources(out, read, [config])


def answer_streams(copy: StoreSnapshot) -> tuple[dict[str, StreamAnswer], dict[str, StreamAnswer]]:
    """Query all streams of a snapshot: those that can be queried, and those that cannot, with what is wrong."""
    made, troubles = {}, dict(copy.troubles)
    for name, (terms, state) in copy.streams.items():
        try:
            made[name] = _answer(terms, state)
        except VestigeError as problem:
            troubles[name] = str(problem)
    return made, {name: _make_unanswered(copy, name, text) for name, text in troubles.items()}


def _label_streams(
    copy: StoreSnapshot, answers: dict[str, StreamAnswer]
) -> tuple[str | tuple[str, ...], dict[str, StreamAnswer]]:
    """The columns that name the streams, and the answers by their keys: those of several --by, if all have the same."""
    abouts = [copy.streams[name][0].about if name in copy.streams else {} for name in answers]
    terms = {(read_by(about), about.get("stream"), bool(about.get("hash_keys"))) for about in abouts}
    ((by, prefix, hashed), *others) = terms
    if others or hashed or not isinstance(by, tuple):
        return "stream", answers
    names = StreamNames(by, None if prefix is None else str(prefix))
    return by, {names.find_key(name): answer for name, answer in answers.items()}


def _describe_limit(terms: Terms) -> str:
    if terms.retention is not None:
        return f"limit {terms.retention}"
    return "no limit in records" if terms.max_age is None else f"limit {format_duration(terms.max_age)}"


def _make_unanswered(copy: StoreSnapshot, name: str, problem: str) -> StreamAnswer:
    """A stream that has no answer, with what is known about it."""
    if name not in copy.streams:
        return StreamAnswer(0, 1, 0, problem=problem)
    state = copy.streams[name][1]
    clock = state.clock
    return StreamAnswer(clock.t, clock.since, clock.encoded + count_waiting(clock, state.retained), problem=problem)


def _answer(terms: Terms, state: State) -> StreamAnswer:
    stream = copy_stream(terms, state)
    return StreamAnswer.from_stream(stream, stream.column_names)


def _read_texts(value: object) -> Iterator[str]:
    yield from (str(text) for text in value) if isinstance(value, list) else ()


@command.command()
@store_argument
@streams_option
@json_option
def retained(store: str, names: tuple[str, ...], *, machine: bool) -> None:
    """Export the records that STORE holds.

    The records and their values are printed as CSV, or as one JSON object per line. STORE holds nothing else of the
    records that arrived. Subjects are printed as pseudonyms.

    \b
    Example:
      vestige retained visits.db --stream main
    """  # noqa: D301  # the sign says to leave the lines as they are
    copy = read_snapshot(store, names)
    width = max((terms.columns for terms, _ in copy.streams.values()), default=0)
    labels = {tuple(list_labels(terms)) for terms, _ in copy.streams.values()}
    header = list(labels.pop()) if len(labels) == 1 else [f"value_{i + 1}" for i in range(width)]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    on_paper = escape if sys.stdout.isatty() else str
    if not machine:
        writer.writerow(["stream", "round", "time", "subject", "leaving", *map(on_paper, header)])
    for name, (terms, state) in copy.streams.items():
        named = list_labels(terms)
        for number, when, who, leaving, values in _iterate_records(state.retained):
            if machine:
                fields = dict(zip(named, values, strict=True))
                print_json({"stream": name, "round": number, "time": when, "subject": who, "leaving": leaving} | fields)
            else:
                writer.writerow([on_paper(name), number, when or "", who or "", int(leaving), *map(repr, values)])
    exit_with(copy.troubles)


def list_labels(terms: Terms) -> list[str]:
    """Name the values of a record of a stream: by its columns, or value_1 and so on if they are not known."""
    named = [*_read_texts(terms.about.get("columns")), *_read_texts(terms.about.get("targets"))]
    with suppress(VestigeError):  # a policy that cannot be made again
        named = list(find_names(from_dict(terms.policy), terms.about)) or named
    return named if len(named) == terms.columns else [f"value_{i + 1}" for i in range(terms.columns)]


def _iterate_records(records: Records) -> Iterator[tuple[int, str | None, str | None, bool, list[float]]]:
    for i, number in enumerate(records.rounds.tolist()):
        when = None if np.isnat(records.times[i]) else f"{np.datetime_as_string(records.times[i])}Z"
        yield number, when, records.subjects[i], bool(records.leaving[i]), records.values[i].tolist()


@command.command("verify")
@store_argument
@at_option
@click.option(
    "--canary", "texts", multiple=True, help="Text that must not occur in any file of STORE; may be repeated."
)
@click.option(
    "--canary-hex", "codes", multiple=True, help="Bytes, in hexadecimal, that must not occur in any file of STORE."
)
@json_option
def verify_store(
    store: str, at: datetime | None, texts: tuple[str, ...], codes: tuple[str, ...], *, machine: bool
) -> None:
    """Check that nothing is left in STORE that should be gone.

    This checks the limits, the file, every unused byte, canaries, and whether the sources are still the same files and
    contain the held rows unchanged. STORE may be in use. The exit status is 1 if anything is found. Only files are
    checked, not the device, its snapshots or backups.
    """
    try:
        canaries = [text.encode() for text in texts] + [bytes.fromhex(code) for code in codes]
    except ValueError:
        raise ParameterError("--canary-hex is not hexadecimal; write bytes such as 0f1e2d") from None
    with announce_if_slow(f"Verifying {store} ..."):
        reader = open_reader(store)
        found = reader.verify(at=at, canaries=canaries)
        changed, gone = _check_sources(reader)
        found += changed
    if machine:
        print_json({"findings": list(found)} | ({"notes": list(gone)} if gone else {}))
    else:
        for text in found + _summarize_notes(gone):
            click.echo(escape(text))
        if not found:
            say(f"{store}: nothing found; limits, pragmas, pages and files are as they should be.")
    if found:
        sys.exit(1)


def _summarize_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """The notes for people: those of files of which no record is held are one, since there are more every night."""
    unchecked = [note for note in notes if note.endswith(UNCHECKED)]
    if len(unchecked) < 2:
        return notes
    summary = (
        f"{len(unchecked):,} sources were read before, but no record of them is held, so whether they were replaced "
        "could not be checked; --json names them."
    )
    return (*(note for note in notes if note not in unchecked), summary)


def _check_sources(reader: Reader) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sources that changed, and those that are gone; neither if the store cannot be read, as `verify` says."""
    try:
        snapshot = reader.snapshot()
    except StoreError:
        return (), ()
    try:
        reader.pseudonym("")
    except StoreError:
        return verify_sources(snapshot.streams)
    return verify_sources(snapshot.streams, reader.pseudonym)
