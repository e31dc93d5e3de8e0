"""One decorator compiles every numeric kernel, so that all kernels are compiled alike.

Kernels take arrays, validate nothing and know no objects; their callers validate once. They are compiled on first use
and cached beside the source, or in the user's cache folder if that cannot be written. The modules that contain them are
imported only when they are first needed, so that `import vestige` stays light.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.event import Event, Listener, register
from numba.core.typed_passes import NativeLowering
from numba.core.types import Type, unliteral

F = TypeVar("F", bound=Callable[..., object])

_LOG = logging.getLogger("vestige")
_SOURCES = ("_numba.py", "random/keys.py", "channels/layout.py")
"""Files without kernels whose constants are compiled into kernels."""


def kernel(function: F) -> F:
    """Compile a function with numba: cached if possible, without the interpreter lock, with division as in C.

    Args:
        function: the function, in the subset of Python that numba compiles.

    Returns:
        The compiled function, which has the same signature.

    Example:
        >>> kernel.__module__
        'vestige._numba'
    """
    return _compile(function, counts_references=True)


def inner_kernel(function: F) -> F:
    """Compile a kernel that allocates nothing: references to its arrays are not counted, which takes time in each call.

    Those who call it hold the arrays. It may call kernels that allocate what they need and return only numbers.

    Args:
        function: the function, in the subset of Python that numba compiles.

    Returns:
        The compiled function, which has the same signature.

    Example:
        >>> inner_kernel.__module__
        'vestige._numba'
    """
    return _compile(function, counts_references=False)


def _compile(function: F, counts_references: bool) -> F:
    compiled = functools.partial(numba.njit, nogil=True, error_model="numpy", _nrt=counts_references)
    try:
        dispatcher: Any = compiled(cache=True)(function)
        dispatcher._cache._cache_file._source_stamp = _digest_sources()
    except RuntimeError:  # numba found no writable folder
        _warn_uncached()
        dispatcher = compiled()(function)
    part: Any = compiled(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_PartCompiler)(function)
    part.add_overload = functools.partial(_add_part, part.overloads)
    dispatcher.get_call_template = functools.partial(_type_call, part.get_call_template)
    dispatcher.get_overload = part.get_overload
    return cast(F, dispatcher)


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
        _LOG.info(text)


def _is_first_process() -> bool:
    """Return whether this is not a worker process, so that workers do not repeat a message."""
    return multiprocessing.current_process().name == "MainProcess"


class _CompilationListener(Listener):
    """Announces compilation when the first kernel is compiled; kernels from the cache run no compiler passes."""

    def on_start(self, event: Event) -> None:
        if str(event.data.get("module")).startswith("vestige.") and _is_first_process():
            _announce_compilation()

    def on_end(self, event: Event) -> None:
        pass


register("numba:run_pass", _CompilationListener())  # type: ignore[no-untyped-call]
