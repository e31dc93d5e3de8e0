"""Records a second of this checkout and of another one, in turns: `python benchmarks/versions.py PATH_OF_OTHER`.

Each measurement is a process of its own, the two checkouts alternate, and the best of several counts; kernels are
compiled before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
CASES = [("bits", 1, 96), ("auto", 1, 96), ("average", 1, 96), ("bits", 1, 56), ("bits", 16, 2048), ("auto", 16, 2048)]
TURNS = 5
PROGRAM = """
import json, sys, time
import numpy as np
from vestige import Mean, Stream
results = []
for channel, dim, retention in json.loads(sys.argv[1]):
    rows = np.random.default_rng(0).normal(10.0, 1.0, (2_000_000 // dim, dim))
    stream = Stream(Mean(dim, channel=channel), retention=retention, seed=0)
    stream.extend(rows[: 4 * retention])
    start = time.process_time()
    stream.extend(rows)
    results.append(len(rows) / (time.process_time() - start))
print(json.dumps(results))
"""


def measure(checkout: Path) -> list[float]:
    """Run all cases once."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "NUMBA_CACHE_DIR": str(checkout / ".cache" / "b")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CASES)], env=environment, capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout))


def main(other: Path) -> None:
    """Print the ratio of the best times of both checkouts."""
    ours, theirs = [], []
    for _ in range(TURNS):
        ours.append(measure(HERE))
        theirs.append(measure(other))
    for case, mine, old in zip(CASES, zip(*ours, strict=True), zip(*theirs, strict=True), strict=True):
        channel, dim, retention = case
        print(
            f"{channel:8} dim {dim:2} retention {retention:5}: {max(mine):12,.0f} records/s, other {max(old):12,.0f}, "
            f"ratio {max(mine) / max(old):.2f}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
