"""The command on the key of a store: rekey."""

from __future__ import annotations

import click

from vestige.cli.access import end_with, named_anyway, read_snapshot, store_argument
from vestige.cli.group import command
from vestige.cli.output import announced, say
from vestige.operations import attend
from vestige.store import open_store


@command.command("rekey")
@store_argument
@click.option("--key", metavar="FILE", help="Where the new key is to lie.  [default: STORE.key]")
def rekey(store: str, key: str | None) -> None:
    """Begin with a new key for the subjects in STORE.

    For when the old key is lost for good. The statistics go on, and subjects can be named again. Records that are held
    now cannot be found by their subject any more; they go when their limits say so. A file that is there is not
    overwritten. A damaged stream is named and stays as it is; the exit status is 1 then. Requests that wait for STORE
    are carried out first.
    """
    with announced(f"Opening {store} ..."), open_store(store, key=key, create=False) as opened:
        attended = attend(opened)
        with named_anyway(attended.troubles):
            opened.rekey()
    say(f"{store}: has a new key; records that were held before cannot be found by their subject any more.")
    end_with(read_snapshot(store).troubles, attended)
