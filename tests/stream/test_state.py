"""The state of a stream: whatever happens between a snapshot and its restoration leaves no trace."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vestige import Clock, Mean, Records, Stream
from vestige.store import MemoryStore, Receipt, State
from vestige.stream.arrivals import Arrivals
from vestige.stream.pending import Pending
from vestige.stream.state import StreamState
from vestige.times import wall_clock

CLOCK = Clock(t=13, first=5, last=10, updates=1)
RETAINED = Records([6, 9, 11, 13], [[0.6], [0.9], [1.1], [1.3]], subjects=[None, "ada", "bob", None])


def make_state() -> StreamState:
    return StreamState(State(CLOCK, RETAINED), Pending(8, 1, quick=True))


def test_a_state_is_what_it_was_made_from() -> None:
    state = make_state()
    assert (state.clock, state.t, state.retained) == (CLOCK, 13, RETAINED)
    assert (state.held.rounds.tolist(), state.waiting.rounds.tolist()) == ([6, 9], [11, 13])
    assert not state.pending.is_whole, "round 12 is a gap"


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.advance(Clock(t=13, first=11, last=13, updates=2), Records.empty(1), (), 1),
        lambda state: state.resume(Clock(t=13, first=14, last=13, since=14), Records.empty(1)),
        lambda state: state.mark_leaving(np.array([True, False]), np.array([True, False, False])),
        lambda state: state.pending.append(Arrivals(np.array([[1.4], [1.5]]))),
        lambda state: state.pending.cut(1),
    ],
    ids=["advance", "resume", "mark_leaving", "append", "cut"],
)
def test_restore_undoes_any_change(change: Callable[[StreamState], None]) -> None:
    state = make_state()
    before, snapshot = state.to_saved(), state.snapshot()
    change(state)
    state.receipts = (Receipt.create(wall_clock(), 13, 20, None, None),)
    assert state.to_saved() != before
    state.restore(snapshot)
    assert state.to_saved() == before


def test_restore_overwrites_what_was_appended() -> None:
    state = make_state()
    before, snapshot = state.to_saved(), state.snapshot(copy_pending=False)
    state.pending.append(Arrivals(np.array([[123.456]]), subjects=np.array(["eve"], np.object_)))
    state.restore(snapshot)
    assert state.to_saved() == before
    assert not state.pending.values[state.pending.size :].any()
    assert "eve" not in state.pending.subjects


def test_an_interrupt_after_a_commit_does_not_undo_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    stream = Stream(Mean(), retention=96, seed=0, store=store.stream("a"))
    erase = stream._erase_expired
    calls: list[int] = []

    def interrupt() -> None:
        calls.append(len(calls))
        if len(calls) == 2:  # the first is that of the update
            raise KeyboardInterrupt
        erase()

    monkeypatch.setattr(stream, "_erase_expired", interrupt)
    with pytest.raises(KeyboardInterrupt):
        stream.extend(np.arange(48.0))
    saved = store.stream("a").read(stream._terms)
    assert (stream.clock, stream.retained) == (saved.clock, saved.retained)
    assert stream.clock.last == 48
