"""Where the stream drifts, the newest records lie off the all-time mean, and no average of them encodes it.

Immorlica et al. (2024) assume a stationary stream and leave others to future work (Section 5). The channels are ours.
Limits: `significance.PROMISED`, shown or refuted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS, RETENTION, Sample, measure_kind
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.lab.submission import Contest
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES = ("window", "algorithm 1", "Mean, average", "Mean, bits", "Mean, auto")


def _sample_seasons(rng: np.random.Generator, n: int) -> Floats:
    """A level that swings by two standard deviations, sixteen times."""
    values: Floats = rng.normal(size=n) + 2.0 * np.sin(np.arange(n) * (2.0 * np.pi * 16.0 / n))
    return values


DATA: dict[str, Sample] = {
    "stationary": lambda rng, n: rng.normal(size=n),
    "seasons": _sample_seasons,
    "trend": lambda rng, n: rng.normal(size=n) + np.linspace(0.0, 4.0, n),
    "sorted": lambda rng, n: np.sort(rng.normal(size=n)),
}
KINDS = list(DATA)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The error of one stream, as a multiple of that of all data."""
    return measure_kind(DATA[str(point["data"])], parts[str(point["policy"])](1), rng)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The error as a multiple of that of all data, for each kind of stream."""
    figures.draw_kinds(figure, results, KINDS, figures.list_policies(results, POLICIES))


def _find_verdict(results: Results) -> Verdict:
    """Bits and auto hold on every stream; averages hold only where it does not drift."""
    ratios = {(name, kind): results.where(policy=name, data=kind)["ratio"] for name in POLICIES for kind in KINDS}
    auto, bits = (max(ratios[name, kind].mean() for kind in KINDS) for name in ("Mean, auto", "Mean, bits"))
    averages, published = (
        [ratios[name, kind].mean() for kind in ("stationary", "sorted")] for name in ("Mean, average", "algorithm 1")
    )
    return Verdict.from_checks(
        {
            "auto is as good as all data on every stream": significance.every(
                significance.show_as_good(ratios["Mean, auto", kind]) for kind in KINDS
            ),
            "presence bits are as good as all data on every stream": significance.every(
                significance.show_as_good(ratios["Mean, bits", kind]) for kind in KINDS
            ),
            "averages are as good as all data on a stationary stream": significance.show_as_good(
                ratios["Mean, average", "stationary"]
            ),
            "averages fail on a sorted stream": significance.show_above(
                ratios["Mean, average", "sorted"], significance.PROMISED
            ),
            "the paper's algorithm fails on a sorted stream": significance.show_above(
                ratios["algorithm 1", "sorted"], significance.PROMISED
            ),
        },
        f"On every stream, auto has at most {auto:.3f} times the error of all data, bits {bits:.3f}. Averages have "
        f"{averages[0]:.2f} times that error on a stationary stream and {averages[1]:,.0f} times on a sorted one; "
        f"Algorithm 1 {published[0]:.1f} and {published[1]:,.0f} times.",
    )


EXPERIMENT = Experiment(
    name="drift",
    claim="On streams that drift or are sorted, averages of recent records cannot encode the all-time mean; bits can.",
    source="Left open in Section 5; channels are ours",
    grid=grid(policy=POLICIES, data=KINDS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=MEANS,
    trials=40,
    quick=lambda _: True,
    quick_trials=3,
    contest=Contest(1, grid(data=KINDS), {"squared error, that of all data": "ratio"}, RETENTION),
)
