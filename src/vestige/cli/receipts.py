"""`vestige receipts`: the removal requests in a store, and tables of receipts for other commands."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import click

from vestige.cli.access import exit_with
from vestige.cli.group import command
from vestige.cli.output import announce_if_slow, escape, format_count, format_time, protect_cell, say, show_table
from vestige.cli.rows import check_output
from vestige.cli.store_options import StoreOptions, store_argument
from vestige.errors import ParameterError, StoreError
from vestige.operations.entry import FEW
from vestige.operations.signature import sign_receipts
from vestige.store import Receipt, StoreSnapshot
from vestige.times import wall_clock

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
    default="table",
    show_default=True,
    help="Form of the output.",
)
@click.option("--sign", "private_key", metavar="KEY", help="Private key to sign the receipts with; see vestige keygen.")
@click.option(
    "--out",
    metavar="FILE",
    help="File to write, with --format json or csv; or, with --sign, the file for the signed receipts, in JSON.",
)
def receipts(store: StoreOptions, reference: str | None, form: str, private_key: str | None, out: str | None) -> None:
    """Show the removal requests in STORE.

    These are the open ones, and those whose receipts are kept: as long as vestige forget --keep-receipts said. A
    receipt contains the reference of the request, times, and rounds of the public clock. It contains no subject, and
    is the same whether records were held or not.

    For a request to several streams, the round is the number of records that have arrived in all of them together.

    With --sign, the receipts are written to a file with a signature, which vestige verify-receipts checks.

    \b
    Example:
      vestige receipts visits.db
    """  # noqa: D301  # the sign says to leave the lines as they are
    if private_key is None:
        if form == "table" and out is not None:
            raise ParameterError(f"--out {out} needs --format json or csv, or --sign; give one of them")
        check_output(form, out, store.files)
    elif out is None:
        raise ParameterError("--sign needs --out, the file for the signed receipts; give both")
    elif form != "table":
        raise ParameterError(f"--sign writes JSON to --out; leave out --format {form}")
    elif out == "-" or Path(out).exists():
        raise ParameterError(f"--out {out} is not a new file; signed receipts are not overwritten: give another name")
    reader = store.open_reader()
    with announce_if_slow(f"Reading {store} ..."):
        copy = reader.snapshot() if reader.count() <= FEW else reader.read_receipts()
    given = [entry for entry in copy.find_receipts(wall_clock()) if reference in (None, entry[1].reference)]
    if reference is not None and not given:
        raise StoreError(f"{store}: no receipt has the reference {reference!r}; it may have expired")
    if private_key is not None and out is not None:
        _write_signed(copy, private_key, out, reference)
    elif form == "table":
        show_receipts(given, copy.troubles)
    elif out is None:
        _write(given, copy.troubles, form, sys.stdout)
    else:
        with open(out, "w", encoding="utf-8", newline="") as opened:
            _write(given, copy.troubles, form, opened)
    exit_with(copy.troubles)


def receipt_facts(stream: str | None, receipt: Receipt) -> dict[str, object]:
    """A receipt as plain data; the stream is None for one of the whole store."""
    facts = receipt.to_dict() | {"stream": stream}
    return {name: facts[name] for name in FIELDS}


def _write_signed(copy: StoreSnapshot, key: str, out: str, reference: str | None) -> None:
    document = sign_receipts(copy, key, reference=reference)
    Path(out).write_text(json.dumps(document, indent=2) + "\n")
    say(f"{format_count(len(document['receipts']), 'receipt')} signed with the key {document['key_id']} in {out}.")


def _write(given: Sequence[Given], troubles: Mapping[str, str], form: str, file: TextIO) -> None:
    if form == "json":
        problems = [{"stream": name, "problem": text} for name, text in troubles.items()]
        file.write(json.dumps([receipt_facts(*entry) for entry in given] + problems) + "\n")
        return
    writer = csv.writer(file, lineterminator="\n")
    on_paper = escape if file.isatty() else protect_cell
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
