"""Kernels are loaded before rows come, whatever the retention is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
import numpy as np
from vestige import _numba
from vestige.ingest.definition import Definition
from vestige.service.engine import Engine
from vestige.sources.block import Block
from vestige.store import MemoryStore

def count():
    kernels = [each for each in gc.get_objects() if type(each).__module__ == _numba.__name__]
    return sum(len(each.__dict__["_dispatcher"].overloads) for each in kernels if "_dispatcher" in each.__dict__)

_numba.limit_interpretation(0.0)
definition = Definition(name="a", columns=("x",), retention=int(sys.argv[1]), channel=sys.argv[2], seed=0)
engine = Engine(MemoryStore())
engine.start()
if sys.argv[3] == "prepared":
    engine.prepare([definition])
engine.submit(lambda: engine.catalog.create(definition)).result(60)
before = count()
rows = np.random.default_rng(1).normal(size=(400, 1))
block = Block(rows, np.arange(1, 401), [b""] * 400, read=400)
engine.take_rows("a", block, "key", b"12345678").result(200)
engine.stop()
print(count() - before)
"""


def count_late(retention: int, channel: str, state: str) -> int:
    """Count the kernels that are loaded while rows wait."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(retention), channel, state],
        env=os.environ,
        capture_output=True,
        check=True,
        text=True,
        timeout=200,
    )
    return int(done.stdout)


@pytest.mark.parametrize(("retention", "channel"), [(50, "auto"), (128, "bits")])
def test_no_kernel_is_loaded_while_rows_wait(retention: int, channel: str) -> None:
    assert count_late(retention, channel, "prepared") == 0


def test_kernels_are_loaded_late_without_it() -> None:
    assert count_late(50, "auto", "not prepared") > 0
