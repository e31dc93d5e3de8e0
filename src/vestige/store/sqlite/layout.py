"""The bytes of a store: of a state, a header and one slot per round, always as many, so that a new one covers the old.

A record lies in the slot that its round says, modulo their number, and a slot without a record is zero: the bytes are
a function of the records and the clock, and where a record lies says nothing else. Slots are stored column by column,
so that a page with nothing but columns that are not used is never written again.
Each row is sealed: a checksum (CRC-32) stands before it that covers its bytes, its table, its number and its stream, so
that a row that turns up in another's place is not taken for it.
Guarantee: what is packed is read back bit for bit, and any changed bit is noticed; held by tests/store/test_layout.py.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige.clock import WORD_VERSION, Clock
from vestige.errors import StoreError
from vestige.records import Records
from vestige.store.keys import PSEUDONYM
from vestige.store.ledger import LedgerEntry
from vestige.store.position import LONGEST_POSITION, Position
from vestige.store.receipt import RECEIPTS_KEPT, Receipt
from vestige.store.text import decode_text, encode_text
from vestige.times import EPOCH, TICK, to_ticks

FANOUT = 16
"""How many links a stream's row has to others; see `vestige.store.sqlite.tables`."""
_SEAL = struct.Struct("<I4x")
_HEADER = struct.Struct("<qqqqqqifqQQQq")
_RECEIPT = struct.Struct("<8sqqqqqqq")
_POSITION = struct.Struct(f"<8sB3xI{LONGEST_POSITION - 8}s")
_LINKS = struct.Struct(f"<{FANOUT}I")
_FOLLOWING = struct.Struct("<Q")
_ABOUT = struct.Struct(f"<QQQ?7x{PSEUDONYM}sQQ")
_LENGTH = struct.Struct("<I")
_ALL, _NONE = b"*", b"-"
SOURCE_AT = _SEAL.size + _FOLLOWING.size + _POSITION.size
"""How many bytes stand before the name of a source in its row."""
_NEVER = -(2**63)


class DamagedError(StoreError):
    """Stored bytes are not those that were written."""


class WordError(StoreError):
    """The kept records are written in a version of the word that only a newer Vestige knows."""


class Heads(NamedTuple):
    """Where the chains of a stream begin: the rows of the newest source and of the newest receipt; 0 for none."""

    sources: int = 0
    receipts: int = 0


@dataclass(frozen=True, slots=True)
class About:
    """What a store says of itself.

    Attributes:
        streams: how many there are; they are numbered from 1 on.
        sources: the last row that a source was given.
        receipts: the last row that a receipt was given.
        untidy: whether rows were deleted and the pages were not written again since.
        fingerprint: of the key that subjects are hashed with; zero while there is none.
        requests: the number of the newest request in the ledger.
        entries: how many entries the ledger has.
    """

    streams: int = 0
    sources: int = 0
    receipts: int = 0
    untidy: bool = False
    fingerprint: bytes = bytes(PSEUDONYM)
    requests: int = 0
    entries: int = 0

    def pack(self) -> bytes:
        """Pack it into bytes, always the same number of them."""
        counts = self.streams, self.sources, self.receipts
        return seal(_ABOUT.pack(*counts, self.untidy, self.fingerprint, self.requests, self.entries), "about", 1)

    @classmethod
    def unpack(cls, body: object) -> About:
        """Unpack what was packed."""
        return cls(*_ABOUT.unpack(unseal(body, "about", 1)))


def seal(plain: bytes, *bound: str | int | bytes) -> bytes:
    """`plain` with a checksum before it that covers `bound` too."""
    return _SEAL.pack(_compute_checksum(plain, bound)) + plain


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
    if _SEAL.pack(_compute_checksum(plain, bound)) != body[: _SEAL.size]:
        raise DamagedError("a stored row is damaged")
    return plain


def _compute_checksum(plain: bytes, bound: tuple[str | int | bytes, ...]) -> int:
    made = 0
    for part in bound:
        content = part if isinstance(part, bytes) else encode_text(str(part))
        made = zlib.crc32(content, zlib.crc32(len(content).to_bytes(8, "little"), made))
    return zlib.crc32(plain, made)


def count_state_bytes(columns: int, capacity: int) -> int:
    """How many bytes a state takes: for each slot round, values, whether it is leaving, time, subject and number."""
    return _HEADER.size + capacity * (8 + 8 * columns + 1 + 8 + PSEUDONYM + 8)


def pack_state(
    clock: Clock,
    retained: Records,
    capacity: int,
    heads: Heads = Heads(),  # noqa: B008  # immutable
    settled: int = 0,
) -> bytes:
    """The state as bytes."""
    here = retained.rounds % capacity
    if len(here) and clock.t - retained.rounds[0] >= capacity:
        raise StoreError(
            f"the policy holds records over more than {capacity} rounds, for which the store has no room; "
            "give the stream a limit: retention=..."
        )
    rounds, times, numbers = (np.zeros(capacity, "<i8") for _ in range(3))
    values, leaving = np.zeros((capacity, retained.columns), "<f8"), np.zeros(capacity, np.int8)
    subjects = np.zeros(capacity, f"V{PSEUDONYM}")
    rounds[here], values[here], leaving[here] = retained.rounds, retained.values, retained.leaving
    numbers[here] = retained.numbers
    times[here] = retained.times.view(np.int64) ^ _NEVER
    for i in np.flatnonzero(retained.subjects != None):  # noqa: E711  # in numpy a question to each of them
        subjects[here[i]] = np.void(bytes.fromhex(retained.subjects[i]))
    due = _NEVER if clock.due is None else clock.due
    counts = clock.updates, clock.word, clock.rounding, clock.gaps
    header = _HEADER.pack(clock.t, clock.first, clock.last, clock.since, due, *counts, *heads, settled, clock.bits)
    return b"".join((header, *(part.tobytes() for part in (rounds, values, leaving, times, subjects, numbers))))


def unpack_state(body: bytes, columns: int, capacity: int) -> tuple[Clock, Records, Heads, int]:
    """The state that was packed: clock, records, heads, and the newest request that has been met."""
    if len(body) != count_state_bytes(columns, capacity):
        raise DamagedError("a stored state has another length than its terms say")
    t, first, last, since, due, updates, word, rounding, gaps, *heads, settled, bits = _HEADER.unpack_from(body)
    if word > WORD_VERSION:
        raise WordError(
            f"its encoded batch is written in version {word} of the word, and this Vestige reads versions 1 to "
            f"{WORD_VERSION}; the stream is not damaged: use a newer Vestige"
        )
    clock = Clock(t, first, last, since, None if due == _NEVER else due, updates, gaps, word, rounding, bits)
    at = _HEADER.size + capacity * np.cumsum([0, 8, 8 * columns, 1, 8, PSEUDONYM])
    rounds = np.frombuffer(body, "<i8", capacity, at[0])
    values = np.frombuffer(body, "<f8", capacity * columns, at[1]).reshape(capacity, columns)
    leaving = np.frombuffer(body, np.int8, capacity, at[2])
    times = np.frombuffer(body, "<i8", capacity, at[3])
    subjects = np.frombuffer(body, f"V{PSEUDONYM}", capacity, at[4])
    numbers = np.frombuffer(body, "<i8", capacity, at[5])
    full = np.flatnonzero(rounds)
    if (rounds[full] % capacity != full).any() or (rounds[full] > t).any():
        raise DamagedError("a stored record lies where its round does not say")
    held = full[np.argsort(rounds[full])]
    when = (times[held] ^ _NEVER).view("M8[us]")
    named = unpack_subjects(subjects[held])
    records = Records(rounds[held], values[held], leaving[held] != 0, when, named, numbers[held])
    return clock, records, Heads(*heads), settled


def unpack_subjects(subjects: NDArray[np.void]) -> list[str | None]:
    """Pseudonyms as they are named; None where there is none."""
    nobody = bytes(PSEUDONYM)
    return [None if (who := bytes(raw)) == nobody else who.hex() for raw in subjects]


def pack_links(links: Sequence[int]) -> bytes:
    """The links of a stream's row, always as many."""
    return _LINKS.pack(*links)


def unpack_links(body: bytes) -> tuple[int, ...]:
    """The links that were packed."""
    return _LINKS.unpack(body)


def pack_entry(plain: bytes, following: int) -> bytes:
    """An entry of a chain, with the row of the one after it; 0 at the end."""
    return _FOLLOWING.pack(following) + plain


def unpack_entry(body: bytes) -> tuple[bytes, int]:
    """The entry that was packed, and the row of the one after it."""
    return body[_FOLLOWING.size :], *_FOLLOWING.unpack_from(body)


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
        (receipt.keep - RECEIPTS_KEPT) // TICK,  # so that 0 is what it meant in earlier versions
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
