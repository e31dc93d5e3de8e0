"""`vestige export`: the command, and how it says that a copy of records is outside what the store promises.

Guarantee: only an earlier export is overwritten, and no file is left half made; held by tests/test_cli_export.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from vestige.cli.access import exit_with, json_option, read_snapshot, streams_option
from vestige.cli.export.contents import Contents
from vestige.cli.export.databases import Database, DuckdbDatabase, SqliteDatabase
from vestige.cli.group import command
from vestige.cli.output import announce_if_slow, format_count, format_time, print_json, say, show_progress, to_iso
from vestige.cli.signals import catch_signals
from vestige.cli.store_options import StoreOptions, key_option, store_argument
from vestige.errors import ParameterError, StoreError
from vestige.store.paths import append_ending, resolve_path
from vestige.times import wall_clock


@command.command("export")
@store_argument
@key_option
@click.option("--sqlite", metavar="FILE", help="SQLite database to make.")
@click.option("--duckdb", metavar="FILE", help="DuckDB database to make; needs the extra duckdb.")
@streams_option
@click.option("--replace", is_flag=True, help="Replace FILE if it is an earlier export.")
@json_option
def export(
    store: StoreOptions, sqlite: str | None, duckdb: str | None, names: tuple[str, ...], *, replace: bool, machine: bool
) -> None:
    """Copy STORE into a database for SQL.

    The tables are streams, estimates, receipts and records; the table about says what each column means. STORE is only
    read, and may be in use.

    FILE holds records, and STORE no longer erases them there: no limit and no removal request reaches FILE. Delete it
    by the date that is printed, or when a person in it asks to be erased; then export again.

    Only you can read FILE. A stream that cannot be read is named, all others are copied, and the exit status is 2.

    \b
    Examples:
      vestige export visits.db --sqlite visits-copy.sqlite
      vestige export visits.db --duckdb visits-copy.duckdb --replace
    """  # noqa: D301  # the sign says to leave the lines as they are
    targets = _check_targets(store, sqlite, duckdb, replace=replace)
    now, copy = wall_clock(), read_snapshot(store, names, has_ledger=True)
    with catch_signals() as caught:
        with announce_if_slow(f"Copying {store} ..."):
            contents = Contents(copy, now)
        for path, database in targets.items():
            with show_progress(f"Writing {path.name}") as tell:
                database.write(path, contents.iterate(tell))
    if machine:
        _print_facts(list(targets), contents)
    else:
        _show(list(targets), contents, now)
    if caught:
        sys.exit(128 + caught[0])
    if copy.ledger_trouble:
        raise StoreError(copy.ledger_trouble)
    exit_with(contents.troubles)


def _check_targets(
    store: StoreOptions, sqlite: str | None, duckdb: str | None, *, replace: bool
) -> dict[Path, Database]:
    """The files to make, each with its kind of database; refused before anything is read."""
    targets: dict[Path, Database] = {}
    for option, given, kind in (("--sqlite", sqlite, SqliteDatabase), ("--duckdb", duckdb, DuckdbDatabase)):
        if given is not None:
            path = resolve_path(given, option)
            if path in targets:
                raise ParameterError(f"--sqlite and --duckdb are both {given}; give two files")
            targets[path] = kind()
            _check_target(path, targets[path], store, replace=replace)
    if not targets:
        raise ParameterError("there is no file to export to; give --sqlite FILE or --duckdb FILE")
    return targets


def _check_target(path: Path, database: Database, store: StoreOptions, *, replace: bool) -> None:
    source = None if store.file is None else store.file.resolve()
    if source is not None and path.parent == source.parent and path.name.startswith(source.name):
        raise StoreError(f"{path}: has the name of a file of {store}; give a name that does not begin with it")
    there = [file for ending in ("", *database.endings) if (file := append_ending(path, ending)).exists()]
    if there and not replace:
        raise StoreError(f"{there[0]}: exists; delete it, give another name, or replace an earlier export by --replace")
    if path in there and not database.is_export(path):
        raise StoreError(
            f"{path}: is not an earlier export, or is in use, and --replace replaces nothing else; give another name"
        )


def _print_facts(paths: Sequence[Path], contents: Contents) -> None:
    left = contents.arrivals_left
    print_json(
        {
            "files": [str(path) for path in paths],
            **_count(contents),
            "delete_by": to_iso(contents.delete_by),
            "delete_before_arrivals": None if left is None else {"stream": left[0], "arrivals": left[1]},
            "troubles": dict(contents.troubles),
        }
    )


def _count(contents: Contents) -> dict[str, int]:
    counts = {name: contents.counts[name] for name in ("streams", "estimates", "receipts")}
    return counts | {"records": contents.records}


def _show(paths: Sequence[Path], contents: Contents, now: datetime) -> None:
    """Say what the copies hold, and until when."""
    counts = ", ".join(format_count(number, name.removesuffix("s")) for name, number in _count(contents).items())
    files = " and ".join(path.name for path in paths)
    say(f"{files}: {counts}.")
    if not contents.records:
        return
    say(
        "WARNING: THIS COPY HOLDS RECORDS, AND NOTHING ERASES THEM THERE. It is outside what the store promises: no "
        "limit, sweep or removal request reaches it."
    )
    say(f"Delete {files} {_describe_deadline(contents, now)}")


def _describe_deadline(contents: Contents, now: datetime) -> str:
    """When a copy must be deleted, in words that follow "Delete it"."""
    time, left = contents.delete_by, contents.arrivals_left
    if time is not None and time <= now:
        return f"now: its oldest record was due at {format_time(time)} UTC. Run vestige sweep before you export."
    said = [] if time is None else [f"{format_time(time)} UTC, when its oldest record is due"]
    if left is not None:
        name, arrivals = left
        said.append(f"the arrival of {format_count(arrivals, 'more record')} in stream {name!r}")
    return "by the first of these: " + "; ".join((*said, "a removal request of a person in it."))
