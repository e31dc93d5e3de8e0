"""The chances of all states are those of Algorithm 1, and of Appendix D."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from vestige import Batched, paper
from vestige.lab.experiments.typical import Choices, epsilons, halves, nearest, stepped


def test_the_chances_are_those_of_the_policy() -> None:
    batch, draws = 6, 2_000
    rows = np.random.default_rng(0).normal(size=(3, batch))
    choices = Choices.of(halves(batch))
    estimates, chances = np.array([rows[0].mean()]), np.ones(1)
    for k, arrivals in enumerate(rows[1:], 2):
        averages = choices.subsets @ arrivals / np.maximum(choices.subsets.sum(axis=1), 1)
        found = stepped(estimates, chances, averages, arrivals, 1.0 / k, choices, nearest)
        estimates, chances = averages[found > 0.0], found[found > 0.0]
    assert found.sum() == pytest.approx(1.0)
    seen: Counter[int] = Counter()
    for seed in range(draws):
        stream = Batched(paper.SimpleMean(), batch=batch, seed=seed)
        stream.extend(rows.ravel())
        seen[int((1 << (stream.retained.rounds - 1 - 2 * batch)).sum())] += 1
    assert set(seen) <= set(np.flatnonzero(found).tolist())
    for state in np.flatnonzero(found):
        error = np.sqrt(found[state] * (1.0 - found[state]) / draws)
        assert abs(seen[int(state)] / draws - found[state]) < 5.0 * error


def test_disjoint_states_have_no_epsilon() -> None:
    choices = Choices.of(halves(4))
    rows = np.array([[0.0, 0.0, 0.0, 0.0], [-1.0, -0.5, 0.5, 1.0]])
    assert epsilons(rows, 0.0, choices, nearest).tolist() == [0.0]
    assert epsilons(rows, 1e6, choices, nearest).tolist() == [np.inf]
