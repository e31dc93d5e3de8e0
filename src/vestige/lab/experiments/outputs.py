"""Several outputs are several regressions: Algorithm 2 uses a segment for each, sufficient statistics share one.

Immorlica et al. (2024), footnote on multidimensional y: "treating each coordinate of y as a separate single-dimensional
regression task". So Algorithm 2 runs once for each output, on a segment of its own: of q outputs, each has one in q of
the records and a retention of its own, as coordinates have in Section 3.3. `LinearRegression(outputs=q)` learns all of
them from all records, and adds d numbers for each. Predictors and noise are standard normal; all outputs differ.
Limits: the error that Theorem 4.1 promises for the records of one output, with the constants of `vestige.theory`; as
good as all data, for each output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige import paper, theory
from vestige.figures import find_style
from vestige.lab import figures, significance
from vestige.lab.baselines import run_stream, squared_norm
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.policies import LinearRegression
from vestige.policy import Policy
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, OUTPUTS, EACH, RETENTION = 2, (1, 2, 4), 8_192, 720
TRUTH = np.array([[2.0, -1.0], [0.5, 3.0], [-2.0, 0.0], [1.0, 1.0]])
MAX_OUTPUTS = len(TRUTH)


def _make_published(dim: int, outputs: int) -> Policy:  # noqa: ARG001
    return paper.Regression(dim)


def _make_regression(dim: int, outputs: int) -> Policy:
    return LinearRegression(dim, intercept=False, outputs=outputs)


PARTS = {"algorithm 2": _make_published, "LinearRegression": _make_regression}


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The squared error of each output's coefficients, also in that of all data; nan beyond the last output."""
    name, outputs = str(point["policy"]), int(point["outputs"])
    x = rng.normal(size=(outputs * EACH, DIM))
    y = x @ TRUTH[:outputs].T + rng.normal(size=(len(x), outputs))
    policy = parts[name](DIM, outputs)
    if policy.columns == DIM + outputs:
        fits = run_stream(policy, np.column_stack((x, y)), outputs * RETENTION, rng).reshape(outputs, DIM)
    else:
        shares = [np.column_stack((x, y[:, [j]]))[j::outputs] for j in range(outputs)]
        fits = np.array([run_stream(policy, share, RETENTION, rng) for share in shares])
    best = np.linalg.solve(x.T @ x, x.T @ y).T
    measurements = {}
    for j in range(MAX_OUTPUTS):
        exists = j < outputs
        measurements[f"error {j}"] = squared_norm(fits[j] - TRUTH[j]) if exists else float("nan")
        measurements[f"ratio {j}"] = 1.0 + squared_norm(fits[j] - best[j]) * len(x) / DIM if exists else float("nan")
    return measurements


def _split_by_output(results: Results, name: str, policy: str, outputs: int) -> list[Floats]:
    """A measurement for each output."""
    mine = results.where(policy=policy, outputs=outputs)
    return [mine[f"{name} {j}"] for j in range(outputs)]


def _promised_error() -> float:
    """The error that Theorem 4.1 promises for the records of one output."""
    return significance.promised_error(DIM, RETENTION, EACH, theory.regression_retention, theory.regression_rounds)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The squared error of each output against the number of outputs."""
    axes = figure.add_subplot(
        yscale="log", xlabel="outputs", ylabel="squared error of the coefficients,\neach output (noise variances)"
    )
    for i, name in enumerate(PARTS):
        style = find_style(name)
        for outputs in results.values("outputs"):
            means = [errors.mean() for errors in _split_by_output(results, "error", name, outputs)]
            x = outputs + 0.1 * (i - 0.5) + 0.05 * (np.arange(outputs) - (outputs - 1) / 2.0)
            label = name if outputs == OUTPUTS[0] else "_"
            axes.plot(x, means, color=style.colour, marker=style.marker, ls="none", label=label)
    counts = np.array(results.values("outputs"))
    figures.draw_reference(axes, "all data", counts, DIM / (counts * EACH), f"all records, {EACH:,} for each output")
    figures.draw_level(axes, "bound", _promised_error(), "Theorem 4.1, one output")
    axes.set_xticks(counts)
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """Each output is as good as a single one with the paper's algorithm, and as all data with sufficient statistics."""
    counts, (published, ours) = results.values("outputs"), PARTS
    errors = {q: _split_by_output(results, "error", published, q) for q in counts}
    ratios = {q: _split_by_output(results, "ratio", ours, q) for q in counts}
    most = max(counts)
    return Verdict.from_checks(
        {
            "each output of Algorithm 2 is as good as Theorem 4.1 promises for one": not any(
                significance.is_above(one, _promised_error(), DIM) for q in counts for one in errors[q]
            ),
            "each output of LinearRegression is as good as all data": significance.every(
                significance.show_as_good(one) for q in counts for one in ratios[q]
            ),
        },
        f"With {most} outputs, the largest error of Algorithm 2 is {max(one.mean() for one in errors[most]):.1e}, "
        f"where the theorem promises {_promised_error():.1e} for {EACH:,} records, and the worst output of "
        f"LinearRegression has {max(one.mean() for one in ratios[most]):.4f} times the error of all "
        f"{most * EACH:,} records.",
    )


EXPERIMENT = Experiment(
    name="outputs",
    claim="Several outputs are learned as well as a single one: by the paper's algorithm from its share of the "
    "records, and with sufficient statistics from all of them.",
    source="Footnote on multidimensional outcomes; Theorem 4.1",
    grid=grid(policy=PARTS, outputs=OUTPUTS),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=PARTS,
    trials=12,
    quick=lambda point: point["outputs"] == 2,
    quick_trials=4,
)
