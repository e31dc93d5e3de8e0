"""Few records that average to all records too well."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from vestige.audit.centres import centre_p_value
from vestige.audit.permutation import Batch
from vestige.types import Floats


def make_tables(seed: int, rule: str) -> tuple[list[Batch], list[Floats]]:
    """Ten batches of 200 of which five are kept, and later records."""
    rng = np.random.default_rng([seed, len(rule)])
    batches, later = [], []
    for k in range(10):
        values = rng.lognormal(size=(200, 1))
        places = np.arange(200)
        if rule == "random, cycle":
            values = np.sin(2.0 * np.pi * places[:, None] / 200) + 0.01 * values
        order = {
            "random": rng.permutation(200),
            "near the average": np.argsort(np.abs(values[:, 0] - np.exp(0.5))),
            "the smallest": np.argsort(values[:, 0]),
            "random, cycle": rng.permutation(200),
        }[rule][:5]
        keep = np.isin(places, order)
        batches.append(Batch(1 + 200 * k, keep, np.ones(200, np.bool_), np.flatnonzero(keep), values[keep]))
        later.append(values[rng.permutation(200)[:60]])
    return batches, later


def count(rule: str, repetitions: int) -> int:
    p_values = [centre_p_value(*make_tables(s, rule), 99, np.random.default_rng(s)) for s in range(repetitions)]
    return sum(p is not None and p <= 0.05 for p in p_values)


def test_records_near_the_average_are_found() -> None:
    assert count("near the average", 10) == 10


def test_false_alarms() -> None:
    for rule in ("random", "the smallest", "random, cycle"):
        assert count(rule, 40) <= binom.ppf(0.999, 40, 0.05), rule


def test_where_more_than_a_tenth_is_kept_there_is_no_test() -> None:
    batches, later = make_tables(0, "near the average")
    many = [Batch(b.first, np.arange(200) < 30, b.free, np.arange(30), np.zeros((30, 1))) for b in batches]
    assert centre_p_value(many, later, 99, np.random.default_rng(0)) is None
