"""Time and space of `Memory` for long states, per bit: both are linear in the batch, with and without wet records."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from timing import Row, choose
from vestige import Clock, Memory, Records
from vestige.channels.syndrome import make_code
from vestige.types import Floats

SIZES = choose((10_000, 20_000, 40_000), (2_000, 4_000))
REPEATS = choose(9, 1)
GOAL = 0.7
"""How much slower per bit than at the first of these sizes is acceptable: larger ones leave the caches."""


def rows() -> list[Row]:
    """Update once and read the state again, with a tenth of the records wet, and with none."""
    results = []
    for name, share in (("dry", 0.0), ("wet", 0.1)):
        taken = {bits: _time_update(bits, share) for bits in SIZES}
        for bits in SIZES:
            space = sum(part.nbytes for part in make_code(bits + 1)) / 1e6
            ours, ratio = f"{taken[bits] * 1e3:.1f} ms, {space:.1f} MB", taken[SIZES[0]] * bits / SIZES[0] / taken[bits]
            results.append(Row(f"{bits:,} bits, {name}", ours, f"as many times {SIZES[0]:,} bits", ratio, GOAL))
    return results


def count_records(state: bytes, rows: Floats) -> bytes:
    """The number of records, in the lowest bytes of a long state."""
    return (int.from_bytes(state[:8], "little") + len(rows)).to_bytes(8, "little") + state[8:]


def get_count(state: bytes) -> int:
    """The number of records."""
    return int.from_bytes(state[:8], "little")


def _time_update(bits: int, share: float) -> float:
    """The median processor time of what a stream does at an update, and of an answer after it."""
    rng = np.random.default_rng(0)
    policy = Memory(bits, count_records, get_count, start=rng.bytes(bits // 8))
    length, nothing, times = policy.min_batch, Records.empty(1), []
    arrivals = Records(np.arange(1, length + 1), np.zeros((length, 1)), rng.random(length) < share)
    for _ in range(REPEATS + 1):
        started = time.process_time()
        policy.can_encode(Clock(t=length), arrivals.rounds, arrivals.leaving)
        kept = arrivals.where(policy.update(Clock(t=length), nothing, arrivals, 0))
        policy.answer(Clock(t=length, first=1, last=length), kept)
        times.append(time.process_time() - started)
    return median(times[1:])  # the first one compiles
