"""Streams that are open together as `KeyedStreams`: how sweeps and requests reach one of them.

A request is carried out by a `Stream`, as in every other stream: the stream is lent for that, and put back.
Guarantee: what is requested of a store reaches the streams that a run holds open; held by
tests/operations/test_families.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vestige.keyed import KeyedStreams
from vestige.store import State, Store, Terms
from vestige.stream import Stream
from vestige.stream.limits import Limits


def list_families(store: Store) -> list[KeyedStreams]:
    """List the families of streams that are open in a store.

    Args:
        store: the store.

    Returns:
        The families.
    """
    return [family for family in store.families if isinstance(family, KeyedStreams)]


def flush_families(store: Store) -> None:
    """Write what open families have not written yet, so that the store can be asked about them.

    Args:
        store: the store.

    Raises:
        StoreError: the store cannot be written.
    """
    for family in list_families(store):
        family.flush()


def find_member(store: Store, name: str) -> Member | None:
    """Find a stream that is open as one of a family.

    Args:
        store: the store.
        name: its name.

    Returns:
        The stream; None if it is not open so.
    """
    for family in list_families(store):
        number = family._names.find(name) if name in family else None
        if number is not None and number not in family._shards.blocked:
            return Member(family, name, number)
    return None


def begin_request(store: Store) -> None:
    """Let open families note from now on which streams have met requests.

    Args:
        store: the store.
    """
    for family in list_families(store):
        family._shards.begin_request(store.newest_request)


class Member:
    """A stream that is open as one of a family.

    Args:
        family: the streams.
        name: its name.
        number: its number among them.
    """

    def __init__(self, family: KeyedStreams, name: str, number: int) -> None:
        self._family, self._name, self._number = family, name, number

    @property
    def terms(self) -> Terms:
        """Its terms."""
        return self._family._terms

    @property
    def limits(self) -> Limits:
        """Its limits."""
        return self._family._rules.limits

    def read(self) -> State:
        """Read its state.

        Returns:
            The state.
        """
        return self._family._shards.get_state(self._number)

    def act(self, action: Callable[[Stream], None]) -> None:
        """Do something with it as a `Stream`; it is written with the next flush.

        Args:
            action: what to do.

        Raises:
            Exception: what the action raised.
        """
        problem = self._family._shards.attempt(self._number, action)
        self._family._mark(np.array([self._number]))
        if problem is not None:
            raise problem
