"""Removal without a policy: what is due is erased, and the statistic restarts if it was encoded in that.

For a stream whose policy cannot be loaded: its limits hold all the same. Without the policy nobody can say what the
kept records meant once one of them is gone, so the whole encoded batch is erased with it, and the clock says so.
Guarantee: erases exactly what a stream with its policy erases when it cannot write the statistic again (both by
`vestige.stream.deadlines.expire`); held by tests/operations/test_erasure.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np

from vestige.store import State, Terms
from vestige.stream.deadlines import expire, restart_clock
from vestige.stream.removal import has_overdue, keep_receipts, settle_receipts
from vestige.times import TICK, to_ticks, wall_clock
from vestige.types import Bools

_FIRST = -(2**63) + 1
"""The earliest time that a record can have."""


def erase_overdue(terms: Terms, state: State, now: datetime, *, all_or_nothing: bool = True) -> State:
    """Erase what is overdue, and drop receipts that have expired.

    Args:
        terms: the limits.
        state: what is held.
        now: the time that limits in time are checked against.
        all_or_nothing: whether the kept records carry the answer only together, so that all go with the first of them.

    Returns:
        The state that is left; the same object if nothing is due.
    """
    held, clock = state.retained, state.clock
    late = np.zeros(len(held), np.bool_)
    if terms.retention is not None:
        late |= held.rounds <= clock.t - terms.retention
    if terms.max_age is not None:
        late |= held.times <= np.datetime64(max(to_ticks(now) - terms.max_age // TICK, _FIRST), "us")
    clock, left = expire(clock, held, late, to_ticks(now), all_or_nothing=all_or_nothing)
    if clock != state.clock or len(left) < len(held):
        state = replace(state, clock=clock, retained=left, event=None)
        state = state if len(left) else _settle(state)
    if has_overdue(state.receipts, clock.t, wall_clock()):
        state = erase(state, np.zeros(len(left), np.bool_), all_or_nothing=all_or_nothing)
    kept = keep_receipts(state.receipts, wall_clock())
    return state if len(kept) == len(state.receipts) else replace(state, receipts=kept, event=None)


def erase(state: State, going: Bools, *, all_or_nothing: bool = True) -> State:
    """Erase records, and those whose removal was requested before; every request is met.

    Args:
        state: what is held.
        going: which records to erase; one flag per record that is held.
        all_or_nothing: whether the kept records carry the answer only together.

    Returns:
        The state that is left.
    """
    held, clock = state.retained, state.clock
    going, waits = going | held.leaving, held.rounds > clock.last
    left = held.where(~going)
    if all_or_nothing and (going & ~waits).any():
        left = held.where(~going & waits)
        clock = restart_clock(clock, left)
    return _settle(replace(state, clock=clock, retained=left, event=None))


def _settle(state: State) -> State:
    """The same state with every request met."""
    return replace(state, receipts=settle_receipts(state.receipts, state.clock.t, wall_clock()), event=None)
