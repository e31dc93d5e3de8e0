"""The places of streams in PostgreSQL: who opens one has the right to write it, until it is closed.

Guarantee: a stream that is open elsewhere is refused at once; held by tests/store/test_postgres_locks.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vestige.store.place import FamilyPlace, OpenFamily, OpenStream
from vestige.store.postgres.locks import Right
from vestige.store.state import State
from vestige.store.table_store import TablePlace
from vestige.store.terms import Terms

if TYPE_CHECKING:
    from vestige.store.postgres.store import PostgresStore


class PostgresPlace(TablePlace):
    """The place of one stream.

    Args:
        store: the store.
        name: the name of the stream.
        about: what else must stay the same whenever the stream is opened, as plain data.

    Attributes:
        right: the right to write the stream; None while it is not open.
        is_stored: whether the stream was read from the store, or written there.
    """

    store: PostgresStore

    def __init__(self, store: PostgresStore, name: str, about: Mapping[str, object]) -> None:
        super().__init__(store, name, about)
        self.right: Right | None = None
        self.is_stored = False

    def open(self, terms: Terms) -> State:
        """Return the state to continue from; an error at once if the stream is open elsewhere."""
        before, self.right = self.right, self.store.holdings.acquire_stream(self.name, terms.fixed_text)
        if before is not None:
            self.store.holdings.give_up(before)
        try:
            state = super().open(terms)
        except BaseException:
            self.give_up()
            raise
        self.is_stored = bool(state.clock.t or state.positions or state.receipts)
        return state

    def take(self, stream: OpenStream) -> None:
        """Make `stream` the one that is open here, provided that the right to write it was not lost meanwhile."""
        self.store.holdings.check_held(self.right)
        super().take(stream)

    def give_up(self) -> None:
        """Let others open the stream."""
        right, self.right = self.right, None
        if right is not None:
            self.store.holdings.give_up(right)

    def write(self, terms: Terms, state: State) -> None:
        """Replace the stored state; a stream that is not open here must not be open elsewhere."""
        with self.store.transaction():
            if self.right is None:
                self.store.holdings.acquire_for_now(self.name, terms.fixed_text)
            super().write(terms, state)
        self.is_stored = True


class PostgresFamilyPlace(FamilyPlace):
    """The place of all streams of a family.

    Args:
        store: the store.
        about: what else must stay the same whenever the streams are opened, as plain data.

    Attributes:
        right: the right to write the streams; None while they are not open.
    """

    store: PostgresStore

    def __init__(self, store: PostgresStore, about: Mapping[str, object]) -> None:
        super().__init__(store, about)
        self.right: Right | None = None

    def open(self, terms: Terms) -> None:
        """Close the streams of the family that are open here; an error at once if some are open elsewhere."""
        super().open(terms)
        self.give_up()
        self.right = self.store.holdings.acquire_family(terms.fixed_text)

    def take(self, streams: OpenFamily) -> None:
        """Make `streams` those that are open here, provided that the right to write them was not lost meanwhile."""
        self.store.holdings.check_held(self.right)
        super().take(streams)

    def give_up(self) -> None:
        """Let others open the streams."""
        right, self.right = self.right, None
        if right is not None:
            self.store.holdings.give_up(right)
