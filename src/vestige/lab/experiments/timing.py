"""An update takes time polynomial in 1 / error: the subsets to look at are exponential in a retention that is its log.

Immorlica et al. (2024), introduction: "each update step takes time linear in d and 1/epsilon". Algorithm 1 at the
retention that `vestige.theory` asks for, by exhaustive search; and `Mean`, whose search stops when it is near enough.
Times are of this machine, so that they differ from run to run; the best of several is taken.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.coins import Rehearsal
from vestige.lab import plotting
from vestige.lab.contenders import MEANS
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results, Series
from vestige.stream import Stream
from vestige.theory.sufficing import MEAN_RETENTION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS = (1e-2, 1e-3, 3e-4, 1e-4, 3e-5)
POLICIES = ("algorithm 1", "Mean, auto")
LEAST, UPDATES, SMALLEST = 56, 8, 3


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """Seconds that an update takes, at best."""
    retention = theory.mean_retention(1, float(point["error"]))
    batch = (retention if point["policy"] == "algorithm 1" else max(LEAST, retention)) // 2
    stream = Stream(parts[str(point["policy"])](1), retention=2 * batch, seed=Rehearsal(int(rng.integers(2**62))))
    stream.extend(rng.normal(size=2 * batch))
    took = []
    for _ in range(UPDATES):
        rows = rng.normal(size=batch)
        started = time.perf_counter()
        stream.extend(rows)
        took.append(time.perf_counter() - started)
    return {"seconds": min(took), "batch": float(batch)}


def figure(results: Results, drawn: Figure) -> None:
    """Time against 1 / error, both logarithmic."""
    axes = drawn.add_subplot(
        xscale="log", yscale="log", xlabel="1 / error that the retention is enough for", ylabel="time of an update (µs)"
    )
    for name in POLICIES:
        series = results.series("error", "seconds", policy=name)
        plotting.curve(axes, name, Series(1.0 / series.x, 1e6 * series.mean, 1e6 * series.error))
    errors = np.array(ERRORS)
    start = results.where(policy="algorithm 1", error=ERRORS[1]).mean("seconds")
    plotting.reference(axes, "bound", 1.0 / errors, 1e6 * start * errors[1] / errors, "in proportion to 1 / error")
    plotting.legend(drawn, axes)


def exponent(results: Results, policy: str) -> float:
    """With which power of 1 / error the time grows, for the smallest errors, where the search dominates."""
    series = results.series("error", "seconds", policy=policy)
    return float(-np.polyfit(np.log(series.x[:SMALLEST]), np.log(series.mean[:SMALLEST]), 1)[0])


def verdict(results: Results) -> Verdict:
    """A small power is polynomial; and stopping early makes it almost none."""
    published, ours = (exponent(results, name) for name in POLICIES)
    error = results.values("error")[0]
    took = {name: 1e6 * results.where(policy=name, error=error).mean("seconds") for name in POLICIES}
    return Verdict.of(
        {
            "Algorithm 1 takes time that is at most quadratic in 1 / error": published < 2.0,
            "and really searches": published > 0.5,
            "Mean takes about as long whatever the error": ours < 0.4,
        },
        f"An update of Algorithm 1 takes time (1/error)^{published:.2f}, one of Mean (1/error)^{ours:.2f}. At error "
        f"{error:g} they take {took['algorithm 1']:,.0f} and {took['Mean, auto']:,.0f} µs. By the count of "
        f"subsets, the power would be {MEAN_RETENTION / 2.0 * np.log(2.0):.2f}; the paper says 1.",
        {"power of 1 / error": published},
    )


EXPERIMENT = Experiment(
    name="timing",
    claim="An update takes time polynomial in 1 / error.",
    source="Introduction",
    grid=grid(policy=POLICIES, error=ERRORS),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=12,
    quick=lambda point: float(point["error"]) in (1e-3, 3e-4, 1e-4),
    quick_trials=4,
)
