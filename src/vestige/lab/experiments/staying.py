"""Records that may stay serve a window in proportion to their number; who writes the mean into recent ones needs none.

Left open by Immorlica et al. (2024), Section 5: some data points can be retained for much longer. Here a share of
the records never asks to be removed; each of the others does so 64 records after it arrived, and is gone within 64 more
(footnote 2's model: `notice` without `retention`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige.coins import Rehearsal
from vestige.lab import plotting
from vestige.lab.contenders import MEANS
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results, Series
from vestige.stream import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTICE, DELAY, LENGTH, PIECE = 64, 64, 2_048, 32
SHARES = (0.001, 0.01, 0.1, 0.5, 1.0)
POLICIES = ("window", "Mean, auto")


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared error of the answer, of the mean of all, and how many records were held in the end."""
    rows, asks = rng.normal(size=(LENGTH, 1)), rng.random(LENGTH) >= float(point["share"])
    policy = parts[str(point["policy"])](1)
    stream = Stream(policy, notice=NOTICE, seed=Rehearsal(int(rng.integers(2**62))))
    for start in range(0, LENGTH, PIECE):
        stream.extend(rows[start : start + PIECE])
        due = np.arange(max(0, start - DELAY), max(0, start - DELAY + PIECE))
        if asks[due].any():
            stream.forget(rounds=1 + due[asks[due]])
    estimate = stream.estimate()
    return {
        "error": float(np.asarray(estimate.value).item()) ** 2,
        "all_data": float(rows.mean()) ** 2,
        "held": float(estimate.held),
    }


def figure(results: Results, drawn: Figure) -> None:
    """Error against the share that stays."""
    axes = drawn.add_subplot(
        xscale="log",
        yscale="log",
        xlabel="share of records that may stay (%)",
        ylabel="mean squared error (variances)",
    )
    for name in POLICIES:
        series = results.series("share", "error", policy=name)
        plotting.curve(axes, name, Series(100.0 * series.x, series.mean, series.error))
    held = results.series("share", "held", policy="window")
    plotting.reference(axes, "bound", 100.0 * held.x, 1.0 / held.mean, "1 / records that the window holds")
    plotting.level(axes, "all data", 1.0 / LENGTH, f"all {LENGTH:,} records")
    axes.set_xticks([100.0 * share for share in SHARES], [f"{100.0 * share:g}" for share in SHARES])
    axes.minorticks_off()
    plotting.legend(drawn, axes, columns=2)


def verdict(results: Results) -> Verdict:
    """A window is worth the records that it holds; Mean is worth them all, whoever stays."""
    shares = results.values("share")
    mean = results.where(policy="Mean, auto")
    ours = max(part.mean("error") / part.mean("all_data") for s in shares if len(part := mean.where(share=s)))
    window = {share: results.where(policy="window", share=share) for share in shares}
    worth = float(np.mean([part.mean("error") * part.mean("held") for part in window.values()]))
    few, many = window[shares[0]], window[shares[-1]]
    return Verdict.of(
        {
            "a window is worth what it holds": 0.3 < worth < 2.0,
            "and holds what may stay": many.mean("held") > 0.99 * shares[-1] * LENGTH,
            "Mean is within 10% of all data at any share": ours < 1.1,
        },
        f"With {100.0 * shares[0]:g}% of {LENGTH:,} records staying, a window holds {few.mean('held'):.0f}; with "
        f"{100.0 * shares[-1]:g}%, {many.mean('held'):,.0f}. Its error is {worth:.2f} / records held. Mean has at most "
        f"{ours:.2f} times the error of all data, and holds about {mean.mean('held'):.0f}.",
    )


EXPERIMENT = Experiment(
    name="staying",
    claim="A share of records that may stay makes a window as good as that many records; with the mean written into "
    "recent ones, none need to stay.",
    source="Left open in Section 5",
    grid=grid(policy=POLICIES, share=SHARES),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=40,
    quick=lambda point: point["share"] in (0.001, 1.0),
    quick_trials=30,
)
