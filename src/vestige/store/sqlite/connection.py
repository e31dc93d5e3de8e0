"""How the file of a SQLite store is opened: made whole or not at all, pragmas set and asserted, one writer.

A store is made in memory and written to a draft beside it, which is renamed; readers copy the file and let go of it.
Guarantee: what SQLite overwrites or deletes under these pragmas is zero in the file after the commit, and no journal
outlives it; held by tests/store/test_erasure.py. Errors of SQLite come out as ours, and say what to do; a file that is
not a whole store is refused and left as it is; held by tests/store/test_damage.py.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from vestige.errors import NoStoreError, StoreBusyError, StoreError
from vestige.store.bucket import Summary, pack_head
from vestige.store.keyring import Keyring, KeyTable
from vestige.store.paths import append_ending, make_private, write_private
from vestige.store.rows import DAMAGED, TABLES, About
from vestige.store.sqlite.padding import pad_body
from vestige.store.store import check_patience

APPLICATION, VERSION, SEALED_VERSION = 0x56535447, 11, 12
"""What the header of the file says: that it is a store ("VSTG"), and in which version of the format: that of rows in
clear, or that of the same rows, sealed with a keyring."""
PAGE = 4096
_JOURNAL_MAGIC = 8
"""Bytes at the start of a journal that are zero once its commit has come to its end."""
SCHEMA = tuple(
    f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {', '.join(f'{column} BLOB NOT NULL' for column in columns)})"
    for table, columns in TABLES.items()
)
PRAGMAS: dict[str, tuple[object, object]] = {
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
SEALED_PRAGMAS: dict[str, tuple[object, object]] = {
    "journal_mode": ("PERSIST", "persist"),
    "synchronous": ("FULL", 2),
    "journal_size_limit": (1 << 20, 1 << 20),
}
"""Those of a sealed file that differ: its journal is sealed too, so that it may stay while the file is open."""
_REMEDIES = {
    "SQLITE_FULL": "the disk is full; make room and try again: nothing was changed",
    "SQLITE_READONLY": "cannot be written; make the file and its folder writable, or copy it elsewhere",
    "SQLITE_CANTOPEN": "cannot be opened; its folder must be there and writable, and the path must not be a folder",
    "SQLITE_PERM": "its permissions do not let you read it; have its owner allow that (chmod, chown)",
    "SQLITE_NOTADB": "is not a store, or its first page is damaged; give another path, or restore a copy",
    "SQLITE_CORRUPT": f"is damaged (cut off, or bits changed); {DAMAGED}",
    "SQLITE_CONSTRAINT": f"is damaged (a row is where there should be none); {DAMAGED}",
    "SQLITE_IOERR": "could not be read or written to its end (a full or failing disk, a quota); make room or "
    "mend it and try again: nothing was changed",
}


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
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
        if name.startswith("SQLITE_CANTOPEN") and path.exists() and not os.access(path, os.R_OK):
            name = "SQLITE_PERM"
        for start, remedy in _REMEDIES.items():
            if name.startswith(start):
                raise StoreError(f"{path}: {remedy}") from None
        raise StoreError(f"{path}: SQLite says {problem} ({name}); nothing was changed") from None


@contextmanager
def translate_opening_errors(path: Path) -> Iterator[None]:
    """The same while a file is opened, when SQLite may quote damaged text that is not UTF-8."""
    try:
        with translate_errors(path):
            yield
    except UnicodeDecodeError:
        raise StoreError(f"{path}: {_REMEDIES['SQLITE_CORRUPT']}") from None


def create_empty() -> sqlite3.Connection:
    """A store without streams, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for pragma in (f"page_size={PAGE}", "auto_vacuum=NONE", "encoding='UTF-8'"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    for table in SCHEMA:
        connection.execute(table)
    connection.execute("INSERT INTO about VALUES (1, ?)", (About().pack(),))
    first = pack_head(1, Summary(), b""), b""
    connection.execute("INSERT INTO buckets VALUES (1, ?, ?, ?)", (*first, pad_body((*first, b""))))
    connection.execute("COMMIT")
    connection.text_factory = bytes
    return connection


def create_store(path: Path) -> None:
    """Make an empty store where there is no file: all of it or nothing."""
    journal = append_ending(path, "-journal")
    if journal.exists():
        raise StoreError(
            f"{path}: there is no such store, but its journal {journal} is there; put the store back that it belongs "
            "to, or delete the journal to begin with an empty store"
        )
    with closing(create_empty()) as made:
        write_private(path, made.serialize())


def connect(path: Path, patience: float) -> sqlite3.Connection:
    """A connection that erases: every pragma is set, then asked for.

    Whether the file can be written is said now, and a journal that a crash has left is gone then.
    """
    check_not_empty(path)
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        check_kind(connection, path)
        set_pragmas(connection, path)
        size = check_whole(connection, path)
        if size < path.stat().st_size:
            os.truncate(path, size)
        clear_journal(connection)
        connection.text_factory = bytes
    except BaseException:
        connection.close()
        raise
    return connection


def select_pragmas() -> dict[str, tuple[object, object]]:
    """The pragmas that a database in memory can follow."""
    return {name: value for name, value in PRAGMAS.items() if name not in ("journal_mode", "mmap_size")}


def set_pragmas(
    connection: sqlite3.Connection, path: Path, pragmas: Mapping[str, tuple[object, object]] = PRAGMAS
) -> None:
    """Set pragmas, and raise an error where SQLite did not follow."""
    for name, (value, expected) in pragmas.items():
        connection.execute(f"PRAGMA {name}={value}")
        answer = read_pragma(connection, name)
        if answer != expected:
            raise StoreError(
                f"{path}: this build of SQLite ({sqlite3.sqlite_version}) leaves {name} at {answer!r} where a store "
                f"needs {expected!r}; use another build"
            )


def read_pragma(connection: sqlite3.Connection, pragma: str) -> object:
    """What SQLite says to a pragma."""
    (answer,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return answer.decode() if isinstance(answer, bytes) else answer


def read_counter(connection: sqlite3.Connection) -> int:
    """A counter in the file that never decreases: SQLite counts it when the file is rewritten, and a store as well."""
    return int(str(read_pragma(connection, "schema_version")))


def clear_journal(connection: sqlite3.Connection) -> None:
    """Replace a journal that was never used by one that is removed: SQLite ignores, and leaves, such a one."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA user_version={read_pragma(connection, 'user_version')}")
    connection.execute("ROLLBACK")


def check_kind(connection: sqlite3.Connection, path: Path) -> None:
    """An error unless the file is a store of this format; rolls back what a crash has left."""
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    application, version = read_pragma(connection, "application_id"), read_pragma(connection, "user_version")
    if application != APPLICATION:
        raise StoreError(f"{path}: is a SQLite file, but not a store of Vestige; give another path")
    if version not in (VERSION, SEALED_VERSION):
        raise StoreError(
            f"{path}: was written in version {version} of the format, and this Vestige reads versions {VERSION} and "
            f"{SEALED_VERSION}; use the Vestige that wrote it"
        )
    found = connection.execute("SELECT CAST(sql AS BLOB) FROM sqlite_schema ORDER BY rowid").fetchall()
    if [sql for (sql,) in found] != [sql.encode() for sql in SCHEMA]:
        raise StoreError(f"{path}: its tables are not those of a store; was it changed by another program?")


def is_hot(journal: Path) -> bool:
    """Tell whether a journal that may stay holds a commit that did not come to its end."""
    with suppress(FileNotFoundError), journal.open("rb") as file:
        return any(file.read(_JOURNAL_MAGIC))
    return False


def is_sealed(connection: sqlite3.Connection) -> bool:
    """Tell whether the rows of a file are sealed."""
    return read_pragma(connection, "user_version") == SEALED_VERSION


def check_exists(path: Path) -> None:
    """An error if there is no file."""
    if not path.exists():
        raise NoStoreError(
            f"{path}: there is no such store; create one with vestige run --store, or vestige.open_store"
        )


def check_not_empty(path: Path) -> None:
    """An error if the file has no bytes: it may have been a store."""
    if path.stat().st_size == 0:
        raise StoreError(
            f"{path}: is empty, and a store never is (it was cut off, or never was one); restore a copy that is "
            "younger than the limits, or delete it to begin with an empty store"
        )


def check_whole(connection: sqlite3.Connection, path: Path) -> int:
    """How many bytes of the file count; an error if it is shorter than that, or what it says of its length is wrong.

    It may be longer: SQLite cuts off what it needs no more at the end of a commit, and may be killed before that.
    """
    size, stored = PAGE * int(str(read_pragma(connection, "page_count"))), path.stat().st_size
    longer = stored > size and read_pragma(connection, "quick_check") == "ok"
    if read_pragma(connection, "page_size") != PAGE or stored % PAGE or not (stored == size or longer):
        raise StoreError(f"{path}: is damaged (cut off, or longer than it says); {DAMAGED}")
    return size


def acquire_lock(path: Path) -> sqlite3.Connection:
    """What shows others that there is a writer: an exclusive lock on an empty file beside the store.

    The operating system lets go of it however the process ends.
    """
    name = append_ending(path, ".lock")
    try:
        make_private(name)
    except OSError as problem:
        raise StoreError(
            f"{path}: cannot be opened for writing, since {name} cannot be made ({problem.strerror}); run this as the "
            "owner of the store, or have its owner let you write to it and to its folder (chmod, chown)"
        ) from None
    lock = sqlite3.connect(name, timeout=0.0, isolation_level=None, check_same_thread=False)
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


def copy_file(path: Path, patience: float, keyring: Keyring | None = None) -> tuple[bytes, KeyTable | None]:
    """All bytes of the file at one moment, and its keys; a commit waits no longer than this takes."""
    with read_file(path, patience) as connection:
        return connection.serialize(), None if keyring is None else keyring.read()


@contextmanager
def read_file(path: Path, patience: float) -> Iterator[sqlite3.Connection]:
    """A connection to the file as it is at one moment; a commit waits until the block is left."""
    check_exists(path)
    check_not_empty(path)
    with translate_opening_errors(path), closing(_connect_there(path, patience)) as connection:
        connection.execute("BEGIN")  # one lock for all that is read: a busy writer is waited for once
        read_pragma(connection, "schema_version")  # rolls back what a crash has left
        check_whole(connection, path)
        yield connection
        connection.execute("COMMIT")
        journal = append_ending(path, "-journal")  # of a writer that is at work, or of one that was killed
        if journal.exists() and not is_sealed(connection):  # that of a sealed file may stay
            connection.execute("PRAGMA busy_timeout=0")
            with suppress(sqlite3.Error):
                clear_journal(connection)


def _connect_there(path: Path, patience: float) -> sqlite3.Connection:
    """A connection to a file that is there; SQLite would make one that is not."""
    check_patience(patience)
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None)


@contextmanager
def open_image(image: bytes, path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a copy of a store, in memory."""
    with translate_opening_errors(path), closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(image[:18] + b"\1\1" + image[20:])  # a copy needs no write-ahead log
        check_kind(connection, path)
        connection.text_factory = bytes
        yield connection
