"""Audits as figures: leakage against the age of the erased record, and accuracy against leakage.

Guarantee: each figure is drawn without touching matplotlib's backend; held by tests/test_figures.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vestige.audit.comparison import Comparison, ComparisonRow
from vestige.audit.examples import OutlierEffect
from vestige.audit.leakage import Leakage
from vestige.audit.trade_off import TradeOff
from vestige.figures import (
    COLOURS,
    FAINT,
    SIZE,
    find_style,
    make_figure,
    make_panels,
    save_figure,
    set_plain_ticks,
    use_style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MIN_ERROR = 1e-16
"""Where an error of 0 is drawn, which has no place on a logarithmic axis: about the precision of a float."""
_SQUARE = (5.0, 5.0)
_RATES = 401
"""Number of rates at which a promised trade-off function is drawn."""
_CEILING_LABEL = "the most that this many trials can show"


@use_style()
def draw_leakage(leakages: Mapping[str, Leakage], path: str | Path | None = None) -> Figure:
    """Draw epsilon and the reconstruction error against the number of records since the erasure.

    A hollow marker beyond the last checkpoint shows epsilon from all states together.

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
        left.plot(2.0 * ages[-1], leakage.joint.epsilon, **styles[name] | {"markerfacecolor": "white"})
        right.plot(ages, [max(checkpoint.reconstruction, _MIN_ERROR) for checkpoint in checkpoints], **styles[name])
    ceiling = max(leakage.epsilon_ceiling for leakage in leakages.values())
    left.axhline(ceiling, color=FAINT, lw=0.8, ls=":")
    left.annotate(_CEILING_LABEL, (1, ceiling), (2, 3), textcoords="offset points", fontsize=8)
    left.set(xscale="log", xlabel="records since the erasure", ylabel="lower bound of epsilon")
    left.set(ylim=(0, 1.15 * ceiling))
    left.annotate("hollow: all states\ntogether", (0.98, 0.5), xycoords="axes fraction", fontsize=8, ha="right")
    right.set(xscale="log", yscale="log", xlabel="records since the erasure")
    right.set(ylabel="reconstruction error (relative to guessing)")
    right.axhline(1.0, color=FAINT, lw=0.8, ls=":")
    if len(leakages) > 1:
        figure.legend(loc="outside upper center", ncols=len(leakages))
    save_figure(figure, path)
    return figure


@use_style()
def draw_trade_off(
    found: TradeOff,
    promises: Mapping[str, Callable[[float], float]] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw the two errors of an adversary with their simultaneous band, beside what is promised.

    Args:
        found: the errors, such as `measure_leakage(...).joint.trade_off`.
        promises: promised trade-off functions by name; a promise is refuted if the whole band is below it somewhere.
        path: file to save the figure in; its suffix determines the format. Default: do not save.

    Returns:
        The figure, which a notebook displays.

    Raises:
        MissingExtraError: if matplotlib is not installed.

    Example:
        >>> from vestige import Window
        >>> from vestige.audit import gaussian_trade_off, measure_leakage
        >>> found = measure_leakage(Window(), retention=8, t=40, trials=100, workers=1)
        >>> figure = draw_trade_off(found.joint.trade_off, {"mu = 1": lambda rate: gaussian_trade_off(rate, mu=1.0)})
    """
    figure = make_figure(_SQUARE)
    panel = figure.subplots()
    panel.plot([0, 1], [1, 0], color=FAINT, lw=0.8, ls=":", label="nothing revealed")
    lower, observed, upper = (
        [(0.0, 1.0), *_list_falling([(getattr(x, end), getattr(y, end)) for x, y in found.points]), (1.0, 0.0)]
        for end in ("low", "observed", "high")
    )
    colour = COLOURS[0]
    panel.fill(*zip(*lower, *reversed(upper), strict=True), color=colour, alpha=0.2, lw=0)
    panel.plot(*zip(*observed, strict=True), color=colour, marker="o", markersize=3.5, label="this adversary")
    rates = np.linspace(0.0, 1.0, _RATES)
    for number, (name, promise) in enumerate((promises or {}).items()):
        style = ("-", "--", "-.")[number % 3]
        panel.plot(rates, [promise(float(rate)) for rate in rates], color=COLOURS[1], ls=style, label=name)
    panel.set(xlabel="false positives", ylabel="false negatives", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    panel.legend(loc="upper right", fontsize=9, title=f"band: all points at once, {found.confidence:.0%}")
    save_figure(figure, path)
    return figure


def _list_falling(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points from left to right; where several have the same rate of false positives, from top to bottom."""
    return sorted(points, key=lambda point: (point[0], -point[1]))


@use_style()
def draw_comparison(comparison: Comparison, path: str | Path | None = None) -> Figure:
    """Draw the error against retention, with the price of forgetting as a band; below it, the bound of epsilon.

    The band reaches from the smallest error of any policy to the smallest one of those that are proved to forget: a
    window, and `Private` up to its guarantee.

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
        >>> figure = draw_comparison(compare({"Window": Window()}, retention=8, batches=8, trials=20, workers=1))
    """
    figure = make_figure((SIZE[0], 6.6))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    names = list(dict.fromkeys(row.name for row in comparison.rows))
    styles = _make_styles(names)
    for name in names:
        rows = [row for row in comparison.rows if row.name == name]
        retentions = [row.retention for row in rows]
        top.plot(retentions, [_total_error(row) for row in rows], label=name, **styles[name])
        hollow = {"markerfacecolor": "none", "ls": ":", "markersize": 9}
        bottom.plot(retentions, [row.knows_all.epsilon for row in rows], **styles[name])
        bottom.plot(retentions, [row.knows_distribution.epsilon for row in rows], **styles[name] | hollow)
    _draw_price(top, comparison)
    ceiling = max(row.knows_all.epsilon_ceiling for row in comparison.rows)
    bottom.axhline(ceiling, color=FAINT, lw=0.8, ls=":")
    right_edge: Any = {"textcoords": "offset points", "xycoords": ("axes fraction", "data"), "ha": "right"}
    bottom.annotate(_CEILING_LABEL, (1, ceiling), (-2, 4), **right_edge)
    bottom.annotate(
        "filled: the adversary knows all other records\nhollow: their distribution",
        (0.98, 0.5),
        xycoords="axes fraction",
        ha="right",
        va="center",
    )
    top.set(yscale="log", ylabel="error (that of all records = 1)")
    bottom.set(xscale="log", xlabel="retention (records)", ylabel="lower bound of epsilon", ylim=(-0.3, 1.25 * ceiling))
    ticks = sorted({row.retention for row in comparison.rows})
    bottom.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    for panel in (top, bottom):
        panel.set_xticks([], minor=True)
    set_plain_ticks(top)
    figure.legend(loc="outside upper left", ncols=2)
    save_figure(figure, path)
    return figure


def _total_error(row: ComparisonRow) -> float:
    """The root mean square error as an estimate of the truth, as a multiple of that of all records.

    How far the answer is from the mean of all records, and how far that is from the truth, are independent for normals.
    """
    return float(np.hypot(1.0, row.error))


def _draw_price(panel: Axes, comparison: Comparison) -> None:
    """Fill between the most accurate policy and the most accurate one that is proved to forget."""
    proved: dict[int, float] = {}
    best: dict[int, float] = {}
    for row in comparison.rows:
        best[row.retention] = min(best.get(row.retention, np.inf), _total_error(row))
        if row.is_proved:
            proved[row.retention] = min(proved.get(row.retention, np.inf), _total_error(row))
    retentions = sorted(proved)
    if len(retentions) > 1 and any(best[each] < proved[each] for each in retentions):
        low, high = ([each[retention] for retention in retentions] for each in (best, proved))
        panel.fill_between(retentions, low, high, color=FAINT, alpha=0.25, lw=0, label="the price of forgetting")


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
