"""`vestige forget` and `vestige remove`: erase the records of people, and whole streams with their names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import click
import numpy as np

from vestige.cli.access import (
    add_ledger,
    choose_streams,
    dry_run_option,
    exit_with,
    hash_names,
    json_option,
    read_snapshot,
    read_streams,
    streams_option,
)
from vestige.cli.group import command, parse_duration
from vestige.cli.holder import perform, wait_option
from vestige.cli.output import SHOWN, format_count, list_some, print_json, say, show_table, warn
from vestige.cli.receipts import receipt_facts, show_receipts
from vestige.cli.store_options import StoreOptions, key_option, required_store_argument, store_argument
from vestige.cli.subjects import Subjects, read_subjects
from vestige.errors import ParameterError, StoreError
from vestige.operations import ForgetResult, RemoveResult
from vestige.operations import forget as forget_in
from vestige.operations import remove as remove_from
from vestige.operations.entry import FEW
from vestige.operations.removal import check_references, preview_forget
from vestige.records import Records
from vestige.store import Reader, Store, StoreSnapshot
from vestige.store.inbox import Request
from vestige.store.keys import EARLIER
from vestige.store.ledger import Ledger
from vestige.store.snapshot import UNNAMED

_BE = ("is", "are")
keep_option = click.option(
    "--keep-receipts",
    type=parse_duration,
    default="3y",
    show_default=True,
    metavar="DURATION",
    help="How long the receipts are kept after the erasure.",
)


@command.command()
@store_argument
@streams_option
@click.option(
    "--subject",
    "given",
    multiple=True,
    help="Subject whose records are to be erased; may be repeated. - reads a list from standard input.",
)
@click.option(
    "--subjects-from",
    "files",
    multiple=True,
    metavar="FILE",
    help="File with one subject per line, of which only the line break is stripped; - is standard input.",
)
@click.option(
    "--round", "rounds", type=int, multiple=True, help="Round of a record to erase; may be repeated; needs --stream."
)
@click.option(
    "--reference",
    "references",
    multiple=True,
    help="What you call the request, such as the number of a ticket, for its receipt. Give one for each --subject, in "
    "the same order, or one for --round.",
)
@click.option(
    "--with-references",
    is_flag=True,
    help="Each line of a list has a subject, a tab and the reference of the request.",
)
@keep_option
@click.option(
    "--now", "at_once", is_flag=True, help="Erase immediately instead of with the next update; may reduce accuracy."
)
@dry_run_option
@key_option
@wait_option
@json_option
def forget(
    store: StoreOptions,
    names: tuple[str, ...],
    given: tuple[str, ...],
    files: tuple[str, ...],
    rounds: tuple[int, ...],
    references: tuple[str, ...],
    *,
    with_references: bool,
    keep_receipts: timedelta,
    at_once: bool,
    dry_run: bool,
    wait: timedelta,
    machine: bool,
) -> None:
    """Request that records leave STORE.

    This prints a receipt for each subject. Without --stream, the request goes to all streams. If a line of a list
    cannot be read, nothing is done at all. Subjects of whom no record is held are counted, and named by their line;
    their receipts look the same.

    A request is met once all streams that were asked have had an update, or when it is due; vestige sweep and vestige
    run then confirm it in the receipt.

    If the policy of a stream is not one of Vestige's own, its records are erased immediately instead of with the next
    update, and its statistic may restart. If another process holds STORE, that process is asked to do this.

    \b
    Examples:
      vestige forget visits.db --subject ada@example.org --dry-run
      vestige forget visits.db --subject ada@example.org --reference T-123
      vestige forget visits.db --subjects-from leavers.txt --now
      vestige forget visits.db --stream main --round 1802
    """  # noqa: D301  # the sign says to leave the lines as they are
    if bool(given or files) == bool(rounds):
        raise ParameterError(
            "give either --subject or --subjects-from (whose records to erase), or --round (which records to erase)"
        )
    if rounds and len(names) != 1:
        raise ParameterError(
            f"--round {rounds[0]} needs one --stream, since rounds are counted in each stream separately"
        )
    reader = store.open_reader()
    names = hash_names(reader, names)
    people = read_subjects(given, files, () if rounds else references, with_references=with_references)
    marks = check_references(references or None if rounds else people.references, people.texts)
    if dry_run:
        _show_preview(reader, store, names, people, rounds, at_once=at_once, machine=machine)
        return

    earlier: list[str] = []

    def request() -> Request:
        with suppress(StoreError):  # a damaged ledger is for the process that holds the store to report
            earlier.extend(_find_earlier(reader.read_ledger(), marks))
        pseudonyms = tuple(map(reader.pseudonym, people.texts))
        return Request(
            "forget", pseudonyms, rounds, names or None, at_once, references=marks, keep_receipts=keep_receipts
        )

    def act(opened: Store) -> ForgetResult:
        earlier.extend(_find_earlier(opened.read_ledger(), marks))
        return forget_in(
            opened,
            people.texts,
            rounds=rounds,
            streams=names or None,
            now=at_once,
            references=marks,
            keep_receipts=keep_receipts,
        )

    done, attended = perform(store, ForgetResult, act, request, wait=wait)
    _show_removals(store, done, people, machine=machine)
    _warn_of_earlier(earlier)
    exit_with(done.troubles, attended)


def _find_earlier(ledger: Ledger, references: Sequence[str | None]) -> list[str]:
    """The references that are on receipts already, each once."""
    known = {receipt.reference for receipt in ledger.receipts}
    return [each for each in dict.fromkeys(references) if each is not None and each in known]


def _warn_of_earlier(references: Sequence[str]) -> None:
    """Say that requests were made before, as those of a list that is read every night."""
    if not references:
        return
    others = f", and so {_BE[len(references) > 2]} {format_count(len(references) - 1, 'other reference')}"
    warn(
        f"{references[0]} is on an earlier receipt{others if len(references) > 1 else ''}; such a request is made "
        "again, with a receipt of its own. A list should have new requests only."
    )


def _show_removals(store: StoreOptions, done: ForgetResult, people: Subjects, *, machine: bool) -> None:
    if machine:
        labels = people.labels or (None,)
        receipts = [
            {"subject": label} | receipt_facts(None, receipt)
            for label, receipt in zip(labels, done.receipts, strict=True)
        ]
        print_json({"receipts": receipts} | _collect_facts(done, people))
        return
    show_receipts((None, receipt) for receipt in done.receipts[:SHOWN])
    if len(done.receipts) > SHOWN:
        say(f"... and {len(done.receipts) - SHOWN:,} more; --json prints them all.")
    for line in _summarize(store, done, people):
        say(line)


def _collect_facts(done: ForgetResult, people: Subjects) -> dict[str, object]:
    return {
        "subjects": len(people.texts),
        "unknown": [people.labels[place] for place in done.unknown],
        "empty_lines": people.empty,
        "restarted": list(done.restarted),
        "troubles": dict(done.troubles),
    }


def _summarize(store: StoreOptions, done: ForgetResult, people: Subjects, restart: str = "restart") -> Sequence[str]:
    lines, unknown = [], [people.labels[place] for place in done.unknown]
    total = len(people.texts)
    found = "was found" if done.troubles else "is held"
    if total == 1 and unknown:
        lines.append(f"No record of this subject {found} in {store}.")
    elif unknown:
        lines.append(f"{total:,} subjects; of {len(unknown):,} no record {found} in {store}{list_some(unknown)}.")
    elif total > 1:
        lines.append(f"{total:,} subjects.")
    if any(
        set(",;\t") & set(people.texts[place]) and people.labels[place].startswith("line") for place in done.unknown
    ):
        lines.append(
            "Each line is read as one subject: of a table, such as a CSV file, give the column of the subjects only."
        )
    if people.empty:
        lines.append(f"Skipped: {format_count(people.empty, 'empty line')}.")
    if done.restarted:
        lines.append(f"Statistics that {restart}: {len(done.restarted):,}{list_some(done.restarted)}.")
    return lines


def _show_preview(
    reader: Reader,
    store: StoreOptions,
    names: tuple[str, ...],
    people: Subjects,
    rounds: tuple[int, ...],
    *,
    at_once: bool,
    machine: bool,
) -> None:
    """Show what a request would erase, from a snapshot."""
    marks = tuple(map(reader.pseudonym, people.texts))
    copy = _read_concerned(reader, store, names, marks)
    _warn_of_earlier(_find_earlier(copy.ledger, people.references))
    asked = [name for name in names if name in copy.streams] or None
    done = (
        preview_forget(copy.streams, marks, rounds=rounds, streams=asked, now=at_once)
        if copy.streams
        else ForgetResult()
    )
    done = replace(done, troubles={**copy.troubles, **done.troubles})
    going = {name: _select(state.retained, set(marks), rounds) for name, (_, state) in copy.streams.items()}
    plain = {
        name: [{"round": number, "time": when} for number, when in _list_times(records)]
        for name, records in going.items()
        if len(records) or names
    }
    if machine:
        print_json({"records": plain} | _collect_facts(done, people))
    else:
        say(f"{format_count(sum(map(len, plain.values())), 'record')} would be erased. Nothing was changed.")
        rows = [(name, str(r["round"]), str(r["time"] or "-")) for name, found in plain.items() for r in found]
        if rows:
            show_table(("stream", "round", "time"), rows, words=("time",))
        for line in _summarize(store, done, people, "would restart"):
            say(line)
    exit_with(done.troubles)


def _read_concerned(reader: Reader, store: StoreOptions, names: tuple[str, ...], marks: Sequence[str]) -> StoreSnapshot:
    """The streams that a request is about: those that were named; else all, or in a large store those of the index."""
    if names or reader.count() <= FEW:
        return read_snapshot(store, names, has_ledger=True)
    found = set[str]().union(*reader.find_subjects([*marks, EARLIER]).values())
    copy = read_streams(reader, sorted(found))
    wrong = dict.fromkeys(reader.survey(limit=0)[1], UNNAMED)
    return add_ledger(reader, replace(copy, troubles={**wrong, **copy.troubles}))


def _select(records: Records, marks: set[str], rounds: tuple[int, ...]) -> Records:
    return records.where(
        np.array([who in marks for who in records.subjects], np.bool_) | np.isin(records.rounds, rounds)
    )


def _list_times(records: Records) -> Sequence[tuple[int, str | None]]:
    times = [None if np.isnat(time) else f"{np.datetime_as_string(time)}Z" for time in records.times]
    return list(zip(records.rounds.tolist(), times, strict=True))


@command.command()
@required_store_argument
@key_option
@click.option("--stream", "names", multiple=True, required=True, help="Name of a stream to erase; may be repeated.")
@wait_option
@json_option
def remove(store: StoreOptions, names: tuple[str, ...], *, wait: timedelta, machine: bool) -> None:
    """Erase whole streams of STORE, their names included.

    All data of the streams is erased: records, positions, receipts and the name. There is no confirmation. If another
    process holds STORE, that process is asked to do this.

    The sources of the streams still have their rows: the same vestige run would read them all again. Delete them from
    the source first.

    \b
    Example:
      vestige remove visits.db --stream main
    """  # noqa: D301  # the sign says to leave the lines as they are
    wanted = choose_streams(store.open_reader(), names, store)
    done, attended = perform(
        store,
        RemoveResult,
        lambda opened: remove_from(opened, wanted),
        lambda: Request("remove", streams=wanted),
        wait=wait,
    )
    gone = [wanted[place] for place in done.streams]
    if machine:
        print_json({"removed": gone, "troubles": dict(done.troubles)})
    elif gone:
        say(f"{format_count(len(gone), 'stream')} removed from {store}, name included{list_some(gone)}.")
        say("If their sources still have the rows, another run reads them all again; delete them there first.")
    else:
        say(f"No stream was removed from {store}.")
    exit_with(done.troubles, attended)
