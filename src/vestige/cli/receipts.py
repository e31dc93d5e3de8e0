"""`vestige receipts`: the removal requests in a store, and tables of receipts for other commands."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence

import click

from vestige.cli.access import exit_with, json_option, read_snapshot, store_argument
from vestige.cli.group import command
from vestige.cli.output import escape, format_time, print_json, show_table, to_iso
from vestige.errors import ParameterError, StoreError
from vestige.store import Receipt, StoreSnapshot
from vestige.times import add_duration, wall_clock

Given = tuple[str | None, Receipt]
"""A receipt and the stream that has given it; None for one of the whole store."""
FIELDS = (
    "id",
    "reference",
    "stream",
    "requested",
    "requested_round",
    "due_round",
    "due",
    "erased",
    "erased_round",
    "kept_until",
)
"""The fields of a receipt as plain data, in order."""
_HEADER = ("receipt", "reference", "stream", "requested", "due", "erased")


@command.command()
@store_argument
@click.option("--reference", help="Only show the request with this reference.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    help="Form of the output.  [default: table]",
)
@json_option
def receipts(store: str, reference: str | None, form: str | None, *, machine: bool) -> None:
    """Show the removal requests in STORE.

    These are the open ones, and those whose receipts are kept: as long as vestige forget --keep-receipts said. A
    receipt contains the reference of the request, times, and rounds of the public clock. It contains no subject, and
    is the same whether records were held or not.

    A request to several streams counts the records that have arrived in all of them as rounds.

    \b
    Example:
      vestige receipts visits.db
    """  # noqa: D301  # the sign says to leave the lines as they are
    if machine and form not in (None, "json"):
        raise ParameterError(f"--json contradicts --format {form}; give one of them")
    copy = read_snapshot(store)
    given = [entry for entry in list_receipts(copy) if reference in (None, entry[1].reference)]
    if reference is not None and not given and not copy.ledger_trouble:
        raise StoreError(f"{store}: no receipt has the reference {reference!r}; it may have expired")
    if machine or form == "json":
        problems = [{"stream": name, "problem": text} for name, text in copy.troubles.items()]
        print_json([receipt_facts(*entry) for entry in given] + problems)
    elif form == "csv":
        _print_csv(given)
    else:
        show_receipts(given, copy.troubles)
    if copy.ledger_trouble:
        raise StoreError(copy.ledger_trouble)
    exit_with(copy.troubles)


def list_receipts(copy: StoreSnapshot) -> list[Given]:
    """List the receipts of a store and of its streams, in the order of the requests."""
    now = wall_clock()
    given: list[Given] = [(None, receipt) for receipt in copy.ledger.receipts]
    given += [
        (name, receipt)
        for name, (_, state) in copy.streams.items()
        for receipt in state.receipts
        if receipt.keep  # the others are parts of requests in the ledger
    ]
    kept = [entry for entry in given if not entry[1].is_expired(now)]
    return sorted(kept, key=lambda entry: entry[1].requested)


def receipt_facts(stream: str | None, receipt: Receipt) -> dict[str, object]:
    """A receipt as plain data; the stream is None for one of the whole store."""
    erased = receipt.erased
    return {
        "id": receipt.id,
        "reference": receipt.reference,
        "stream": stream,
        "requested": to_iso(receipt.requested),
        "requested_round": receipt.requested_round,
        "due_round": receipt.due_round,
        "due": to_iso(receipt.due),
        "erased": to_iso(erased),
        "erased_round": receipt.erased_round,
        "kept_until": None if erased is None else to_iso(add_duration(erased, receipt.keep)),
    }


def _print_csv(given: Sequence[Given]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    on_paper = escape if sys.stdout.isatty() else str
    writer.writerow(FIELDS)
    for entry in given:
        facts = receipt_facts(*entry)
        writer.writerow(["" if facts[name] is None else on_paper(str(facts[name])) for name in FIELDS])


def show_receipts(given: Iterable[Given], unreadable: Iterable[str] = ()) -> None:
    """Print a table of receipts, and of streams whose receipts cannot be read."""
    rows = [
        (
            receipt.id,
            receipt.reference or "-",
            stream or "-",
            f"{format_time(receipt.requested)}, round {receipt.requested_round:,}",
            _format_due(receipt),
            "open" if receipt.erased is None else f"{format_time(receipt.erased)}, round {receipt.erased_round:,}",
        )
        for stream, receipt in given
    ]
    rows += [("cannot be read", "-", name, "-", "-", "-") for name in unreadable]
    header, column = list(_HEADER), _HEADER.index("stream")
    if all(row[column] == "-" for row in rows):
        del header[column]
        shown = [row[:column] + row[column + 1 :] for row in rows]
    else:
        shown = list(rows)
    show_table(header, shown, words=header[1:])


def _format_due(receipt: Receipt) -> str:
    parts = [] if receipt.due_round is None else [f"round {receipt.due_round:,}"]
    parts += [] if receipt.due is None else [format_time(receipt.due)]
    return ", or ".join(parts) or "next update of each stream"
