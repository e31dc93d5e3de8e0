"""Even one who knows the mean cannot tell it better with a few records than the best subset of them can.

The proof of Theorem 3.6 of Immorlica et al. (2024), Appendix B: an oracle is told the mean and keeps the subset of the
last records whose average is nearest it. The proof bounds how near that is; here is how near it really is.
Limits: it says which error a subset of m records is within one time in three at most; and it comes near if twice as
many records are within it that often, since batches, in which all this is said, cost a factor of two (Proposition 2.1).
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from vestige import subset, theory
from vestige.figures import find_style
from vestige.lab import figures, significance
from vestige.lab.experiment import Experiment, Parts, Point, Verdict
from vestige.lab.results import Results
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS, CHANCE = 60, 1.0 / 3.0
RETENTIONS = {1: (2, 4, 6, 8, 10, 12, 14, 16), 2: (2, 4, 8, 12, 16), 4: (2, 4, 8, 12, 16)}


def nearest(values: Floats) -> float:
    """The squared distance from 0, the mean, of the best subset's average."""
    return float(subset.nearest_average(values, np.zeros(values.shape[1]), method="exhaustive").residual) ** 2


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The oracle's squared error, averaged over draws, and what it stays below one time in three.

    And the share of draws within what the bound allows so many records, and within what it allows half as many.
    """
    dim, retention = int(point["dim"]), int(point["retention"])
    errors = np.array([parts["oracle"](rng.normal(size=(retention, dim))) for _ in range(DRAWS)])
    return {
        "error": float(errors.mean()),
        "third": float(np.quantile(errors, 1.0 / 3.0)),
        "within": float((errors < allowed(dim, retention)).mean()),
        "near": float((errors < allowed(dim, retention // 2)).mean()),
    }


@cache
def allowed(dim: int, retention: int) -> float:
    """The squared error that so many records are within one time in three at most, by the proof."""
    from scipy.optimize import brentq  # noqa: PLC0415

    def over(log: float) -> float:
        return theory.success_upper_bound(dim, math.exp(log), retention) - CHANCE

    return math.exp(brentq(over, -60.0, math.log(4.0 * dim)))


def _draw_figure(results: Results, figure: Figure) -> None:
    """The error met one time in three against retention, with the bound for each dimension."""
    axes = figure.add_subplot(
        yscale="log", xlabel="retention (records)", ylabel="squared error met one time in three\n(variances)"
    )
    for i, dim in enumerate(results.values("dim")):
        label = f"best subset, dimension {dim}"
        figures.draw_curve(axes, "", results.series("retention", "third", dim=dim), number=i, label=label)
        some = np.arange(2, max(RETENTIONS[dim]) + 1)
        bound = [allowed(dim, int(m)) for m in some]
        figures.draw_reference(axes, "lower bound", some, bound, "lower bound of each" if i == 0 else "_")
    window = np.arange(2, 17)
    reached = [allowed(1, 1) / m for m in window]
    axes.plot(window, reached, color=find_style("window").colour, lw=1.4, label="window, dimension 1")
    figures.draw_legend(figure, axes, columns=2)


def _find_verdict(results: Results) -> Verdict:
    """The bounds must not be beaten, on average or one time in three; and must not be idle."""
    places = {
        (dim, m): results.where(dim=dim, retention=m) for dim in results.values("dim") for m in _tried(results, dim)
    }
    needed = {place: theory.finite_lower_bound(place[0], mine.mean("third")) for place, mine in places.items()}
    deepest = {dim: max(_tried(results, dim)) for dim in results.values("dim")}
    over = {dim: m / needed[dim, m] for dim, m in deepest.items()}
    told = ", ".join(f"{m} records where it asks for {needed[dim, m]} at dimension {dim}" for dim, m in deepest.items())
    return Verdict.from_checks(
        {
            "the mean squared error is not below its floor": all(
                significance.confidence_interval(mine["error"]).high > theory.mean_squared_error_floor(*place)
                for place, mine in places.items()
            ),
            "nobody is within the bound more than one time in three": not any(
                significance.is_more_often(mine["within"].sum() * DRAWS, len(mine) * DRAWS, CHANCE)
                for mine in places.values()
            ),
            "twice as many records are": all(
                significance.is_more_often(mine["near"].sum() * DRAWS, len(mine) * DRAWS, CHANCE)
                for mine in places.values()
            ),
        },
        f"For the error that it stays below one time in three, the best subset needs {told}.",
        {f"retention over bound, dimension {dim}": ratio for dim, ratio in over.items()},
    )


def _tried(results: Results, dim: int) -> list[int]:
    return results.where(dim=dim).values("retention")


EXPERIMENT = Experiment(
    name="oracle",
    claim="No choice of subset beats the lower bound, not even with the mean known; and the best comes near it.",
    source="Theorem 3.6 and its proof",
    grid=tuple({"dim": dim, "retention": m} for dim, retentions in RETENTIONS.items() for m in retentions),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={"oracle": nearest},
    trials=40,
    quick=lambda point: point["retention"] in (2, 4, 8, 12),
    quick_trials=12,
)
