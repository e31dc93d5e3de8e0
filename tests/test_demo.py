"""The tour shows what it promises."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

from vestige.demo import COLUMNS, draw_tour, make_fit_table, make_table, run_tour
from vestige.flights import flights


def test_the_tour(tmp_path: Path) -> None:
    rows = flights(*COLUMNS)[:60_000]
    seen = run_tour(rows)
    off = np.abs(seen.vestige - seen.truth)[-1] / seen.standard_error
    assert off.max() <= 0.05
    assert seen.last.held <= 512
    assert seen.last.oldest_age < 512
    console = Console(file=io.StringIO(), width=120)
    console.print(make_table(seen))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for wanted in ("departure delay", "distance", "all flights", "Vestige", "sliding window", "s.e.", "flights ago"):
        assert wanted in shown
    draw_tour(seen, tmp_path / "deep" / "tour.png")
    assert (tmp_path / "deep" / "tour.png").stat().st_size > 10_000


def test_the_fits() -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(make_fit_table())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    ours = [float(off) for off in re.findall(r"([+-][0-9.]+) s\.e\.", shown)][::2]
    assert len(ours) == 5
    assert max(map(abs, ours)) <= 0.05


def test_flights_are_in_time_order() -> None:
    schedule = flights("month", "day", "sched_dep_time")
    key = schedule @ [1_000_000.0, 10_000.0, 1.0]
    assert np.all(np.diff(key) >= 0)
    assert len(schedule) == 336_776


def test_without_the_flights_it_says_what_to_install() -> None:
    program = (
        "import importlib.util as u; u.find_spec = lambda n: None; import vestige.flights as f; f.flights('distance')"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "pip install 'vestige[demo]'" in done.stderr
