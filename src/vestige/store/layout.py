"""The bytes of what a store keeps beside states: sealed rows, positions, receipts and requests.

A sealed row begins with a checksum (CRC-32) that covers its bytes, its table, its number and its owner, so that a row
that turns up in the place of another is not taken for it.
Guarantee: what is packed is read back bit for bit, and any changed bit is noticed; held by tests/store/test_layout.py.
"""

from __future__ import annotations

import json
import struct
import zlib
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from vestige.errors import StoreError
from vestige.store.keys import PSEUDONYM
from vestige.store.ledger import LedgerEntry
from vestige.store.position import LONGEST_POSITION, Position
from vestige.store.receipt import RECEIPTS_KEPT, Receipt
from vestige.store.text import decode_text, encode_text
from vestige.times import EPOCH, TICK, to_ticks

_SEAL = struct.Struct("<I4x")
_RECEIPT = struct.Struct("<8sqqqqqqq")
_POSITION = struct.Struct(f"<8sB3xI{LONGEST_POSITION - 8}s")
_LENGTH = struct.Struct("<I")
_ALL, _NONE = b"*", b"-"
SOURCE_AT = _POSITION.size
"""How many bytes stand before the name of a source in `pack_position`."""
_NEVER, _LONGEST = -(2**63), 2**63 - 1


class DamagedError(StoreError):
    """Stored bytes are not those that were written.

    Attributes:
        cause: what a message adds of the cause.
    """

    cause = " (bits changed outside Vestige)"


def seal(plain: bytes, *bound: str | int | bytes) -> bytes:
    """`plain` with a checksum before it that covers `bound` too."""
    return _SEAL.pack(compute_checksum(plain, bound)) + plain


def unseal(body: object, *bound: str | int | bytes) -> bytes:
    """Remove the checksum of a row, after checking it.

    Args:
        body: the sealed bytes.
        bound: what the checksum covers besides: the table, the number of the row, and its stream.

    Returns:
        The bytes that were sealed.

    Raises:
        DamagedError: these are not the bytes that were sealed.
    """
    if not isinstance(body, bytes) or len(body) < _SEAL.size:
        raise DamagedError("a stored row is damaged")
    plain = body[_SEAL.size :]
    if _SEAL.pack(compute_checksum(plain, bound)) != body[: _SEAL.size]:
        raise DamagedError("a stored row is damaged")
    return plain


def compute_checksum(plain: bytes, bound: tuple[str | int | bytes, ...]) -> int:
    """Compute the checksum of a row.

    Args:
        plain: its bytes.
        bound: what is covered besides, each part with its length.

    Returns:
        A CRC-32.
    """
    made = 0
    for part in bound:
        content = part if isinstance(part, bytes) else encode_text(str(part))
        made = zlib.crc32(content, zlib.crc32(len(content).to_bytes(8, "little"), made))
    return zlib.crc32(plain, made)


def unpack_subjects(subjects: NDArray[np.void]) -> list[str | None]:
    """Pseudonyms as they are named; None where there is none."""
    nobody = bytes(PSEUDONYM)
    return [None if (who := bytes(raw)) == nobody else who.hex() for raw in subjects]


def _to_ticks(moment: datetime | None) -> int:
    return _NEVER if moment is None else to_ticks(moment)


def pack_position(source: str, position: Position) -> bytes:
    """How far a source was read, always as many bytes but for its name."""
    head, rest = position.value[:8], position.value[8:]
    fixed = _POSITION.pack(head, (len(position.value) - 8) % 256, position.slot, rest)
    return fixed + encode_text(source)


def unpack_position(body: bytes) -> tuple[str, Position]:
    """The source that was packed, and its position."""
    head, length, slot, rest = _POSITION.unpack_from(body)
    return decode_text(body[_POSITION.size :]), Position((head + rest)[: (length + 8) % 256], slot)


def pack_receipt(receipt: Receipt) -> bytes:
    """A receipt as bytes, always as many but for its reference."""
    fixed = _RECEIPT.pack(
        bytes.fromhex(receipt.id),
        _to_ticks(receipt.requested),
        receipt.requested_round,
        _NEVER if receipt.due_round is None else receipt.due_round,
        _to_ticks(receipt.due),
        _to_ticks(receipt.erased),
        _NEVER if receipt.erased_round is None else receipt.erased_round,
        min((receipt.keep - RECEIPTS_KEPT) // TICK, _LONGEST),  # so that 0 is what it meant in earlier versions
    )
    return fixed + encode_text(receipt.reference or "")


def unpack_receipt(body: bytes) -> Receipt:
    """The receipt that was packed."""
    number, requested, requested_round, *rounds, more = _RECEIPT.unpack_from(body)
    due_round, due, erased, erased_round = (None if count == _NEVER else count for count in rounds)
    return Receipt(
        number.hex(),
        EPOCH + requested * TICK,
        requested_round,
        due_round,
        None if due is None else EPOCH + due * TICK,
        None if erased is None else EPOCH + erased * TICK,
        erased_round,
        decode_text(body[_RECEIPT.size :]) or None,
        RECEIPTS_KEPT + timedelta(microseconds=more),
    )


def pack_ledger_entry(entry: LedgerEntry) -> bytes:
    """A request to streams as bytes, always as many if all of them are asked."""
    receipt = pack_receipt(entry.receipt)
    streams = json.dumps([entry.streams, entry.failed]).encode()
    if not entry.failed and not entry.streams:
        streams = _ALL if entry.streams is None else _NONE
    return _LENGTH.pack(len(receipt)) + receipt + streams


def unpack_ledger_entry(body: bytes) -> LedgerEntry:
    """The request that was packed."""
    (length,) = _LENGTH.unpack_from(body)
    receipt, streams = body[_LENGTH.size : _LENGTH.size + length], body[_LENGTH.size + length :]
    asked, failed = {_ALL: (None, ()), _NONE: ((), ())}.get(streams) or json.loads(streams)
    return LedgerEntry(unpack_receipt(receipt), None if asked is None else tuple(asked), tuple(failed))
