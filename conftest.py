"""Set up before any kernel is loaded: a cache of compiled kernels, files in memory, and reproducible properties."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parent

os.environ["OMP_NUM_THREADS"] = "1"  # two workers share two cores; more threads only wait for each other
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "kernels"))

from vestige._numba import limit_interpretation  # noqa: E402

limit_interpretation(
    0.0
)  # compiled kernels are tested; tests/test_interpretation.py compares them with interpreted ones

MEMORY = Path("/dev/shm")  # noqa: S108  # a commit waits for the disk, which takes most of the time of a test of stores
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("repeatable")
