"""Channels in compiled form: a batch is written and read in one of three modes.

The channel `auto` tells by the last records of a batch which it is: none of them is kept if the plain averages of the
kept records are the numbers, at least one if presence is a word.
Guarantee: held by tests/channels/test_channels.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vestige._numba import inner_kernel, kernel
from vestige.channels.residues import measure
from vestige.channels.segments import FLAGS, can_average, read_averages, write_flagged_averages, write_near_averages
from vestige.channels.syndrome import Code, make_code, prepare, read_words
from vestige.channels.word import (
    Attempt,
    count_least_rows,
    count_rows,
    find_header,
    find_key,
    make_attempt,
    make_message,
    read_header,
    read_numbers,
    write_averages,
)
from vestige.subset.workspace import Workspace, make_workspace
from vestige.types import Bools, Floats

AVERAGE, BITS, AUTO = 0, 1, 2
CONTROLS = 3
"""The records at the end of a batch that tell a word from averages, for the channel `auto`."""


class Writer(NamedTuple):
    """What a batch is written with; made by `make_writer`.

    Attributes:
        workspace: for averages.
        code: for words.
        attempt: for words.
    """

    workspace: Workspace
    code: Code
    attempt: Attempt


@kernel
def make_writer(slots: int, size: int) -> Writer:
    """Make what batches of so many slots are written with."""
    return Writer(make_workspace(slots), make_code(count_rows(slots, size)), make_attempt(slots, size))


@kernel
def count_free_rows(can: Bools, size: int) -> int:
    """Count the leading bits of a word that can be written into the records that can be kept."""
    rows = count_rows(len(can), size)
    return prepare(can, rows, make_code(rows))


@kernel
def can_write(can: Bools, size: int, mode: int) -> bool:
    """Tell whether any numbers can be written, or near ones that are marked as off; asked without values."""
    if mode == AVERAGE:
        return can_average(can, size, FLAGS)
    if mode == AUTO and not can[-CONTROLS:].any():
        return False
    return len(can) >= count_least_rows(size) and count_free_rows(can, size) >= count_least_rows(size)


@kernel
def is_word(present: Bools, mode: int) -> bool:
    """Tell whether a batch holds a word."""
    return mode == BITS or (mode == AUTO and bool(present[-CONTROLS:].any()))


@inner_kernel
def write_batch(
    values: Floats,
    can: Bools,
    target: Floats,
    low: Floats,
    near: Floats,
    far: Floats,
    spread: Floats,
    first: int,
    key: np.uint64,
    mode: int,
    dry: bool,
    writer: Writer,
    keep: Bools,
    numbers: Floats,
    off: Bools,
    rest: Floats,
) -> None:
    """Mark in `keep` the records of a batch that say `target`, and read what they say.

    Args:
        values: by slot; shape (slots, size).
        can: which slots hold a record that may be kept; shape (slots,).
        target: the numbers; shape (size,).
        low: what is to be added to them, which a float cannot hold beside them; shape (size,).
        near: an average within this distance of its number is near enough; shape (size,).
        far: a number that is written farther away than this is marked as off; shape (size,).
        spread: about the mean absolute deviation of the values; shape (size,).
        first: the first round of the batch.
        key: the coins, for the search of averages.
        mode: `AVERAGE`, `BITS` or `AUTO`.
        dry: whether it is known that all records of all batches of this writer can be kept.
        writer: from `make_writer`.
        keep: output; shape (slots,).
        numbers: output, what is read; shape (size,).
        off: which numbers are marked as off: before, and afterwards; shape (size,).
        rest: output, what is to be added to the numbers; shape (size,).
    """
    slots, size = values.shape
    if mode == AVERAGE:
        write_flagged_averages(values, can, target, low, near, far, off, key, writer.workspace, keep)
        read_averages(values, keep, FLAGS, numbers, off, rest)
        return
    if mode == AUTO and not off.any():
        keep[-CONTROLS:] = False
        if can_average(can[:-CONTROLS], size, 0) and write_near_averages(
            values[:-CONTROLS], can[:-CONTROLS], target, low, near, key, writer.workspace, keep[:-CONTROLS]
        ):
            read_averages(values[:-CONTROLS], keep[:-CONTROLS], 0, numbers, off, rest)
            return
    attempt, free = writer.attempt, count_rows(slots, size)
    if not dry:
        free = prepare(can, free, writer.code)
    marks = keep[-CONTROLS:] if mode == AUTO else keep
    is_off = write_averages(
        values,
        can,
        target,
        low,
        far,
        spread,
        bool(off.any()),
        find_key(first, slots),
        free,
        writer.code,
        attempt,
        keep,
        marks,
    )
    for i in range(size):
        numbers[i], rest[i], off[i] = attempt.numbers[i], attempt.rest[i], is_off


@kernel
def read_batch(
    values: Floats, present: Bools, first: int, mode: int, numbers: Floats, off: Bools, rest: Floats
) -> None:
    """Write the numbers that a batch holds, nan where one is lost, which are marked as off, and what to add to them."""
    slots, size = values.shape
    if mode == AVERAGE:
        read_averages(values, present, FLAGS, numbers, off, rest)
    elif not is_word(present, mode):
        read_averages(values[:-CONTROLS], present[:-CONTROLS], 0, numbers, off, rest)
    elif not present.any():
        numbers[:] = np.nan
    else:
        rows = count_rows(slots, size)
        message = make_message(rows)
        anchors, centres, scales, exponents = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
        read_words(present, rows, message)
        measure(values, present, size, True, np.empty(slots, np.int64), anchors, centres, scales)
        level, off[:] = read_header(message)
        header, power = find_header(level)
        key = find_key(first, slots)
        read_numbers(message, rows, size, header, power, anchors, centres, scales, key, numbers, rest, exponents)
