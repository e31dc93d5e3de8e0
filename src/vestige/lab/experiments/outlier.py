"""An extreme record is erased in time, and still biases the answer long after.

The footnote on outliers of Immorlica et al. (2024): the first record is extreme. Each stream runs twice, with and
without it, with the same coins; the difference is the effect of that record.
Limits: after batch 2, Algorithm 1 holds the largest of the records that it may keep, and steps of 1 / k leave 2 / k of
it after k batches: the bias must be shown at each length; the mean of all data is biased by 1 / t of the outlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige.figures import INK
from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS, run_stream
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.random.generators import make_generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION, OUTLIER = 64, 1_000.0
LENGTHS = (32, 128, 512, 2_048, 8_192)
POLICIES = ("window", "algorithm 1", "Mean, average", "Mean, auto")


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The bias of the answer by the outlier; and its distance from that of all data, in the error of all data."""
    rows, coins = rng.normal(size=(int(point["length"]), 1)), int(rng.integers(2**62))
    marked = rows.copy()
    marked[0] = OUTLIER
    policy = parts[str(point["policy"])](1)
    answers = [run_stream(policy, these, RETENTION, make_generator(coins))[0] for these in (marked, rows)]
    bias = float(answers[0] - answers[1])
    off = bias - float(marked.mean() - rows.mean())
    return {"bias": bias, "ratio": 1.0 + off**2 * len(rows) / 2.0}  # each of the two answers has its own error


def _draw_figure(results: Results, figure: Figure) -> None:
    """The bias of the answer against the number of records since the outlier."""
    axes = figure.add_subplot(xscale="log", xlabel="records since the outlier", ylabel="bias (standard deviations)")
    axes.set_yscale("symlog", linthresh=0.01)
    for i, name in enumerate(POLICIES):
        figures.draw_curve(axes, name, results.series("length", "bias", policy=name), shift=0.04 * (i - 1.5))
    lengths = np.array(LENGTHS)
    figures.draw_reference(axes, "all data", lengths, OUTLIER / lengths)
    axes.axvline(RETENTION, color=INK, lw=0.8)
    axes.annotate("erased", (RETENTION, 0.02), xytext=(4, 0), textcoords="offset points", fontsize=9.5)
    figures.set_whole_ticks(axes, list(LENGTHS))
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """Long after the erasure, a window has no bias at all, and the paper's algorithm has one."""
    after = [length for length in results.values("length") if length > RETENTION]
    parts = {(name, n): results.where(policy=name, length=n) for name in POLICIES for n in after}
    last = after[-1]
    predicted = 2.0 * _expected_maximum(RETENTION // 4) / (last / (RETENTION // 2))
    bias = {name: parts[name, last].mean("bias") for name in POLICIES}
    return Verdict.from_checks(
        {
            "the window has no bias": all(not parts["window", n]["bias"].any() for n in after),
            "Algorithm 1 has a bias": significance.every(
                significance.show_greater(significance.confidence_interval(parts["algorithm 1", n]["bias"]), 0.0)
                for n in after
            ),
            "Mean has the bias of all data": significance.every(
                significance.show_as_good(parts["Mean, auto", n]["ratio"]) for n in after
            ),
        },
        f"{last:,} records after an outlier of {OUTLIER:g} standard deviations, {last // RETENTION} times as long as "
        f"it could be held, Algorithm 1 is {bias['algorithm 1']:.3f} standard deviations too high, where the "
        f"footnote's mechanism predicts {predicted:.3f}, and Mean {bias['Mean, auto']:.3f}, as all data would be "
        f"({OUTLIER / last:.3f}); the window {bias['window']:g}.",
    )


def _expected_maximum(count: int) -> float:
    """The expected maximum of several normals: the integral of P[max > x] - P[max < -x] over x > 0."""
    from scipy.special import ndtr  # noqa: PLC0415

    x, step = np.linspace(0.0, 10.0, 10_001, retstep=True)
    return float((1.0 - ndtr(x) ** count - ndtr(-x) ** count).sum() * step)


EXPERIMENT = Experiment(
    name="outlier",
    claim="An extreme record biases the answer long after it was erased, except that of a window.",
    source="Footnote on outliers",
    grid=grid(policy=POLICIES, length=LENGTHS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=MEANS,
    trials=40,
    quick=lambda point: point["length"] in (32, 512, 2_048),
    quick_trials=5,
)
