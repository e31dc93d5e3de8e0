"""No honest policy is accused, in a fresh process and in one that has checked others before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import honest
from vestige.checks import check_policy
from vestige.policy import Policy

FAST = (honest.Subclass, honest.CacheOfKept, honest.WarnsSeldom)


def each(kinds: Iterable[type[Policy]]) -> list[object]:
    return [pytest.param(kind, marks=[] if kind in FAST else [pytest.mark.slow]) for kind in kinds]


def test_there_are_forty() -> None:
    assert len(honest.POLICIES) >= 40


@pytest.mark.parametrize("kind", each(honest.POLICIES))
@pytest.mark.filterwarnings("ignore")  # which some of them give
def test_it_passes_where_others_were_checked(kind: type[Policy]) -> None:
    check_policy(kind())


@pytest.mark.parametrize("kind", each(honest.POLICIES))
def test_it_passes_in_a_fresh_process(kind: type[Policy]) -> None:
    """Where nothing is imported, compiled, cached or filled yet."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import honest\nhonest.check(honest.{kind.__name__}())"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
