"""Proposition 2.1, both directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from vestige import Batched, Clock, Mean, Policy, Records, Stream, Window, paper
from vestige.errors import DataError, ParameterError
from vestige.types import Bools


@dataclass(frozen=True)
class EveryThird(Policy):
    """A streaming policy: keeps a record with probability 1/3, as long as it may."""

    every_round: ClassVar[bool] = True

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:  # noqa: ARG002
        chance = np.random.default_rng(coins).random(len(arrivals)) < 1 / 3
        return np.concatenate((~retained.leaving, chance & ~arrivals.leaving))

    def answer(self, clock: Clock, retained: Records) -> float:  # noqa: ARG002
        return float(retained.values.mean())


@pytest.mark.parametrize("policy", [Mean(), Mean(channel="bits"), paper.SimpleMean(), paper.CoordinateMean()])
def test_a_batched_policy_runs_as_a_streaming_one_with_twice_the_memory(policy: Policy) -> None:
    rows = np.random.default_rng(0).normal(size=28 * 12)
    batched, stream = Batched(policy, batch=28, seed=7), Stream(policy, retention=56, seed=7)
    for start in range(0, len(rows), 28):
        batched.push(rows[start : start + 28])
        stream.extend(rows[start : start + 28])
        assert batched.retained == stream.retained
        assert batched.clock == stream.clock
        assert batched.estimate().value == stream.estimate().value
        stream_rounds = stream.retained.rounds
        assert stream_rounds.min() > start, "a part of the newest batch"


def test_a_streaming_policy_runs_in_the_batched_model() -> None:
    rows = np.random.default_rng(0).normal(size=300)
    stream, batched = Stream(EveryThird(), retention=30, seed=1), Batched(EveryThird(), batch=30, seed=1)
    for start in range(0, 300, 30):
        batched.push(rows[start : start + 30])
        for row in rows[start : start + 30]:
            stream.push(row)
        assert batched.retained == stream.retained
        assert batched.retained.rounds.min() > start


def test_a_window_in_the_batched_model_is_the_batch() -> None:
    batched = Batched(Window(), batch=10)
    batched.extend(np.arange(40.0))
    assert batched.retained.rounds.tolist() == list(range(31, 41))


def test_only_whole_batches_are_taken() -> None:
    batched = Batched(Mean(), batch=28, seed=0)
    with pytest.raises(DataError, match="rows has 23 records; a batch has batch=28"):
        batched.push(np.zeros(23))
    with pytest.raises(DataError, match="not whole batches of batch=28"):
        batched.extend(np.zeros(50))
    assert batched.t == 0


def test_a_restart_goes_on_where_it_was() -> None:
    rows = np.random.default_rng(3).normal(size=(20, 30))
    whole, parts = Batched(Mean(), batch=30, seed=2), Batched(Mean(), batch=30, seed=2)
    whole.extend(rows.ravel())
    parts.extend(rows[:8].ravel())
    parts.forget(rounds=parts.retained.rounds)
    parts = Batched(Mean(), batch=30, seed=2, retained=parts.retained, clock=parts.clock)
    parts.extend(rows[8:].ravel())
    assert parts.retained == whole.retained


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"batch=24\.5 is out of range"):
        Batched(Mean(), batch=24.5)  # type: ignore[arg-type]
    stream = Stream(Mean(), retention=60, seed=0)
    stream.extend(np.zeros(70))
    with pytest.raises(ParameterError, match="is in mid-batch"):
        Batched(Mean(), batch=30, retained=stream.retained, clock=stream.clock)


def test_a_request_has_a_receipt_that_is_met_with_the_next_batch() -> None:
    batched = Batched(Mean(), batch=30, seed=2)
    batched.push(np.arange(30.0))
    receipt = batched.forget(rounds=[7])
    assert (receipt.requested_round, receipt.due_round, receipt.erased) == (30, 60, None)
    assert batched.receipts == (receipt,)
    assert not batched.forget(rounds=[7]).erased, "it says the same whether or not a record is held"
    batched.push(np.arange(30.0))
    assert [known.erased_round for known in batched.receipts] == [60, 60]
    assert batched.receipts[0].id == receipt.id
