"""How the file of a SQLite store is opened: pragmas set and asserted, one writer, readers that copy and let go.

Guarantee: what SQLite overwrites or deletes under these pragmas is zero in the file after the commit, and no journal
outlives it; held by tests/store/test_erasure.py. Errors of SQLite come out as ours, and say what to do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from vestige.errors import ParameterError, StoreBusyError, StoreError

APPLICATION, VERSION = 0x56535447, 1
"""What the header of the file says: that it is a store ("VSTG"), and in which version of the format."""
PAGE = 4096
SCHEMA = (
    "CREATE TABLE about (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT NOT NULL, terms TEXT NOT NULL, seal BLOB NOT NULL)",
    "CREATE TABLE states (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE sources (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE receipts (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, body BLOB NOT NULL)",
)
PRAGMAS = {
    "journal_mode": ("DELETE", "delete"),
    "secure_delete": ("ON", 1),
    "synchronous": ("EXTRA", 3),
    "temp_store": ("MEMORY", 2),
    "mmap_size": (0, 0),
    "trusted_schema": ("OFF", 0),
    "cell_size_check": ("ON", 1),
    "auto_vacuum": ("NONE", 0),
}
"""Each with what it is set to, and what SQLite must say then; defaults differ between builds."""


def beside(path: Path, ending: str) -> Path:
    """The file beside the store whose name ends so."""
    return path.with_name(path.name + ending)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into ours, which name the file and the remedy."""
    try:
        yield
    except sqlite3.Error as problem:
        name = getattr(problem, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise StoreBusyError(
                f"{path}: another process reads or writes the file and does not let go, so what is due cannot be "
                "erased; end that process (fuser or lsof names it) and try again: nothing was changed"
            ) from None
        remedies = {
            "SQLITE_FULL": "the disk is full; make room and try again: nothing was changed",
            "SQLITE_READONLY": "cannot be written; make the file and its folder writable, or copy it elsewhere",
            "SQLITE_CANTOPEN": "cannot be opened; its folder must be there and writable, and the name no folder's",
            "SQLITE_PERM": "may not be opened; ask for the right to read and write it",
            "SQLITE_NOTADB": "is no store, or its first page is damaged; give another path, or restore a copy",
            "SQLITE_CORRUPT": "is damaged (cut off, or bits changed); restore a copy that is younger than the limits",
            "SQLITE_IOERR": "could not be read or written to its end (a full or failing disk, a quota); make room or "
            "mend it and try again: nothing was changed",
        }
        for start, remedy in remedies.items():
            if name.startswith(start):
                raise StoreError(f"{path}: {remedy}") from None
        raise StoreError(f"{path}: SQLite says {problem} ({name}); nothing was changed") from None


def connected(path: Path, patience: float) -> sqlite3.Connection:
    """A connection that erases: every pragma is set, then asked for."""
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None)
    try:
        set_pragmas(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def set_pragmas(connection: sqlite3.Connection, path: Path, besides: Sequence[str] = ()) -> None:
    """Set every pragma but those named, and raise an error where SQLite did not follow."""
    for name, (value, expected) in PRAGMAS.items():
        if name in besides:
            continue
        connection.execute(f"PRAGMA {name}={value}")
        answer = connection.execute(f"PRAGMA {name}").fetchone()[0]
        if answer != expected:
            raise StoreError(
                f"{path}: this build of SQLite ({sqlite3.sqlite_version}) leaves {name} at {answer!r} where a store "
                f"needs {expected!r}; use another build"
            )


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables in an empty file; in another one, check that it is a store of this version."""
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # rolls back what a crash has left
    check_whole(path)
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
        connection.execute(f"PRAGMA page_size={PAGE}")
        connection.execute("PRAGMA encoding='UTF-8'")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        for table in SCHEMA:
            connection.execute(table)
        connection.execute("COMMIT")
    check_kind(connection, path)
    connection.execute("BEGIN IMMEDIATE")  # whether it can be written is said now; and a stale journal is replaced
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.execute("ROLLBACK")


def check_kind(connection: sqlite3.Connection, path: Path) -> None:
    """An error unless the file is a store, of this version."""
    application, version = (connection.execute(f"PRAGMA {p}").fetchone()[0] for p in ("application_id", "user_version"))
    if application != APPLICATION:
        raise StoreError(f"{path}: is a SQLite file, but no store of Vestige; give another path")
    if version != VERSION:
        raise StoreError(
            f"{path}: was written in version {version} of the format, and this Vestige reads version {VERSION}; "
            "use the Vestige that wrote it"
        )
    found = tuple(sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema ORDER BY rootpage"))
    if sorted(map(str, found)) != sorted(SCHEMA):
        raise StoreError(f"{path}: its tables are not those of a store; was it changed by another program?")


def check_whole(path: Path) -> None:
    """An error if the file ends within a page; SQLite would fill that up with zeros and say nothing."""
    if path.exists() and path.stat().st_size % PAGE:
        raise StoreError(f"{path}: is damaged (cut off within a page); restore a copy that is younger than the limits")


def writer_lock(path: Path) -> sqlite3.Connection:
    """What shows others that there is a writer: an exclusive lock on an empty file beside the store.

    The operating system lets go of it however the process ends.
    """
    lock = sqlite3.connect(beside(path, ".lock"), timeout=0.0, isolation_level=None)
    try:
        lock.execute("PRAGMA journal_mode=MEMORY")
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as problem:
        lock.close()
        if problem.sqlite_errorname.startswith("SQLITE_BUSY"):
            raise StoreBusyError(
                f"{path}: is open for writing elsewhere; a store has one writer: close the other one first"
            ) from None
        raise
    return lock


def checked_path(path: str | Path) -> Path:
    """The path, if a file can be there."""
    made = Path(path)
    if str(path) == ":memory:":
        raise ParameterError("path=':memory:' is no file; use vestige.MemoryStore()")
    if made.is_dir():
        raise StoreError(f"{made}: is a folder; give the path of a file")
    if not made.absolute().parent.is_dir():
        raise StoreError(f"{made}: there is no folder {made.absolute().parent}; make it first")
    return made


def copied(path: Path, patience: float) -> bytes:
    """All bytes of the file at one moment, page by page; a commit waits no longer than this takes."""
    if not checked_path(path).exists():
        raise StoreError(f"{path}: there is no such store; make one with vestige run --store, or vestige.SqliteStore")
    uri = f"file:{quote(str(path.absolute()))}?mode=rw"
    with explained(path), closing(sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None)) as connection:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("BEGIN")  # one lock for all that is read: a busy writer is waited for once
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # rolls back what a crash has left
        check_whole(path)
        return connection.serialize()


@contextmanager
def reading(image: bytes, path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a copy of a store, in memory."""
    with explained(path), closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(image[:18] + b"\1\1" + image[20:])  # a copy needs no write-ahead log
        check_kind(connection, path)
        yield connection
