"""A little more retention makes the error far smaller, where a window's falls in proportion only.

Theorem 3.1 and Proposition 3.4 of Immorlica et al. (2024), against the baseline of the introduction and the lower bound
of Theorem 3.6: standard normals in two dimensions, one fixed length of stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.lab import plotting
from vestige.lab.contenders import MEANS, answered, fits, squared
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM = 2
LENGTH = 8_192
RETENTIONS = (16, 32, 64, 112, 128, 256, 512)
QUICK = {"window": (32, 128), "algorithm 1": (32, 64), "coordinate-wise": (32, 128), "Mean, auto": (256,)}


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared error of one stream's answer, and of the mean of all its records."""
    rows = rng.normal(size=(LENGTH, DIM))
    answer = answered(parts[str(point["policy"])](DIM), rows, int(point["retention"]), rng)
    return {"error": squared(answer), "all_data": squared(rows.mean(axis=0))}


def figure(results: Results, drawn: Figure) -> None:
    """Error against retention, both logarithmic."""
    axes = drawn.add_subplot(
        xscale="log",
        yscale="log",
        xlabel="retention (records)",
        ylabel="mean squared error (variances)",
        ylim=(DIM / LENGTH / 4.0, 1.5),
    )
    for i, name in enumerate(MEANS):
        plotting.curve(axes, name, results.series("retention", "error", policy=name), aside=0.02 * (i - 3))
    plotting.level(axes, "all data", DIM / LENGTH, f"all {LENGTH:,} records")
    some = np.arange(2, 40)
    plotting.reference(axes, "lower bound", some, [theory.mean_squared_error_floor(DIM, int(m)) for m in some])
    plotting.whole_ticks(axes, [2, 4, 8, *RETENTIONS[:3], *RETENTIONS[4:]])
    plotting.legend(drawn, axes)


def verdict(results: Results) -> Verdict:
    """The exponential: four times the retention gain more than the square of what they gain a window."""
    window, fewest = _error(results, "window", 32) / _error(results, "window", 128), 32
    paper = _error(results, "coordinate-wise", 32) / _error(results, "coordinate-wise", 128)
    simple = _error(results, "algorithm 1", 32) / _error(results, "algorithm 1", 64)
    beaten = _error(results, "window", 128) / _error(results, "coordinate-wise", 128)
    worth = sum(_error(results, "window", m) * m / DIM for m in (32, 128)) / 2.0
    wide = results.where(policy="Mean, auto", retention=256)
    ours = wide.mean("error") / wide.mean("all_data")
    least = min(_error(results, name, fewest) for name in ("window", "algorithm 1", "coordinate-wise"))
    return Verdict.of(
        {
            "a window's error is the variance over its retention": 0.2 < worth < 2.5,
            "they make the coordinate-wise algorithm more than 16 times better": paper > 16.0,
            "twice the retention make Algorithm 1 more than 4 times better": simple > 4.0,
            "the coordinate-wise algorithm leaves the window behind": beaten > 2.0,
            "Mean is within 10% of all data": ours < 1.1,
            "nobody is below the lower bound": least > theory.mean_squared_error_floor(DIM, fewest),
        },
        f"From a retention of 32 to 128, the window's error fell {window:.1f} times and that of the coordinate-wise "
        f"algorithm {paper:.0f} times; from 32 to 64, Algorithm 1's {simple:.0f} times. At 128, the coordinate-wise "
        f"one is {beaten:.0f} times better than the window; at 256, Mean has {ours:.2f} times the error of all "
        f"{LENGTH:,} records.",
    )


def _error(results: Results, policy: str, retention: int) -> float:
    return results.where(policy=policy, retention=retention).mean("error")


EXPERIMENT = Experiment(
    name="retention",
    claim="At a fixed length of stream, the error falls exponentially with retention, and a window's only in "
    "proportion to it.",
    source="Theorem 3.1, Proposition 3.4",
    grid=tuple(
        point
        for point in grid(policy=MEANS, retention=RETENTIONS)
        if fits(str(point["policy"]), DIM, int(point["retention"]))
    ),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=40,
    quick=lambda point: point["retention"] in QUICK.get(str(point["policy"]), ()),
    quick_trials=4,
)
