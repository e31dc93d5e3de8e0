"""Positions: up to where a stream has read a source; only the source can read them.

A source that has no positions of its own is counted: its position is the number of rows that were read.
Guarantee: a position is bytes of limited length, so that it fits a slot of fixed size; held by
tests/store/test_layout.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from vestige.errors import ParameterError
from vestige.row_numbers import LARGEST_SLOT
from vestige.validation import check_int

LONGEST_POSITION = 72
"""Maximum number of bytes of a position."""
_COUNT = 8


def encode_count(rows: int) -> bytes:
    """Encode a number of rows as a position.

    Args:
        rows: number of rows that were read.

    Returns:
        Eight bytes.

    Example:
        >>> decode_count(encode_count(500))
        500
    """
    return rows.to_bytes(_COUNT, "little")


def decode_count(value: bytes) -> int:
    """Decode a number of rows from the beginning of a position.

    Args:
        value: position that begins with a number of rows; empty for none.

    Returns:
        The number of rows.

    Example:
        >>> decode_count(b"")
        0
    """
    return int.from_bytes(value[:_COUNT], "little")


@dataclass(frozen=True, slots=True)
class Position:
    r"""Position up to which a stream has read a source.

    Attributes:
        value: what the source continues from; only the source can read it. Up to 72 bytes that contain nothing of its
            records; empty if the source was not read.
        slot: number by which the stream's records refer to this source, from 1 up and different for each source; 0 if
            they do not.

    Raises:
        ParameterError: the value is not bytes or is too long, or the slot is out of range.

    Example:
        >>> Position(encode_count(500), slot=1).value
        b'\xf4\x01\x00\x00\x00\x00\x00\x00'
    """

    value: bytes = b""
    slot: int = 0

    def __post_init__(self) -> None:
        check_int("slot", self.slot, 0, LARGEST_SLOT)
        if not isinstance(self.value, bytes) or len(self.value) > LONGEST_POSITION:
            raise ParameterError(f"a position is not bytes, or longer than {LONGEST_POSITION}; pass a shorter one")
