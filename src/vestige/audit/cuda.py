"""Trials of the audit game on a GPU of NVIDIA: the source of the same kernels, compiled for it by numba-cuda.

A kernel and all kernels that it calls become functions of the device. What the device does not need or cannot do is
replaced: averages are not searched for, records are never missing, and rounding goes by the device's own instructions.
Products and sums are not fused, which would round them once in place of twice.
Guarantee: the same answers as on the processor, bit for bit; held by tests/audit/test_array_game.py where there is a
GPU, and measured by benchmarks/accelerator.py.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np

from vestige.audit import array_kernels as kernels
from vestige.channels.averages import Scratch
from vestige.channels.kernels import Writer
from vestige.channels.layout import LONG_HEADER, MAX_BITS
from vestige.channels.syndrome import Code, make_code
from vestige.channels.word import Attempt
from vestige.errors import MissingExtraError, ParameterError
from vestige.types import Floats

_THREADS, _BLOCK = 1 << 17, 128
"""Trials at a time; how many of them share a multiprocessor."""
_FLOATS, _INTS, _WORDS = 19, 9, 2
"""Single numbers that a trial of a mean computes with, beside those of each record."""


def play_private_trials(root: int, first: int, words: int, known: kernels.Known, answers: Floats) -> None:
    """Play the trials from `first` on; see `vestige.audit.array_kernels.play_private_trials`."""
    numba_cuda, threads = find_device(), min(_THREADS, -(-len(answers) // _BLOCK) * _BLOCK)
    play, made = _compile_private(), numba_cuda.device_array(len(answers))
    state = numba_cuda.device_array((kernels.STATE + 5, threads), np.uint64)
    coins, numbers = numba_cuda.device_array((words, threads), np.uint64), numba_cuda.device_array((2, threads))
    counts = numba_cuda.device_array((2, threads), np.int64)
    sums = numba_cuda.to_device(known.sums)
    with _without_fusing():
        play[threads // _BLOCK, _BLOCK](np.uint64(root), first, sums, *known[1:], state, coins, counts, numbers, made)
    made.copy_to_host(answers)


def play_mean_trials(
    root: int, first: int, t: int, batch: int, target: int, value: float, tolerance: float, answers: Floats
) -> None:
    """Play the trials from `first` on; see `vestige.audit.array_kernels.play_mean_trials`."""
    rows = min(batch, LONG_HEADER + MAX_BITS)
    numba_cuda, threads = find_device(), min(_THREADS, -(-len(answers) // _BLOCK) * _BLOCK)
    play, made = _compile_mean(), numba_cuda.device_array(len(answers))
    columns = numba_cuda.to_device(make_code(rows).columns)
    floats = numba_cuda.device_array((_FLOATS + batch + 1, threads))
    records = numba_cuda.device_array((t, threads, 1))
    ints = numba_cuda.device_array((_INTS + batch, threads), np.int64)
    words = numba_cuda.device_array((max(_WORDS + t // batch, rows), threads), np.uint64)
    flags = numba_cuda.device_array((2 + 2 * batch + t, threads), np.bool_)
    with _without_fusing():
        play[threads // _BLOCK, _BLOCK](
            np.uint64(root), first, batch, target, value, tolerance, columns, floats, records, ints, words, flags, made
        )
    made.copy_to_host(answers)


def find_device() -> Any:
    """Find numba-cuda and a device for it.

    Returns:
        The module.

    Raises:
        MissingExtraError: numba-cuda is not installed.
        ParameterError: there is no device.
    """
    if importlib.util.find_spec("numba_cuda") is None:
        raise MissingExtraError("accelerator=True", "cuda")
    cuda: Any = importlib.import_module("numba.cuda")

    if not cuda.is_available():
        raise ParameterError(
            "accelerator=True needs a GPU of NVIDIA and its driver, and none was found; use accelerator=False, which "
            "gives the same answers"
        )
    return cuda


def make_device_function(kernel: Any) -> Any:
    """Make a function of the device from the source of a kernel, and from those of all kernels that it calls.

    Args:
        kernel: the kernel.

    Returns:
        The function.
    """
    cuda: Any = importlib.import_module("numba.cuda")

    source = kernel.py_func
    replaced = _list_replaced()
    names = dict(source.__globals__)
    for name in source.__code__.co_names:
        place = f"{source.__module__}.{name}"
        if place in replaced:
            names[name] = replaced[place]
        elif hasattr(names.get(name), "py_func"):
            names[name] = _find_function(names[name])
    copy = FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    copy.__module__, copy.__qualname__ = source.__module__, source.__qualname__
    return cuda.jit(copy, device=True, lto=False)


@functools.cache
def _find_function(kernel: Any) -> Any:
    return make_device_function(kernel)


@functools.cache
def _list_replaced() -> dict[str, Any]:
    """What the device does in its own way, by the module that calls it and its name."""
    cuda: Any = importlib.import_module("numba.cuda")
    libdevice: Any = importlib.import_module("numba.cuda.libdevice")

    residues, averages, batches, word = (
        f"vestige.channels.{name}." for name in ("residues", "averages", "kernels", "word")
    )
    functions: dict[str, Callable[..., object]] = {
        residues + "_floor": lambda number: libdevice.floor(number),  # noqa: PLW0108  # the device needs a function
        residues + "_round": lambda number: libdevice.rint(number),  # noqa: PLW0108  # the device needs a function
        residues + "_find_remainder": lambda number, span: libdevice.fmod(number, span),  # noqa: PLW0108  # the device needs a function
        residues + "_to_bits": lambda number: libdevice.double_as_longlong(number),  # noqa: PLW0108  # the device needs a function
        residues + "_to_number": lambda bits: libdevice.longlong_as_double(bits),  # noqa: PLW0108  # the device needs a function
        averages + "find_weights": lambda present, decay: present,  # noqa: ARG005  # True counts as 1
        word + "_rank": lambda attempt, key, free, width: None,  # noqa: ARG005  # for several numbers
        word + "read_words": lambda present, rows, message: None,  # noqa: ARG005  # where records are missing
        batches + "prepare": lambda can, free, code: free,  # noqa: ARG005
        batches + "can_average": lambda can, size, flags: False,  # noqa: ARG005
        batches + "read_averages": lambda a, b, c, d, e, f: None,  # noqa: ARG005
        batches + "write_near_averages": lambda a, b, c, d, e, f, g, h: False,  # noqa: ARG005
        batches + "write_flagged_averages": lambda a, b, c, d, e, f, g, h, i, j: None,  # noqa: ARG005
    }
    return {place: cuda.jit(function, device=True, lto=False) for place, function in functions.items()}


@contextmanager
def _without_fusing() -> Iterator[None]:
    """Have what is compiled meanwhile round each product and each sum, as the processor does.

    Optimization at link time would fuse them nevertheless, so functions are made without it, and by the form of `jit`
    that takes the function itself, since the other one does not pass `lto` on.
    """
    nvvm: Any = importlib.import_module("numba.cuda.cudadrv.nvvm")

    compile_ir = nvvm.compile_ir
    nvvm.compile_ir = functools.partial(compile_ir, fma=0)
    try:
        yield
    finally:
        nvvm.compile_ir = compile_ir


@functools.cache
def _compile_private() -> Any:
    """The kernel of the device for trials of a private average; arrays hold one column for each thread."""
    cuda: Any = importlib.import_module("numba.cuda")

    derive, play = _find_function(kernels.derive_trial), _find_function(kernels.play_private)
    make_known, make_sponge, coins_of = kernels.Known, kernels.Sponge, kernels.COINS

    def play_trials(  # type: ignore[no-untyped-def]
        root, first, sums, batch, step, deviation, limit, bits, state, coins, counts, numbers, answers
    ):
        thread = cuda.grid(1)
        known = make_known(sums, batch, step, deviation, limit, bits)
        sponge = make_sponge(
            state[:, thread],
            coins[:, thread],
            counts[0:1, thread],
            counts[1:2, thread],
            numbers[0:1, thread],
            numbers[1:2, thread],
        )
        for i in range(thread, len(answers), cuda.gridsize(1)):
            answers[i] = play(derive(root, first + i, coins_of), known, sponge)

    return cuda.jit(play_trials, lto=False)


@functools.cache
def _compile_mean() -> Any:
    """The kernel of the device for trials of a mean; arrays hold one column for each thread."""
    cuda: Any = importlib.import_module("numba.cuda")

    derive, play, records_of = _find_function(kernels.derive_trial), _find_function(kernels.play_mean), kernels.RECORDS
    make_room, make_scratch, make_writer, make_attempt, make_code_ = kernels.Room, Scratch, Writer, Attempt, Code

    def play_trials(  # type: ignore[no-untyped-def]
        root, first, batch, target, value, tolerance, columns, floats, records, ints, words, flags, answers
    ):
        thread = cuda.grid(1)
        f, n, w, b = floats[:, thread], ints[:, thread], words[:, thread], flags[:, thread]
        attempt = make_attempt(
            f[0:1],
            f[1:2],
            f[2:3],
            f[3:4],
            f[4:5],
            f[5:6],
            f[6:7],
            f[7:8],
            f[8:9],
            f[9:10],
            w[0:1],
            n[0:6],
            n[6:7],
            n[9 : 9 + batch],
        )
        n[7] = 0  # no record is wet
        checks = words[: len(columns)]  # only its length is used
        code = make_code_(columns, n[7:8], ints, n[8:9], checks, ints, words, w[1:2])
        scratch = make_scratch(
            make_writer(f, code, attempt),
            f[10:11],
            f[11:12],
            f[12:13],
            b[0:1],
            b[1:2],
            f[13:14],
            f[14:15],
            f[15:16],
            f[16:17],
            f[17:18],
            f[18:19],
            b[2 : 2 + batch],
            f[19 : 19 + batch],
        )
        for j in range(batch):
            f[19 + j] = 1.0
        everyone = b[2 + 2 * batch :]
        for j in range(len(everyone)):
            everyone[j] = True
        nothing = f[19 + batch : 20 + batch]
        nothing[0] = 0.0
        keys = w[2 : 2 + len(records) // batch]
        room = make_room(records[:, thread, :], everyone, nothing, keys, b[2 + batch : 2 + 2 * batch], scratch)
        for i in range(thread, len(answers), cuda.gridsize(1)):
            answers[i] = play(derive(root, first + i, records_of), target, value, tolerance, room)

    return cuda.jit(play_trials, lto=False)
