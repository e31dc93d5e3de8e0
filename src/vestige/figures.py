"""Every figure has one palette, one style and one way to be made and saved.

The colours are those of Okabe and Ito (2008), which people with colour-blindness can tell apart and which stand out on
white and on black. Figures are drawn on `matplotlib.figure.Figure` objects, so matplotlib's backend is never switched.
Guarantee: no two policies look the same, each looks the same under all its names, and no function that draws touches
the backend; held by tests/test_figures.py.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vestige.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#4d4d4d"
"""Axes and text; a report replaces it by the colour of its own text."""
FAINT = "#9a9a9a"
SIZE = (4.6, 4.0)
"""Width and height in inches; so narrow that the text has 12 pixels on a phone that is 390 pixels wide."""
_RC: Any = {
    "font.size": 10.5,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "vestige",
    "lines.markersize": 5.5,
    "lines.linewidth": 1.5,
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a curve is drawn.

    Attributes:
        colour: as a hexadecimal string.
        marker: matplotlib's name of the marker; empty for none.
        line: matplotlib's name of the line style.
    """

    colour: str
    marker: str
    line: str = "-"


STYLES = {
    "window": Style("#E69F00", "s"),
    "algorithm 1": Style("#D55E00", "o"),
    "coordinate-wise": Style("#CC79A7", "D"),
    "algorithm 2": Style("#D55E00", "P"),
    "Mean, average": Style("#56B4E9", "^"),
    "Mean, bits": Style("#009E73", "v"),
    "Mean, auto": Style("#0072B2", "X"),
    "LinearRegression": Style("#0072B2", "h"),
    "Private": Style("#8A6FC9", "*"),
    "all data": Style(FAINT, "", "--"),
    "lower bound": Style(INK, "", ":"),
    "bound": Style(INK, "", "-."),
}
ALIASES = {
    "Window": "window",
    "paper.SimpleMean": "algorithm 1",
    "paper.CoordinateMean": "coordinate-wise",
    "paper.Regression": "algorithm 2",
    "Mean": "Mean, auto",
}
"""Other names of the policies in `STYLES`."""
NEW_MARKERS = ("P", "H", "p", "d", "<", ">", "8")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "X")


def find_style(name: str, number: int = 0) -> Style:
    """Find how to draw a curve.

    Args:
        name: name of a policy, or anything that begins with one.
        number: position of the curve in its figure; decides the style of a name that is not in `STYLES`.

    Returns:
        The style of the longest known name that `name` begins with, else the `number`-th combination of colour and
        marker.

    Example:
        >>> find_style("Private, epsilon 1") == STYLES["Private"], find_style("Mean()") == STYLES["Mean, auto"]
        (True, True)
    """
    prefix = max((known for known in (*STYLES, *ALIASES) if _begins_with(name, known)), key=len, default="")
    return STYLES.get(ALIASES.get(prefix, prefix)) or Style(
        COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    )


def find_new_style(number: int) -> Style:
    """Find how to draw a policy that is new among those with styles of their own: in the colour of the text.

    Args:
        number: position among the new ones; decides the marker.

    Returns:
        A style that none of `STYLES` has.

    Example:
        >>> find_new_style(0).colour == INK
        True
    """
    return Style(INK, NEW_MARKERS[number % len(NEW_MARKERS)], "--")


def is_known(name: str) -> bool:
    """Tell whether a policy has a style of its own.

    Args:
        name: name of a policy, or anything that begins with one.

    Returns:
        Whether it has.

    Example:
        >>> is_known("Mean, bits"), is_known("MeanOfMine")
        (True, False)
    """
    return any(_begins_with(name, known) for known in (*STYLES, *ALIASES))


def _begins_with(name: str, known: str) -> bool:
    """Whether a name begins with these words, not with a part of a longer one."""
    rest = name.removeprefix(known)
    return name.startswith(known) and not (rest[:1].isalnum() or rest.startswith("_"))


@contextmanager
def use_style() -> Iterator[None]:
    """Apply the common style while a figure is made, drawn and saved; also usable as a decorator, `@use_style()`.

    Returns:
        A context manager that restores matplotlib's settings at its end.

    Raises:
        MissingExtraError: if matplotlib is not installed.

    Example:
        >>> with use_style():
        ...     figure = make_figure()
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("the figure", "plot") from None
    with mpl.rc_context(_RC):
        yield


def make_figure(size: tuple[float, float] = SIZE) -> Figure:
    """Make an empty figure that is not registered with pyplot; notebooks display it.

    Args:
        size: width and height, in inches.

    Returns:
        The figure, with constrained layout.

    Example:
        >>> with use_style():
        ...     figure = make_figure((4.0, 3.0))
        >>> figure.get_size_inches().tolist()
        [4.0, 3.0]
    """
    return _find_figure_class()(figsize=size, layout="constrained")


def make_panels(count: int, width: float = 5.2, height: float = 3.8) -> tuple[Figure, list[Axes]]:
    """Make a figure of several panels in a row.

    Args:
        count: number of panels.
        width: width of each panel, in inches.
        height: height of the figure, in inches.

    Returns:
        The figure and its panels, from left to right.

    Example:
        >>> with use_style():
        ...     figure, (left, right) = make_panels(2)
    """
    figure = make_figure((count * width, height))
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def set_plain_ticks(axes: Axes) -> None:
    """Label a logarithmic y axis of a few powers of ten with plain numbers: 1, 2, 3, 5, 10 and so on.

    Args:
        axes: the axes.

    Example:
        >>> with use_style():
        ...     figure, (axes,) = make_panels(1)
        >>> _ = axes.set(yscale="log", ylim=(1, 30))
        >>> set_plain_ticks(axes)
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def save_figure(figure: Figure, path: str | Path | None) -> None:
    """Save a figure, with the folders that its path needs.

    Args:
        figure: what to save.
        path: file to write; its suffix determines the format. None saves nothing.

    Example:
        >>> import tempfile
        >>> with use_style(), tempfile.TemporaryDirectory() as folder:
        ...     save_figure(make_figure(), Path(folder) / "figures" / "empty.png")
    """
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def render_figure(figure: Figure, kind: str) -> bytes:
    """Render a figure in memory; the same figure gives the same bytes.

    Args:
        figure: what to render.
        kind: `png`, or `svg` with a transparent background.

    Returns:
        The contents of the image file.

    Example:
        >>> with use_style():
        ...     render_figure(make_figure(), "png")[1:4]
        b'PNG'
    """
    out = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(out, format=kind, dpi=150, transparent=kind == "svg", metadata=metadata)
    return out.getvalue()


class _NotebookDisplay:
    """Shows a figure in a notebook, which by itself displays only figures of pyplot."""

    def _repr_png_(self: Any) -> bytes:
        return render_figure(self, "png")


@functools.cache
def _find_figure_class() -> type[Figure]:
    from matplotlib.figure import Figure  # noqa: PLC0415

    return type("Figure", (_NotebookDisplay, Figure), {})
