"""The command on the key of a store: rekey."""

from __future__ import annotations

import click

from vestige.cli.access import exit_with, read_snapshot, report_anyway
from vestige.cli.group import command
from vestige.cli.output import announce_if_slow, say
from vestige.cli.store_options import StoreOptions, required_store_argument
from vestige.operations import process_inbox


@command.command("rekey")
@required_store_argument
@click.option("--key", metavar="FILE", help="File for the new key.  [default: STORE.key]")
def rekey(store: StoreOptions) -> None:
    """Create a new key for the subjects in STORE.

    Use this if the old key is lost for good. The statistics continue, and subjects can be named again. The records that
    are held now can no longer be found by their subject; their limits still apply. An existing file is not overwritten.
    A damaged stream is named and left unchanged, and the exit status is 1. Requests that wait for STORE are carried out
    first.
    """
    with announce_if_slow(f"Opening {store} ..."), store.open() as opened:
        attended = process_inbox(opened)
        with report_anyway(attended.troubles):
            opened.rekey()
    say(f"{store}: has a new key; records that were held before can no longer be found by their subject.")
    exit_with(read_snapshot(store).troubles, attended)
