"""Where data have no density about their mean, averages of subsets fail; presence bits do not ask.

The assumption of Theorem 3.1 of Immorlica et al. (2024), broken: whole numbers, two points, a hole at the mean, heavy
tails. The channels are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from vestige.lab import plotting
from vestige.lab.contenders import MEANS, answered
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.records import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION, LENGTH = 64, 8_192
POLICIES = ("algorithm 1", "Mean, average", "Mean, bits", "Mean, auto")


def _hole(rng: np.random.Generator, n: int) -> Floats:
    """Two normals, far apart; one in ten is on the right."""
    return rng.normal(size=n) * 0.1 + np.where(rng.random(n) < 0.1, 9.0, -1.0)


DATA: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(2.5, n),
    "whole numbers": lambda rng, n: rng.poisson(2.0, n).astype(np.float64),
    "two points": lambda rng, n: (rng.random(n) < 0.02).astype(np.float64),
    "hole at the mean": _hole,
}
KINDS = list(DATA)


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """1 for the error of the mean of all records, and how far the answer is from that mean, in the same unit."""
    rows = DATA[str(point["data"])](rng, LENGTH)[:, None]
    answer = answered(parts[str(point["policy"])](1), rows, RETENTION, rng)
    return {"ratio": 1.0 + float((answer[0] - rows.mean()) ** 2 / (rows.var() / LENGTH))}


def figure(results: Results, drawn: Figure) -> None:
    """The error over that of all data, for each kind."""
    axes = drawn.add_subplot(yscale="log", ylabel="mean squared error (that of all data)")
    plotting.categories(axes, results, "data", "ratio", KINDS, list(POLICIES))
    plotting.level(axes, "all data", 1.0)
    plotting.legend(drawn, axes)


def verdict(results: Results) -> Verdict:
    """Bits hold for all data; averages for normals, and not for all."""
    ratios = {(name, kind): results.where(policy=name, data=kind).mean("ratio") for name in POLICIES for kind in KINDS}
    bits, auto = (max(ratios[name, kind] for kind in KINDS) for name in ("Mean, bits", "Mean, auto"))
    failing = {name: [k for k in KINDS if ratios[name, k] > 10.0] for name in ("algorithm 1", "Mean, average")}
    told = "; ".join(
        f"{name} at {', '.join(kinds)} (up to {max(ratios[name, k] for k in kinds):.0f} times)"
        for name, kinds in failing.items()
        if kinds
    )
    return Verdict.of(
        {
            "presence bits are within 10% of all data, whatever the data": bits < 1.1,
            "so is auto": auto < 1.1,
            "averages hold for normals": ratios["Mean, average", "normal"] < 1.5,
            "averages fail where there is no density": "two points" in failing["Mean, average"],
        },
        f"Bits have at most {bits:.2f} times the error of all data, auto {auto:.2f}. More than 10 times had: {told}.",
    )


EXPERIMENT = Experiment(
    name="density",
    claim="Subset averages need a density about the mean; where data have none they fail, and presence bits do not.",
    source="The assumption of Theorem 3.1; channels are ours",
    grid=grid(policy=POLICIES, data=KINDS),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=40,
    quick=lambda _: True,
    quick_trials=3,
)
