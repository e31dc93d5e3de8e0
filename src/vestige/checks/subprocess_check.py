"""A policy in a fresh process must reply as before, and change nothing outside its return value.

The process reads a pickled case from standard input and writes the fault that it finds to standard output.
Guarantee: finds files, processes and settings that a policy changes; held by tests/test_checks.py and
tests/test_patient.py.
"""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from vestige._numba import limit_interpretation
from vestige.checks.environment import find_changes, take_survey
from vestige.checks.fingerprint import take_fingerprints
from vestige.checks.traces import Exchange, record_exchanges, replay
from vestige.errors import CheckError
from vestige.policy import Policy
from vestige.types import Floats

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR
_KERNEL_CACHE = tuple(filter(None, (".nbi", ".nbc", "__pycache__", os.environ.get("NUMBA_CACHE_DIR"))))
_OUTSIDE_EVENTS = (
    *(
        "os.mkdir",
        "os.mkfifo",
        "os.mknod",
        "os.rename",
        "os.link",
        "os.symlink",
        "os.remove",
        "os.rmdir",
        "os.truncate",
    ),
    *("os.utime", "os.chmod", "os.chown", "os.lchown", "os.chflags", "os.setxattr", "os.removexattr", "os.lockf"),
    *("os.putenv", "os.unsetenv", "os.chdir", "os.fchdir", "os.chroot", "os.kill", "os.killpg", "pty.spawn"),
    *("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "subprocess.Popen"),
    *("socket.", "sqlite3.connect", "mmap.", "shutil.", "tempfile.", "syslog.", "fcntl.", "urllib.", "http."),
)
"""Events that change something outside the process, or send something there."""
_INSIDE_EVENTS = (
    *("sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile", "sys.addaudithook"),
    *("gc.get_", "ctypes.", "signal.", "_thread.start_new_thread", "resource.", "object.__setattr__", "code.__new__"),
)
"""Events that reach beyond the arguments inside the process; kernels raise some of them too, while they load."""


@dataclass(frozen=True, slots=True)
class Case:
    """What to ask a policy in a fresh process.

    Attributes:
        exchanges: questions, with the replies to expect.
        batch: number of records in a batch.
        rows: records to run the policy over; shape (n, columns).
        seed: seed of the coins and requests.
    """

    exchanges: list[Exchange]
    batch: int
    rows: Floats
    seed: int


def check_in_subprocess(policy: bytes, exchanges: Sequence[Exchange], batch: int, rows: Floats, seed: int) -> None:
    """Ask a policy all questions again in a fresh process, then run it over records and watch what it changes.

    Args:
        policy: pickled policy.
        exchanges: questions, with the replies to expect.
        batch: number of records in a batch.
        rows: records to run the policy over; shape (n, columns).
        seed: seed of the coins and requests.

    Raises:
        CheckError: if the policy breaks the model there, or the process fails.
    """
    case = pickle.dumps(Case(list(exchanges), batch, rows, seed))
    done = subprocess.run(
        [sys.executable, "-c", "from vestige.checks.subprocess_check import main; main()"],
        input=len(policy).to_bytes(8, "little") + policy + case,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    if done.returncode:
        kind = done.stderr.decode().strip().splitlines()[-1].partition(":")[0]  # the rest may contain a record's value
        raise CheckError(
            f"the policy could not be run in a fresh process ({kind}); import its module in a new interpreter to see "
            "why"
        )
    if done.stdout:
        raise CheckError(done.stdout.decode())


def main() -> None:
    """Write the fault, or nothing; runs in the fresh process."""
    raw = sys.stdin.buffer.read()
    size = int.from_bytes(raw[:8], "little")
    sys.stdout.write(find_faults(raw[8 : 8 + size], pickle.loads(raw[8 + size :])))  # noqa: S301


def find_faults(policy: bytes, case: Case) -> str:
    """Find a fault of a policy; to be called once in a process, which is watched from then on.

    Args:
        policy: pickled policy.
        case: what to ask it.

    Returns:
        A sentence that describes the fault; empty if there is none.
    """
    sys.dont_write_bytecode = True  # or a module that it is the first to import would count as a file that it writes
    import vestige._compilation  # noqa: F401, PLC0415  # or a policy would seem to load it

    limit_interpretation(0.0)
    watch = _Watch()
    sys.addaudithook(watch)
    watch.events = _OUTSIDE_EVENTS
    try:
        return _find_faults(pickle.loads(policy), case, watch)  # noqa: S301
    except CheckError as failed:
        return str(failed)
    finally:
        watch.events = ()


def _find_faults(policy: Policy, case: Case, watch: _Watch) -> str:
    """Ask the policy, run it, and compare its environment before and after."""
    name = type(policy).__name__
    replay(policy, case.exchanges, f"{name} depends on the process it runs in", "in a fresh one")
    half = len(case.rows) // 2
    record_exchanges(policy, case.batch, case.rows[:half], case.seed)
    watch.events = ()
    take_survey()  # loads what is loaded on first use
    before = take_survey(), take_fingerprints(policy)
    watch.events = _OUTSIDE_EVENTS + _INSIDE_EVENTS
    record_exchanges(policy, case.batch, case.rows[half:], case.seed + 1)
    watch.events = ()
    after = take_survey(), take_fingerprints(policy)
    if watch.touched:
        return f"{name} reaches outside its return value ({watch.touched[0]}); a policy must not store anything"
    changed = find_changes(before[1], after[1]) or find_changes(before[0], after[0])
    if changed:
        return f"{name} keeps something: {changed[0]} changed while it ran in a fresh process"
    return ""


@dataclass(slots=True, eq=False)
class _Watch:
    """Records interpreter events that begin with one of `events`; writing the cache of kernels is allowed."""

    events: tuple[str, ...] = ()
    touched: list[str] = field(default_factory=list)

    def __call__(self, event: str, details: tuple[object, ...]) -> None:
        events = self.events
        writes = event == "open" and len(details) > 2 and isinstance(details[2], int) and details[2] & _WRITE_FLAGS
        if not events or not (writes or event.startswith(events)):
            return
        self.events = ()  # the lines below raise events too
        names = [os.fsdecode(detail) for detail in details if isinstance(detail, str | bytes | os.PathLike)]
        if not any(mark in name for name in names for mark in _KERNEL_CACHE) and not _is_compiling():
            self.touched.append(event)
        self.events = events


def _is_compiling() -> bool:
    """Return whether a kernel is being compiled or loaded, which may happen late."""
    frame = inspect.currentframe()
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith(("numba.", "llvmlite.")):
        frame = frame.f_back
    return frame is not None
