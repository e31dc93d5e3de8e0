"""Positions in a file: the number of rows that were read, then the identity of the file.

The rows come first, as eight bytes in little-endian order; see `vestige.sources.identity` for what follows.
Guarantee: what is encoded is decoded; held by tests/sources/test_file.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from vestige.store.position import decode_count, encode_count
from vestige.types import Ints


def encode_position(rows: int, identity: bytes = b"") -> bytes:
    """Encode a position in a file.

    Args:
        rows: number of rows that were read.
        identity: encoded identity of the file, if known.

    Returns:
        The position.

    Example:
        >>> decode_position(encode_position(500, b"identity"))
        (500, b'identity')
    """
    return encode_count(rows) + identity


def decode_position(position: bytes) -> tuple[int, bytes]:
    """Decode a position in a file.

    Args:
        position: what `encode_position` returned, or nothing.

    Returns:
        The number of rows that were read, and the encoded identity of the file.

    Example:
        >>> decode_position(b"")
        (0, b'')
    """
    return decode_count(position), position[len(encode_count(0)) :]


class FilePositions(Sequence[bytes]):
    r"""Positions after some rows of a file, encoded when they are asked for.

    Args:
        rows: number of each row.
        identity: encoded identity of the file.

    Example:
        >>> import numpy as np
        >>> FilePositions(np.array([3, 7]))[-1]
        b'\x07\x00\x00\x00\x00\x00\x00\x00'
    """

    def __init__(self, rows: Ints, identity: bytes = b"") -> None:
        self._rows, self._identity = rows, identity

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> FilePositions: ...
    def __getitem__(self, index: int | slice) -> bytes | FilePositions:
        if isinstance(index, slice):
            return FilePositions(self._rows[index], self._identity)
        return encode_position(int(self._rows[index]), self._identity)
