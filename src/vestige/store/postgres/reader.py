"""A reader of a store in PostgreSQL: each call is one short session, in which commits wait.

Guarantee: reads beside live writers, and never finds a key destroyed that it needs; held by
tests/store/test_postgres.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from vestige.store.keyring import Keyring
from vestige.store.postgres.address import Address
from vestige.store.postgres.connection import Connection
from vestige.store.postgres.keys import check_key_file, check_keyring, find_key_file
from vestige.store.postgres.session import Session
from vestige.store.postgres.verify import verify_store
from vestige.store.store import PATIENCE, check_patience
from vestige.store.table_reader import TableReader
from vestige.store.tables import Tables


class PostgresReader(TableReader):
    """A store in a schema of a PostgreSQL database, read beside the processes that write to it.

    Args:
        address: where it is; see `PostgresStore`.
        keyring: the keyring, or its address.
        key: the file with the key of the subjects; default: KEYRING.key beside a keyring that is a file.
        patience: seconds to wait for a writer to release the store.

    Raises:
        ParameterError: the address is not valid, or there is no keyring.
        StoreError: there is no such store, or it cannot be read.

    Attributes:
        address: where it is.
    """

    def __init__(
        self,
        address: str,
        *,
        keyring: str | Path | Keyring | None,
        key: str | Path | None = None,
        patience: float = PATIENCE,
    ) -> None:
        check_patience(patience)
        self.address, self._patience = Address.parse(address), patience
        self._keyring = check_keyring(keyring, self.address, patience)
        self._key_file = find_key_file(key, self._keyring, self.address.where)
        self._hash: Callable[[str], str] | None = None
        with self._begin():
            pass

    @contextmanager
    def _begin(self) -> Iterator[Session]:
        """A session of its own."""
        session = Session(Connection(self.address, self._patience), self._keyring)
        try:
            session.open()
            yield session
        finally:
            session.close()

    @contextmanager
    def _use(self) -> Iterator[Tables]:
        """The tables at one moment; a commit waits meanwhile."""
        with self._begin() as session, session.read() as tables, tables.rows.report_damage():
            yield tables

    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        """Check the limits, every row, the keyring and the settings of the server, and look for canaries."""
        return verify_store(self._begin, self._keyring, at=at, canaries=canaries)

    def pseudonym(self, subject: str) -> str:
        """Return the pseudonym of a subject; random digits if no subject was ever named in the store."""
        if self._hash is None:
            with self._use() as tables:
                file = check_key_file(self._key_file, self.address.where)
                self._hash = file.open(tables.about.fingerprint)
        return self._hash(subject)
