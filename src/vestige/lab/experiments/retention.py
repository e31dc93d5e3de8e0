"""The error falls exponentially with retention, where that of a window only falls in proportion.

Theorem 3.1 and Proposition 3.4 of Immorlica et al. (2024), against the baseline of the introduction and the lower bound
`vestige.theory.streaming_floor`: standard normals in two dimensions, one fixed length of stream.
Limits: the error of a window of m records is d / m exactly; the promise of Theorem 3.1 with the constants of
`vestige.theory`, d e^(-m / (2 C_2 d)), is exponential in m; a gain must exceed that of a window at the same ratio of
retentions, and where no promise applies its cube, so that trials can refute a window in the place of Algorithm 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vestige import theory
from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS, error_ratio, is_feasible, run_stream, squared_norm
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.lab.submission import Contest
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM = 2
LENGTH = 8_192
RETENTIONS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256)
QUICK = {"window": (32, 128), "algorithm 1": (32, 64), "coordinate-wise": (32, 128), "Mean, auto": (256,)}


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The error of one stream, as a multiple of that of all data and in variances; and its squared distance from 0."""
    rows = rng.normal(size=(LENGTH, DIM))
    answer = run_stream(parts[str(point["policy"])](DIM), rows, int(point["retention"]), rng)
    ratio = error_ratio(answer, rows, DIM)
    return {"ratio": ratio, "error": ratio * DIM / LENGTH, "distance": squared_norm(answer)}


def _draw_figure(results: Results, figure: Figure) -> None:
    """The logarithm of the error against retention: what falls exponentially is a straight line."""
    axes = figure.add_subplot(
        yscale="log",
        xlabel="retention (records)",
        ylabel="mean squared error (variances)",
        xlim=(0, RETENTIONS[-1] + 6),
        ylim=(DIM / LENGTH / 4.0, 2.0),
    )
    for i, name in enumerate(figures.list_policies(results, MEANS)):
        figures.draw_curve(axes, name, results.series("retention", "error", policy=name), number=i)
    held = np.arange(4, RETENTIONS[-1] + 1, 4)
    figures.draw_reference(axes, "bound", held, [_promised_error(int(m)) for m in held], "Theorem 3.1")
    figures.draw_level(axes, "all data", DIM / LENGTH, f"all {LENGTH:,} records")
    short = np.arange(2, 40)
    figures.draw_reference(axes, "lower bound", short, [theory.streaming_floor(DIM, LENGTH, int(m)) for m in short])
    axes.set_xticks(range(0, RETENTIONS[-1] + 1, 32))
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """The error is exponential, that of a window proportional, and no policy beats the lower bound."""

    def errors(policy: str, retention: int, name: str = "error") -> Floats:
        values: Floats = results.where(policy=policy, retention=retention)[name]
        return values

    windows = {m: errors("window", m, "ratio") - 1.0 for m in (32, 128)}
    expected = {m: LENGTH / m - 1.0 for m in windows}
    published = {m: errors("coordinate-wise", m) for m in results.where(policy="coordinate-wise").values("retention")}
    below = [
        f"{policy} at {m}"
        for policy in figures.list_policies(results, MEANS)
        for m in (32, 64)
        if len(found := errors(policy, m, "distance"))
        and significance.is_below(found, theory.streaming_floor(DIM, LENGTH, m), DIM)
    ]
    ours = errors("Mean, auto", 256, "ratio")
    quadrupled = significance.show_smaller(published[128], published[32], 4, DIM)
    return Verdict.from_checks(
        {
            "a window's error is the variance over its retention": not any(
                test(windows[m], expected[m], DIM)
                for m in windows
                for test in (significance.is_above, significance.is_below)
            ),
            "the coordinate-wise algorithm is as good as Theorem 3.1 promises": not any(
                significance.is_above(values, _promised_error(m), DIM) for m, values in published.items()
            ),
            "four times the retention helps the coordinate-wise algorithm more than a window": quadrupled,
            "the coordinate-wise algorithm beats the window": significance.show_smaller(
                published[128], errors("window", 128), 1, DIM
            ),
            "at twice the retention, Algorithm 1's error is below an eighth": significance.show_smaller(
                errors("algorithm 1", 64), errors("algorithm 1", 32), 8, DIM
            ),
            "Mean is as good as all data": significance.show_as_good(ours),
            f"no policy is below the lower bound{_list_in_brackets(below)}": not below,
        },
        f"From a retention of 32 to 128, the window's error fell {_find_gain(results, 'window', 32, 128):.1f} times "
        f"and that of the coordinate-wise algorithm {_find_gain(results, 'coordinate-wise', 32, 128):.0f} times, to "
        f"{published[128].mean():.1g}, where Theorem 3.1 promises {_promised_error(128):.1g}; from 32 to 64, Algorithm "
        f"1's {_find_gain(results, 'algorithm 1', 32, 64):.0f} times. At 128, the coordinate-wise one is "
        f"{errors('window', 128).mean() / published[128].mean():.0f} times better than the window; at 256, Mean has "
        f"{ours.mean():.3f} times the error of all {LENGTH:,} records.",
    )


def _list_in_brackets(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _promised_error(retention: int) -> float:
    return significance.promised_error(DIM, retention, LENGTH, theory.mean_retention, theory.mean_rounds)


def _find_gain(results: Results, policy: str, few: int, many: int) -> float:
    first, second = (results.where(policy=policy, retention=m).mean("error") for m in (few, many))
    return first / second


EXPERIMENT = Experiment(
    name="retention",
    claim="At a fixed length of stream, the error falls exponentially with retention, and that of a window only in "
    "proportion to it.",
    source="Theorem 3.1, Proposition 3.4",
    grid=tuple(
        point
        for point in grid(policy=MEANS, retention=RETENTIONS)
        if is_feasible(str(point["policy"]), DIM, int(point["retention"]))
    ),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts=MEANS,
    trials=40,
    quick=lambda point: point["retention"] in QUICK.get(str(point["policy"]), ()),
    quick_trials=20,
    contest=Contest(DIM, grid(retention=RETENTIONS), {"squared error, that of all data": "ratio"}),
)
