"""The least-squares estimates of small groups are spread smoothly about the truth, so that some subset is near it.

Lemma 4.2 of Immorlica et al. (2024): above C d log d records to a group, each coordinate of its estimate has a density
of at least alpha within gamma of the truth. Standard normal predictors and noise, and gamma = 1 / sqrt(group), which is
about how far estimates lie from the truth: what the theorem uses is that alpha gamma does not vanish.
Limits: the law of the estimates is Student's t, exactly. How many of them lie near gamma is binomial, and as good as
normal; and turned into normals by that law, their squares add up to chi squared, which a tenth more or less of spread
refutes. Each is one test over all groups.
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


def estimates(x: Floats, y: Floats) -> Floats:
    """The first coordinate of each group's least-squares estimate; x has shape (groups, k, dim)."""
    moments, products = np.einsum("gki,gkj->gij", x, x), np.einsum("gki,gk->gi", x, y)
    fitted: Floats = np.linalg.solve(moments, products[..., None])[:, 0, 0].astype(np.float64)
    return fitted


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The density at a distance of gamma from the truth, which is 0, times gamma."""
    dim, group = int(point["dim"]), int(point["group"])
    x, noise = rng.normal(size=(GROUPS, group, dim)), rng.normal(size=(GROUPS, group))
    found = np.abs(parts["estimates"](x, noise))
    near = np.abs(found * math.sqrt(group) - 1.0) < WIDTH / 2.0
    return {"density": float(near.mean()) / (2.0 * WIDTH), "spread": float((_normal(found, dim, group) ** 2).mean())}


def _normal(distances: Floats, dim: int, group: int) -> Floats:
    """Distances from the truth as those of standard normals that are as far out."""
    from scipy.special import ndtri, stdtr  # noqa: PLC0415

    free = group - dim + 1
    made: Floats = -ndtri(stdtr(free, -distances * math.sqrt(free)))
    return made


def chance(dim: int, group: int) -> float:
    """That an estimate lies near gamma from the truth, on either side."""
    from scipy.special import stdtr  # noqa: PLC0415

    free = group - dim + 1
    edges = np.array([1.0 - WIDTH / 2.0, 1.0 + WIDTH / 2.0]) * math.sqrt(free / group)
    low, high = stdtr(free, edges)
    return float(2.0 * (high - low))


def promised_density(dim: int, group: int) -> float:
    """The product of alpha and gamma, for normal predictors exactly."""
    gamma = 1.0 / math.sqrt(group)
    return theory.normal_group_density(dim, group, gamma) * gamma


def _surprise(parts: dict[tuple[int, int], Results]) -> Floats:
    """At each place, by how many of its variances the number of estimates near gamma is off what is expected."""
    made = []
    for place, mine in parts.items():
        draws, share = GROUPS * len(mine), chance(*place)
        hits = mine.mean("density") * 2.0 * WIDTH * draws
        made.append((hits - draws * share) ** 2 / (draws * share * (1.0 - share)))
    return np.array(made)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The product against the group, for each dimension."""
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
        axes.plot(sizes, [promised_density(dim, int(k)) for k in sizes], color=COLOURS[i], ls=":", lw=1.4)
    axes.plot([], [], color=INK, ls=":", lw=1.4, label="Student's t")
    figures.set_whole_ticks(axes, [3, 5, 10, 20, 40, 88])
    figures.draw_legend(figure, axes, columns=2)


def _find_verdict(results: Results) -> Verdict:
    """No density below what it should be, and none that vanishes."""
    places = [(dim, group) for dim in results.values("dim") for group in results.where(dim=dim).values("group")]
    parts = {place: results.where(dim=place[0], group=place[1]) for place in places}
    found = [mine.mean("density") for mine in parts.values()]
    off = np.abs(np.array(found) - [promised_density(*place) for place in places])
    spread = np.concatenate([mine["spread"] for mine in parts.values()])
    return Verdict.from_checks(
        {
            "the density is that of Student's t": not significance.is_above(_surprise(parts), 1.0),
            "and so is the spread": not any(
                test(spread, 1.0, GROUPS) for test in (significance.is_above, significance.is_below)
            ),
            "alpha gamma does not vanish": min(found) > ENOUGH,
        },
        f"From the smallest groups to eight times as many records, alpha gamma is between {min(found):.3f} and "
        f"{max(found):.3f}; it differs from what Student's t says by at most {off.max():.3f}.",
        {"alpha gamma": min(found)},
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
    parts={"estimates": estimates},
    trials=40,
    quick=lambda point: int(point["group"]) <= 20,
    quick_trials=6,
)
