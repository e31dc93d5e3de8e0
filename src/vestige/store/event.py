"""When a sweep has something to do next in a stream, as far as its terms, its clock and its records tell.

A stream knows its policy, and says it more exactly (`vestige.stream.event`); this is for states without one.
Guarantee: never later than what a sweep does; held by tests/stream/test_event.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vestige.store.receipt import Receipt
from vestige.store.state import State
from vestige.store.terms import Terms
from vestige.times import TICK, add_duration, to_ticks

NEVER = 2**63 - 1
"""A time that never comes, in microseconds since 1970."""
_UNKNOWN = -(2**63)
_PATIENCE_PARTS, _WARNING_PARTS = 2, 8
"""The earliest that a batch is closed for a deadline; see `vestige.stream.deadlines`."""


def find_event(terms: Terms, state: State) -> int:
    """Find a time before which a sweep has nothing to do, whatever the policy is.

    Args:
        terms: the limits.
        state: what is held.

    Returns:
        Microseconds since 1970; `NEVER` if time alone makes nothing due.

    Example:
        >>> find_event(Terms({}, 1, 8), State.empty(1)) == NEVER
        True
    """
    events = list(find_receipt_events(state.receipts, state.clock.t))
    if terms.max_age is not None:
        age, moments = terms.max_age // TICK, state.retained.times.view("i8")
        known = moments[moments != _UNKNOWN]
        events += [int(known.min()) + age // _PATIENCE_PARTS] if len(known) else []
        events += [] if state.clock.due is None else [state.clock.due - age // _WARNING_PARTS]
    return min(events, default=NEVER)


def find_receipt_events(receipts: Iterable[Receipt], t: int) -> Iterator[int]:
    """Find when requests are due, and when receipts expire.

    Args:
        receipts: the receipts of a stream.
        t: number of records that have arrived.

    Yields:
        Microseconds since 1970.
    """
    for receipt in receipts:
        if receipt.erased is not None:
            yield to_ticks(add_duration(receipt.erased, receipt.keep))
        else:
            if receipt.due is not None:
                yield to_ticks(receipt.due)
            if receipt.due_round is not None and receipt.due_round <= t:
                yield _UNKNOWN


def find_newest(terms: Terms, state: State) -> int:
    """Find the newest time that a stream knows.

    Args:
        terms: the limits.
        state: what is held.

    Returns:
        The latest time of a record, or the deadline of the encoded batch less `max_age`, in microseconds since 1970;
        -2**63 if no time is known.

    Example:
        >>> find_newest(Terms({}, 1, 8), State.empty(1)) == -(2**63)
        True
    """
    newest = int(state.retained.times.view("i8").max(initial=_UNKNOWN))
    due = state.clock.due
    return newest if due is None or terms.max_age is None else max(newest, due - terms.max_age // TICK)
