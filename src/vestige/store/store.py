"""A store: where the state of streams lives while no process runs.

Only streams write to it. `vestige.checks.check_store` checks that a store keeps this contract.
Guarantee: an open stream is never overwritten by a second one of its name; held by tests/stream/test_sharing.py.
"""

from __future__ import annotations

import logging
import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, NoReturn, Self

from vestige.errors import ParameterError, StoreError, StreamsError
from vestige.store.keyring import Keyring
from vestige.store.ledger import Ledger
from vestige.store.names import explain_name, show_name
from vestige.store.place import FamilyPlace, OpenFamily, OpenStream, Place, check_name
from vestige.store.position import Position
from vestige.store.reader import Reader
from vestige.store.state import State
from vestige.store.terms import Terms, drop_defaults
from vestige.validation import check_float, check_int, show_value

_log = logging.getLogger("vestige")
PATIENCE = 5.0
"""Seconds for which a commit waits for others who read the store."""
_LONGEST = 10**6  # seconds


def check_patience(patience: object) -> None:
    """Check that it is a time that somebody could wait.

    Args:
        patience: a number of seconds.

    Raises:
        ParameterError: it is not.

    Example:
        >>> check_patience(5.0)
    """
    check_float("patience", patience, lambda n: 0.0 <= n <= _LONGEST, f"a number of seconds from 0 to {_LONGEST:,}")


class Store(Reader):
    """Named streams that outlive the process; use it in a `with` statement, or close it.

    `vestige.open_store` opens one by its address.

    Attributes:
        address_form: how addresses of this kind of store look, for error messages.
        backend_errors: the exceptions of the backend that concern the whole store, not one stream.
        lock: held by the thread that uses the store; its streams share it, so that neither waits for the other.

    Example:
        >>> from vestige import Mean, Stream, open_store
        >>> with open_store("memory:") as store:
        ...     stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
        ...     _ = stream.extend(range(10))
        ...     store.flush()
        ...     print(store.names())
        ('delays',)
    """

    address_form: ClassVar[str]
    backend_errors: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(self) -> None:
        self._open: dict[str, tuple[Place, OpenStream]] = {}
        self._families: dict[str, tuple[FamilyPlace, OpenFamily]] = {}
        self._transactions = 0
        self._process, self.lock = os.getpid(), threading.RLock()

    def __reduce__(self) -> NoReturn:
        raise StoreError(
            f"this {type(self).__name__} cannot be copied or pickled: two that hold the same streams would overwrite "
            "each other; pass this one on, or open the store where it is needed"
        )

    @classmethod
    @abstractmethod
    def open(
        cls,
        address: str | Path,
        *,
        key: str | Path | None = None,
        keyring: str | Path | Keyring | None = None,
        patience: float = PATIENCE,
        create: bool = True,
    ) -> Store:
        """Open the store at an address of this kind; called by `vestige.open_store`.

        Args:
            address: the address.
            key: the file with the key that subjects are hashed with; default: beside the store.
            keyring: the keyring that the store is sealed with, or its address; default: none.
            patience: seconds for which a commit waits for others who read the store.
            create: whether to create the store if there is none.

        Returns:
            The store.

        Raises:
            ParameterError: the address or an option does not fit this kind of store.
            NoStoreError: there is no store, and `create` is false.
            StoreError: it cannot be opened.
        """

    @classmethod
    @abstractmethod
    def open_reader(
        cls,
        address: str | Path,
        *,
        key: str | Path | None = None,
        keyring: str | Path | Keyring | None = None,
        patience: float = PATIENCE,
    ) -> Reader:
        """Open a reader of the store at an address of this kind; called by `vestige.open_reader`.

        Args:
            address: the address.
            key: the file with the key that subjects are hashed with; default: beside the store.
            keyring: the keyring that the store is sealed with, or its address; default: none.
            patience: seconds to wait for a writer to release the store.

        Returns:
            The reader.
        """

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """List the streams in the store.

        Returns:
            Their names, sorted.

        Raises:
            StoreError: a name cannot be read.
        """

    @abstractmethod
    def terms(self, name: str) -> Terms:
        """Read the terms of a stream.

        Args:
            name: the name of the stream.

        Returns:
            Its terms.

        Raises:
            StoreError: there is no such stream, or it is damaged.
        """

    def iterate_terms(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, Terms]]:
        """Iterate over the terms of streams; those that cannot be read are left out, and reported when they are opened.

        Args:
            names: the names of the streams; default: all whose names can be read.

        Yields:
            The name of a stream and its terms.

        Example:
            >>> from vestige import Mean, Stream, open_store
            >>> with open_store("memory:") as store:
            ...     stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
            ...     _ = stream.extend(range(10))
            ...     store.flush()
            ...     print([(name, terms.retention) for name, terms in store.iterate_terms()])
            [('delays', 96)]
        """
        for name in self.survey()[0] if names is None else names:
            with suppress(StoreError):
                yield name, self.terms(name)

    def find_waiting(self, number: int, limit: int | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Find the streams that a request in the ledger may still wait for, without reading the others.

        Args:
            number: the number of the request; 0 for the streams that have an open request of their own.
            limit: number of streams at which the search may stop; default: all are found.

        Returns:
            The names, sorted: of streams that hold records and have not met the request, or have an open request of
            their own; a store may name more. And what is wrong with rows whose names cannot be read.
        """
        check_int("number", number, 0)
        names, wrong = self.survey()
        return names if limit is None else names[:limit], wrong

    def find_damaged(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Find the streams that are known to be damaged, without reading the others.

        Returns:
            The names, sorted, of streams that cannot be read as far as that is known; a store may name more. And what
            is wrong with rows whose names cannot be read.
        """
        return self.survey()

    def count_arrived(self) -> tuple[int, tuple[str, ...]]:
        """Count the records that have arrived in all streams that can be read, as they were last written.

        Returns:
            The sum of their `t`; and what is wrong with rows whose streams are not counted.
        """
        return sum(state.clock.t for _, _, state in self._states()), self.survey()[1]

    @abstractmethod
    def read_ledger(self) -> Ledger:
        """Read the requests to streams of the store, with their receipts.

        Returns:
            The ledger.

        Raises:
            StoreError: it is damaged.
        """

    @abstractmethod
    def write_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger: all or nothing, and durable once this returns.

        Args:
            ledger: the new ledger.

        Raises:
            StoreError: the store cannot be written.
        """

    @property
    def newest_request(self) -> int:
        """The number of the newest request in the ledger."""
        return self.read_ledger().newest

    @contextmanager
    def borrow(self, names: Sequence[str] | None = None) -> Iterator[dict[str, str]]:  # noqa: ARG002
        """Have other processes lend streams that they have open, to be changed here within the block.

        They write what they have not written yet, and continue with what was changed here; see `lend`. Not within
        `transaction`.

        Args:
            names: the names of the streams; default: all, also those that were not written yet.

        Yields:
            Why streams could not be had, by name; empty for a store that has one writer.

        Raises:
            StoreBusyError: all were asked for, and another process keeps some.
        """
        yield {}

    def lend(self) -> None:
        """Let other processes have the streams that they wait for, and continue with what they have changed.

        `vestige.operations.process_inbox` calls this: call that one every second while you hold streams. A stream that
        was removed meanwhile cannot write any more; `live` then returns None.

        Raises:
            StoreError: the store cannot be read or written.
        """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Make all that is written inside durable at once, at the end; nothing of it if an error leaves the block.

        Returns:
            A context manager.
        """

    def accept_rollback(self) -> None:
        """Accept the store as it is, although it was put back from an old backup; see `find_rollback`.

        Example:
            >>> from vestige import open_store
            >>> open_store("memory:").accept_rollback()
        """

    @abstractmethod
    def rekey(self) -> None:
        """Start with a new key for subjects, where the old one is lost for good.

        The statistics continue, and subjects can be named again. Records that are held now cannot be found by subject
        any more: one mark replaces their pseudonyms, and they are erased when their limits say so. Streams that are
        open have to be opened again.

        Raises:
            StoreError: the key is not lost; or requests that name subjects by it are waiting.
        """

    def rotate(
        self,
        keyring: str | Path | Keyring | None = None,  # noqa: ARG002  # this kind of store has none
        *,
        tell: Callable[[float], object] = lambda _: None,  # noqa: ARG002
    ) -> int:
        """Seal all rows with fresh keys, and destroy the old ones: for a keyring that somebody may have copied.

        What a copy of the keyring opens then is what copies of the store hold from before; the present rows are out of
        its reach. Rows are sealed some hundred at a time, and a process that is killed leaves a store that its keyring
        opens; call this again.

        Args:
            keyring: another keyring, which was never used, or its address: all rows are sealed with its keys in one
                transaction, and then the old keyring is destroyed. A process that is killed leaves a store that one
                of the two opens. Streams that are open have to be opened again. Default: the one that the store has.
            tell: called with the share of the rows that have new keys.

        Returns:
            The number of rows that have new keys.

        Raises:
            StoreError: the store is not sealed; a row cannot be opened; or the other keyring is in use.

        Example:
            >>> import tempfile
            >>> from vestige.store import open_keyring, open_store
            >>> folder = tempfile.TemporaryDirectory()
            >>> keyring = open_keyring(folder.name + "/visits.keyring", create=True)
            >>> with open_store(folder.name + "/visits.db", keyring=keyring) as store:
            ...     print(store.rotate())
            2
            >>> folder.cleanup()
        """
        raise StoreError(f"a {type(self).__name__} is not sealed with a keyring, so there are no keys to rotate")

    @abstractmethod
    def tidy(self) -> None:
        """Bring the store into its canonical form, which does not depend on how it came about.

        Raises:
            StoreError: a stream is damaged, so that it cannot be written again.
        """

    @abstractmethod
    def _erase(self, name: str) -> None:
        """Erase a stream that is there, its name included."""

    @abstractmethod
    def _place(self, name: str, about: Mapping[str, object]) -> Place:
        """Where the stream `name` lives, or is to live."""

    def stream(self, name: str, *, about: Mapping[str, object] | None = None) -> Place:
        """Return the place of a stream, for `vestige.Stream(..., store=...)`.

        Args:
            name: a text of 1 to 1,024 bytes of UTF-8 that does not begin with NUL.
            about: what else must stay the same whenever it is opened, as plain data, such as the names of its columns.

        Returns:
            The place; nothing is written yet.

        Raises:
            ParameterError: the name is not such a text, or `about` is not a mapping.
        """
        if not isinstance(name, str) or not name:
            raise ParameterError(f"name={show_value(name)} is not a name; pass a text that is not empty")
        if (why := explain_name(name)) and not self.has(name):  # what is stored already can be read, and erased
            raise ParameterError(f"name={show_name(name)} {why}")
        if about is not None and not isinstance(about, Mapping):
            raise ParameterError(f"about={show_value(about)} is not plain data by name; pass a dict")
        return self._place(name, dict(about or {}))

    def family(self, *, about: Mapping[str, object] | None = None) -> FamilyPlace:  # noqa: ARG002
        """Return the place of all streams with the same terms, for `vestige.KeyedStreams(..., store=...)`.

        Args:
            about: what else must stay the same whenever they are opened, as plain data; it tells families with the
                same policy and limits apart.

        Returns:
            The place; nothing is written yet.

        Raises:
            ParameterError: `about` is not a mapping.
            StoreError: this kind of store has places for single streams only.
        """
        raise StoreError(
            f"a {type(self).__name__} has places for single streams only; open one stream for each key, or use a "
            "store in a file"
        )

    @property
    def families(self) -> tuple[OpenFamily, ...]:
        """The families of streams that are open here."""
        return tuple(streams for _, streams in self._families.values())

    def _close_family(self, terms: str) -> None:
        """Write what streams with these terms have not written yet, and close them."""
        for name, (_, stream) in tuple(self._open.items()):
            if stream.terms.fixed_text == terms:
                self.release_stream(name)
        if terms in self._families:
            _flush_family(self._families[terms][1])
            self._drop_family(terms)

    def positions(self, source: str, about: Mapping[str, object] | None = None) -> dict[str, Position]:
        """Find how far a source was read into each stream.

        Args:
            source: its name.
            about: only consider streams that were made with this, whatever its defaults are; see `stream`.

        Returns:
            The positions, by the name of the stream.

        Raises:
            ParameterError: the source is not a text.
        """
        check_name("source", source)
        return {
            name: state.positions[source]
            for name, terms, state in self._states()
            if source in state.positions and (about is None or terms.fixed == drop_defaults(about))
        }

    def list_positions(self, about: Mapping[str, object] | None = None) -> dict[str, dict[str, Position]]:
        """Find how far each source was read into each stream, in one pass; see `positions`.

        Args:
            about: only consider streams that were made with this, whatever its defaults are; see `stream`.

        Returns:
            The positions, by the name of the source and by the name of the stream.
        """
        found: dict[str, dict[str, Position]] = {}
        for name, terms, state in self._states():
            if about is None or terms.fixed == drop_defaults(about):
                for source, position in state.positions.items():
                    found.setdefault(source, {})[name] = position
        return found

    def _states(self) -> Iterator[tuple[str, Terms, State]]:
        """What was last written of each stream that can be read."""
        for name in self.survey()[0]:
            with suppress(StoreError):
                terms = self.terms(name)
                yield name, terms, self._place(name, terms.about).read(terms)

    def flush(self) -> None:
        """Write what the open streams have not written yet.

        Raises:
            StoreError: the store cannot be written.
        """
        try:
            with self.transaction():
                for _, stream in tuple(self._open.values()):
                    stream.flush()
                for streams in self.families:
                    _flush_family(streams)
        except BaseException:
            self._mark_lost()
            raise

    def _mark_lost(self) -> None:
        """Have the open streams write what they hold once more, since it may be missing from the store."""
        for place, _ in self._open.values():
            place.lost = True
        for streams in self.families:
            streams.mark_lost()

    def live(self, name: str) -> OpenStream | None:
        """Return a stream as it is open here.

        Use this one: if the stream were opened a second time, the first could not write any more.

        Args:
            name: the name of the stream.

        Returns:
            The stream; None if it is not open here.

        Raises:
            ParameterError: the name is not a text.
        """
        return self._open.get(check_name("name", name), (None, None))[1]

    def live_names(self) -> tuple[str, ...]:
        """List the streams that are open here, also those that were not written yet.

        Returns:
            Their names, sorted.
        """
        return tuple(sorted(self._open))

    def remove(self, name: str) -> None:
        """Erase a stream: its records, its positions, its receipts, and its name.

        What the stream has not written yet is dropped, and it cannot write any more.

        Args:
            name: the name of the stream; for a row whose name cannot be read, what `survey` says of it.

        Raises:
            StoreError: there is no such stream.
        """
        family = next((family for family in self.families if check_name("name", name) in family), None)
        if family is not None or self.has(name):  # a damaged stream can be removed too
            with self.transaction():
                ledger = self.read_ledger()
                if (left := ledger.without_streams({name})) is not ledger:
                    self.write_ledger(left)
            self._erase(name) if family is None else family.remove(name)
        elif name not in self._open:
            self.terms(name)  # raises: there is no such stream
        self._drop(name)

    def _drop(self, name: str) -> None:
        """Close a stream, if it is open here, without writing what it has not written yet."""
        if name in self._open:
            self._open.pop(name)[0].give_up()

    def _drop_family(self, terms: str) -> None:
        """Close the streams of a family, if they are open here, without writing what they have not written yet."""
        if terms in self._families:
            self._families.pop(terms)[0].give_up()

    def release_stream(self, name: str) -> None:
        """Write what one stream has not written yet, and close it; it can be opened again.

        Args:
            name: the name of the stream.

        Raises:
            StoreError: the store cannot be written.
        """
        stream = self.live(name)
        if stream is not None:
            stream.flush()
            self._drop(name)

    def release(self) -> None:
        """Write what the streams have not written yet, and close them; they can be opened again.

        Raises:
            StoreError: the store cannot be written.
        """
        self.flush()
        for name in tuple(self._open):
            self._drop(name)
        for terms in tuple(self._families):
            self._drop_family(terms)

    def close(self) -> None:
        """Write what the streams have not written yet, and close the store.

        Raises:
            StoreError: the store cannot be written.
        """
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _flush_family(streams: OpenFamily) -> None:
    """Write streams; if another process has created one with other terms, that is the trouble of this one alone."""
    try:
        streams.flush()
    except StreamsError as problem:
        _log.warning("%s", problem)
