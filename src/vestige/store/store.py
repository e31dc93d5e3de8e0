"""A store: where the state of streams lives when no process runs.

The stream is the only one who writes to it. `vestige.checks.check_store` checks that one keeps to the contract.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import NoReturn, Protocol, Self

from vestige.errors import ParameterError, StoreError
from vestige.store.state import Position, State, Terms
from vestige.validation import show_value


class Live(Protocol):
    """A stream that is open."""

    def flush(self) -> None:
        """Write what it holds back."""


def check_name(name: str, value: object) -> str:
    """`value`, if it is a text; else an error that names the parameter."""
    if not isinstance(value, str):
        raise ParameterError(f"{name}={show_value(value)} is not a name; pass a text")
    return value


class Place(ABC):
    """Where one stream lives in a store."""

    def __init__(self, store: Store, name: str, about: Mapping[str, object]) -> None:
        self.store = store
        self.name = name
        self.about = about
        self.lost = False
        """Whether what was committed here may not be in the store, since what it was written together with failed."""

    @abstractmethod
    def read(self, terms: Terms) -> State:
        """The state as it was last written; the empty one if it never was. An error if it has other terms."""

    @abstractmethod
    def write(self, terms: Terms, state: State) -> None:
        """Put `state` in the place of what was there: all or nothing, and durable once this returns.

        Of records that are not in `state`, nothing is left.
        """

    def open(self, terms: Terms) -> State:
        """The state to go on from; a stream that was opened here before writes what it holds back."""
        earlier = self.store.live(self.name)
        if earlier is not None:
            earlier.flush()
        return self.read(terms)

    def take(self, stream: Live) -> None:
        """From now on `stream` is the one that is open here; one that was opened before cannot write any more."""
        self.store._open[self.name] = (self, stream)

    def commit(self, terms: Terms, state: State) -> None:
        """Write `state`, unless the stream was closed or opened again since it was opened here."""
        self.check_open()
        self.write(terms, state)
        self.lost = False

    def check_open(self) -> None:
        """Raise a StoreError if the stream was closed or opened again since it was opened here."""
        if self.store._open.get(self.name, (None,))[0] is not self:
            raise StoreError(
                f"stream {self.name!r} is not open here any more: its store was closed, it was removed, or it was "
                "opened again since; use the newer one, or open it again"
            )
        if os.getpid() != self.store._process:
            raise StoreError(
                f"stream {self.name!r} was opened before this process was forked; open it again in this process"
            )


class Store(ABC):
    """Named streams that outlive the process; use it in a `with` statement, or close it."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Place, Live]] = {}
        self._process, self._turn = os.getpid(), threading.RLock()

    def __reduce__(self) -> NoReturn:
        raise StoreError(
            f"this {type(self).__name__} cannot be copied or pickled: two that hold the same streams would overwrite "
            "each other; pass this one on, or open the store where it is needed"
        )

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The streams that are there, sorted."""

    def survey(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The streams whose names can be read, sorted; and what is wrong with the others, a sentence each."""
        return self.names(), ()

    @abstractmethod
    def terms(self, name: str) -> Terms:
        """The terms of a stream that is there."""

    @abstractmethod
    def pseudonym(self, subject: str) -> str:
        """What stands for `subject` in the store: a keyed hash, 32 hexadecimal digits."""

    def sources(self) -> tuple[str, ...]:
        """The sources that were read into any stream, sorted."""
        return tuple(sorted({source for _, _, state in self._states() for source in state.positions}))

    def positions(self, source: str, about: Mapping[str, object] | None = None) -> dict[str, Position]:
        """How far `source` was read into each stream that it was read into.

        Args:
            source: its name.
            about: only into streams that were made with this; see `stream`.
        """
        check_name("source", source)
        return {
            name: state.positions[source]
            for name, terms, state in self._states()
            if source in state.positions and about in (None, terms.about)
        }

    def _states(self) -> Iterator[tuple[str, Terms, State]]:
        """What was last written of each stream that can be read."""
        for name in self.survey()[0]:
            with suppress(StoreError):
                terms = self.terms(name)
                yield name, terms, self._place(name, terms.about).read(terms)

    @abstractmethod
    def _erase(self, name: str) -> None:
        """Erase a stream that is there, its name included."""

    @abstractmethod
    def _place(self, name: str, about: Mapping[str, object]) -> Place:
        """Where the stream `name` lives, or is to live."""

    def stream(self, name: str, *, about: Mapping[str, object] | None = None) -> Place:
        """Where the stream `name` lives, for `vestige.Stream(..., store=...)`.

        Args:
            name: any text.
            about: what else must stay the same whenever it is opened, as plain data; say, the names of its columns.
        """
        if not isinstance(name, str) or not name:
            raise ParameterError(f"name={show_value(name)} is no name; give the stream a text that is not empty")
        if about is not None and not isinstance(about, Mapping):
            raise ParameterError(f"about={show_value(about)} is not plain data by name; pass a dict")
        return self._place(name, dict(about or {}))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Let all that is written inside become durable at once, at the end."""
        yield

    def flush(self) -> None:
        """Write what the streams that are open hold back."""
        try:
            with self.transaction():
                for _, stream in tuple(self._open.values()):
                    stream.flush()
        except BaseException:
            self._lose()
            raise

    def _lose(self) -> None:
        """Have the streams that are open write what they hold once more, since it may not be in the store."""
        for place, _ in self._open.values():
            place.lost = True

    def live(self, name: str) -> Live | None:
        """The stream `name` as it is open here; None if it is not.

        Act on this one: opened a second time, the first could not write any more.
        """
        return self._open.get(check_name("name", name), (None, None))[1]

    def live_names(self) -> tuple[str, ...]:
        """The streams that are open here, also those that were not written yet."""
        return tuple(sorted(self._open))

    def tidy(self) -> None:  # noqa: B027
        """Bring what is kept into a form that says nothing of how it came about; by default there is nothing to do."""

    def remove(self, name: str) -> None:
        """Erase a stream: its records, its positions, its receipts, and its name.

        One whose name cannot be read goes by what `survey` says of it. What it holds back is not written, and the
        stream that is open here cannot write any more.

        Raises:
            StoreError: there is no such stream.
        """
        names, wrong = self.survey()
        if check_name("name", name) in (*names, *wrong):  # a stream that is damaged can be removed too
            self._erase(name)
        elif name not in self._open:
            self.terms(name)  # which says that there is none
        self._open.pop(name, None)

    def release_stream(self, name: str) -> None:
        """Write what one stream holds back, and let go of it; it can be opened again."""
        stream = self.live(name)
        if stream is not None:
            stream.flush()
            del self._open[name]

    def release(self) -> None:
        """Write what the streams hold back, and let go of them; they can be opened again."""
        self.flush()
        self._open.clear()

    def close(self) -> None:
        """Write what the streams hold back, and let go of the store."""
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
