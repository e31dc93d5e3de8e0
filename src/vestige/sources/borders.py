"""Bytes cut where a record ends: at a line break, in CSV only at one that stands outside quotes.

The states are those of Python's csv module: a quote opens a field only where one begins, two in a row are one, and a
line ends with LF, CR or both. Guarantee: at every block size the records are those of that module; held by
tests/sources/test_delimited.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from vestige._numba import kernel
from vestige.errors import SourceError
from vestige.types import Ints

LONGEST = 1 << 24
"""So many bytes of a record are waited for."""
_LF, _CR, _QUOTE, _COMMA = 10, 13, 34, 44
_AT_FIELD, _IN_FIELD, _IN_QUOTES, _AT_QUOTE, _AT_CR = range(5)
_NONE = -1


class Border(Protocol):
    """Finds where records end, chunk after chunk."""

    def last(self, chunk: bytes) -> int:
        """The end of the last record that ends in this chunk; -1 if none does."""

    def is_open(self) -> bool:
        """Whether the bytes so far end inside quotes."""

    def is_ended(self) -> bool:
        """Whether the bytes so far end a record though `last` still waits for a line feed after a carriage return."""


class Lines:
    """A record is a line."""

    def last(self, chunk: bytes) -> int:
        """The end of the last line in this chunk; -1 if none ends here."""
        return chunk.rfind(b"\n") + 1 or _NONE

    def is_open(self) -> bool:
        """Never: there are no quotes to look at."""
        return False

    def is_ended(self) -> bool:
        """Never: only a line feed ends a line."""
        return False


class Quoted:
    """A record of CSV: a line, or several where line breaks are quoted."""

    def __init__(self) -> None:
        self._state = _AT_FIELD

    def last(self, chunk: bytes) -> int:
        """The end of the last record in this chunk; -1 if none ends here."""
        plain = self._state in (_AT_FIELD, _IN_FIELD) and b'"' not in chunk
        if plain and chunk and chunk[-1] != _CR:
            self._state = _AT_FIELD if chunk[-1] in (_LF, _COMMA) else _IN_FIELD
            return max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1 or _NONE
        found = np.empty(2, np.int64)
        _scan(np.frombuffer(chunk, np.uint8), self._state, found)
        self._state = int(found[1])
        return int(found[0])

    def is_open(self) -> bool:
        """Whether the bytes so far end inside quotes."""
        return self._state == _IN_QUOTES

    def is_ended(self) -> bool:
        """Whether the bytes so far end with a carriage return outside quotes."""
        return self._state == _AT_CR


class Records:
    """Whole records, of some `size` bytes together; whenever the time is up, what has come so far, even if nothing.

    Args:
        chunks: the bytes; an empty chunk says that the time is up.
        border: finds where records end.
        size: how many bytes are waited for.
        growing: whether a last record without its line break is left out; `unfinished` then says so in the end.
    """

    def __init__(self, chunks: Iterator[bytes], border: Border, size: int, *, growing: bool) -> None:
        self._chunks, self._border, self._size, self._growing = chunks, border, size, growing
        self.unfinished = False

    def __iter__(self) -> Iterator[bytes]:
        whole: list[bytes] = []
        begun: list[bytes] = []
        held = waiting = 0
        for chunk in self._chunks:
            end = self._border.last(chunk)
            if end >= 0:
                whole += [*begun, chunk[:end]]
                held += waiting + end
                begun, waiting = [], 0
            begun.append(chunk[max(end, 0) :])
            waiting += len(begun[-1])
            if waiting > LONGEST:
                raise _too_long(self._border)
            if not chunk or (held and held + waiting >= self._size):
                yield b"".join(whole)
                whole, held = [], 0
        yield b"".join([*whole, *self._last(b"".join(begun))])

    def _last(self, rest: bytes) -> list[bytes]:
        """What comes after the last border, if it counts."""
        waits = self._growing and rest and not self._border.is_ended()
        if self._border.is_open() and not (waits and _is_line(rest)):  # else a slip may swallow all that follows
            raise SourceError("ends inside a quoted field; close its quotes, or wait until the field is written")
        self.unfinished = bool(waits)
        return [] if waits else [rest]


def _is_line(rest: bytes) -> bool:
    return b"\n" not in rest and b"\r" not in rest


def _too_long(border: Border) -> SourceError:
    quotes = ", or quotes that are never closed" if border.is_open() else ""
    return SourceError(f"holds a row that is longer than {LONGEST:,} bytes{quotes}; leave out its longest columns")


@kernel
def _scan(data: Ints, state: int, found: Ints) -> None:
    """Into `found`, the end of the last record (-1: none ends here), and the state after all bytes."""
    end = _NONE
    for i in range(len(data)):
        c = data[i]
        if state == _AT_CR:
            state = _AT_FIELD
            if c == _LF:
                end = i + 1
                continue
            end = i
        if state == _IN_QUOTES:
            if c == _QUOTE:
                state = _AT_QUOTE
        elif c == _QUOTE and (state in (_AT_FIELD, _AT_QUOTE)):
            state = _IN_QUOTES
        elif c == _COMMA:
            state = _AT_FIELD
        elif c == _LF:
            state = _AT_FIELD
            end = i + 1
        elif c == _CR:
            state = _AT_CR
        else:
            state = _IN_FIELD
    found[0], found[1] = end, state
