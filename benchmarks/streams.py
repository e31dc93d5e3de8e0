"""Records per second of a stream against river's mean, which may keep state."""

from __future__ import annotations

import importlib.util
from functools import partial

import numpy as np

from timing import Row, choose, time_alternately
from vestige import Mean, Stream

RECORDS = choose(480_000, 10_000)
PUSHES = choose(48_000, 2_000)


def rows() -> list[Row]:
    """Compare `Stream(Mean(), retention=96)` with river on normal data, on one core."""
    if importlib.util.find_spec("river") is None:
        return [Row("all", "", "river: not installed", None, 1.0)]
    values = np.random.default_rng(0).normal(size=RECORDS)
    plain = values.tolist()
    results = []

    def extend(channel: str) -> None:
        Stream(Mean(channel=channel), retention=96, seed=0).extend(values)

    def push() -> None:
        stream = Stream(Mean(), retention=96, seed=0)
        for value in plain[:PUSHES]:
            stream.push(value)

    for what, ours, count, goal in (
        ("extend, bits", lambda: extend("bits"), RECORDS, 1.0),
        ("extend, auto", lambda: extend("auto"), RECORDS, 0.5),
        ("push one by one, auto", push, PUSHES, 0.1),
    ):
        taken, peer, ratio = time_alternately(ours, partial(_run_river, plain[:count]))
        their_figure = f"river stats.Mean: {count / peer:,.0f} records/s"
        results.append(Row(what, f"{count / taken:,.0f} records/s", their_figure, ratio, goal))
    return results


def _run_river(values: list[float]) -> None:
    """Update river's mean in a loop."""
    from river import stats  # noqa: PLC0415

    mean = stats.Mean()
    for value in values:
        mean.update(value)
