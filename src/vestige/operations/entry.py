"""One stream of a store as it is now: as it is open here, or as it was last written.

A stream that is open is never opened a second time, since the first could not write any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from vestige.errors import ParameterError, StoreError
from vestige.policy import Policy
from vestige.serialization import from_dict
from vestige.store import State, Store, Terms
from vestige.store.snapshot import UNNAMED
from vestige.stream import Stream, open_stream
from vestige.stream.deadlines import find_ahead
from vestige.stream.limits import Limits
from vestige.times import to_ticks
from vestige.types import Bools
from vestige.validation import show_value


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream of a store.

    Attributes:
        name: its name.
        terms: its terms.
        state: what it holds.
        policy: the policy; None if it cannot be loaded.
        problem: why it cannot be loaded.
        live: the stream as it is open here.
    """

    name: str
    terms: Terms
    state: State
    policy: Policy | None
    problem: str = ""
    live: Stream | None = None

    @classmethod
    def find(cls, store: Store, name: str) -> Entry:
        """The stream `name` of a store; an error if it cannot be read."""
        live = store.live(name)
        if isinstance(live, Stream):
            state = State(live.clock, live.retained, receipts=live.receipts)
            return cls(name, live.terms, state, live.policy, live=live)
        terms = store.terms(name)
        return cls.from_snapshot(name, terms, store.stream(name, about=terms.about).read(terms))

    @classmethod
    def from_snapshot(cls, name: str, terms: Terms, state: State) -> Entry:
        """A stream as it was copied from a store."""
        try:
            return cls(name, terms, state, from_dict(terms.policy))
        except StoreError as problem:
            return cls(name, terms, state, None, str(problem))

    @property
    def all_or_nothing(self) -> bool:
        """Whether the kept records speak only together; so we say too where we cannot know."""
        return self.policy is None or (self.policy.all_or_nothing and not self.policy.every_round)

    @contextmanager
    def open(self, store: Store) -> Iterator[Stream]:
        """The stream itself, to act on; it must have a policy. One that was not open here is not afterwards either."""
        if self.live is not None:
            yield self.live
            return
        yield open_stream(store, self.name)
        store.release_stream(self.name)

    def write(self, store: Store, state: State) -> None:
        """Put `state` in the place of what a stream that is not open here holds."""
        store.stream(self.name, about=self.terms.about).write(self.terms, state)

    @property
    def limits(self) -> Limits:
        """Its limits; how far ahead a record may be dated is known of a stream that is open, else it is as usual."""
        limits = Limits(self.terms.retention, self.terms.notice, self.terms.max_age)
        return limits if self.live is None else replace(limits, max_ahead=self.live.max_ahead)

    def ahead(self, now: datetime) -> Bools:
        """Which of the records that are held are dated further ahead of `now` than they may be, where that counts."""
        held = self.state.retained
        return (
            np.zeros(len(held), np.bool_)
            if self.terms.max_age is None
            else find_ahead(self.limits, held.times, to_ticks(now))
        )


def check_open(store: object) -> None:
    """An error unless it is a store."""
    if not isinstance(store, Store):
        raise ParameterError(
            f"store={show_value(store)} is not a store; pass an open one, such as vestige.open_store(PATH)"
        )


def find_names(store: Store, troubles: dict[str, str]) -> tuple[str, ...]:
    """The streams that are in a store or open there; rows without a readable name go into `troubles`."""
    check_open(store)
    names, wrong = store.survey()
    troubles |= dict.fromkeys(wrong, UNNAMED)
    return tuple(sorted({*names, *store.live_names()}))
