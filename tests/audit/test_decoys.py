"""The published code among decoys: the same reading as the channels', and exact whatever the rule was."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from vestige.audit.decoys import Decoys, find_words
from vestige.audit.permutation import Batch
from vestige.channels.syndrome import read_message
from vestige.types import Bools


def make_batch(first: int, present: Bools, values: float = 1.0) -> Batch:
    slots = np.flatnonzero(present)
    numbers = values + np.random.default_rng(first).normal(size=(len(slots), 1))
    return Batch(first, present, np.ones(len(present), np.bool_), slots, numbers)


def test_the_first_code_is_the_published_one_and_the_others_are_not() -> None:
    present = np.random.default_rng(0).random(200) < 0.5
    expected = np.empty(150, np.bool_)
    read_message(present, expected)
    found = Decoys(20, np.random.default_rng(1)).read(present, 150)
    assert np.array_equal(found[0], expected)
    assert 0.4 < (found[1:] != expected).mean() < 0.6


def test_false_alarms_on_rules_that_are_not_random_at_all() -> None:
    """Every other record, a block, the same pattern each time: no permutation test would survive them."""
    trials, level, p_values = 60, 0.1, []
    for seed in range(trials):
        rng = np.random.default_rng([seed, 5])
        pattern = np.zeros(60, np.bool_)
        pattern[:: int(rng.integers(2, 5))] = True
        pattern[int(rng.integers(5, 50)) :][: int(rng.integers(1, 9))] ^= True
        batches = [make_batch(1 + 60 * k, pattern) for k in range(12)]
        p = find_words([(batches, True)], Decoys(99, rng)).p_value
        assert p is not None
        p_values.append(p)
    assert sum(p <= level for p in p_values) <= binom.ppf(0.999, trials, level)


def test_batches_without_a_choice_say_nothing() -> None:
    whole = [make_batch(1, np.ones(60, np.bool_))]
    assert find_words([(whole, True)], Decoys(9, np.random.default_rng(0))).p_value is None
