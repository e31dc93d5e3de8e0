"""Set up before any kernel is loaded: a cache of compiled kernels, and reproducible properties."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parent

os.environ["OMP_NUM_THREADS"] = "1"  # two workers share two cores; more threads only wait for each other
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "kernels"))

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("repeatable")
