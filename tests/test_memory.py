"""Nothing grows with the stream."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from vestige import Mean, Stream
stream = Stream(Mean(), retention=96, seed=0)
rng = np.random.default_rng(0)
for hundred_thousands in map(int, sys.argv[1:]):
    while stream.t < hundred_thousands * 100_000:
        stream.extend(rng.normal(size=100_000))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_kilobytes(*hundred_thousands: int) -> list[int]:
    """How much memory a process has used at most after so many records."""
    command = [sys.executable, "-c", PROGRAM, *map(str, hundred_thousands)]
    return [int(line) for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


@pytest.mark.slow
def test_half_a_million_and_two_million_records_take_the_same_memory() -> None:
    peak_kilobytes(1)  # compiles the kernels, which takes memory, where they are not cached yet
    few, many = peak_kilobytes(5, 20)
    assert (many - few) * 1024 < 1_500_000, "less than a byte for each record more"
