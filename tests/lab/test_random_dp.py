"""The chances of all states are those of Algorithm 1, and of Appendix D."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from vestige import Batched, paper
from vestige.lab.experiments.random_dp import (
    Choices,
    compute_epsilons,
    find_nearest,
    list_halves,
    update_chances,
)
from vestige.types import Floats


def test_the_chances_are_those_of_the_policy() -> None:
    batch, trials = 6, 2_000
    rows = np.random.default_rng(0).normal(size=(3, batch))
    choices = Choices.from_halves(list_halves(batch))
    estimates, chances = np.array([rows[0].mean()]), np.ones(1)
    for k, arrivals in enumerate(rows[1:], 2):
        averages = choices.subsets @ arrivals / np.maximum(choices.subsets.sum(axis=1), 1)
        found = update_chances(estimates, chances, averages, arrivals, 1.0 / k, choices, find_nearest)
        estimates, chances = averages[found > 0.0], found[found > 0.0]
    assert found.sum() == pytest.approx(1.0)
    seen: Counter[int] = Counter()
    for seed in range(trials):
        stream = Batched(paper.SimpleMean(), batch=batch, seed=seed)
        stream.extend(rows.ravel())
        seen[int((1 << (stream.retained.rounds - 1 - 2 * batch)).sum())] += 1
    assert set(seen) <= set(np.flatnonzero(found).tolist())
    for state in np.flatnonzero(found):
        error = np.sqrt(found[state] * (1.0 - found[state]) / trials)
        assert abs(seen[int(state)] / trials - found[state]) < 5.0 * error


def test_disjoint_states_have_no_epsilon() -> None:
    choices = Choices.from_halves(list_halves(4))
    rows = np.array([[0.0, 0.0, 0.0, 0.0], [-1.0, -0.5, 0.5, 1.0]])
    assert [made.tolist() for made in compute_epsilons(rows, 0.0, choices, find_nearest)] == [[0.0], [0.0]]
    assert [made.tolist() for made in compute_epsilons(rows, 1e6, choices, find_nearest)] == [[np.inf], [np.inf]]


def histories(rows: Floats, choices: Choices) -> dict[tuple[int, ...], float]:
    """The chance of every history of states, listed one by one."""
    found: dict[tuple[int, ...], tuple[float, float]] = {(): (float(rows[0].mean()), 1.0)}
    for k, batch in enumerate(rows[1:], 2):
        averages = choices.subsets @ batch / np.maximum(choices.subsets.sum(axis=1), 1)
        longer: dict[tuple[int, ...], tuple[float, float]] = {}
        for history, (estimate, chance) in found.items():
            chances = update_chances(np.array([estimate]), np.ones(1), averages, batch, 1.0 / k, choices, find_nearest)
            for state in np.flatnonzero(chances):
                longer[(*history, int(state))] = (float(averages[state]), float(chance * chances[state]))
        found = longer
    return {history: chance for history, (_, chance) in found.items()}


@pytest.mark.parametrize("seed", range(4))
def test_all_states_together_tell_what_a_list_of_all_histories_does(seed: int) -> None:
    """And what the first one after the erasure tells: what comes later takes nothing back."""
    rng, choices = np.random.default_rng(seed), Choices.from_halves(list_halves(6))
    rows, value = rng.normal(size=(4, 6)), float(rng.normal())
    alone, together = compute_epsilons(rows, value, choices, find_nearest)
    for length in (2, 3, 4):
        other = rows[:length].copy()
        other[0, 0] = value
        one, two = histories(rows[:length], choices), histories(other, choices)
        ratios = [abs(np.log(one[h]) - np.log(two[h])) if h in one and h in two else np.inf for h in {*one, *two}]
        assert together[length - 2] == pytest.approx(max(ratios))
    assert together.tolist() == pytest.approx([alone[0]] * 3)
