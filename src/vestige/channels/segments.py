"""Channels that give each number a segment of the batch: every size-th record, the last few of which are its controls.

See `vestige.channels.kernels` for the layout, and `vestige.channels.averages` for the compiled loop over many batches.
Guarantee: held by tests/channels/test_channels.py.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vestige.channels.channel import Channel, Reading, Target
from vestige.clock import Clock
from vestige.records import Records
from vestige.types import Bools, Floats


class Segments(Channel):
    """What the channels `average`, `bits` and `auto` share.

    Attributes:
        mode: how the kernels write a segment; see `vestige.channels.kernels`.
    """

    mode: ClassVar[int]

    def read(self, retained: Records, clock: Clock, size: int) -> Reading:  # noqa: ARG002
        """Read the numbers of the encoded batch in one compiled call; see `Channel.read`."""
        from vestige.channels.kernels import read_kept  # noqa: PLC0415

        length = clock.last - clock.first + 1
        return Reading(*read_kept(retained.rounds, retained.values, clock.first, length, self.mode))

    def read_slots(self, values: Floats, present: Bools, size: int) -> Reading:
        """Read the numbers of a batch that is laid out in slots; see `Channel.read_slots`."""
        from vestige.channels.kernels import read_batch  # noqa: PLC0415

        reading = Reading(np.empty(size), np.zeros(size, np.bool_))
        read_batch(values, present, self.mode, *reading)
        return reading

    def write(self, values: Floats, can: Bools, target: Target, key: np.uint64) -> Bools:
        """Choose the records that store the numbers, each in its segment; see `Channel.write`."""
        from vestige.channels.kernels import write_batch  # noqa: PLC0415
        from vestige.subset.workspace import make_workspace  # noqa: PLC0415

        keep = np.zeros(len(can), np.bool_)
        write_batch(values, can, *target, key, self.mode, make_workspace(len(can)), keep)
        return keep

    def can_encode(self, can: Bools, size: int) -> bool:
        """Tell whether each segment has enough records that may be kept; see `Channel.can_encode`."""
        from vestige.channels.kernels import can_write  # noqa: PLC0415

        return bool(can_write(can, size, self.mode))

    def uses_bits(self, present: Bools, size: int) -> Bools:
        """Tell by its controls which segments are presence bits; see `Channel.uses_bits`."""
        from vestige.channels.kernels import has_bits  # noqa: PLC0415

        return np.array([self.has_bits and has_bits(present[i::size]) for i in range(size)], np.bool_)

    def advance(
        self,
        before: Reading | None,
        values: Floats,
        present: Bools,
        can: Bools,
        encoded: int,
        decay: float,
        tolerance: float,
        keys: NDArray[np.uint64],
    ) -> Bools | None:
        """Update running averages by several batches in one compiled call; see `Channel.advance`."""
        from vestige.channels.averages import advance  # noqa: PLC0415

        size, keep = values.shape[1], np.zeros(len(values) // len(keys), np.bool_)
        numbers, off = Reading(np.zeros(size), np.zeros(size, np.bool_)) if before is None else before
        advance(values, present, can, numbers, off, encoded, decay, tolerance, keys, self.mode, keep)
        return keep
