"""Requests to several streams are confirmed once each stream has met them, and their receipts expire.

Guarantee: a request is never said to be met while a record that it asked for is held, and whether it is met depends on
the public clocks of the streams, not on who was in them; held by tests/operations/test_receipts.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from vestige.errors import StoreBusyError, StoreError
from vestige.operations.entry import Entry, count_arrived, find_names, is_large
from vestige.operations.families import flush_families
from vestige.store import Ledger, Store
from vestige.store.ledger import LedgerEntry
from vestige.store.snapshot import UNNAMED
from vestige.times import wall_clock

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
        flush_families(store)
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
    unreadable: dict[str, str] = {}
    entries, t = _find_entries(store, max(ledger.open), unreadable)

    def is_met(number: int, asked: LedgerEntry) -> bool:
        names = entries.keys() | unreadable.keys() if asked.streams is None else {*asked.streams, *asked.failed}
        if names & unreadable.keys():
            return False
        held = [entries[name] for name in names if name in entries]
        due = asked.receipt.due
        expired = swept is not None and due is not None and due <= min(swept, now)
        if expired and not any(_has_open(entry) for entry in held):
            return True
        return not any(_is_there(store, name) for name in asked.failed) and all(
            _has_met(entry, number) for entry in held
        )

    return ledger.settle(is_met, t, now)


def _find_entries(store: Store, newest: int, unreadable: dict[str, str]) -> tuple[Mapping[str, Entry], int]:
    """The streams that a request may wait for, and how many records have arrived in all; others are noted.

    In a large store, streams that have met the newest request are left out: they have met all of them.
    """
    entries = {}
    if large := is_large(store):
        names, wrong = store.find_waiting(newest)
        unreadable |= dict.fromkeys(wrong, UNNAMED)
        names = tuple(sorted({*names, *store.live_names()}))
    else:
        names = find_names(store, unreadable)
    for name in names:
        try:
            entries[name] = Entry.find(store, name)
        except StoreBusyError:
            raise
        except StoreError as problem:
            unreadable[name] = str(problem)
    return entries, count_arrived(store)[0] if large else sum(entry.state.clock.t for entry in entries.values())


def _is_there(store: Store, name: str) -> bool:
    """Whether a stream that could not be asked can be read now."""
    try:
        return store.live(name) is not None or store.read_stream(name) is not None
    except StoreBusyError:
        raise
    except StoreError:
        return False


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
