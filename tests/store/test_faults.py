"""Writes that fail, and processes that are killed at one: nothing is lost, and stream and store go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def run(shim: Path, program: str, *arguments: object) -> Any:
    """What a program says that tries each way in turn, in one process, since a new one takes a second to start."""
    done = subprocess.run(
        [sys.executable, HERE / program, *map(str, arguments)],
        env=os.environ | {"LD_PRELOAD": str(shim)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    print(told)
    return told


@pytest.mark.parametrize(
    "how",
    [
        (),
        ("sealed",),
        pytest.param(("thorough",), marks=pytest.mark.slow(30)),
        pytest.param(("thorough", "sealed"), marks=pytest.mark.slow(30)),
    ],
)
def test_a_write_that_fails_loses_nothing(shim: Path, tmp_path: Path, how: tuple[str, ...]) -> None:
    told = run(shim, "faulty.py", tmp_path, *how)
    assert told.keys() == {"extend", "flush", "add", "drop", "tidy", "name", "forget"}
    for way, counts in told.items():
        assert counts["injected"] >= 10, way
        assert counts["raised"] >= counts["injected"] / 4, way


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_write_leaves_a_store_that_works(shim: Path, tmp_path: Path, step: int) -> None:
    kills = run(shim, "killed.py", tmp_path, step)
    assert kills.keys() == {"make", "name", "renew", "replace", "remove"}
    assert min(kills.values()) >= 3, kills


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_while_keys_are_rotated_leaves_a_store_that_its_keyring_opens(
    shim: Path, tmp_path: Path, step: int
) -> None:
    kills = run(shim, "rotated.py", tmp_path, step)
    assert kills.keys() == {"renew", "change"}
    assert min(kills.values()) >= 5, kills


@pytest.mark.parametrize("kind", ["clear", "sealed"])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_rows_that_a_service_is_sent_until_it_answers_count_once(
    shim: Path, tmp_path: Path, step: int, kind: str
) -> None:
    told = run(shim, "served_faulty.py", tmp_path, step, kind)
    assert told["tried"] >= 4
    assert told["killed"] == told["tried"]
    assert told["failed"] >= told["tried"] / 4
