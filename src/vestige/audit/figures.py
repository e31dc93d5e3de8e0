"""Audits as figures: leakage against the age of the erased record, and accuracy against leakage.

Guarantee: each figure is drawn without touching matplotlib's backend; held by tests/test_figures.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vestige.audit.comparison import Comparison
from vestige.audit.examples import OutlierEffect
from vestige.audit.leakage import Leakage
from vestige.figures import FAINT, find_style, make_panels, save_figure, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MIN_ERROR = 1e-16
"""Where an error of 0 is drawn, which has no place on a logarithmic axis: about the precision of a float."""
_CEILING_LABEL = "the most that this many trials can show"


@use_style()
def draw_leakage(leakages: Mapping[str, Leakage], path: str | Path | None = None) -> Figure:
    """Draw epsilon and the reconstruction error against the number of records since the erasure.

    Args:
        leakages: results of `measure_leakage` by name, each drawn in its own colour.
        path: file to save the figure in; its suffix determines the format. Default: do not save.

    Returns:
        The figure, which a notebook displays.

    Raises:
        MissingExtraError: if matplotlib is not installed.

    Example:
        >>> from vestige import Window
        >>> from vestige.audit import measure_leakage
        >>> found = measure_leakage(Window(), retention=8, t=40, trials=20, workers=1)
        >>> figure = draw_leakage({"Window": found})
    """
    figure, (left, right) = make_panels(2)
    styles = _make_styles(leakages)
    for name, leakage in leakages.items():
        checkpoints = [checkpoint for checkpoint in leakage.checkpoints if checkpoint.age >= 0]
        ages = [max(checkpoint.age, 1) for checkpoint in checkpoints]
        left.plot(ages, [checkpoint.epsilon for checkpoint in checkpoints], label=name, **styles[name])
        right.plot(ages, [max(checkpoint.reconstruction, _MIN_ERROR) for checkpoint in checkpoints], **styles[name])
    ceiling = max(leakage.epsilon_ceiling for leakage in leakages.values())
    left.axhline(ceiling, color=FAINT, lw=0.8, ls=":")
    left.annotate(_CEILING_LABEL, (1, ceiling), (2, 3), textcoords="offset points", fontsize=8)
    left.set(xscale="log", xlabel="records since the erasure", ylabel="lower bound of epsilon")
    left.set(ylim=(0, 1.15 * ceiling))
    right.set(xscale="log", yscale="log", xlabel="records since the erasure")
    right.set(ylabel="reconstruction error (relative to guessing)")
    right.axhline(1.0, color=FAINT, lw=0.8, ls=":")
    if len(leakages) > 1:
        figure.legend(loc="outside upper center", ncols=len(leakages))
    save_figure(figure, path)
    return figure


@use_style()
def draw_comparison(comparison: Comparison, path: str | Path | None = None) -> Figure:
    """Draw the bound of epsilon against the error, for each policy and both adversaries.

    Args:
        comparison: result of `compare`.
        path: file to save the figure in; its suffix determines the format. Default: do not save.

    Returns:
        The figure, which a notebook displays.

    Raises:
        MissingExtraError: if matplotlib is not installed.

    Example:
        >>> from vestige import Window
        >>> from vestige.audit import compare
        >>> figure = draw_comparison(compare({"Window": Window()}, retention=8, t=40, trials=20, workers=1))
    """
    figure, (panel,) = make_panels(1)
    ceiling = max(row.knows_all.epsilon_ceiling for row in comparison.rows)
    styles = _make_styles(row.name for row in comparison.rows)
    for row in comparison.rows:
        _draw_row(panel, row.name, row.error, (row.knows_all, row.knows_distribution), styles[row.name])
    panel.axhline(ceiling, color=FAINT, lw=0.8, ls=":")
    right_edge: Any = {"textcoords": "offset points", "xycoords": ("axes fraction", "data"), "ha": "right"}
    panel.annotate(_CEILING_LABEL, (1, ceiling), (-2, 6), fontsize=8, **right_edge)
    legend = "filled: adversary knows\nall other records\nhollow: adversary knows\ntheir distribution"
    panel.annotate(legend, (0.98, 0.5), xycoords="axes fraction", fontsize=8, ha="right")
    panel.set(xscale="log", xlabel="error (standard errors of the mean of all records)")
    panel.set(ylabel="lower bound of epsilon", ylim=(0, 1.15 * ceiling))
    figure.legend(loc="outside upper center", ncols=3, fontsize=8)
    save_figure(figure, path)
    return figure


def _draw_row(panel: Axes, name: str, error: float, leakages: tuple[Leakage, Leakage], style: dict[str, Any]) -> None:
    x, style = max(error, _MIN_ERROR), style | {"ls": "", "markersize": 8}
    knows_all, knows_distribution = (leakage.epsilon for leakage in leakages)
    panel.plot([x, x], [knows_all, knows_distribution], color=style["color"], lw=0.8, ls=":")
    panel.plot(x, knows_all, label=name, **style)
    panel.plot(x, knows_distribution, **style | {"markerfacecolor": "white"})


@use_style()
def draw_outlier(effect: OutlierEffect, path: str | Path | None = None) -> Figure:
    """Draw by how much an extreme first record raises the estimate, against the batches since its erasure.

    Args:
        effect: result of `run_outlier`.
        path: file to save the figure in; its suffix determines the format. Default: do not save.

    Returns:
        The figure, which a notebook displays.

    Raises:
        MissingExtraError: if matplotlib is not installed.

    Example:
        >>> from vestige.audit import run_outlier
        >>> figure = draw_outlier(run_outlier(trials=1))
    """
    figure, (panel,) = make_panels(1)
    batches = np.array(effect.batches) + 1
    styles = _make_styles(effect.excess)
    for name, excess in effect.excess.items():
        panel.plot(batches, excess, label=name, **styles[name])
    panel.set_yscale("symlog", linthresh=0.01)
    panel.set(xscale="log", xlabel=f"batches of {effect.retention // 2} since the erasure, plus one")
    panel.set(ylabel="excess of the estimate (standard deviations)")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8)
    save_figure(figure, path)
    return figure


def _make_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give each name a colour and a marker."""
    styles = {name: find_style(name, number) for number, name in enumerate(names)}
    return {name: {"color": style.colour, "marker": style.marker, "clip_on": False} for name, style in styles.items()}
