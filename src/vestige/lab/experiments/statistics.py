"""What holds for the mean holds for other statistics: moments exactly, classifiers and losses of one's own nearly.

Immorlica et al. (2024), Section 5: "non-linear regression, estimating higher moments, classification tasks". All of
them here, beside the same from all data: two moments and a covariance matrix of normals, a logistic regression, and a
curve that falls off, as a loss of one's own. Errors are in the covariance that the estimate from all data has (the
inverse of the information), so that they compare: that of all data is 1.
Limits: for averages 1.05, as for the mean; for descents 1.2, to which tests/policies/test_descent.py holds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vestige.figures import INK, find_style
from vestige.lab import figures, significance
from vestige.lab.baselines import run_stream
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.policies import Covariance, CustomLoss, LogisticRegression, Moments
from vestige.policy import Policy
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION, LENGTH = 640, 12_800
NEARLY = 1.2
LINE, CURVE = np.array([1.0, -2.0]), np.array([2.5, 1.3, 0.5])


class Best(NamedTuple):
    """What all data say, and how sure they are: shapes (n,) and (n, n)."""

    value: Floats
    covariance: Floats


def falling(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Squares of y - (a exp(-b x) + c), and their gradients."""
    y = rows[:, 1]
    curve, slopes = _curve(parameters, rows[:, 0])
    return (curve - y) ** 2 / 2.0, (curve - y)[:, None] * slopes


def _curve(parameters: Floats, x: Floats) -> tuple[Floats, Floats]:
    fall = np.exp(-parameters[1] * x)
    slopes = np.column_stack((fall, -parameters[0] * x * fall, np.ones(len(x))))
    return parameters[0] * fall + parameters[2], slopes


def _normals(rng: np.random.Generator) -> Floats:
    return rng.normal(2.0, 1.0, (LENGTH, 1))


def _pairs(rng: np.random.Generator) -> Floats:
    return rng.normal(-1.0, 1.0, (LENGTH, 2))


def _classes(rng: np.random.Generator) -> Floats:
    x = rng.normal(size=(LENGTH, 2))
    return np.column_stack((x, rng.random(LENGTH) < 1.0 / (1.0 + np.exp(-x @ LINE))))


def _points(rng: np.random.Generator) -> Floats:
    x = rng.uniform(0.0, 4.0, LENGTH)
    return np.column_stack((x, _curve(CURVE, x)[0] + rng.normal(0.0, 0.2, LENGTH)))


def _moments(rows: Floats) -> Best:
    return Best(np.array([rows.mean(), rows.var()]), np.diag([1.0, 2.0]) / len(rows))


def _covariances(rows: Floats) -> Best:
    """Of independent normals with unit variance: entries vary by 1, those of the diagonal by 2; the matrix is even."""
    spread = np.cov(rows.T, bias=True)[np.triu_indices(2)].astype(np.float64)
    return Best(spread, np.diag([2.0, 1.0, 2.0]) / len(rows))


def _classifier(rows: Floats) -> Best:
    """The most likely coefficients, by Newton's method."""
    x, y = np.column_stack((rows[:, :-1], np.ones(len(rows)))), rows[:, -1]
    at = np.zeros(x.shape[1])
    for _ in range(12):
        chances = 1.0 / (1.0 + np.exp(-x @ at))
        information = x.T @ (x * (chances * (1.0 - chances))[:, None])
        at = at + np.linalg.solve(information, x.T @ (y - chances))
    return Best(at[:-1], np.linalg.inv(information)[:-1, :-1].astype(np.float64))


def _fitted(rows: Floats) -> Best:
    """The nearest curve, by the method of Gauss and Newton."""
    at = CURVE
    for _ in range(12):
        curve, slopes = _curve(at, rows[:, 0])
        bend = slopes.T @ slopes
        at = at + np.linalg.solve(bend, slopes.T @ (rows[:, 1] - curve))
    return Best(at, (np.linalg.inv(bend) * np.mean((rows[:, 1] - curve) ** 2)).astype(np.float64))


PARTS: dict[str, Callable[[], Policy]] = {
    "Moments": lambda: Moments(2),
    "Covariance": lambda: Covariance(2),
    "LogisticRegression": lambda: LogisticRegression(2),
    "Gradient": lambda: CustomLoss(falling, (1.0, 1.0, 0.0), columns=2),
}
DATA: dict[str, tuple[Callable[[np.random.Generator], Floats], Callable[[Floats], Best]]] = {
    "Moments": (_normals, _moments),
    "Covariance": (_pairs, _covariances),
    "LogisticRegression": (_classes, _classifier),
    "Gradient": (_points, _fitted),
}
LIMITS = {
    "Moments": significance.PROMISED,
    "Covariance": significance.PROMISED,
    "LogisticRegression": NEARLY,
    "Gradient": NEARLY,
}


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared error that an answer stands for, over that of all data."""
    name = str(point["policy"])
    draw, best_of = DATA[name]
    rows = draw(rng)
    best = best_of(rows)
    answer = run_stream(parts[name](), rows, RETENTION, rng)
    found = answer[np.triu_indices(2)] if answer.ndim == 2 else answer
    off = found - best.value
    return {"ratio": 1.0 + float(off @ np.linalg.solve(best.covariance, off)) / len(off)}


def _draw_figure(results: Results, figure: Figure) -> None:
    """The error of each over that of all data."""
    axes = figure.add_subplot(ylabel="mean squared error (that of all data)")
    for i, name in enumerate(PARTS):
        ratios, style = results.where(policy=name)["ratio"], find_style("", i)
        axes.plot(np.full(len(ratios), i), ratios, color=style.colour, marker=style.marker, ls="none", alpha=0.6)
        axes.plot([i - 0.3, i + 0.3], [LIMITS[name]] * 2, color=INK, ls="-.", label="_" if i else "limit")
    axes.set_xticks(range(len(PARTS)), list(PARTS), fontsize=9)
    figures.draw_level(axes, "all data", 1.0)
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """Each within its limit, as is shown."""
    found = {name: significance.confidence_interval(results.where(policy=name)["ratio"]) for name in PARTS}
    told = ", ".join(f"{name} {one.mid:.4f} (shown to be below {one.high:.3f})" for name, one in found.items())
    return Verdict.from_checks(
        {f"{name} is within {LIMITS[name]:g} of all data": one.high < LIMITS[name] for name, one in found.items()},
        f"From a retention of {RETENTION} of {LENGTH:,} records, over the squared error of all of them: {told}.",
    )


EXPERIMENT = Experiment(
    name="statistics",
    claim="Moments and covariances are kept as well as all data tell them; classifiers and losses of one's own nearly.",
    source="Left open in Section 5; the policies are ours",
    grid=grid(policy=PARTS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=PARTS,
    trials=20,
    quick=lambda _: True,
    quick_trials=6,
)
