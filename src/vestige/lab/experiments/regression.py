"""A regression over the whole stream is kept in a retention far below its length.

Theorem 4.1 of Immorlica et al. (2024): Algorithm 2, beside `LinearRegression`, a window and all data; standard normal
predictors and noise. The error of the worst prediction over queries of norm 1 is the length of the coefficients' error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige import paper
from vestige.lab import plotting
from vestige.lab.contenders import answered, squared
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.policies import LinearRegression, Window
from vestige.policy import Policy
from vestige.records import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, LENGTH, QUERIES = 2, 32_768, 200
RETENTIONS = (512, 1_024, 2_048)
TRUTH = np.array([2.0, -1.0])


def _fit(dim: int) -> LinearRegression:
    return LinearRegression(dim, intercept=False)


def _window(dim: int) -> Policy:
    return Window(_fit(dim))


PARTS = {"window": _window, "algorithm 2": paper.Regression, "LinearRegression": _fit}


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared error of the coefficients, that of the worst of many predictions, and the same of all data."""
    x = rng.normal(size=(LENGTH, DIM))
    y = x @ TRUTH + rng.normal(size=LENGTH)
    fit = answered(parts[str(point["policy"])](DIM), np.column_stack((x, y)), int(point["retention"]), rng)
    directions = rng.normal(size=(QUERIES, DIM))
    queries = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return {
        "error": squared(fit - TRUTH),
        "worst": float(((queries @ (fit - TRUTH)) ** 2).max()),
        "all_data": squared(_all_data(x, y) - TRUTH),
    }


def _all_data(x: Floats, y: Floats) -> Floats:
    return np.linalg.solve(x.T @ x, x.T @ y).astype(np.float64)


def figure(results: Results, drawn: Figure) -> None:
    """The worst prediction against retention."""
    axes = drawn.add_subplot(
        xscale="log",
        yscale="log",
        xlabel="retention (records)",
        ylabel="worst squared prediction error,\nqueries of norm 1 (noise variances)",
    )
    for i, name in enumerate(PARTS):
        plotting.curve(axes, name, results.series("retention", "worst", policy=name), aside=0.01 * (i - 1))
    plotting.level(axes, "all data", DIM / LENGTH, f"all {LENGTH:,} records")
    plotting.whole_ticks(axes, list(RETENTIONS))
    plotting.legend(drawn, axes)


def verdict(results: Results) -> Verdict:
    """At the longest retention, Algorithm 2 leaves the window behind, and what we keep is as good as all data."""
    long = {name: results.where(policy=name, retention=RETENTIONS[-1]) for name in PARTS}
    behind = long["window"].mean("error") / long["algorithm 2"].mean("error")
    published = long["algorithm 2"].mean("error") / long["algorithm 2"].mean("all_data")
    ours = max(
        mine.mean("error") / mine.mean("all_data")
        for m in results.values("retention")
        if len(mine := results.where(policy="LinearRegression", retention=m))
    )
    queries = results.mean("worst") / results.mean("error")
    return Verdict.of(
        {
            "Algorithm 2 leaves the window behind": behind > 1.5,
            "LinearRegression is within 10% of all data": ours < 1.1,
            "the worst query is off by the length of the coefficients' error": 0.95 < queries <= 1.0 + 1e-9,
        },
        f"At a retention of {RETENTIONS[-1]:,}, Algorithm 2 is {behind:.1f} times better than the window, with "
        f"{published:.1f} times the error of all {LENGTH:,} records; LinearRegression has {ours:.2f} times that error "
        f"from a retention of {results.where(policy='LinearRegression').values('retention')[0]:,} on.",
    )


EXPERIMENT = Experiment(
    name="regression",
    claim="A regression over all records is kept in a retention far below their number, by the paper's algorithm, and "
    "without loss by keeping sufficient statistics.",
    source="Theorem 4.1; LinearRegression is ours",
    grid=grid(policy=PARTS, retention=RETENTIONS),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=PARTS,
    trials=20,
    quick=lambda point: point["retention"] == RETENTIONS[-1],
    quick_trials=6,
)
