"""The two pictures of docs/method.md, each drawn from a run of the stream.

Run it with `make pictures`; they are saved beside this file, or in the given folder.
Guarantee: the drawn records encode the mean of all records so far; held by tests/test_figures.py.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from vestige import Mean, Stream
from vestige.figures import COLOURS, FAINT, INK, make_figure, save_figure, use_style
from vestige.types import Bools, Floats

BATCHES = 5
BLUE, VERMILION, GREEN, _, ORANGE = COLOURS[:5]
PALE = "#c4c4c4"
PARTS = (("sign", 1, VERMILION), ("power of two", 11, GREEN), ("fraction", 15, BLUE), ("how to\nread", 5, INK))
"""What the presence bits of a batch of 32 say: how many records each, in this order."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A batch at the moment when it was closed.

    Attributes:
        values: its records; shape (batch,).
        kept: which of them were kept; shape (batch,).
        said: the estimate that the kept ones hold.
        truth: the mean of all records so far.
    """

    values: Floats
    kept: Bools
    said: float
    truth: float


def choices(policy: Mean, batch: int) -> list[Choice]:
    """What `policy` keeps of each batch of visits, in minutes: the data of docs/method.md."""
    visits = np.random.default_rng(0).normal(30.0, 8.0, size=BATCHES * batch)
    stream, made = Stream(policy, retention=2 * batch, seed=0), []
    for start in range(0, len(visits), batch):
        rounds = np.arange(start, start + batch)
        stream.extend(visits[rounds])
        kept = np.isin(rounds + 1, stream.retained.rounds)
        made.append(Choice(visits[rounds], kept, float(stream.estimate().value), float(visits[: start + batch].mean())))
    return made


def draw_average(figure: Figure, batch: int = 20) -> None:
    """Records as dots, the kept ones filled; the mean of these lies on the mean of all records so far."""
    run = choices(Mean(channel="average", tolerance=0), batch)
    values, kept = (np.concatenate(parts) for parts in zip(*((one.values, one.kept) for one in run), strict=True))
    rounds, edges = np.arange(len(values)) + 1, np.arange(BATCHES + 1) * batch + 0.5
    axes = figure.subplots()
    axes.plot(rounds[kept], values[kept], "o", color=BLUE, ms=6, zorder=3, label="kept")
    axes.plot(rounds[~kept], values[~kept], "o", mfc="white", mec=FAINT, ms=5, zorder=3, label="dropped")
    start, stop = edges[:-1], edges[1:]
    axes.hlines([one.truth for one in run], start, stop, color=PALE, lw=7, label="mean of all so far")
    axes.hlines([one.values.mean() for one in run], start, stop, color=ORANGE, lw=2, label="mean of the batch")
    axes.hlines([one.said for one in run], start, stop, color=BLUE, lw=2, ls=(0, (3, 1)), label="mean of the kept")
    for k, middle in enumerate((start + stop) / 2):
        what, colour = ("erased", INK) if k < BATCHES - 1 else (f"{run[k].kept.sum()} held", BLUE)
        axes.text(middle, 50, what, color=colour, ha="center", va="top")
    axes.vlines(stop[:-1], 10, 50, color=FAINT, lw=0.6, ls=":")
    axes.set(xlim=(0, len(values) + 1), xticks=range(0, len(values) + 1, batch), ylim=(9, 50))
    axes.set(xlabel=f"visits so far, in batches of {batch}", ylabel="length of the visit (minutes)")
    figure.legend(loc="outside upper left", ncols=3, handlelength=1.8, columnspacing=1.4)


def draw_bits(figure: Figure) -> None:
    """A row of dots for each batch, filled where the record was kept: the digits of a floating-point number."""
    counts = [count for _, count, _ in PARTS]
    batch = sum(counts)
    run = choices(Mean(channel="bits"), batch)
    colours = np.repeat([colour for _, _, colour in PARTS], counts)
    places = np.arange(batch) + np.repeat(np.arange(len(PARTS)), counts)
    spelled, true = places[-1] + 4.2, places[-1] + 9.7
    axes = figure.subplots()
    for k, one in enumerate(run):
        fill, edge = np.where(one.kept, colours, "white").tolist(), np.where(one.kept, colours, FAINT).tolist()
        axes.scatter(places, np.full(batch, k), 44, fill, edgecolors=edge)
        axes.text(spelled, k, f"{one.said:.2f}", ha="center", va="center", weight="bold")
        axes.text(true, k, f"{one.truth:.2f}", ha="center", va="center")
    exponent = int(np.log2(run[-1].said))
    below = ("+", f"2$^{exponent}$ = {2**exponent}", f"\u00d7 {run[-1].said / 2**exponent:.4f}", "")
    for (name, _, colour), here, meaning in zip(PARTS, np.split(places, np.cumsum(counts)[:-1]), below, strict=True):
        axes.hlines(-0.7, here[0] - 0.4, here[-1] + 0.4, color=colour, lw=2)
        axes.text(here.mean(), -0.9, name, ha="center", va="bottom", color=colour)
        axes.text(here.mean(), BATCHES + 0.4, meaning, ha="center", va="center", color=colour)
    for place, colour, kept in zip(places, colours, run[-1].kept, strict=True):
        axes.text(place, BATCHES - 0.4, f"{kept:d}", ha="center", va="center", color=colour, size=9.5)
    axes.text(spelled, BATCHES + 0.4, f"= {run[-1].said:.2f}", ha="center", va="center", weight="bold")
    axes.text(spelled, -0.9, "minutes\nspelled", ha="center", va="bottom", weight="bold")
    axes.text(true, -0.9, "mean\nof all", ha="center", va="bottom")
    axes.set(xlim=(-1, true + 2.3), ylim=(BATCHES + 0.9, -2.0), xticks=[], yticks=range(BATCHES))
    axes.set_yticklabels([f"{k + 1}" for k in range(BATCHES)])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(f"the {batch} visits of a batch, in order:  \u25cf kept, a one   \u25cb dropped, a zero")
    axes.set_ylabel("batch")


def main(folder: Path) -> None:
    """Draw both pictures.

    Args:
        folder: where to save them.
    """
    with use_style(), mpl.rc_context({"font.size": 11.5}):
        for name, draw, height in (("average", draw_average, 4.6), ("bits", draw_bits, 3.6)):
            figure = make_figure((6.4, height))
            draw(figure)
            save_figure(figure, folder / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
