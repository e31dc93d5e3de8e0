"""What makes the answer exact makes the retained records tell of the erased; forgetting has its price.

Immorlica et al. (2024), Section 3 and Appendix D: differential privacy can be violated by data that were erased. Here
the game of `vestige.audit` is played: two worlds that differ in one erased record, and an adversary who knows the
others. The knobs, of the solver's tolerance and of `Private`, are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vestige.audit import leakage
from vestige.lab import plotting
from vestige.lab.contenders import answered
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.palette import look
from vestige.policies import Mean, Private, Window
from vestige.policy import Policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RETENTION, LENGTH, GAMES, STREAMS = 128, 768, 60, 10
EPSILONS = (1.0, 4.0, 16.0)
QUICK = ("window", "Mean, bits", "Private, epsilon 1")
TOLERANCES = (0.03, 0.3, 1.0, 3.0)


def _private(epsilon: float) -> Policy:
    return Private(bound=4.0, epsilon=epsilon, delta=1e-6)


def _tolerant(tolerance: float) -> Policy:
    return Mean(channel="average", tolerance=tolerance)


PARTS: dict[str, Callable[[], Policy]] = {
    "window": Window,
    "Mean, bits": partial(Mean, channel="bits"),
    **{f"Mean, tolerance {tolerance:g}": partial(_tolerant, tolerance) for tolerance in TOLERANCES},
    **{f"Private, epsilon {epsilon:g}": partial(_private, epsilon) for epsilon in EPSILONS},
}


def trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """One audit: how well the worlds are told apart; and the error over that of all data."""
    policy, seed = parts[str(point["policy"])](), int(rng.integers(2**31))
    found = leakage(
        policy, retention=RETENTION, t=LENGTH, trials=GAMES, values=(-3.0, 3.0), delta=1e-6, seed=seed, workers=1
    )
    ratios = []
    for _ in range(STREAMS):
        rows = rng.normal(size=(LENGTH, 1))
        answer = answered(policy, rows, RETENTION, rng)
        ratios.append(1.0 + float((answer[0] - rows.mean()) ** 2) * LENGTH)
    return {"auc": found.auc, "epsilon": found.epsilon, "ratio": float(np.mean(ratios)), "ceiling": found.ceiling}


def figure(results: Results, drawn: Figure) -> None:
    """How well the worlds are told apart against the error, a point for each policy."""
    axes = drawn.add_subplot(
        xscale="log",
        xlabel="mean squared error (that of all data)",
        ylabel="worlds told apart (AUC; 0.5 is chance)",
        ylim=(0.45, 1.05),
    )
    taken: list[tuple[float, float]] = []
    for name in filter(results.values("policy").__contains__, PARTS):
        mine = results.where(policy=name)
        x, y = mine.mean("ratio"), mine.mean("auc")
        kind, _, knob = name.partition(", ")
        family = "Mean, average" if knob.startswith("tolerance") else kind if kind in ("Private", "window") else name
        style = look(family)
        axes.errorbar(
            x, y, 2.0 * mine.error("auc"), 2.0 * mine.error("ratio"), color=style.colour, marker=style.mark,
            ls="none", capsize=2, elinewidth=1, label="_" if family in axes.get_legend_handles_labels()[1] else family,
        )  # fmt: skip
        below = sum(abs(np.log(x / there[0])) < 0.1 and abs(y - there[1]) < 0.05 for there in taken)
        aside = (-14, -15) if y < 0.51 else (8, 5 - 13 * below)  # beneath the line of chance, where it would be crossed
        axes.annotate(knob or kind, (x, y), xytext=aside, textcoords="offset points", fontsize=9)
        taken.append((x, y))
    plotting.level(axes, "all data", 0.5, "chance")
    plotting.legend(drawn, axes)


def verdict(results: Results) -> Verdict:
    """Exact answers leak, a window does not, and Private keeps what it promises at a price."""
    there = results.values("policy")
    auc, ratio, epsilon = (
        {name: results.where(policy=name).mean(what) for name in there} for what in ("auc", "ratio", "epsilon")
    )
    private = {e: name for e in EPSILONS if (name := f"Private, epsilon {e:g}") in there}
    strict = private[EPSILONS[0]]
    averages = [f", {auc[name]:.2f} from averages with {name[6:]}" for name in there if name.startswith("Mean, tol")]
    return Verdict.of(
        {
            "bits tell of an erased record": auc["Mean, bits"] > 0.9,
            "a window does not": auc["window"] < 0.6,
            "Private shows no more than it promises": all(epsilon[name] <= e for e, name in private.items()),
            "and less than bits do": auc[strict] < auc["Mean, bits"] - 0.1,
            "for a price": ratio[strict] > 1.1,
        },
        f"{LENGTH - RETENTION} records after it was erased, whether a record was -3 or 3 is told with an AUC of "
        f"{auc['Mean, bits']:.2f} from presence bits{''.join(averages)}. Private at epsilon 1 lets it be told with "
        f"{auc[strict]:.2f} (epsilon at least {epsilon[strict]:.2f}), for {ratio[strict]:.1f} times the error of all "
        f"data; a window with {auc['window']:.2f}, for {ratio['window']:.0f} times. Stopping early hides "
        "a record without any promise; Private promises.",
    )


EXPERIMENT = Experiment(
    name="leakage",
    claim="An exact answer tells of erased records; a window's does not, and noise buys any degree of forgetting at a "
    "price in accuracy.",
    source="Appendix D; Private is ours",
    grid=grid(policy=PARTS),
    trial=trial,
    figure=figure,
    verdict=verdict,
    parts=PARTS,
    trials=10,
    quick=lambda point: point["policy"] in QUICK,
    quick_trials=2,
)
