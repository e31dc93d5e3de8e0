"""Run every benchmark and print one table; `make bench` builds the environment with the peers first.

`make bench SHORT=1` runs each for moments, to see that all of them work. `PYTHONPATH=OTHER/src .venv-bench/bin/python
benchmarks/run.py NAME` measures another checkout of the source with the same scripts.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).parent
OTHERS = {"run", "timing", "peers", "solver_figure", "versions", "limit", "soak", "accelerator", "spark"}
"""What is no benchmark of this table: parts of it, and what needs an hour, a GPU, Java or another checkout."""


def main() -> None:
    """Run the benchmarks, and mark each goal that was missed; the exit status is 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmark to run; default: all")
    parser.add_argument("--short", action="store_true", help="run each for moments, and judge no figure")
    given = parser.parse_args()
    if given.short:
        os.environ["VESTIGE_SHORT_BENCH"] = "1"  # which processes that they start inherit
    sys.path.insert(0, str(HERE))
    names = given.names or sorted(path.stem for path in HERE.glob("*.py") if path.stem not in OTHERS)
    print(f"{'benchmark':<14} {'what':<32} {'ours':>24} {'ratio':>9} {'goal':>7}   peer")
    failed = [name for name in names if not run(name, judge=not given.short)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run(name: str, *, judge: bool) -> bool:
    """Print the rows of a benchmark; one that fails is one line, and the others still run."""
    try:
        for row in importlib.import_module(name).rows():
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            missed = "  MISSED" if judge and row.ratio is not None and row.ratio < row.goal else ""
            print(
                f"{name:<14} {row.what:<32} {row.ours:>24} {ratio:>9} {row.goal:>7g}   {row.peer}{missed}", flush=True
            )
    except Exception as reason:
        text = " ".join(str(reason).split())
        print(f"{name:<14} FAILED: {type(reason).__name__}: {text[:200]}", flush=True)
        return False
    return True


if __name__ == "__main__":
    main()
