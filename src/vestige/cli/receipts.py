"""`vestige receipts`: the removal requests in a store, and tables of receipts for other commands."""

from __future__ import annotations

from collections.abc import Iterable

from vestige.cli.access import exit_with, json_option, read_snapshot, store_argument
from vestige.cli.group import command
from vestige.cli.output import format_time, print_json, show_table, to_iso
from vestige.store import Receipt
from vestige.times import wall_clock

_HEADER = ("receipt", "stream", "requested", "due", "erased")


@command.command()
@store_argument
@json_option
def receipts(store: str, *, machine: bool) -> None:
    """Show the removal requests in STORE.

    These are the open ones, and those carried out in the last 30 days. A receipt contains no subject.

    \b
    Example:
      vestige receipts visits.db
    """  # noqa: D301  # the sign says to leave the lines as they are
    now, copy = wall_clock(), read_snapshot(store)
    given = [
        (name, receipt)
        for name, (_, state) in copy.streams.items()
        for receipt in state.receipts
        if not receipt.is_expired(now)
    ]
    if machine:
        problems = [{"stream": name, "problem": text} for name, text in copy.troubles.items()]
        print_json([receipt_facts(name, receipt) for name, receipt in given] + problems)
    else:
        show_receipts(given, copy.troubles)
    exit_with(copy.troubles)


def receipt_facts(stream: str, receipt: Receipt) -> dict[str, object]:
    """A receipt as plain data."""
    return {
        "stream": stream,
        "id": receipt.id,
        "requested": to_iso(receipt.requested),
        "requested_round": receipt.requested_round,
        "due_round": receipt.due_round,
        "due": to_iso(receipt.due),
        "erased": to_iso(receipt.erased),
        "erased_round": receipt.erased_round,
    }


def show_receipts(given: Iterable[tuple[str, Receipt]], unreadable: Iterable[str] = ()) -> None:
    """Print a table of receipts, and of streams whose receipts cannot be read."""
    rows = [
        (
            receipt.id,
            name,
            f"{format_time(receipt.requested)}, round {receipt.requested_round:,}",
            f"round {receipt.due_round:,}" + (f", or {format_time(receipt.due)}" if receipt.due else ""),
            "open" if receipt.erased is None else f"{format_time(receipt.erased)}, round {receipt.erased_round:,}",
        )
        for name, receipt in given
    ]
    rows += [("cannot be read", name, "-", "-", "-") for name in unreadable]
    show_table(_HEADER, rows, words=_HEADER[1:])
