"""What the commands on a store share: options, snapshots, and reports of problems with streams.

A command that only reads takes a snapshot and releases the store at once, so that it never delays an erasure.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from vestige.cli.config import config_option
from vestige.cli.group import parse_time
from vestige.cli.output import announce_if_slow, warn
from vestige.errors import StoreError, VestigeError
from vestige.ingest.names import find_hashed
from vestige.operations import InboxResult
from vestige.store import StoreSnapshot, open_reader

required_store_argument = click.argument("store")
"""STORE for commands that cannot be undone, so that nobody calls them without naming it."""
_optional_store = click.argument("store", required=False)
streams_option = click.option(
    "--stream", "names", multiple=True, help="Name of a stream to use; may be repeated.  [default: all]"
)
json_option = click.option("--json", "machine", is_flag=True, help="Print JSON instead of text.")
at_option = click.option(
    "--at",
    type=parse_time,
    metavar="TIME",
    help="Time as of which limits in time are checked, in ISO 8601.  [default: the machine's clock]",
)

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be erased; change nothing.")


def store_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add STORE to a command, and --config, whose file names the store if STORE is left out."""
    return _optional_store(config_option(function))


def hash_names(snapshot: StoreSnapshot, names: Sequence[str], store: str, key: str | None = None) -> tuple[str, ...]:
    """The names as they are in the store: hashed, if it keeps keys as hashes."""
    terms = {name: terms for name, (terms, _) in snapshot.streams.items()}
    if not names or not any(entry.about.get("hash_keys") for entry in terms.values()):
        return tuple(names)
    others = [name for name in names if name in snapshot.names]  # such as damaged ones
    hashed = find_hashed(terms, open_reader(store, key=key).pseudonym, [name for name in names if name not in others])
    return (*others, *hashed)


def choose_streams(snapshot: StoreSnapshot, names: Sequence[str], store: str) -> tuple[str, ...]:
    """The streams that were asked for; all if none was."""
    unnamed, names = snapshot.unnamed, hash_names(snapshot, names, store)
    for name in names:
        if name not in snapshot.names:
            there = [name for name in snapshot.names if name not in unnamed]
            known = ", ".join(there[:5]) + (", ..." if len(there) > 5 else "")
            lost = f"; and {', '.join(map(repr, unnamed))}, which may be this one" if unnamed else ""
            raise StoreError(f"{store}: there is no stream {name!r}; there is {known or 'none yet'}{lost}")
    return tuple(dict.fromkeys(names)) or snapshot.names


def read_snapshot(store: str, names: Sequence[str] = ()) -> StoreSnapshot:
    """A snapshot of the streams that were asked for."""
    with announce_if_slow(f"Reading {store} ..."):
        snapshot = open_reader(store).snapshot()
    return snapshot.select(choose_streams(snapshot, names, store))


def exit_with(troubles: Mapping[str, str], attended: InboxResult | None = None) -> None:
    """Report problems with streams and requests, and exit with status 1 if there are any."""
    for name, text in troubles.items():
        warn(f"stream {name!r}: {text}")
    _name(attended.troubles if attended else {})
    if troubles or (attended and attended.troubles):
        sys.exit(1)


@contextmanager
def report_anyway(requests: Mapping[str, str]) -> Iterator[None]:
    """If an error follows, first report which requests of other processes failed: nobody else would."""
    try:
        yield
    except VestigeError:
        _name(requests)
        raise


def _name(requests: Mapping[str, str]) -> None:
    for name, text in requests.items():
        warn(f"{name}: {text}")
