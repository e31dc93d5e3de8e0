"""The time of an update is proportional to the dimension, if each coordinate has as many records as a single one.

Immorlica et al. (2024), introduction: "each update step takes time linear in d and 1/epsilon". The algorithm of Section
3.3 runs d instances side by side; here each has the same number of records, so the error *of a coordinate* is the same.
For a fixed total error each needs log(d) more of them, and their subsets grow with d too; see docs/theorems.md.
Times are of this machine's processor. An update is timed in turn with one of a single coordinate, each as the minimum
over many repeats of the same work, and the ratio is reported: other load slows both, and does not affect the minimum.
Limits, as powers of d: linear is 1. The power must be shown to be nearer to 1 than to 0 (a constant) and 2 (a square).
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
    """Processor seconds of an update, and their ratio to those of a single coordinate."""
    name, dim = str(point["policy"]), int(point["dim"])
    updates = {d: _prepare_updates(name, d, rng, parts) for d in (1, dim)}
    seconds = [[run() for run in updates.values()] for _ in range(REPEATS)]
    best = dict(zip(updates, np.min(seconds, axis=0).tolist(), strict=True))
    return {"seconds": best[dim], "ratio": best[dim] / best[1]}


def _prepare_updates(name: str, dim: int, rng: np.random.Generator, parts: Parts) -> Callable[[], float]:
    """A function that makes the same updates each time, and returns the seconds of one."""
    batch, updates, policy = dim * SEGMENT[name], UPDATES[name], parts[name](dim)
    seed = AuditSeed(int(rng.integers(2**62)))
    initial = Stream(policy, retention=2 * batch, seed=seed)
    initial.extend(rng.normal(size=(2 * batch, dim)))
    rows = rng.normal(size=(updates * batch, dim))

    def run() -> float:
        stream = Stream(policy, retention=2 * batch, seed=seed, retained=initial.retained, clock=initial.clock)
        started = time.thread_time()
        stream.extend(rows)
        return (time.thread_time() - started) / updates

    return run


def _draw_figure(results: Results, figure: Figure) -> None:
    """Time against dimension, both on logarithmic axes."""
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="dimension d", ylabel="time of an update\n(that of one coordinate)"
    )
    for name in POLICIES:
        figures.draw_curve(axes, name, results.series("dim", "ratio", policy=name))
    dims = np.array(DIMS, np.float64)
    figures.draw_reference(axes, "bound", dims, dims, "proportional to d")
    figures.set_whole_ticks(axes, list(DIMS))
    figures.draw_legend(figure, axes)


def _find_power(results: Results, policy: str) -> significance.Interval:
    """The power of the dimension with which the time grows."""
    slopes = []
    for number in results.values("trial"):
        series = results.where(policy=policy, trial=number).series("dim", "ratio")
        slopes.append(np.polyfit(np.log(series.x), np.log(series.mean), 1)[0])
    return significance.confidence_interval(np.array(slopes))


def _find_verdict(results: Results) -> Verdict:
    """The power must be nearer to linear than to a constant or a square."""
    powers = {name: _find_power(results, name) for name in POLICIES}
    summary = "; ".join(
        f"{name} takes time d^{power.mid:.2f} (between {power.low:.2f} and {power.high:.2f}), "
        f"{1e6 * results.where(policy=name, dim=max(results.values('dim'))).mean('seconds'):,.0f} µs at dimension "
        f"{max(results.values('dim'))}"
        for name, power in powers.items()
    )
    return Verdict.from_checks(
        {
            f"{name} is nearer to linear than to {other}": held
            for name, power in powers.items()
            for other, held in (
                ("a constant", significance.show_greater(power, LOW)),
                ("a square", significance.show_less(power, HIGH)),
            )
        },
        f"With as many records for each coordinate as for a single one: {summary}.",
        {f"power of d, {name}": power.mid for name, power in powers.items()},
    )


EXPERIMENT = Experiment(
    name="dimension",
    claim="At the same error of each coordinate, the time of an update is proportional to the dimension.",
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
