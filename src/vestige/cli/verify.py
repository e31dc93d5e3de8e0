"""`vestige verify`: whether anything is left in a store, or can be opened of its backups, that should be gone.

Guarantee: the exit status is 1 if anything is found, in the store or in a backup, and 2 if the store was put back from
one; held by tests/test_cli_keyring.py and tests/test_cli_rollback.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from vestige.cli.access import at_option, json_option
from vestige.cli.exit_status import end
from vestige.cli.group import command
from vestige.cli.output import announce_if_slow, escape, print_json, say, show_progress
from vestige.cli.store_options import StoreOptions, key_option, store_argument, warn_of_copies
from vestige.errors import ParameterError, StoreError
from vestige.ingest import verify_sources
from vestige.sources.comparison import UNCHECKED
from vestige.store import Reader, open_keyring
from vestige.store.canaries import FORMS
from vestige.store.keyring.backup import BackupReport, inspect_backup
from vestige.store.rollback import Rollback


@command.command("verify")
@store_argument
@key_option
@at_option
@click.option(
    "--against",
    "backups",
    multiple=True,
    metavar="PATH",
    help="Backup of STORE to look at, a file or a folder; may be repeated; needs --keyring.",
)
@click.option(
    "--canary",
    "texts",
    multiple=True,
    help="Text that must not occur in any file of STORE, nor in a backup, in any usual form; may be repeated.",
)
@click.option(
    "--canary-hex",
    "codes",
    multiple=True,
    help="Bytes, in hexadecimal, that must not occur in any file of STORE, nor in a backup.",
)
@json_option
def verify_store(
    store: StoreOptions,
    at: datetime | None,
    backups: tuple[str, ...],
    texts: tuple[str, ...],
    codes: tuple[str, ...],
    *,
    machine: bool,
) -> None:
    """Check that nothing is left in STORE that should be gone.

    This checks the limits, the file, every unused byte, canaries, and whether the sources are still the same files and
    contain the held rows unchanged. STORE may be in use. The exit status is 1 if anything is found, and 2 if STORE was
    put back from an old backup, as far as the note beside its key tells, until vestige accept. Only files are checked,
    not the device or its snapshots; a file system that copies on write is warned of.

    With --against, it also shows what can still be opened of a backup. A row of a sealed store is written with a key of
    its own, which is destroyed when the row is written again; so of an old backup, only rows that did not change since
    can be opened. A backup is a copy of a SQLite store, a plain dump of PostgreSQL (dump.sql), a base backup or data
    folder, a folder of archived WAL, or any other file or folder; also packed by tar, zip, gzip, bzip2 or xz. Its raw
    bytes are searched for sealed rows, and those whose keys are left are opened. Anything that opens and is not in
    STORE now is a finding; so is a store in clear, a copy of the keyring, and a backup in which nothing of STORE is
    recognised.

    A canary is looked for as UTF-8, UTF-16 and Latin-1, in upper and lower case, in hexadecimal and base64,
    percent-encoded, escaped as in JSON and HTML, and as its MD5, SHA-1, SHA-256 or SHA-512 without a salt. The report
    names the file and the form, and never shows the text. The manual lists what is not found.

    This proves what the present keyring opens, and no more: it does not see copies of the keyring that lie elsewhere,
    which is why a keyring belongs into no backup. Rows in a backup that is encrypted, and those that WAL holds only in
    part or compressed, are not counted; they are sealed with the same keys.

    \b
    Examples:
      vestige verify visits.db
      vestige verify visits.db --keyring /keys/visits.keyring --against monday.db --against dump.sql.gz
      vestige verify visits.db --keyring /keys/visits.keyring --against /backups --canary ada@example.org
    """  # noqa: D301  # the sign says to leave the lines as they are
    canaries = _read_canaries(texts, codes)
    for backup in backups:
        store.require_keyring("--against")
        if not Path(backup).exists():
            raise ParameterError(f"--against {backup}: there is no such file or folder; give the path of a backup")
    with announce_if_slow(f"Verifying {store} ..."):
        reader = store.open_reader()
        found = reader.verify(at=at, canaries=canaries)
        put_back = _find_rollback(reader)
        found = found if put_back is None else (put_back.text, *found)
        changed, gone = _check_sources(reader)
        found += changed
    warn_of_copies(store.address, store.keyring)
    reports = [_inspect(backup, store, reader, canaries) for backup in backups]
    if machine:
        facts: dict[str, object] = {"backups": [_collect_facts(report) for report in reports]} if reports else {}
        facts |= {"canary_forms": FORMS} if canaries else {}
        print_json({"findings": list(found)} | ({"notes": list(gone)} if gone else {}) | facts)
    else:
        for text in found + _summarize_notes(gone):
            click.echo(escape(text))
        if not found:
            checked = "limits, rows, keys and the server" if store.file is None else "limits, pragmas, pages and files"
            say(f"{store}: nothing found; {checked} are as they should be.")
        if canaries:
            say(f"Canaries were looked for as {FORMS}.")
        for report in reports:
            _show(report)
    end(
        has_error=put_back is not None,
        has_finding=bool(found) or any(report.findings for report in reports),
    )


def _read_canaries(texts: Sequence[str], codes: Sequence[str]) -> list[bytes]:
    try:
        return [text.encode() for text in texts] + [bytes.fromhex(code) for code in codes]
    except ValueError:
        raise ParameterError("--canary-hex is not hexadecimal; write bytes such as 0f1e2d") from None


def _inspect(backup: str, store: StoreOptions, reader: Reader, canaries: Sequence[bytes]) -> BackupReport:
    keyring = open_keyring(store.require_keyring("--against"))
    with show_progress(f"Searching {Path(backup).name}") as tell:
        return inspect_backup(backup, keyring, reader.list_versions, canaries=canaries, tell=tell)


def _collect_facts(report: BackupReport) -> dict[str, object]:
    """A report as plain data."""
    counts = ("rows", "current", "openable", "destroyed", "newer", "others")
    facts: dict[str, object] = {"path": report.path} | {name: getattr(report, name) for name in counts}
    return facts | {"findings": list(report.findings), "notes": list(report.notes)}


def _show(report: BackupReport) -> None:
    click.echo(escape(report.text))
    for text in (*report.findings, *report.notes):
        click.echo(escape(f"{report.path}: {text}."))


def _summarize_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """The notes for people: those of files of which no record is held are one, since there are more every night."""
    unchecked = [note for note in notes if note.endswith(UNCHECKED)]
    if len(unchecked) < 2:
        return notes
    summary = (
        f"{len(unchecked):,} sources were read before, but no record of them is held, so whether they were replaced "
        "could not be checked; --json names them."
    )
    return (*(note for note in notes if note not in unchecked), summary)


def _find_rollback(reader: Reader) -> Rollback | None:
    """Whether the store was put back from an old backup; not known if it cannot be read, as `verify` says."""
    try:
        return reader.find_rollback()
    except StoreError:
        return None


def _check_sources(reader: Reader) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sources that changed, and those that are gone; neither if the store cannot be read, as `verify` says."""
    try:
        snapshot = reader.snapshot()
    except StoreError:
        return (), ()
    try:
        reader.pseudonym("")
    except StoreError:
        return verify_sources(snapshot.streams)
    return verify_sources(snapshot.streams, reader.pseudonym)
