"""The batch that is needed grows with the logarithm of 1 / error and in proportion to the dimension.

Theorem 3.1 and Theorem 3.6 of Immorlica et al. (2024), for `vestige.Mean`: the smallest batch at which the mean of T
normals has at most 1.1 times the error of all data, d / T; beside what the theorem (with measured constants) and the
lower bound ask for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.lab import plotting
from vestige.lab.contenders import MEANS, answered, squared
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.palette import MARKS, SHADES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMS = (1, 4)
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
SEGMENTS = (10, 12, 14, 16, 20, 24, 28, 32, 40)
BITS_FROM = 28
HOPELESS = 16  # fewer records for each number are not tried on the longest stream
ENOUGH = 1.1


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared distance from the mean of all records over that mean's own error, and 1 for the latter."""
    dim, batch = int(point["dim"]), int(point["dim"]) * int(point["segment"])
    length = int(point["length"]) // batch * batch
    rows = rng.normal(size=(length, dim))
    answer = answered(
        parts[str(point["policy"])](dim), rows, 2 * batch, rng
    )  # the same states as in batches, and faster
    return {"ratio": 1.0 + squared(answer - rows.mean(axis=0)) / (dim / length)}


def needed(results: Results, dim: int, length: int) -> tuple[float, str]:
    """The smallest batch from which on the ratio is at most 1.1, and with which policy; infinite if there is none."""
    found = math.inf, ""
    for policy in results.values("policy"):
        series = results.series("segment", "ratio", dim=dim, length=length, policy=policy)
        missed = np.flatnonzero(~(series.mean <= ENOUGH))
        rest = series.x[missed[-1] + 1 :] if len(missed) else series.x
        if len(rest):
            found = min(found, (dim * float(rest[0]), policy))
    return found


def figure(results: Results, drawn: Figure) -> None:
    """The batch needed against the number of records, for each dimension."""
    axes = drawn.add_subplot(xscale="log", yscale="log", xlabel="records T (error = d / T)", ylabel="batch (records)")
    for i, dim in enumerate(DIMS):
        found = [needed(results, dim, length)[0] for length in LENGTHS]
        asked = [theory.mean_retention(dim, dim / length) / 2 for length in LENGTHS]
        least = [theory.finite_lower_bound(dim, ENOUGH * dim / length) for length in LENGTHS]
        colour = SHADES[i]
        axes.plot(LENGTHS, found, color=colour, marker=MARKS[i], label=f"Mean, dimension {dim}")
        axes.plot(LENGTHS, asked, color=colour, ls="--", lw=1.2, label=f"theorem, dimension {dim}")
        axes.plot(LENGTHS, least, color=colour, ls=":", lw=1.4, label=f"lower bound, dimension {dim}")
    axes.set_yticks([4, 8, 16, 32, 64, 128, 256], ["4", "8", "16", "32", "64", "128", "256"])
    plotting.whole_ticks(axes, list(LENGTHS))
    plotting.legend(drawn, axes, columns=2)


def verdict(results: Results) -> Verdict:
    """Between the lower bound and the theorem, and by how much."""
    lengths = results.values("length")
    places = [(dim, length) for dim in DIMS for length in lengths]
    found = {place: needed(results, *place) for place in places}
    asked = {(d, n): theory.mean_retention(d, d / n) / 2 for d, n in places}
    least = {(d, n): theory.finite_lower_bound(d, ENOUGH * d / n) for d, n in places}
    over = {dim: found[dim, lengths[-1]][0] / least[dim, lengths[-1]] for dim in DIMS}
    told = "; ".join(
        f"{found[dim, lengths[-1]][0]:g} at dimension {dim} ({found[dim, lengths[-1]][1]}), where the lower bound is "
        f"{least[dim, lengths[-1]]} and the theorem asks for {asked[dim, lengths[-1]]:g}"
        for dim in DIMS
    )
    return Verdict.of(
        {
            "the batch needed is at most what the theorem asks for": all(found[p][0] <= asked[p] for p in places),
            "and not below the lower bound": all(found[p][0] >= least[p] for p in places),
        },
        f"For 1.1 times the error of all {lengths[-1]:,} records, a batch of {told}. What limits it is the rare batch "
        "that has no subset near the target; from 28 records for each number on, bits step in.",
        {f"batch over lower bound, dimension {dim}": over[dim] for dim in DIMS},
    )


EXPERIMENT = Experiment(
    name="needed",
    claim="The batch that is needed grows with log(1 / error) and in proportion to the dimension; it lies between the "
    "lower bound and what the theorem asks for.",
    source="Theorems 3.1 and 3.6",
    grid=tuple(
        point
        for point in grid(policy=("Mean, average", "Mean, auto"), dim=DIMS, length=LENGTHS, segment=SEGMENTS)
        if (point["policy"] == "Mean, average" or int(point["segment"]) >= BITS_FROM)
        and (int(point["length"]) < LENGTHS[-1] or int(point["segment"]) >= HOPELESS)
    ),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=6,
    quick=lambda point: point["length"] == 10_000,
    quick_trials=4,
)
