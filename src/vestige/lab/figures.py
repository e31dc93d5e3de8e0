"""Figures as for a paper: labelled axes, a legend beside the data, and two standard errors about every average.

Guarantee: a figure is the same bytes for the same results, and an inline one names no host; held by
tests/lab/test_report.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from vestige.figures import INK, find_style, make_figure, render_figure, use_style
from vestige.lab.results import Results, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def rendered(draw: Callable[[Results, Figure], None], results: Results, kind: str) -> bytes:
    """A figure as `png` or `svg`."""
    with use_style():
        figure = make_figure()
        draw(results, figure)
        return render_figure(figure, kind)


def inline(svg: bytes, name: str) -> str:
    """An SVG that can stand in a page: ids of its own, the page's ink, no addresses."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r'(<svg[^>]*?)\swidth="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", text, count=1)
    return text.replace(INK, "currentColor")


def curve(
    axes: Axes,
    name: str,
    series: Series,
    *,
    number: int = 0,
    label: str | None = None,
    aside: float = 0.0,
    joined: bool = True,
) -> None:
    """Averages with bars of two standard errors, joined or not; `aside` by a share of x, where curves meet."""
    style = find_style(name, number)
    error = np.nan_to_num(2.0 * series.error)
    if axes.get_yscale() == "log":  # a bar that reaches below 0 is cut at a tenth of the average
        error = np.stack((np.minimum(error, 0.9 * np.abs(series.mean)), error))
    axes.errorbar(
        series.x * (1.0 + aside),
        series.mean,
        error,
        color=style.colour,
        marker=style.marker,
        ls=style.line if joined else "none",
        label=name if label is None else label,
        capsize=2,
        elinewidth=1,
    )


def reference(axes: Axes, name: str, x: Any, y: Any, label: str | None = None) -> None:
    """A line that was computed, not measured."""
    style = find_style(name)
    axes.plot(x, y, color=style.colour, ls=style.line, lw=1.4, label=label or name, zorder=1.5)


def level(axes: Axes, name: str, y: float, label: str | None = None) -> None:
    """A horizontal line."""
    style = find_style(name)
    axes.axhline(y, color=style.colour, ls=style.line, lw=1.4, label=label or name, zorder=1.5)


def legend(figure: Figure, axes: Axes, columns: int = 3) -> None:
    """Above the axes, where it covers no data."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=columns, fontsize=9.5, handlelength=2.2)


def whole_ticks(axes: Axes, values: list[int]) -> None:
    """Ticks of a logarithmic axis at just these whole numbers."""
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.minorticks_off()


def kinds(figure: Figure, results: Results, data: Sequence[str], policies: Sequence[str]) -> None:
    """The error over that of all data for each kind of data, the policies side by side."""
    axes = figure.add_subplot(yscale="log", ylabel="mean squared error (that of all data)")
    for i, policy in enumerate(policies):
        parts = [results.where(data=kind, policy=policy) for kind in data]
        means = np.array([part.mean("ratio") for part in parts])
        error = np.array([part.error("ratio") for part in parts])
        places = np.arange(float(len(data))) + (i - (len(policies) - 1) / 2.0) * 0.15
        curve(axes, policy, Series(places, means, error), joined=False)
    axes.set_xticks(range(len(data)), [fill(kind, 11, break_long_words=False) for kind in data])
    for edge in np.arange(len(data) - 1) + 0.5:
        axes.axvline(edge, color=INK, lw=0.3)
    level(axes, "all data", 1.0)
    legend(figure, axes)
