"""A policy in a fresh process: it must say the same there, and touch nothing but what it returns.

Run as a module, it reads a pickled case from standard input and writes what it found to standard output.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from vestige.checks.traces import Exchange, ask_again, trace
from vestige.errors import CheckError
from vestige.policy import Policy
from vestige.records import Floats

_WRITES = os.O_WRONLY | os.O_RDWR
_KERNEL_CACHE = tuple(filter(None, (".nbi", ".nbc", "__pycache__", os.environ.get("NUMBA_CACHE_DIR"))))
_OUTSIDE = (
    "os.mkdir",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.putenv",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.",
    "sqlite3.connect",
    "mmap.",
    "shutil.",
    "tempfile.",
)


@dataclass(frozen=True, slots=True)
class Case:
    """What the fresh process needs: where to import from, the policy, and what to ask it."""

    path: list[str]
    policy: bytes
    exchanges: list[Exchange]
    batch: int
    rows: Floats
    seed: int


def ask_elsewhere(policy: bytes, exchanges: Sequence[Exchange], batch: int, rows: Floats, seed: int) -> None:
    """Put all questions to the pickled policy in a fresh process, then run it over `rows`, watched."""
    case = pickle.dumps(Case(sys.path, b"", list(exchanges), batch, rows, seed))
    done = subprocess.run(
        [sys.executable, "-c", "from vestige.checks.elsewhere import main; main()"],
        input=len(policy).to_bytes(8, "little") + policy + case,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    if done.returncode:
        raise CheckError(f"a fresh process could not ask the policy: {done.stderr.decode().strip().splitlines()[-1]}")
    if done.stdout:
        raise CheckError(done.stdout.decode())


def main() -> None:
    """In the fresh process: write what is wrong, or nothing."""
    raw = sys.stdin.buffer.read()
    size = int.from_bytes(raw[:8], "little")
    case: Case = pickle.loads(raw[8 + size :])  # noqa: S301
    touched: list[str] = []
    sys.addaudithook(lambda event, details: _watch(event, details, touched))
    policy: Policy = pickle.loads(raw[8 : 8 + size])  # noqa: S301
    name = type(policy).__name__
    try:
        ask_again(policy, case.exchanges, f"{name} depends on the process it runs in", "in a fresh one")
        trace(policy, case.batch, case.rows, case.seed)
    except CheckError as found:
        sys.stdout.write(str(found))
        return
    if touched:
        sys.stdout.write(f"{name} reaches outside its return value ({touched[0]}); a policy may keep nothing anywhere")


def _watch(event: str, details: tuple[object, ...], touched: list[str]) -> None:
    """Note what could carry something out of the process; the cache of compiled kernels may be written."""
    if any(mark in str(detail) for detail in details for mark in _KERNEL_CACHE):
        return
    if (
        event == "open" and len(details) > 2 and isinstance(details[2], int) and details[2] & _WRITES
    ) or event.startswith(_OUTSIDE):
        touched.append(event)
