"""One decorator compiles every numeric kernel, so that all of them are compiled alike.

Kernels take arrays, validate nothing and know no objects; their callers validate once. They are compiled on first
use and cached beside the source, and the modules that hold them are imported only when they are first needed, so
that `import vestige` stays light.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile `function` with numba: cached, without the interpreter lock, division as in C."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
