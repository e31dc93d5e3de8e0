"""Limits that a stored stream does not keep: records, requests and receipts that are overdue.

Guarantee: finds what is overdue by rounds, by age and by request; held by tests/store/test_verify.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import numpy as np

from vestige.store.receipt import Receipt
from vestige.store.state import State
from vestige.store.terms import Terms
from vestige.times import format_duration


def find_overdue(name: str, terms: Terms, state: State, at: datetime) -> Iterator[str]:
    """Find the records and requests of a stream that are overdue.

    Args:
        name: the name of the stream.
        terms: its limits.
        state: what it holds.
        at: the time that limits in time are checked against, in UTC.

    Yields:
        One sentence for each kind of record, and for each request and receipt.

    Example:
        >>> from datetime import UTC
        >>> from vestige.clock import Clock
        >>> from vestige.records import Records
        >>> state = State(Clock(t=9, first=1, last=5), Records([1, 9], [[0.5], [0.25]]))
        >>> list(find_overdue("a", Terms({}, 1, 8, retention=8), state, datetime(2024, 1, 1, tzinfo=UTC)))
        ["stream 'a': 1 record is older than retention=8 rounds"]
    """
    clock, retained = state.clock, state.retained
    if terms.retention is not None and len(retained) and clock.t - retained.rounds[0] >= terms.retention:
        count = int((clock.t - retained.rounds >= terms.retention).sum())
        yield f"stream {name!r}: {_count_records(count)} older than retention={terms.retention} rounds"
    if terms.max_age is not None:
        deadline = np.datetime64(at.replace(tzinfo=None), "us") - np.timedelta64(terms.max_age)
        count = int((retained.times <= deadline).sum())
        if count:
            limit = f"max_age={format_duration(terms.max_age)} at {at:%F %T}"
            yield f"stream {name!r}: {_count_records(count)} overdue, older than {limit}; run vestige sweep"
    yield from find_overdue_receipts(f"stream {name!r}", state.receipts, at, clock.t)


def find_overdue_receipts(where: str, receipts: Iterable[Receipt], at: datetime, t: int | None = None) -> Iterator[str]:
    """Find requests that should have been met, and receipts that should be gone.

    Args:
        where: what the receipts belong to, for the sentences.
        receipts: the receipts.
        at: the time that limits in time are checked against, in UTC.
        t: the round that limits in rounds are checked against; None to check none.

    Yields:
        One sentence for each request and receipt.

    Example:
        >>> from datetime import UTC
        >>> receipt = Receipt("0123456789abcdef", datetime(2024, 1, 1, tzinfo=UTC), 7, 8)
        >>> list(find_overdue_receipts("stream 'a'", [receipt], datetime(2024, 1, 2, tzinfo=UTC), 8))
        ["stream 'a': request 0123456789abcdef is overdue; run vestige sweep"]
    """
    for receipt in receipts:
        if receipt.is_expired(at):
            yield f"{where}: receipt {receipt.id} has expired and is still there; run vestige sweep"
        is_late = receipt.due is not None and receipt.due < at
        is_late |= t is not None and receipt.due_round is not None and receipt.due_round <= t
        if receipt.erased is None and is_late:
            yield f"{where}: request {receipt.id} is overdue; run vestige sweep"


def _count_records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count:,} records are"
