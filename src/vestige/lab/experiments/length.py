"""After C / error records the error is reached: it falls with the stream as if all records had been kept.

Theorem 3.1 of Immorlica et al. (2024) at one retention: standard normals in one dimension. By `vestige.theory`, this
retention is enough for lengths up to about 4,000; beyond, Algorithm 1 is promised nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.lab import plotting
from vestige.lab.contenders import MEANS, answered, squared
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.theory.sufficing import MEAN_ROUNDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION = 64
LENGTHS = (256, 1_024, 4_096, 16_384, 65_536)
POLICIES = tuple(name for name in MEANS if name != "coordinate-wise")  # in one dimension, it is Algorithm 1


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared error of one stream's answer, and of the mean of all its records."""
    rows = rng.normal(size=(int(point["length"]), 1))
    answer = answered(parts[str(point["policy"])](1), rows, RETENTION, rng)
    return {"error": squared(answer), "all_data": squared(rows.mean(axis=0))}


def figure(results: Results, drawn: Figure) -> None:
    """Error against length, both logarithmic."""
    axes = drawn.add_subplot(
        xscale="log", yscale="log", xlabel="length of the stream (records)", ylabel="mean squared error (variances)"
    )
    for i, name in enumerate(POLICIES):
        plotting.curve(axes, name, results.series("length", "error", policy=name), aside=0.04 * (i - 2))
    lengths = np.array(LENGTHS)
    plotting.reference(axes, "all data", lengths, 1.0 / lengths)
    promised = lengths[[_covered(length) for length in LENGTHS]]
    plotting.reference(axes, "bound", promised, MEAN_ROUNDS / promised, f"promised, C_1 = {MEAN_ROUNDS:g}")
    plotting.whole_ticks(axes, list(LENGTHS))
    plotting.legend(drawn, axes)


def _covered(length: int) -> bool:
    """Whether the theorem, with the constants of `vestige.theory`, promises C_1 / length at this retention."""
    return theory.mean_retention(1, MEAN_ROUNDS / length) <= RETENTION


def verdict(results: Results) -> Verdict:
    """Where the theorem speaks, the error is within C_1 of all data; tolerances are those of a squared normal."""
    lengths = results.values("length")
    constants, allowed = [], []
    for length in filter(_covered, lengths):
        mine = results.where(policy="algorithm 1", length=length)
        constants.append(mine.mean("error") * length)
        allowed.append(MEAN_ROUNDS * (1.0 + 3.0 * np.sqrt(2.0 / len(mine))))
    longest = lengths[-1]
    ours, window = (results.where(policy=name, length=longest) for name in ("Mean, auto", "window"))
    ratio, behind = ours.mean("error") / ours.mean("all_data"), window.mean("error") / window.mean("all_data")
    return Verdict.of(
        {
            "Algorithm 1 is within C_1 of all data where it should be": bool(np.all(np.array(constants) < allowed)),
            "Mean is within 10% of all data": ratio < 1.1,
            "the window falls behind": behind > 4.0,
        },
        f"With a retention of {RETENTION}, up to {max(filter(_covered, lengths)):,} records, Algorithm 1 has at most "
        f"{max(constants):.1f} times the error of all data. At {longest:,} records Mean has {ratio:.2f} times that "
        f"error, the window {behind:.0f} times.",
        {"C_1": max(constants)},
    )


EXPERIMENT = Experiment(
    name="length",
    claim="At a fixed retention, the error falls with the length of the stream as that of all data does, up to the "
    "length that the retention is enough for.",
    source="Theorem 3.1",
    grid=grid(policy=POLICIES, length=LENGTHS),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=MEANS,
    trials=30,
    quick=lambda point: point["length"] in (1_024, 4_096),
    quick_trials=8,
)
