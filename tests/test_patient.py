"""A policy that waits a thousand records before it keeps something is caught, wherever it keeps it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import patient
from vestige.checks import check_policy
from vestige.errors import CheckError


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", "import json, patient; print(json.dumps(patient.find_all()))"],
        env=os.environ | {"PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    said: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.parametrize("place", patient.PLACES)
def test_what_is_kept_is_found_wherever_it_is(found: dict[str, str], place: str) -> None:
    assert found[place].startswith(("Patient keeps something", "Patient reaches outside")), found[place]


@pytest.mark.parametrize("method", patient.METHODS)
def test_what_is_hoarded_in_a_method_is_found(found: dict[str, str], method: str) -> None:
    assert found[method].startswith("InMethod keeps something"), found[method]


@pytest.mark.parametrize("place", patient.BEYOND)
def test_what_cannot_be_found_is_known(found: dict[str, str], place: str) -> None:
    """If one of them is found one day, the docs can be mended."""
    assert found[place] == ""


@pytest.mark.parametrize("method", ["update_many", "rewrite"])
def test_the_whole_check_finds_it_too(method: str) -> None:
    try:
        with pytest.raises(CheckError, match="keeps something: what can be reached from"):
            check_policy(patient.InMethod(method))
    finally:
        patient.InMethod.seen.clear()
