"""Proposition 2.1: what the functions say is what the runtime does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import Batched, Stream, paper, theory
from vestige.errors import ParameterError


@pytest.mark.parametrize(("batch", "batches"), [(4, 7), (6, 3), (10, 5)])
def test_a_stream_does_what_batches_did(batch: int, batches: int) -> None:
    retention, rounds = theory.batched_to_streaming(batch, batches)
    rows = np.random.default_rng(batch).normal(size=rounds)
    batched, stream = (
        Batched(paper.SimpleMean(), batch=batch, seed=1),
        Stream(paper.SimpleMean(), retention=retention, seed=1),
    )
    batched.extend(rows)
    for row in rows:
        stream.push(row)
        assert stream.t - stream.retained.rounds.min() < retention
    assert np.array_equal(stream.retained.rounds, batched.retained.rounds)
    assert stream.estimate().value == batched.estimate().value


@given(st.integers(1, 500), st.integers(1, 10_000))
def test_there_and_back(size: int, count: int) -> None:
    retention, rounds = theory.batched_to_streaming(size, count)
    assert theory.streaming_to_batched(size, rounds) == (size, count)
    batch, batches = theory.streaming_to_batched(retention, rounds)
    assert batch == 2 * size
    assert batch * (batches - 1) < rounds <= batch * batches


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="batch=0 is out of range"):
        theory.batched_to_streaming(0, 5)
    with pytest.raises(ParameterError, match="rounds=0 is out of range"):
        theory.streaming_to_batched(5, 0)
