"""The bytes of one stream in a store: a header of small numbers, then the records that are held, and nothing else.

What a state does not have takes no room, and equal states give equal bytes: those of a regular state, in which the held
records of the encoded batch and all that wait lie where the clock says, are a mask and the values. A checksum (CRC-32)
that covers the name of the stream stands before them, so that damage to one stream stays with it.
Guarantee: what is packed is read back bit for bit, equal states give equal bytes, and any changed bit is noticed; held
by tests/store/test_entry.py.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vestige.clock import Clock
from vestige.errors import StoreError
from vestige.records import Records
from vestige.store.event import NEVER, find_event, find_newest
from vestige.store.keys import PSEUDONYM
from vestige.store.layout import DamagedError, pack_receipt, unpack_receipt, unpack_subjects
from vestige.store.position import Position
from vestige.store.receipt import Receipt
from vestige.store.state import State
from vestige.store.terms import Terms
from vestige.types import Bools, Ints

TIMED, IRREGULAR, TIMES, SUBJECTS, NUMBERS, SOURCES, RECEIPTS = (1 << i for i in range(7))
"""The flags of an entry: which of its parts are there."""
NO_TIME = -(2**63)
"""A time that is not known."""
CHECKSUM = 4
"""Bytes of the checksum at the start of an entry; the flags come next, and then the number of the terms."""
_CHECKSUM = struct.Struct("<I")
_TIMED = struct.Struct("<qqq")
_COUNTS = 9
_LARGEST = 2**64


@dataclass(frozen=True, slots=True)
class Header:
    """The beginning of an entry: all that can be told without its records.

    Attributes:
        flags: which parts the entry has.
        terms: number of its terms.
        t: number of records that have arrived.
        pending: number of rounds since the encoded batch.
        length: number of rounds of the encoded batch.
        updates: see `vestige.Clock`.
        bits: see `vestige.Clock`.
        settled: number of the newest request that has been met.
        since: see `vestige.Clock`.
        gaps: see `vestige.Clock`.
        due: deadline of the encoded batch; `NEVER` if it has none.
        event: when a sweep has something to do next; `NEVER` if it has not.
        newest: the newest time that is known; `NO_TIME` if none is.
        count: number of records that are held.
        records: where in the entry the rounds of the records begin.
    """

    flags: int
    terms: int
    t: int
    pending: int
    length: int
    updates: int
    bits: int
    settled: int
    since: int
    gaps: int
    due: int
    event: int
    newest: int
    count: int
    records: int

    @property
    def has_receipts(self) -> bool:
        """Whether the entry has receipts."""
        return bool(self.flags & RECEIPTS)

    @property
    def clock(self) -> Clock:
        """The public clock."""
        last = self.t - self.pending
        due = None if self.due == NEVER else self.due
        return Clock(self.t, last - self.length + 1, last, self.since, due, self.updates, self.gaps, self.bits)


def pack_entry(name: bytes, number: int, terms: Terms, state: State, sources: Sequence[int] = ()) -> bytes:
    """Pack a state.

    Args:
        name: the name of its stream, encoded.
        number: the number of its terms.
        terms: its terms.
        state: the state; if it does not say when its next event is, that is found from the terms.
        sources: the rows of its own positions.

    Returns:
        The entry, checksum included.

    Raises:
        StoreError: its records span more rounds than the terms say.
    """
    clock, held = state.clock, state.retained
    if len(held) and clock.t - held.rounds[0] >= terms.capacity:
        raise StoreError(
            f"the policy holds records over more than {terms.capacity} rounds, for which the store has no room; "
            "give the stream a limit: retention=..."
        )
    regular = _find_mask(clock, held, terms.capacity)
    event = find_event(terms, state) if state.event is None else state.event
    timed = NEVER if clock.due is None else clock.due, event, find_newest(terms, state)
    parts = {
        TIMED: _TIMED.pack(*timed) if timed != (NEVER, NEVER, NO_TIME) else b"",
        IRREGULAR: pack_rounds(clock.t, held) if regular is None else b"",
        0: b"" if regular is None else regular,
        -1: held.values.astype("<f8").tobytes(),
        TIMES: b"" if np.isnat(held.times).all() else held.times.astype("M8[us]").view("<i8").tobytes(),
        SUBJECTS: _pack_subjects(held),
        NUMBERS: _pack_numbers(held.numbers) if held.numbers.any() else b"",
        SOURCES: pack_varints([len(sources)]) + np.array(sources, "<u4").tobytes() if len(sources) else b"",
        RECEIPTS: _pack_receipts(state.receipts),
    }
    flags = sum(flag for flag, part in parts.items() if flag > 0 and part)
    counts = clock.t, clock.pending, clock.last - clock.first + 1, clock.updates, clock.bits
    numbers = pack_varints((number, *counts, state.settled, clock.since - 1, clock.gaps))
    return seal_entry(bytes([flags]) + numbers + b"".join(parts.values()), name)


def seal_entry(payload: bytes, name: bytes) -> bytes:
    """Put the checksum before an entry.

    Args:
        payload: the rest of it.
        name: the name of its stream, encoded.

    Returns:
        The entry.
    """
    return _CHECKSUM.pack(zlib.crc32(payload, zlib.crc32(name))) + payload


def is_sound(entry: bytes, name: bytes) -> bool:
    """Tell whether an entry is what was written of a stream.

    Args:
        entry: the entry.
        name: the name of the stream, encoded.

    Returns:
        True if its checksum fits.

    Example:
        >>> is_sound(seal_entry(bytes(10), b"visits"), b"visits")
        True
    """
    payload = memoryview(entry)[CHECKSUM:]
    return len(payload) > _COUNTS and entry[:CHECKSUM] == _CHECKSUM.pack(zlib.crc32(payload, zlib.crc32(name)))


def read_header(entry: bytes) -> Header:
    """Read the beginning of an entry, whose checksum fits.

    Args:
        entry: the entry.

    Returns:
        Its header.
    """
    flags = entry[CHECKSUM]
    (number, t, pending, length, updates, bits, settled, since, gaps), at = _read_varints(entry, CHECKSUM + 1, _COUNTS)
    due, event, newest = NEVER, NEVER, NO_TIME
    if flags & TIMED:
        due, event, newest = _TIMED.unpack_from(entry, at)
        at += _TIMED.size
    if flags & IRREGULAR:
        (count,), _ = _read_varints(entry, at, 1)
    else:
        count = int.from_bytes(entry[at : at + -(-length // 8)], "little").bit_count() + pending
    numbers = t, pending, length, updates, bits, settled, since + 1, gaps
    return Header(flags, number, *numbers, due, event, newest, count, at)


def read_family(entry: bytes) -> int:
    """Read the number of the terms of an entry, whose checksum fits.

    Args:
        entry: the entry.

    Returns:
        The number.
    """
    (number,), _ = _read_varints(entry, CHECKSUM + 1, 1)
    return number


def unpack_entry(entry: bytes, terms: Terms, positions: Mapping[int, tuple[str, Position]]) -> State:
    """Unpack a state from an entry, whose checksum fits.

    Args:
        entry: the entry.
        terms: the terms that its header names.
        positions: the own positions of the stream by their rows, see `read_sources`.

    Returns:
        The state.

    Raises:
        DamagedError: the bytes do not fit the terms.
    """
    header = read_header(entry)
    clock, parts = header.clock, _Parts(entry, header, terms.columns)
    if parts.end != len(entry) or (len(parts.rounds) and not 0 < parts.rounds[0] <= parts.rounds[-1] <= clock.t):
        raise DamagedError("a stored state has another length than its terms say")
    own = dict(positions[row] for row in parts.sources)
    return State(clock, parts.make_records(), own, parts.receipts, header.settled, header.event)


def read_sources(entry: bytes, columns: int) -> tuple[int, ...]:
    """Read which rows hold the own positions of a stream.

    Args:
        entry: its entry, whose checksum fits.
        columns: number of values per record.

    Returns:
        The numbers of the rows.
    """
    return _Parts(entry, read_header(entry), columns).sources if entry[CHECKSUM] & SOURCES else ()


def read_receipts(entry: bytes, columns: int) -> tuple[Receipt, ...]:
    """Read the receipts of a stream.

    Args:
        entry: its entry, whose checksum fits.
        columns: number of values per record.

    Returns:
        The receipts.
    """
    return _Parts(entry, read_header(entry), columns).receipts if entry[CHECKSUM] & RECEIPTS else ()


def read_subjects(entry: bytes, columns: int) -> NDArray[np.uint8]:
    """Read the pseudonyms of the records of a stream.

    Args:
        entry: its entry, whose checksum fits.
        columns: number of values per record.

    Returns:
        Shape (records, 16), zeros for none; shape (0, 16) if no record has one.
    """
    if not entry[CHECKSUM] & SUBJECTS:
        return np.empty((0, PSEUDONYM), np.uint8)
    parts = _Parts(entry, read_header(entry), columns)
    return np.frombuffer(parts.subjects, np.uint8).reshape(-1, PSEUDONYM)


def replace_sources(entry: bytes, name: bytes, columns: int, rows: Sequence[int]) -> bytes:
    """Give the own positions of a stream other rows.

    Args:
        entry: its entry, whose checksum fits.
        name: its name, encoded.
        columns: number of values per record.
        rows: as many rows as it has.

    Returns:
        The entry.
    """
    parts = _Parts(entry, read_header(entry), columns)
    payload = entry[CHECKSUM : parts.sources_at] + np.array(rows, "<u4").tobytes() + entry[parts.sources_end :]
    return seal_entry(payload, name)


def replace_terms(entry: bytes, name: bytes, number: int) -> bytes:
    """Give the terms of a stream another number.

    Args:
        entry: its entry, whose checksum fits.
        name: its name, encoded.
        number: the number.

    Returns:
        The entry.
    """
    _, at = _read_varints(entry, CHECKSUM + 1, 1)
    return seal_entry(entry[CHECKSUM : CHECKSUM + 1] + pack_varints([number]) + entry[at:], name)


def sort_receipts(entry: bytes, name: bytes, columns: int) -> bytes:
    """Put the receipts of a stream in the order of their requests.

    Args:
        entry: its entry, whose checksum fits.
        name: its name, encoded.
        columns: number of values per record.

    Returns:
        The entry; the same object if they are in order.
    """
    parts = _Parts(entry, read_header(entry), columns)
    ordered = tuple(sorted(parts.receipts, key=lambda receipt: (receipt.requested, receipt.id)))
    if ordered == parts.receipts:
        return entry
    return seal_entry(entry[CHECKSUM : parts.sources_end] + _pack_receipts(ordered), name)


class _Parts:
    """Where the parts of an entry lie."""

    def __init__(self, entry: bytes, header: Header, columns: int) -> None:
        self._entry, self._header = entry, header
        at, n = header.records, header.count
        if header.flags & IRREGULAR:
            self.rounds, self.leaving, at = _read_rounds(entry, at, header.t)
        else:
            size = -(-header.length // 8)
            self.rounds = _find_rounds(entry[at : at + size], header)
            self.leaving, at = np.zeros(n, np.bool_), at + size
        self.values = np.frombuffer(entry, "<f8", n * columns, at).reshape(n, columns)
        at += 8 * n * columns
        self.times = np.full(n, NO_TIME, np.int64)
        if header.flags & TIMES:
            self.times, at = np.frombuffer(entry, "<i8", n, at), at + 8 * n
        size = PSEUDONYM * n if header.flags & SUBJECTS else 0
        self.subjects, at = entry[at : at + size], at + size
        self.numbers = np.zeros(n, np.int64)
        if header.flags & NUMBERS:
            self.numbers, at = _read_numbers(entry, at, n)
        self.sources_at = self.sources_end = at
        if header.flags & SOURCES:
            (count,), self.sources_at = _read_varints(entry, at, 1)
            at = self.sources_end = self.sources_at + 4 * count
        self._receipts_at = at
        self.end = at if not header.flags & RECEIPTS else _skip_receipts(entry, at)

    @property
    def sources(self) -> tuple[int, ...]:
        """The rows of the own positions."""
        rows = np.frombuffer(self._entry, "<u4", (self.sources_end - self.sources_at) // 4, self.sources_at)
        return tuple(rows.tolist())

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipts."""
        return tuple(map(unpack_receipt, _iterate_receipts(self._entry, self._receipts_at, self.end)))

    def make_records(self) -> Records:
        """The records."""
        subjects = unpack_subjects(np.frombuffer(self.subjects, f"V{PSEUDONYM}")) or None
        return Records(self.rounds, self.values, self.leaving, self.times.view("M8[us]"), subjects, self.numbers)


def _find_mask(clock: Clock, held: Records, capacity: int) -> bytes | None:
    """Which rounds of the encoded batch are held, as bits; None if the state is not regular."""
    length, rounds = clock.last - clock.first + 1, held.rounds
    encoded = rounds[: len(rounds) - clock.pending] if clock.pending <= len(rounds) else rounds
    waiting = rounds[len(encoded) :]
    if held.leaving.any() or length > capacity or len(waiting) != clock.pending:
        return None
    if len(waiting) and (waiting[0] != clock.last + 1 or waiting[-1] != clock.t):
        return None
    if len(encoded) and (encoded[0] < clock.first or encoded[-1] > clock.last):
        return None
    mask = np.zeros(length, np.bool_)
    mask[encoded - clock.first] = True
    return np.packbits(mask, bitorder="little").tobytes()


def _find_rounds(mask: bytes, header: Header) -> Ints:
    """The rounds of a regular state."""
    held = np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little"))
    last = header.t - header.pending
    return np.concatenate((held + (last - header.length + 1), np.arange(last + 1, header.t + 1)))


def pack_rounds(t: int, held: Records) -> bytes:
    """Pack the rounds of records one by one, with what is leaving.

    Args:
        t: number of records that have arrived.
        held: the records.

    Returns:
        The bytes.
    """
    n = len(held)
    steps = np.diff(held.rounds).tolist()
    first = [t - int(held.rounds[0])] if n else []
    return pack_varints([n, *first, *steps]) + np.packbits(held.leaving, bitorder="little").tobytes()


def _read_rounds(entry: bytes, at: int, t: int) -> tuple[Ints, Bools, int]:
    (n,), at = _read_varints(entry, at, 1)
    steps, at = _read_varints(entry, at, n)
    rounds = np.array([t - steps[0], *steps[1:]] if n else [], np.int64).cumsum()
    size = -(-n // 8)
    bits = np.unpackbits(np.frombuffer(entry, np.uint8, size, at), bitorder="little")
    return rounds, bits[:n].astype(np.bool_), at + size


def _pack_subjects(held: Records) -> bytes:
    nobody = bytes(PSEUDONYM)
    parts = [nobody if who is None else bytes.fromhex(who) for who in held.subjects]
    return b"".join(parts) if any(part != nobody for part in parts) else b""


def _pack_numbers(numbers: Ints) -> bytes:
    steps = np.diff(numbers, prepend=0)
    return pack_varints(((steps << 1) ^ (steps >> 63)).view(np.uint64).tolist())


def _read_numbers(entry: bytes, at: int, n: int) -> tuple[Ints, int]:
    packed, at = _read_varints(entry, at, n)
    return np.array([(step >> 1) ^ -(step & 1) for step in packed], np.int64).cumsum(), at


def _pack_receipts(receipts: Sequence[Receipt]) -> bytes:
    if not receipts:
        return b""
    packed = [pack_receipt(receipt) for receipt in receipts]
    return pack_varints([len(packed)]) + b"".join(pack_varints([len(part)]) + part for part in packed)


def _iterate_receipts(entry: bytes, at: int, end: int) -> Iterable[bytes]:
    if at < end:
        (count,), at = _read_varints(entry, at, 1)
        for _ in range(count):
            (size,), at = _read_varints(entry, at, 1)
            yield entry[at : at + size]
            at += size


def _skip_receipts(entry: bytes, at: int) -> int:
    (count,), at = _read_varints(entry, at, 1)
    for _ in range(count):
        (size,), at = _read_varints(entry, at, 1)
        at += size
    return at


def pack_varints(numbers: Iterable[int]) -> bytes:
    r"""Pack whole numbers from 0 up, seven bits a byte (LEB128).

    Args:
        numbers: the numbers, below 2**64.

    Returns:
        The bytes.

    Raises:
        StoreError: a number is out of range.

    Example:
        >>> pack_varints([5, 300])
        b'\x05\xac\x02'
    """
    made = bytearray()
    for number in numbers:
        if not 0 <= number < _LARGEST:
            raise StoreError(f"a count of {number} is out of range for a store; it holds counts from 0 to 2**64 - 1")
        left = number
        while left > 127:
            made.append(left & 127 | 128)
            left >>= 7
        made.append(left)
    return bytes(made)


def _read_varints(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Numbers that were packed, and where they end; an IndexError if the bytes end before."""
    numbers = []
    for _ in range(count):
        byte = data[at]
        number, shift, at = byte & 127, 7, at + 1
        while byte > 127:
            byte = data[at]
            number |= (byte & 127) << shift
            shift, at = shift + 7, at + 1
        numbers.append(number)
    return numbers, at
