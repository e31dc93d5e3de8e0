"""Fingerprints of everything that a policy can reach, to be compared before and after it has run.

Walks from the policy through its class, its methods' closures and default arguments, the variables of its module and of
the modules of its own that it uses, generators, random states and containers. Libraries are not entered.
Guarantee: a change in any of them changes a fingerprint; held by tests/test_checks.py.
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
"""Made by the interpreter: the first two describe slots, the third caches `isinstance` results."""
_BUILTIN_MODULES = ("builtins", "datetime", "decimal", "itertools", "re", "_struct", "collections")
"""Modules in C whose objects are fully described by `repr`."""
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
"""How to read a leaf; other leaves are read as memory, or by their `repr`."""
_OPAQUE = (
    *("numba", "llvmlite", "vestige._numba", "threading", "_thread", "importlib", "_frozen_importlib", "logging"),
    "weakref",
)
"""Modules whose objects change while an honest policy runs, as a kernel does when it is compiled."""


def take_fingerprints(policy: Policy) -> dict[str, str]:
    """Hash everything that can be reached from each place where a policy could store something.

    Args:
        policy: policy to look into.

    Returns:
        A hash for each place, by its name.

    Example:
        >>> from vestige import Window
        >>> take_fingerprints(Window()) == take_fingerprints(Window())
        True
    """
    places: dict[str, object] = {"the policy": policy, "its class": type(policy), "os.environ": dict(os.environ)}
    for name in sorted(_list_own_modules(policy)):
        places[f"module {name}"] = {k: v for k, v in vars(sys.modules[name]).items() if not _is_import(k, v)}
    seen: dict[int, object] = {}
    return {place: take_fingerprint(thing, seen) for place, thing in places.items()}


def _is_import(name: str, thing: object) -> bool:
    """Return whether the import system sets this variable of a module, so that it is not a memory.

    A package gets a variable for each of its modules when it is first imported, which may be at any time.
    """
    return name in _OF_MODULES or (isinstance(thing, ModuleType) and sys.modules.get(thing.__name__) is thing)


def _list_own_modules(policy: Policy) -> set[str]:
    """Return the modules of its classes, of functions passed to it, and those that these use, except libraries."""
    found: set[str] = set()
    waiting = [cls.__module__ for cls in type(policy).__mro__]
    waiting += [str(given.__module__) for given in getattr(policy, "__dict__", {}).values() if callable(given)]
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


def take_fingerprint(thing: object, seen: dict[int, object]) -> str:
    """Hash everything that can be reached from an object.

    Args:
        thing: object to start from.
        seen: objects by `id` that are not to be entered again; extended.

    Returns:
        The hash, in hexadecimal.

    Example:
        >>> take_fingerprint([1, 2], {}) == take_fingerprint([1, 3], {})
        False
    """
    digest, stack = hashlib.sha256(), [thing]
    while stack and len(seen) < _MOST_OBJECTS:
        here = stack.pop()
        if id(here) in seen:
            continue
        seen[id(here)] = here
        digest.update(f"{type(here).__qualname__};".encode())
        digest.update(_read_content(here))
        stack += list(_list_parts(here))
    return digest.hexdigest()


def _read_content(thing: object) -> bytes:
    """Return the content of a leaf."""
    if isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        return thing.tobytes()
    for kinds, read in _READERS:
        if isinstance(thing, kinds):
            return repr(read(thing)).encode()
    try:
        return bytes(memoryview(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return _describe_builtin(thing)


def _describe_builtin(thing: object) -> bytes:
    """Return the `repr` of a built-in object, without addresses, and the position of an iterator."""
    kind = type(thing)
    if kind.__module__ not in _BUILTIN_MODULES or isinstance(
        thing, type | FunctionType | BuiltinFunctionType | MethodType
    ):
        return b""
    left = operator.length_hint(thing, -1) if isinstance(thing, Iterator) else -1
    shallow = isinstance(thing, Collection | property | staticmethod | classmethod)
    return f"{left} {'' if shallow else _ADDRESS.sub('', repr(thing))}".encode()


def _list_parts(thing: object) -> Iterable[object]:
    """Return what `thing` refers to, as far as it belongs to the policy."""
    if isinstance(thing, threading.local):
        return vars(thing).items()
    if isinstance(thing, FrameType | str | bytes | int | float) or type(thing).__module__.startswith(_OPAQUE):
        return ()
    walk = next((walk for kind, walk in _WALKS if isinstance(thing, kind)), gc.get_referents)
    return walk(thing)


def _list_class_parts(made: type) -> Iterator[object]:
    """Yield the variables of a class and of its bases, except those of libraries."""
    for cls in made.__mro__:
        path = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if path is not None and not path.startswith(_LIBRARIES):
            yield from ((k, v) for k, v in vars(cls).items() if k not in _OF_CLASSES)


def _list_function_parts(function: FunctionType) -> Iterator[object]:
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
    (type, _list_class_parts),
    (FunctionType, _list_function_parts),
    (GeneratorType, lambda made: () if made.gi_frame is None else made.gi_frame.f_locals.values()),
    (np.ndarray, lambda array: array.flat if array.dtype.kind == "O" else ()),
)
