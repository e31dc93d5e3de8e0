"""What became of the rows of one call: how many were taken, and which streams could not take theirs.

Guarantee: the same as one `Stream.extend` for each key; held by tests/keyed/test_take.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class StreamTrouble:
    """What kept a stream from taking all of its rows.

    Attributes:
        problem: what its `Stream.extend` would raise; rows that it names are counted among the rows of its key.
        row: index, in the call, of the first row of its key that was not taken; none after it was.

    Example:
        >>> from vestige import KeyedStreams, Mean
        >>> StreamTrouble(ValueError("row 0 of 1 is missing"), 7).row
        7
    """

    problem: Exception
    row: int


@dataclass(frozen=True)
class Taken:
    """What became of the rows of one call.

    Attributes:
        taken: number of rows that were taken.
        late: number of rows that came later than `lateness` allows.
        troubles: what kept streams from taking all of their rows, by key, in the order of the rows.

    Example:
        >>> from vestige import KeyedStreams, Mean
        >>> taken = KeyedStreams(Mean(), retention=96).take(["DE", "FR"], [1.0, float("nan")])
        >>> taken.taken, taken.troubles["FR"].row
        (1, 1)
    """

    taken: int
    late: int
    troubles: Mapping[str, StreamTrouble]
