"""The error falls with the length of the stream as if all records had been kept: C / error records are enough.

Theorem 3.1 of Immorlica et al. (2024) at one retention: standard normals in one dimension. By `vestige.theory`, this
retention is enough for lengths up to about 4,000; beyond, the theorem promises nothing for Algorithm 1.
Limits: C_1 of `vestige.theory`; `significance.PROMISED`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS, error_ratio, run_stream
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.lab.submission import Contest
from vestige.theory.upper_bounds import MEAN_ROUNDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION = 64
LENGTHS = (256, 1_024, 4_096, 16_384, 65_536)
POLICIES = tuple(name for name in MEANS if name != "coordinate-wise")  # in one dimension, it is Algorithm 1


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The error of one stream, as a multiple of that of all data and in variances."""
    rows = rng.normal(size=(int(point["length"]), 1))
    answer = run_stream(parts[str(point["policy"])](1), rows, RETENTION, rng)
    ratio = error_ratio(answer, rows, 1.0)
    return {"ratio": ratio, "error": ratio / len(rows)}


def _draw_figure(results: Results, figure: Figure) -> None:
    """Error against length, both on logarithmic axes."""
    axes = figure.add_subplot(
        xscale="log", yscale="log", xlabel="length of the stream (records)", ylabel="mean squared error (variances)"
    )
    for i, name in enumerate(figures.list_policies(results, POLICIES)):
        figures.draw_curve(axes, name, results.series("length", "error", policy=name), number=i, shift=0.04 * (i - 2))
    lengths = np.array(LENGTHS)
    figures.draw_reference(axes, "all data", lengths, 1.0 / lengths)
    promised = lengths[[_is_covered(length) for length in LENGTHS]]
    figures.draw_reference(axes, "bound", promised, MEAN_ROUNDS / promised, f"promised, C_1 = {MEAN_ROUNDS:g}")
    figures.set_whole_ticks(axes, list(LENGTHS))
    figures.draw_legend(figure, axes)


def _is_covered(length: int) -> bool:
    """Whether the theorem, with the constants of `vestige.theory`, promises C_1 / length at this retention."""
    return theory.mean_retention(1, MEAN_ROUNDS / length) <= RETENTION


def _find_verdict(results: Results) -> Verdict:
    """Where the theorem applies, the error is within C_1 of all data; `Mean` is as good, and a window is not."""
    lengths = results.values("length")
    published = {length: results.where(policy="algorithm 1", length=length)["ratio"] for length in lengths}
    covered = list(filter(_is_covered, lengths))
    longest = lengths[-1]
    ours, window = (results.where(policy=name, length=longest)["ratio"] for name in ("Mean, auto", "window"))
    most = max(float(published[length].mean()) for length in covered)
    return Verdict.from_checks(
        {
            "Algorithm 1 is within C_1 of all data where the theorem applies": not any(
                significance.is_above(published[length], MEAN_ROUNDS) for length in covered
            ),
            "Mean is as good as all data": significance.show_as_good(ours),
            "the window falls behind": significance.show_smaller(ours, window),
        },
        f"With a retention of {RETENTION}, up to {max(covered):,} records, Algorithm 1 has at most {most:.1f} times "
        f"the error of all data. At {longest:,} records Mean has {ours.mean():.3f} times that error, the window "
        f"{window.mean():.0f} times.",
        {"C_1": most},
    )


EXPERIMENT = Experiment(
    name="length",
    claim="At a fixed retention, the error falls with the length of the stream as that of all data does, up to the "
    "length that the retention is enough for.",
    source="Theorem 3.1",
    grid=grid(policy=POLICIES, length=LENGTHS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=MEANS,
    trials=30,
    quick=lambda point: point["length"] in (1_024, 4_096),
    quick_trials=8,
    contest=Contest(1, grid(length=LENGTHS), {"squared error, that of all data": "ratio"}, RETENTION),
)
