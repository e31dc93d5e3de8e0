"""What an audit found, as pictures: leakage against age, and accuracy against leakage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vestige.audit.comparison import Comparison
from vestige.audit.examples import Outlier
from vestige.audit.leakage import Leakage
from vestige.errors import MissingExtraError
from vestige.figures import FAINT, look

_LEAST = 1e-6


def _styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour and a mark for each name."""
    looks = {name: look(name, number) for number, name in enumerate(names)}
    return {name: {"color": one.colour, "marker": one.mark, "clip_on": False} for name, one in looks.items()}


def _panels(count: int) -> tuple[Any, Any]:
    """An empty figure, and its panels."""
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("the figure", "plot") from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    drawn, panels = plt.subplots(1, count, figsize=(5.2 * count, 3.8), layout="constrained", squeeze=False)
    for panel in panels[0]:
        panel.spines[["top", "right"]].set_visible(False)
    return drawn, panels[0]


def _saved(drawn: Any, path: str | Path) -> None:
    from matplotlib import pyplot as plt  # noqa: PLC0415

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, dpi=150)
    plt.close(drawn)


def draw_leakage(found: Mapping[str, Leakage], path: str | Path) -> None:
    """How much can be told, and how well the record can be guessed, against the rounds since it was erased.

    Args:
        found: by name, drawn in one colour each.
        path: where the picture goes; its ending says in which format.
    """
    drawn, (left, right) = _panels(2)
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
    _saved(drawn, path)


def draw_comparison(compared: Comparison, path: str | Path) -> None:
    """How far each answer is off against how much it reveals: filled for who knows all others, hollow for who does not.

    Args:
        compared: what `compare` found.
        path: where the picture goes; its ending says in which format.
    """
    drawn, (panel,) = _panels(1)
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
    _saved(drawn, path)


def draw_outlier(found: Outlier, path: str | Path) -> None:
    """By how much an extreme first record raises the estimate, against the batches since it was erased."""
    drawn, (panel,) = _panels(1)
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
    _saved(drawn, path)
