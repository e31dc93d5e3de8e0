"""An update takes time in proportion to the dimension, if each coordinate has as many records as one alone.

Immorlica et al. (2024), introduction: "each update step takes time linear in d and 1/epsilon". The algorithm of Section
3.3 runs d instances side by side; here each has the same number of records, which is the same error *of a coordinate*.
For a fixed total error each needs log(d) more of them, and their subsets grow with d too; see docs/theorems.md.
Times are of this machine's processor, so that they differ from run to run; the best of several is taken.
Limits, as powers of d: linear is 1. It must be shown to be nearer to that than to no growth, 0, and to a square, 2.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from vestige.coins import Rehearsal
from vestige.lab import judging, plotting
from vestige.lab.contenders import MEANS
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results, Series
from vestige.stream import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES, DIMS = ("coordinate-wise", "Mean, auto"), (2, 4, 8, 16)
SEGMENT = {"coordinate-wise": 28, "Mean, auto": 32}
UPDATES, REPEATS = {"coordinate-wise": 1, "Mean, auto": 12}, 7
LOW, HIGH = 0.5, 1.5


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """Seconds of the processor that an update takes, at best."""
    name, dim = str(point["policy"]), int(point["dim"])
    batch, updates = dim * SEGMENT[name], UPDATES[name]
    stream = Stream(parts[name](dim), retention=2 * batch, seed=Rehearsal(int(rng.integers(2**62))))
    stream.extend(rng.normal(size=(2 * batch, dim)))
    took = []
    for _ in range(REPEATS):
        rows = rng.normal(size=(updates * batch, dim))
        started = time.process_time()
        stream.extend(rows)
        took.append((time.process_time() - started) / updates)
    return {"seconds": min(took)}


def figure(results: Results, drawn: Figure) -> None:
    """Time against dimension, both logarithmic."""
    axes = drawn.add_subplot(xscale="log", yscale="log", xlabel="dimension d", ylabel="time of an update (µs)")
    dims = np.array(DIMS, np.float64)
    for name in POLICIES:
        series = results.series("dim", "seconds", policy=name)
        plotting.curve(axes, name, Series(series.x, 1e6 * series.mean, 1e6 * series.error))
        label = "in proportion to d" if name == POLICIES[0] else "_"
        plotting.reference(axes, "bound", dims, 1e6 * series.mean[-1] * dims / dims[-1], label)
    plotting.whole_ticks(axes, list(DIMS))
    plotting.legend(drawn, axes)


def powers(results: Results, policy: str) -> judging.Interval:
    """With which power of the dimension the time grows."""
    found = []
    for number in results.values("trial"):
        series = results.where(policy=policy, trial=number).series("dim", "seconds")
        found.append(np.polyfit(np.log(series.x), np.log(series.mean), 1)[0])
    return judging.interval(np.array(found))


def verdict(results: Results) -> Verdict:
    """Nearer to linear than to a constant or a square."""
    found = {name: powers(results, name) for name in POLICIES}
    said = "; ".join(
        f"{name} takes time d^{power.mid:.2f} (between {power.low:.2f} and {power.high:.2f}), "
        f"{1e6 * results.where(policy=name, dim=max(results.values('dim'))).mean('seconds'):,.0f} µs at dimension "
        f"{max(results.values('dim'))}"
        for name, power in found.items()
    )
    return Verdict.of(
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
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=12,
    quick=lambda point: point["dim"] != DIMS[1],
    quick_trials=8,
)
