"""The place of one stream in a store: what a stream reads from and writes to.

Guarantee: of two streams that were opened at one place, only the newer one can write; held by
tests/stream/test_sharing.py.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from vestige.errors import ParameterError, StoreError
from vestige.store.state import State
from vestige.store.terms import Terms
from vestige.validation import show_value

if TYPE_CHECKING:
    from vestige.store.store import Store
    from vestige.store.table_store import TableStore


_NOT_OPEN = (
    "is not open here any more: its store was closed, it was removed, or it was opened again since; use the newer one, "
    "or open it again"
)


class OpenStream(Protocol):
    """A stream that is open."""

    @property
    def terms(self) -> Terms:
        """Its terms."""

    def flush(self) -> None:
        """Write what it has not written yet."""

    def reload(self) -> None:
        """Continue from what the store has."""


class OpenFamily(Protocol):
    """Streams of a family that are open together."""

    def __contains__(self, name: object) -> bool:
        """Whether one of them has this name."""

    def remove(self, name: str) -> None:
        """Erase the stream of this name."""

    def flush(self) -> None:
        """Write what they have not written yet."""

    def reload(self) -> None:
        """Continue from what the store has."""

    def mark_lost(self) -> None:
        """Note that what was written last may be missing from the store."""


def check_name(name: str, value: object) -> str:
    """Check that a parameter is a name.

    Args:
        name: the name of the parameter.
        value: what was passed.

    Returns:
        The value.

    Raises:
        ParameterError: it is not a text.

    Example:
        >>> check_name("source", "visits.csv")
        'visits.csv'
    """
    if not isinstance(value, str):
        raise ParameterError(f"{name}={show_value(value)} is not a name; pass a text")
    return value


class Place(ABC):
    """The place of one stream in a store; `Store.stream` returns one.

    Args:
        store: the store.
        name: the name of the stream.
        about: what else must stay the same whenever the stream is opened, as plain data.

    Attributes:
        lost: whether what was committed here may be missing from the store, because what it was written together with
            failed.
        fate: what became of the stream if somebody else has ended it here, for error messages.

    Example:
        >>> from vestige import Mean, Stream, open_store
        >>> place = open_store("memory:").stream("delays")
        >>> Stream(Mean(), retention=96, seed=0, store=place).t
        0
    """

    def __init__(self, store: Store, name: str, about: Mapping[str, object]) -> None:
        self.store = store
        self.name = name
        self.about = about
        self.lost = False
        self.fate = ""

    @abstractmethod
    def read(self, terms: Terms) -> State:
        """Read the state as it was last written.

        Args:
            terms: the terms that the stream is opened with.

        Returns:
            The state; the empty one if none was written yet.

        Raises:
            StoreError: the stream has other terms, or is damaged.
        """

    @abstractmethod
    def write(self, terms: Terms, state: State) -> None:
        """Replace the stored state: all or nothing, and durable once this returns.

        Of records that are not in `state`, nothing is left.

        Args:
            terms: the terms of the stream.
            state: the new state.

        Raises:
            StoreError: the store cannot be written.
        """

    def open(self, terms: Terms) -> State:
        """Return the state to continue from; a stream that was opened here before writes what it has not written yet.

        Args:
            terms: the terms that the stream is opened with.

        Returns:
            The state.

        Raises:
            StoreError: the stream has other terms, or is damaged.
        """
        if terms.fixed_text in self.store._families or any(self.name in family for family in self.store.families):
            raise StoreError(
                f"stream {self.name!r} is open as one of KeyedStreams; use those, or close the store and open it again"
            )
        earlier = self.store.live(self.name)
        if earlier is not None:
            earlier.flush()
        return self.read(terms)

    def take(self, stream: OpenStream) -> None:
        """Make `stream` the one that is open here; one that was opened before cannot write any more.

        Args:
            stream: the stream.
        """
        earlier = self.store._open.get(self.name, (self,))[0]
        self.store._open[self.name] = (self, stream)
        if earlier is not self:
            earlier.give_up()

    def give_up(self) -> None:  # noqa: B027  # only some stores have something to do here
        """Let others open the stream, which is not open here any more; a store with one writer has nothing to do."""

    def commit(self, terms: Terms, state: State) -> None:
        """Write `state`, provided that the stream is still the one that is open here.

        Args:
            terms: the terms of the stream.
            state: the new state.

        Raises:
            StoreError: the stream was closed, removed or opened again; or the store cannot be written.
        """
        self.check_open()
        with self.store.transaction():
            self.check_open()  # again: a store that had to be connected anew may have lost the stream
            self.write(terms, state)
        self.lost = False

    def check_open(self) -> None:
        """Check that the stream is still the one that is open here.

        Raises:
            StoreError: it was closed, removed or opened again; or this process was forked since.
        """
        if self.store._open.get(self.name, (None,))[0] is not self:
            raise StoreError(f"stream {self.name!r} {self.fate or _NOT_OPEN}")
        if os.getpid() != self.store._process:
            raise StoreError(
                f"stream {self.name!r} was opened before this process was forked; open it again in this process"
            )


_NOT_ALL_OPEN = (
    "are not open here any more: their store was closed, or they were opened again since; use the newer ones, or open "
    "them again"
)


class FamilyPlace:
    """The place of all streams of a family in a store, for `vestige.KeyedStreams`; `Store.family` returns one.

    Args:
        store: the store.
        about: what else must stay the same whenever the streams are opened, as plain data.

    Attributes:
        fate: what became of the streams if somebody else has ended them here, for error messages.
        terms: the fixed text of the terms that the streams were opened with.

    Example:
        >>> from vestige import KeyedStreams, Mean, open_store
        >>> store = open_store("memory:")
        >>> shops = KeyedStreams(Mean(), retention=96, store=store.family())
        >>> shops.extend(["DE", "FR"], [1.0, 2.0])
        2
        >>> store.names()
        ('DE', 'FR')
    """

    def __init__(self, store: TableStore, about: Mapping[str, object]) -> None:
        self.store = store
        self.about = about
        self.fate = ""
        self.terms = ""

    def open(self, terms: Terms) -> None:
        """Close the streams of the family that are open here; they write what they have not written yet.

        Args:
            terms: the terms that the streams are opened with.

        Raises:
            StoreError: what was not written yet cannot be.
        """
        self.terms = terms.fixed_text
        self.store._close_family(self.terms)

    def take(self, streams: OpenFamily) -> None:
        """Make `streams` those that are open here.

        Args:
            streams: the streams.
        """
        self.store._families[self.terms] = self, streams

    def give_up(self) -> None:
        """Let others open the streams, which are not open here any more; a store with one writer has nothing to do."""

    def check_open(self) -> None:
        """Check that the streams are still those that are open here.

        Raises:
            StoreError: they were closed or opened again; or this process was forked since.
        """
        if self.store._families.get(self.terms, (None,))[0] is not self:
            raise StoreError(f"these streams {self.fate or _NOT_ALL_OPEN}")
        if os.getpid() != self.store._process:
            raise StoreError(
                "these streams were opened before this process was forked; open them again in this process"
            )
