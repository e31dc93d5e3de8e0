"""Does a policy hold on to records that were erased? Look at everything that it can reach.

Walks from the policy through its class, its methods' closures, default arguments and module variables, generators and
containers, and looks for the erased values themselves. Other modules are not entered.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from types import FrameType, FunctionType, GeneratorType, ModuleType

import numpy as np

from vestige.policy import Policy
from vestige.records import Floats

_MOST_OBJECTS = 200_000


def holds_any(policy: Policy, erased: Floats) -> str | None:
    """Where an erased value is still held, in words; None if nowhere."""
    wanted = np.unique(erased)
    home = {cls.__module__ for cls in type(policy).__mro__ if cls.__module__ not in ("abc", "builtins")}
    stack: list[tuple[object, str]] = [(policy, "the policy"), (type(policy), "its class")]
    stack += [(vars(sys.modules[name]), f"module {name}") for name in home if name in sys.modules]
    seen: set[int] = set()
    while stack and len(seen) < _MOST_OBJECTS:
        thing, where = stack.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if _contains(thing, wanted):
            return where
        stack += [(part, where) for part in _parts(thing, home)]
    return None


def _contains(thing: object, wanted: Floats) -> bool:
    if isinstance(thing, float):
        return bool(np.isin(thing, wanted))
    if isinstance(thing, np.ndarray) and thing.dtype == np.float64:
        return bool(np.isin(thing, wanted).any())
    if isinstance(thing, bytes | bytearray) and len(thing) >= 8:
        return any(value.tobytes() in thing for value in wanted)
    if isinstance(thing, str) and len(thing) >= 8:
        return any(repr(float(value)) in thing for value in wanted)
    return False


def _parts(thing: object, home: set[str]) -> Iterable[object]:
    """What `thing` refers to, as far as it belongs to the policy."""
    if isinstance(thing, ModuleType | FrameType):
        return ()
    if isinstance(thing, type):
        return vars(thing).values() if thing.__module__ in home else ()
    if isinstance(thing, FunctionType):
        return _function_parts(thing)
    if isinstance(thing, GeneratorType):
        return thing.gi_frame.f_locals.values() if thing.gi_frame is not None else ()
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
