"""Positions in the rows of a query: the value of the cursor column, and a digest of the query.

Guarantee: positions compare as the values of the cursor do; held by tests/sources/test_query.py.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

from vestige.errors import ParameterError
from vestige.types import Ints

_FORM = struct.Struct(">BcqQ8s")


def digest_query(query: str) -> bytes:
    """Compute what tells queries apart; blanks and line breaks do not matter.

    Args:
        query: the query.

    Returns:
        Eight bytes.

    Example:
        >>> digest_query("SELECT  1") == digest_query("SELECT 1 ")
        True
    """
    return hashlib.blake2b(" ".join(query.split()).encode(), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class QueryPosition:
    """A position after a row.

    Attributes:
        value: value of the cursor in it: a whole number, or microseconds since 1970; None before the first row.
        count: number of rows that were read.
        kind: kind of the cursor: i for whole numbers, t for times, empty if nothing was read.
        digest: digest of the query.
        generation: number of times that the rows were begun anew.
    """

    value: int | None = None
    count: int = 0
    kind: bytes = b""
    digest: bytes = b"\0" * 8
    generation: int = 0

    @classmethod
    def decode(cls, position: bytes) -> QueryPosition:
        """Read a position.

        Args:
            position: what `encode` returned, or nothing.

        Returns:
            The position.

        Raises:
            ParameterError: it is not a position in a query.

        Example:
            >>> QueryPosition.decode(QueryPosition(7, 3, b"i").encode()).value
            7
        """
        if not position:
            return cls()
        if not isinstance(position, bytes) or len(position) != _FORM.size:
            raise ParameterError("the position is not one of a query; pass that of a block, or leave it out")
        generation, kind, value, count, digest = _FORM.unpack(position)
        return cls(None if kind == b"-" else value, count, b"" if kind == b"-" else kind, digest, generation)

    def encode(self) -> bytes:
        """Write the position.

        Returns:
            Bytes of fixed length.
        """
        return _FORM.pack(self.generation, self.kind or b"-", self.value or 0, self.count, self.digest)

    @property
    def order(self) -> tuple[int, bool, int]:
        """By which positions compare."""
        return self.generation, self.value is not None, self.value or 0


class QueryPositions(Sequence[bytes]):
    """Positions after some rows, encoded when they are asked for.

    Args:
        values: value of the cursor in each.
        counts: number of each row.
        before: position before them.

    Example:
        >>> import numpy as np
        >>> positions = QueryPositions(np.array([5, 7]), np.array([1, 2]), QueryPosition(kind=b"i"))
        >>> QueryPosition.decode(positions[-1]).value
        7
    """

    def __init__(self, values: Ints, counts: Ints, before: QueryPosition) -> None:
        self._values, self._counts, self._before = values, counts, before

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> QueryPositions: ...
    def __getitem__(self, index: int | slice) -> bytes | QueryPositions:
        if isinstance(index, slice):
            return QueryPositions(self._values[index], self._counts[index], self._before)
        return replace(self._before, value=int(self._values[index]), count=int(self._counts[index])).encode()
