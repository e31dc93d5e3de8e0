"""Is a store in PostgreSQL what it claims to be? The rules of retention, every row, the keyring, and the server.

Guarantee: finds records that are overdue, rows that were changed, keys that were not settled, settings of the server
with which a commit may be lost, and any canary that should be gone; held by tests/store/test_postgres_verify.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

from vestige.errors import StoreBusyError, StoreError
from vestige.store.canaries import CanarySearch
from vestige.store.inspection import inspect_tables
from vestige.store.keyring import Keyring
from vestige.store.memory_rows import copy_sealed
from vestige.store.postgres.connection import Connection
from vestige.store.postgres.session import Session
from vestige.store.rows import TABLES
from vestige.store.sealed_rows import SealedRows
from vestige.store.tables import Tables
from vestige.times import to_utc, wall_clock

_SETTINGS = {
    "fsync": "so that a crash of its host may leave rows whose keys are gone, or lose what was committed",
    "full_page_writes": "so that a crash of its host may leave torn pages",
}


def verify_store(
    begin: Callable[[], AbstractContextManager[Session]],
    keyring: Keyring,
    *,
    at: datetime | None,
    canaries: Sequence[bytes],
) -> tuple[str, ...]:
    """Find what is wrong with a store, which may be written meanwhile: it is copied first.

    Args:
        begin: gives a session on the store for as long as the copy takes.
        keyring: its keyring.
        at: the time that limits in time are checked against; default: the machine's clock.
        canaries: bytes that must not be in the store.

    Returns:
        One sentence for each finding; empty if nothing is wrong.

    Raises:
        ParameterError: a canary is empty, or is not bytes.
    """
    moment = to_utc(wall_clock() if at is None else at)
    search = CanarySearch(canaries)
    found, copy = list[str](), None
    with begin() as session, _note_trouble(found):
        found += keyring.verify()
        with session.read():
            found += _check_settings(session.connection)
            copy = SealedRows(copy_sealed(session.rows.inner), keyring, is_shared=False, keys=keyring.read())
    if copy is not None:
        with _note_trouble(found), copy.report_damage():
            found += inspect_tables(Tables(copy), moment)
            found += _find_canaries(copy, search)
    return tuple(dict.fromkeys(text.encode("utf-8", "backslashreplace").decode() for text in found))


@contextmanager
def _note_trouble(found: list[str]) -> Iterator[None]:
    """Note what cannot be read as a finding."""
    try:
        yield
    except StoreBusyError as problem:
        found.append(f"Overdue: {problem}")
    except StoreError as problem:
        found.append(str(problem))


def _check_settings(connection: Connection) -> Iterator[str]:
    """The settings of the server with which a store does not hold what it promises."""
    for name, effect in _SETTINGS.items():
        if connection.execute("SELECT current_setting(%s)", name) != [("on",)]:
            yield f"{connection.where}: the server has {name}=off, {effect}; have its administrator switch it on"


def _find_canaries(rows: SealedRows, search: CanarySearch) -> Iterator[str]:
    """Where canaries are: in what was sealed, and in all that is stored in clear."""
    tables = [*TABLES] if search.count else []
    held = b"".join(
        part for table in tables for each in (rows, rows.inner) for _, parts in each.iterate(table) for part in parts
    )
    yield from (search.describe(hit, "the store") for hit in search.find(held))
