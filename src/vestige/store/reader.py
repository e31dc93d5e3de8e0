"""A store as a reader sees it, beside the one process that writes to it.

A reader keeps nothing open between two calls, so that it never delays an erasure for longer than a copy takes.
Guarantee: a reader never writes and never blocks a writer for long; held by tests/test_cli_beside.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime

from vestige.errors import StoreError
from vestige.store.inbox import Inbox
from vestige.store.ledger import Ledger
from vestige.store.place import check_name
from vestige.store.rollback import Rollback
from vestige.store.snapshot import StoreSnapshot
from vestige.store.state import State
from vestige.store.terms import Terms
from vestige.times import to_utc


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

    def survey(self, after: str | None = None, limit: int | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List streams, and the rows whose names cannot be read.

        Args:
            after: only names after this one; default: from the first on.
            limit: number of names at most; default: all.

        Returns:
            The names that can be read, sorted; and what is wrong with the other rows, one sentence each.

        Raises:
            StoreError: the store cannot be read.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").survey()
            ((), ())
        """
        snapshot = self.snapshot()
        named = sorted({*snapshot.names} - {*snapshot.unnamed})
        return tuple(name for name in named if after is None or name > after)[:limit], snapshot.unnamed

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
        return list(self.survey(after, limit)[0])

    def has(self, name: str) -> bool:
        """Tell whether there is a stream, or a row of which `survey` says this.

        Args:
            name: the name of the stream, or what is wrong with the row.

        Returns:
            True also for a stream that is damaged.

        Raises:
            ParameterError: the name is not a text.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").has("delays")
            False
        """
        names, wrong = self.survey()
        return check_name("name", name) in (*names, *wrong)

    def find_due(self, at: datetime) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Find the streams in which a sweep at a time has something to do or to say, without reading the others.

        Args:
            at: the time.

        Returns:
            The names, sorted: of streams in which something is due, that know a later time, or that are known to be
            damaged; a store may name more. And what is wrong with rows whose names cannot be read.

        Example:
            >>> from vestige import open_store
            >>> from vestige.times import wall_clock
            >>> open_store("memory:").find_due(wall_clock())
            ((), ())
        """
        to_utc(at)
        return self.survey()

    def find_subjects(self, pseudonyms: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Find the streams that hold records of subjects, as they were last written.

        Args:
            pseudonyms: the pseudonyms of the subjects; see `pseudonym`.

        Returns:
            The names of the streams, sorted, by pseudonym; streams that cannot be read are left out, and a row that
            may hold such records and cannot be read is named by what `Store.survey` says of it.

        Example:
            >>> from vestige import open_store
            >>> store = open_store("memory:")
            >>> list(store.find_subjects([store.pseudonym("ada")]).values())
            [()]
        """
        found: dict[str, list[str]] = {pseudonym: [] for pseudonym in pseudonyms}
        for name, (_, state) in self.snapshot().streams.items():
            for subject in {*state.retained.subjects} & found.keys():
                found[subject].append(name)
        return {pseudonym: tuple(sorted(names)) for pseudonym, names in found.items()}

    def list_terms(self) -> tuple[Terms, ...]:
        """List the terms of all streams that can be read; equal ones come once.

        Returns:
            The terms.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").list_terms()
            ()
        """
        return tuple({terms.text: terms for terms, _ in self.snapshot().streams.values()}.values())

    def sources(self) -> tuple[str, ...]:
        """List the sources that were read into any stream.

        Returns:
            Their names, sorted.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").sources()
            ()
        """
        return tuple(sorted({source for _, state in self.snapshot().streams.values() for source in state.positions}))

    def read_ledger(self) -> Ledger:
        """Read the requests to streams of the store, with their receipts.

        Returns:
            The ledger.

        Raises:
            StoreError: it is damaged.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").read_ledger().receipts
            ()
        """
        snapshot = self.snapshot()
        if snapshot.ledger_trouble:
            raise StoreError(snapshot.ledger_trouble)
        return snapshot.ledger

    def read_receipts(self) -> StoreSnapshot:
        """Copy the ledger and the streams that have receipts of their own, without reading the others.

        Returns:
            These streams; those that are damaged are named if they may have receipts. A store may copy more streams.

        Raises:
            StoreError: the store cannot be read.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").read_receipts().names
            ()
        """
        return self.snapshot()

    def find_rollback(self) -> Rollback | None:
        """Find out whether the store was put back from an old backup, as far as a note beside its key tells.

        Returns:
            What is known of that; None if nothing tells, or it was accepted.

        Raises:
            StoreError: the store cannot be read.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").find_rollback() is None
            True
        """
        return None

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

    def verify_keys(self) -> tuple[str, ...]:
        """Check that the keyring of the store opens each of its rows, and holds no key besides those.

        Returns:
            What is wrong, one sentence each; empty if nothing is.

        Raises:
            StoreError: the store is not sealed with a keyring, or cannot be read.

        Example:
            >>> import tempfile
            >>> from vestige.store import open_keyring, open_store
            >>> folder = tempfile.TemporaryDirectory()
            >>> keyring = open_keyring(folder.name + "/visits.keyring", create=True)
            >>> with open_store(folder.name + "/visits.db", keyring=keyring) as store:
            ...     print(store.verify_keys())
            ()
            >>> folder.cleanup()
        """
        raise StoreError(f"a {type(self).__name__} is not sealed with a keyring, so there are no keys to check")

    def list_versions(self) -> dict[int, int]:
        """List which writing of each row the store holds, for `vestige.store.keyring.backup.inspect_backup`.

        Returns:
            The version of each row's key, by the slot of the key.

        Raises:
            StoreError: the store is not sealed with a keyring, or cannot be read.

        Example:
            >>> import tempfile
            >>> from vestige.store import open_keyring, open_store
            >>> folder = tempfile.TemporaryDirectory()
            >>> keyring = open_keyring(folder.name + "/visits.keyring", create=True)
            >>> with open_store(folder.name + "/visits.db", keyring=keyring) as store:
            ...     print(len(store.list_versions()))
            2
            >>> folder.cleanup()
        """
        raise StoreError(f"a {type(self).__name__} is not sealed with a keyring, so its rows have no versions")

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
