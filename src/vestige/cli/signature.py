"""`vestige keygen`, `vestige verify-receipts` and `vestige verify-report`: keys, and the check of a signature."""

from __future__ import annotations

from pathlib import Path

import click

from vestige.cli.access import json_option
from vestige.cli.exit_status import Finding
from vestige.cli.group import command
from vestige.cli.output import escape, format_count, print_json, say
from vestige.errors import SignatureError
from vestige.operations.signature import generate_key, verify_report
from vestige.operations.signature import verify_receipts as verify_document


@command.command()
@click.argument("key")
def keygen(key: str) -> None:
    """Make a pair of keys to sign receipts and reports with.

    The private key is written to KEY, which only its owner can read, and the public key to KEY.pub, which you publish.
    Both are in PEM, as OpenSSL reads them. An existing file is not overwritten.

    \b
    Example:
      vestige keygen receipts.pem
    """  # noqa: D301  # the sign says to leave the lines as they are
    key_id = generate_key(key)
    say(f"Key {key_id}: keep {key} secret, and publish {key}.pub.")


@command.command("verify-receipts")
@click.argument("document")
@click.option(
    "--public-key",
    required=True,
    metavar="FILE",
    help="File with the public key of whoever signed DOCUMENT; it may contain several.",
)
@json_option
def verify_receipts(document: str, public_key: str, *, machine: bool) -> None:
    """Check that signed receipts were not changed.

    DOCUMENT is what vestige receipts --sign has written. The exit status is 1 if it was changed, or was signed with
    another key. The signature says who has vouched for the receipts and that nobody has changed them since; it does
    not say whether they are true.
    """
    content = Path(document).read_bytes()
    try:
        facts = verify_document(content, public_key)
    except SignatureError as problem:
        raise _name_document(problem, document, public_key) from None
    if machine:
        print_json(facts)
        return
    receipts = facts["receipts"]
    unmet = sum(receipt["erased"] is None for receipt in receipts)
    chosen = "" if facts["reference"] is None else f" with the reference {facts['reference']}"
    say(
        f"{document}: unchanged since it was signed with the key {facts['key_id']} at {facts['created']}; "
        f"{format_count(len(receipts), 'receipt')}{chosen}, {unmet:,} of them open."
    )


@command.command("verify-report")
@click.argument("report")
@click.option(
    "--public-key",
    required=True,
    metavar="FILE",
    help="File with the public key of whoever signed REPORT; it may contain several.",
)
@json_option
def verify_signed_report(report: str, public_key: str, *, machine: bool) -> None:
    """Check that a signed report was not changed.

    REPORT is what vestige audit --report --sign has written; its signature is in REPORT.sig. The exit status is 1 if
    either was changed, or was signed with another key.
    """
    signature = Path(f"{report}.sig")
    if Path(report).exists() and not signature.exists():
        raise SignatureError(f"{report}: has no signature: {signature} does not exist; ask who signed it for that file")
    try:
        facts = verify_report(Path(report).read_bytes(), signature.read_bytes(), public_key)
    except SignatureError as problem:
        raise _name_document(problem, report, public_key) from None
    if machine:
        print_json(facts)
        return
    say(f"{report}: unchanged since it was signed with the key {facts['key_id']} at {facts['created']}.")


def _name_document(problem: SignatureError, document: str, public_key: str) -> Exception:
    """What is wrong with a document is a finding; that the public key cannot be read is an error."""
    if str(problem).startswith(f"{public_key}:"):
        return problem
    return Finding(escape(f"{document}: {problem}"))
