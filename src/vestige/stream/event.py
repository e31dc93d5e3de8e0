"""When a sweep has something to do next in a stream, from its rules: a store finds the streams that are due by it.

Guarantee: a sweep before that time changes nothing; held by tests/stream/test_event.py.
"""

from __future__ import annotations

import numpy as np

from vestige.store import State
from vestige.store.event import find_receipt_events
from vestige.stream.deadlines import NEVER, find_earliest, find_patience, find_warning
from vestige.stream.rules import Rules


def find_event(rules: Rules, state: State) -> int:
    """Find a time before which a sweep has nothing to do.

    Args:
        rules: the rules of the stream.
        state: what it holds.

    Returns:
        Microseconds since 1970; `NEVER` if time alone makes nothing due.
    """
    events = list(find_receipt_events(state.receipts, state.clock.t))
    if rules.is_timed:
        events += _find_deadlines(rules, state)
    return min(events, default=NEVER)


def _find_deadlines(rules: Rules, state: State) -> list[int]:
    """When the encoded batch and the oldest record are due, and when a batch is closed early for them."""
    held, due, limits = state.retained, state.clock.due, rules.limits
    oldest = find_earliest(held.times)
    events = [] if oldest is None else [oldest + limits.age]
    events += [] if due is None else [due]
    waits = held.rounds > state.clock.last
    enough = min(rules.min_early_batch, rules.min_last_batch)
    if rules.closes_early and np.count_nonzero(waits & ~held.leaving) >= enough:
        first = find_earliest(held.times[waits])
        events += [] if first is None else [first + find_patience(limits)]
        events += [] if due is None else [due - find_warning(limits)]
    return events
