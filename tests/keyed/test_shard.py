"""States put into a shard and taken out again."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from vestige import Clock, KeyedStreams, Mean, Records
from vestige.keyed.shard import Shard


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 70])
@pytest.mark.parametrize("length", [0, 1, 28, 64, 65, 200])
def test_what_is_put_in_comes_out(columns: int, length: int) -> None:
    rng, shard = np.random.default_rng(length), Shard(columns, 49, is_timed=False)
    shard.add_streams(3)
    last = 500
    for key, (since, gaps, bits, labels) in enumerate([(1, 0, 49, False), (7, 2, 30, True), (1, 0, 49, True)]):
        kept = np.flatnonzero(rng.random(length) < 0.5) + last - length + 1
        rounds = np.concatenate((kept, np.arange(last + 1, last + 1 + 5 * key)))
        n = len(rounds)
        records = Records(
            rounds,
            rng.normal(size=(n, columns)),
            times=np.arange(n).astype("M8[us]") if labels else None,
            subjects=[rng.bytes(16).hex() if i % 2 else None for i in range(n)] if labels else None,
            numbers=np.arange(n) + 1 if labels else None,
        )
        clock = Clock(
            last + 5 * key,
            last - length + 1,
            last,
            since,
            updates=9 if length else 0,
            gaps=gaps,
            bits=bits if length else 0,
        )
        assert shard.put(key, clock, records)
        assert shard.put(key, clock, records), "what was there is replaced"
        assert shard.get_clock(key) == clock
        assert shard.get_records(key) == records
    used = len(shard.arena.links) - int(shard.arena.free[1])
    for key in range(3):
        shard.clear(key)
        assert shard.get_clock(key) == Clock()
    assert used > 0
    assert int(shard.arena.free[1]) == len(shard.arena.links)
    assert not shard.arena.values.any()
    assert not shard.arena.subjects.any()


def test_what_the_arrays_cannot_say_is_kept_elsewhere() -> None:
    shard = Shard(1, 28, is_timed=False)
    shard.add_streams(1)
    records = Records([1, 2], [[1.0], [2.0]])
    assert not shard.put(0, Clock(t=2), records.with_leaving(np.array([True, False])))
    assert not shard.put(0, Clock(t=3), records)
    assert not shard.arena.values.any()
    assert shard.put(0, Clock(t=2), records)


def test_streams_can_be_pickled_and_go_on() -> None:
    rows = np.random.default_rng(0).normal(size=3_000)
    one = KeyedStreams(Mean(), retention=96, seed=0)
    one.extend(np.arange(1_000) % 7, rows[:1_000])
    two = pickle.loads(pickle.dumps(one))
    for keyed in (one, two):
        keyed.extend(np.arange(2_000) % 7, rows[1_000:])
    assert all(one.retained(key) == two.retained(key) for key in one)


def test_memory_is_given_back_and_wiped_once_little_is_held() -> None:
    rng, shard = np.random.default_rng(0), Shard(2, 49, is_timed=False)
    shard.add_streams(50)
    states = []
    for key in range(50):
        n = int(rng.integers(1, 60))
        subjects = [rng.bytes(16).hex() for _ in range(n)]
        states.append(Records(np.arange(1, n + 1), rng.normal(size=(n, 2)), subjects=subjects, numbers=np.arange(n)))
        shard.put(key, Clock(t=n), states[-1])
    before, chunks = shard.arena, len(shard.arena.links)
    shard.shrink(chunks)
    assert shard.arena is before, "so many are needed"
    for key in range(0, 50, 2):
        shard.clear(key)
    shard.shrink(3)
    assert len(shard.arena.links) < 0.8 * chunks
    assert shard.arena.free[1] >= 3
    assert not before.values.any()
    assert not before.subjects.any()
    for key in range(1, 50, 2):
        assert shard.get_records(key) == states[key]
    for key in range(0, 50, 2):
        assert shard.put(key, Clock(t=len(states[key])), states[key])
    assert all(shard.get_records(key) == states[key] for key in range(50))
