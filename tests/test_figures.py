"""Figures distinguish policies, are the same everywhere, and leave matplotlib's backend alone."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import vestige
from vestige import Mean, Stream, Window
from vestige.audit import (
    TableSnapshot,
    audit_table,
    compare,
    default_policies,
    draw_comparison,
    draw_leakage,
    draw_outlier,
    draw_table,
    draw_trade_off,
    measure_leakage,
    measure_trade_off,
    run_outlier,
)
from vestige.demo import draw_tour, run_tour
from vestige.figures import ALIASES, STYLES, find_style, make_figure, use_style
from vestige.lab.baselines import MEANS
from vestige.planning import draw_plan, plan

SOURCE = Path(vestige.__file__).parent
NORMAL = np.random.default_rng(0).normal(size=(2_000, 2))


def make_snapshots() -> list[TableSnapshot]:
    """A table on three days, which a stream has kept."""
    stream, days = Stream(Mean(), retention=96, seed=0), []
    for day in np.random.default_rng(0).normal(size=(3, 60)):
        stream.extend(day)
        days.append(TableSnapshot(stream.retained.rounds.tolist(), stream.retained.values))
    return days


DRAW: dict[str, Callable[[Path], object]] = {
    "draw_leakage": lambda path: draw_leakage(
        {name: measure_leakage(Window(), retention=8, t=40, trials=20, workers=1) for name in "ab"}, path
    ),
    "draw_comparison": lambda path: draw_comparison(
        compare({"Window": Window()}, retention=8, batches=8, trials=20, workers=1), path
    ),
    "draw_outlier": lambda path: draw_outlier(run_outlier(trials=1), path),
    "draw_plan": lambda path: draw_plan(plan(Mean(), records=1_000), path),
    "draw_table": lambda path: draw_table(audit_table(make_snapshots(), trials=99), path),
    "draw_trade_off": lambda path: draw_trade_off(
        measure_trade_off(np.zeros(99), np.ones(99), np.array([0.5])), {"mu 1": lambda rate: 1.0 - rate}, path
    ),
    "draw_tour": lambda path: draw_tour(run_tour(NORMAL), path),
}


def test_no_two_policies_look_the_same() -> None:
    assert len(set(STYLES.values())) == len(STYLES)
    assert find_style("window") == find_style("window", 5) != find_style("my own", 5)


def test_a_trade_off_never_rises() -> None:
    null, alternative = np.arange(100.0), np.arange(100.0) + 90.0
    found = measure_trade_off(null, alternative, np.arange(5.0, 190.0, 20.0))
    panel = draw_trade_off(found).get_axes()[0]
    line = np.asarray(panel.get_lines()[1].get_xydata())
    border = np.asarray(panel.patches[0].get_path().vertices, np.float64)
    half = (len(border) - 1) // 2
    for curve in (line, border[:half], border[half:-1][::-1]):
        assert (np.diff(curve[:, 0]) >= 0.0).all()
        assert (np.diff(curve[:, 1]) <= 0.0).all(), "several thresholds without false positives, in their order"


def test_a_policy_looks_the_same_under_all_its_names() -> None:
    assert {find_style(name) for name in (*MEANS, *default_policies())} <= set(STYLES.values())
    assert find_style("Window()") == find_style("window")
    assert find_style("paper.SimpleMean()") == find_style("algorithm 1")
    assert find_style("Mean, bits") != find_style("Mean, average") != find_style("Mean, auto") == find_style("Mean()")
    assert set(ALIASES.values()) <= set(STYLES)


@pytest.fixture
def backend() -> Iterator[str]:
    """A backend that no library code would choose."""
    before = mpl.get_backend()
    mpl.use("pdf")
    yield "pdf"
    mpl.use(before)


def _makes_a_figure(function: Callable[..., object]) -> bool:
    return bool(inspect.signature(function).return_annotation == "Figure")


def test_every_function_that_draws_is_tested_here() -> None:
    names = set()
    for module in pkgutil.walk_packages([str(SOURCE)], "vestige."):
        if module.name != "vestige.__main__" and not module.name.startswith("vestige.lab.experiments."):
            members = vars(importlib.import_module(module.name)).items()
            names |= {
                name
                for name, one in members
                if name.startswith("draw_") and inspect.isfunction(one) and _makes_a_figure(one)
            }
    assert names == set(DRAW)


@pytest.mark.parametrize("name", DRAW)
def test_the_backend_is_untouched(name: str, backend: str, tmp_path: Path) -> None:
    settings = dict(mpl.rcParams)
    drawn = DRAW[name](tmp_path / "folder" / "figure.png")
    assert mpl.get_backend() == backend
    assert dict(mpl.rcParams) == settings
    assert isinstance(drawn, Figure)
    assert (tmp_path / "folder" / "figure.png").stat().st_size > 5_000


def test_library_code_does_not_import_pyplot_or_choose_a_backend() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"import pyplot|\.pyplot\b|(mpl|matplotlib)\.use\(", text), path


def test_a_notebook_displays_a_figure() -> None:
    with use_style():
        shown = make_figure()._repr_png_()  # type: ignore[attr-defined]
    assert shown.startswith(b"\x89PNG")
