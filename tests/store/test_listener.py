"""Connections on which no request is under way give way to others, those that have waited longest first."""

from __future__ import annotations

import pytest

from vestige.store.listener import Clients, Protocol


class Connection(Protocol):
    """A connection whose state is said."""

    def __init__(self, clients: Clients, address: str) -> None:
        self._clients, self._address = clients, address
        self.is_busy = self.is_ended = False
        self.was_added = clients.add(self, address)

    @property
    def is_waiting(self) -> bool:
        """Whether no request is under way."""
        return not self.is_busy

    def end(self) -> None:
        """Close it."""
        self.is_ended = True
        self._clients.discard(self, self._address)


@pytest.mark.parametrize("most", [100, 4])
def test_the_one_that_has_waited_longest_gives_way(most: int) -> None:
    clients = Clients(most, 3)
    first, second, third = (Connection(clients, "a") for _ in range(3))
    other = Connection(clients, "b") if most > 4 else None
    clients.renew(first, "a")
    third.is_busy = True
    fourth = Connection(clients, "a")
    assert (fourth.was_added, [each.is_ended for each in (first, second, third)]) == (True, [False, True, False])
    fifth = Connection(clients, "a")
    assert (fifth.was_added, first.is_ended) == (True, True)
    fourth.is_busy = fifth.is_busy = True
    assert not Connection(clients, "a").was_added
    assert other is None or not other.is_ended
    clients.renew(first, "a")  # which is gone
    clients.discard(first, "a")


def test_where_all_are_too_many_one_of_the_client_with_most_gives_way() -> None:
    clients = Clients(6, 4)
    many = [Connection(clients, "a") for _ in range(3)]
    few = [Connection(clients, address) for address in "bcd"]
    assert [each.is_ended for each in (*many, *few)] == [True, False, False, False, False, False]
    for each in (*many[1:], *few):
        clients.discard(each, each._address)
    assert not clients._open
    assert clients._count == 0
