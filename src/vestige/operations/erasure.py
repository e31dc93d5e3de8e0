"""Removal without a policy: what must go is erased in time, and the statistic starts again where it was written in it.

For a stream whose policy cannot be made from its name: its limits hold all the same. Without the policy nobody can say
what the kept records meant once one of them is gone, so all of the encoded batch goes with it, and the clock says so.
Guarantee: erases just what a stream with its policy erases where it cannot carry the statistic on; held by
tests/operations/test_erasure.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np

from vestige.records import Bools, Clock
from vestige.store import State, Terms
from vestige.store.state import TICK, ticks, wall_clock

_FIRST = -(2**63) + 1
"""The earliest time that a record can have."""


def overdue(terms: Terms, state: State, now: datetime) -> Bools:
    """Which of the records that are held should be gone at `now`."""
    held, clock = state.retained, state.clock
    late = np.zeros(len(held), np.bool_)
    if terms.retention is not None:
        late |= held.rounds <= clock.t - terms.retention
    if terms.max_age is not None:
        deadline = max(ticks(now) - terms.max_age // TICK, _FIRST)
        late |= held.times <= np.datetime64(deadline, "us")
    if any(_is_overdue(receipt.erased, receipt.due, receipt.due_round, clock.t) for receipt in state.receipts):
        late |= held.leaving
    return late


def _is_overdue(erased: datetime | None, due: datetime | None, due_round: int, t: int) -> bool:
    return erased is None and (due_round <= t or (due is not None and due <= wall_clock()))


def erase_overdue(terms: Terms, state: State, now: datetime, *, together: bool = True) -> State:
    """The state without what is overdue at `now`, and without receipts that have expired.

    Args:
        terms: the limits.
        state: what is held.
        now: the time by the clock that counts.
        together: whether the kept records speak only together, so that all go with the first of them.

    Returns:
        the same state if nothing is due.
    """
    late, due = overdue(terms, state, now), state.clock.due
    lapsed = due is not None and due <= ticks(now)
    if late.any() or (lapsed and together and state.clock.encoded):
        state = _without(state, late, lost=together)
    kept = tuple(receipt for receipt in state.receipts if not receipt.expired(wall_clock()))
    return state if len(kept) == len(state.receipts) else replace(state, receipts=kept)


def erase(state: State, going: Bools) -> State:
    """The state without these records and without those that were asked to leave before; every request is met."""
    going = going | state.retained.leaving
    encoded = state.retained.rounds <= state.clock.last
    made = _without(state, going, lost=bool((going & encoded).any()))
    return replace(made, receipts=tuple(receipt.settled(state.clock.t) for receipt in made.receipts))


def _without(state: State, going: Bools, *, lost: bool) -> State:
    """The state without these records; where the statistic is lost, without the batch that it was written in."""
    held, clock = state.retained, state.clock
    left = held.where(~going & (held.rounds > clock.last) if lost else ~going)
    if lost:
        start = int(left.rounds[0]) if len(left) else clock.t + 1
        clock = Clock(clock.t, first=start, last=start - 1, since=start)
    receipts = state.receipts
    if not left.leaving.any():
        receipts = tuple(receipt.settled(clock.t) for receipt in receipts)
    return replace(state, clock=clock, retained=left, receipts=receipts)
