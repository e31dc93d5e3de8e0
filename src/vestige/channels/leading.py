"""A channel in the first slots of a batch, where the slots after them hold a state (`vestige.channels.states`).

How the slots are divided follows from the length of the batch alone, which is public.
Guarantee: numbers and state are read back, whichever records leave; held by tests/policies/test_bundle_sketches.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vestige.channels.channel import Channel, Reading, Target
from vestige.statistics import Statistic
from vestige.types import Bools, Floats


@dataclass(frozen=True)
class Leading(Channel):
    """Another channel in the first slots of a batch.

    Attributes:
        channel: the channel.
        least: the fewest slots that it needs.
        others: the fewest slots that the state after them needs.
        most: the number of slots that the state takes where the batch is long enough.

    Example:
        >>> from vestige.channels.bits import Bits
        >>> channel = Leading(Bits(), least=22, others=129, most=160)
        >>> channel.find_min_batch(1), [channel.find_room(length) for length in (150, 151, 188, 1_000)]
        (188, [150, 22, 28, 840])
    """

    name: ClassVar[str] = "bits"

    channel: Channel
    least: int
    others: int
    most: int

    def find_room(self, length: int) -> int:
        """Find the number of slots of the channel: all if there is no room for the state; see `Channel.find_room`."""
        if length < self.least + self.others:
            return length
        return length - min(self.most, length * self.others // (self.least + self.others))

    def count_rows(self, slots: int, size: int) -> int:
        """Count the bits of a word of the channel; see `Channel.count_rows`."""
        return self.channel.count_rows(slots, size)

    def find_min_batch(self, size: int) -> int:  # noqa: ARG002
        """Find the smallest batch in which the state has all its slots, and the channel as many in proportion."""
        return self.most + -(-self.most * self.least // self.others)

    def read_slots(self, values: Floats, present: Bools, statistic: Statistic, first: int) -> Reading:
        """Read the numbers of the first slots; see `Channel.read_slots`."""
        room = self.find_room(len(present))
        return self.channel.read_slots(values[:room], present[:room], statistic, first)

    def write(
        self, values: Floats, can: Bools, target: Target, statistic: Statistic, first: int, key: np.uint64
    ) -> Bools:
        """Choose the records of the first slots that store the numbers, and none after them; see `Channel.write`."""
        room, keep = self.find_room(len(can)), np.zeros(len(can), np.bool_)
        keep[:room] = self.channel.write(values[:room], can[:room], target, statistic, first, key)
        return keep

    def can_encode(self, can: Bools, size: int) -> bool:
        """Tell whether the first slots can store any numbers; see `Channel.can_encode`."""
        return self.channel.can_encode(can[: self.find_room(len(can))], size)
