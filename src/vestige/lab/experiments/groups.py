"""The least-squares estimates of small groups have a density about the truth, so some subset of them is near it.

Lemma 4.2 of Immorlica et al. (2024): above C d log d records to a group, each coordinate of its estimate has a density
of at least alpha within gamma of the truth. Predictors and noise are standard normal, and gamma = 1 / sqrt(group) is
the typical distance of an estimate from the truth: the theorem relies on alpha gamma not vanishing.
Limits: the estimates follow Student's t exactly. The number of them near gamma is binomial, and close to normal; after
they are transformed to normals, their squares add up to chi squared, which a tenth more or less of spread refutes. Each
is one test over all groups.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.figures import COLOURS, INK
from vestige.lab import figures, significance
from vestige.lab.experiment import Experiment, Parts, Point, Verdict
from vestige.lab.results import Results
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMS, TIMES, GROUPS, WIDTH = (1, 2, 4), (1, 2, 4, 8), 1_000, 0.2
ENOUGH = 0.15


def estimate_groups(x: Floats, y: Floats) -> Floats:
    """Fit each group by least squares.

    Args:
        x: predictors; shape (groups, k, dim).
        y: outputs; shape (groups, k).

    Returns:
        The first coefficient of each group; shape (groups,).

    Example:
        >>> estimate_groups(np.ones((1, 3, 1)), np.full((1, 3), 2.0))
        array([2.])
    """
    moments, products = np.einsum("gki,gkj->gij", x, x), np.einsum("gki,gk->gi", x, y)
    fitted: Floats = np.linalg.solve(moments, products[..., None])[:, 0, 0].astype(np.float64)
    return fitted


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The density at distance gamma from the truth, which is 0, times gamma; and the spread of the estimates."""
    dim, group = int(point["dim"]), int(point["group"])
    x, noise = rng.normal(size=(GROUPS, group, dim)), rng.normal(size=(GROUPS, group))
    distances = np.abs(parts["estimates"](x, noise))
    near = np.abs(distances * math.sqrt(group) - 1.0) < WIDTH / 2.0
    return {
        "density": float(near.mean()) / (2.0 * WIDTH),
        "spread": float((_to_normal(distances, dim, group) ** 2).mean()),
    }


def _to_normal(distances: Floats, dim: int, group: int) -> Floats:
    """Transform distances from the truth to those of standard normals with the same tail probability."""
    from scipy.special import ndtri, stdtr  # noqa: PLC0415

    free = group - dim + 1
    normals: Floats = -ndtri(stdtr(free, -distances * math.sqrt(free)))
    return normals


def _chance_near(dim: int, group: int) -> float:
    """The chance that an estimate lies near gamma from the truth, on either side."""
    from scipy.special import stdtr  # noqa: PLC0415

    free = group - dim + 1
    edges = np.array([1.0 - WIDTH / 2.0, 1.0 + WIDTH / 2.0]) * math.sqrt(free / group)
    low, high = stdtr(free, edges)
    return float(2.0 * (high - low))


def _promised_density(dim: int, group: int) -> float:
    """The product of alpha and gamma, exactly, for normal predictors."""
    gamma = 1.0 / math.sqrt(group)
    return theory.normal_group_density(dim, group, gamma) * gamma


def _find_deviations(parts: dict[tuple[int, int], Results]) -> Floats:
    """At each point, the squared deviation of the number of estimates near gamma, in units of its variance."""
    deviations = []
    for place, mine in parts.items():
        trials, share = GROUPS * len(mine), _chance_near(*place)
        hits = mine.mean("density") * 2.0 * WIDTH * trials
        deviations.append((hits - trials * share) ** 2 / (trials * share * (1.0 - share)))
    return np.array(deviations)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The product against the size of the group, for each dimension."""
    axes = figure.add_subplot(
        xscale="log",
        xlabel="records in a group",
        ylabel="density at gamma from the truth,\ntimes gamma",
        ylim=(0.0, 0.3),
    )
    for i, dim in enumerate(DIMS):
        label = f"measured, dimension {dim}"
        figures.draw_curve(axes, "", results.series("group", "density", dim=dim), number=i, label=label)
        sizes = np.arange(theory.group_size(dim), TIMES[-1] * theory.group_size(dim) + 1)
        axes.plot(sizes, [_promised_density(dim, int(k)) for k in sizes], color=COLOURS[i], ls=":", lw=1.4)
    axes.plot([], [], color=INK, ls=":", lw=1.4, label="Student's t")
    figures.set_whole_ticks(axes, [3, 5, 10, 20, 40, 88])
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """The density must follow Student's t, and must not vanish."""
    places = [(dim, group) for dim in results.values("dim") for group in results.where(dim=dim).values("group")]
    parts = {place: results.where(dim=place[0], group=place[1]) for place in places}
    densities = [mine.mean("density") for mine in parts.values()]
    off = np.abs(np.array(densities) - [_promised_density(*place) for place in places])
    spread = np.concatenate([mine["spread"] for mine in parts.values()])
    return Verdict.from_checks(
        {
            "the density is that of Student's t": not significance.is_above(_find_deviations(parts), 1.0),
            "so is the spread": not any(
                test(spread, 1.0, GROUPS) for test in (significance.is_above, significance.is_below)
            ),
            "alpha gamma does not vanish": min(densities) > ENOUGH,
        },
        f"From the smallest groups to eight times as many records, alpha gamma is between {min(densities):.3f} and "
        f"{max(densities):.3f}; it differs from that of Student's t by at most {off.max():.3f}.",
        {"alpha gamma": min(densities)},
    )


EXPERIMENT = Experiment(
    name="groups",
    claim="The estimates of groups of C d log d records have a density of at least alpha within gamma of the truth, "
    "and alpha gamma does not vanish.",
    source="Lemma 4.2",
    grid=tuple({"dim": dim, "group": times * theory.group_size(dim)} for dim in DIMS for times in TIMES),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={"estimates": estimate_groups},
    trials=40,
    quick=lambda point: int(point["group"]) <= 20,
    quick_trials=6,
)
