"""Whoever reads the state and chooses what arrives makes averages worthless; bits stay within what they round off.

Immorlica et al. (2024) assume that records are drawn, and leave other streams to future work (Section 5). Here an
adversary reads the answer off the retained records before each batch, and sends one that lies wholly on the other side
of zero, between 1/2 and 1 away from it. The same sizes with signs by chance are there to compare with.
Limits: every batch rounds a number of at most 1 by less than a step, 2^-bits, and an average is off by its tolerance at
most; what is off at batch k counts k / K in the end. So bits are within (K + 1) / 2 steps of the mean of all records,
for certain and whatever arrives, and auto within the tolerances more. Kept records all lie 1/2 or more to one side, and
so does their average; the mean of all records stays near zero.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige.channels.precision import mantissa_bits
from vestige.figures import find_style
from vestige.lab import figures, significance
from vestige.lab.baselines import MEANS
from vestige.lab.experiment import Experiment, Parts, Point, Verdict, grid
from vestige.lab.results import Results
from vestige.random.keys import AuditSeed
from vestige.stream import Stream
from vestige.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES = ("algorithm 1", "Mean, average", "Mean, bits", "Mean, auto")
CHOSEN, CHANCE = "chosen", "by chance"
BATCH, BATCHES, TOLERANCE = 32, 64, 0.03
APART = 0.25


def contrary(said: float, sizes: Floats) -> Floats:
    """All records on the other side of zero than the answer that is read off the state."""
    return sizes if said <= 0.0 else -sizes


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """How far the answer is from the mean of all that arrived; and over the error of all data, where chance chose."""
    policy = parts[str(point["policy"])](1)
    stream = Stream(policy, retention=2 * BATCH, seed=AuditSeed(int(rng.integers(2**62))))
    sent: list[Floats] = []
    for _ in range(BATCHES):
        sizes = rng.uniform(0.5, 1.0, BATCH)
        if point["arrivals"] == CHOSEN and sent:
            rows = parts["contrary"](float(stream.estimate().value), sizes)
        else:
            rows = sizes * rng.choice([-1.0, 1.0], BATCH)
        stream.extend(rows)
        sent.append(rows)
    every = np.concatenate(sent)
    off = abs(float(stream.estimate().value) - float(every.mean()))
    return {"off": off, "ratio": 1.0 + off**2 * len(every) / float(every.var())}


def most_off(policy: str) -> float:
    """How far the answer can be off at most, whatever arrives."""
    steps = (BATCHES + 1) / 2.0 * 2.0 ** -mantissa_bits(BATCH)
    return steps + (TOLERANCE * 0.5 / math.sqrt(BATCH) if policy == "Mean, auto" else 0.0)


def _draw_figure(results: Results, figure: Figure) -> None:
    """How far each answer is off, for both kinds of arrivals."""
    axes = figure.add_subplot(yscale="log", ylabel="off the mean of all records\n(records lie up to 1 from zero)")
    for i, policy in enumerate(POLICIES):
        for place, arrivals in enumerate((CHANCE, CHOSEN)):
            mine = results.where(policy=policy, arrivals=arrivals)
            off = np.maximum(mine["off"], 1e-12)
            x = place + (i - 1.5) * 0.15
            style = find_style(policy)
            label = policy if place == 0 else "_"
            axes.plot(np.full(len(off), x), off, color=style.colour, marker=style.marker, ls="none", label=label)
    figures.draw_level(axes, "bound", most_off("Mean, bits"), "the most that bits can be off")
    axes.set_xticks((0, 1), ("by chance", "chosen by who\nreads the state"))
    axes.set_xlim(-0.5, 1.5)
    figures.draw_legend(figure, axes, columns=2)


def _find_verdict(results: Results) -> Verdict:
    """Bits and auto hold for certain; averages hold against chance only."""
    chosen = {name: results.where(policy=name, arrivals=CHOSEN)["off"] for name in POLICIES}
    chance = {name: results.where(policy=name, arrivals=CHANCE) for name in POLICIES}
    return Verdict.from_checks(
        {
            "bits are within what they round off, whoever chooses": all(
                float(off.max()) <= most_off("Mean, bits")
                for off in (chosen["Mean, bits"], chance["Mean, bits"]["off"])
            ),
            "so is auto, and its tolerance": all(
                float(off.max()) <= most_off("Mean, auto")
                for off in (chosen["Mean, auto"], chance["Mean, auto"]["off"])
            ),
            "averages are as good as all data by chance": significance.is_as_good(chance["Mean, average"]["ratio"]),
            "and worthless where arrivals are chosen": float(chosen["Mean, average"].min()) > APART,
            "so is the paper's algorithm": float(chosen["algorithm 1"].min()) > APART,
        },
        f"Where an adversary reads the state and sends what it cannot say, averages are off by "
        f"{chosen['Mean, average'].mean():.2f} and Algorithm 1 by {chosen['algorithm 1'].mean():.2f}, of records that "
        f"lie up to 1 from zero; bits by {chosen['Mean, bits'].max():.1e} at most and auto by "
        f"{chosen['Mean, auto'].max():.1e}, where {most_off('Mean, bits'):.1e} and {most_off('Mean, auto'):.1e} are "
        f"certain. By chance, averages are off by {chance['Mean, average'].mean('off'):.1e}.",
    )


EXPERIMENT = Experiment(
    name="adversary",
    claim="An adversary who reads the state and chooses what arrives makes averages worthless, the paper's among them; "
    "bits and auto stay within what they round off.",
    source="Left open in Section 5; channels are ours",
    grid=grid(policy=POLICIES, arrivals=(CHANCE, CHOSEN)),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={**MEANS, "contrary": contrary},
    trials=20,
    quick=lambda _: True,
    quick_trials=4,
)
