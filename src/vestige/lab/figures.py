"""Figures as in a paper: labelled axes, a legend beside the data, and two standard errors about every average.

Guarantee: the same results give the same bytes, and an inline figure names no host; held by tests/lab/test_report.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from vestige.figures import (
    INK,
    Style,
    find_new_style,
    find_style,
    is_known,
    make_figure,
    render_figure,
    use_style,
)
from vestige.lab.results import Results, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LEGEND_WIDTH = 46
"""Number of letters in two labels that fit beside each other."""


def render(draw: Callable[[Results, Figure], None], results: Results, kind: str) -> bytes:
    """Render a figure.

    Args:
        draw: draws the results into a figure.
        results: the results.
        kind: `png` or `svg`.

    Returns:
        The file's content.

    Raises:
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> render(lambda results, figure: None, Results({}), "png")[1:4]
        b'PNG'
    """
    with use_style():
        figure = make_figure()
        draw(results, figure)
        return render_figure(figure, kind)


def inline_svg(svg: bytes, name: str) -> str:
    """Prepare an SVG for a page: unique ids, the text colour of the page, no addresses.

    Args:
        svg: the file's content.
        name: prefix of its ids.

    Returns:
        The element.

    Example:
        >>> inline_svg(b'<?xml?><svg width="9" height="9"><g id="a"/></svg>', "one")
        '<svg><g id="one-a"/></svg>'
    """
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r'(<svg[^>]*?)\swidth="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", text, count=1)
    return text.replace(INK, "currentColor")


def list_policies(results: Results, known: Iterable[str]) -> list[str]:
    """List the policies in the results, whoever they are of.

    Args:
        results: trials with the parameter `policy`.
        known: policies of the experiment, in the order in which they are drawn.

    Returns:
        Those that have results, in this order, then all others by name.

    Example:
        >>> list_policies(Results.from_rows([{"policy": name} for name in ("mine", "window")]), ["window", "other"])
        ['window', 'mine']
    """
    present = results.values("policy")
    first = [name for name in known if name in present]
    return first + [name for name in present if name not in first]


def find_curve_style(name: str, number: int) -> Style:
    """Find how to draw a curve: a policy from elsewhere stands out, in the colour of the text.

    Args:
        name: name of the policy; empty for a curve of something else.
        number: number of the curve in its figure.

    Returns:
        The style.

    Example:
        >>> find_curve_style("window", 3) == find_style("window"), find_curve_style("mine", 0).colour == INK
        (True, True)
    """
    return find_new_style(number) if name and not is_known(name) else find_style(name, number)


def draw_curve(
    axes: Axes,
    name: str,
    series: Series,
    *,
    number: int = 0,
    label: str | None = None,
    shift: float = 0.0,
    join: bool = True,
) -> None:
    """Draw averages with bars of two standard errors.

    Args:
        axes: where to draw.
        name: name of the policy, which determines colour and marker.
        series: the averages.
        number: number of the curve, which determines colour and marker if the name is empty or new.
        label: label in the legend; default: the name.
        shift: share of x by which to shift the curve, so that curves that coincide remain visible.
        join: whether to join the averages by a line.
    """
    style = find_curve_style(name, number)
    error = np.nan_to_num(2.0 * series.standard_error)
    if axes.get_yscale() == "log":  # a bar that reaches below 0 is cut at a tenth of the average
        error = np.stack((np.minimum(error, 0.9 * np.abs(series.mean)), error))
    axes.errorbar(
        series.x * (1.0 + shift),
        series.mean,
        error,
        color=style.colour,
        marker=style.marker,
        ls=style.line if join else "none",
        label=name if label is None else label,
        capsize=2,
        elinewidth=1,
    )


def draw_reference(axes: Axes, name: str, x: Any, y: Any, label: str | None = None) -> None:
    """Draw a line that was computed, not measured.

    Args:
        axes: where to draw.
        name: name that determines colour and line, such as `bound`.
        x: values along the axis.
        y: height at each of them.
        label: label in the legend; default: the name.
    """
    style = find_style(name)
    axes.plot(x, y, color=style.colour, ls=style.line, lw=1.4, label=label or name, zorder=1.5)


def draw_level(axes: Axes, name: str, y: float, label: str | None = None) -> None:
    """Draw a horizontal line.

    Args:
        axes: where to draw.
        name: name that determines colour and line, such as `all data`.
        y: height of the line.
        label: label in the legend; default: the name.
    """
    style = find_style(name)
    axes.axhline(y, color=style.colour, ls=style.line, lw=1.4, label=label or name, zorder=1.5)


def draw_legend(figure: Figure, axes: Axes) -> None:
    """Draw the legend above the axes, where it covers no data: in two columns if they fit, in a taller figure if not.

    Args:
        figure: the figure.
        axes: the axes with the labelled curves.
    """
    handles, names = axes.get_legend_handles_labels()
    half = (len(names) + 1) // 2
    fits = max(map(len, names[:half]), default=0) + max(map(len, names[half:]), default=0) <= _LEGEND_WIDTH
    rows = half if fits else len(names)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.2 * max(rows - 3, 0))
    figure.legend(
        handles,
        names,
        loc="outside upper left",
        ncols=2 if fits else 1,
        fontsize=10,
        handlelength=1.8,
        columnspacing=1.2,
    )


def set_whole_ticks(axes: Axes, values: list[int]) -> None:
    """Set the ticks of a logarithmic axis to given whole numbers.

    Args:
        axes: the axes.
        values: positions of the ticks along x.
    """
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.minorticks_off()


def draw_kinds(figure: Figure, results: Results, kinds: Sequence[str], policies: Sequence[str]) -> None:
    """Draw the error as a multiple of that of all data for each kind of data, the policies side by side.

    Args:
        figure: the figure.
        results: trials with the parameters `data` and `policy` and the measurement `ratio`.
        kinds: the kinds of data, from left to right.
        policies: the policies.
    """
    axes = figure.add_subplot(yscale="log", ylabel="mean squared error (that of all data)")
    for i, policy in enumerate(policies):
        parts = [results.where(data=kind, policy=policy) for kind in kinds]
        means = np.array([part.mean("ratio") for part in parts])
        errors = np.array([part.standard_error("ratio") for part in parts])
        places = np.arange(float(len(kinds))) + (i - (len(policies) - 1) / 2.0) * 0.15
        draw_curve(axes, policy, Series(places, means, errors), number=i, join=False)
    axes.set_xticks(range(len(kinds)), [fill(kind, 11, break_long_words=False) for kind in kinds])
    for edge in np.arange(len(kinds) - 1) + 0.5:
        axes.axvline(edge, color=INK, lw=0.3)
    draw_level(axes, "all data", 1.0)
    draw_legend(figure, axes)
