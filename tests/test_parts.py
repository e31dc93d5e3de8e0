"""Parts of the tests are disjoint, complete, the same each time, and take equally long."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parts import divide

ROOT = Path(__file__).parents[1]
FILES = ("tests/theory", "tests/subset/test_tail.py", "tests/test_checks.py")


@pytest.mark.parametrize("seed", range(5))
def test_each_test_is_in_one_part_and_parts_take_equally_long(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    seconds = {f"test {i}": rng.choice([2.0, 2.0, 20.0, 100.0]) for i in range(rng.randint(1, 200))}
    parts = divide(seconds, 4)
    assert sorted(name for part in parts for name in part) == sorted(seconds)
    loads = [sum(seconds[name] for name in part) for part in parts]
    assert max(loads) - min(loads) <= max(seconds.values())
    shuffled = rng.sample(list(seconds), len(seconds))
    assert divide({name: seconds[name] for name in shuffled}, 4) == parts


def collect(*options: str) -> list[str]:
    """The slow tests of some files."""
    line = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "slow", *FILES, *options]
    done = subprocess.run(line, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True)
    return re.findall(r"^tests/.*::.*$", done.stdout, re.MULTILINE)


@pytest.mark.slow(20)
def test_the_option_runs_each_test_in_one_part() -> None:
    found = [name for part in range(1, 5) for name in collect("--part", f"{part}/4")]
    assert sorted(found) == sorted(collect())
    assert len(found) > 20


@pytest.mark.slow(3)
def test_what_is_no_part_is_refused(pytestconfig: pytest.Config) -> None:
    line = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/test_parts.py", "--part", "5/4"]
    done = subprocess.run(line, cwd=pytestconfig.rootpath, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--part=5/4 is not one of several parts; use one such as 2/4" in done.stdout + done.stderr
