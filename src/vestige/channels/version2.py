"""Version 2 of the word, for reading only: the present one with other headers.

Numbers that are marked as off had a header of six bits, which made them five bits coarser: 0, 10, or 11, a bit for
whether they are off, and three for one of seven ranges or the escape. A stream that was written so continues: its next
update reads this version and writes the present one.
Guarantee: every number is read as the code that wrote it read it; held by tests/store/test_word2.py.
"""

from __future__ import annotations

from vestige.channels.bits import read_word
from vestige.channels.channel import Channel, Reading, lay_out_encoded
from vestige.channels.compiled import Compiled
from vestige.clock import Clock
from vestige.records import Records
from vestige.statistics import Statistic
from vestige.types import Words

VERSION = 2
_POWERS = (0, 2, 3, 4, 6, 9, 13, -1)


def read(channel: Channel, retained: Records, clock: Clock, statistic: Statistic) -> Reading:
    """Read the numbers of an encoded batch that was written in version 2.

    Args:
        channel: the channel of the policy.
        retained: the records that are held; those of other rounds are ignored.
        clock: the public clock.
        statistic: the numbers.

    Returns:
        the numbers, nan where one is lost, and which of them are marked as off.

    Example:
        >>> from vestige.channels import find_channel
        >>> from vestige.statistics import Mean
        >>> held = Records([1, 3], [[2.0], [4.0]])
        >>> read(find_channel("average"), held, Clock(28, first=1, last=28, word=2), Mean(1)).numbers
        array([3.])
    """
    from vestige.channels.kernels import is_word  # noqa: PLC0415

    values, present = lay_out_encoded(retained, clock)
    if not isinstance(channel, Compiled) or not is_word(present, channel.mode):
        return channel.read(retained, clock, statistic)
    return read_word(values, present, statistic, clock.first, _read_header)


def _read_header(message: Words) -> tuple[int, int, bool]:
    bits = int(message[0]) >> 58
    if bits < 0b110000:
        wide = bits >> 5
        return wide + 1, wide, False
    return 6, _POWERS[bits & 7], bool(bits & 8)
