"""Nothing grows with the stream."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource, sys
import numpy as np
from vestige import Mean, Stream
stream = Stream(Mean(), retention=96, seed=0)
rng = np.random.default_rng(0)
for _ in range(int(sys.argv[1])):
    stream.extend(rng.normal(size=100_000))
assert stream.t == 100_000 * int(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_kilobytes(hundred_thousands: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(hundred_thousands)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_one_million_and_ten_million_records_take_the_same_memory() -> None:
    peak_kilobytes(1)  # compiles the kernels, where they are not cached yet
    few, many = peak_kilobytes(10), peak_kilobytes(100)
    assert many < few + 8 * 1024, "less than a byte per record more"
