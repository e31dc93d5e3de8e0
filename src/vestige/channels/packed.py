"""A word that a statistic packs itself, each number in as many bits as it needs: for numbers that may be coarse.

The bits are the syndrome of presence (`vestige.channels.syndrome`), the ones that must be exact first. If records
cannot be kept, the last bits come out at random; the statistic is told how many it can rely on.
Guarantee: what is packed is unpacked, or nothing is kept; held by tests/channels/test_packed.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from vestige.channels.channel import Channel, Reading, Target
from vestige.random.generators import make_generator
from vestige.statistics import Packing, Statistic
from vestige.types import Bools, Floats

if TYPE_CHECKING:
    from vestige.channels.syndrome import Code


@dataclass(frozen=True)
class Packed(Channel):
    """A word for statistics that say how they are packed.

    Attributes:
        batch: the smallest batch.
        least: the fewest bits that hold any numbers, if only roughly.
        most: the number of bits that can be used.

    Example:
        >>> Packed(96, least=80, most=300).find_min_batch(2)
        96
    """

    name: ClassVar[str] = "packed"

    batch: int
    least: int
    most: int

    def find_min_batch(self, size: int) -> int:  # noqa: ARG002
        """Find the smallest batch; see `Channel.find_min_batch`."""
        return self.batch

    def count_bits(self, length: int, can: Bools | None, size: int) -> int:  # noqa: ARG002
        """Count the bits of a word that can be chosen; see `Channel.count_bits`."""
        rows = min(length, self.most)
        return rows if can is None or can.all() else _prepare(can, rows)[1]

    def can_encode(self, can: Bools, size: int) -> bool:
        """Tell whether enough bits can be chosen; see `Channel.can_encode`."""
        return len(can) >= self.least and self.count_bits(len(can), can, size) >= self.least

    def read_slots(self, values: Floats, present: Bools, statistic: Statistic, first: int) -> Reading:  # noqa: ARG002
        """Read the numbers; see `Channel.read_slots`."""
        from vestige.channels.syndrome import read_message  # noqa: PLC0415

        message = np.empty(min(len(present), self.most), np.bool_)
        read_message(present, message)
        unpacked = cast(Packing, statistic).unpack(message, values[present]) if message[0] else None
        if unpacked is None:
            return Reading(np.full(statistic.size, np.nan), np.zeros(statistic.size, np.bool_))
        return Reading(unpacked[0], np.full(statistic.size, unpacked[1]))

    def write(
        self,
        values: Floats,
        can: Bools,
        target: Target,
        statistic: Statistic,
        first: int,  # noqa: ARG002
        key: np.uint64,
    ) -> Bools:
        """Choose the records that spell the numbers; see `Channel.write`."""
        from vestige.channels.syndrome import write_message  # noqa: PLC0415

        packing, keep = cast(Packing, statistic), np.zeros(len(can), np.bool_)
        code, free = _prepare(can, min(len(can), self.most))
        numbers = target.numbers
        for attempt in range(Packing.TRIES):
            rng = make_generator(int(key), "packed", attempt)
            message = packing.pack(numbers, bool(target.off.any()), min(len(can), self.most), free, rng)
            write_message(message, free, code, keep)
            if packing.is_read(numbers, message, values[keep]):
                return keep
            numbers = packing.settle(numbers, values[can], attempt)
        return np.zeros(len(can), np.bool_)


def _prepare(can: Bools, rows: int) -> tuple[Code, int]:
    """What it takes to write into these slots, and the number of bits that can be chosen."""
    from vestige.channels.syndrome import make_code, prepare  # noqa: PLC0415

    code = make_code(rows)
    return code, int(prepare(can, rows, code))
