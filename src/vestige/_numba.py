"""One decorator compiles every numeric kernel, so that all kernels are compiled alike.

Kernels take arrays, validate nothing and know no objects; their callers validate once. They are compiled on first use
and cached beside the source, or in the user's cache folder if that cannot be written. The modules that contain them are
imported only when they are first needed, so that `import vestige` stays light.
Numba recognises a stale cache by the file of the kernel alone, not by those of the kernels that it calls; here a cache
belongs to the contents of all files with kernels, so that an update in place never mixes two versions.
A kernel that others call is compiled a second time for them, as a part: without a wrapper for Python, machine code or a
file in the cache, and optimized only where it ends up. Numba would do all of that for each kernel and for all that it
calls, again at every level; compiling takes half of the time without.
Compiling what a stream needs takes longer than interpreting it for some thousands of records. So Python runs the source
of kernels as long as there is little for them to do, and none of them is compiled, now or in the cache.
Guarantee: if nothing can be cached, each process compiles kernels, with one warning; a kernel is compiled again when
one that it calls has changed; held by tests/test_numba.py. An interpreted kernel gives the same results, bit for bit;
held by tests/test_interpretation.py.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import math
import multiprocessing
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, ClassVar, TypeVar, cast

import numba
import numpy as np
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.event import Event, Listener, register
from numba.core.typed_passes import NativeLowering
from numba.core.types import Type, unliteral
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])

_LOG = logging.getLogger("vestige")
_SOURCES = ("_numba.py", "random/keys.py", "channels/layout.py", "row_numbers.py")
"""Files without kernels whose constants are compiled into kernels."""
_PLAIN_NAMES: dict[str, dict[str, Any]] = {}
"""The globals of modules with kernels, where these are functions that are not compiled."""
_INTERPRETED = ("vestige.channels.", "vestige.statistics.")
"""Packages whose kernels take time in proportion to their arrays, and can be interpreted.

Those of `vestige.random` are not: the number of keys that they derive, which may be large, is not seen in advance."""
_MOST_NUMBERS = 20_000
"""The most numbers in the arrays of an interpreted call: the slowest kernel takes about a second for them."""
_MOST_SECONDS = 2.0
"""The most processor time that a process spends on interpreted calls: a small part of what compiling takes."""
_PATIENCE = 2.0
"""Seconds of compilation after which it is announced."""


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
    if not function.__module__.startswith(_INTERPRETED):
        return cast(F, dispatcher)
    return cast(F, _Kernel(dispatcher))


def _load_index(load: Callable[[], dict[Any, str]]) -> dict[Any, str]:
    """Read what a kernel is cached for; that of another version may name types of modules that are gone."""
    try:
        return load()
    except (ImportError, AttributeError):
        return {}


class _Kernel:
    """A kernel that is interpreted until it is compiled; other kernels see what numba makes of it."""

    seconds_left: ClassVar[float] = _MOST_SECONDS

    def __init__(self, dispatcher: Any) -> None:
        functools.update_wrapper(self, dispatcher.py_func)
        self.py_func = dispatcher.py_func
        self._numba_type_ = dispatcher._numba_type_
        self._dispatcher = dispatcher
        self._is_compiled = False

    def __call__(self, *args: Any) -> Any:
        if not self._is_compiled and _is_little(args) and not self._is_cached:
            arrays, started = list(_list_arrays(args)), time.thread_time()
            before = [array.copy() for array in arrays]
            try:
                with np.errstate(all="ignore"):
                    return _to_python(_make_plain(self.py_func)(*args))
            except Exception:  # what Python refuses and a machine does, as to divide by zero
                for array, values in zip(arrays, before, strict=True):
                    if array.flags.writeable:
                        array[...] = values
            finally:
                _Kernel.seconds_left -= time.thread_time() - started
        self._is_compiled, _Kernel.seconds_left = True, 0.0  # from now on all are compiled, each once
        return self._dispatcher(*args)

    @functools.cached_property
    def _is_cached(self) -> bool:
        """Whether the kernel is in the cache on disk, compiled for some types of arguments."""
        file = getattr(self._dispatcher._cache, "_cache_file", None)
        return file is not None and bool(file._load_index())


def _is_little(args: Sequence[object]) -> bool:
    """Whether a call with these arguments may be interpreted."""
    numbers = sum(each.size for each in args if isinstance(each, np.ndarray))
    return numbers <= _MOST_NUMBERS and _Kernel.seconds_left > 0.0


def _list_arrays(value: object) -> Iterator[NDArray[Any]]:
    """The arrays among arguments, and in tuples among them."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _list_arrays(each)


def _to_python(value: Any) -> Any:
    """What a kernel returns, with Python's numbers in place of those of numpy, as compiled kernels return them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        parts = [_to_python(each) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


_TOO_LARGE = 1 << 63


def _to_integer(number: Any) -> int:
    """The whole part of a number as the machine makes an integer of it, which has 64 bits."""
    if -_TOO_LARGE <= number < _TOO_LARGE:
        return int(number)
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        raise OverflowError("what a machine of another kind makes of it is not known here")
    return -_TOO_LARGE


_MATH = SimpleNamespace(
    **vars(math)
    | {
        "floor": lambda number: _to_integer(np.floor(number)),
        "ldexp": lambda number, exponent: math.ldexp(number, int(exponent)),
    }
)
"""The functions of `math` as kernels know them."""


def _make_plain(function: Any) -> FunctionType:
    """Make a function of the source of a kernel, for which all kernels that it calls are such functions too."""
    names = _PLAIN_NAMES.get(function.__module__)
    if names is None:
        names = _PLAIN_NAMES[function.__module__] = dict(function.__globals__)
        kernels = {name: value.py_func for name, value in names.items() if hasattr(value, "py_func")}
        names.update({name: _make_plain(called) for name, called in kernels.items()}, int=_to_integer, math=_MATH)
    return FunctionType(function.__code__, names, argdefs=function.__defaults__)


def limit_interpretation(seconds: float) -> None:
    """Set for how long this process may still interpret kernels before it compiles them; 0 to compile them at once.

    Args:
        seconds: the processor time.

    Example:
        >>> limit_interpretation(0.0)
    """
    _Kernel.seconds_left = seconds


def is_cacheable() -> bool:
    """Find out whether compiled kernels can be cached.

    Returns:
        whether there is a folder for them that can be written.

    Example:
        >>> is_cacheable()
        True
    """
    try:
        numba.njit(cache=True)(is_cacheable)
    except RuntimeError:
        return False
    return True


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
