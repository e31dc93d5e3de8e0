"""The nightly order of README: a shop's nights with late rows, requests, and faults of many kinds."""

from __future__ import annotations

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

import nightly
import vestige.times
from shop import MAX_AGE, Shop, plan_faults, tell_time
from vestige.cli import command
from vestige.cli.group import load_commands
from vestige.store import open_reader

NEAR = 0.01
"""Standard errors that an answer may be off."""


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The clock of the machine, which can be set; the folder is that of the job."""
    load_commands()
    monkeypatch.chdir(tmp_path)
    real, clock = vestige.times.wall_clock, [vestige.times.wall_clock()]
    for module in list(sys.modules.values()):
        if getattr(module, "wall_clock", None) is real:
            monkeypatch.setattr(module, "wall_clock", lambda: clock[0])
    return clock


def call(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], prog_name="vestige")


def list_commands(script: str) -> list[list[str]]:
    """The commands of a script, without comments."""
    lines = [line.partition("#")[0].strip() for line in script.splitlines()]
    return [line.split() for line in lines if line]


def test_the_script_is_one_command() -> None:
    ((program, name, *_),) = list_commands(nightly.read_job()[1])
    assert (program, name) == ("vestige", "nightly")


@pytest.mark.parametrize(("last", "scale"), [(3, 3.0), pytest.param(nightly.NIGHTS, 1.0, marks=pytest.mark.slow(60))])
def test_nights_are_within_a_hundredth_of_a_standard_error(
    tmp_path: Path, clock: list[datetime], last: int, scale: float
) -> None:
    """The nights in one process; the first ones with three times the visits, so that countries close batches."""
    nightly.prepare(tmp_path)
    nights, days = range(1, last + 1), []
    for night in nights:
        clock[0] = datetime.fromisoformat(nightly.tell_time(night))
        days.append(nightly.write_day(tmp_path, night, scale))
        for words in list_commands(nightly.read_job()[1]):
            result = call(*words[1:])
            assert result.exit_code == 0, result.output
    distances = nightly.find_distances(tmp_path / "answers.csv", pd.concat(days))
    assert len(distances) == 5 * 6
    assert max(distances.values()) < NEAR
    receipts = json.loads(call("receipts", "--format", "json").stdout)
    references = [receipt["reference"] for receipt in receipts]
    assert sorted(references) == sorted(f"T-{night}-{i}" for night in nights for i in range(12))


@contextmanager
def have_fault(fault: str | None) -> Iterator[None]:
    """While a disk is full, no file can be written."""
    if fault != "full disk":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def kill_a_night(seconds: float) -> None:
    """Do a night in a process of its own, which is killed after a while."""
    child = os.fork()
    if not child:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
        call("nightly")
        os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # nothing of the other threads is used
@pytest.mark.parametrize(
    ("nights", "faults"), [(30, 6), pytest.param(365, 60, marks=pytest.mark.slow(110))], ids=["month", "year"]
)
def test_nights_with_faults_are_those_of_plain_python(
    tmp_path: Path, clock: list[datetime], nights: int, faults: int
) -> None:
    shop, plan = Shop(tmp_path), plan_faults(nights, faults)
    shop.prepare()
    for night in range(1, nights + 1):
        fault, clock[0] = plan.get(night), tell_time(night)
        shop.write_day(night, fault)
        if fault == "kill":
            kill_a_night(0.02 + 0.15 * (night % 7))
        else:
            with have_fault(fault):
                result = call("nightly")
            wanted = 2 if fault not in (None, "truncated export") else 0
            assert result.exit_code == wanted, (night, fault, result.output)
        shop.note_requests(night, fault)
        shop.mend(fault)
        if fault not in ("kill", "full disk"):
            check_store(shop, night, clock[0])
    check_receipts(shop, nights)
    check_answers(shop)


def check_store(shop: Shop, night: int, now: datetime) -> None:
    """What is held is within the limits, and what has to leave on request is leaving."""
    reader = open_reader(shop.folder / "visits.db")
    people = {reader.pseudonym(f"user{i}@example.org"): f"user{i}@example.org" for i in range(130)}
    for country, (_, state) in reader.snapshot().streams.items():
        assert state.clock.t == shop.counts[night][country]
        held = state.retained
        for number, when, who, leaving in zip(
            held.rounds.tolist(), held.times.tolist(), held.subjects, held.leaving.tolist(), strict=True
        ):
            assert now.replace(tzinfo=None) - when <= MAX_AGE, "it had to be erased for its age"
            wanted = shop.is_leaving(people[who], country, number)
            assert wanted in (None, leaving), (night, country, number)


def check_receipts(shop: Shop, nights: int) -> None:
    """Each line has one receipt, of the night that first carried it out, and is met in time."""
    receipts = json.loads(call("receipts", "--format", "json").stdout)
    lines = {reference: (person, reference) for person, reference in shop.lines if (person, reference) in shop.carried}
    assert sorted(receipt["reference"] for receipt in receipts) == sorted(lines)
    for receipt in receipts:
        requested = datetime.fromisoformat(receipt["requested"])
        assert requested in [tell_time(night) for night in shop.begun[lines[receipt["reference"]]]]
        if requested + MAX_AGE + timedelta(days=3) < tell_time(nights):
            assert receipt["erased"] is not None
            assert datetime.fromisoformat(receipt["erased"]) <= requested + MAX_AGE + timedelta(days=3)


def check_answers(shop: Shop) -> None:
    with (shop.folder / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 5
    for row in rows:
        value, error, number = shop.find_answer(row["stream"], row["metric"])
        assert int(row["counted"]) == number, row
        assert abs(float(row["value"]) - value) < NEAR * error, row


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
