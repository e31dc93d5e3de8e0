"""A policy that waits a thousand records before it keeps something is caught, wherever it keeps it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import patient
from vestige.checks import check_policy, survey
from vestige.errors import CheckError

ALIKE = (
    *("a class variable with an underscore", "the class's docstring", "a function's annotations", "a counter"),
    *("a hash", "a file's mode", "a file's attributes", "a library's table", "a library's function"),
    *("the calling stream", "the environment of the process", "what is called at exit", "numpy's print options"),
    *("the recursion limit", "the interpreter's tables", "a finalizer", "the decimal context", "answer"),
    *("the number of open files", "a file that is named like a kernel", "an attribute of a library's function"),
    *("another name of a module", "the signals that wait", "an alarm", "a limit of csv", "a hash of another kind"),
    "the lines of files that errors show",
    *("how far a list has grown", "in which of a few bins it falls", "a class that is dropped"),
    *("where nobody checks", "freed memory", "the manager of loggers", "random", "the locale"),
    *("a method's attribute", "a variable of a base class", "a generator", "a variable of a thread", "a pipe"),
    *("numpy.random", "a module made up", "a library's variable", "a signal handler", "a timer", "the environment"),
    *("a function's constants", "a buffer", "a cycle", "a logger", "the umask", "a library's class"),
    *("the working directory", "a context variable", "a limit of the process", "when a file was read last", "rewrite"),
)
"""What is found, or not, in the same way as another that is tried in the fast tests."""


def each(names: Iterable[str]) -> list[object]:
    return [pytest.param(name, marks=[pytest.mark.slow] if name in ALIKE else []) for name in names]


def find(name: str) -> str:
    """What is found against this place or method, in a process of its own."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", f"import patient; patient.print_fault({name!r})"],
        env=os.environ | {"PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", each(patient.PLACES))
def test_what_is_kept_is_found_wherever_it_is(name: str) -> None:
    found = find(name)
    assert found.startswith(("Patient keeps something", "Patient reaches outside")), found


@pytest.mark.parametrize("name", each(patient.METHODS))
def test_what_is_hoarded_in_a_method_is_found(name: str) -> None:
    assert find(name).startswith("InMethod keeps something of the records in its class:")


@pytest.mark.parametrize("name", each(patient.BEYOND))
def test_what_cannot_be_found_is_known(name: str) -> None:
    """If one of them is found one day, the docs can be mended."""
    assert find(name) == ""


@pytest.mark.parametrize("method", ["update_many", "rewrite"])
def test_the_whole_check_finds_it_too(method: str) -> None:
    try:
        with pytest.raises(CheckError, match="keeps something of the records in its class:"):
            check_policy(patient.InMethod(method))
    finally:
        patient.InMethod.seen.clear()


def test_what_is_too_much_to_look_into_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was left out, with all that came after it."""
    monkeypatch.setattr(survey, "_MOST_OBJECTS", 1_000)
    with pytest.raises(CheckError, match="more than 1,000 objects, too many to look into; keep large tables in arrays"):
        survey.take_survey(patient.Patient(), survey.measure_files())
