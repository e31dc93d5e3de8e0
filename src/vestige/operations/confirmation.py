"""Requests to several streams are confirmed once each stream has met them, and their receipts expire.

Guarantee: a request is never said to be met while a record that it asked for is held, and whether it is met depends on
the public clocks of the streams, not on who was in them; held by tests/operations/test_receipts.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from vestige.errors import StoreBusyError, StoreError
from vestige.operations.entry import Entry, find_names
from vestige.operations.families import flush_families, list_families
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
    entries = _find_entries(store, ledger, unreadable)
    is_large = bool(list_families(store))
    t = store.count_arrived() if is_large else sum(entry.state.clock.t for entry in entries.values())

    def is_met(number: int, asked: LedgerEntry) -> bool:
        names = entries.keys() | unreadable.keys() if asked.streams is None else {*asked.streams, *asked.failed}
        if names & unreadable.keys():
            return False
        held = [entries[name] for name in names if name in entries]
        due = asked.receipt.due
        expired = swept is not None and due is not None and due <= min(swept, now)
        if expired and not any(_has_open(entry) for entry in held):
            return True
        return not entries.keys() & set(asked.failed) and all(_has_met(entry, number) for entry in held)

    return ledger.settle(is_met, t, now)


def _find_entries(store: Store, ledger: Ledger, unreadable: dict[str, str]) -> Mapping[str, Entry]:
    """All streams that a request may wait for and that can be read; the others are noted."""
    entries = {}
    for name in _find_names(store, ledger, unreadable):
        try:
            entries[name] = Entry.find(store, name)
        except StoreBusyError:
            raise
        except StoreError as problem:
            unreadable[name] = str(problem)
    return entries


def _find_names(store: Store, ledger: Ledger, unreadable: dict[str, str]) -> tuple[str, ...]:
    """List the streams to look at: all, or where many are open together, those that a request may still wait for."""
    if not list_families(store):
        return find_names(store, unreadable)
    flush_families(store)
    names, wrong = store.find_waiting(ledger.newest)
    unreadable |= dict.fromkeys(wrong, UNNAMED)
    return tuple(sorted({*names, *store.live_names()}))


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
