"""A survey of all that a policy could keep something in, and what of it depends on the records.

A policy remembers a record only if something is different after another record. So the same streams are run over
several sets of records, each in a process that is a copy of the same one; what then differs depends on the records, and
what is the same, such as a table that was filled, a kernel that was compiled or a module that was imported, does not.
What differs after the same records too, such as a time, is left out. A cache may hold what differs from one set to
another as long as some of it comes back, such as the results for a small number; what comes back in no other set tells
records apart.
The survey covers the policy, its class, closures and default arguments, the variables of its module and of the modules
of its own that it uses, generators, random states and containers; and what cannot be reached from the policy: the
variables of all other modules, open files, threads, signal handlers, settings of the interpreter and of the process.
Guarantee: finds what a policy keeps in any of them; held by tests/test_checks.py and tests/test_patient.py, which have
a policy for each. What an honest one fills on the way is none of it; held by tests/test_honest.py.
"""

from __future__ import annotations

import _hashlib
import atexit
import contextlib
import contextvars
import csv
import decimal
import fcntl
import functools
import gc
import hashlib
import io
import locale
import logging
import operator
import os
import pickle
import random
import re
import resource
import signal
import socket
import stat
import sys
import sysconfig
import termios
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

from vestige.errors import CheckError
from vestige.policy import Policy

_MOST_OBJECTS = 1_000_000
_MOST_BYTES = 1 << 20
"""How much is read of an open file, from its end."""
_ADDRESS = re.compile(" at 0x[0-9a-f]+")
_PROC = Path("/proc/self")
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_CHANGING_MODULES = ("numba", "llvmlite", "vestige.checks", "vestige._numba", "vestige._compilation")
"""Modules whose variables say which kernels were compiled, and those of this check."""
_OPAQUE = ("numba", "llvmlite", "vestige._numba")
"""Modules whose objects are not entered: kernels."""
_OF_MODULES = ("__builtins__", "__spec__", "__loader__", "__cached__", "__file__", "__path__")
_OF_FILES = ("pos:", "flags:", "mnt_id:", "ino:")
"""What the system says of every open file, and is measured otherwise."""
_OF_CLASSES = ("__dict__", "__weakref__", "_abc_impl")
"""Made by the interpreter: the first two describe slots, the third caches `isinstance` results."""
_BUILTIN_MODULES = ("builtins", "datetime", "decimal", "itertools", "re", "_struct", "collections", "_thread")
"""Modules in C whose objects are described by `repr`."""
_CONTAINERS: tuple[type, ...] = (dict, list, tuple, set, frozenset)
_PLAIN = bool | int | float | complex | str | bytes | bytearray | np.generic | None
_SIMPLE = {bool, int, str, bytes}
_NOT_BY_REPR: tuple[type, ...] = (
    *(type, FunctionType, BuiltinFunctionType, MethodType, Collection, property, staticmethod, classmethod),
)
_READERS: tuple[tuple[Any, Callable[[Any], object]], ...] = (
    (_PLAIN, lambda thing: thing),
    (np.random.Generator, lambda thing: thing.bit_generator.state),
    (np.random.RandomState, lambda thing: thing.get_state()),
    (np.random.BitGenerator, lambda thing: thing.state),
    (random.Random, lambda thing: thing.getstate()),
    (CodeType, lambda thing: (thing.co_code, [one for one in thing.co_consts if not isinstance(one, CodeType)])),
    (type(hashlib.sha256()) | hashlib.blake2b | hashlib.blake2s | _hashlib.HMAC, lambda thing: thing.hexdigest()),
)
"""How to read what a thing holds itself; others are read as memory, or by their `repr`."""
_EXITS: list[object] = []
"""What was registered to be called at exit since `watch_exits`."""


@dataclass(slots=True)
class Place:
    """What one place holds, as hashes that are the same in copies of a process.

    Attributes:
        leaves: content of each leaf, by the path that leads to it.
        entries: names of what each container holds, by the path that leads to it.
    """

    leaves: dict[int, int] = field(default_factory=dict)
    entries: dict[int, frozenset[int]] = field(default_factory=dict)


Survey = Mapping[str, bytes]
"""Pickled places by name: most are the same everywhere, and never looked into."""
Files = Mapping[int, tuple[int, int, int]]


def take_survey(policy: Policy, files: Files) -> Survey:
    """Describe all that a policy could keep something in.

    Args:
        policy: policy to look into.
        files: open files before it ran.

    Returns:
        What each place holds, pickled, by its name.

    Raises:
        CheckError: there is too much to look into.

    Example:
        >>> from vestige import Window
        >>> "the environment" in take_survey(Window(), measure_files())
        True
    """
    own = _list_own_modules(policy)
    places: dict[str, object] = {"its class": type(policy), "the policy": policy}
    places |= {f"module {name}": _list_variables(sys.modules[name]) for name in own}
    places |= {name: look() for name, look in _PLACES.items()} | _describe_files(files)
    walk = _Walk()
    found = {name: pickle.dumps(walk.describe(thing)) for name, thing in places.items()}
    for name, module in list(sys.modules.items()):
        if name not in own and not name.startswith(_CHANGING_MODULES):
            variables = _list_variables(module).items()  # describing one may load another, where a module is lazy
            found |= {f"{name}.{key}": pickle.dumps(walk.describe(value, levels=2)) for key, value in variables}
    return found


def find_dependence(surveys: Sequence[Sequence[Survey]]) -> str:
    """Find a place that depends on the records.

    Args:
        surveys: for each set of records, the surveys of processes that took it, which differ in nothing but the time.

    Returns:
        The name of the place; empty if there is none.

    Example:
        >>> one, other = ({"a pipe": pickle.dumps(Place({1: number}))} for number in (2, 3))
        >>> find_dependence([[one, one], [other]])
        'a pipe'
        >>> find_dependence([[one, other], [other]])
        ''
    """
    everything = list(chain.from_iterable(surveys))
    for name in everything[0]:
        places = [survey.get(name) for survey in everything]
        if None not in places and any(place != places[0] for place in places):
            sets = [[pickle.loads(survey[name]) for survey in same] for same in surveys]  # noqa: S301
            if _find_conflict(sets) or _find_telling_entries(sets):
                return name
    return _find_telling_names(surveys)


def _find_conflict(sets: Sequence[Sequence[Place]]) -> bool:
    """Whether a leaf is the same each time after the same records, and differs after others."""
    stable, changing = [], set[int]()
    for same in sets:
        common = dict(set.intersection(*(set(place.leaves.items()) for place in same)))
        changing |= {path for place in same for path in place.leaves if path not in common}
        stable.append(common)
    known: dict[int, int] = {}
    return any(
        known.setdefault(path, content) != content
        for leaves in stable
        for path, content in leaves.items()
        if path not in changing
    )


def _find_telling_entries(sets: Sequence[Sequence[Place]]) -> bool:
    """Whether a container tells all sets of records apart, by entries of which none comes back in another set."""
    places = list(chain.from_iterable(sets))
    for path in set.intersection(*(set(place.entries) for place in places)):
        stable = [frozenset.intersection(*(place.entries[path] for place in same)) for same in sets]
        counts = Counter(
            chain.from_iterable(frozenset().union(*(place.entries[path] for place in same)) for same in sets)
        )
        if not any(1 < count < len(sets) for count in counts.values()) and all(
            any(counts[name] == 1 for name in names) for names in stable
        ):
            return True
    return False


def _find_telling_names(surveys: Sequence[Sequence[Survey]]) -> str:
    """Find a module, or all modules together, whose names tell all sets of records apart."""
    common = set.intersection(*(set(survey) for survey in chain.from_iterable(surveys)))
    names: dict[str, list[list[Place]]] = {}
    for number, same in enumerate(surveys):
        for survey in same:
            found: dict[str, set[int]] = {}
            for module, _, variable in (name.rpartition(".") for name in survey.keys() - common):
                found.setdefault("the modules", set()).add(hash(module))
                found.setdefault(module, set()).add(hash(variable))
            for module, parts in found.items():
                places = names.setdefault(module, [[] for _ in surveys])
                places[number].append(Place(entries={0: frozenset(parts)}))
    return next((module for module, sets in names.items() if all(sets) and _find_telling_entries(sets)), "")


def _list_own_modules(policy: Policy) -> Collection[str]:
    """Name the modules of its classes, of functions passed to it, and those that these use, except other packages."""
    waiting = [str(given.__module__) for given in getattr(policy, "__dict__", {}).values() if callable(given)]
    waiting += [type(policy).__module__, "vestige"]
    packages = {name.partition(".")[0] for name in waiting}
    waiting += [cls.__module__ for cls in type(policy).__mro__]
    found: dict[str, None] = {}
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        path = getattr(module, "__file__", None)
        if name in found or module is None or path is None or name.startswith(_CHANGING_MODULES):
            continue
        if path.startswith(_LIBRARIES) and name.partition(".")[0] not in packages - sys.stdlib_module_names:
            continue
        found[name] = None
        waiting += [used.__name__ for used in vars(module).values() if isinstance(used, ModuleType)]
        waiting += [str(getattr(used, "__module__", "")) for used in vars(module).values()]
    return found


def _list_variables(module: ModuleType) -> dict[str, object]:
    """The variables of a module, but for those that the import system sets, which may be at any time."""
    variables = dict(vars(module))
    registry = variables.pop("__warningregistry__", {})
    found = {key: value for key, value in variables.items() if key not in _OF_MODULES and not _is_import(value)}
    return found | {"its warnings": {key for key in registry if key != "version"}}


def _is_import(value: object) -> bool:
    """Whether this is a module from a file or the interpreter, not one made at run time."""
    spec = getattr(value, "__spec__", None) if isinstance(value, ModuleType) else None
    return spec is not None and spec.origin is not None


class _Walk:
    """Describes things by what can be reached from them, each thing once."""

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}

    def describe(self, thing: object, levels: int | None = None) -> Place:
        """Describe a thing; `levels` is how deep its containers are entered, None for all that can be reached."""
        place = Place()
        stack: list[tuple[object, int, int | None]] = [(thing, 0, levels)]
        while stack:
            if len(self._seen) > _MOST_OBJECTS:
                raise CheckError(
                    f"the policy and its modules refer to more than {_MOST_OBJECTS:,} objects, too many to look into; "
                    "keep large tables in arrays"
                )
            here, path, left = stack.pop()
            if type(here) in _SIMPLE:
                place.leaves[path] = hash((type(here), here))
                continue
            if here is None or (left is None and id(here) in self._seen):
                continue
            if left is None and not isinstance(here, _PLAIN):
                self._seen[id(here)] = here
            content, parts = None, list[tuple[Hashable, object]]()
            with contextlib.suppress(Exception):  # a thing of any library may refuse to be looked at
                content = _read_content(here)
                parts += () if left == 0 else _list_parts(here) if left is None else _list_few_parts(here)
            place.leaves[path] = hash((type(here).__qualname__, content))
            named = [(part, hash((path, name)), left and left - 1) for name, part in parts]
            place.entries[path] = frozenset(name for _, name, _ in named)
            stack += named
        return place


def _read_content(thing: object) -> Hashable:
    """What a thing holds itself, not what it refers to."""
    if isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        return thing.shape, thing.tobytes()
    for kinds, read in _READERS:
        if isinstance(thing, kinds):
            return repr(read(thing))
    try:
        return bytes(memoryview(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    if type(thing).__module__ not in _BUILTIN_MODULES or isinstance(thing, _NOT_BY_REPR):
        return None
    left = operator.length_hint(thing, -1) if isinstance(thing, Iterator) else -1
    return left, _ADDRESS.sub("", repr(thing))


def _list_parts(thing: object) -> Iterable[tuple[Hashable, object]]:
    """What a thing refers to, by name."""
    if isinstance(thing, _PLAIN | FrameType) or type(thing).__module__.startswith(_OPAQUE):
        return ()
    return next((walk for kind, walk in _WALKS if isinstance(thing, kind)), _list_attributes)(thing)


def _list_few_parts(thing: object) -> Iterable[tuple[Hashable, object]]:
    """What a container of a library holds, or its attributes, as far as they are plain or containers."""
    if isinstance(thing, _CONTAINERS):
        return _list_parts(thing)
    attributes = dict(getattr(thing, "__dict__", ()))
    return [
        (name, part if type(part) in _SIMPLE or isinstance(part, (float, np.ndarray, *_CONTAINERS)) else None)
        for name, part in attributes.items()
    ]


def _list_attributes(thing: object) -> Iterator[tuple[Hashable, object]]:
    """Attributes by name, and all else that a thing refers to by its place."""
    attributes = getattr(thing, "__dict__", {})
    known = {id(attributes), *map(id, attributes.values())}
    yield from list(attributes.items())
    yield from enumerate(part for part in gc.get_referents(thing) if id(part) not in known)


def _list_items(thing: Mapping[object, object]) -> Iterator[tuple[Hashable, object]]:
    for key, value in list(thing.items()):
        yield _name(key), value
        if not isinstance(key, _PLAIN):
            yield ("key", _name(key)), key


def _list_class_parts(made: type) -> Iterator[tuple[Hashable, object]]:
    """The variables of a class and of its bases, except those of the standard library."""
    for cls in made.__mro__:
        if cls.__module__.partition(".")[0] not in sys.stdlib_module_names:
            yield from (((cls.__qualname__, key), part) for key, part in vars(cls).items() if key not in _OF_CLASSES)


def _list_function_parts(function: FunctionType) -> Iterator[tuple[Hashable, object]]:
    for name in ("__defaults__", "__kwdefaults__", "__code__", "__doc__", "__annotations__", "__name__", "__dict__"):
        yield name, getattr(function, name)
    for number, cell in enumerate(function.__closure__ or ()):
        try:
            yield number, cell.cell_contents
        except ValueError:  # a cell that is still empty
            continue


def _list_cached(function: Any) -> Iterator[tuple[Hashable, object]]:
    """Arguments and results that are in a cache, and the function."""
    yield "function", function.__wrapped__
    parts = gc.get_referents(function)
    caches = [part for part in parts if isinstance(part, dict) and part is not vars(function)]
    for key, result in list(caches[0].items()) if caches else ():
        places = [number for number, part in enumerate(parts) if part is key]  # with a limit, the result comes next
        yield from _list_items({key: parts[places[0] + 1] if places else result})


def _list_text(text: str | bytes, at: int) -> Iterable[tuple[Hashable, object]]:
    """The words of a text, in any order, so that a time among them hides none of the others; and where one reads."""
    return (("at", at - len(text)), ("words", frozenset(text.split())))


_WALKS: tuple[tuple[Any, Callable[[Any], Iterable[tuple[Hashable, object]]]], ...] = (
    (ModuleType, lambda module: () if sys.modules.get(module.__name__) is module else vars(module).items()),
    (type, _list_class_parts),
    (FunctionType, _list_function_parts),
    (functools._lru_cache_wrapper, _list_cached),
    (GeneratorType, lambda made: () if made.gi_frame is None else made.gi_frame.f_locals.items()),
    (threading.local, lambda local: vars(local).items()),
    (io.StringIO | io.BytesIO, lambda buffer: _list_text(buffer.getvalue(), buffer.tell())),
    (np.ndarray, lambda array: enumerate(array.flat) if array.dtype.kind == "O" else ()),
    (dict, _list_items),
    (list | tuple | deque, enumerate),
    (set | frozenset, lambda made: [(_name(part), part) for part in list(made)]),
)
"""What is called for which kind of thing to list its parts; the first that fits."""


def _name(key: object) -> Hashable:
    """What is the same in copies of a process for keys that are equal."""
    if isinstance(key, tuple):
        return tuple(map(_name, key))
    with contextlib.suppress(TypeError):
        if isinstance(key, _PLAIN) or hash(key) != object.__hash__(key):  # which is where it lies, in any type
            return type(key).__qualname__, hash(key)
    return type(key).__qualname__, getattr(key, "__module__", ""), getattr(key, "__qualname__", "")


def measure_files() -> Files:
    """Measure the open files, so that a survey describes what happened since.

    Returns:
        Size, position and number of unread bytes by number.

    Example:
        >>> 1 in measure_files()
        True
    """
    found = {}
    for entry in sorted((_PROC / "fd").iterdir()) if (_PROC / "fd").is_dir() else ():
        number = int(entry.name)
        try:
            facts, position = os.fstat(number), (_PROC / "fdinfo" / entry.name).read_text().split()[1]
            unread = fcntl.ioctl(number, termios.FIONREAD, b"\0\0\0\0") if stat.S_ISFIFO(facts.st_mode) else b""
        except OSError:  # the descriptor of the listing itself, which is closed by now
            continue
        found[number] = facts.st_size, int(position), int.from_bytes(unread, sys.byteorder)
    return found


def _describe_files(before: Files) -> dict[str, object]:
    """What was read and written since; of what is printed, the words that come up."""
    found: dict[str, object] = {}
    for number, after in measure_files().items():
        grown = [new - old for new, old in zip(after, before.get(number, (0, 0, 0)), strict=True)]
        facts, words = os.fstat(number), frozenset[bytes]()
        if grown[0] > 0 and stat.S_ISREG(facts.st_mode):
            with open(_PROC / "fd" / str(number), "rb") as file:
                file.seek(after[0] - min(grown[0], _MOST_BYTES))
                words = frozenset(file.read().split())
        elif grown[2] > 0:
            words = _read_pipe(number)
        lines = (_PROC / "fdinfo" / str(number)).read_text().splitlines()
        shown = frozenset(line for line in lines if not line.startswith(_OF_FILES))
        found[f"the open file {number}"] = facts.st_mode, words, shown, grown if number > 2 else ()
    found["the number of open files"] = len(found)
    return found | {"what it prints": (found.pop("the open file 1", ()), found.pop("the open file 2", ()))}


def _read_pipe(number: int) -> frozenset[bytes]:
    """What nobody has read yet; it is gone then, as the process is soon."""
    with contextlib.suppress(OSError):  # nothing is left to read at its other end
        pipe = os.open(_PROC / "fd" / str(number), os.O_RDONLY | os.O_NONBLOCK)
        try:
            return frozenset((os.read(pipe, _MOST_BYTES),))
        finally:
            os.close(pipe)
    return frozenset()


def _read_signals() -> list[str]:
    """Which signals are blocked, ignored, caught and pending."""
    lines = (_PROC / "status").read_text().splitlines() if (_PROC / "status").exists() else []
    return [line for line in lines if line.startswith(("Sig", "Shd")) and not line.startswith("SigQ")]


def _list_timers() -> list[object]:
    """The interval of each timer, and how long it still runs, in steps that are long beside this check."""
    timers = (signal.getitimer(one) for one in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF))
    return [(interval, *(int(left // 10**power) for power in range(2, 9))) for left, interval in timers]


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _list_thread_variables() -> list[object]:
    """The variables of all functions that run in other threads."""
    here, found = threading.get_ident(), list[object]()
    for number, frame in sorted(sys._current_frames().items()):
        calls: FrameType | None = None if number == here else frame
        while calls is not None:
            found.append(dict(calls.f_locals))
            calls = calls.f_back
    return found


def _describe_decimals() -> object:
    context = decimal.getcontext().copy()
    flags = {signal for signal, is_set in context.flags.items() if is_set}
    context.clear_flags()
    return context, flags


def watch_exits() -> None:
    """Note what is registered to be called at exit, which the interpreter does not show."""
    register = atexit.register

    def note(function: Callable[..., object], *args: object, **keywords: object) -> Callable[..., object]:
        _EXITS.append((function, args, keywords))
        return register(function, *args, **keywords)

    atexit.register = note  # type: ignore[assignment]


_PLACES: dict[str, Callable[[], object]] = {
    "the environment": lambda: dict(os.environ),
    "the modules that are made up": lambda: {n for n, module in sys.modules.items() if not _is_import(module)},
    "the working directory": os.getcwd,
    "the umask": _read_umask,
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "the time zone": lambda: time.tzname,
    "the state of random": random.getstate,
    "the state of numpy.random": np.random.get_state,
    "numpy's settings": lambda: (np.geterr(), np.geterrcall(), np.get_printoptions(), np.getbufsize()),
    "the signal handlers": lambda: [signal.getsignal(one) for one in sorted(signal.valid_signals())],
    "the signals": _read_signals,
    "the timers": _list_timers,
    "the threads": _list_thread_variables,
    "the decimal context": _describe_decimals,
    "the context variables": lambda: {variable.name: value for variable, value in contextvars.copy_context().items()},
    "what is called at exit": lambda: _EXITS,
    "the finalizers": lambda: [
        (one.func, one.args, one.kwargs)
        for one in weakref.finalize._registry.values()  # type: ignore[attr-defined]
    ],
    "the loggers": lambda: set(logging.root.manager.loggerDict),
    "the garbage collector": lambda: (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks),
    "the interpreter's settings": lambda: (
        *(sys.getrecursionlimit(), sys.getswitchinterval(), sys.getprofile(), sys.gettrace()),
        *(sys.get_asyncgen_hooks(), sys.get_int_max_str_digits(), sys.get_coroutine_origin_tracking_depth()),
        *(threading.stack_size(), socket.getdefaulttimeout(), csv.field_size_limit()),
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
