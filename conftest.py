"""Set up before any kernel is loaded: a cache of compiled kernels that cannot be stale, and reproducible properties."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parent

# Numba looks only at the file of the kernel itself, not at those of the kernels that it calls.
_digest = hashlib.sha256()
for _path in sorted((ROOT / "src").rglob("*.py")):
    _source = _path.read_bytes()
    if b"import kernel" in _source or _path.match("vestige/_numba.py") or _path.match("random/keys.py"):
        _digest.update(_source)
os.environ["OMP_NUM_THREADS"] = "1"  # two workers share two cores; more threads only wait for each other
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "kernels" / _digest.hexdigest()[:16]))

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("repeatable")
