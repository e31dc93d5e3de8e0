"""A regression over the whole stream needs a retention far below its length.

Theorem 4.1 of Immorlica et al. (2024): Algorithm 2, beside `LinearRegression`, a window and all data; predictors and
noise are standard normal. The largest prediction error over queries of norm 1 is the norm of the coefficients' error.
Limits: the error that the theorem promises, with the constants of `vestige.theory`, from the retention that it requires
for this number of records; and the largest angle between the worst query and the nearest of 200 random ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige import paper, theory
from vestige.lab import figures, significance
from vestige.lab.baselines import run_stream, squared_norm
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.policies import LinearRegression, Window
from vestige.policy import Policy
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, LENGTH, QUERIES = 2, 32_768, 200
RETENTIONS = (512, 720, 1_024, 2_048)
ENOUGH = RETENTIONS[1]
TRUTH = np.array([2.0, -1.0])


def _make_regression(dim: int) -> LinearRegression:
    return LinearRegression(dim, intercept=False)


def _make_window(dim: int) -> Policy:
    return Window(_make_regression(dim))


PARTS = {"window": _make_window, "algorithm 2": paper.Regression, "LinearRegression": _make_regression}


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared error of the coefficients, of the worst of many predictions, and in that of all data."""
    x = rng.normal(size=(LENGTH, DIM))
    y = x @ TRUTH + rng.normal(size=LENGTH)
    fit = run_stream(parts[str(point["policy"])](DIM), np.column_stack((x, y)), int(point["retention"]), rng)
    directions = rng.normal(size=(QUERIES, DIM))
    queries = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return {
        "error": squared_norm(fit - TRUTH),
        "worst": float(((queries @ (fit - TRUTH)) ** 2).max()),
        "ratio": 1.0 + squared_norm(fit - _fit_all(x, y)) * LENGTH / DIM,
    }


def _fit_all(x: Floats, y: Floats) -> Floats:
    return np.linalg.solve(x.T @ x, x.T @ y).astype(np.float64)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The largest prediction error against retention."""
    axes = figure.add_subplot(
        xscale="log",
        yscale="log",
        xlabel="retention (records)",
        ylabel="largest squared prediction error,\nqueries of norm 1 (noise variances)",
    )
    for i, name in enumerate(PARTS):
        figures.draw_curve(axes, name, results.series("retention", "worst", policy=name), shift=0.01 * (i - 1))
    figures.draw_level(axes, "all data", DIM / LENGTH, f"all {LENGTH:,} records")
    figures.draw_reference(axes, "bound", RETENTIONS, [_promised_error(m) for m in RETENTIONS], "Theorem 4.1")
    figures.set_whole_ticks(axes, list(RETENTIONS))
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """Algorithm 2 meets the theorem and beats the window; `LinearRegression` is as good as all data."""
    parts = {(name, m): results.where(policy=name, retention=m) for name in PARTS for m in results.values("retention")}
    retentions = results.values("retention")
    published, window = (parts[name, ENOUGH]["error"] for name in ("algorithm 2", "window"))
    queries = results["worst"] / results["error"]
    angle = math.pi / 2.0 * (1.0 - (significance.LEVEL / len(results)) ** (1.0 / QUERIES))
    return Verdict.from_checks(
        {
            "Algorithm 2 is as good as Theorem 4.1 promises": not any(
                significance.is_above(parts["algorithm 2", m]["error"], _promised_error(m), DIM) for m in retentions
            ),
            "Algorithm 2 beats the window": significance.show_smaller(published, window, 1, DIM),
            "LinearRegression is as good as all data": significance.every(
                significance.show_as_good(parts["LinearRegression", m]["ratio"]) for m in retentions
            ),
            "the error of the worst query is the norm of the coefficients' error": bool(
                np.all((queries >= math.cos(angle) ** 2) & (queries <= 1.0 + 1e-9))
            ),
        },
        f"At a retention of {ENOUGH:,}, which Theorem 4.1 asks for, the error of Algorithm 2 is "
        f"{published.mean():.1e}; the theorem promises {_promised_error(ENOUGH):.1e}, the error of all "
        f"data is {DIM / LENGTH:.1e} and that of the window {window.mean():.1e}. LinearRegression has at most "
        f"{max(parts['LinearRegression', m].mean('ratio') for m in retentions):.4f} times the error of all data from a "
        f"retention of {retentions[0]:,} on.",
    )


def _promised_error(retention: int) -> float:
    return significance.promised_error(DIM, retention, LENGTH, theory.regression_retention, theory.regression_rounds)


EXPERIMENT = Experiment(
    name="regression",
    claim="A regression over all records needs a retention far below their number, with the paper's algorithm; with "
    "sufficient statistics, it loses nothing.",
    source="Theorem 4.1; LinearRegression is ours",
    grid=grid(policy=PARTS, retention=RETENTIONS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=PARTS,
    trials=20,
    quick=lambda point: point["retention"] == ENOUGH,
    quick_trials=10,
)
