"""The nightly job of README: forty files, five countries, four metrics, deletions and late rows, in five commands."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import nightly
import vestige.times
from vestige.cli import command
from vestige.cli.group import load_commands

NEAR = 0.01
"""Standard errors that an answer may be off."""


def list_commands(script: str) -> list[list[str]]:
    """The commands of a script, without comments and options of the shell."""
    lines = [line.partition("#")[0].strip() for line in script.splitlines()]
    return [shlex.split(line) for line in lines if line and not line.startswith("set ")]


def test_the_script_has_at_most_five_commands() -> None:
    commands = list_commands(nightly.read_job()[1])
    assert len(commands) <= 5
    assert {words[0] for words in commands} == {"vestige"}


@pytest.mark.parametrize(("last", "scale"), [(3, 3.0), pytest.param(nightly.NIGHTS, 1.0, marks=pytest.mark.slow(60))])
def test_nights_are_within_a_hundredth_of_a_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int, scale: float
) -> None:
    """The nights in one process; the first ones with three times the visits, so that countries close batches."""
    load_commands()
    nightly.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    real, clock, nights = vestige.times.wall_clock, [vestige.times.wall_clock()], range(1, last + 1)
    for module in list(sys.modules.values()):
        if getattr(module, "wall_clock", None) is real:
            monkeypatch.setattr(module, "wall_clock", lambda: clock[0])
    days = []
    for night in nights:
        clock[0] = datetime.fromisoformat(nightly.tell_time(night))
        days.append(nightly.write_day(tmp_path, night, scale))
        for words in list_commands(nightly.read_job()[1]):
            result = CliRunner().invoke(command, words[1:], prog_name="vestige")
            assert result.exit_code == 0, result.output
    distances = nightly.find_distances(tmp_path / "answers.csv", pd.concat(days))
    assert len(distances) == 5 * 6
    assert max(distances.values()) < NEAR
    receipts = json.loads(CliRunner().invoke(command, ["receipts", "--format", "json"]).stdout)
    assert {receipt["reference"] for receipt in receipts} == {f"T-{night}-{i}" for night in nights for i in range(12)}


@pytest.mark.slow(60)
def test_a_job_that_is_killed_and_runs_again_counts_each_row_once(tmp_path: Path) -> None:
    """As a scheduler runs it, in processes, with `kill -9` in the middle of three nights."""
    environment, days, killed = nightly.prepare(tmp_path), [], (3, 6, 9)
    for night in range(1, 11):
        days.append(nightly.write_day(tmp_path, night))
        clock = environment | {"NOW": nightly.tell_time(night)}
        if night in killed:
            _kill_in_the_middle(tmp_path, clock)
        subprocess.run(["sh", "nightly.sh"], cwd=tmp_path, env=clock, check=True, capture_output=True)
    distances = nightly.find_distances(tmp_path / "answers.csv", pd.concat(days))
    assert len(distances) == 5 * 6
    assert max(distances.values()) < NEAR


def _kill_in_the_middle(folder: Path, environment: dict[str, str]) -> None:
    """Kill the job while it reads: as soon as the store has changed."""
    store = folder / "visits.db"
    before = store.read_bytes()
    job = subprocess.Popen(
        ["sh", "nightly.sh"],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while store.read_bytes() == before and job.poll() is None:
        time.sleep(0.002)
    assert job.poll() is None, "it ended before it was killed"
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
