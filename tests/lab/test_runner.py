"""The lab's machinery: seeds, files, going on where it stopped, and trials that run elsewhere."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from vestige.cli import command
from vestige.errors import MissingExtraError, ParameterError, StoreError
from vestige.lab import EXPERIMENTS, Experiment, Progress, Results, Verdict, grid, run
from vestige.lab.experiment import CONSTANTS, HELD, NOT_SHOWN, REFUTED, Parts, Point
from vestige.lab.results import read_rows

CALLS: list[tuple[float, float]] = []


def drawn(point: Point, rng: np.random.Generator, parts: Parts) -> Mapping[str, float]:
    """A number, shifted by the parameter; and that it was drawn."""
    made = float(rng.normal()) + float(point["shift"])
    CALLS.append((float(point["shift"]), made))
    return {"drawn": parts["scaled"](made)}


TOY = replace(
    EXPERIMENTS["retention"],
    name="toy",
    grid=grid(shift=[0.0, 10.0, 20.0]),
    run_trial=drawn,
    find_verdict=lambda results: Verdict.from_checks({"it is above": results.mean("drawn") > 5.0}, ""),
    parts={"scaled": lambda x: x},
    trials=4,
    quick=lambda point: float(point["shift"]) < 15.0,
    quick_trials=2,
)
FAST = replace(EXPERIMENTS["retention"], grid=grid(policy=["Mean, auto", "Mean, bits"], retention=[128]))


def rows(folder: Path, experiment: Experiment = TOY) -> list[dict[str, Any]]:
    return read_rows(folder / f"{experiment.name}.parquet")


def test_a_trial_depends_on_the_seed_and_its_number_alone(tmp_path: Path) -> None:
    run([TOY], tmp_path / "a", seed=3)
    run([TOY], tmp_path / "b", seed=3, trials=2)
    run([TOY], tmp_path / "c", seed=4)
    first, part, other = (rows(tmp_path / name) for name in "abc")
    assert len(first) == 12
    assert all(row in first for row in part)
    assert not any(row in first for row in other)
    assert len({row["drawn"] - row["shift"] for row in first}) >= 4  # each number has draws of its own ...
    ours = [[row["drawn"] - shift for row in first if row["shift"] == shift] for shift in (0.0, 10.0)]
    assert ours[0] == pytest.approx(ours[1])  # ... which are the same at each point
    assert first[0] == TOY.measure({"shift": first[0]["shift"]}, 3, first[0]["trial"])


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def stop(at: Progress) -> None:
        if at.done == 5:
            raise KeyboardInterrupt

    CALLS.clear()
    with pytest.raises(KeyboardInterrupt):
        run([TOY], tmp_path, progress=stop)
    assert len(rows(tmp_path)) == len(CALLS) == 5
    seen: list[Progress] = []
    run([TOY], tmp_path, progress=seen.append)
    assert len(CALLS) == 12  # none was drawn twice
    assert seen[-1].done == seen[-1].total == 7
    assert seen[-1].left == 0.0 < seen[0].left
    run([TOY], tmp_path / "whole")
    assert rows(tmp_path) == rows(tmp_path / "whole")


def test_a_quick_run_is_a_part_of_the_whole(tmp_path: Path) -> None:
    run([TOY], tmp_path, quick=True)
    few = rows(tmp_path)
    assert {(row["shift"], row["trial"]) for row in few} == {(s, k) for s in (0.0, 10.0) for k in (0, 1)}
    CALLS.clear()
    run([TOY], tmp_path)
    assert len(CALLS) == 8
    assert all(row in rows(tmp_path) for row in few)


def test_files_say_what_made_them_and_are_not_mixed(tmp_path: Path) -> None:
    run([TOY], tmp_path, seed=1)
    said = parquet.read_schema(tmp_path / "toy.parquet").metadata
    assert said[b"vestige.seed"] == b"1"
    assert re.fullmatch(rb"\d+\.\d+.*", said[b"vestige.version"])
    with pytest.raises(StoreError, match=r"toy.parquet has results of seed 1, not 2; start over with --fresh"):
        run([TOY], tmp_path, seed=2)
    with pytest.raises(StoreError, match="has results of experiment"):
        run([replace(TOY, grid=grid(shift=[1.0, 2.0]))], tmp_path, seed=1)
    run([TOY], tmp_path, seed=2, fresh=True)
    assert parquet.read_schema(tmp_path / "toy.parquet").metadata[b"vestige.seed"] == b"2"
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("where", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
def test_results_are_the_same_wherever_trials_run(tmp_path: Path, where: str) -> None:
    run([FAST], tmp_path / "here", trials=3)
    if where == "processes":
        run([FAST], tmp_path / "there", trials=3, jobs=2)
    else:
        from distributed import LocalCluster  # noqa: PLC0415

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:  # type: ignore[no-untyped-call]
            run([FAST], tmp_path / "there", trials=3, dask=cluster.scheduler_address)
    assert rows(tmp_path / "here", FAST) == rows(tmp_path / "there", FAST)
    assert len(rows(tmp_path / "there", FAST)) == 6


def test_what_cannot_be_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="trials=1 is out of range; use a whole number, 2 or more"):
        run([TOY], tmp_path, trials=1)
    with pytest.raises(ParameterError, match="seed=-1 is out of range"):
        run([TOY], tmp_path, seed=-1)
    silent = SimpleNamespace(Client=lambda *_, **__: (_ for _ in ()).throw(TimeoutError()))
    monkeypatch.setitem(sys.modules, "distributed", silent)
    with pytest.raises(ParameterError, match=r"dask='tcp:x' does not answer; start a scheduler with: dask scheduler"):
        run([TOY], tmp_path, dask="tcp:x")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ParameterError, match=r"dask='tcp:x' needs the package distributed; .*pip install"):
        run([TOY], tmp_path, dask="tcp:x")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(MissingExtraError, match=r"the lab needs the 'lab' extra"):
            run([TOY], tmp_path / "new")
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(MissingExtraError, match=r"the lab needs the 'lab' extra; .*pip install 'vestige\[lab\]'"):
        run([TOY], tmp_path)


def test_results_are_averaged_along_a_parameter() -> None:
    made = Results.from_rows([{"x": x, "kind": kind, "y": x + k} for x in (1, 2) for kind in "ab" for k in (0.0, 2.0)])
    series = made.series("x", "y", kind="a")
    assert series.x.tolist() == [1.0, 2.0]
    assert series.mean.tolist() == [2.0, 3.0]
    assert series.standard_error.tolist() == pytest.approx([1.0, 1.0])
    assert len(made.where(kind="b", x=2)) == 2
    assert Results.from_rows([]).values("x") == []
    assert np.isnan(made.where(kind="c").mean("y"))


def test_a_verdict_says_what_failed() -> None:
    assert Verdict.from_checks({"a": True}, "Seen.") == Verdict(HELD, "Seen.")
    assert Verdict.from_checks({"a": True}, "Seen.", {"C": 2.0}).outcome == CONSTANTS
    found = Verdict.from_checks({"a": True, "b holds": False}, "Seen.", {"C": 2.0})
    assert (found.outcome, found.reason, found.constants) == (REFUTED, "Refuted: b holds. Seen.", {})
    unsure = Verdict.from_checks({"a": True, "b holds": None, "c holds": None}, "Seen.", {"C": 2.0})
    assert (unsure.outcome, unsure.reason, unsure.constants) == (NOT_SHOWN, "Not shown: b holds; c holds. Seen.", {})
    both = Verdict.from_checks({"b holds": None, "c holds": np.bool_(False)}, "Seen.")  # type: ignore[dict-item]
    assert (both.outcome, both.reason) == (REFUTED, "Refuted: c holds. Not shown: b holds. Seen.")


@pytest.mark.parametrize("holds", [True, False, None])
def test_with_fewer_trials_than_a_quick_run_a_claim_is_not_shown(holds: bool | None) -> None:
    low = replace(TOY, find_verdict=lambda _: Verdict.from_checks({"it is above": holds}, ""), quick_trials=3)
    trials = [low.measure(point, 0, number) for point in low.points(quick=True) for number in range(3)]
    few = low.judge(Results.from_rows([row for row in trials if row["trial"] < 2]))
    assert few.outcome == NOT_SHOWN
    assert few.reason.startswith("2 trials at shift 0.0 are too few to decide; use at least 3.")
    assert ("Refuted: it is above." in few.reason) == (holds is False)
    assert low.judge(Results.from_rows(trials)).outcome == {True: HELD, False: REFUTED, None: NOT_SHOWN}[holds]


def vestige(*arguments: object) -> Any:
    return CliRunner().invoke(command, [str(a) for a in arguments], prog_name="vestige")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vestige.cli.lab.EXPERIMENTS", {"toy": TOY})
    done = vestige("lab", "run", "--out", tmp_path, "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "toy: held." in done.output
    assert "12 of 12" in vestige("lab", "list", "--out", tmp_path).output
    assert pa.parquet.read_table(tmp_path / "toy.parquet").num_rows == 12
    refused = vestige("lab", "run", "other", "--out", tmp_path)
    assert refused.exit_code == 2
    assert "NAME='other' is not an experiment; use one of toy" in refused.output


def test_points_have_the_same_parameters_and_names_are_words() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert re.fullmatch(r"[a-z_]+", name)
        assert len({tuple(point) for point in experiment.grid}) == 1, name
        assert len({json.dumps(dict(point)) for point in experiment.grid}) == len(experiment.grid), name
        assert 0 < len(experiment.points(quick=True)) <= len(experiment.grid), name
        assert experiment.claim.endswith("."), name


def test_each_experiment_is_on_the_page_of_the_lab_in_order() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lab.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, flags=re.M) == list(EXPERIMENTS)
