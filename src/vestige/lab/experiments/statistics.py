"""Other statistics are kept as well as the mean: moments without loss, classifiers and custom losses nearly so.

Immorlica et al. (2024), Section 5: "non-linear regression, estimating higher moments, classification tasks". All of
them are tested here, beside the same from all data: two moments and a covariance matrix of normals, a logistic
regression, and an exponential decay as a custom loss. Errors are in units of the covariance of the estimate from all
data (the inverse of the information), so they are comparable: that of all data is 1.
Limits: for averages 1.05, as for the mean; for descents 1.2, to which tests/policies/test_descent.py holds them.
"""

from __future__ import annotations

import re
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


class AllDataFit(NamedTuple):
    """The estimate from all data.

    Attributes:
        value: the estimate; shape (n,).
        covariance: its covariance; shape (n, n).
    """

    value: Floats
    covariance: Floats


def decay_loss(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Compute the loss (y - (a exp(-b x) + c))^2 / 2 of each record, and its gradient.

    Args:
        parameters: a, b and c; shape (3,).
        rows: x and y of each record; shape (n, 2).

    Returns:
        The losses, shape (n,), and the gradients, shape (n, 3).

    Example:
        >>> decay_loss(np.array([1.0, 1.0, 0.0]), np.array([[0.0, 2.0]]))[0]
        array([0.5])
    """
    y = rows[:, 1]
    curve, slopes = _evaluate_curve(parameters, rows[:, 0])
    return (curve - y) ** 2 / 2.0, (curve - y)[:, None] * slopes


def _evaluate_curve(parameters: Floats, x: Floats) -> tuple[Floats, Floats]:
    fall = np.exp(-parameters[1] * x)
    slopes = np.column_stack((fall, -parameters[0] * x * fall, np.ones(len(x))))
    return parameters[0] * fall + parameters[2], slopes


def _sample_normals(rng: np.random.Generator) -> Floats:
    return rng.normal(2.0, 1.0, (LENGTH, 1))


def _sample_pairs(rng: np.random.Generator) -> Floats:
    return rng.normal(-1.0, 1.0, (LENGTH, 2))


def _sample_classes(rng: np.random.Generator) -> Floats:
    x = rng.normal(size=(LENGTH, 2))
    return np.column_stack((x, rng.random(LENGTH) < 1.0 / (1.0 + np.exp(-x @ LINE))))


def _sample_points(rng: np.random.Generator) -> Floats:
    x = rng.uniform(0.0, 4.0, LENGTH)
    return np.column_stack((x, _evaluate_curve(CURVE, x)[0] + rng.normal(0.0, 0.2, LENGTH)))


def _fit_moments(rows: Floats) -> AllDataFit:
    return AllDataFit(np.array([rows.mean(), rows.var()]), np.diag([1.0, 2.0]) / len(rows))


def _fit_covariances(rows: Floats) -> AllDataFit:
    """For independent normals of unit variance, entries have variance 1 / n, those of the diagonal 2 / n."""
    spread = np.cov(rows.T, bias=True)[np.triu_indices(2)].astype(np.float64)
    return AllDataFit(spread, np.diag([2.0, 1.0, 2.0]) / len(rows))


def _fit_classifier(rows: Floats) -> AllDataFit:
    """Maximum likelihood by Newton's method."""
    x, y = np.column_stack((rows[:, :-1], np.ones(len(rows)))), rows[:, -1]
    at = np.zeros(x.shape[1])
    for _ in range(12):
        chances = 1.0 / (1.0 + np.exp(-x @ at))
        information = x.T @ (x * (chances * (1.0 - chances))[:, None])
        at = at + np.linalg.solve(information, x.T @ (y - chances))
    return AllDataFit(at[:-1], np.linalg.inv(information)[:-1, :-1].astype(np.float64))


def _fit_curve(rows: Floats) -> AllDataFit:
    """Least squares by the Gauss-Newton method."""
    at = CURVE
    for _ in range(12):
        curve, slopes = _evaluate_curve(at, rows[:, 0])
        bend = slopes.T @ slopes
        at = at + np.linalg.solve(bend, slopes.T @ (rows[:, 1] - curve))
    return AllDataFit(at, (np.linalg.inv(bend) * np.mean((rows[:, 1] - curve) ** 2)).astype(np.float64))


PARTS: dict[str, Callable[[], Policy]] = {
    "Moments": lambda: Moments(2),
    "Covariance": lambda: Covariance(2),
    "LogisticRegression": lambda: LogisticRegression(2),
    "CustomLoss": lambda: CustomLoss(decay_loss, (1.0, 1.0, 0.0), columns=2),
}
DATA: dict[str, tuple[Callable[[np.random.Generator], Floats], Callable[[Floats], AllDataFit]]] = {
    "Moments": (_sample_normals, _fit_moments),
    "Covariance": (_sample_pairs, _fit_covariances),
    "LogisticRegression": (_sample_classes, _fit_classifier),
    "CustomLoss": (_sample_points, _fit_curve),
}
LIMITS = {
    "Moments": significance.PROMISED,
    "Covariance": significance.PROMISED,
    "LogisticRegression": NEARLY,
    "CustomLoss": NEARLY,
}


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared error of one stream, as a multiple of that of all data."""
    name = str(point["policy"])
    sample, fit_all = DATA[name]
    rows = sample(rng)
    best = fit_all(rows)
    answer = run_stream(parts[name](), rows, RETENTION, rng)
    value = answer[np.triu_indices(2)] if answer.ndim == 2 else answer
    off = value - best.value
    return {"ratio": 1.0 + float(off @ np.linalg.solve(best.covariance, off)) / len(off)}


def _draw_figure(results: Results, figure: Figure) -> None:
    """The error of each policy as a multiple of that of all data."""
    axes = figure.add_subplot(ylabel="mean squared error (that of all data)")
    for i, name in enumerate(PARTS):
        ratios, style = results.where(policy=name)["ratio"], find_style("", i)
        axes.plot(np.full(len(ratios), i), ratios, color=style.colour, marker=style.marker, ls="none", alpha=0.6)
        axes.plot([i - 0.3, i + 0.3], [LIMITS[name]] * 2, color=INK, ls="-.", label="_" if i else "limit")
    axes.set_xticks(range(len(PARTS)), [re.sub("(?<=[a-z])(?=[A-Z])", "\n", name) for name in PARTS])
    figures.draw_level(axes, "all data", 1.0)
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """Each policy must be shown to be within its limit."""
    intervals = {name: significance.confidence_interval(results.where(policy=name)["ratio"]) for name in PARTS}
    summary = ", ".join(
        f"{name} {interval.mid:.4f} (shown to be below {interval.high:.3f})" for name, interval in intervals.items()
    )
    return Verdict.from_checks(
        {
            f"{name} is within {LIMITS[name]:g} of all data": significance.show_as_good(
                results.where(policy=name)["ratio"], LIMITS[name]
            )
            for name in intervals
        },
        f"With a retention of {RETENTION}, of {LENGTH:,} records, as a multiple of the squared error of all of "
        f"them: {summary}.",
    )


EXPERIMENT = Experiment(
    name="statistics",
    claim="Moments and covariances are as good as those of all data; classifiers and custom losses nearly so.",
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
