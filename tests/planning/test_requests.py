"""What share of a batch can ask to leave, against streams in which so many do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vestige import Count, Distinct, Mean, Moments, Stream, Sum
from vestige.planning import plan
from vestige.planning.requests import find_removable_share, note_requests


def count_restarts(policy: Any, batch: int, share: float, batches: int = 20) -> int:
    """The number of batches after which the statistic has started over, where a share of each asks to leave."""
    stream, rng, starts = Stream(policy, retention=2 * batch, seed=0), np.random.default_rng(0), set()
    for _ in range(batches):
        stream.extend(rng.normal(size=batch - 1))
        waiting = np.arange(stream.clock.last + 1, stream.t + 1)
        stream.forget(rounds=rng.permutation(waiting)[: round(share * batch)].tolist())
        stream.extend(rng.normal(size=1))
        starts.add(stream.clock.since)
    return len(starts) - 1


@pytest.mark.parametrize(("policy", "batch"), [(Sum(), 64), (Sum(), 128), (Mean(), 40), (Moments(4), 200)])
def test_fewer_requests_are_met_and_more_start_over(policy: Any, batch: int) -> None:
    """Eight batches were tried; four more records leave room for what is rarer, and for the one that comes last."""
    share = find_removable_share(policy, batch)
    assert 0.1 < share < 0.9
    assert count_restarts(policy, batch, share - 4.0 / batch) == 0
    assert count_restarts(policy, batch, min(share + 8.0 / batch, 1.0)) > 10


def test_a_plan_says_how_many_requests_it_has_room_for() -> None:
    row = plan(Sum(), records=20_000).rows[0]
    assert row.retention is not None
    assert note_requests(Sum(), row.retention // 2)[0] in row.notes
    assert "ask" in note_requests(Sum(), row.retention // 2)[0]
    assert "About 67% of a batch can ask to leave" in note_requests(Sum(), 128)[0]
    sketch = plan(Distinct(), records=20_000).rows[0]
    assert any("of a batch can ask to leave" in note for note in sketch.notes)
    assert not note_requests(Count(), 10)
