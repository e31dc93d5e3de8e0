"""How numba compiles kernels: cached where that is possible, with those that they call as parts.

Importing numba takes longer than most commands do, so this module is imported when a kernel is first compiled or read
from the cache; see `vestige._numba`.
Numba recognises a stale cache by the file of the kernel alone, not by those of the kernels that it calls; here a cache
belongs to the contents of all files with kernels, so that an update in place never mixes two versions.
A kernel that others call is compiled a second time for them, as a part: without a wrapper for Python, machine code or a
file in the cache, and optimized only where it ends up. Numba would do all of that for each kernel and for all that it
calls, again at every level; compiling takes half of the time without.
Guarantee: if nothing can be cached, each process compiles kernels, with one warning; a kernel is compiled again when
one that it calls has changed; held by tests/test_numba.py.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.event import Event, Listener, register
from numba.core.typed_passes import NativeLowering
from numba.core.types import Type, unliteral

_LOG = logging.getLogger("vestige")
_SOURCES = ("_compilation.py", "_numba.py", "random/keys.py", "channels/layout.py", "row_numbers.py")
"""Files without kernels whose constants are compiled into kernels, or that say how these are compiled."""
_PATIENCE = 2.0
"""Seconds of compilation after which it is announced."""


def make_dispatcher(function: FunctionType, *, counts_references: bool) -> Any:
    """Make what compiles a kernel for the types of its arguments, or finds it in the cache.

    Args:
        function: the kernel.
        counts_references: whether references to arrays are counted.

    Returns:
        The dispatcher of numba.
    """
    compiled = functools.partial(numba.njit, nogil=True, error_model="numpy", _nrt=counts_references)
    try:
        dispatcher: Any = compiled(cache=True)(function)
        file = dispatcher._cache._cache_file
        file._source_stamp = _digest_sources()
        file._load_index = functools.partial(_load_index, file._load_index)
    except RuntimeError:  # numba found no writable folder
        _warn_uncached()
        dispatcher = compiled()(function)
    part: Any = compiled(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_PartCompiler)(function)
    part.add_overload = functools.partial(_add_part, part.overloads)
    dispatcher.get_call_template = functools.partial(_type_call, part.get_call_template)
    dispatcher.get_overload = part.get_overload
    return dispatcher


def is_cached(dispatcher: Any) -> bool:
    """Find out whether a kernel is in the cache on disk, compiled for some types of arguments.

    Args:
        dispatcher: what `make_dispatcher` made of the kernel.

    Returns:
        True if it is.
    """
    file = getattr(dispatcher._cache, "_cache_file", None)
    return file is not None and bool(file._load_index())


def is_cacheable() -> bool:
    """Find out whether compiled kernels can be cached.

    Returns:
        whether there is a folder for them that can be written.
    """
    try:
        numba.njit(cache=True)(is_cacheable)
    except RuntimeError:
        return False
    return True


def _load_index(load: Callable[[], dict[Any, str]]) -> dict[Any, str]:
    """Read what a kernel is cached for; that of another version may name types of modules that are gone."""
    try:
        return load()
    except (ImportError, AttributeError):
        return {}


def _add_part(overloads: dict[tuple[Type, ...], Any], made: Any) -> None:
    """Keep a part; numba would also make it callable from Python."""
    overloads[tuple(made.signature.args)] = made


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _PartLowering(NativeLowering):
    """Turns a part into what the kernels that call it are linked with."""

    _name = "vestige_part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        state.library._optimize_final_module = lambda: None
        state.library._finalize_final_module = functools.partial(_finalize_part, state.library)
        state.flags.no_compile = True
        super().run_pass(state)  # type: ignore[no-untyped-call]
        key = object()  # callers find the part by it, as they find other functions by their addresses
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=key)
        return True


def _finalize_part(library: Any) -> None:
    library._finalize_dynamic_globals()
    library._finalized = True


class _PartCompiler(CompilerBase):
    """Compiles a part: as numba does, but for `_PartLowering`."""

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        passes = [(_PartLowering if made is NativeLowering else made, about) for made, about in manager.passes]
        manager.passes, manager._finalized = passes, False
        manager.finalize()
        return [manager]


@functools.cache
def _digest_sources() -> str:
    """Digest the files that define kernels, or constants of theirs."""
    sources = _read_sources()
    return hashlib.sha256(b"".join(sources[name] for name in sorted(sources))).hexdigest()


def _read_sources() -> dict[str, bytes]:
    package = Path(__file__).parent
    sources = {path.relative_to(package).as_posix(): path.read_bytes() for path in package.rglob("*.py")}
    return {name: text for name, text in sources.items() if b"from vestige._numba import" in text or name in _SOURCES}


def _type_call(type_call: Callable[..., object], args: Sequence[Type], keywords: Mapping[str, Type]) -> object:
    """Type a call from another kernel, with a constant as any other number: it is not compiled for separately."""
    plain: Callable[[Type], Type] = unliteral
    return type_call([plain(each) for each in args], {name: plain(each) for name, each in keywords.items()})


@functools.cache
def _warn_uncached() -> None:
    if _is_first_process():
        _LOG.warning(
            "vestige: kernels are compiled in each process, which takes about half a minute, since no cache folder is "
            "writable; set NUMBA_CACHE_DIR to a writable folder"
        )


@functools.cache
def _announce_compilation() -> None:
    text = "vestige: compiling kernels; this takes about half a minute, once per installation"
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")
    else:
        _LOG.warning(text)  # which is seen by default, as in a notebook


def _is_first_process() -> bool:
    """Return whether this is not a worker process, so that workers do not repeat a message."""
    return multiprocessing.current_process().name == "MainProcess"


class _CompilationListener(Listener):
    """Announces compilation once it takes long; kernels from the cache run no compiler passes."""

    def __init__(self) -> None:
        self._depth, self._seconds, self._since, self._is_ours = 0, 0.0, 0.0, False

    def on_start(self, event: Event) -> None:
        now = time.perf_counter()
        if self._depth == 0:
            self._since, self._is_ours = now, str(event.data.get("module")).startswith("vestige.")
        self._depth += 1
        if self._is_ours and self._seconds + now - self._since >= _PATIENCE and _is_first_process():
            _announce_compilation()

    def on_end(self, event: Event) -> None:  # noqa: ARG002
        self._depth -= 1
        if self._depth == 0 and self._is_ours:
            self._seconds += time.perf_counter() - self._since


register("numba:run_pass", _CompilationListener())  # type: ignore[no-untyped-call]
