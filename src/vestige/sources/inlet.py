"""Bytes of a file or a pipe as they come: by size, and on a pipe by time as well.

A chunk that is empty says that the time is up; whoever reads hands over what has come so far. The calling thread alone
reads, since a thread that waits for a pipe would keep the process from ending.
Guarantee: gzip that is cut off or damaged is an error, never a shorter file; held by tests/sources/test_inlet.py.
"""

from __future__ import annotations

import codecs
import select
import sys
import time
import zlib
from collections.abc import Iterator
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import IO, cast

from vestige.errors import SourceError

GZIP = b"\x1f\x8b"
CHUNK = 1 << 20
_MARK = codecs.BOM_UTF8
_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SIGNATURE = 4  # bytes that tell gzip, Parquet and byte-order marks
_WITH_HEADER = 31  # zlib: a gzip header and its checksum are expected


def open_bytes(name: str) -> IO[bytes]:
    """The raw bytes of a path, or of standard input for `-`."""
    if name == "-":
        if sys.stdin is None:
            raise SourceError("standard input is closed; pipe rows into it, or give a path")
        try:
            return cast(IO[bytes], FileIO(sys.stdin.fileno(), closefd=False))
        except OSError:  # standard input that is not a file, as in a test
            return sys.stdin.buffer
    path = Path(name)
    if not path.exists():
        raise SourceError("there is no such file; give a path, or - for standard input")
    if path.is_dir():
        raise SourceError("is a folder; give a file")
    return cast(IO[bytes], FileIO(path))


def read_chunks(stream: IO[bytes], every: float | None) -> Iterator[bytes]:
    """What the stream holds, in chunks; an empty one whenever `every` seconds have passed, if that is given."""
    due = _later(every)
    while True:
        if every is not None and not _wait(stream, due - time.monotonic()):
            yield b""
            due = _later(every)
            continue
        chunk = stream.read(CHUNK)
        if chunk is None:  # a pipe that does not block has nothing yet
            _wait(stream, None)
            continue
        if not chunk:
            return
        yield chunk
        if time.monotonic() >= due:
            yield b""
            due = _later(every)


def settle(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, of which the first that come are enough to tell what they are."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= _SIGNATURE:
            yield head
            yield from chunks
            return
        yield b""
    if head:
        yield head


class Unpacked:
    """The bytes as they are, or unpacked if they are gzip; `packed` says which, once the first of them have come."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = settle(chunks)
        self.packed = False

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if chunk and not chunk.startswith(GZIP):
                yield chunk
                yield from self._chunks
                return
            if chunk:
                self.packed = True
                yield from self._unpack(chunk)
                return
            yield b""

    def _unpack(self, head: bytes) -> Iterator[bytes]:
        packed = zlib.decompressobj(_WITH_HEADER)
        whole = False
        for chunk in chain([head], self._chunks):
            rest = chunk
            while rest:
                if whole and not (rest := rest.lstrip(b"\0")):  # zeros may fill the end
                    break
                if whole:  # another member follows
                    packed, whole = zlib.decompressobj(_WITH_HEADER), False
                try:
                    yield packed.decompress(rest, CHUNK)
                except zlib.error:
                    raise SourceError("is damaged: its gzip data cannot be unpacked; copy or make it again") from None
                whole = packed.eof
                rest = packed.unused_data if whole else packed.unconsumed_tail
            if not chunk:
                yield b""
        if not whole:
            raise SourceError("is cut off: its gzip data ends too early; copy or make it again")


def strip_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes without the byte-order mark that may come first."""
    begun = False
    for chunk in settle(chunks):
        if begun or not chunk:
            yield chunk
        elif chunk.startswith(_OTHER_MARKS):
            raise SourceError("holds text in UTF-16; convert the file to UTF-8 first")
        else:
            begun = True
            yield chunk.removeprefix(_MARK)


def _later(every: float | None) -> float:
    return float("inf") if every is None else time.monotonic() + every


def _wait(stream: IO[bytes], seconds: float | None) -> bool:
    """Whether there is something to read, or the end, within so many seconds."""
    try:
        descriptor = stream.fileno()
    except OSError:  # bytes in memory are always there
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else max(0.0, seconds * 1_000)))
