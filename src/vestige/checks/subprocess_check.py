"""A policy in a fresh process: it must say the same there, and touch nothing but what it returns.

Run as a module, it reads a pickled case from standard input and writes what it found to standard output.
"""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from vestige.checks.environment import changes, survey
from vestige.checks.fingerprint import fingerprints
from vestige.checks.traces import Exchange, ask_again, trace
from vestige.errors import CheckError
from vestige.policy import Policy
from vestige.types import Floats

_WRITES = os.O_WRONLY | os.O_RDWR
_KERNEL_CACHE = tuple(filter(None, (".nbi", ".nbc", "__pycache__", os.environ.get("NUMBA_CACHE_DIR"))))
_OUTSIDE = (
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
"""What changes something outside the process, or takes it there."""
_AROUND = (
    *("sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile", "sys.addaudithook"),
    *("gc.get_", "ctypes.", "signal.", "_thread.start_new_thread", "resource.", "object.__setattr__", "code.__new__"),
)
"""What reaches around the arguments inside the process; kernels do some of it too, while they are loaded."""


@dataclass(frozen=True, slots=True)
class Case:
    """What to ask a policy, and what to run it over."""

    exchanges: list[Exchange]
    batch: int
    rows: Floats
    seed: int


def ask_elsewhere(policy: bytes, exchanges: Sequence[Exchange], batch: int, rows: Floats, seed: int) -> None:
    """Put all questions to the pickled policy in a fresh process, then run it over `rows`, watched."""
    case = pickle.dumps(Case(list(exchanges), batch, rows, seed))
    done = subprocess.run(
        [sys.executable, "-c", "from vestige.checks.subprocess_check import main; main()"],
        input=len(policy).to_bytes(8, "little") + policy + case,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    if done.returncode:
        kind = done.stderr.decode().strip().splitlines()[-1].partition(":")[0]  # what follows may hold a record's value
        raise CheckError(
            f"a fresh process could not ask the policy ({kind}); import its module in a new interpreter to see why"
        )
    if done.stdout:
        raise CheckError(done.stdout.decode())


def main() -> None:
    """In the fresh process: write what is wrong, or nothing."""
    raw = sys.stdin.buffer.read()
    size = int.from_bytes(raw[:8], "little")
    sys.stdout.write(find(raw[8 : 8 + size], pickle.loads(raw[8 + size :])))  # noqa: S301


def find(policy: bytes, case: Case) -> str:
    """What is wrong with a policy, or nothing; to be asked once in a process, which is watched from then on."""
    watch = _Watch()
    sys.addaudithook(watch)
    watch.events = _OUTSIDE
    try:
        return _find(pickle.loads(policy), case, watch)  # noqa: S301
    except CheckError as failed:
        return str(failed)
    finally:
        watch.events = ()


def _find(policy: Policy, case: Case, watch: _Watch) -> str:
    """Ask it, run it, and compare what is around it before and after."""
    name = type(policy).__name__
    ask_again(policy, case.exchanges, f"{name} depends on the process it runs in", "in a fresh one")
    half = len(case.rows) // 2
    trace(policy, case.batch, case.rows[:half], case.seed)
    watch.events = ()
    survey()  # what it loads on first use is there from now on
    before = survey(), fingerprints(policy)
    watch.events = _OUTSIDE + _AROUND
    trace(policy, case.batch, case.rows[half:], case.seed + 1)
    watch.events = ()
    after = survey(), fingerprints(policy)
    if watch.touched:
        return f"{name} reaches outside its return value ({watch.touched[0]}); a policy may keep nothing anywhere"
    changed = changes(before[1], after[1]) or changes(before[0], after[0])
    if changed:
        return f"{name} keeps something: {changed[0]} changed while it ran in a fresh process"
    return ""


@dataclass(slots=True, eq=False)
class _Watch:
    """Notes the events of the interpreter that begin with one of `events`; the cache of kernels may be written."""

    events: tuple[str, ...] = ()
    touched: list[str] = field(default_factory=list)

    def __call__(self, event: str, details: tuple[object, ...]) -> None:
        events = self.events
        writes = event == "open" and len(details) > 2 and isinstance(details[2], int) and details[2] & _WRITES
        if not events or not (writes or event.startswith(events)):
            return
        self.events = ()  # what is done here raises events too
        names = [os.fsdecode(detail) for detail in details if isinstance(detail, str | bytes | os.PathLike)]
        if not any(mark in name for name in names for mark in _KERNEL_CACHE) and not _is_compiling():
            self.touched.append(event)
        self.events = events


def _is_compiling() -> bool:
    """Whether a kernel is being compiled or loaded, which may happen late."""
    frame = inspect.currentframe()
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith(("numba.", "llvmlite.")):
        frame = frame.f_back
    return frame is not None
