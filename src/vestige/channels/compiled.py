"""Channels whose batches are written and read by kernels, where the numbers are the means of the values.

See `vestige.channels.kernels`, and `vestige.channels.averages` for the loop over many batches.
Guarantee: held by tests/channels/test_channels.py.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vestige.channels.channel import Channel, Reading, Target
from vestige.statistics import Statistic
from vestige.types import Bools, Floats


class Compiled(Channel):
    """What the channels `average`, `bits` and `auto` share.

    Attributes:
        mode: how the kernels write a batch; see `vestige.channels.kernels`.
    """

    mode: ClassVar[int]

    def read_slots(self, values: Floats, present: Bools, statistic: Statistic, first: int) -> Reading:
        """Read the numbers of a batch that is laid out in slots; see `Channel.read_slots`."""
        from vestige.channels.kernels import read_batch  # noqa: PLC0415

        size = statistic.size
        numbers, off, rest = np.empty(size), np.zeros(size, np.bool_), np.zeros(size)
        read_batch(values, present, first, self.mode, numbers, off, rest)
        return Reading(numbers, off, rest)

    def write(
        self,
        values: Floats,
        can: Bools,
        target: Target,
        statistic: Statistic,  # noqa: ARG002
        first: int,
        key: np.uint64,
    ) -> Bools:
        """Choose the records that store the numbers; see `Channel.write`."""
        from vestige.channels.kernels import make_writer, write_batch  # noqa: PLC0415

        keep, (numbers, near, far, off, _) = np.zeros(len(can), np.bool_), target
        writer, read, rest, usable = make_writer(*values.shape), np.empty(len(numbers)), target.low, values[can]
        usable = usable - usable[:1]
        spread, off = np.abs(usable - usable.mean(axis=0)).mean(axis=0), off.copy()
        write_batch(
            values,
            can,
            numbers,
            target.low,
            near,
            far,
            spread,
            first,
            key,
            self.mode,
            False,
            writer,
            keep,
            read,
            off,
            rest,
        )
        return keep

    def can_encode(self, can: Bools, size: int) -> bool:
        """Tell whether any numbers can be stored in these records; see `Channel.can_encode`."""
        from vestige.channels.kernels import can_write  # noqa: PLC0415

        return bool(can_write(can, size, self.mode))

    def advance(
        self,
        before: Reading | None,
        usual: Floats,
        values: Floats,
        present: Bools,
        can: Bools,
        first: int,
        encoded: int,
        decay: float,
        tolerance: float,
        keys: NDArray[np.uint64],
    ) -> Bools | None:
        """Update running averages by several batches in one compiled call; see `Channel.advance`."""
        from vestige.channels.averages import advance  # noqa: PLC0415

        size, keep = values.shape[1], np.zeros(len(values) // len(keys), np.bool_)
        before = Reading(np.zeros(size), np.zeros(size, np.bool_)) if before is None else before
        whole = bool(present.all() and can.all())
        advance(
            values,
            present,
            can,
            whole,
            before.numbers,
            before.off,
            before.low,
            usual,
            encoded,
            decay,
            tolerance,
            first,
            keys,
            self.mode,
            keep,
        )
        return keep
