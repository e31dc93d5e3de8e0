"""One decorator compiles every numeric kernel, so that all of them are compiled alike.

Kernels take arrays, validate nothing and know no objects; their callers validate once. They are compiled on first
use and cached beside the source, or in the user's cache folder where that cannot be written; the modules that hold them
are imported only when they are first needed, so that `import vestige` stays light.
Guarantee: where nothing can be cached they are compiled each time and say so once; held by tests/test_numba.py.
"""

from __future__ import annotations

import functools
import logging
import multiprocessing
import sys
from collections.abc import Callable
from typing import TypeVar, cast

import numba
from numba.core.event import Event, Listener, register

F = TypeVar("F", bound=Callable[..., object])

_LOG = logging.getLogger("vestige")


def kernel(function: F) -> F:
    """Compile `function` with numba: cached where that is possible, without the interpreter lock, division as in C."""
    compiled = functools.partial(numba.njit, nogil=True, error_model="numpy")
    try:
        return cast(F, compiled(cache=True)(function))
    except RuntimeError:  # numba found no folder that it can write to
        _say_that_nothing_is_cached()
        return cast(F, compiled()(function))


@functools.cache
def _say_that_nothing_is_cached() -> None:
    if _is_first_process():
        _LOG.warning(
            "vestige: kernels are compiled each time, which takes about half a minute, since no folder for them can be "
            "written; set NUMBA_CACHE_DIR to a folder that can"
        )


@functools.cache
def _say_that_it_takes_long() -> None:
    text = "vestige: compiling kernels; this takes about half a minute, and only once where they can be cached"
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")
    else:
        _LOG.info(text)


def _is_first_process() -> bool:
    """Not a worker, so that many of them do not say the same."""
    return multiprocessing.current_process().name == "MainProcess"


class _FirstUse(Listener):
    """Says that kernels are being compiled, when the first one is: what comes from the cache runs no passes."""

    def on_start(self, event: Event) -> None:
        if str(event.data.get("module")).startswith("vestige.") and _is_first_process():
            _say_that_it_takes_long()

    def on_end(self, event: Event) -> None:
        pass


register("numba:run_pass", _FirstUse())  # type: ignore[no-untyped-call]
