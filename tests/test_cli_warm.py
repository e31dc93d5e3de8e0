"""Kernels are compiled ahead of the first run, by hand and in an image."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vestige import _numba
from vestige.cli.group import load_commands
from vestige.policies import Distinct

ROOT = Path(__file__).parents[1]


def test_it_says_for_how_many_statistics_kernels_are_ready() -> None:
    done = CliRunner().invoke(load_commands(), ["warm", "--statistic", "mean", "--statistic", "histogram"])
    assert done.exit_code == 0, done.output
    assert re.fullmatch(r"Ready: the kernels of 2 statistics in \d+ s\.\n", done.output)


def test_a_statistic_whose_extra_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    done = CliRunner().invoke(load_commands(), ["warm", "--statistic", Distinct.name])
    assert done.exit_code == 0, done.output
    assert done.output.endswith("Left out, since its extra is not installed: distinct.\n")


def test_where_nothing_can_be_cached_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_numba, "is_cacheable", lambda: False)
    done = CliRunner().invoke(load_commands(), ["warm"])
    assert done.exit_code == 2
    assert "set NUMBA_CACHE_DIR to a folder that can be written" in done.output


@pytest.mark.slow(100)
def test_what_runs_after_it_compiles_nothing(tmp_path: Path) -> None:
    """All is compiled once, in a cache of its own; then runs that are too long to be interpreted find it all there."""
    rows = np.random.default_rng(0).normal(size=(40_000, 2)).round(3)
    lines = "".join(f"{a},{b},{i % 3},p{i}\n" for i, (a, b) in enumerate(rows))
    (tmp_path / "visits.csv").write_text(f"a,b,kind,who\n{lines}")

    def run(*arguments: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "vestige", *arguments],
            cwd=tmp_path,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")},
            capture_output=True,
            check=True,
        )

    run("warm")
    ready = sorted(tmp_path.rglob("*.nbc"))
    assert ready
    kept = ("--store", "visits.db", "--subject", "who")
    limits = (*kept, "--retention", "2048")
    run("run", "visits.csv", "--column", "a", *limits, "--stream", "mean")
    run("run", "visits.csv", "--column", "a", *limits, "--stream", "moments", "--statistic", "moments")
    sketch = ("--statistic", "quantiles", "--retention", "38656")
    run("run", "visits.csv", "--column", "a", *kept, "--stream", "quantiles", *sketch)
    run("run", "visits.csv", "--column", "a", "--column", "b", *limits, "--stream", "kinds", "--by", "kind")
    noise = ("--epsilon", "1", "--bound", "a=4")
    run("run", "visits.csv", "--column", "a", *limits, *noise, "--stream", "noisy")
    run("run", "visits.csv", "--metric", "a:mean,sum", "--metric", "b:mean", *limits, "--stream", "metrics")
    run("run", "visits.csv", "--metric", "a:mean,sum,count", *limits, *noise, "--stream", "noisy metrics")
    run("forget", "visits.db", "--subject", "p39999")
    run("sweep", "visits.db")
    run("estimate", "visits.db")
    assert sorted(tmp_path.rglob("*.nbc")) == ready


def read_dockerfile() -> list[tuple[str, str]]:
    """The instructions and their arguments, in order."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_runs_the_command_without_privileges_and_with_kernels_compiled_in() -> None:
    steps = read_dockerfile()
    names = [name for name, _ in steps]
    assert [rest for name, rest in steps if name == "USER"] == ["vestige"]
    assert "useradd --create-home --uid 10001 vestige" in steps[names.index("RUN")][1]
    warm = steps.index(("RUN", "vestige warm"))
    assert names.index("USER") < names.index("ENV") < warm < names.index("ENTRYPOINT")
    assert json.loads(steps[names.index("ENTRYPOINT")][1]) == ["vestige"]  # no shell between, so that signals arrive
    assert not re.search(r"https?:|--index-url|--trusted-host", (ROOT / "Dockerfile").read_text())


def test_the_image_takes_what_exists_and_nothing_else() -> None:
    steps = read_dockerfile()
    extras = next(rest for name, rest in steps if name == "ARG").removeprefix("EXTRAS=").split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras) <= project["optional-dependencies"].keys()
    copied = {path for name, rest in steps if name == "COPY" for path in rest.split()[:-1]}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == allowed
    assert all((ROOT / path).exists() for path in copied)
    assert {project["readme"], *project["license-files"]} <= copied


def test_the_kernels_of_the_image_are_for_any_processor() -> None:
    """Numba finds what it has cached only for the processor that it was compiled for."""
    settings = dict(re.findall(r"(\w+)=(\S+)", next(rest for name, rest in read_dockerfile() if name == "ENV")))
    program = "from numba.core.registry import cpu_target as t; print(t.target_context.codegen().magic_tuple()[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True, check=True
    )
    assert done.stdout == "('generic', '')\n"
