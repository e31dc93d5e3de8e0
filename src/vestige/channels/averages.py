"""Running averages over many batches in one compiled call, of which a single update is the case of one batch.

For each batch: move the averages by its records, keep the records that hold the result, and read them back. Only the
choice in the last batch is returned; those before it have been replaced.
Guarantee: extending by an array gives the same state as pushing one by one; held by tests/stream/test_rules.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import inner_kernel, kernel
from vestige.channels.kernels import Writer, make_writer, write_batch
from vestige.channels.word import find_key
from vestige.random.kernels import draw_uniform
from vestige.statistics.kernels import (
    find_deviation,
    find_far_limit,
    find_share,
    find_spread,
    find_tolerance,
    find_weights,
    move_averages,
)
from vestige.types import Bools, Floats

_MARK_DRAW = 1 << 20
"""A draw that is not used for anything else."""


class Scratch(NamedTuple):
    """Arrays that updates by batches of one length compute with; made by `make_scratch`.

    Attributes:
        writer: what batches are written with.
        estimate: what the last batch says; shape (size,).
        rest: what is to be added to that; shape (size,).
        held: what the batch before it says; shape (size,).
        off: which of these numbers are marked as off; shape (size,).
        was_off: the same before the last batch; shape (size,).
        target: the averages to write; shape (size,).
        low: what is to be added to them; shape (size,).
        spread: the mean absolute deviations of a batch; shape (size,).
        near: how near an average has to be; shape (size,).
        about: the deviations of a batch about the target; shape (size,).
        far: from where on a number is marked as off; shape (size,).
        kept: the records of the batch before that are kept; shape (length,).
        alike: a weight of 1 for each record; shape (length,).
    """

    writer: Writer
    estimate: Floats
    rest: Floats
    held: Floats
    off: Bools
    was_off: Bools
    target: Floats
    low: Floats
    spread: Floats
    near: Floats
    about: Floats
    far: Floats
    kept: Bools
    alike: Floats


@kernel
def make_scratch(length: int, size: int) -> Scratch:
    """Make what batches of so many records are computed with; it carries nothing from one call to the next."""
    return Scratch(
        make_writer(length, size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size, np.bool_),
        np.empty(size, np.bool_),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(length, np.bool_),
        np.ones(length),
    )


@kernel
def draw_mark(first: int, length: int, i: int) -> float:
    """Draw the public coin that decides whether a miss of number i is marked; see `find_far_limit`."""
    return draw_uniform(find_key(first, length) + np.uint64(i), _MARK_DRAW)


@kernel
def advance(
    atoms: Floats,
    present: Bools,
    can: Bools,
    whole: bool,
    before: Floats,
    before_off: Bools,
    before_rest: Floats,
    usual: Floats,
    encoded: int,
    decay: float,
    allowed: float,
    first: int,
    keys: NDArray[np.uint64],
    mode: int,
    keep: Bools,
) -> None:
    """Write into `keep` which records of the last batch to keep.

    A miss is harmless within `find_far_limit`; beyond it the kept records mark, from then on, that the number may be
    off. The deviation is taken about the target, because records that come in order are alike within a batch.

    Args:
        atoms: the batches one after the other, of equal length; shape (batches * length, size).
        present: which rounds have a record; shape (batches * length,).
        can: which of the records may be kept; shape (batches * length,).
        whole: whether all rounds have a record that may be kept.
        before: the averages before the first batch; shape (size,).
        before_off: which of them are marked as off; shape (size,).
        before_rest: what is to be added to them; shape (size,).
        usual: the deviation of the records that hold them, see `find_spread`; shape (size,).
        encoded: the number of records that they count; 0 if there are none.
        decay: the share of a record's weight that is left after each that follows; 1 if all count alike.
        allowed: how far from its target an average may be, as a share of its standard error.
        first: the first round of the first batch.
        keys: the coins of each batch; shape (batches,).
        mode: how a segment is written, see `vestige.channels.kernels`.
        keep: which of the last `length` records to keep; shape (length,).
    """
    scratch = make_scratch(len(atoms) // len(keys), atoms.shape[1])
    advance_with(
        scratch,
        atoms,
        present,
        can,
        whole,
        before,
        before_off,
        before_rest,
        usual,
        encoded,
        decay,
        allowed,
        first,
        keys,
        mode,
        keep,
    )


@inner_kernel
def _begin(scratch: Scratch, before: Floats, before_off: Bools, before_rest: Floats) -> None:
    for i in range(len(before)):  # not as whole arrays: numba would compile the text of an error for that
        scratch.estimate[i] = scratch.held[i] = before[i]
        scratch.rest[i], scratch.off[i], scratch.was_off[i] = before_rest[i], before_off[i], before_off[i]


@kernel
def advance_with(
    scratch: Scratch,
    atoms: Floats,
    present: Bools,
    can: Bools,
    whole: bool,
    before: Floats,
    before_off: Bools,
    before_rest: Floats,
    usual: Floats,
    encoded: int,
    decay: float,
    allowed: float,
    first: int,
    keys: NDArray[np.uint64],
    mode: int,
    keep: Bools,
) -> None:
    """Do what `advance` does, with arrays that are used again for the next stream."""
    length, size = len(atoms) // len(keys), atoms.shape[1]
    writer, estimate, rest, held, off, was_off, target, low, spread, near, about, far, kept, alike = scratch
    _begin(scratch, before, before_off, before_rest)
    weights, count = find_weights(present[:length], decay), length
    for k in range(len(keys)):
        here, start = slice(k * length, (k + 1) * length), first + k * length
        if not whole:
            weights, count = find_weights(present[here], decay), present[here].sum()
        encoded += count
        share = find_share(count, encoded, decay)
        move_averages(estimate, rest, atoms[here], present[here], weights, share, target, low, spread)
        for i in range(size):
            near[i] = find_tolerance(allowed, spread[i], count, share, 0.0)
            about[i] = find_deviation(target[i], atoms[here, i], present[here], weights)
            far[i] = np.inf
        may_miss = False
        while True:  # at first without a limit, for which the records before need not be looked at; seldom once more
            write_batch(
                atoms[here],
                can[here],
                target,
                low,
                near,
                far,
                spread,
                start,
                keys[k],
                mode,
                whole,
                writer,
                keep,
                estimate,
                off,
                rest,
            )
            if may_miss:
                break
            for i in range(size):
                least = find_spread(0.0, about[i], share)
                limit = find_far_limit(least, count, share, 0.0, draw_mark(start, length, i))
                error = abs((estimate[i] - target[i]) + (rest[i] - low[i]))
                may_miss |= not off[i] and not error <= max(limit, near[i])
            if not may_miss:
                break
            for i in range(size):
                old = usual[i]
                if k:
                    old = find_deviation(held[i], atoms[here.start - length : here.start, i], kept, alike)
                all_records = find_spread(old, about[i], share)
                limit = find_far_limit(all_records, count, share, 0.0, draw_mark(start, length, i))
                far[i] = max(limit, near[i])
            for i in range(size):
                off[i] = was_off[i]
        for i in range(size):
            was_off[i], held[i] = off[i], estimate[i]
        for j in range(length):
            kept[j] = keep[j]
