"""Does a policy keep anything? A fingerprint of everything that it can reach, to be taken before and after it has run.

Walks from the policy through its class, its methods' closures and default arguments, the variables of its module and of
the modules of its own that it uses, generators, random states and containers. Libraries are not entered.
"""

from __future__ import annotations

import gc
import hashlib
import io
import operator
import os
import random
import re
import sys
import sysconfig
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

from vestige.policy import Policy

_MOST_OBJECTS = 200_000
_ADDRESS = re.compile(" at 0x[0-9a-f]+")
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_OF_MODULES = ("__builtins__", "__spec__", "__loader__", "__cached__", "__file__", "__path__", "__warningregistry__")
_OF_CLASSES = ("__dict__", "__weakref__", "_abc_impl")
"""Which the interpreter makes: the first two describe slots, the third remembers which classes were asked about."""
_SHOWN = ("builtins", "datetime", "decimal", "itertools", "re", "_struct", "collections")
"""Modules in C whose objects say all about themselves by `repr`."""
_READERS: tuple[tuple[Any, Callable[[Any], object]], ...] = (
    (bool | int | float | complex | str | bytes | bytearray | np.generic, lambda thing: thing),
    (np.random.Generator, lambda thing: thing.bit_generator.state),
    (np.random.RandomState, lambda thing: thing.get_state()),
    (np.random.BitGenerator, lambda thing: thing.state),
    (random.Random, lambda thing: thing.getstate()),
    (CodeType, lambda thing: (thing.co_code, [one for one in thing.co_consts if not isinstance(one, CodeType)])),
    (io.BytesIO | io.StringIO, lambda thing: (thing.getvalue(), thing.tell())),
    (type(hashlib.sha256()), lambda thing: thing.hexdigest()),
)
"""How to read what a leaf holds; what is not here is read as memory, or as it shows itself."""
_OPAQUE = ("numba", "llvmlite", "threading", "_thread", "importlib", "_frozen_importlib", "logging", "weakref")


def fingerprints(policy: Policy) -> dict[str, str]:
    """What can be reached from each place where a policy could keep something, as a hash each."""
    places: dict[str, object] = {"the policy": policy, "its class": type(policy), "os.environ": dict(os.environ)}
    for name in sorted(_own_modules(policy)):
        places[f"module {name}"] = {k: v for k, v in vars(sys.modules[name]).items() if not _is_import(k, v)}
    seen: dict[int, object] = {}
    return {place: fingerprint(thing, seen) for place, thing in places.items()}


def _is_import(name: str, thing: object) -> bool:
    """Whether this variable of a module is no memory: what the import system sets, and modules that were imported.

    A package gets a variable for each of its modules when that is first imported, which may be at any time.
    """
    return name in _OF_MODULES or (isinstance(thing, ModuleType) and sys.modules.get(thing.__name__) is thing)


def _own_modules(policy: Policy) -> set[str]:
    """The modules that its classes live in, and those that these use, as far as they are no libraries."""
    found: set[str] = set()
    waiting = [cls.__module__ for cls in type(policy).__mro__]
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        path = getattr(module, "__file__", None)
        if name in found or module is None or path is None or path.startswith(_LIBRARIES):
            continue
        found.add(name)
        waiting += [used.__name__ for used in vars(module).values() if isinstance(used, ModuleType)]
        waiting += [str(getattr(used, "__module__", "")) for used in vars(module).values()]
    return found


def fingerprint(thing: object, seen: dict[int, object]) -> str:
    """A hash of everything that can be reached from `thing` and was not `seen`, where objects stand by their `id`."""
    digest, stack = hashlib.sha256(), [thing]
    while stack and len(seen) < _MOST_OBJECTS:
        here = stack.pop()
        if id(here) in seen:
            continue
        seen[id(here)] = here
        digest.update(f"{type(here).__qualname__};".encode())
        digest.update(_content(here))
        stack += list(_parts(here))
    return digest.hexdigest()


def _content(thing: object) -> bytes:
    """What a leaf holds."""
    if isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        return thing.tobytes()
    for kinds, read in _READERS:
        if isinstance(thing, kinds):
            return repr(read(thing)).encode()
    try:
        return bytes(memoryview(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return _shown(thing)


def _shown(thing: object) -> bytes:
    """What an object of the interpreter says of itself, without addresses; how far an iterator has come."""
    kind = type(thing)
    if kind.__module__ not in _SHOWN or isinstance(thing, type | FunctionType | BuiltinFunctionType | MethodType):
        return b""
    left = operator.length_hint(thing, -1) if isinstance(thing, Iterator) else -1
    shallow = isinstance(thing, Collection | property | staticmethod | classmethod)
    return f"{left} {'' if shallow else _ADDRESS.sub('', repr(thing))}".encode()


def _parts(thing: object) -> Iterable[object]:
    """What `thing` refers to, as far as it belongs to the policy."""
    if isinstance(thing, threading.local):
        return vars(thing).items()
    if isinstance(thing, FrameType | str | bytes | int | float) or type(thing).__module__.startswith(_OPAQUE):
        return ()
    walk = next((walk for kind, walk in _WALKS if isinstance(thing, kind)), gc.get_referents)
    return walk(thing)


def _class_parts(made: type) -> Iterator[object]:
    """The variables of a class and of those that it is derived from, but for those of a library."""
    for cls in made.__mro__:
        path = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if path is not None and not path.startswith(_LIBRARIES):
            yield from ((k, v) for k, v in vars(cls).items() if k not in _OF_CLASSES)


def _function_parts(function: FunctionType) -> Iterator[object]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from (function.__code__, function.__doc__, function.__annotations__, function.__name__)
    yield from vars(function).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a cell that is still empty
            continue


_WALKS: tuple[tuple[type, Callable[[Any], Iterable[object]]], ...] = (
    (ModuleType, lambda module: () if sys.modules.get(module.__name__) is module else vars(module).values()),
    (type, _class_parts),
    (FunctionType, _function_parts),
    (GeneratorType, lambda made: () if made.gi_frame is None else made.gi_frame.f_locals.values()),
    (np.ndarray, lambda array: array.flat if array.dtype.kind == "O" else ()),
)
