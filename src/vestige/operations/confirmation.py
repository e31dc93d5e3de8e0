"""Requests to several streams are confirmed once each stream has met them, and their receipts expire.

Guarantee: a request is never said to be met while a record that it asked for is held, and whether it is met depends on
the public clocks of the streams, not on who was in them; held by tests/operations/test_receipts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from datetime import datetime

from vestige.errors import StoreBusyError, StoreError
from vestige.operations.entry import Entry, count_arrived, find_names, is_large
from vestige.operations.families import flush_families
from vestige.store import Ledger, Store
from vestige.store.ledger import LedgerEntry
from vestige.store.snapshot import UNNAMED
from vestige.times import wall_clock

_AT_FIRST = 64
"""Number of streams of a large store that are looked at before all are that a request may wait for."""
LEDGER = "(ledger)"
"""The name under which a problem with the ledger is reported, beside those of streams."""


def confirm_requests(store: Store, troubles: dict[str, str], *, swept: datetime | None = None) -> None:
    """Note in the ledger which requests have been met, and drop receipts that have expired.

    Args:
        store: the store; streams that are open in it are used as they are.
        troubles: where a problem with the ledger is noted.
        swept: the time that a sweep of all streams, just before, has checked limits in time against; None if there was
            none.
    """
    try:
        with store.transaction():  # nobody files a request meanwhile
            ledger, now = store.read_ledger(), wall_clock()
            left = _settle(store, ledger, now, swept).drop_expired(now)
            if left is not ledger:
                store.write_ledger(left)
    except StoreBusyError:
        raise
    except StoreError as problem:
        troubles[LEDGER] = str(problem)


def _settle(store: Store, ledger: Ledger, now: datetime, swept: datetime | None) -> Ledger:
    if not ledger.open:
        return ledger
    asked_streams = _LargeStore(store) if is_large(store) else _SmallStore(store)

    def is_met(number: int, asked: LedgerEntry) -> bool:
        names = None if asked.streams is None else {*asked.streams, *asked.failed}
        due = asked.receipt.due
        expired = swept is not None and due is not None and due <= min(swept, now)
        if expired and asked_streams.are_all(names, 0, lambda entry: not _has_open(entry)):
            return True
        return not any(asked_streams.is_there(name) for name in asked.failed) and asked_streams.are_all(
            names, number, lambda entry: _has_met(entry, number)
        )

    return ledger.settle(is_met, asked_streams.count_arrived(), now)


class _SmallStore:
    """The streams of a store, each of which is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unreadable: dict[str, str] = {}
        self._entries: dict[str, Entry] = {}
        for name in self._list_names():
            self._find(name)

    def _list_names(self) -> tuple[str, ...]:
        return find_names(self._store, self._unreadable)

    def _find(self, name: str) -> Entry | None:
        """A stream that can be read; None for others, of which those that are there are noted."""
        if name not in self._entries and name not in self._unreadable:
            try:
                self._entries[name] = Entry.find(self._store, name)
            except StoreBusyError:
                raise
            except StoreError as problem:
                self._unreadable[name] = str(problem)
        return self._entries.get(name)

    def are_all(self, names: Set[str] | None, _number: int, fits: Callable[[Entry], bool]) -> bool:
        """Whether all of these streams that are there, all streams for None, can be read and fit."""
        asked = self._entries.keys() | self._unreadable.keys() if names is None else names
        held = [self._entries[name] for name in asked if name in self._entries]
        return not asked & self._unreadable.keys() and all(map(fits, held))

    def is_there(self, name: str) -> bool:
        """Whether a stream can be read."""
        return name in self._entries

    def count_arrived(self) -> int:
        """How many records have arrived in all streams."""
        return sum(entry.state.clock.t for entry in self._entries.values())


class _LargeStore(_SmallStore):
    """The streams of a large store, of which only those are read that a request may wait for, up to the first."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._waiting: dict[tuple[int, int | None], tuple[str, ...]] = {}

    def _list_names(self) -> tuple[str, ...]:
        flush_families(self._store)
        self._arrived, wrong = count_arrived(self._store)
        self._unreadable |= dict.fromkeys(wrong, UNNAMED)
        return self._store.live_names()

    def are_all(self, names: Set[str] | None, number: int, fits: Callable[[Entry], bool]) -> bool:
        """Whether all of these streams that are there, all streams for None, can be read and fit.

        Streams that have met the request of this number, and have no open one of their own, fit.
        """
        if names is not None:
            for name in names:
                if self._may_have(name):
                    self._find(name)
            return super().are_all(names, number, fits)
        if not super().are_all(None, number, fits):  # one that was read before is often enough
            return False
        for limit in (_AT_FIRST, None):
            waiting = self._find_waiting(number, limit)
            for name in waiting:
                entry = self._find(name)
                if entry is None or not fits(entry):
                    return False
            if self._unreadable or limit is None or len(waiting) < limit:
                break
        return not self._unreadable

    def _may_have(self, name: str) -> bool:
        """Whether there is a stream, or may be: a row may be damaged that would have it."""
        try:
            return self._store.has(name)
        except StoreBusyError:
            raise
        except StoreError:
            return True

    def _find_waiting(self, number: int, limit: int | None) -> tuple[str, ...]:
        if (number, limit) not in self._waiting:
            names, wrong = self._store.find_waiting(number, limit)
            self._unreadable |= dict.fromkeys(wrong, UNNAMED)
            self._waiting[number, limit] = names
        return self._waiting[number, limit]

    def is_there(self, name: str) -> bool:
        """Whether a stream can be read."""
        try:
            return self._store.live(name) is not None or self._store.read_stream(name) is not None
        except StoreBusyError:
            raise
        except StoreError:
            return False

    def count_arrived(self) -> int:
        """How many records have arrived in all streams."""
        return self._arrived


def _has_open(entry: Entry) -> bool:
    return any(receipt.erased is None for receipt in entry.state.receipts)


def _has_met(entry: Entry, number: int) -> bool:
    """Whether a stream has erased what a request asked for.

    A stream whose policy cannot be loaded has erased it immediately.
    """
    state = entry.state
    if state.settled >= number or not len(state.retained):
        return True
    return entry.policy is None and not _has_open(entry)
