"""The figure of the solver's page: residual against time, for all solvers that are installed.

python benchmarks/solver_figure.py docs/solvers.png
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import peers
from subset import TARGET, Point, log, make_normal_problems, record_progress, warm_up
from vestige.figures import make_figure as new_figure
from vestige.figures import save_figure, use_style
from vestige.subset import nearest_average
from vestige.types import Bools, Floats

SIZES = (20, 30, 40, 60, 80, 128)
TRIALS = 3
CHECKPOINTS = (1.0, 3.0, 10.0)
BUDGET = 5.0
STYLES = {  # the colours of Okabe and Ito, which colour-blind readers can tell apart; a marker each as well
    "Vestige, exact": ("#0072B2", "o", "none"),
    "Vestige, anytime": ("#56B4E9", ".", "-"),
    "numpy meet in the middle, exact": ("#E69F00", "s", "none"),
    "CP-SAT, 1 s, 3 s and 10 s": ("#009E73", "D", ":"),
    "LLL": ("#CC79A7", "v", "none"),
    "LLL + BKZ-20": ("#D55E00", "^", "none"),
}


def make_figure(path: Path) -> None:
    """Measure all solvers for all n, and draw."""
    warm_up()
    measured = {}
    for n in SIZES:
        started = time.perf_counter()
        measured[n] = _measure_solvers(n)
        log(f"n = {n}: {time.perf_counter() - started:.0f} s")
    draw_figure(measured, path)


@use_style()
def draw_figure(measured: dict[int, dict[str, Floats]], path: Path) -> None:
    """Draw residual against time, a panel for each n: medians, with bars from smallest to largest."""
    drawn = new_figure((11, 7))
    panels = drawn.subplots(2, 3, sharex=True, sharey=True)
    panels[0, 0].set(xscale="log", yscale="log")
    handles = {}
    for (n, solvers), panel in zip(measured.items(), panels.flat, strict=True):
        for name, points in solvers.items():
            colour, marker, line = STYLES[name]
            middle = np.median(points, axis=0)
            across, up = np.abs(np.stack((points.min(axis=0), points.max(axis=0))) - middle).transpose(2, 0, 1)
            style = {"color": colour, "marker": marker, "ls": line, "ms": 7, "lw": 1.4, "elinewidth": 1.0, "capsize": 2}
            handles[name] = panel.errorbar(*middle.T, xerr=across, yerr=up, **style)
        panel.set_title(f"n = {n}", loc="left")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.2)
    drawn.supxlabel("time (seconds, one thread)")
    drawn.supylabel("residual (distance from the target, in standard deviations)")
    names = [name for name in STYLES if name in handles]
    title = f"{TRIALS} trials of n normal values, target {TARGET}: medians, and bars from smallest to largest"
    shown = [handles[name] for name in names]
    drawn.legend(shown, names, title=title, loc="outside upper center", ncols=3, frameon=False)
    save_figure(drawn, path)


def _measure_solvers(n: int) -> dict[str, Floats]:
    """Return times and residuals of each solver that applies and is installed; shape (trials, checkpoints, 2)."""
    results: dict[str, list[list[Point]]] = {name: [] for name in STYLES}
    progress: list[list[Point]] = []
    for values, target in make_normal_problems(n, TRIALS):
        if n <= 40:
            results["Vestige, exact"].append(
                _measure_once(values, target, lambda v, t: nearest_average(v, t, method="meet").mask)
            )
            results["numpy meet in the middle, exact"].append(_measure_once(values, target, peers.numpy_meet))
        progress.append(record_progress(values, target, BUDGET))
        results["LLL"].append(_measure_once(values, target, lambda v, t: peers.lattice_reduction(v, t, 0)))
        results["LLL + BKZ-20"].append(_measure_once(values, target, lambda v, t: peers.lattice_reduction(v, t, 20)))
        results["CP-SAT, 1 s, 3 s and 10 s"].append(_measure_cp_sat(values, target))
    results["Vestige, anytime"] = _sample_progress(progress)
    return {name: np.array(trials) for name, trials in results.items() if trials and trials[0]}


def _measure_once(values: Floats, target: float, solve: Callable[[Floats, float], Bools | None]) -> list[Point]:
    """Return time and residual of a solver that answers once; empty if it is not installed."""
    started = time.perf_counter()
    mask = solve(values, target)
    taken = time.perf_counter() - started
    return [] if mask is None else [(taken, peers.residual(values, target, mask))]


def _measure_cp_sat(values: Floats, target: float) -> list[Point]:
    """Return what CP-SAT had found at each checkpoint; if it ended before, at its end."""
    started = time.perf_counter()
    solutions = peers.cp_sat(values, target, CHECKPOINTS[-1])
    ended = time.perf_counter() - started
    if solutions is None:
        return []
    gaps = [(at, peers.residual(values, target, mask)) for at, mask in solutions]
    return [(min(checkpoint, ended), min(gap for at, gap in gaps if at <= checkpoint)) for checkpoint in CHECKPOINTS]


def _sample_progress(progress: list[list[Point]]) -> list[list[Point]]:
    """Return the residuals at eight times, evenly spaced in the logarithm, from the first that all trials have."""
    first, last = max(seen[0][0] for seen in progress), max(seen[-1][0] for seen in progress)
    checkpoints = [*np.geomspace(first, last, 8)[1:-1].tolist(), last]
    return [
        [(checkpoint, min(gap for at, gap in seen if at <= checkpoint)) for checkpoint in [first, *checkpoints]]
        for seen in progress
    ]


if __name__ == "__main__":
    make_figure(Path(sys.argv[1]))
