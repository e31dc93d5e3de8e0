"""Positions in a Redis Stream: the id of an entry, how many entries were added up to it, and the group's mark.

Guarantee: positions compare as the ids of their entries do; held by tests/sources/test_redis.py.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

from vestige.errors import ParameterError

Id = tuple[int, int]
"""Id of an entry: milliseconds, and a number within them."""
_FORM = struct.Struct(">BQQQ4s")
FIRST: Id = (0, 0)
"""The id before all others."""


def read_id(text: bytes) -> Id:
    """Read the id of an entry.

    Args:
        text: the id as Redis writes it.

    Returns:
        Its two numbers.

    Example:
        >>> read_id(b"1700000000000-3")
        (1700000000000, 3)
    """
    milliseconds, _, number = text.partition(b"-")
    return int(milliseconds), int(number or b"0")


def write_id(entry: Id) -> bytes:
    """Write the id of an entry as Redis does.

    Args:
        entry: its two numbers.

    Returns:
        The text.

    Example:
        >>> write_id((1700000000000, 3))
        b'1700000000000-3'
    """
    return b"%d-%d" % entry


@dataclass(frozen=True, slots=True)
class RedisPosition:
    """A position after an entry.

    Attributes:
        entry: id of the last entry that was read; `FIRST` for none.
        count: number of entries that were ever added up to this one, as far as it is known.
        mark: four random bytes, which are a part of the name of the reader's own group.
        generation: number of times that the stream was begun anew under its name.
    """

    entry: Id = FIRST
    count: int = 0
    mark: bytes = b"\0\0\0\0"
    generation: int = 0

    @classmethod
    def decode(cls, position: bytes) -> RedisPosition:
        """Read a position.

        Args:
            position: what `encode` returned, or nothing.

        Returns:
            The position.

        Raises:
            ParameterError: it is not a position of a Redis Stream.

        Example:
            >>> RedisPosition.decode(RedisPosition((5, 1), 17).encode()).count
            17
        """
        if not position:
            return cls()
        if not isinstance(position, bytes) or len(position) != _FORM.size:
            raise ParameterError("the position is not one of a Redis Stream; pass that of a block, or leave it out")
        generation, milliseconds, number, count, mark = _FORM.unpack(position)
        return cls((milliseconds, number), count, mark, generation)

    def encode(self) -> bytes:
        """Write the position.

        Returns:
            Bytes of fixed length.
        """
        return _FORM.pack(self.generation, *self.entry, self.count, self.mark)

    @property
    def order(self) -> tuple[int, int, int]:
        """By which positions compare."""
        return self.generation, *self.entry


class RedisPositions(Sequence[bytes]):
    """Positions after some entries, encoded when they are asked for.

    Args:
        entries: id of each entry.
        counts: how many entries were added up to each.
        before: position before them.

    Example:
        >>> positions = RedisPositions([(5, 0), (7, 0)], [1, 2], RedisPosition())
        >>> RedisPosition.decode(positions[-1]).entry
        (7, 0)
    """

    def __init__(self, entries: Sequence[Id], counts: Sequence[int], before: RedisPosition) -> None:
        self._entries, self._counts, self._before = entries, counts, before

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> RedisPositions: ...
    def __getitem__(self, index: int | slice) -> bytes | RedisPositions:
        if isinstance(index, slice):
            return RedisPositions(self._entries[index], self._counts[index], self._before)
        return replace(self._before, entry=self._entries[index], count=int(self._counts[index])).encode()
