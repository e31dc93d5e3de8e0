"""Policies that are honest for a thousand records and then keep the newest value somewhere, and where.

tests/test_patient.py wants each of them caught, but for those of BEYOND, which no check of this kind can see.
"""

from __future__ import annotations

import atexit
import contextvars
import csv
import decimal
import functools
import gc
import hashlib
import io
import itertools
import linecache
import locale
import logging
import math
import os
import pickle
import random
import resource
import signal
import struct
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leaky import DIARY, Window
from vestige import Clock, Records, Stream
from vestige.types import Bools, Floats

WAIT = 1_000
METHODS = ("update", "update_many", "rewrite", "answer")
HARD = resource.getrlimit(resource.RLIMIT_CORE)[1]
_HIDDEN: dict[str, Any] = {}
_VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("variable")
_COUNT = itertools.count()
_BUFFER, _HASH, _BLAKE, _LOCAL = io.BytesIO(), hashlib.sha256(), hashlib.blake2b(), threading.local()


def _once(name: str, make: Callable[[], Any]) -> Any:
    """Something that is made on first use; it is what it does later that tells."""
    if name not in _HIDDEN:
        _HIDDEN[name] = make()
    return _HIDDEN[name]


def _whole(value: float, below: int) -> int:
    return int(abs(value) * 1e6) % below


def _as_code(value: float) -> None:
    code = _as_code.__code__
    _as_code.__code__ = code.replace(co_consts=(*code.co_consts, value))


def _as_cycle(value: float) -> None:
    """Unreachable, but found again by whoever asks the collector for all objects."""
    before = [one for one in gc.get_objects() if isinstance(one, _Ring)]
    ring = _Ring(value + sum(one.value for one in before))
    ring.itself = ring


class _Ring:
    def __init__(self, value: float) -> None:
        self.value, self.itself = value, self


def _in_the_stream(value: float) -> None:
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and not isinstance(frame.f_locals.get("stream"), Stream):
        frame = frame.f_back
    if frame is not None:
        frame.f_locals["stream"].secret = value


def _in_the_stream_by_an_error(value: float) -> None:
    try:
        _HIDDEN[f"no such {value}"]
    except KeyError as error:
        frame = error.__traceback__.tb_frame if error.__traceback__ else None
    while frame is not None and not isinstance(frame.f_locals.get("stream"), Stream):
        frame = frame.f_back
    if frame is not None:
        frame.f_locals["stream"].secret = value


def _in_a_pipe(value: float) -> None:
    os.write(_once("pipe", os.pipe)[1], b"x" * (1 + _whole(value, 9)))


def _in_a_thread(value: float) -> None:
    def hold(_: float) -> None:
        _once("event", threading.Event).wait()

    threading.Thread(target=hold, args=(value,), daemon=True).start()


def _in_a_generator(value: float) -> None:
    def sums() -> Generator[float, float, None]:
        total = 0.0
        while True:
            total += yield total

    made = _once("generator", sums)
    if not _HIDDEN.get("begun"):
        next(made)
        _HIDDEN["begun"] = True
    made.send(value)


PLACES: dict[str, Callable[[float], object]] = {
    "a class variable with an underscore": lambda value: setattr(Patient, "_total", value),
    "a class variable with two": lambda value: setattr(Patient, "__total", value),
    "the class's docstring": lambda value: setattr(Patient, "__doc__", repr(value)),
    "a method's attribute": lambda value: setattr(Patient.update, "total", value),
    "a function's annotations": lambda value: _whole.__annotations__.update(total=value),
    "a function's constants": _as_code,
    "a module variable with an underscore": lambda value: _HIDDEN.update(total=value),
    "a variable of a base class": lambda value: setattr(Window, "_total", value),
    "a generator": _in_a_generator,
    "a counter": lambda value: [next(_COUNT) for _ in range(1 + _whole(value, 9))],
    "a buffer": lambda value: _BUFFER.write(repr(value).encode()),
    "a hash": lambda value: _HASH.update(repr(value).encode()),
    "a variable of a thread": lambda value: setattr(_LOCAL, "total", value),
    "a file's times": lambda value: os.utime(DIARY, (0, _whole(value, 10**9))),
    "a file's mode": lambda value: os.chmod(DIARY, 0o600 | _whole(value, 64)),
    "a file's attributes": lambda value: os.setxattr(DIARY, "user.total", repr(value).encode()),
    "a pipe": _in_a_pipe,
    "an offset": lambda value: os.lseek(_once("file", lambda: os.open(__file__, os.O_RDONLY)), _whole(value, 99), 0),
    "a thread": _in_a_thread,
    "random": random.seed,
    "numpy.random": lambda value: np.random.seed(_whole(value, 10**6)),  # noqa: NPY002
    "a cycle": _as_cycle,
    "a module made up": lambda value: sys.modules.update(secret=types.ModuleType(f"secret {value}")),
    "a library's variable": lambda value: setattr(math, "secret", value),
    "a library's table": warnings.filters.append,  # type: ignore[attr-defined]
    "the manager of loggers": lambda value: setattr(logging.root.manager, "secret", value),
    "a library's class": lambda value: setattr(logging.Logger, f"secret{value}", value),
    "a library's function": lambda value: setattr(np.mean, f"secret{value}", value),
    "a logger": lambda value: logging.getLogger(f"secret {value}"),
    "a signal handler": lambda value: signal.signal(signal.SIGUSR1, functools.partial(print, value)),
    "a timer": lambda value: signal.setitimer(signal.ITIMER_VIRTUAL, 1e6, 1e6 + _whole(value, 99)),
    "the calling stream": _in_the_stream,
    "the calling stream, by an error": _in_the_stream_by_an_error,
    "the working directory": lambda value: os.chdir("/" if value > 0 else "/tmp"),  # noqa: S108
    "the environment": lambda value: os.environ.update(SECRET=repr(value)),
    "the environment of the process": lambda value: os.putenv("SECRET", repr(value)),
    "the umask": lambda value: os.umask(_whole(value, 64)),
    "the locale": lambda value: locale.setlocale(_whole(value, 6), ("C", "C.UTF-8")[_whole(value, 12) // 6]),
    "the decimal context": lambda value: setattr(decimal.getcontext(), "prec", 28 + _whole(value, 99)),
    "a context variable": _VARIABLE.set,
    "what is called at exit": lambda value: atexit.register(abs, value),
    "the recursion limit": lambda value: sys.setrecursionlimit(2_000 + _whole(value, 99)),
    "numpy's print options": lambda value: np.set_printoptions(precision=_whole(value, 9)),
    "a limit of the process": lambda value: resource.setrlimit(resource.RLIMIT_CORE, (_whole(value, 99), HARD)),
    "the interpreter's tables": lambda value: sys.path.append(repr(value)),
    "what is in a pipe": lambda value: os.write(_once("bytes", os.pipe)[1], struct.pack("d", value)),
    "the number of open files": lambda value: [os.open(__file__, os.O_RDONLY) for _ in range(_whole(value, 5))],
    "a file that is named like a kernel": lambda value: open(f"{DIARY}.nbi", "w").close(),  # noqa: ARG005
    "an attribute of a library's function": lambda value: setattr(np.mean, "secret", value),
    "the name of a library's variable": lambda value: setattr(math, f"secret{value}", 0),
    "the lines of files that errors show": lambda value: linecache.cache.update({repr(value): (1, None, [], "")}),
    "another name of a module": lambda value: sys.modules.update({f"secret {value}": math}),
    "the signals that wait": lambda value: signal.pthread_sigmask(
        signal.SIG_SETMASK, range(34, 34 + _whole(value, 20))
    ),
    "an alarm": lambda value: signal.alarm(10_000 + 1_000 * _whole(value, 99)),
    "a limit of csv": lambda value: csv.field_size_limit(10**6 + _whole(value, 99)),
    "a hash of another kind": lambda value: _BLAKE.update(repr(value).encode()),
    "a finalizer": lambda value: weakref.finalize(Patient, abs, value),
}
"""Where a value can be kept, and how."""


def _after_an_hour(value: float) -> None:
    if time.monotonic() - _once("began", time.monotonic) > 3_600:
        _HIDDEN["total"] = value


def _where_a_value_says_so(value: float) -> None:
    if abs(value) > 1e9:
        _HIDDEN["total"] = value


def _where_nobody_checks(value: float) -> None:
    if "vestige.checks" not in sys.modules:
        _HIDDEN["total"] = value


def _in_the_time_a_file_was_read(value: float) -> None:
    with open(__file__) as file:
        file.read(1 + _whole(value, 9))


def _in_freed_memory(value: float) -> None:
    np.full(64, value)


BEYOND: dict[str, Callable[[float], object]] = {
    "an hour later": _after_an_hour,
    "a value that does not come": _where_a_value_says_so,
    "where nobody checks": _where_nobody_checks,
    "when a file was read last": _in_the_time_a_file_was_read,
    "freed memory": _in_freed_memory,
    "how far a list has grown": lambda value: _once("list", list).extend([None] * _whole(value, 2)),
    "in which of a few bins it falls": lambda value: _once("bins", set).add(_whole(value, 3)),
    "a class that is dropped": lambda value: type(f"Secret{value}", (Window,), {}),
}
"""What no check of this kind can see; the docs say so."""


@dataclass(frozen=True)
class Patient(Window):
    """Keeps the newest value in a place, once so many records have come."""

    place: str = ""
    wait: int = WAIT

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        if clock.t > self.wait and len(arrivals):
            (PLACES | BEYOND)[self.place](float(arrivals.values[-1, 0]))
        return super().update(clock, retained, arrivals, coins)


@dataclass(frozen=True)
class InMethod(Window):
    """Hoards what one of its methods is shown, once so many records have come."""

    method: str = ""
    seen: ClassVar[list[object]] = []

    def _hoard(self, method: str, clock: Clock, thing: object) -> None:
        if method == self.method and clock.t > WAIT:
            self.seen.append(thing)

    def update(self, clock: Clock, retained: Records, arrivals: Records, coins: int) -> Bools:
        self._hoard("update", clock, arrivals.values.copy())
        return super().update(clock, retained, arrivals, coins)

    def update_many(self, clock: Clock, retained: Records, values: Floats, keys: NDArray[np.uint64]) -> Bools:
        self._hoard("update_many", clock, values.copy())
        batch = len(values) // len(keys)
        keep = np.zeros(len(retained) + len(values), np.bool_)
        keep[-2 * batch :] = True
        return keep

    def rewrite(self, clock: Clock, retained: Records, coins: int) -> tuple[int, Bools] | None:  # noqa: ARG002
        self._hoard("rewrite", clock, retained.values.copy())
        return clock.last, ~retained.leaving

    def answer(self, clock: Clock, retained: Records) -> float:
        self._hoard("answer", clock, retained.values.copy())
        return super().answer(clock, retained)


def print_fault(name: str) -> None:
    """Print what is found against this place or method."""
    from vestige.checks.subprocess_check import Case, find_faults  # noqa: PLC0415

    rows = np.random.default_rng(5).normal(size=(3, 202, 1))  # enough for those who wait, as some streams begin late
    policy = InMethod(name) if name in METHODS else Patient(name)
    DIARY.parent.mkdir(exist_ok=True)
    DIARY.touch()
    fault = find_faults(pickle.dumps(policy), Case([], 32, list(rows), 1))
    DIARY.unlink()
    print(fault)
