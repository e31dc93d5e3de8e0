"""Kernels are loaded before rows come and records are due, whatever the limits are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from datetime import UTC, datetime, timedelta
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
limits = {"retention": int(sys.argv[1])} if sys.argv[1] != "age" else {"max_age": timedelta(hours=1)}
definition = Definition(name="a", columns=("x",), channel=sys.argv[2], subject="who", seed=0, **limits)
engine = Engine(MemoryStore())
engine.start()
if sys.argv[3] == "prepared":
    engine.prepare(definition).result()
engine.submit(lambda: engine.catalog.create(definition)).result(60)
before = count()
rows = np.random.default_rng(1).normal(size=(400, 1))
block = Block(rows, np.arange(1, 401), [b""] * 400, read=400)
if sys.argv[1] != "age":
    engine.take_rows("a", block, "key", b"12345678").result(200)

def erase(streams):
    for step in range(40):
        at, people = begun + timedelta(minutes=7 * step), [f"p{i}" for i in range(100)]
        times = np.full(40, np.datetime64(at.replace(tzinfo=None), "us"))
        streams.take([f"k{i % (step + 1)}" for i in range(40)], rows[:40], times=times, subjects=people[:40])
        streams.sweep(at)
        streams.forget(subject=f"p{step}", now=bool(step % 2))

begun = datetime.now(UTC) - timedelta(days=1)
if sys.argv[1] == "age":
    engine.submit(lambda: erase(engine.catalog.find("a").streams)).result(200)
engine.stop()
print(count() - before)
"""


def count_late(limit: str, channel: str, state: str) -> int:
    """Count the kernels that are loaded while rows or erasures wait."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, limit, channel, state],
        env=os.environ,
        capture_output=True,
        check=True,
        text=True,
        timeout=200,
    )
    return int(done.stdout)


@pytest.mark.parametrize(("limit", "channel"), [("50", "auto"), ("128", "bits"), ("age", "auto"), ("age", "bits")])
def test_no_kernel_is_loaded_while_rows_or_erasures_wait(limit: str, channel: str) -> None:
    assert count_late(limit, channel, "prepared") == 0


def test_kernels_are_loaded_late_without_it() -> None:
    assert count_late("50", "auto", "not prepared") > 0
