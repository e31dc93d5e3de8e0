"""Numbers of records of all streams, against clocks and records of each."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from vestige import KeyedStreams, Mean, Policy, Window
from vestige.stream.estimate import count_represented


@pytest.mark.parametrize("policy", [Mean(2, channel="bits"), Window(Mean(2))])
def test_counts_are_those_of_each_stream(policy: Policy) -> None:
    rng = np.random.default_rng(0)
    keyed = KeyedStreams(policy, retention=90, max_age=timedelta(days=3), seed=0)
    for day in range(8):
        keys = rng.integers(0, 30, 400)
        times = np.datetime64("2024-01-01", "us") + np.full(400, day) * np.timedelta64(1, "D")
        keyed.extend(keys, rng.normal(size=(400, 2)), times=times, subjects=rng.choice(["ada", "bob"], 400))
        keyed.forget(subject="ada", now=day % 2 == 0)
    keyed.remove(7)
    counts = keyed.counts()
    assert counts.names.tolist() == list(keyed)
    for row, key in enumerate(counts.names):
        clock, retained = keyed.clock(key), keyed.retained(key)
        counted = count_represented(policy, clock, retained)
        expected = clock.t, clock.since, counted, len(retained)
        assert (counts.t[row], counts.since[row], counts.counted[row], counts.held[row]) == expected, key
    largest = counts.select(np.argsort(-counts.counted, kind="stable")[:5])
    assert len(largest) == 5
    assert largest.counted.tolist() == sorted(counts.counted.tolist(), reverse=True)[:5]
    assert all(keyed.estimate(key).counted == n for key, n in zip(largest.names, largest.counted, strict=True) if n)
    assert largest.to_arrow().to_pylist() == largest.to_pandas().to_dict("records")
