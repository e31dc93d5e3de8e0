"""A reader of a SQLite store: each call is one short read of the file, for one stream or for a copy of all.

Guarantee: reads beside a live writer, and one damaged row hides no other stream; held by tests/test_cli_beside.py and
tests/test_cli_troubles.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from vestige.store.inbox import Inbox
from vestige.store.keyring import Keyring
from vestige.store.keys import KeyFile
from vestige.store.paths import resolve_path
from vestige.store.rollback import Rollback, RollbackNote
from vestige.store.sqlite.connection import check_exists, check_kind, read_counter, read_file
from vestige.store.sqlite.rows import open_file_keyring, open_rows
from vestige.store.sqlite.verify import verify_file
from vestige.store.store import PATIENCE, check_patience
from vestige.store.table_reader import TableReader
from vestige.store.tables import Tables


class SqliteReader(TableReader):
    """A store in a file, read beside the process that writes to it.

    Args:
        path: the file.
        key: the file with the key of the subjects; default: PATH.key.
        keyring: the keyring, if the file is sealed.
        patience: seconds to wait for a writer to release the file.

    Raises:
        StoreError: there is no such store.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        key: str | Path | None = None,
        keyring: str | Path | Keyring | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.path = resolve_path(path, "path")
        check_exists(self.path)
        check_patience(patience)
        self._patience = patience
        self._key_file = KeyFile(key, store=self.path)
        self._keyring = None if keyring is None else open_file_keyring(keyring, self.path, patience)
        self._hash: Callable[[str], str] | None = None

    @property
    def inbox(self) -> Inbox:
        """Where other processes leave requests for the one that writes."""
        return Inbox(self.path)

    @contextmanager
    def _use(self) -> Iterator[Tables]:
        """The tables of the file itself, at one moment; a commit waits meanwhile."""
        with read_file(self.path, self._patience) as connection:
            check_kind(connection, self.path)
            connection.text_factory = bytes
            tables = Tables(open_rows(connection, self.path, self._keyring))
            with tables.rows.report_damage():
                yield tables

    def find_rollback(self) -> Rollback | None:
        """Find out whether the store was put back from an old backup, as far as the note beside its key tells."""
        with read_file(self.path, self._patience) as connection:
            counter = read_counter(connection)
        return RollbackNote(self._key_file.path, self.path).find(counter, self.read_ledger)

    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        """Check the limits, the file and every byte of it, and look for canaries in all files of the store."""
        return verify_file(self.path, at=at, canaries=canaries, patience=self._patience, keyring=self._keyring)

    def pseudonym(self, subject: str) -> str:
        """Return the pseudonym of a subject; random digits if no subject was ever named in the store."""
        if self._hash is None:
            with self._use() as tables:
                self._hash = self._key_file.open(tables.about.fingerprint)
        return self._hash(subject)
