"""Fixed-point numbers between public limits, in one word for the whole batch: nothing of the records has a part in it.

For numbers that carry noise: what is kept depends on values through the numbers alone. The first bit of the word is
one, so that no batch is ever empty; the second says that the numbers are off; then come the numbers, first bits first.
Guarantee: what is written is read back within one step of the bits that could be written; held by
tests/channels/test_word.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vestige.channels.channel import Channel, Reading, Target
from vestige.channels.layout import MAX_BITS, MIN_BITS
from vestige.statistics import Statistic
from vestige.types import Bools, Floats

HEADER = 2
"""Bits before the numbers: that there is a word, and whether its numbers are off."""


@dataclass(frozen=True)
class FixedPoint(Channel):
    """Numbers from -limit to limit; what is beyond is written as the limit.

    Attributes:
        limit: the largest magnitude, which may not depend on values.

    Example:
        >>> FixedPoint(1.0).find_min_batch(1)
        18
    """

    name: ClassVar[str] = "fixed point"

    limit: float

    def find_min_batch(self, size: int) -> int:
        """Find the smallest batch: the header, and as many bits as a number in a word has at least."""
        return HEADER + MIN_BITS * size

    def find_step(self, can: Bools, size: int) -> float:
        """Find the distance of numbers that can be written; it is shown no values.

        Args:
            can: which slots hold a record that may be kept; shape (length,).
            size: the number of numbers.

        Returns:
            the distance.
        """
        from vestige.channels.syndrome import make_code, prepare  # noqa: PLC0415

        rows = count_rows(len(can), size)
        bits = (prepare(can, rows, make_code(rows)) - HEADER) // size
        return 2.0 * self.limit * 2.0 ** -min(max(bits, 0), MAX_BITS)

    def can_encode(self, can: Bools, size: int) -> bool:
        """Tell whether each number has enough bits; see `Channel.can_encode`."""
        return len(can) >= self.find_min_batch(size) and self.find_step(can, size) <= 2.0 * self.limit * 2.0**-MIN_BITS

    def read_slots(self, values: Floats, present: Bools, statistic: Statistic, first: int) -> Reading:  # noqa: ARG002
        """Read the numbers; see `Channel.read_slots`."""
        from vestige.channels.residues import decode_place  # noqa: PLC0415
        from vestige.channels.syndrome import read_message  # noqa: PLC0415

        size, message = statistic.size, np.empty(count_rows(len(present), statistic.size), np.bool_)
        read_message(present, message)
        if not message[0]:
            return Reading(np.full(size, np.nan), np.zeros(size, np.bool_))
        numbers, dithers = np.empty(size), _find_dithers(first, len(present), size)
        for i in range(size):
            bits = message[HEADER + i :: size][:MAX_BITS]
            place = int(bits @ (1 << np.arange(len(bits))[::-1]))
            numbers[i] = decode_place(place, self.limit, dithers[i], len(bits))
        return Reading(numbers, np.full(size, message[1]))

    def write(
        self,
        values: Floats,  # noqa: ARG002
        can: Bools,
        target: Target,
        statistic: Statistic,
        first: int,
        key: np.uint64,  # noqa: ARG002
    ) -> Bools:
        """Choose the records that spell the numbers; see `Channel.write`.

        Numbers are marked as off by the distance of what can be written, not by how far they really are off.
        """
        from vestige.channels.residues import encode_place  # noqa: PLC0415
        from vestige.channels.syndrome import make_code, prepare, write_message  # noqa: PLC0415

        size, keep = statistic.size, np.zeros(len(can), np.bool_)
        rows = count_rows(len(can), size)
        code, message = make_code(rows), np.zeros(rows, np.bool_)
        free = prepare(can, rows, code)
        message[0] = True
        message[1] = target.off.any() or self.find_step(can, size) > target.far.min()
        dithers = _find_dithers(first, len(can), size)
        for i, number in enumerate(target.numbers):
            bits = message[HEADER + i :: size][:MAX_BITS]
            usable = min(len(bits), max(0, -(-(free - HEADER - i) // size)))
            place = encode_place(number, self.limit, dithers[i], usable)
            bits[:usable] = [(place >> (usable - 1 - k)) & 1 for k in range(usable)]
        write_message(message, free, code, keep)
        return keep


def count_rows(slots: int, size: int) -> int:
    """Count the bits of the word of a batch.

    Args:
        slots: the number of records of the batch.
        size: the number of numbers.

    Returns:
        one for each record, as far as they can be used.

    Example:
        >>> count_rows(48, 1), count_rows(64, 1)
        (48, 51)
    """
    return min(slots, HEADER + MAX_BITS * size)


def _find_dithers(first: int, slots: int, size: int) -> Floats:
    """The public dither of each number, as a share of the range; shape (size,)."""
    from vestige.channels.residues import find_dither  # noqa: PLC0415
    from vestige.channels.word import find_key  # noqa: PLC0415

    key = np.uint64(find_key(first, slots))
    return np.array([find_dither(key, i, 0) for i in range(size)])
