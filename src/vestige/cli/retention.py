"""`vestige sweep`: what is due is erased from every stream, or is only shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from vestige.cli.access import (
    at_option,
    dry_run_option,
    exit_with,
    json_option,
    read_snapshot,
    read_streams,
)
from vestige.cli.group import command
from vestige.cli.holder import perform, wait_option
from vestige.cli.output import SHOWN, announce_if_slow, format_count, list_some, print_json, say, show_table
from vestige.cli.store_options import StoreOptions, key_option, store_argument
from vestige.operations import Erasure, InboxResult, SweepResult, preview
from vestige.operations import sweep as sweep_through
from vestige.operations.entry import FEW
from vestige.store import StoreSnapshot
from vestige.store.inbox import Request
from vestige.store.snapshot import UNNAMED
from vestige.times import wall_clock


@command.command()
@store_argument
@key_option
@at_option
@dry_run_option
@wait_option
@json_option
def sweep(store: StoreOptions, at: datetime | None, *, dry_run: bool, wait: timedelta, machine: bool) -> None:
    """Erase what is due in STORE.

    No new record has to arrive for this. Expired receipts are deleted too, and the store is tidied. Let a scheduler run
    it every eighth of --max-age, or more often. If another process holds STORE, that process is asked to do this.

    The age of a record counts from its own time: history that was loaded later may be overdue as a whole, and then all
    of it is erased. --dry-run shows what would be erased, and which statistics would restart.

    A problem with one stream never delays the others: the stream is named, and the exit status is 2. What is due is
    erased even if the policy of a stream is not one of Vestige's own; its statistic then restarts.

    \b
    Example, in a crontab:
      0 3 * * *  vestige sweep /var/lib/visits.db
    """  # noqa: D301  # the sign says to leave the lines as they are
    if dry_run:
        copy, attended = _read_due(store, at), InboxResult()
        done = preview(copy.streams, at)
        done = replace(done, troubles={**done.troubles, **copy.troubles})
    else:
        done, attended = perform(
            store,
            SweepResult,
            lambda opened: sweep_through(opened, at),
            lambda: Request("sweep", at=at),
            wait=wait,
        )
    if machine:
        erased = {name: erasure.erased for name, erasure in done.streams.items()}
        closed = [name for name, erasure in done.streams.items() if erasure.closed]
        troubles = dict(done.troubles)
        facts = {"erased": erased, "restarted": list(done.restarted), "closed": closed, "troubles": troubles}
        if dry_run:
            facts["undecided"] = {name: done.streams[name].undecided for name in closed}
        print_json(facts)
    else:
        there = store.open_reader().count()
        _show_erasures(store, done, there if there > FEW else len(done.streams), dry_run=dry_run)
    exit_with(done.troubles, attended)


def _read_due(store: StoreOptions, at: datetime | None) -> StoreSnapshot:
    """The streams that a sweep looks at: all, or in a large store those in which something is due."""
    reader = store.open_reader()
    if reader.count() <= FEW:
        return read_snapshot(store)
    with announce_if_slow(f"Reading {store} ..."):
        now = wall_clock()
        found = [reader.find_due(moment) for moment in {at or now, max(at or now, now)}]
        copy = read_streams(reader, sorted({name for names, _ in found for name in names}))
    return replace(copy, troubles={**dict.fromkeys(found[0][1], UNNAMED), **copy.troubles})


def _show_erasures(store: StoreOptions, done: SweepResult, there: int, *, dry_run: bool) -> None:
    """Show what was erased, or would be, from so many streams."""
    losing = sum(erasure.erased > 0 for erasure in done.streams.values())
    erased, streams = format_count(done.erased, "record"), f"{losing:,} of {format_count(there, 'stream')}"
    if not dry_run:
        what = "store" if store.file is None else "file"
        order = "is tidy" if done.tidy else "could not be tidied, because a stream cannot be read"
        say(f"{erased} erased from {streams}; the {what} {order}.")
    else:
        least = more = ""
        if closing := sum(erasure.closed for erasure in done.streams.values()):
            chosen = f"{format_count(done.undecided, 'record')} of {format_count(closing, 'stream')}"
            least, more = "At least ", f", and about half or more of the {chosen} whose batch would be closed early"
        say(f"{least}{erased} would be erased from {streams}{more}. Nothing was changed.")
        touched = {name: erasure for name, erasure in done.streams.items() if erasure.erased or erasure.closed}
        rows = [
            (name, f"{erasure.erased:,}", _describe_consequence(erasure))
            for name, erasure in list(touched.items())[:SHOWN]
        ]
        if rows:
            show_table(("stream", "would be erased", "and then"), rows, words=("and then",))
        if len(touched) > SHOWN:
            say(f"... and {len(touched) - SHOWN:,} more; --json prints them all.")
    if done.restarted:
        restart = "would restart" if dry_run else "restart"
        say(
            f"Statistics that {restart}: {len(done.restarted):,}{list_some(done.restarted)}; their records were due "
            "before the statistics could be written again."
        )


def _describe_consequence(erasure: Erasure) -> str:
    said = ["the statistic restarts"] if erasure.restarted else []
    if erasure.closed:
        others = format_count(erasure.undecided, "other record")
        said.append(f"its batch is closed early, and half or more of {others} are erased")
    return "; ".join(said) or "-"
