"""Long-lived records help a window in proportion to their number; a policy that encodes the mean needs none.

Left open by Immorlica et al. (2024), Section 5: some data points can be retained for much longer. Here a share of the
records is never removed; each of the others is requested to be removed 64 records after it arrived, and is gone within
64 more (the model of footnote 2: `notice` without `retention`).
Limits: the squared error of a mean of n normals is a chi squared over n; a window must hold every long-lived record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS, error_ratio, squared_norm
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results, Series
from vestige.random.keys import AuditSeed
from vestige.stream import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTICE, DELAY, LENGTH, PIECE = 64, 64, 2_048, 32
SHARES = (0.001, 0.01, 0.1, 0.5, 1.0)
POLICIES = ("window", "Mean, auto")


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared error, also in that of all data; the number of records held, and of long-lived ones."""
    rows, is_removed = rng.normal(size=(LENGTH, 1)), rng.random(LENGTH) >= float(point["share"])
    policy = parts[str(point["policy"])](1)
    stream = Stream(policy, notice=NOTICE, seed=AuditSeed(int(rng.integers(2**62))))
    for start in range(0, LENGTH, PIECE):
        stream.extend(rows[start : start + PIECE])
        due = np.arange(max(0, start - DELAY), max(0, start - DELAY + PIECE))
        if is_removed[due].any():
            stream.forget(rounds=1 + due[is_removed[due]])
    estimate = stream.estimate()
    answer = np.atleast_1d(np.asarray(estimate.value, np.float64))
    return {
        "error": squared_norm(answer),
        "ratio": error_ratio(answer, rows, 1.0),
        "held": float(estimate.held),
        "long_lived": float(LENGTH - is_removed.sum()),
    }


def _draw_figure(results: Results, figure: Figure) -> None:
    """Error against the share of long-lived records."""
    axes = figure.add_subplot(
        xscale="log",
        yscale="log",
        xlabel="share of long-lived records (%)",
        ylabel="mean squared error (variances)",
    )
    for name in POLICIES:
        series = results.series("share", "ratio", policy=name)
        figures.draw_curve(axes, name, Series(100.0 * series.x, series.mean / LENGTH, series.standard_error / LENGTH))
    held = results.series("share", "held", policy="window")
    figures.draw_reference(axes, "bound", 100.0 * held.x, 1.0 / held.mean, "1 / records held by the window")
    figures.draw_level(axes, "all data", 1.0 / LENGTH, f"all {LENGTH:,} records")
    axes.set_xticks([100.0 * share for share in SHARES], [f"{100.0 * share:g}" for share in SHARES])
    axes.minorticks_off()
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """A window is as good as the records that it holds; `Mean` is as good as all data at any share."""
    shares = results.values("share")
    window, mean = ({s: results.where(policy=name, share=s) for s in shares} for name in POLICIES)
    products = {share: part["error"] * part["held"] for share, part in window.items()}
    few, many = window[shares[0]], window[shares[-1]]
    average = float(np.mean([values.mean() for values in products.values()]))
    return Verdict.from_checks(
        {
            "the error of a window is 1 / records held": not any(
                test(values, 1.0)
                for values in products.values()
                for test in (significance.is_above, significance.is_below)
            ),
            "a window holds all long-lived records": all(
                bool(np.all(part["held"] >= part["long_lived"])) for part in window.values()
            ),
            "Mean is as good as all data at any share": significance.every(
                significance.show_as_good(part["ratio"]) for part in mean.values()
            ),
        },
        f"With {100.0 * shares[0]:g}% of {LENGTH:,} records long-lived, a window holds {few.mean('held'):.0f}; with "
        f"{100.0 * shares[-1]:g}%, {many.mean('held'):,.0f}. Its error is {average:.2f} / records held. Mean has at "
        f"most {max(part.mean('ratio') for part in mean.values()):.3f} times the error of all data, and holds about "
        f"{results.where(policy='Mean, auto').mean('held'):.0f}.",
    )


EXPERIMENT = Experiment(
    name="long_lived_records",
    claim="A share of long-lived records makes a window as good as that many records; with the mean encoded in recent "
    "ones, none is needed.",
    source="Left open in Section 5",
    grid=grid(policy=POLICIES, share=SHARES),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=MEANS,
    trials=40,
    quick=lambda point: point["share"] in (0.001, 1.0),
    quick_trials=30,
)
