"""The commands for a store that has lost something: its key (rekey), or its newest state (accept)."""

from __future__ import annotations

import click

from vestige.cli.access import exit_with, read_snapshot, report_anyway
from vestige.cli.group import command
from vestige.cli.output import announce_if_slow, format_count, say
from vestige.cli.store_options import StoreOptions, key_option, required_store_argument
from vestige.operations import process_inbox


@command.command("rekey")
@required_store_argument
@click.option("--key", metavar="FILE", help="File for the new key.  [default: STORE.key]")
def rekey(store: StoreOptions) -> None:
    """Create a new key for the subjects in STORE.

    Use this if the old key is lost for good. The statistics continue, and subjects can be named again. The records that
    are held now can no longer be found by their subject; their limits still apply. An existing file is not overwritten.
    A damaged stream is named and left unchanged, and the exit status is 2. Requests that wait for STORE are carried out
    first.
    """
    with announce_if_slow(f"Opening {store} ..."), store.open() as opened:
        attended = process_inbox(opened)
        with report_anyway(attended.troubles):
            opened.rekey()
    say(f"{store}: has a new key; records that were held before can no longer be found by their subject.")
    exit_with(read_snapshot(store).troubles, attended)


@command.command("accept")
@required_store_argument
@key_option
def accept(store: StoreOptions) -> None:
    """Accept STORE although it was put back from a backup.

    Until then, vestige run takes no rows, and vestige verify reports it; vestige sweep and vestige forget work. The
    note beside the key, which tells, goes on from the present state. Requests that STORE does not know any more are
    named once more. The next vestige run reads again what STORE does not know: file what was requested since the
    backup again after it, even if you did so before; vestige nightly does that for its list.
    """
    with announce_if_slow(f"Opening {store} ..."), store.open() as opened:
        put_back = opened.find_rollback()
        opened.accept_rollback()
    if put_back is None:
        say(f"{store}: was not put back from a backup, as far as the note beside its key tells: nothing was done.")
        return
    if put_back.missing:
        named = ", ".join(reference or "one without a reference" for reference in put_back.missing)
        say(f"{store}: does not know {format_count(len(put_back.missing), 'request')} any more: {named}.")
    say(
        f"{store}: is accepted as it is. The next vestige run may read rows again of people who have asked since the "
        "backup: file these requests again after it; vestige nightly does that for its list."
    )
