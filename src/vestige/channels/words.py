"""Presence bits alone: one word for each number, which no value has a part in.

For numbers that are not averages of the values, such as moments and coefficients, and for those that carry noise. Four
records say by how much a word is turned, one that kept means zero; see `vestige.channels.kernels.write_words`.
Guarantee: whatever can be written is within 2^-11 of the number; held by tests/channels/test_spelled.py.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from vestige.channels.channel import Channel, Reading, Target
from vestige.channels.precision import MIN_BATCH, mantissa_bits
from vestige.types import Bools, Floats


class PresenceWords(Channel):
    """Every number in presence bits alone, so that what is kept does not depend on values but through the numbers.

    Example:
        >>> channel, everyone = PresenceWords(), np.ones(128, np.bool_)
        >>> keep = channel.write(np.zeros((128, 1)), everyone, Target.exactly(np.array([0.1, -3.0])), np.uint64(7))
        >>> channel.read_slots(np.zeros((128, 1)), keep, 2).numbers.round(9)
        array([ 0.1, -3. ])
    """

    name: ClassVar[str] = "bits"
    min_batch: ClassVar[int] = MIN_BATCH
    is_rewritable: ClassVar[bool] = False

    def read_slots(self, values: Floats, present: Bools, size: int) -> Reading:  # noqa: ARG002
        """Read the numbers that presence spells; see `Channel.read_slots`."""
        from vestige.channels.kernels import read_words  # noqa: PLC0415

        numbers = read_words(np.flatnonzero(present), 0, len(present), size)
        return Reading(numbers, np.zeros(size, np.bool_))

    def write(self, values: Floats, can: Bools, target: Target, key: np.uint64) -> Bools:  # noqa: ARG002
        """Choose the records that spell the numbers; see `Channel.write`."""
        from vestige.channels.kernels import write_words  # noqa: PLC0415

        keep = np.zeros(len(can), np.bool_)
        write_words(can, target.numbers, key, keep, np.empty(len(target.numbers)))
        return keep

    def can_encode(self, can: Bools, size: int) -> bool:
        """Tell whether each word can spell any number; see `Channel.can_encode`."""
        from vestige.channels.kernels import can_write_words  # noqa: PLC0415

        return bool(can_write_words(can, size))

    def count_mantissa_bits(self, can: Bools, size: int) -> int:
        """Count the bits of the mantissa that each word keeps at least; see `Channel.count_mantissa_bits`."""
        from vestige.channels.kernels import count_mantissa_bits  # noqa: PLC0415

        return mantissa_bits(len(can) // size) if can.all() else int(count_mantissa_bits(can, size))
