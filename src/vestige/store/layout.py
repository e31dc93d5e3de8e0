"""The bytes of a stored state: a header and one slot per round, always as many, so that a new state covers the old.

A record lies in the slot that its round says, modulo their number, and a slot without a record is zero: the bytes are
a function of the records and the clock, and where a record lies says nothing else.
Guarantee: what is packed is read back bit for bit, and any changed bit is noticed; held by tests/store/test_layout.py.
"""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta

import numpy as np

from vestige.errors import StoreError
from vestige.records import Clock, Records
from vestige.store.state import Receipt

SUBJECT = 16
"""Bytes of a subject's pseudonym."""
_HEADER = struct.Struct("<I4xqqqqq")
_RECEIPT = struct.Struct("<8sqqqqqqq")
_SEALED = struct.Struct("<I")
_NEVER = -(2**63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


class DamagedError(StoreError):
    """Stored bytes are not those that were written."""


def slot_type(columns: int) -> np.dtype[np.void]:
    """What a slot holds: round, time, whether it is leaving, subject, values; all zero where there is no record."""
    return np.dtype(
        [
            ("round", "<i8"),
            ("time", "<i8"),
            ("leaving", "<i8"),
            ("subject", f"V{SUBJECT}"),
            ("values", "<f8", (columns,)),
        ]
    )


def size_of(columns: int, capacity: int) -> int:
    """How many bytes a state takes."""
    return _HEADER.size + capacity * slot_type(columns).itemsize


def packed(clock: Clock, retained: Records, capacity: int) -> bytes:
    """The state as bytes."""
    slots = np.zeros(capacity, slot_type(retained.columns))
    here = retained.rounds % capacity
    if len(here) and clock.t - retained.rounds[0] >= capacity:
        raise StoreError(
            f"the policy holds records over more than {capacity} rounds, for which the store has no room; "
            "give the stream a limit: retention=..."
        )
    slots["round"][here] = retained.rounds
    slots["time"][here] = retained.times.astype(np.int64)
    slots["leaving"][here] = retained.leaving
    slots["values"][here] = retained.values
    for slot, subject in zip(here, retained.subjects, strict=True):
        if subject is not None:
            slots["subject"][slot] = np.void(bytes.fromhex(subject))
    began = _NEVER if clock.began is None else clock.began
    header = _HEADER.pack(0, clock.t, clock.first, clock.last, clock.since, began)[4:]
    body = header + slots.tobytes()
    return _SEALED.pack(zlib.crc32(body)) + body


def unpacked(body: bytes, columns: int, capacity: int) -> tuple[Clock, Records]:
    """The state that was packed."""
    if len(body) != size_of(columns, capacity) or _SEALED.unpack_from(body)[0] != zlib.crc32(body[_SEALED.size :]):
        raise DamagedError("a stored state is damaged")
    _, t, first, last, since, began = _HEADER.unpack_from(body)
    clock = Clock(t, first, last, since, None if began == _NEVER else began)
    slots = np.frombuffer(body, slot_type(columns), offset=_HEADER.size)
    full = np.flatnonzero(slots["round"])
    if (slots["round"][full] % capacity != full).any() or (slots["round"][full] > t).any():
        raise DamagedError("a stored record lies where its round does not say")
    held = slots[full[np.argsort(slots["round"][full])]]
    nobody = bytes(SUBJECT)
    subjects = [None if (who := bytes(raw)) == nobody else who.hex() for raw in held["subject"]]
    return clock, Records(held["round"], held["values"], held["leaving"] != 0, held["time"].view("M8[us]"), subjects)


def sealed(text: bytes) -> bytes:
    """`text` with a checksum before it."""
    return _SEALED.pack(zlib.crc32(text)) + text


def unsealed(body: bytes) -> bytes:
    """What was sealed."""
    if len(body) < _SEALED.size or _SEALED.unpack_from(body)[0] != zlib.crc32(body[_SEALED.size :]):
        raise DamagedError("a stored entry is damaged")
    return body[_SEALED.size :]


def _ticks(moment: datetime | None) -> int:
    return _NEVER if moment is None else (moment - _EPOCH) // _TICK


def _moment(ticks: int) -> datetime | None:
    return None if ticks == _NEVER else _EPOCH + ticks * _TICK


def packed_receipt(receipt: Receipt) -> bytes:
    """A receipt as bytes, always as many."""
    return _RECEIPT.pack(
        bytes.fromhex(receipt.id),
        _ticks(receipt.requested),
        receipt.requested_round,
        receipt.due_round,
        _ticks(receipt.due),
        _ticks(receipt.erased),
        _NEVER if receipt.erased_round is None else receipt.erased_round,
        0,
    )


def unpacked_receipt(body: bytes) -> Receipt:
    """The receipt that was packed."""
    number, requested, requested_round, due_round, due, erased, erased_round, _ = _RECEIPT.unpack(body)
    made = _moment(requested)
    assert made is not None  # noqa: S101  # every receipt says when it was requested
    done = None if erased_round == _NEVER else erased_round
    return Receipt(number.hex(), made, requested_round, due_round, _moment(due), _moment(erased), done)
