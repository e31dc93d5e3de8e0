"""A policy in a fresh process must reply as before, and keep nothing of the records in that process.

The process reads a pickled case from standard input and writes the fault that it finds to standard output. Copies of it
run the policy over several sets of records, so that what depends on these can be told from what does not.
Guarantee: finds files, processes and settings that a policy changes; held by tests/test_checks.py and
tests/test_patient.py.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType

from vestige.checks.survey import Survey, find_dependence, measure_files, take_survey, watch_exits
from vestige.checks.traces import Exchange, record_exchanges, replay
from vestige.errors import CheckError
from vestige.policy import Policy
from vestige.types import Floats

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR
_STANDARD = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_MAKERS = ("namedtuple", "make_dataclass", "_caller", "_create_")
"""Functions of the standard library that ask for the module of the class that they make, and give frames to nobody."""
_PACKAGES = tuple(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
_EVENTS = (
    *("os.mkdir", "os.mkfifo", "os.mknod", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir"),
    *("os.truncate", "os.utime", "os.chmod", "os.chown", "os.lchown", "os.chflags", "os.setxattr", "os.removexattr"),
    *("os.lockf", "os.putenv", "os.unsetenv", "os.chdir", "os.fchdir", "os.chroot", "os.kill", "os.killpg"),
    *("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "pty.spawn", "subprocess.Popen"),
    *("socket.", "sqlite3.connect", "shutil.", "tempfile.", "syslog.", "fcntl.", "urllib.", "http.", "ctypes."),
    *("sys._getframe", "sys._current_frames", "sys.addaudithook", "gc.get_"),
)
"""Events that change something outside the process, send something there, or reach beyond the arguments inside."""


@dataclass(frozen=True, slots=True)
class Case:
    """What to ask a policy in a fresh process.

    Attributes:
        exchanges: questions, with the replies to expect.
        batch: number of records in a batch.
        rows: sets of records to run the policy over; each of shape (n, columns).
        seed: seed of the coins and requests.
    """

    exchanges: Sequence[Exchange]
    batch: int
    rows: Sequence[Floats]
    seed: int


def check_in_subprocess(policy: bytes, case: Case) -> None:
    """Ask a policy all questions again in a fresh process, and look for what it keeps of the records there.

    Args:
        policy: pickled policy.
        case: what to ask it, and the records.

    Raises:
        CheckError: if the policy breaks the model there, or the process fails.
    """
    done = subprocess.run(
        [sys.executable, "-c", "from vestige.checks.subprocess_check import main; main()"],
        input=len(policy).to_bytes(8, "little") + policy + pickle.dumps(case),
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "random"},
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
    with os.fdopen(os.dup(1), "w") as said:
        os.dup2(2, 1)  # a policy may print something
        raw = sys.stdin.buffer.read()
        size = int.from_bytes(raw[:8], "little")
        said.write(find_faults(raw[8 : 8 + size], pickle.loads(raw[8 + size :])))  # noqa: S301


def find_faults(policy: bytes, case: Case) -> str:
    """Find a fault of a policy; to be called once in a process, which is watched from then on.

    Args:
        policy: pickled policy.
        case: what to ask it, and the records.

    Returns:
        A sentence that describes the fault; empty if there is none.
    """
    sys.dont_write_bytecode = True  # or a module that it is the first to import would count as a file that it writes
    import vestige._compilation  # noqa: F401, PLC0415  # or each copy would load it

    watch = _Watch()
    sys.addaudithook(watch)
    watch_exits()
    try:
        watch.is_on = True
        made: Policy = pickle.loads(policy)  # noqa: S301
        watch.is_on = False
        _check_dependence(made, case, watch)  # in copies of this process, in which the policy has not been used
        watch.is_on = True
        replay(made, case.exchanges, f"{type(made).__name__} depends on the process it runs in", "in a fresh one")
        watch.check(made)
    except CheckError as failed:
        return str(failed)
    finally:
        watch.is_on = False
    return ""


def _check_dependence(policy: Policy, case: Case, watch: _Watch) -> None:
    """Check that what the process holds after one set of records is what it holds after another."""
    surveys: list[list[Survey]] = [[] for _ in case.rows]
    for _ in range(2):  # in turns, so that what depends on the time is not the same for a set each time
        for found, rows in zip(surveys, case.rows, strict=True):
            found.append(_run_copy(policy, case, rows, watch))
        place = find_dependence(surveys)
        if not place:
            return
    raise CheckError(
        f"{type(policy).__name__} keeps something of the records in {place}: other records leave something else there; "
        "keep nothing, and cache only what follows from constants, sizes and rounds"
    )


def _run_copy(policy: Policy, case: Case, rows: Floats, watch: _Watch) -> Survey:
    """Run a policy over records in a copy of this process, and describe what that process holds afterwards."""
    reader, writer = os.pipe()
    copy = os.fork()
    if not copy:
        with os.fdopen(writer, "wb") as said:
            pickle.dump(_run(policy, case, rows, watch), said)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        raw = said.read()
    os.waitpid(copy, 0)
    if not raw:
        raise CheckError(f"{type(policy).__name__} ended the process that it ran in")
    found: Survey | str = pickle.loads(raw)  # noqa: S301
    if isinstance(found, str):
        raise CheckError(found)
    return found


def _run(policy: Policy, case: Case, rows: Floats, watch: _Watch) -> Survey | str:
    """Run a policy over records; what the process holds afterwards, or a fault."""
    with tempfile.TemporaryFile() as printed:
        for number in (1, 2):
            os.dup2(printed.fileno(), number)
    files = measure_files()
    try:
        watch.is_on = True
        record_exchanges(policy, case.batch, rows, case.seed)
        watch.check(policy)
        watch.is_on = False
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return take_survey(policy, files)
    except CheckError as failed:
        return str(failed)
    finally:
        watch.is_on = False


@dataclass(slots=True, eq=False)
class _Watch:
    """Notes events of the interpreter; those of an import, and writing the cache of kernels, are allowed."""

    is_on: bool = False
    touched: list[str] = field(default_factory=list)

    def __call__(self, event: str, details: tuple[object, ...]) -> None:
        if not self.is_on:
            return
        writes = event == "open" and len(details) > 2 and isinstance(details[2], int) and details[2] & _WRITE_FLAGS
        if not (writes or event.startswith(_EVENTS)):
            return
        self.is_on = False  # the lines below raise events too
        if not _is_allowed(event, sys._getframe(1)):
            self.touched.append(event)
        self.is_on = True

    def check(self, policy: Policy) -> None:
        """Check that nothing was noted."""
        if self.touched:
            raise CheckError(
                f"{type(policy).__name__} reaches outside its return value ({self.touched[0]}); a policy must not "
                "store anything"
            )


def _is_allowed(event: str, frame: FrameType | None) -> bool:
    """Whether a module is being imported or a kernel compiled, which may happen late, or the library asks itself."""
    files, function = [], "" if frame is None else frame.f_code.co_name
    while frame is not None:
        files.append((frame.f_code.co_filename, str(frame.f_globals.get("__name__"))))
        frame = frame.f_back
    if any(name.startswith(("numba.", "llvmlite.")) or path.startswith("<frozen importlib") for path, name in files):
        return True
    # a logger and what makes a class ask who calls; what gives frames to others is called by them
    asking = files[: 1 if function in _MAKERS else 2]
    return event.startswith("sys._getframe") and all(
        path.startswith(_STANDARD) and not path.startswith(_PACKAGES) for path, _ in asking
    )
