"""What else a run has to say of its streams: records that are overdue, and streams that cannot be read."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from vestige.keyed import KeyedStreams
from vestige.stream import Stream
from vestige.times import to_ticks


def count_overdue(streams: Stream | KeyedStreams, at: datetime) -> int:
    """Count the records that are older than they may be at a time.

    Args:
        streams: one stream, or those of all keys.
        at: the time.

    Returns:
        The number of records.

    Example:
        >>> from vestige import Mean
        >>> from vestige.times import wall_clock
        >>> count_overdue(Stream(Mean(), retention=96), wall_clock())
        0
    """
    limits, instant = streams._rules.limits, to_ticks(at)
    if limits.max_age is None:
        return 0
    deadline = np.datetime64(instant - limits.age, "us")
    if isinstance(streams, Stream):
        return int((streams.retained.times <= deadline).sum())
    return streams._shards.count_overdue(instant - limits.age)


def find_unreadable(streams: KeyedStreams) -> dict[str, str]:
    """Find the streams that cannot be read from their store.

    Args:
        streams: those of all keys.

    Returns:
        What is wrong with each, by name.

    Example:
        >>> from vestige import Mean
        >>> find_unreadable(KeyedStreams(Mean(), retention=96))
        {}
    """
    return {streams._names[number]: str(problem) for number, problem in streams._shards.blocked.items()}
