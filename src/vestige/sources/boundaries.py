"""Bytes split where a record ends: at a line break, in CSV only at one outside quotes.

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

MAX_RECORD = 1 << 24
"""Maximum number of bytes of a record."""
_LF, _CR, _QUOTE = 10, 13, 34
_AT_FIELD, _IN_FIELD, _IN_QUOTES, _AT_QUOTE, _AT_CR = range(5)
_NONE = -1


class Boundary(Protocol):
    """Finds where records end, chunk after chunk."""

    def find_last(self, chunk: bytes) -> int:
        """Find the end of the last record that ends in the next chunk.

        Args:
            chunk: bytes that follow those of the last call.

        Returns:
            The index after the record; -1 if no record ends in the chunk.
        """

    def is_open(self) -> bool:
        """Whether the bytes so far end inside quotes."""

    def is_ended(self) -> bool:
        """Whether the bytes so far end a record, although a line feed may follow the carriage return."""


class LineBoundary:
    """The boundary of records that are lines."""

    def find_last(self, chunk: bytes) -> int:
        r"""Find the end of the last line in the next chunk.

        Args:
            chunk: bytes that follow those of the last call.

        Returns:
            The index after the line; -1 if no line ends in the chunk.

        Example:
            >>> LineBoundary().find_last(b"1\n2\n3")
            4
        """
        return chunk.rfind(b"\n") + 1 or _NONE

    def is_open(self) -> bool:
        """Always False: quotes have no meaning here."""
        return False

    def is_ended(self) -> bool:
        """Always False: only a line feed ends a line."""
        return False


class CsvBoundary:
    """The boundary of records of CSV: a line, or several if line breaks are quoted.

    Args:
        separator: character that separates fields.
    """

    def __init__(self, separator: str = ",") -> None:
        self._state, self._separator = _AT_FIELD, ord(separator)

    def find_last(self, chunk: bytes) -> int:
        r"""Find the end of the last record in the next chunk.

        Args:
            chunk: bytes that follow those of the last call.

        Returns:
            The index after the record; -1 if no record ends in the chunk.

        Example:
            >>> CsvBoundary().find_last(b'1\n"2\n3')
            2
        """
        plain = self._state in (_AT_FIELD, _IN_FIELD) and b'"' not in chunk
        if plain and chunk and chunk[-1] != _CR:
            self._state = _AT_FIELD if chunk[-1] in (_LF, self._separator) else _IN_FIELD
            return max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1 or _NONE
        result = np.empty(2, np.int64)
        _scan(np.frombuffer(chunk, np.uint8), self._separator, self._state, result)
        self._state = int(result[1])
        return int(result[0])

    def is_open(self) -> bool:
        """Whether the bytes so far end inside quotes."""
        return self._state == _IN_QUOTES

    def is_ended(self) -> bool:
        """Whether the bytes so far end with a carriage return outside quotes."""
        return self._state == _AT_CR


class RecordChunks:
    r"""Chunks of complete records, of about `size` bytes; whenever the time is up, those that have arrived, if any.

    Args:
        chunks: bytes of the source; an empty chunk means that the time is up.
        boundary: finds where records end.
        size: number of bytes to collect.
        growing: whether a last record without a line break is left out; if so, `unfinished` is True at the end.

    Example:
        >>> list(RecordChunks(iter([b"1\n2", b"\n3"]), LineBoundary(), 2, growing=True))
        [b'1\n', b'2\n', b'']
    """

    def __init__(self, chunks: Iterator[bytes], boundary: Boundary, size: int, *, growing: bool) -> None:
        self._chunks, self._boundary, self._size, self._growing = chunks, boundary, size, growing
        self.unfinished = False

    def __iter__(self) -> Iterator[bytes]:
        whole: list[bytes] = []
        begun: list[bytes] = []
        held = waiting = 0
        for chunk in self._chunks:
            end = self._boundary.find_last(chunk)
            if end >= 0:
                whole += [*begun, chunk[:end]]
                held += waiting + end
                begun, waiting = [], 0
            begun.append(chunk[max(end, 0) :])
            waiting += len(begun[-1])
            if waiting > MAX_RECORD:
                raise _explain_length(self._boundary)
            if not chunk or (held and held + waiting >= self._size):
                yield b"".join(whole)
                whole, held = [], 0
        yield b"".join([*whole, *self._read_rest(b"".join(begun))])

    def _read_rest(self, rest: bytes) -> list[bytes]:
        """Return what follows the last boundary, if it counts."""
        waits = self._growing and rest and not self._boundary.is_ended()
        if self._boundary.is_open() and not (waits and _is_line(rest)):  # else one wrong quote may hide the rest
            raise SourceError("ends inside a quoted field; close its quotes, or wait until the field is written")
        self.unfinished = bool(waits)
        return [] if waits else [rest]


def _is_line(rest: bytes) -> bool:
    return b"\n" not in rest and b"\r" not in rest


def _explain_length(boundary: Boundary) -> SourceError:
    quotes = ", or quotes that are not closed" if boundary.is_open() else ""
    return SourceError(f"contains a row of more than {MAX_RECORD:,} bytes{quotes}; leave out its longest columns")


@kernel
def _scan(data: Ints, separator: int, state: int, result: Ints) -> None:
    """Write into `result` the end of the last record (-1: none ends here), and the state after all bytes."""
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
        elif c == separator:
            state = _AT_FIELD
        elif c == _LF:
            state = _AT_FIELD
            end = i + 1
        elif c == _CR:
            state = _AT_CR
        else:
            state = _IN_FIELD
    result[0], result[1] = end, state
