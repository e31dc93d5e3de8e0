"""Memory and time: what is said of a stream is what it takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from vestige import Mean, Policy, Stream, Window, _numba, paper
from vestige.planning.cost import measure_seconds_per_record, memory_bytes
from vestige.random.keys import AuditSeed


@pytest.mark.parametrize(("policy", "most"), [(Mean(3), 1.5), (Window(Mean(3)), 2.0)])
def test_a_stream_holds_no_more_than_is_said(policy: Policy, most: float) -> None:
    """What waits lies in arrays of the size of a batch, and for the window beside what is held."""
    rows = np.random.default_rng(0).normal(size=(30_000, 3))
    Stream(policy, retention=8_192, seed=AuditSeed(0)).extend(rows)  # compiles
    tracemalloc.start()
    stream = Stream(policy, retention=8_192, seed=AuditSeed(0))
    stream.extend(rows)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(stream.retained) <= 8_192
    assert held <= most * memory_bytes(3, 8_192)


@pytest.mark.parametrize("policy", [Mean(2), Window(Mean(2)), paper.CoordinateMean(2)])
def test_time_is_measured(policy: Policy) -> None:
    seconds = measure_seconds_per_record(
        policy, 64 if isinstance(policy, paper.CoordinateMean) else 256, 10_000, np.eye(2)
    )
    assert seconds is not None
    assert 1e-9 < seconds < 1e-2


def test_what_is_too_large_is_not_tried() -> None:
    assert measure_seconds_per_record(Mean(1_000), 56_000, 10**6, np.eye(1_000)) is None


def test_nothing_is_interpreted_while_time_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may interpret some kernels before it compiles them; their time is not that of a stream."""
    limits: list[float] = []
    monkeypatch.setattr(_numba, "limit_interpretation", limits.append)
    measure_seconds_per_record(Mean(), 96, 1_000, np.zeros((1, 1)))
    assert limits == [0]
