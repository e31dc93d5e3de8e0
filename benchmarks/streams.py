"""Records a second of a stream against river's mean, which may keep state."""

from __future__ import annotations

import numpy as np

from measuring import Row, seconds
from vestige import Mean, Stream

RECORDS = 480_000
PUSHES = 20_000


def rows() -> list[Row]:
    """Stream(Mean(), retention=96) on normal data, one core."""
    values = np.random.default_rng(0).normal(size=RECORDS)
    plain = values[:PUSHES].tolist()
    made = []

    def extend(channel: str) -> None:
        Stream(Mean(channel=channel), retention=96, seed=0).extend(values)

    def push() -> None:
        stream = Stream(Mean(), retention=96, seed=0)
        for value in plain:
            stream.push(value)

    theirs = _river(values.tolist())
    for what, ours, goal in (
        ("extend, bits", RECORDS / seconds(lambda: extend("bits")), 1.0),
        ("extend, auto", RECORDS / seconds(lambda: extend("auto")), 0.5),
        ("push one by one, auto", PUSHES / seconds(push), 0.1),
    ):
        peer = "river: not installed" if theirs is None else f"river stats.Mean: {theirs:,.0f} records/s"
        made.append(Row(what, f"{ours:,.0f} records/s", peer, None if theirs is None else ours / theirs, goal))
    return made


def _river(values: list[float]) -> float | None:
    """Records a second of river's mean, updated in a loop."""
    try:
        from river import stats  # noqa: PLC0415
    except ModuleNotFoundError:
        return None

    def update() -> None:
        mean = stats.Mean()
        for value in values:
            mean.update(value)

    return len(values) / seconds(update)
