"""Does a policy keep anything? A fingerprint of everything that it can reach, to be taken before and after it has run.

Walks from the policy through its class, its methods' closures and default arguments, the variables of its module and of
the modules of its own that it uses, generators, random states and containers. Libraries are not entered.
"""

from __future__ import annotations

import gc
import hashlib
import os
import random
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from types import FrameType, FunctionType, GeneratorType, ModuleType

import numpy as np

from vestige.policy import Policy

_MOST_OBJECTS = 200_000
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_OPAQUE = ("numba", "llvmlite", "threading", "_thread", "importlib", "_frozen_importlib", "logging", "weakref")


def fingerprints(policy: Policy) -> dict[str, str]:
    """What can be reached from each place where a policy could keep something, as a hash each."""
    places: dict[str, object] = {"the policy": policy, "its class": type(policy), "os.environ": dict(os.environ)}
    for name in sorted(_own_modules(policy)):
        places[f"module {name}"] = {k: v for k, v in vars(sys.modules[name]).items() if not k.startswith("__")}
    return {place: _fingerprint(thing, place) for place, thing in places.items()}


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


def _fingerprint(thing: object, place: str) -> str:
    digest = hashlib.sha256()
    stack, seen = [thing], set[int]()
    while stack and len(seen) < _MOST_OBJECTS:
        here = stack.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        digest.update(f"{type(here).__qualname__};".encode())
        digest.update(_content(here))
        stack += list(_parts(here, top=here is thing and place == "its class"))
    return digest.hexdigest()


def _content(thing: object) -> bytes:
    """What a leaf holds."""
    if isinstance(thing, bool | int | float | complex | str | bytes | bytearray | np.generic):
        return repr(thing).encode()
    if isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        return thing.tobytes()
    if isinstance(thing, np.random.Generator):
        return repr(thing.bit_generator.state).encode()
    if isinstance(thing, random.Random):
        return repr(thing.getstate()).encode()
    try:
        return bytes(memoryview(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return b""


def _parts(thing: object, *, top: bool) -> Iterable[object]:
    """What `thing` refers to, as far as it belongs to the policy."""
    kind = type(thing)
    if isinstance(thing, ModuleType | FrameType | str | bytes | int | float) or kind.__module__.startswith(_OPAQUE):
        return ()
    if isinstance(thing, type):
        own = [cls for cls in thing.__mro__ if cls.__module__ != "builtins"] if top else [thing]
        library = (getattr(sys.modules.get(thing.__module__), "__file__", None) or _LIBRARIES[0]).startswith(_LIBRARIES)
        return () if library else [value for cls in own for name, value in vars(cls).items() if name[:1] != "_"]
    if isinstance(thing, FunctionType):
        return _function_parts(thing)
    if isinstance(thing, GeneratorType):
        return list(thing.gi_frame.f_locals.values()) if thing.gi_frame is not None else ()
    if isinstance(thing, np.ndarray):
        return list(thing.flat) if thing.dtype.kind == "O" else ()
    return gc.get_referents(thing)


def _function_parts(function: FunctionType) -> Iterator[object]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from vars(function).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a cell that is still empty
            continue
