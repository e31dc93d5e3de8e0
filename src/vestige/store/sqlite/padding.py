"""Padding of rows, so that nothing of a record ever lies on a page that SQLite edits.

Of a payload of 489 + 4092 k bytes, SQLite keeps 489 on a leaf page, and the rest on k overflow pages, which it zeroes
when they are freed (secure_delete). The first column of such a row is a head of fixed size that fills the leaf's part
and holds public clocks only; up to two bytes more go there where the length of the payload takes fewer. So all cells of
a table have the same size, a new one takes the place of the old one, and names and records lie on pages of their own.
The rows of sources have no head: they are overwritten with as many bytes.
Source: the SQLite file format, sections 1.6 and 2.1.
Guarantee: no byte of what was overwritten or removed is left in the file; held by tests/store/test_padding.py.
"""

from __future__ import annotations

from collections.abc import Sequence

_LOCAL, _PAGE, _POINTER = 491, 4092, 4
"""Bytes of a payload on its leaf page, if its length takes two bytes there; those on each overflow page, and those of
the link to them."""
_BLOB = 12
"""The type of a blob in a record is this plus twice its length."""


def pad_body(parts: Sequence[bytes]) -> bytes:
    """Pad the last part of a row, so that its cell has the same size whatever it holds.

    Args:
        parts: the head and the other parts.

    Returns:
        The last part with zeros after it.

    Example:
        >>> len(pad_body((bytes(484), b""))), len(pad_body((bytes(484), b"x")))
        (6, 4093)
    """
    *others, body = parts
    fixed = 2 + sum(len(part) + count_varint_bytes(_BLOB + 2 * len(part)) for part in others)
    pages = 0 if not body and not any(others[1:]) else max(1, (fixed + len(body) - _LOCAL) // _PAGE)
    while True:
        payload = _LOCAL + _PAGE * pages if pages else _LOCAL + _POINTER
        payload += 2 - count_varint_bytes(payload)
        for width in range(1, 6):
            length = payload - fixed - width
            if length >= len(body) and count_varint_bytes(_BLOB + 2 * length) == width:
                return body + bytes(length - len(body))
        pages += 1


def count_varint_bytes(number: int) -> int:
    """Count the bytes that SQLite needs for a number.

    Args:
        number: from 0 up, below 2**56.

    Returns:
        One byte for each seven bits.

    Example:
        >>> count_varint_bytes(127), count_varint_bytes(128)
        (1, 2)
    """
    return max(1, -(-number.bit_length() // 7))
