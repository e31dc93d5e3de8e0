"""One stream of a store as it is now: as it is open here, or as it was last written.

A stream that is open is never opened a second time, since the first could not write any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from vestige.errors import ParameterError, StoreError
from vestige.operations.families import Member, find_member, flush_families, list_families
from vestige.policy import Policy
from vestige.serialization import from_dict
from vestige.store import State, Store, Terms
from vestige.store.snapshot import UNNAMED
from vestige.stream import Stream, open_stream
from vestige.stream.deadlines import find_ahead
from vestige.stream.limits import Limits
from vestige.times import to_ticks, wall_clock
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
        member: the stream as it is open here with others of its family.
    """

    name: str
    terms: Terms
    state: State
    policy: Policy | None
    problem: str = ""
    live: Stream | None = None
    member: Member | None = None

    @classmethod
    def find(cls, store: Store, name: str) -> Entry:
        """Find a stream of a store, as it is open here or as it was last written.

        Args:
            store: the store.
            name: name of the stream.

        Returns:
            The stream.

        Raises:
            StoreError: it cannot be read.
        """
        live = store.live(name)
        if isinstance(live, Stream):
            state = State(live.clock, live.retained, receipts=live.receipts, settled=live.settled)
            return cls(name, live.terms, state, live.policy, live=live)
        member = find_member(store, name)
        if member is not None:
            return replace(cls.from_snapshot(name, member.terms, member.read()), member=member)
        terms = store.terms(name)
        return cls.from_snapshot(name, terms, store.stream(name, about=terms.about).read(terms))

    @classmethod
    def from_snapshot(cls, name: str, terms: Terms, state: State) -> Entry:
        """Make an entry from a copy of a stream.

        Args:
            name: name of the stream.
            terms: its terms.
            state: its state.

        Returns:
            The stream; without a policy if that cannot be loaded.
        """
        try:
            return cls(name, terms, state, from_dict(terms.policy))
        except StoreError as problem:
            return cls(name, terms, state, None, str(problem))

    @property
    def all_or_nothing(self) -> bool:
        """Whether the kept records carry the answer only together; also assumed where the policy is not known."""
        return self.policy is None or (self.policy.all_or_nothing and not self.policy.every_round)

    @property
    def is_open(self) -> bool:
        """Whether the stream is open here."""
        return self.live is not None or self.member is not None

    def act(self, store: Store, action: Callable[[Stream], None]) -> None:
        """Do something with the stream; one that was not open here is opened for it, and closed afterwards.

        Args:
            store: the store.
            action: what to do; the policy must be known.
        """
        if self.member is not None:
            self.member.act(action)
        elif self.live is not None:
            action(self.live)
        else:
            action(open_stream(store, self.name))
            store.release_stream(self.name)

    def write(self, store: Store, state: State) -> None:
        """Replace what a stream that is not open here holds.

        Args:
            store: the store.
            state: the new state.
        """
        store.stream(self.name, about=self.terms.about).write(self.terms, state)

    @property
    def limits(self) -> Limits:
        """Its limits; `max_ahead` is that of the open stream, or the default if it is not open here."""
        if self.member is not None:
            return self.member.limits
        limits = Limits(self.terms.retention, self.terms.notice, self.terms.max_age)
        return limits if self.live is None else replace(limits, max_ahead=self.live.max_ahead)

    def find_ahead(self, now: datetime) -> Bools:
        """Find the records that are dated further ahead than they may be.

        Args:
            now: the present time.

        Returns:
            One flag per record that is held; all False without a limit in time.
        """
        held = self.state.retained
        return (
            np.zeros(len(held), np.bool_)
            if self.terms.max_age is None
            else find_ahead(self.limits, held.times, to_ticks(now))
        )


FEW = 4096
"""Number of streams up to which each of them is looked at, so that any that cannot be read is named.

In a larger store only those are looked at that an index of the store names.
"""


def check_open(store: object) -> None:
    """Check that an argument is an open store.

    Args:
        store: the argument.

    Raises:
        ParameterError: it is not a store.
    """
    if not isinstance(store, Store):
        raise ParameterError(
            f"store={show_value(store)} is not a store; pass an open one, such as vestige.open_store(PATH)"
        )


def find_names(store: Store, troubles: dict[str, str]) -> tuple[str, ...]:
    """List the streams that are in a store or open there.

    Args:
        store: the store.
        troubles: where rows without a readable name are noted.

    Returns:
        The names, sorted.
    """
    check_open(store)
    names, wrong = store.survey()
    troubles |= dict.fromkeys(wrong, UNNAMED)
    open_names = (name for family in list_families(store) for name in family)
    return tuple(sorted({*names, *store.live_names(), *open_names}))


def is_large(store: Store) -> bool:
    """Tell whether a store has so many streams that only some of them are looked at.

    Args:
        store: the store.

    Returns:
        True if it has more than `FEW`, or if many may be open together.
    """
    check_open(store)
    return store.count() > FEW or bool(list_families(store))


def find_due_names(store: Store, at: datetime, troubles: dict[str, str]) -> tuple[str, ...]:
    """List the streams that a sweep has to look at: all of them, or in a large store those with something due.

    Args:
        store: the store.
        at: the time that limits in time are checked against; requests are due by the machine's clock.
        troubles: where rows without a readable name are noted.

    Returns:
        The names, sorted.
    """
    if not is_large(store):
        return find_names(store, troubles)
    flush_families(store)
    return tuple(sorted({*store.live_names(), *find_due(store, at, troubles)}))


def find_due(store: Store, at: datetime, troubles: dict[str, str]) -> set[str]:
    """Find the streams in which something is due, as they were last written.

    Args:
        store: the store.
        at: the time that limits in time are checked against; requests are due by the machine's clock.
        troubles: where rows without a readable name are noted.

    Returns:
        Their names.
    """
    names = set[str]()
    for moment in {at, max(at, wall_clock())}:
        due, wrong = store.find_due(moment)
        names |= {*due}
        troubles |= dict.fromkeys(wrong, UNNAMED)
    return names


def count_arrived(store: Store) -> tuple[int, tuple[str, ...]]:
    """Count the records that have arrived in all streams, also those that open streams have not written yet.

    Args:
        store: the store.

    Returns:
        The number; and what is wrong with rows whose streams are not counted.
    """
    total, wrong = store.count_arrived()
    for name in store.live_names():
        live = store.live(name)
        if isinstance(live, Stream):
            stored = store.read_stream(name)
            total += live.t - (0 if stored is None else stored[1].clock.t)
    return total, wrong
