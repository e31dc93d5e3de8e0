"""Channels: how a few numbers are stored in the choice of which records are kept."""

from __future__ import annotations

from vestige.channels.auto import Auto
from vestige.channels.average import Average
from vestige.channels.bits import Bits
from vestige.channels.channel import Channel, Reading, Target, lay_out, lay_out_encoded
from vestige.channels.fixed_point import FixedPoint
from vestige.channels.packed import Packed
from vestige.validation import check_choice

__all__ = [
    "CHANNELS",
    "Channel",
    "FixedPoint",
    "Packed",
    "Reading",
    "Target",
    "find_channel",
    "lay_out",
    "lay_out_encoded",
]

CHANNELS: dict[str, Channel] = {channel.name: channel for channel in (Auto(), Average(), Bits())}
"""The channels that have a name. A new one may be passed as an object, without being listed here."""


def find_channel(channel: str | Channel) -> Channel:
    """Find a channel by its name.

    Args:
        channel: a name, such as `auto`, or a channel of your own, which is returned as it is.

    Returns:
        the channel.

    Raises:
        ParameterError: no channel has this name.

    Example:
        >>> find_channel("auto").find_min_batch(1)
        22
    """
    if isinstance(channel, Channel):
        return channel
    return CHANNELS[check_choice("channel", channel, sorted(CHANNELS))]
