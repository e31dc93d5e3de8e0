"""The paper's two warnings, run: one record decides which states are possible, and an outlier outlives its erasure.

Appendix D of Immorlica et al. (2024): after a batch of zeros, (0, 10, 10) and (0, 0, 10), which differ in one record,
lead Algorithm 1 to disjoint sets of states, so that no epsilon is large enough. And a footnote of Section 3.1: if the
first record is extreme, the estimate stays high long after it is erased.
Guarantee: the states of the paper, and an excess that fades as the theory says; held by tests/audit/test_examples.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vestige import paper
from vestige.audit.bounds import ceiling, epsilon_lower_bound
from vestige.policies import Mean, Window
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.stream import Batched, Stream
from vestige.types import Floats
from vestige.validation import check_int

WORLDS = ((0.0, 10.0, 10.0), (0.0, 0.0, 10.0))
"""The second batch in the two worlds of Appendix D; the first is three zeros."""
_EXTREME = 1e6

State = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Appendix:
    """What Algorithm 1 retained in many trials of each world.

    Attributes:
        states: the values that were retained, and in what share of the trials; for each world.
        epsilon: a lower bound from the trials that were not used to learn the states.
        ceiling: the largest bound that so many trials could show.
        trials: that counted, in each world.
    """

    states: tuple[Mapping[State, float], Mapping[State, float]]
    epsilon: float
    ceiling: float
    trials: int

    @property
    def disjoint(self) -> bool:
        """Whether no state was seen in both worlds."""
        return not set(self.states[0]) & set(self.states[1])


def appendix(*, trials: int = 1_000, confidence: float = 0.95, seed: int = 0) -> Appendix:
    """Appendix D's example: every trial is an update with coins of its own; as many again teach which states there are.

    >>> found = appendix(trials=200)
    >>> [sorted(states) for states in found.states]
    [[(0.0, 10.0), (10.0,)], [(0.0,)]]
    >>> found.disjoint, found.epsilon == found.ceiling
    (True, True)
    """
    check_int("trials", trials, 20, 10**9)
    check_int("seed", seed, -(2**63))
    ceiling(trials, confidence=confidence)  # says at once what is wrong with it
    seen = [[_state(batch, seed + k) for k in range(2 * trials)] for batch in WORLDS]
    known = set(seen[1][:trials]) - set(seen[0][:trials])
    fp, tp = (sum(state in known for state in world[trials:]) for world in seen)
    first, second = ({state: n / (2 * trials) for state, n in Counter(world).items()} for world in seen)
    bound = epsilon_lower_bound(tp, trials - tp, fp, trials - fp, confidence=confidence)
    return Appendix((first, second), bound, ceiling(trials, confidence=confidence), trials)


def _state(batch: State, seed: int) -> State:
    stream = Batched(paper.SimpleMean(), batch=3, seed=seed)
    stream.push([0.0, 0.0, 0.0])
    stream.push(batch)
    return tuple(sorted(stream.retained.values[:, 0].tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class Outlier:
    """How an extreme first record lives on.

    Attributes:
        batches: how many batches after it was erased at the latest.
        excess: by policy, how much higher the estimate is than with an ordinary first record, in deviations of the
            data; the mean over the runs; shape (batches,).
        extreme: the record, in deviations of the data.
        retention: of the streams.
    """

    batches: tuple[int, ...]
    excess: Mapping[str, Floats]
    extreme: float
    retention: int


def outlier(*, runs: int = 20, seed: int = 0) -> Outlier:
    """The footnote's outlier: standard normal records, but the first is a million; the same coins with and without.

    >>> found = outlier(runs=3)
    >>> bool(found.excess["Window()"].max() == 0.0), bool(found.excess["Mean()"].min() > 10.0)
    (True, True)
    """
    check_int("runs", runs, 1, 10**6)
    check_int("seed", seed, 0)
    retention, after = 64, (0, 1, 3, 10, 30, 100)
    policies: dict[str, Policy] = {"paper.SimpleMean()": paper.SimpleMean(), "Mean()": Mean(), "Window()": Window()}
    excess = {}
    for name, policy in policies.items():
        gaps = []
        for run in range(runs):
            rows = make_generator(seed, run).normal(size=retention * 2 + 32 * after[-1])
            with_it = rows.copy()
            with_it[0] = _EXTREME
            gaps.append(
                _estimates(policy, with_it, retention, after, run) - _estimates(policy, rows, retention, after, run)
            )
        excess[name] = np.mean(gaps, axis=0)
    return Outlier(after, excess, _EXTREME, retention)


def _estimates(policy: Policy, rows: Floats, retention: int, after: tuple[int, ...], seed: int) -> Floats:
    stream = Stream(policy, retention=retention, seed=AuditSeed(seed))
    made = []
    for batches in after:
        stream.extend(rows[stream.t : retention + batches * retention // 2 + 1])
        made.append(float(stream.estimate().value))
    return np.array(made)
