"""What an audit found, as pictures: leakage against age, and accuracy against leakage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vestige.audit.comparison import Comparison
from vestige.audit.examples import Outlier
from vestige.audit.leakage import Leakage
from vestige.figures import FAINT, find_style, make_panels, save_figure, use_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST = 1e-6


def _styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour and a mark for each name."""
    looks = {name: find_style(name, number) for number, name in enumerate(names)}
    return {name: {"color": one.colour, "marker": one.marker, "clip_on": False} for name, one in looks.items()}


@use_style()
def draw_leakage(found: Mapping[str, Leakage], path: str | Path | None = None) -> Figure:
    """How much can be told, and how well the record can be guessed, against the rounds since it was erased.

    Args:
        found: by name, drawn in one colour each.
        path: where the picture goes; its ending says in which format.
    """
    drawn, (left, right) = make_panels(2)
    styles = _styles(found)
    for name, one in found.items():
        looks = [seen for seen in one.looks if seen.age >= 0]
        ages = [max(seen.age, 1) for seen in looks]
        left.plot(ages, [seen.epsilon for seen in looks], label=name, **styles[name])
        right.plot(ages, [max(seen.reconstruction, 1e-16) for seen in looks], **styles[name])
    ceiling = max(one.ceiling for one in found.values())
    left.axhline(ceiling, color=FAINT, lw=0.8, ls=":")
    left.annotate("the most that so many trials can show", (1, ceiling), (2, 3), textcoords="offset points", fontsize=8)
    left.set(xscale="log", xlabel="records since it was erased", ylabel="epsilon, at least", ylim=(0, 1.15 * ceiling))
    right.set(
        xscale="log",
        yscale="log",
        xlabel="records since it was erased",
        ylabel="error of guessing it (share of its spread)",
    )
    right.axhline(1.0, color=FAINT, lw=0.8, ls=":")
    if len(found) > 1:
        drawn.legend(loc="outside upper center", ncols=len(found), frameon=False)
    save_figure(drawn, path)
    return drawn


@use_style()
def draw_comparison(compared: Comparison, path: str | Path | None = None) -> Figure:
    """How far each answer is off against how much it reveals: filled for who knows all others, hollow for who does not.

    Args:
        compared: what `compare` found.
        path: where the picture goes; its ending says in which format.
    """
    drawn, (panel,) = make_panels(1)
    ceiling = max(row.known.ceiling for row in compared.rows)
    styles = _styles(row.name for row in compared.rows)
    for row in compared.rows:
        x, style = max(row.off, _LEAST), styles[row.name] | {"ls": "", "markersize": 8}
        panel.plot([x, x], [row.known.epsilon, row.drawn.epsilon], color=style["color"], lw=0.8, ls=":")
        panel.plot(x, row.known.epsilon, label=row.name, **style)
        panel.plot(x, row.drawn.epsilon, **style | {"markerfacecolor": "white"})
    panel.axhline(ceiling, color=FAINT, lw=0.8, ls=":")
    panel.annotate(
        "the most that so many trials can show",
        (1, ceiling),
        (-2, 3),
        textcoords="offset points",
        fontsize=8,
        xycoords=("axes fraction", "data"),
        ha="right",
    )
    panel.annotate(
        "filled: to who knows all other records\nhollow: to who knows their distribution",
        (0.98, 0.5),
        xycoords="axes fraction",
        fontsize=8,
        ha="right",
    )
    panel.set(
        xscale="log",
        xlabel="off the mean of all records (standard errors)",
        ylabel="epsilon of an erased record, at least",
        ylim=(0, 1.15 * ceiling),
    )
    drawn.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    save_figure(drawn, path)
    return drawn


@use_style()
def draw_outlier(found: Outlier, path: str | Path | None = None) -> Figure:
    """By how much an extreme first record raises the estimate, against the batches since it was erased."""
    drawn, (panel,) = make_panels(1)
    batches = np.array(found.batches) + 1
    styles = _styles(found.excess)
    for name, excess in found.excess.items():
        panel.plot(batches, excess, label=name, **styles[name])
    panel.set_yscale("symlog", linthresh=0.01)
    panel.set(
        xscale="log",
        xlabel=f"batches of {found.retention // 2} since it was erased, plus one",
        ylabel="estimate too high (deviations of the data)",
    )
    drawn.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    save_figure(drawn, path)
    return drawn
