"""Even one who knows the mean cannot tell it better with a few records than the best subset of them can.

The proof of Theorem 3.6 of Immorlica et al. (2024), Appendix B: an oracle is told the mean and keeps the subset of the
last records whose average is nearest it. The proof bounds how near that is; here is how near it really is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige import subset, theory
from vestige.lab import plotting
from vestige.lab.experiment import Experiment, Parts, Point, Verdict
from vestige.lab.results import Results
from vestige.palette import look
from vestige.records import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS = 60
RETENTIONS = {1: (2, 4, 6, 8, 10, 12, 14, 16), 2: (2, 4, 8, 12, 16), 4: (2, 4, 8, 12, 16)}


def nearest(values: Floats) -> float:
    """The squared distance from 0, the mean, of the best subset's average."""
    return float(subset.nearest_average(values, np.zeros(values.shape[1]), method="exhaustive").residual) ** 2


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The oracle's squared error, averaged over draws; and what it stays below one time in three."""
    dim, retention = int(point["dim"]), int(point["retention"])
    errors = np.array([parts["oracle"](rng.normal(size=(retention, dim))) for _ in range(DRAWS)])
    return {"error": float(errors.mean()), "third": float(np.quantile(errors, 1.0 / 3.0))}


def figure(results: Results, drawn: Figure) -> None:
    """Error against retention, with the bound for each dimension."""
    axes = drawn.add_subplot(
        yscale="log", xlabel="retention (records)", ylabel="mean squared error (variances)", ylim=(1e-11, 10.0)
    )
    for i, dim in enumerate(results.values("dim")):
        label = f"best subset, dimension {dim}"
        plotting.curve(axes, "", results.series("retention", "error", dim=dim), number=i, label=label)
        some = np.arange(2, max(RETENTIONS[dim]) + 1)
        floor = [theory.mean_squared_error_floor(dim, int(m)) for m in some]
        plotting.reference(axes, "lower bound", some, floor, "lower bound of each" if i == 0 else "_")
    window = np.arange(2, 17)
    axes.plot(window, 1.0 / window, color=look("window").colour, lw=1.4, label="window, dimension 1")
    plotting.legend(drawn, axes, columns=2)


def verdict(results: Results) -> Verdict:
    """The bounds must not be beaten, on average or one time in three; and must not be idle."""
    floors, needed = {}, {}
    for dim in results.values("dim"):
        for m in results.where(dim=dim).values("retention"):
            mine = results.where(dim=dim, retention=m)
            floors[dim, m] = (mine.mean("error") + 3.0 * mine.error("error")) / theory.mean_squared_error_floor(dim, m)
            needed[dim, m] = theory.finite_lower_bound(dim, mine.mean("third"))
    deepest = {dim: max(m for d, m in needed if d == dim) for dim, _ in needed}
    over = {dim: m / needed[dim, m] for dim, m in deepest.items()}
    told = ", ".join(f"{m} records where it asks for {needed[dim, m]} at dimension {dim}" for dim, m in deepest.items())
    return Verdict.of(
        {
            "the mean squared error is above its floor": min(floors.values()) > 1.0,
            "nobody needs less than the bound": all(needed[dim, m] <= m for dim, m in needed),
            "the best subset needs less than 1.5 times the bound": max(over.values()) < 1.5,
        },
        f"For the error that it stays below one time in three, the best subset needs {told}.",
        {"retention over bound": max(over.values())},
    )


EXPERIMENT = Experiment(
    name="oracle",
    claim="No choice of subset beats the lower bound, not even with the mean known; and the best comes near it.",
    source="Theorem 3.6 and its proof",
    grid=tuple({"dim": dim, "retention": m} for dim, retentions in RETENTIONS.items() for m in retentions),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts={"oracle": nearest},
    trials=40,
    quick=lambda point: point["retention"] in (2, 4, 8, 12),
    quick_trials=12,
)
