"""An update takes time in proportion to the dimension, if each coordinate has as many records as one alone.

Immorlica et al. (2024), introduction: "each update step takes time linear in d and 1/epsilon". The algorithm of Section
3.3 runs d instances side by side; here each has the same number of records, which is the same error *of a coordinate*.
For a fixed total error each needs log(d) more of them, and their subsets grow with d too; see docs/theorems.md.
Times are of this machine's processor. An update is timed in turn with one of a single coordinate, each the best of many
runs of the same work, and their ratio counts: whatever else the machine does slows both, and is not in the best.
Limits, as powers of d: linear is 1. It must be shown to be nearer to that than to no growth, 0, and to a square, 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.random.keys import AuditSeed
from vestige.stream import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES, DIMS = ("coordinate-wise", "Mean, auto"), (2, 4, 8, 16)
SEGMENT = {"coordinate-wise": 30, "Mean, auto": 32}
UPDATES, REPEATS = {"coordinate-wise": 1, "Mean, auto": 12}, 20
LOW, HIGH = 0.5, 1.5


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """Seconds of the processor that an update takes, and how many times those of one coordinate alone."""
    name, dim = str(point["policy"]), int(point["dim"])
    updates = {d: _prepared(name, d, rng, parts) for d in (1, dim)}
    took = [[run() for run in updates.values()] for _ in range(REPEATS)]
    best = dict(zip(updates, np.min(took, axis=0).tolist(), strict=True))
    return {"seconds": best[dim], "times": best[dim] / best[1]}


def _prepared(name: str, dim: int, rng: np.random.Generator, parts: Parts) -> Callable[[], float]:
    """A function that makes the same updates each time, and says how long one took."""
    batch, updates, policy = dim * SEGMENT[name], UPDATES[name], parts[name](dim)
    seed = AuditSeed(int(rng.integers(2**62)))
    begun = Stream(policy, retention=2 * batch, seed=seed)
    begun.extend(rng.normal(size=(2 * batch, dim)))
    rows = rng.normal(size=(updates * batch, dim))

    def run() -> float:
        stream = Stream(policy, retention=2 * batch, seed=seed, retained=begun.retained, clock=begun.clock)
        started = time.thread_time()
        stream.extend(rows)
        return (time.thread_time() - started) / updates

    return run


def _draw_figure(results: Results, figure: Figure) -> None:
    """Time against dimension, both logarithmic."""
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="dimension d", ylabel="time of an update, over that of one coordinate"
    )
    for name in POLICIES:
        figures.draw_curve(axes, name, results.series("dim", "times", policy=name))
    dims = np.array(DIMS, np.float64)
    figures.draw_reference(axes, "bound", dims, dims, "in proportion to d")
    figures.set_whole_ticks(axes, list(DIMS))
    figures.draw_legend(figure, axes)


def powers(results: Results, policy: str) -> significance.Interval:
    """With which power of the dimension the time grows."""
    found = []
    for number in results.values("trial"):
        series = results.where(policy=policy, trial=number).series("dim", "times")
        found.append(np.polyfit(np.log(series.x), np.log(series.mean), 1)[0])
    return significance.confidence_interval(np.array(found))


def _find_verdict(results: Results) -> Verdict:
    """Nearer to linear than to a constant or a square."""
    found = {name: powers(results, name) for name in POLICIES}
    said = "; ".join(
        f"{name} takes time d^{power.mid:.2f} (between {power.low:.2f} and {power.high:.2f}), "
        f"{1e6 * results.where(policy=name, dim=max(results.values('dim'))).mean('seconds'):,.0f} µs at dimension "
        f"{max(results.values('dim'))}"
        for name, power in found.items()
    )
    return Verdict.from_checks(
        {
            f"{name} is nearer to linear than to {other}": held
            for name, power in found.items()
            for other, held in (("a constant", power.low > LOW), ("a square", power.high < HIGH))
        },
        f"With as many records for each coordinate as for one alone: {said}.",
        {f"power of d, {name}": power.mid for name, power in found.items()},
    )


EXPERIMENT = Experiment(
    name="dimension",
    claim="At the same error of each coordinate, an update takes time in proportion to the dimension.",
    source="Introduction, Section 3.3",
    grid=grid(policy=POLICIES, dim=DIMS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=MEANS,
    trials=12,
    quick=lambda point: point["dim"] != DIMS[1],
    quick_trials=8,
)
