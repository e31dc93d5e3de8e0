"""The bytes of a stored state: a header and one slot per round, always as many, so that a new state covers the old.

A record lies in the slot that its round says, modulo their number, and a slot without a record is zero: the bytes are
a function of the records and the clock, and where a record lies says nothing else. Slots are stored column by column,
so that a page with nothing but columns that are not used is never written again.
Guarantee: what is packed is read back bit for bit, and any changed bit is noticed; held by tests/store/test_layout.py.
"""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta

import numpy as np

from vestige.errors import StoreError
from vestige.records import Clock, Records
from vestige.store.state import MARK, Position, Receipt

SUBJECT = 16
"""Bytes of a subject's pseudonym."""
_HEADER = struct.Struct("<I4xqqqqqq")
_RECEIPT = struct.Struct("<8sqqqqqqq")
_POSITION = struct.Struct(f"<q?B{MARK}s")
_SEALED = struct.Struct("<I")
_NEVER = -(2**63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


class DamagedError(StoreError):
    """Stored bytes are not those that were written."""


def size_of(columns: int, capacity: int) -> int:
    """How many bytes a state takes: for each slot round, values, whether it is leaving, time, subject and number."""
    return _HEADER.size + capacity * (8 + 8 * columns + 1 + 8 + SUBJECT + 8)


def packed(clock: Clock, retained: Records, capacity: int) -> bytes:
    """The state as bytes."""
    here = retained.rounds % capacity
    if len(here) and clock.t - retained.rounds[0] >= capacity:
        raise StoreError(
            f"the policy holds records over more than {capacity} rounds, for which the store has no room; "
            "give the stream a limit: retention=..."
        )
    rounds, times, numbers = (np.zeros(capacity, "<i8") for _ in range(3))
    values, leaving = np.zeros((capacity, retained.columns), "<f8"), np.zeros(capacity, np.int8)
    subjects = np.zeros(capacity, f"V{SUBJECT}")
    rounds[here], values[here], leaving[here] = retained.rounds, retained.values, retained.leaving
    numbers[here] = retained.numbers
    times[here] = retained.times.view(np.int64) ^ _NEVER
    for i in np.flatnonzero(retained.subjects != None):  # noqa: E711  # in numpy a question to each of them
        subjects[here[i]] = np.void(bytes.fromhex(retained.subjects[i]))
    due = _NEVER if clock.due is None else clock.due
    header = _HEADER.pack(0, clock.t, clock.first, clock.last, clock.since, due, clock.updates)[_SEALED.size :]
    return sealed(b"".join((header, *(part.tobytes() for part in (rounds, values, leaving, times, subjects, numbers)))))


def unpacked(body: bytes, columns: int, capacity: int) -> tuple[Clock, Records]:
    """The state that was packed."""
    if len(body) != size_of(columns, capacity):
        raise DamagedError("a stored state is damaged")
    unsealed(body, "a stored state")
    _, t, first, last, since, due, updates = _HEADER.unpack_from(body)
    clock = Clock(t, first, last, since, None if due == _NEVER else due, updates)
    at = _HEADER.size + capacity * np.cumsum([0, 8, 8 * columns, 1, 8, SUBJECT])
    rounds = np.frombuffer(body, "<i8", capacity, at[0])
    values = np.frombuffer(body, "<f8", capacity * columns, at[1]).reshape(capacity, columns)
    leaving = np.frombuffer(body, np.int8, capacity, at[2])
    times = np.frombuffer(body, "<i8", capacity, at[3])
    subjects = np.frombuffer(body, f"V{SUBJECT}", capacity, at[4])
    numbers = np.frombuffer(body, "<i8", capacity, at[5])
    full = np.flatnonzero(rounds)
    if (rounds[full] % capacity != full).any() or (rounds[full] > t).any():
        raise DamagedError("a stored record lies where its round does not say")
    held = full[np.argsort(rounds[full])]
    nobody = bytes(SUBJECT)
    named = [None if (who := bytes(raw)) == nobody else who.hex() for raw in subjects[held]]
    when = (times[held] ^ _NEVER).view("M8[us]")
    return clock, Records(rounds[held], values[held], leaving[held] != 0, when, named, numbers[held])


def sealed(text: bytes) -> bytes:
    """`text` with a checksum before it."""
    return _SEALED.pack(zlib.crc32(text)) + text


def unsealed(body: bytes, what: str = "a stored entry") -> bytes:
    """What was sealed."""
    if len(body) < _SEALED.size or _SEALED.unpack_from(body)[0] != zlib.crc32(body[_SEALED.size :]):
        raise DamagedError(f"{what} is damaged")
    return body[_SEALED.size :]


def _ticks(moment: datetime | None) -> int:
    return _NEVER if moment is None else (moment - _EPOCH) // _TICK


def _moment(ticks: int) -> datetime | None:
    return None if ticks == _NEVER else _EPOCH + ticks * _TICK


def packed_position(position: Position, reading: bool) -> bytes:
    """How far a source was read, and whether the numbers of records count its rows, as bytes, always as many."""
    return _POSITION.pack(position.rows, reading, len(position.mark), position.mark)


def unpacked_position(body: bytes) -> tuple[Position, bool]:
    """The position that was packed, and whether the numbers of records count rows of that source."""
    rows, reading, length, mark = _POSITION.unpack(body)
    return Position(rows, mark[:length]), reading


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
