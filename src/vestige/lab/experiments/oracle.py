"""Even a policy that knows the mean cannot beat the lower bound, because the best subset cannot.

The proof of Theorem 3.6 of Immorlica et al. (2024), Appendix B: an oracle knows the mean and keeps the subset of the
last records whose average is nearest to it. The proof bounds the distance; this experiment measures it.
Limits: the proof gives the error that a subset of m records is within at most one time in three. The bound is close if
twice as many records are within it that often, since the batched model costs a factor of two (Proposition 2.1).
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

REPEATS, CHANCE = 60, 1.0 / 3.0
RETENTIONS = {1: (2, 4, 6, 8, 10, 12, 14, 16), 2: (2, 4, 8, 12, 16), 4: (2, 4, 8, 12, 16)}


def find_nearest(values: Floats) -> float:
    """Find the subset whose average is nearest to the mean, 0.

    Args:
        values: the records; shape (n, dim).

    Returns:
        The squared distance of that average.

    Example:
        >>> find_nearest(np.array([[1.0], [-1.0], [3.0]]))
        0.0
    """
    return float(subset.nearest_average(values, np.zeros(values.shape[1]), method="exhaustive").residual) ** 2


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The oracle's mean squared error, its quantile at a third, and the shares within two bounds.

    The bounds are those for this number of records, and for half of it.
    """
    dim, retention = int(point["dim"]), int(point["retention"])
    errors = np.array([parts["oracle"](rng.normal(size=(retention, dim))) for _ in range(REPEATS)])
    return {
        "error": float(errors.mean()),
        "third": float(np.quantile(errors, 1.0 / 3.0)),
        "within": float((errors < _find_bound(dim, retention)).mean()),
        "near": float((errors < _find_bound(dim, retention // 2)).mean()),
    }


@cache
def _find_bound(dim: int, retention: int) -> float:
    """The squared error that this number of records is within at most one time in three, by the proof."""
    from scipy.optimize import brentq  # noqa: PLC0415

    def excess(log: float) -> float:
        return theory.success_upper_bound(dim, math.exp(log), retention) - CHANCE

    return math.exp(brentq(excess, -60.0, math.log(4.0 * dim)))


def _draw_figure(results: Results, figure: Figure) -> None:
    """The quantile of the error at a third against retention, with the bound for each dimension."""
    axes = figure.add_subplot(
        yscale="log", xlabel="retention (records)", ylabel="squared error, quantile at 1/3\n(variances)"
    )
    for i, dim in enumerate(results.values("dim")):
        label = f"best subset, dimension {dim}"
        figures.draw_curve(axes, "", results.series("retention", "third", dim=dim), number=i, label=label)
        retentions = np.arange(2, max(RETENTIONS[dim]) + 1)
        bound = [_find_bound(dim, int(m)) for m in retentions]
        figures.draw_reference(axes, "lower bound", retentions, bound, "lower bounds" if i == 0 else "_")
    window = np.arange(2, 17)
    window_error = [_find_bound(1, 1) / m for m in window]
    axes.plot(window, window_error, color=find_style("window").colour, lw=1.4, label="window, dimension 1")
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """The bounds must not be beaten, on average or at the quantile; and must be close."""
    places = {
        (dim, m): results.where(dim=dim, retention=m)
        for dim in results.values("dim")
        for m in _list_retentions(results, dim)
    }
    required = {place: theory.finite_lower_bound(place[0], mine.mean("third")) for place, mine in places.items()}
    deepest = {dim: max(_list_retentions(results, dim)) for dim in results.values("dim")}
    ratios = {dim: m / required[dim, m] for dim, m in deepest.items()}
    summary = ", ".join(
        f"{m} records where it asks for {required[dim, m]} at dimension {dim}" for dim, m in deepest.items()
    )
    return Verdict.from_checks(
        {
            "the mean squared error is not below its floor": all(
                significance.confidence_interval(mine["error"]).high > theory.mean_squared_error_floor(*place)
                for place, mine in places.items()
            ),
            "no subset is within the bound more than one time in three": not any(
                significance.is_more_often(mine["within"].sum() * REPEATS, len(mine) * REPEATS, CHANCE)
                for mine in places.values()
            ),
            "with twice as many records, some are": significance.every(
                significance.show_more_often(mine["near"].sum() * REPEATS, len(mine) * REPEATS, CHANCE)
                for mine in places.values()
            ),
        },
        f"For the error that it meets one time in three, the best subset needs {summary}.",
        {f"retention over bound, dimension {dim}": ratio for dim, ratio in ratios.items()},
    )


def _list_retentions(results: Results, dim: int) -> list[int]:
    return results.where(dim=dim).values("retention")


EXPERIMENT = Experiment(
    name="oracle",
    claim="No choice of subset beats the lower bound, even if the mean is known; and the best comes close to it.",
    source="Theorem 3.6 and its proof",
    grid=tuple({"dim": dim, "retention": m} for dim, retentions in RETENTIONS.items() for m in retentions),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={"oracle": find_nearest},
    trials=40,
    quick=lambda point: point["retention"] in (2, 4, 8, 12),
    quick_trials=12,
)
