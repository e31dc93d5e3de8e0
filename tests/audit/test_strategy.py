"""Planted leaks: each is found by joint looks or by an adversary who chooses what arrives, and by nothing weaker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planted import Coarse, LessNoise, NoisyOnce, Unclipped
from vestige import Mean, Private, Shares, Window
from vestige.audit import Leakage, Turn, choose_decisive_batch, measure_leakage
from vestige.audit.strategy import rehearse
from vestige.clock import Clock
from vestige.errors import ParameterError
from vestige.records import Records
from vestige.types import Floats

PROMISE: dict[str, Any] = {"bound": 3.0, "epsilon": 1.0, "delta": 1e-6}


def audit(policy: Private, trials: int, **options: Any) -> Leakage:
    """The first record of the third batch of 64, until it must be gone."""
    given: dict[str, Any] = {
        "retention": 128,
        "t": 257,
        "erased_at": 257,
        "trials": trials,
        "values": (-3.0, 3.0),
        "delta": policy.delta,
        "workers": 1,
    }
    return measure_leakage(policy, **given | options)


def refutes_singly(policy: Private, found: Leakage) -> bool:
    """Whether any state alone refutes the promise."""
    return any(one.epsilon > policy.epsilon or one.mu > policy.mu for one in found.checkpoints)


def test_only_a_joint_look_finds_noise_that_is_drawn_once() -> None:
    policy = NoisyOnce(**PROMISE)
    found = audit(policy, 150)
    assert not refutes_singly(policy, found)
    assert found.refutes(policy.epsilon, policy.mu)
    assert found.joint.epsilon > policy.epsilon
    assert found.joint.feature == "change"


def test_only_an_adversary_who_chooses_arrivals_finds_a_border() -> None:
    """The difference is 2 / 192 of a step of one half: others see it in one trial of fifty."""
    policy = Coarse(**PROMISE)
    knows_all = audit(policy, 150, values=(-1.0, 1.0))
    assert not refutes_singly(policy, knows_all)
    assert not knows_all.refutes(policy.epsilon, policy.mu)
    chooses = audit(policy, 30, values=(-1.0, 1.0), adversary="chooses-arrivals")
    assert chooses.refutes(policy.epsilon, policy.mu)
    assert chooses.joint.epsilon > policy.epsilon


def test_an_adversary_who_chooses_arrivals_tries_the_bound() -> None:
    policy = Unclipped(**PROMISE)
    within = audit(policy, 150)
    assert not within.refutes(policy.epsilon, policy.mu), "no record beyond the bound arrives"
    beyond = audit(policy, 40, values=None, adversary="chooses-arrivals")
    assert beyond.refutes(policy.epsilon, policy.mu)


def test_a_promise_that_is_kept_is_not_refuted() -> None:
    policy = Private(**PROMISE)
    found = audit(policy, 30, values=None, adversary="chooses-arrivals")
    assert not found.refutes(policy.epsilon, policy.mu)
    assert found.joint.states > 3


@pytest.mark.slow(8)
@pytest.mark.parametrize("policy", [LessNoise, Private])
def test_a_joint_look_finds_15_percent_less_noise(policy: type[Private]) -> None:
    """A state alone has the noise of three batches; mu is 2.71, and 3.19 with less noise."""
    made = policy(bound=3.0, epsilon=16.0, delta=1e-6)
    found = audit(made, 1_500)
    print(f"{policy.__name__}: {found.joint.mu:.3f} jointly, {max(one.mu for one in found.checkpoints):.3f} singly")
    assert not refutes_singly(made, found)
    assert found.refutes(made.epsilon, made.mu) == (policy is LessNoise)


@pytest.mark.slow(65)
def test_no_adaptive_adversary_refutes_the_private_policy() -> None:
    policy = Private(**PROMISE)
    found = audit(policy, 800, values=None, adversary="chooses-arrivals")
    print(f"epsilon >= {found.joint.epsilon:.3f}, mu >= {found.joint.mu:.3f}, auc {found.joint.auc:.3f}")
    assert not found.refutes(policy.epsilon, policy.mu)


def test_who_chooses_arrivals_finds_more_of_a_mean() -> None:
    """A record that moves the mean by a small part of what 22 bits can write."""
    options: dict[str, Any] = {"retention": 48, "t": 97, "erased_at": 97, "values": (0.0, 1e-7), "trials": 20}
    knows_all = measure_leakage(Mean(channel="bits"), workers=1, **options)
    chooses = measure_leakage(Mean(channel="bits"), workers=1, adversary="chooses-arrivals", **options)
    assert knows_all.joint.same_state == 1.0
    assert knows_all.joint.epsilon == knows_all.joint.mu == 0.0
    assert chooses.joint.epsilon == chooses.epsilon_ceiling


def make_turn(policy: Any, rows: Floats, position: int | None = 0) -> Turn:
    hypotheses = np.array([np.zeros(rows.shape[1]), np.ones(rows.shape[1])])
    start = Clock(), Records.empty(rows.shape[1])
    return Turn(policy, 2 * len(rows), (start,), rows, position, hypotheses, np.random.default_rng(0))


def test_the_decisive_batch_is_that_of_the_record() -> None:
    rows = np.random.default_rng(0).normal(size=(32, 1))
    assert choose_decisive_batch(make_turn(Mean(), rows, None)) is rows
    assert choose_decisive_batch(make_turn(Mean(), rows)).shape == rows.shape


def test_a_policy_that_refuses_chosen_values_gets_those_that_would_have_arrived() -> None:
    rows = np.random.default_rng(0).integers(0, 2, size=(64, 1)).astype(float)
    turn = make_turn(Shares(("ok", "failed")), rows)
    assert choose_decisive_batch(turn) is rows


def test_rehearsals_are_of_both_hypotheses() -> None:
    answers = rehearse(make_turn(Window(), np.zeros((2, 1))), np.zeros((2, 1)))
    assert answers[..., 0].tolist() == [[0.0] * 4, [0.5] * 4]


def test_a_strategy_of_ones_own_sees_states_without_the_record_and_never_its_value() -> None:
    seen: list[Turn] = []

    def watch(turn: Turn) -> Floats:
        seen.append(turn)
        return turn.rows * 2.0

    found = measure_leakage(
        Window(), retention=8, t=20, erased_at=15, trials=20, adversary=watch, values=(5.0, 9.0), workers=1
    )
    assert found.adversary == "chooses-arrivals"
    assert len(seen) == (40 + 40 + 20) * 5
    assert all(len(turn.states) == 1 + (place % 5) for place, turn in enumerate(seen))
    for turn in seen:
        t = 4 * (len(turn.states) - 1)
        assert (turn.states[-1] is None) == (7 <= t < 15), "the record of round 7 is held"
        assert turn.position == (2 if t == 4 else None)
        assert 9.0 not in turn.rows


def test_a_strategy_that_returns_something_else_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"adversary\(turn\) returned shape .*; return \(4, 1\)"):
        measure_leakage(Window(), retention=8, t=20, trials=20, adversary=lambda turn: turn.rows[:1], workers=1)
