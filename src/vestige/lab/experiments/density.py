"""Where data have no density about their mean, averages of subsets fail; presence bits do not need one.

Violates the assumption of Theorem 3.1 of Immorlica et al. (2024): whole numbers, two points, a hole at the mean, heavy
tails. The channels are ours.
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

POLICIES = ("algorithm 1", "Mean, average", "Mean, bits", "Mean, auto")


def _sample_hole(rng: np.random.Generator, n: int) -> Floats:
    """Two normals far apart; one record in ten is on the right."""
    return rng.normal(size=n) * 0.1 + np.where(rng.random(n) < 0.1, 9.0, -1.0)


DATA: dict[str, Sample] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(2.5, n),
    "whole numbers": lambda rng, n: rng.poisson(2.0, n).astype(np.float64),
    "two points": lambda rng, n: (rng.random(n) < 0.02).astype(np.float64),
    "hole at the mean": _sample_hole,
}
KINDS = list(DATA)


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The error of one stream, as a multiple of that of all data."""
    return measure_kind(DATA[str(point["data"])], parts[str(point["policy"])](1), rng)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The error as a multiple of that of all data, for each kind of data."""
    figures.draw_kinds(figure, results, KINDS, figures.list_policies(results, POLICIES))


def _find_verdict(results: Results) -> Verdict:
    """Bits hold for all data; averages hold for normals, but not for all data."""
    ratios = {(name, kind): results.where(policy=name, data=kind)["ratio"] for name in POLICIES for kind in KINDS}
    failing = {
        name: [kind for kind in KINDS if significance.is_above(ratios[name, kind], significance.PROMISED)]
        for name in ("algorithm 1", "Mean, average")
    }
    failures = "; ".join(
        f"{name} at {', '.join(kinds)} (up to {max(ratios[name, kind].mean() for kind in kinds):.0f} times)"
        for name, kinds in failing.items()
        if kinds
    )
    bits, auto = (max(ratios[name, kind].mean() for kind in KINDS) for name in ("Mean, bits", "Mean, auto"))
    return Verdict.from_checks(
        {
            "presence bits are as good as all data, for all kinds of data": significance.every(
                significance.show_as_good(ratios["Mean, bits", kind]) for kind in KINDS
            ),
            "auto is as good as all data, for all kinds of data": significance.every(
                significance.show_as_good(ratios["Mean, auto", kind]) for kind in KINDS
            ),
            "averages are as good as all data for normals": significance.show_as_good(
                ratios["Mean, average", "normal"]
            ),
            "averages fail where there is no density": significance.show_above(
                ratios["Mean, average", "two points"], significance.PROMISED
            ),
        },
        f"Bits have at most {bits:.3f} times the error of all data, auto {auto:.3f}. These have more than "
        f"{significance.PROMISED:g} times that error: {failures}.",
    )


EXPERIMENT = Experiment(
    name="density",
    claim="Subset averages need a density about the mean: where data have none they fail, and presence bits do not.",
    source="The assumption of Theorem 3.1; channels are ours",
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
