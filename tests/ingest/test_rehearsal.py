"""Kernels are loaded before a run by key writes, so that it does not hold the store while they are compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from collections.abc import Iterator
from contextlib import contextmanager
import numpy as np
from vestige import KeyedStreams, Mean, MemoryStore
from vestige import _numba
from vestige.ingest import Ingest, StreamNames, by_key
from vestige.sources import Block, Source

class Rows(Source):
    name = "rows:"

    def order(self, position):
        return int(position or b"0")

    def blocks(self, position=b""):
        rng = np.random.default_rng(1)
        for start in range(self.order(position), 12_000, 4_000):
            ends = range(start + 1, start + 4_001)
            keys = np.array([f"k{i}" for i in range(40)], object)
            yield Block(rng.normal(size=(4_000, 1)), np.array(ends), [str(end).encode() for end in ends], keys=keys,
                        codes=rng.integers(0, 40, 4_000), read=4_000)

def count():
    kernels = [each for each in gc.get_objects() if type(each).__module__ == _numba.__name__]
    return sum(len(each.__dict__["_dispatcher"].overloads) for each in kernels if "_dispatcher" in each.__dict__)

late = 0

class Watched(MemoryStore):
    @contextmanager
    def transaction(self):
        global late
        with super().transaction():
            before = count()
            yield
            late += count() - before

if sys.argv[2] == "without":
    by_key.rehearse = lambda *_: None
with Watched() as store:
    streams = KeyedStreams(Mean(), retention=int(sys.argv[1]), seed=0, store=store.family())
    Ingest(Rows(), streams, StreamNames("k"), store, warn=lambda _: None).run()
    assert sum(streams.counts().t.tolist()) == 12_000
print(late)
"""


def count_late(retention: int, how: str) -> int:
    """Count the kernels that are loaded while the store is held."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(retention), how],
        env=os.environ,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("retention", [50, 256])
def test_no_kernel_is_loaded_while_the_store_is_held(retention: int) -> None:
    assert count_late(retention, "with") == 0


def test_kernels_are_loaded_late_without_it() -> None:
    assert count_late(256, "without") > 0
