"""Streams packed by kernels against the same streams packed one by one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np

from vestige import KeyedStreams, Mean, Policy
from vestige.types import Floats

START = np.datetime64("2024-01-01", "us")
HOUR = np.timedelta64(1, "h")
CASES: dict[str, dict[str, Any]] = {
    "plain": {"policy": Mean(channel="bits"), "retention": 56},
    "three columns": {"policy": Mean(3, channel="bits"), "retention": 130},
    "long": {"policy": Mean(channel="bits"), "retention": 300},
    "times": {"policy": Mean(channel="bits"), "retention": 96, "max_age": timedelta(days=2)},
    "all": {"policy": Mean(2, channel="bits"), "retention": 130, "max_age": timedelta(days=9)},
}


def fill(case: str, rng: np.random.Generator, n: int = 3_000, keys: int = 40) -> KeyedStreams:
    """Streams of which some have one record, and others many."""
    terms = dict(CASES[case])
    policy: Policy = terms.pop("policy")
    streams = KeyedStreams(policy, **terms, seed=1)
    names = [f"key {k % keys * (k % 7 == 0) + k // 90}" for k in range(n)]
    rows: Floats = 1e6 + rng.lognormal(size=(n, policy.columns))
    labels: dict[str, Any] = {}
    if "max_age" in terms:
        labels["times"] = START + np.arange(n) * HOUR / 60
    if case == "all":
        labels["subjects"] = [None if i % 3 else f"person {i % 50}" for i in range(n)]
    streams.extend(names, rows, **labels)
    return streams
