"""Is a store what it claims to be? The rules of retention, the file and every byte of it, looked at from outside.

Guarantee: finds records that are overdue, journals that were left behind, pages with old bytes, changed bits, and any
canary that was planted and should be gone; held by tests/store/test_verify.py, which has a store for each.
"""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from vestige.errors import StoreBusyError, StoreError
from vestige.store.canaries import CanarySearch
from vestige.store.inbox import Inbox
from vestige.store.inspection import inspect_tables
from vestige.store.keyring import Keyring
from vestige.store.paths import append_ending, find_siblings, is_draft
from vestige.store.row_keys import find_orphans
from vestige.store.rows import Rows
from vestige.store.sealed_rows import SealedRows
from vestige.store.sqlite.connection import copy_file, is_hot, open_image, select_pragmas, set_pragmas
from vestige.store.sqlite.page_scan import find_residue
from vestige.store.sqlite.rows import open_rows
from vestige.store.tables import Tables
from vestige.times import to_utc, wall_clock

_SETTLING = 2.0
"""Seconds in which a journal of a running commit is gone again, and a draft that is being written has its name."""


def verify_file(
    path: Path,
    *,
    at: datetime | None,
    canaries: Sequence[bytes],
    patience: float,
    keyring: Keyring | None = None,
) -> tuple[str, ...]:
    """Find what is wrong with a store in a file, which may be open for writing meanwhile.

    Args:
        path: the file.
        at: the time that limits in time are checked against; default: the machine's clock.
        canaries: bytes that must not be in any file of the store.
        patience: seconds to wait for a writer to release the file.
        keyring: its keyring, which is checked too; None if it is not sealed.

    Returns:
        One sentence for each finding; empty if nothing is wrong.

    Raises:
        ParameterError: a canary is empty, or is not bytes.
        StoreError: there is no such file.
    """
    moment = to_utc(wall_clock() if at is None else at)
    search = CanarySearch(canaries)
    found = list(_find_leftovers(path, is_sealed=keyring is not None))
    files = _read_siblings(path) if canaries else {}  # first of all: who copies the store clears a journal away
    before, image, bodies = 0, b"", b""
    try:
        before = path.stat().st_size if path.exists() else 0
        image, keys = copy_file(path, patience, keyring)
        with open_image(image, path) as connection:
            found += _check_integrity(connection)
            tables = Tables(open_rows(connection, path, keyring, keys))
            with tables.rows.report_damage():
                found += inspect_tables(tables, moment)
                found += find_orphans(tables.rows) if isinstance(tables.rows, SealedRows) else ()
            bodies = _join_bodies(tables.rows) if canaries else b""
    except StoreBusyError as problem:
        found.append(f"Overdue: {problem}")
    except StoreError as problem:
        if not path.exists():
            raise
        found.append(str(problem))
    if image:
        found += find_residue(image)
        if min(before, path.stat().st_size) > len(image):  # a writer may make it longer meanwhile
            found.append(
                f"{path} is longer than it says: a process was killed while it made the file shorter; open the store "
                "again, which does that"
            )
    found += _check_permissions(path)
    found += _check_pragmas()
    found += Inbox(path).find_troubles()
    found += () if keyring is None else _check_keyring(keyring)
    found += _find_canaries(path.name, {path.name: image} | files, bodies, search)
    return tuple(dict.fromkeys(text.encode("utf-8", "backslashreplace").decode() for text in found))


def _find_leftovers(path: Path, *, is_sealed: bool) -> Iterator[str]:
    """Files that should be gone; the journal of a commit that is running and a draft in writing get some time."""
    journal = append_ending(path, "-journal")
    journals = (journal,) if not is_sealed or is_hot(journal) else ()
    drafts = [file for file in find_siblings(path) if is_draft(path, file)]
    settling = {file: _identify(file) for file in (*journals, *drafts)}
    until = time.monotonic() + _SETTLING
    while settling := {
        file: first for file, first in settling.items() if first is not None and _identify(file) == first
    }:
        if time.monotonic() >= until:
            break
        time.sleep(_SETTLING / 100)
    if journal in settling:
        yield (
            f"{journal} is there: a commit does not come to its end, because another process holds the file or the "
            "writer was killed; what it was to erase is overdue. End the other process, or open the store again"
        )
    for ending in ("-wal", "-shm"):
        if (log := append_ending(path, ending)).exists():
            yield (
                f"{log} is there: another program has switched the file to write-ahead logging, which keeps old "
                "records; open the store with Vestige, which switches it back"
            )
    for file in settling:
        if file != journal:
            yield f"{file} is there: a process was killed while it wrote it; open the store again, which removes it"


def _check_permissions(path: Path) -> Iterator[str]:
    """The files that somebody but their owner may read or write."""
    for file in (path, append_ending(path, ".key")):
        with suppress(FileNotFoundError):
            rights = stat.S_IMODE(file.stat().st_mode)
            if rights & 0o077:
                yield f"{file}: others than its owner may use it (its rights are {rights:o}); chmod 600 {file}"


def _check_keyring(keyring: Keyring) -> Iterable[str]:
    try:
        return keyring.verify()
    except StoreError as problem:
        return [str(problem)]


def _identify(file: Path) -> tuple[int, int] | None:
    """What tells one journal from the next; None if there is none."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _check_integrity(connection: sqlite3.Connection) -> Iterator[str]:
    """What SQLite itself finds."""
    for (text,) in connection.execute("PRAGMA integrity_check"):
        if text != b"ok":
            yield f"SQLite's integrity check says: {text.decode(errors='replace')}"


def _join_bodies(rows: Rows) -> bytes:
    """What lies on overflow pages, put together and opened."""
    columns = {"buckets": ("names", "body"), **dict.fromkeys(("subjects", "definitions", "requests"), ("body",))}
    found = (parts for table, names in columns.items() for _, parts in rows.iterate(table, names))
    return b"".join(part for parts in found for part in parts if isinstance(part, bytes))


def _check_pragmas() -> Iterable[str]:
    """Whether this build of SQLite follows the pragmas that a store needs."""
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            set_pragmas(connection, Path("SQLite"), select_pragmas())
    except StoreError as problem:
        return [str(problem)]
    return []


def _read_siblings(path: Path) -> dict[str, bytes]:
    """The files beside a store that belong to it, and what they hold."""
    files = [inner for file in find_siblings(path) for inner in (file.iterdir() if file.is_dir() else [file])]
    held = {}
    for file in files:
        if file.name != f"{path.name}.lock" and file.is_file():
            with suppress(FileNotFoundError):  # a journal whose commit has come to its end
                held[str(file.relative_to(path.parent))] = file.read_bytes()
    return held


def _find_canaries(store: str, files: Mapping[str, bytes], bodies: bytes, search: CanarySearch) -> Iterator[str]:
    """Where canaries are: in the store as it was copied, in its states put together, in the files beside it."""
    known = set()
    for name, content in files.items():
        for hit in search.find(content):
            known |= {(hit.number, hit.form)} if name == store else set()
            yield f"{search.describe(hit, name)}, {hit.count} times, first at byte {hit.at}"
    for hit in search.find(bodies):
        if (hit.number, hit.form) not in known:
            yield f"{search.describe(hit, store)}, in a state, across two pages"
