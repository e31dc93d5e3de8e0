"""An adversary who reads the state and chooses the arrivals makes averages useless; bits keep within their rounding.

Immorlica et al. (2024) assume that records are drawn at random, and leave other streams to future work (Section 5).
Here an adversary computes the answer from the retained records before each batch, and sends a batch that lies wholly on
the other side of zero, between 1/2 and 1 away from it. Records of the same sizes with random signs are the comparison.
Limits: the number and the average of the kept records are at most 2 apart, so a word needs a range of 4, and ranges
grow by factors of 4: it says the number within two steps of 16 * 2^-bits, with the bits that the longest header leaves.
An average is off by its tolerance at most. An error at batch k counts k / K in the end, so bits are within (K + 1) / 2
times that of the mean of all records, whatever arrives, and auto within that plus its tolerances. The kept records all
lie 1/2 or more to one side, and so does their average; the mean of all records stays near zero.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vestige.channels.layout import LONG_HEADER
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
CHOSEN, RANDOM = "chosen", "random"
BATCH, BATCHES, TOLERANCE = 32, 64, 0.03
APART = 0.25
RANGE = 16.0


def oppose(answer: float, sizes: Floats) -> Floats:
    """Give records the sign opposite to that of the answer.

    Args:
        answer: the answer that the state gives.
        sizes: absolute values of the records; shape (n,).

    Returns:
        The records; shape (n,).

    Example:
        >>> oppose(0.5, np.array([1.0]))
        array([-1.])
    """
    return sizes if answer <= 0.0 else -sizes


def _run_trial(point: Point, rng: np.random.Generator, parts: Parts) -> dict[str, float]:
    """The distance of the answer from the mean of all records, and the error as a multiple of that of all data."""
    policy = parts[str(point["policy"])](1)
    stream = Stream(policy, retention=2 * BATCH, seed=AuditSeed(int(rng.integers(2**62))))
    batches: list[Floats] = []
    for _ in range(BATCHES):
        sizes = rng.uniform(0.5, 1.0, BATCH)
        if point["arrivals"] == CHOSEN and batches:
            rows = parts["oppose"](float(stream.estimate().value), sizes)
        else:
            rows = sizes * rng.choice([-1.0, 1.0], BATCH)
        stream.extend(rows)
        batches.append(rows)
    everything = np.concatenate(batches)
    off = abs(float(stream.estimate().value) - float(everything.mean()))
    return {"off": off, "ratio": 1.0 + off**2 * len(everything) / float(everything.var())}


def _largest_error(policy: str) -> float:
    """The largest possible distance from the mean of all records, whatever arrives."""
    written = 2.0 * RANGE * 2.0 ** (LONG_HEADER + 1 - BATCH)  # one more bit is for the scale
    return (BATCHES + 1) / 2.0 * written + (TOLERANCE * 0.5 / math.sqrt(BATCH) if policy == "Mean, auto" else 0.0)


def _draw_figure(results: Results, figure: Figure) -> None:
    """The error of each policy, for both kinds of arrivals."""
    axes = figure.add_subplot(
        yscale="log", ylabel="distance from the mean of all records\n(records lie up to 1 from zero)"
    )
    for i, policy in enumerate(POLICIES):
        for place, arrivals in enumerate((RANDOM, CHOSEN)):
            mine = results.where(policy=policy, arrivals=arrivals)
            off = np.maximum(mine["off"], 1e-12)
            x = place + (i - 1.5) * 0.15
            style = find_style(policy)
            label = policy if place == 0 else "_"
            axes.plot(np.full(len(off), x), off, color=style.colour, marker=style.marker, ls="none", label=label)
    figures.draw_level(axes, "bound", _largest_error("Mean, bits"), "largest error of bits")
    axes.set_xticks((0, 1), ("random", "chosen by an adversary\nwho reads the state"))
    axes.set_xlim(-0.5, 1.5)
    figures.draw_legend(figure, axes)


def _find_verdict(results: Results) -> Verdict:
    """Bits and auto are certain to hold; averages hold for random arrivals only."""
    chosen = {name: results.where(policy=name, arrivals=CHOSEN)["off"] for name in POLICIES}
    random = {name: results.where(policy=name, arrivals=RANDOM) for name in POLICIES}
    return Verdict.from_checks(
        {
            "bits are within their rounding, whatever arrives": all(
                float(off.max()) <= _largest_error("Mean, bits")
                for off in (chosen["Mean, bits"], random["Mean, bits"]["off"])
            ),
            "auto is within its rounding and tolerance": all(
                float(off.max()) <= _largest_error("Mean, auto")
                for off in (chosen["Mean, auto"], random["Mean, auto"]["off"])
            ),
            "averages are as good as all data for random arrivals": significance.show_as_good(
                random["Mean, average"]["ratio"]
            ),
            "averages are useless where arrivals are chosen": float(chosen["Mean, average"].min()) > APART,
            "so is the paper's algorithm": float(chosen["algorithm 1"].min()) > APART,
        },
        f"With an adversary who reads the state and chooses what arrives, averages are off by "
        f"{chosen['Mean, average'].mean():.2f} and Algorithm 1 by {chosen['algorithm 1'].mean():.2f}, of records that "
        f"lie up to 1 from zero; bits by {chosen['Mean, bits'].max():.1e} at most and auto by "
        f"{chosen['Mean, auto'].max():.1e}, where {_largest_error('Mean, bits'):.1e} and "
        f"{_largest_error('Mean, auto'):.1e} are the limits. For random arrivals, averages are off by "
        f"{random['Mean, average'].mean('off'):.1e}.",
    )


EXPERIMENT = Experiment(
    name="adversary",
    claim="An adversary who reads the state and chooses what arrives makes averages useless, the paper's included; "
    "bits and auto keep within their rounding.",
    source="Left open in Section 5; channels are ours",
    grid=grid(policy=POLICIES, arrivals=(RANDOM, CHOSEN)),
    run_trial=_run_trial,
    draw_figure=_draw_figure,
    find_verdict=_find_verdict,
    parts={**MEANS, "oppose": oppose},
    trials=20,
    quick=lambda _: True,
    quick_trials=4,
)
