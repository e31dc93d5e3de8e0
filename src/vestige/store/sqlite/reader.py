"""A reader of a SQLite store: copies the file, closes it at once, and looks at the copy.

Guarantee: reads beside a live writer, and one damaged row hides no other stream; held by tests/test_cli_beside.py and
tests/test_cli_troubles.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from vestige.errors import StoreError
from vestige.store.inbox import Inbox
from vestige.store.keys import KeyFile
from vestige.store.paths import resolve_path
from vestige.store.reader import Reader
from vestige.store.snapshot import UNNAMED, StoreSnapshot
from vestige.store.sqlite.connection import check_exists, check_patience, copy_file, open_image
from vestige.store.sqlite.tables import Tables
from vestige.store.sqlite.verify import verify_file
from vestige.store.state import State
from vestige.store.store import PATIENCE
from vestige.store.terms import Terms


class SqliteReader(Reader):
    """A store in a file, read beside the process that writes to it.

    Args:
        path: the file.
        key: the file with the key of the subjects; default: PATH.key.
        patience: seconds to wait for a writer to release the file.

    Raises:
        StoreError: there is no such store.
    """

    def __init__(self, path: str | Path, *, key: str | Path | None = None, patience: float = PATIENCE) -> None:
        self.path = resolve_path(path, "path")
        check_exists(self.path)
        check_patience(patience)
        self._patience = patience
        self._key_file = KeyFile(key, store=self.path)
        self._hash: Callable[[str], str] | None = None

    @property
    def inbox(self) -> Inbox:
        """Where other processes leave requests for the one that writes."""
        return Inbox(self.path)

    def snapshot(self) -> StoreSnapshot:
        """Copy all streams as they were last written, at one moment."""
        with open_image(copy_file(self.path, self._patience), self.path) as connection:
            return read_snapshot(Tables(connection, self.path))

    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        """Check the limits, the file and every byte of it, and look for canaries in all files of the store."""
        return verify_file(self.path, at=at, canaries=canaries, patience=self._patience)

    def pseudonym(self, subject: str) -> str:
        """Return the pseudonym of a subject; random digits if no subject was ever named in the store."""
        if self._hash is None:
            with open_image(copy_file(self.path, self._patience), self.path) as connection:
                self._hash = self._key_file.open(Tables(connection, self.path).about.fingerprint)
        return self._hash(subject)


def read_snapshot(tables: Tables) -> StoreSnapshot:
    """Read all streams; one that is damaged is named with what is wrong with it.

    Args:
        tables: the tables of the store.

    Returns:
        The snapshot.

    Raises:
        StoreError: the file cannot be read.
    """
    names, wrong = tables.tree.survey()
    troubles = dict.fromkeys(wrong, UNNAMED)
    streams: dict[str, tuple[Terms, State]] = {}
    for name in sorted(names):
        try:
            ((_, terms, state),) = tables.states([name])
            streams[name] = terms, state
        except StoreError as problem:
            troubles[name] = str(problem)
    try:
        return StoreSnapshot(streams, troubles, tables.ledger())
    except StoreError as problem:
        return StoreSnapshot(streams, troubles, ledger_trouble=str(problem))
