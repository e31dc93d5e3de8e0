"""The paper's two warnings, run: one record decides which states are possible, and an outlier outlives its erasure.

Appendix D of Immorlica et al. (2024): after a batch of zeros, (0, 10, 10) and (0, 0, 10), which differ in one record,
lead Algorithm 1 to disjoint sets of states, so no epsilon is large enough. And a footnote of Section 3.1: if the first
record is extreme, the estimate stays high long after its erasure.
Guarantee: the states of the paper, and an excess that decays at the rate of the theory; held by
tests/audit/test_examples.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vestige import paper
from vestige.audit.bounds import epsilon_ceiling, epsilon_lower_bound
from vestige.policies import Mean, Window
from vestige.policy import Policy
from vestige.random.generators import make_generator
from vestige.random.keys import AuditSeed
from vestige.stream import Batched, Stream
from vestige.types import Floats
from vestige.validation import check_int

SECOND_BATCHES = ((0.0, 10.0, 10.0), (0.0, 0.0, 10.0))
"""The second batch under the two hypotheses of Appendix D; the first batch is three zeros."""
_EXTREME = 1e6

RetainedValues = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AppendixD:
    """What Algorithm 1 retains in many trials of each hypothesis.

    Attributes:
        states: share of the trials that end with each tuple of retained values, for each hypothesis.
        epsilon: lower bound of epsilon, from trials that were not used to find the states.
        epsilon_ceiling: largest bound that this many trials can show.
        trials: number of trials of each hypothesis that count.
    """

    states: tuple[Mapping[RetainedValues, float], Mapping[RetainedValues, float]]
    epsilon: float
    epsilon_ceiling: float
    trials: int

    @property
    def is_disjoint(self) -> bool:
        """Whether no state occurs under both hypotheses."""
        return not set(self.states[0]) & set(self.states[1])


def run_appendix_d(*, trials: int = 1_000, confidence: float = 0.95, seed: int = 0) -> AppendixD:
    """Run the example of Appendix D: each trial is one update with its own coins.

    Args:
        trials: number of trials of each hypothesis that count; as many more find out which states are possible.
        confidence: confidence level of the bound.
        seed: seed of the coins.

    Returns:
        The states that are reached under each hypothesis, and a lower bound of epsilon.

    Raises:
        ParameterError: if `trials` is below 20 or `confidence` is not between 0 and 1.

    Example:
        >>> found = run_appendix_d(trials=200)
        >>> [sorted(states) for states in found.states]
        [[(0.0, 10.0), (10.0,)], [(0.0,)]]
        >>> found.is_disjoint, found.epsilon == found.epsilon_ceiling
        (True, True)
    """
    check_int("trials", trials, 20, 10**9)
    check_int("seed", seed, -(2**63))
    ceiling = epsilon_ceiling(trials, confidence=confidence)
    reached = [[_run_update(batch, seed + k) for k in range(2 * trials)] for batch in SECOND_BATCHES]
    distinctive = set(reached[1][:trials]) - set(reached[0][:trials])
    fp, tp = (sum(state in distinctive for state in states[trials:]) for states in reached)
    first, second = ({state: n / (2 * trials) for state, n in Counter(states).items()} for states in reached)
    bound = epsilon_lower_bound(tp, trials - tp, fp, trials - fp, confidence=confidence)
    return AppendixD((first, second), bound, ceiling, trials)


def _run_update(batch: RetainedValues, seed: int) -> RetainedValues:
    """Return the values that are retained after a batch of zeros and then `batch`."""
    stream = Batched(paper.SimpleMean(), batch=3, seed=seed)
    stream.push([0.0, 0.0, 0.0])
    stream.push(batch)
    return tuple(sorted(stream.retained.values[:, 0].tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class OutlierEffect:
    """How long an extreme first record affects the estimate.

    Attributes:
        batches: number of batches since the record must be erased.
        excess: by policy, how much higher the estimate is than with an ordinary first record, in standard deviations of
            the data; the mean over the trials; shape (batches,).
        extreme: value of the record, in standard deviations of the data.
        retention: retention of the streams, in records.
    """

    batches: tuple[int, ...]
    excess: Mapping[str, Floats]
    extreme: float
    retention: int


def run_outlier(*, trials: int = 20, seed: int = 0) -> OutlierEffect:
    """Run the footnote's outlier: standard normal records, of which the first is a million.

    Args:
        trials: number of trials to average over; each runs with and without the outlier, with the same coins.
        seed: seed of the records.

    Returns:
        The excess of the estimate, by policy and number of batches.

    Raises:
        ParameterError: if `trials` is not positive or `seed` is negative.

    Example:
        >>> found = run_outlier(trials=3)
        >>> bool(found.excess["Window()"].max() == 0.0), bool(found.excess["Mean()"].min() > 10.0)
        (True, True)
    """
    check_int("trials", trials, 1, 10**6)
    check_int("seed", seed, 0)
    retention, batches = 64, (0, 1, 3, 10, 30, 100)
    policies: dict[str, Policy] = {"paper.SimpleMean()": paper.SimpleMean(), "Mean()": Mean(), "Window()": Window()}
    excess = {}
    for name, policy in policies.items():
        gaps = []
        for trial in range(trials):
            ordinary = make_generator(seed, trial).normal(size=retention * 2 + 32 * batches[-1])
            extreme = ordinary.copy()
            extreme[0] = _EXTREME
            after, before = (_estimate(policy, rows, retention, batches, trial) for rows in (extreme, ordinary))
            gaps.append(after - before)
        excess[name] = np.mean(gaps, axis=0)
    return OutlierEffect(batches, excess, _EXTREME, retention)


def _estimate(policy: Policy, rows: Floats, retention: int, batches: tuple[int, ...], seed: int) -> Floats:
    """Return the estimates after each number of batches since the first record must be erased."""
    stream = Stream(policy, retention=retention, seed=AuditSeed(seed))
    estimates = []
    for count in batches:
        stream.extend(rows[stream.t : retention + count * retention // 2 + 1])
        estimates.append(float(stream.estimate().value))
    return np.array(estimates)
