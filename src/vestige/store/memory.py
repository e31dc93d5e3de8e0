"""A store in memory: the contract in its plainest form, for tests and for streams that need not outlive the process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from vestige.errors import StoreError
from vestige.store.keys import hash_subject
from vestige.store.state import State, Terms
from vestige.store.store import Place, Store, check_name


class MemoryStore(Store):
    """Named streams, as long as this object lives.

    >>> from vestige import Mean, Stream
    >>> store = MemoryStore()
    >>> stream = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
    >>> _ = stream.extend(range(1, 1_001))
    >>> stream.flush()
    >>> again = Stream(Mean(), retention=96, seed=0, store=store.stream("delays"))
    >>> again.t, round(again.estimate().value, 6)
    (1000, 500.5)
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, tuple[Terms, State]] = {}
        self._key = secrets.token_bytes(32)

    def names(self) -> tuple[str, ...]:
        """The streams that are there, sorted."""
        return tuple(sorted(self._kept))

    def terms(self, name: str) -> Terms:
        """The terms of a stream that is there."""
        if check_name("name", name) not in self._kept:
            raise StoreError(f"there is no stream {name!r}")
        return self._kept[name][0]

    def pseudonym(self, subject: str) -> str:
        """A hash under a key that lives as long as this object."""
        return hash_subject(subject, self._key)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return to what there was if something goes wrong inside."""
        before = dict(self._kept)
        try:
            yield
        except BaseException:
            self._kept = before
            self._lose()
            raise

    def _erase(self, name: str) -> None:
        del self._kept[name]

    def _place(self, name: str, about: Mapping[str, object]) -> Place:
        return _Place(self, name, about)


class _Place(Place):
    store: MemoryStore

    def read(self, terms: Terms) -> State:
        if self.name not in self.store._kept:
            return State.empty(terms.columns)
        known, state = self.store._kept[self.name]
        known.check(self.name, terms)
        return state

    def write(self, terms: Terms, state: State) -> None:
        self.store._kept[self.name] = (terms, state)
