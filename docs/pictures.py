"""The pictures of docs/method.md and docs/code.md, drawn from runs of the stream.

Run it with `make pictures`; they are saved beside this file, or in the given folder.
Guarantee: the drawn records encode the mean of all records so far; held by tests/test_pictures.py.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from vestige import Mean, Stream, theory
from vestige.channels.layout import find_width
from vestige.channels.residues import choose_exponent, find_factor, find_step, measure
from vestige.channels.syndrome import read_message
from vestige.channels.word import find_key
from vestige.figures import COLOURS, FAINT, INK, STYLES, find_style, make_figure, save_figure, use_style
from vestige.types import Bools, Floats

BATCHES = 5
BLUE, VERMILION, GREEN, _, ORANGE = COLOURS[:5]
PALE = "#c4c4c4"
PARTS = (
    ("range", 1, VERMILION),
    ("scale", 1, GREEN),
    ("residue: the last digits of the number", 30, BLUE),
)
"""What the bits of the word of a batch of 32 say: how many bits each, in this order."""
MEASURED = {"bits": {1: 22, 4: 73}, "auto": {1: 22, 4: 73}}
"""By channel and dimension, the smallest batch that was enough for normal data: `python benchmarks/limit.py mean`."""


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


def draw_word(figure: Figure, batch: int = 32) -> None:
    """The last batch as a word: who is there, the bits that this spells, and the number that they and the kept say."""
    one = choices(Mean(channel="bits"), batch)[-1]
    key, message = find_key((BATCHES - 1) * batch + 1, batch), np.empty(batch, np.bool_)
    anchor, centre, scale = np.empty(1), np.empty(1), np.empty(1)
    read_message(one.kept, message)
    measure(one.values[:, None], one.kept, 1, True, np.empty(batch, np.int64), anchor, centre, scale)
    centre += anchor
    factor = find_factor(key, 0)
    exponent = choose_exponent(scale[0], factor, message[1])[0]
    apart = find_step(exponent, factor, find_width(1, batch), 0, 0)
    top, bottom = figure.subplots(2, height_ratios=(2.1, 1.5))
    colours = np.repeat([colour for _, _, colour in PARTS], [count for _, count, _ in PARTS])
    places = np.arange(batch)
    fill, edge = np.where(one.kept, INK, "white").tolist(), np.where(one.kept, INK, FAINT).tolist()
    top.scatter(places, np.zeros(batch), 44, fill, edgecolors=edge)
    for place, colour, bit in zip(places, colours, message, strict=True):
        top.text(place, 1.75, f"{bit:d}", ha="center", va="center", color=colour, weight="bold")
    top.annotate("", (3, 1.35), (3, 0.4), arrowprops={"arrowstyle": "->", "color": INK})
    top.text(3.8, 0.87, "each bit: odd or even, of a public part of the visits", va="center")
    first = 0
    for (name, count, colour), side, down in zip(PARTS, ("left", "left", "right"), (0.0, 0.75, 0.0), strict=True):
        top.hlines(2.2, first - 0.35, first + count - 0.65, color=colour, lw=2)
        start = first - 0.35 if side == "left" else batch - 0.65
        top.text(start, 2.75 + down, name, ha=side, va="center", color=colour)
        first += count
    top.set(xlim=(-1, batch), ylim=(3.8, -0.5), xticks=[], yticks=[])
    top.set_title(f"1. The last {batch} visits, the newest on the right:  \u25cf kept   \u25cb dropped")
    top.spines[:].set_visible(False)
    turns = np.arange(-2, 3)
    bottom.plot(one.said + turns * apart, np.zeros(len(turns)), "|", color=BLUE, ms=16, mew=2)
    bottom.plot([one.said], [0], "o", color=BLUE, ms=9)
    bottom.plot(one.values[one.kept], np.full(one.kept.sum(), 0.55), "o", color=INK, ms=4.5)
    bottom.plot(centre, [0.55], "D", color=ORANGE, ms=8)
    bottom.annotate("", (one.said, 0.08), (centre[0], 0.47), arrowprops={"arrowstyle": "->", "color": ORANGE})
    bottom.text(43, 0.55, "kept visits, their mean", va="center")
    bottom.text(one.said, -0.25, f"{one.said:.4f}", ha="center", va="top", weight="bold", color=BLUE)
    bottom.text(35, -0.25, f"= {one.truth:.4f}, the mean of all", va="top")
    bottom.set(xlim=(6, 62), ylim=(-0.6, 0.8), yticks=[], xlabel="minutes")
    bottom.set_title("2. Numbers with this residue (blue): the nearest one is meant")
    bottom.spines["left"].set_visible(False)


def draw_limit(figure: Figure) -> None:
    """The batch for an answer after 1.1 million records that is as good as a million: limit, heuristic, measured."""
    dims = np.unique(np.geomspace(1, 64, 25).astype(int))
    error, arrived = 1e-6, 1_100_000
    axes = figure.subplots()
    for name, bound, line in (
        ("proved: nobody can do with less", theory.least_batch, STYLES["lower bound"]),
        ("heuristic: an ideal writing at each update", theory.heuristic_batch, STYLES["bound"]),
    ):
        axes.plot(dims, [bound(int(d), d * error, arrived) for d in dims], line.line, color=line.colour, label=name)
    for channel, batches in MEASURED.items():
        style = find_style(f"Mean, {channel}")
        where, size = list(batches), 10 if channel == "bits" else 6
        axes.plot(
            where,
            list(batches.values()),
            style.marker,
            color=style.colour,
            ms=size,
            label=f"{channel}, measured (normal data)",
        )
    for d, batch in MEASURED["bits"].items():
        axes.annotate(f"{batch}", (d, batch), (0, 9), textcoords="offset points", ha="center")
    axes.set(xscale="log", yscale="log", xlabel="dimension", ylabel="batch (retention: two batches)")
    axes.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"], minor=False)
    axes.set_yticks([10, 20, 50, 100, 200, 500, 1000], ["10", "20", "50", "100", "200", "500", "1,000"])
    axes.minorticks_off()
    axes.legend(loc="upper left")


def main(folder: Path) -> None:
    """Draw all pictures.

    Args:
        folder: where to save them.
    """
    with use_style(), mpl.rc_context({"font.size": 11.5}):
        for name, draw, height in (
            ("average", draw_average, 4.6),
            ("word", draw_word, 3.9),
            ("limit", draw_limit, 4.2),
        ):
            figure = make_figure((6.4, height))
            draw(figure)
            save_figure(figure, folder / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
