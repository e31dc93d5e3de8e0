"""A benchmark that fails is one line of the table, and the others still run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
BROKEN = "def rows():\n    raise ValueError('no such\\n thing')\n"
FINE = """
from timing import Row, choose

def rows():
    return [Row('this', choose('long', 'short'), 'that', 0.5, 1.0)]
"""


def test_a_benchmark_that_fails_is_one_line(tmp_path: Path) -> None:
    for name, text in (("broken", BROKEN), ("fine", FINE)):
        (tmp_path / f"{name}.py").write_text(text)
    for options, said in (([], "fine this long 0.50 1 that MISSED"), (["--short"], "fine this short 0.50 1 that")):
        done = subprocess.run(
            [sys.executable, BENCHMARKS / "run.py", *options, "missing", "broken", "fine"],
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        _, missing, broken, fine = (" ".join(line.split()) for line in done.stdout.splitlines())
        assert missing == "missing FAILED: ModuleNotFoundError: No module named 'missing'"
        assert broken == "broken FAILED: ValueError: no such thing"
        assert fine == said
        assert done.returncode == 1
        assert done.stderr == "failed: missing, broken\n"


def test_what_is_no_benchmark_of_the_table_is_there() -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import run  # noqa: PLC0415
    finally:
        sys.path.remove(str(BENCHMARKS))
    for path in BENCHMARKS.glob("*.py"):
        assert ("def rows(" in path.read_text()) == (path.stem not in run.OTHERS - {"soak"}), path
