"""The tour shows what it promises."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from test_docs import ROOT, check_output, sessions
from vestige.demo import COLUMNS, draw_tour, main, make_table, run_tour
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


@pytest.mark.slow
def test_all_flights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The means are those that the README shows, and the fits are as near."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["demo"])
    main()
    printed = capsys.readouterr().out
    ((_, shown),) = (step for _, steps in sessions() for step in steps if step[0] == "make demo" and step[1])
    check_output(shown, printed)
    assert "vestige verify found nothing in it" in " ".join(printed.split())
    ours = [float(off) for off in re.findall(r"([+-][0-9.]+) s\.e\.", printed.partition("least squares")[2])][::2]
    assert len(ours) == 5
    assert max(map(abs, ours)) <= 0.05
    assert (tmp_path / "out" / "flights.png").stat().st_size > 10_000


def test_make_runs_it() -> None:
    assert re.search(r"^demo:.*\n\t\$\(BIN\)/python -m vestige.demo\n\n", (ROOT / "Makefile").read_text(), flags=re.M)


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
