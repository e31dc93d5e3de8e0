"""Run every benchmark and print one table; `make bench` builds the environment with the peers first."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).parent
NOT_BENCHMARKS = {"run", "timing", "peers", "solver_figure", "versions", "limit", "soak"}


def main() -> None:
    """Run the benchmarks named on the command line, default: all, and mark each goal that was missed."""
    sys.path.insert(0, str(HERE))
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_BENCHMARKS)
    print(f"{'benchmark':<12} {'what':<32} {'ours':>24} {'ratio':>9} {'goal':>7}   peer")
    for name in names:
        for row in importlib.import_module(name).rows():
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            missed = "  MISSED" if row.ratio is not None and row.ratio < row.goal else ""
            print(
                f"{name:<12} {row.what:<32} {row.ours:>24} {ratio:>9} {row.goal:>7g}   {row.peer}{missed}", flush=True
            )


if __name__ == "__main__":
    main()
