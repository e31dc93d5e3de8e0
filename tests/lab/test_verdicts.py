"""Each verdict holds for what is on trial, and changes when something broken takes its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from vestige.cli import command
from vestige.lab import EXPERIMENTS, Experiment, Results
from vestige.lab.contenders import MEANS
from vestige.lab.experiment import NOT
from vestige.lab.experiments import batching, descent, oracle

Row = dict[str, Any]
WINDOW = MEANS["window"]


def quick_rows(experiment: Experiment) -> list[Row]:
    """What a quick run measures."""
    points = experiment.points(quick=True)
    return [experiment.measured(point, 0, k) for point in points for k in range(experiment.quick_trials)]


def pushed_too_far(limit: float, *others: Any) -> Any:
    """An adversary who takes a hundred times what he may."""
    return descent.push(100.0 * limit, *others)


def signs(rng: np.random.Generator, size: int) -> Any:
    """Numbers without a density: all subset sums are whole."""
    return rng.choice([-1.0, 1.0], size)


def one_sided(rng: np.random.Generator, *shape: int) -> Any:
    """Vectors that all lie on the other side of the target."""
    return -np.abs(rng.normal(size=shape))


def short_stream(policy: Any, retention: int, seed: int) -> Any:
    """A stream that holds records for less long than it says."""
    return batching.streamed(policy, retention - 2, seed)


BROKEN: dict[str, list[tuple[str, Callable[..., Any]]]] = {
    "retention": [("coordinate-wise", WINDOW), ("algorithm 1", WINDOW), ("Mean, auto", WINDOW)],
    "length": [("algorithm 1", WINDOW), ("Mean, auto", WINDOW)],
    "oracle": [("oracle", lambda x: oracle.nearest(x) / 1e4), ("oracle", lambda x: x.mean(axis=0) @ x.mean(axis=0))],
    "descent": [("push", pushed_too_far), ("push", lambda *_: 0.0)],
    "subsets": [("uniform", signs), ("normal", one_sided)],
    "batching": [("streamed", short_stream)],
    "outlier": [("window", MEANS["Mean, auto"]), ("algorithm 1", WINDOW), ("Mean, auto", WINDOW)],
}


def of_part(row: Row, name: str) -> bool:
    """Whether a part has to do with a row."""
    return row.get("policy", name) == name or name not in MEANS


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_verdict_holds_and_changes_with_a_broken_part(name: str) -> None:
    experiment = EXPERIMENTS[name]
    rows = quick_rows(experiment)
    held = experiment.verdict(Results.of(rows))
    assert held.outcome != NOT, held.because
    for part, broken in BROKEN[name]:
        assert part in experiment.parts
        changed = replace(
            experiment,
            parts={**experiment.parts, part: broken},
            grid=tuple(point for point in experiment.grid if of_part(dict(point), part)),
        )
        others = [row for row in rows if not of_part(row, part)]
        found = experiment.verdict(Results.of(others + quick_rows(changed)))
        assert found.outcome == NOT, (part, found.because)


def test_the_quick_mode_of_all(tmp_path: Path) -> None:
    """What `make test` shows to whoever changes something: each claim, tried once more, by the command."""
    done = CliRunner().invoke(command, ["lab", "run", "--quick", "--jobs", "2", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    for name in EXPERIMENTS:
        assert f"{name}: held" in done.output
        assert (tmp_path / f"{name}.parquet").exists()
