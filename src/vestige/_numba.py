"""One decorator makes every numeric kernel, so that all kernels are compiled alike.

Kernels take arrays, validate nothing and know no objects; their callers validate once. They are compiled on first use
and cached beside the source, or in the user's cache folder if that cannot be written; see `vestige._compilation`. The
modules that contain them are imported only when they are first needed, so that `import vestige` stays light.
Compiling what a stream needs takes longer than interpreting it for some thousands of records. So Python runs the source
of kernels as long as there is little for them to do, and none of them is compiled, now or in the cache. Importing numba
alone takes longer than interpreting what one stream needs: until it is imported, the cache is not even looked at.
Guarantee: an interpreted kernel gives the same results, bit for bit; held by tests/test_interpretation.py.
"""

from __future__ import annotations

import functools
import math
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])

_PLAIN_NAMES: dict[str, dict[str, Any]] = {}
"""The globals of modules with kernels, where these are functions that are not compiled."""
_INTERPRETED = ("vestige.channels.", "vestige.keyed.", "vestige.statistics.")
"""Packages whose kernels take time in proportion to their arrays, and can be interpreted.

Those of `vestige.random` are not: the number of keys that they derive, which may be large, is not seen in advance."""
_MOST_NUMBERS = 20_000
"""The most numbers in the arrays of an interpreted call: the slowest kernel takes about a second for them."""
_MOST_SECONDS = 2.0
"""The most processor time that a process spends on interpreted calls: a small part of what compiling takes."""
_FEW_NUMBERS = 1_000
"""The most numbers in the arrays of a call that is interpreted although the kernel may be in the cache."""
_IMPORT_SECONDS = 0.2
"""The most processor time that a process spends on such calls: half of what importing numba takes."""


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
    return _make_kernel(function, counts_references=True)


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
    return _make_kernel(function, counts_references=False)


def _make_kernel(function: F, *, counts_references: bool) -> F:
    assert isinstance(function, FunctionType)  # noqa: S101
    can_interpret = function.__module__.startswith(_INTERPRETED)
    return cast(F, _Kernel(function, counts_references=counts_references, can_interpret=can_interpret))


class _Kernel:
    """A kernel that is interpreted until it is compiled; other kernels see what numba makes of it."""

    seconds_left: ClassVar[float] = _MOST_SECONDS
    import_seconds_left: ClassVar[float] = _IMPORT_SECONDS

    def __init__(self, function: FunctionType, *, counts_references: bool, can_interpret: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._counts_references, self._can_interpret = counts_references, can_interpret
        self._is_compiled = False

    def __call__(self, *args: Any) -> Any:
        if not self._is_compiled and self._can_interpret and _is_little(args) and self._is_faster_interpreted(args):
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
                spent = time.thread_time() - started
                _Kernel.seconds_left -= spent
                _Kernel.import_seconds_left -= spent
        if self._can_interpret:
            self._is_compiled, _Kernel.seconds_left = True, 0.0  # from now on all are compiled, each once
        return self._dispatcher(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._dispatcher, name)

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)

    @functools.cached_property
    def _dispatcher(self) -> Any:
        from vestige._compilation import make_dispatcher  # noqa: PLC0415  # it takes long to import

        return make_dispatcher(self.py_func, counts_references=self._counts_references)

    @property
    def _numba_type_(self) -> Any:
        return self._dispatcher._numba_type_

    def _is_faster_interpreted(self, args: Sequence[object]) -> bool:
        """Whether Python is done before numba is imported, or before the kernel is compiled."""
        if "numba" not in sys.modules and _Kernel.import_seconds_left > 0.0 and _count(args) <= _FEW_NUMBERS:
            return True
        return not self._is_cached

    @functools.cached_property
    def _is_cached(self) -> bool:
        """Whether the kernel is in the cache on disk, compiled for some types of arguments."""
        from vestige._compilation import is_cached  # noqa: PLC0415

        return is_cached(self._dispatcher)


def _is_little(args: Sequence[object]) -> bool:
    """Whether a call with these arguments may be interpreted."""
    return _Kernel.seconds_left > 0.0 and _count(args) <= _MOST_NUMBERS


def _count(args: Sequence[object]) -> int:
    """Count the numbers in the arrays among arguments."""
    return sum(each.size for each in args if isinstance(each, np.ndarray))


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
    from vestige import _compilation  # noqa: PLC0415  # it takes long to import

    return _compilation.is_cacheable()
