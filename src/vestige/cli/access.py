"""What the commands on a store share: their options, a copy to look at, and what is said of streams in trouble.

A command that only asks takes a copy and lets go of the file at once, so that it never stands in the way of an erasure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from vestige.cli.group import moment
from vestige.cli.output import announced, warn
from vestige.errors import StoreError, VestigeError
from vestige.operations import Attended
from vestige.store import StoreSnapshot, open_reader

store_argument = click.argument("store")
streams_option = click.option("--stream", "names", multiple=True, help="Only this stream; may be given again.")
json_option = click.option("--json", "machine", is_flag=True, help="Print JSON, for machines.")
at_option = click.option(
    "--at",
    type=moment,
    metavar="TIME",
    help="Time that limits in time are checked against, in ISO 8601.  [default: the machine's clock]",
)

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would go; change nothing.")


def choose_streams(snapshot: StoreSnapshot, names: Sequence[str], store: str) -> tuple[str, ...]:
    """The streams that were asked for; all if none was."""
    unnamed = snapshot.unnamed
    for name in names:
        if name not in snapshot.names:
            there = [name for name in snapshot.names if name not in unnamed]
            known = ", ".join(there[:5]) + (", ..." if len(there) > 5 else "")
            lost = f"; and {', '.join(map(repr, unnamed))}, which may be this one" if unnamed else ""
            raise StoreError(f"{store}: there is no stream {name!r}; there is {known or 'none yet'}{lost}")
    return tuple(dict.fromkeys(names)) or snapshot.names


def read_snapshot(store: str, names: Sequence[str] = ()) -> StoreSnapshot:
    """A snapshot of the streams that were asked for."""
    with announced(f"Reading {store} ..."):
        snapshot = open_reader(store).snapshot()
    return snapshot.select(choose_streams(snapshot, names, store))


def end_with(troubles: Mapping[str, str], attended: Attended | None = None) -> None:
    """Say what is wrong with single streams and requests, and end with status 1 if anything is."""
    for name, text in troubles.items():
        warn(f"stream {name!r}: {text}")
    _name(attended.troubles if attended else {})
    if troubles or (attended and attended.troubles):
        sys.exit(1)


@contextmanager
def named_anyway(requests: Mapping[str, str]) -> Iterator[None]:
    """Say what of requests of others could not be carried out, also where what follows fails: nobody else does."""
    try:
        yield
    except VestigeError:
        _name(requests)
        raise


def _name(requests: Mapping[str, str]) -> None:
    for name, text in requests.items():
        warn(f"{name}: {text}")
