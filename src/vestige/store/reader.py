"""A store as a reader sees it, beside the one process that writes to it.

A reader keeps nothing open between two calls, so that it never delays an erasure for longer than a copy takes.
Guarantee: a reader never writes and never blocks a writer for long; held by tests/test_cli_beside.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime

from vestige.errors import StoreError
from vestige.store.inbox import Inbox
from vestige.store.snapshot import StoreSnapshot
from vestige.store.state import State
from vestige.store.terms import Terms


class Reader(ABC):
    """What can be asked of a store without holding it; `vestige.open_reader` gives one for an address.

    Example:
        >>> import tempfile
        >>> from vestige import open_reader, open_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     open_store(folder + "/visits.db").close()
        ...     reader = open_reader(folder + "/visits.db")
        ...     print(reader.snapshot().names, reader.verify())
        () ()
    """

    @property
    def inbox(self) -> Inbox | None:
        """Where other processes leave requests for the one that writes; None if the store has no inbox."""
        return None

    @abstractmethod
    def snapshot(self) -> StoreSnapshot:
        """Copy all streams as they were last written, at one moment.

        Returns:
            The streams; a damaged one is named with what is wrong with it.

        Raises:
            StoreError: the store cannot be read.
        """

    def read_stream(self, name: str) -> tuple[Terms, State] | None:
        """Read one stream as it was last written.

        Args:
            name: the name of the stream.

        Returns:
            Its terms and its state; None if there is no such stream.

        Raises:
            StoreError: it is damaged, or the store cannot be read.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").read_stream("delays") is None
            True
        """
        snapshot = self.snapshot()
        if name in snapshot.troubles:
            raise StoreError(snapshot.troubles[name])
        return snapshot.streams.get(name)

    def count(self) -> int:
        """Count the streams.

        Returns:
            The number of streams.

        Raises:
            StoreError: the store cannot be read.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").count()
            0
        """
        return len(self.snapshot().names)

    def page(self, after: str | None = None, limit: int = 100) -> list[str]:
        """List some of the streams; those whose names cannot be read are left out.

        Args:
            after: only names after this one; default: from the first on.
            limit: number of names at most.

        Returns:
            The names, sorted.

        Raises:
            StoreError: the store cannot be read.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").page()
            []
        """
        snapshot = self.snapshot()
        names = [name for name in snapshot.names if name not in snapshot.unnamed]
        return [name for name in names if after is None or name > after][:limit]

    @abstractmethod
    def verify(self, *, at: datetime | None = None, canaries: Sequence[bytes] = ()) -> tuple[str, ...]:
        """Check the store from outside: its limits, its form, and what should be gone.

        Args:
            at: the time that limits in time are checked against; default: the machine's clock.
            canaries: bytes that must not occur anywhere in the store.

        Returns:
            What is wrong, one sentence each; empty if nothing is.

        Raises:
            ParameterError: a canary is empty, or is not bytes.
            StoreError: there is no such store.
        """

    @abstractmethod
    def pseudonym(self, subject: str) -> str:
        """Return the pseudonym of a subject in this store.

        Args:
            subject: any text.

        Returns:
            A keyed hash: 32 hexadecimal digits.

        Raises:
            StoreError: the key of the store is missing, or is another one.
        """
