"""A survey of the process around a policy, to be compared before and after the policy has run.

It covers what cannot be reached from the policy: the variables of all modules, open files and how far each was read,
threads, signal handlers, the states of generators, settings of the interpreter and of the process.
Guarantee: finds what a policy stores in any of them; held by tests/test_patient.py, which has a policy for each.
"""

from __future__ import annotations

import atexit
import builtins
import contextvars
import decimal
import fcntl
import gc
import locale
import logging
import os
import random
import resource
import signal
import stat
import sys
import termios
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np

from vestige.checks.fingerprint import take_fingerprint

_CHANGING_MODULES = ("numba", "llvmlite", "linecache", "vestige.checks", "vestige._numba", "vestige._compilation")
"""Modules whose variables change while an honest policy runs."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_PROC = Path("/proc/self")

Survey = Mapping[str, object]


def take_survey() -> Survey:
    """Describe the contents of each place in the process, in a form that can be compared.

    Returns:
        The contents by place.

    Example:
        >>> "the environment" in take_survey()
        True
    """
    found: dict[str, object] = {name: look() for name, look in _PLACES.items()}
    found |= {f"the open file {number}": file for number, file in _list_open_files()}
    for name, module in list(sys.modules.items()):
        if not name.startswith(_CHANGING_MODULES):
            attributes = list(vars(module).items())  # describing one may load another, where a module is lazy
            found |= {f"{name}.{key}": _describe_value(value) for key, value in attributes if not _is_import(value)}
    return found


def find_changes(before: Survey, after: Survey) -> list[str]:
    """Find the places that differ between two surveys, except modules that were imported in between.

    Args:
        before: survey to start from.
        after: survey to compare.

    Returns:
        The places, sorted.

    Example:
        >>> find_changes({"the umask": 0}, {"the umask": 63})
        ['the umask']
    """
    new = {name for name in sys.modules if f"{name}.__name__" not in before and _is_import(sys.modules[name])}
    differing = [place for place in before.keys() | after.keys() if before.get(place) != after.get(place)]
    return sorted(place for place in differing if place.rpartition(".")[0] not in new)


def _is_import(value: object) -> bool:
    """Return whether this is a module from a file or the interpreter, not one made at run time."""
    spec = getattr(value, "__spec__", None) if isinstance(value, ModuleType) else None
    return spec is not None and spec.origin is not None


def _describe_value(value: object, deep: bool = True) -> object:
    """Describe a variable of a module and its contents."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if value is vars(builtins):  # each module has it; it is described as a module
        return id(value)
    if deep and isinstance(value, list | set | frozenset | tuple):
        return id(value), tuple(_describe_value(item, deep=False) for item in list(value))
    if deep and isinstance(value, dict):
        return id(value), tuple((_describe_value(k, False), _describe_value(v, False)) for k, v in list(value.items()))
    if isinstance(value, bytearray):
        return id(value), bytes(value)
    return (id(value), len(vars(value))) if type(value).__dictoffset__ or isinstance(value, type) else id(value)


def _list_open_files() -> Iterator[tuple[int, object]]:
    """Yield each file descriptor with its kind, position and unread bytes."""
    for entry in sorted((_PROC / "fd").iterdir()) if (_PROC / "fd").is_dir() else ():
        number = int(entry.name)
        try:
            facts, position = os.fstat(number), (_PROC / "fdinfo" / entry.name).read_text().splitlines()[0]
            waiting = fcntl.ioctl(number, termios.FIONREAD, b"\0\0\0\0") if stat.S_ISFIFO(facts.st_mode) else b""
            yield number, (os.readlink(entry), facts.st_mode, facts.st_size, facts.st_mtime_ns, position, waiting)
        except OSError:  # the descriptor of the listing itself, which is closed by now
            continue


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _describe_threads() -> object:
    """Describe the other threads and the variables of their functions."""
    here = threading.get_ident()
    frames = {number: frame for number, frame in sys._current_frames().items() if number != here}
    return {number: take_fingerprint(list(frame.f_locals.values()), {}) for number, frame in frames.items()}


_PLACES: dict[str, Callable[[], object]] = {
    "the environment": lambda: dict(os.environ),
    "the working directory": os.getcwd,
    "the umask": _read_umask,
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "the time zone": lambda: time.tzname,
    "the state of random": random.getstate,
    "the state of numpy.random": lambda: repr(np.random.get_state()),  # noqa: NPY002
    "numpy's settings": lambda: (np.geterr(), np.geterrcall(), np.get_printoptions(), np.getbufsize()),
    "the signal handlers": lambda: [(one, signal.getsignal(one)) for one in sorted(signal.valid_signals())],
    "the timers": lambda: [signal.getitimer(one)[1] for one in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)],
    "the threads": _describe_threads,
    "the decimal context": lambda: repr(decimal.getcontext()),
    "the context variables": lambda: [(one, id(value)) for one, value in contextvars.copy_context().items()],
    "what is called at exit": atexit._ncallbacks,
    "the finalizers": lambda: len(weakref.finalize._registry),  # type: ignore[attr-defined]
    "the loggers": lambda: sorted(logging.root.manager.loggerDict),
    "the garbage collector": lambda: (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks)),
    "the interpreter's settings": lambda: (
        *(sys.getrecursionlimit(), sys.getswitchinterval(), sys.getprofile(), sys.gettrace()),
        *(sys.get_asyncgen_hooks(), sys.get_int_max_str_digits(), sys.get_coroutine_origin_tracking_depth()),
    ),
    "the limits of the process": lambda: (
        *(resource.getrlimit(getattr(resource, name)) for name in sorted(dir(resource)) if name.startswith("RLIMIT")),
        *(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()),
        *(
            (_PROC / name).read_text()
            for name in ("comm", "oom_score_adj", "coredump_filter")
            if (_PROC / name).exists()
        ),
    ),
}
