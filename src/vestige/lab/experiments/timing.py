"""The time of an update is polynomial in 1 / error: its subsets are exponential in a retention that is logarithmic.

Immorlica et al. (2024), introduction: "each update step takes time linear in d and 1/epsilon". Algorithm 1 at the
retention that `vestige.theory` asks for, by exhaustive search; and `Mean`, whose search stops when it is near enough.
Times are of this machine's processor, so they differ from run to run; the minimum of several is taken.
Limits, as powers of the number of subsets, 2^(m / 2) = (1 / error)^(C_2 log(2) / 2): an exhaustive search takes time
proportional to it, power 1; meet in the middle its square root, power 1/2, and `Mean` stays below that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results, Series
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.theory.upper_bounds import MEAN_RETENTION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS = (1e-2, 1e-3, 3e-4, 1e-4, 3e-5)
POLICIES = ("algorithm 1", "Mean, auto")
MIN_RETENTION, UPDATES, SMALLEST = 56, 6, 3


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The smallest processor seconds of an update."""
    from vestige._numba import limit_interpretation  # noqa: PLC0415  # it takes long to import

    limit_interpretation(0)
    retention = theory.mean_retention(1, float(point["error"]))
    batch = (retention if point["policy"] == "algorithm 1" else max(MIN_RETENTION, retention)) // 2
    stream = Stream(parts[str(point["policy"])](1), retention=2 * batch, seed=AuditSeed(int(rng.integers(2**62))))
    stream.extend(rng.normal(size=2 * batch))
    seconds = []
    for _ in range(UPDATES):
        rows = rng.normal(size=batch)
        started = time.process_time()
        stream.extend(rows)
        seconds.append(time.process_time() - started)
    return {"seconds": min(seconds), "batch": float(batch)}


def _draw_figure(results: Results, figure: Figure) -> None:
    """Time against 1 / error, both on logarithmic axes."""
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="1 / error at which the retention is enough", ylabel="time of an update (µs)"
    )
    for name in POLICIES:
        series = results.series("error", "seconds", policy=name)
        figures.draw_curve(axes, name, Series(1.0 / series.x, 1e6 * series.mean, 1e6 * series.standard_error))
    errors = np.array(ERRORS)
    start = results.where(policy="algorithm 1", error=ERRORS[-SMALLEST]).mean("seconds")
    figures.draw_reference(
        axes, "bound", 1.0 / errors, 1e6 * start * errors[-SMALLEST] / errors, "proportional to 1 / error"
    )
    figures.draw_legend(figure, axes)


def _find_power(results: Results, policy: str) -> significance.Interval:
    """The power of the number of subsets with which the time grows, at the smallest errors."""
    slopes = []
    for trial_number in results.values("trial"):
        mine = results.where(policy=policy, trial=trial_number)
        series = mine.series("error", "seconds")
        log_subsets = mine.series("error", "batch").mean[:SMALLEST] / 2.0 * np.log(2.0)
        if len(log_subsets) == SMALLEST:
            slopes.append(np.polyfit(log_subsets, np.log(series.mean[:SMALLEST]), 1)[0])
    return significance.confidence_interval(np.array(slopes))


def _find_verdict(results: Results) -> Verdict:
    """The time is at most proportional to the number of subsets; and stopping early is better than that."""
    published, ours = (_find_power(results, name) for name in POLICIES)
    error = results.values("error")[0]
    microseconds = {name: 1e6 * results.where(policy=name, error=error).mean("seconds") for name in POLICIES}
    unit = MEAN_RETENTION / 2.0 * np.log(2.0)
    linear = "not refuted" if published.low * unit <= 1.0 <= published.high * unit else "refuted"
    return Verdict.from_checks(
        {
            "the time of Algorithm 1 is at most proportional to the number of subsets": published.low <= 1.0,
            "Algorithm 1 does search all subsets": significance.show_greater(published, 0.5),
            "Mean takes less than meet in the middle": significance.show_less(ours, 0.5),
        },
        f"An update of Algorithm 1 takes time (1/error)^{unit * published.mid:.2f} (between {unit * published.low:.2f} "
        f"and {unit * published.high:.2f}), one of Mean (1/error)^{unit * ours.mid:.2f}. At error {error:g} they take "
        f"{microseconds['algorithm 1']:,.0f} and {microseconds['Mean, auto']:,.0f} µs. By the count of subsets, with "
        f"C_2 = {MEAN_RETENTION:g}, the power is {unit:.2f}; that it is 1, as the introduction says, is {linear}.",
        {"power of 1 / error": unit * published.mid},
    )


EXPERIMENT = Experiment(
    name="timing",
    claim="The time of an update is polynomial in 1 / error: proportional to the number of subsets of a batch whose "
    "size is logarithmic in 1 / error.",
    source="Theorem 3.1, Introduction",
    grid=grid(policy=POLICIES, error=ERRORS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=MEANS,
    trials=12,
    quick=lambda point: float(point["error"]) in ERRORS[-SMALLEST:],
    quick_trials=8,
)
