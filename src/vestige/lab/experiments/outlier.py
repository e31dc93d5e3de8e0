"""An extreme record is erased in time, and keeps the answer high long after.

The footnote on outliers of Immorlica et al. (2024): the first record is extreme. Each stream is run twice, with and
without it, with the same coins; what remains is what that one record does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige.lab import plotting
from vestige.lab.contenders import MEANS, answered
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.palette import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION, OUTLIER = 64, 1_000.0
LATE = 512
LENGTHS = (32, 128, 512, 2_048, 8_192)
POLICIES = ("window", "algorithm 1", "Mean, average", "Mean, auto")


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """By how much the answer is higher for the outlier."""
    rows, coins = rng.normal(size=(int(point["length"]), 1)), int(rng.integers(2**62))
    marked = rows.copy()
    marked[0] = OUTLIER
    policy = parts[str(point["policy"])](1)
    answers = [answered(policy, these, RETENTION, np.random.default_rng(coins))[0] for these in (marked, rows)]
    return {"higher": float(answers[0] - answers[1])}


def figure(results: Results, drawn: Figure) -> None:
    """What the outlier does to the answer, against the records since."""
    axes = drawn.add_subplot(
        xscale="log", xlabel="records since the outlier", ylabel="answer higher by (standard deviations)"
    )
    axes.set_yscale("symlog", linthresh=0.01)
    for i, name in enumerate(POLICIES):
        plotting.curve(axes, name, results.series("length", "higher", policy=name), aside=0.04 * (i - 1.5))
    lengths = np.array(LENGTHS)
    plotting.reference(axes, "all data", lengths, OUTLIER / lengths)
    axes.axvline(RETENTION, color=INK, lw=0.8)
    axes.annotate("erased", (RETENTION, 0.02), xytext=(4, 0), textcoords="offset points", fontsize=9.5)
    plotting.whole_ticks(axes, list(LENGTHS))
    plotting.legend(drawn, axes)


def verdict(results: Results) -> Verdict:
    """Long after the erasure: a window has forgotten for certain, the paper's algorithm has not."""
    since = LATE
    late = {name: results.where(policy=name, length=since) for name in POLICIES}
    higher = {name: late[name].mean("higher") for name in POLICIES}
    sure = {name: higher[name] > 3.0 * late[name].error("higher") for name in POLICIES}
    rests = np.abs(late["window"]["higher"]).max()
    alive = OUTLIER / since
    return Verdict.of(
        {
            "the window has forgotten": bool(rests == 0.0),
            "Algorithm 1 has not": sure["algorithm 1"] and higher["algorithm 1"] > 0.05,
            "Mean remembers as all data would": abs(higher["Mean, auto"] / alive - 1.0) < 0.1,
        },
        f"{since:,} records after an outlier of {OUTLIER:g} standard deviations, {since // RETENTION} times as long as "
        f"it could be held, Algorithm 1 is {higher['algorithm 1']:.2f} standard deviations too high and Mean "
        f"{higher['Mean, auto']:.2f}, as all data would be ({alive:.2f}); the window {rests:g}.",
    )


EXPERIMENT = Experiment(
    name="outlier",
    claim="An extreme record keeps the answer high long after it was erased, but not a window's.",
    source="Footnote on outliers",
    grid=grid(policy=POLICIES, length=LENGTHS),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=40,
    quick=lambda point: point["length"] in (32, 512, 2_048),
    quick_trials=5,
)
