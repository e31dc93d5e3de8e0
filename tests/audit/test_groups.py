"""The groups of Algorithm 2, as an auditor sees them."""

from __future__ import annotations

import numpy as np

from vestige.audit.groups import group_p_value
from vestige.audit.permutation import Batch


def make_batches(seed: int, *, chosen: bool) -> list[Batch]:
    """Batches of 120 records of which ten groups of three are kept, the slopes of which average to 2 if chosen."""
    rng, batches = np.random.default_rng(seed), []
    for k in range(12):
        x = rng.normal(size=120)
        y = 2.0 * x + rng.normal(size=120)
        keep = np.zeros(120, np.bool_)
        slopes = [float(x[i : i + 3] @ y[i : i + 3] / (x[i : i + 3] @ x[i : i + 3])) for i in range(60, 120, 3)]
        tries = [rng.permutation(20)[:10] for _ in range(400 if chosen else 1)]
        best = min(tries, key=lambda groups: abs(np.mean([slopes[g] for g in groups]) - 2.0))
        for group in best:
            keep[60 + 3 * group : 63 + 3 * group] = True
        values = np.column_stack((x, y))[keep]
        batches.append(Batch(1 + 120 * k, keep, np.ones(120, np.bool_), np.flatnonzero(keep), values))
    return batches


def test_chosen_groups_are_found_and_random_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    assert group_p_value(make_batches(1, chosen=True), 499, rng) == 1.0 / 500
    honest = [group_p_value(make_batches(seed, chosen=False), 99, rng) for seed in range(20)]
    assert sum(p is not None and p <= 0.05 for p in honest) <= 5, "20 at 5%: six or more have a chance of 3 in 10,000"
    assert group_p_value([], 99, rng) is None
