"""A few dozen random numbers have a subset near any target, and the chance that there is none falls exponentially.

Theorem 3.5 of Immorlica et al. (2024), after Lueker (1998): a subset sum of n uniform numbers is within e^(-n / C_2) of
every target in [-1/2, 1/2], except with a chance of e^(-C_1 n). And Lemma 3.3: normal vectors have a subset whose
average is within 2 error of a target one standard deviation off in each coordinate, except with a chance of error / 2.
Limits: these chances, with the constants of `vestige.theory`, by a binomial test of the number of failures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige import subset, theory
from vestige.lab import figures, significance
from vestige.lab.experiment import Experiment, Parts, Point, Verdict
from vestige.lab.results import Results, Series
from vestige.theory.subsets import SUM_FAILURE, SUM_SIZE
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPEATS = 40
NEAREST = 14
ERROR = 0.25
SUMS = "sums, all targets"
SIZES: dict[str, tuple[int, ...]] = {
    SUMS: (3, 4, 5, 6, 7, 8, 10, 12, 14),
    "averages, dimension 1": (2, 3, 4, 6, 8),
    "averages, dimension 2": (4, 8, 12, 16, 24, 32, 70),
    "averages, dimension 3": (8, 16, 32, 48, 64, 96, 223),
}


def sample_uniform(rng: np.random.Generator, size: int) -> Floats:
    """Draw the numbers of Theorem 3.5.

    Args:
        rng: generator.
        size: number of numbers.

    Returns:
        Uniform numbers in [-1, 1]; shape (size,).
    """
    return rng.uniform(-1.0, 1.0, size)


def sample_normal(rng: np.random.Generator, size: int, dim: int) -> Floats:
    """Draw the vectors of Lemma 3.3.

    Args:
        rng: generator.
        size: number of vectors.
        dim: dimension.

    Returns:
        Standard normal vectors; shape (size, dim).
    """
    return rng.normal(size=(size, dim))


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The share of repeats that fail."""
    kind, size = str(point["kind"]), int(point["size"])
    if kind == SUMS:
        failed = [_sum_error(parts["uniform"](rng, size)) >= math.exp(-size / SUM_SIZE) for _ in range(REPEATS)]
    else:
        dim = int(kind[-1])
        failed = [_average_error(parts["normal"](rng, size, dim)) >= 2.0 * ERROR for _ in range(REPEATS)]
    return {"failed": float(np.mean(failed))}


def _sum_error(numbers: Floats) -> float:
    """The largest distance of a target in [-1/2, 1/2] from the nearest subset sum, that of the empty set included."""
    sums = np.zeros(1)
    for number in numbers:
        sums = np.concatenate((sums, sums + number))
    sums = np.sort(sums)
    middles = (sums[1:] + sums[:-1]) / 2.0
    targets = np.concatenate((middles[np.abs(middles) <= 0.5], [-0.5, 0.5]))
    right = np.searchsorted(sums, targets)
    neighbours = np.stack((sums[np.maximum(right - 1, 0)], sums[np.minimum(right, len(sums) - 1)]))
    return float(np.abs(neighbours - targets).min(axis=0).max())


def _average_error(vectors: Floats) -> float:
    """The distance of the best average of the nearest vectors from a corner of the targets that the lemma allows."""
    target = np.ones(vectors.shape[1])
    order = np.argsort(((vectors - target) ** 2).sum(axis=1))[:NEAREST]
    return float(subset.nearest_average(vectors[order], target, method="exhaustive").residual)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The chance of failure against the number of numbers or vectors."""
    axes = figure.add_subplot(
        xscale="log",
        yscale="log",
        xlabel="number of numbers or vectors",
        ylabel="chance of failure",
        ylim=(3e-4, 1.2),
    )
    for i, kind in enumerate(SIZES):
        series = results.series("size", "failed", kind=kind)
        positive = series.mean > 0.0
        figures.draw_curve(
            axes,
            "",
            Series(series.x[positive], series.mean[positive], series.standard_error[positive]),
            number=i,
            label=kind,
        )
    sizes = np.array(SIZES[SUMS])
    allowed = [theory.subset_sum_failure(int(size)) for size in sizes]
    figures.draw_reference(axes, "bound", sizes, allowed, f"allowed for sums, C_1 = {SUM_FAILURE:g}")
    figures.draw_level(axes, "all data", ERROR / 2.0, "allowed for averages")
    figures.set_whole_ticks(axes, [2, 4, 8, 16, 32, 64, 128, 223])
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """Sums fail at most with chance e^(-C_1 n); as many vectors as the lemma asks for fail as rarely as it says."""

    def is_refuted(kind: str, size: int, chance: float) -> bool:
        failed: Floats = results.where(kind=kind, size=size)["failed"]
        return significance.is_more_often(failed.sum() * REPEATS, len(failed) * REPEATS, chance)

    sums = results.where(kind=SUMS)
    rates = {size: sums.where(size=size).mean("failed") for size in sums.values("size")}
    required = {dim: theory.vector_subset_size(dim, ERROR) for dim in (1, 2, 3)}
    enough = {dim: _find_enough(results, dim) for dim in required}
    summary = ", ".join(f"{enough[dim]:g} of {required[dim]} at dimension {dim}" for dim in enough)
    least = min(-math.log(rate) / size for size, rate in rates.items() if rate > 0.0)
    return Verdict.from_checks(
        {
            "sums fail no more often than the theorem allows": not any(
                is_refuted(SUMS, size, theory.subset_sum_failure(size)) for size in rates
            ),
            "averages of as many vectors as the lemma asks for are near enough": not any(
                is_refuted(_name_kind(dim), size, ERROR / 2.0) for dim, size in required.items()
            ),
        },
        f"With C_2 = {SUM_SIZE:g}, the chance of missing a target was at most e^(-{least:.3f} n), where "
        f"e^(-{SUM_FAILURE:g} n) is allowed. Of the vectors that the lemma asks for at error {ERROR}, these "
        f"were enough: {summary}.",
        {"C_1": least, "C_2": SUM_SIZE},
    )


def _name_kind(dim: int) -> str:
    return f"averages, dimension {dim}"


def _find_enough(results: Results, dim: int) -> float:
    """The smallest number of vectors with which failures are as rare as the lemma says."""
    series = results.series("size", "failed", kind=_name_kind(dim))
    rare = series.mean < ERROR / 2.0
    return float(series.x[rare].min()) if rare.any() else math.inf


EXPERIMENT = Experiment(
    name="subsets",
    claim="Random numbers have a subset sum near every target, and random vectors a subset average, except with a "
    "chance that falls exponentially with their number.",
    source="Theorem 3.5, Lemma 3.3",
    grid=tuple({"kind": kind, "size": size} for kind, sizes in SIZES.items() for size in sizes),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={"uniform": sample_uniform, "normal": sample_normal},
    trials=50,
    quick=lambda point: point["size"] in (4, 6, 8, 12, 70, 223),
    quick_trials=4,
)
