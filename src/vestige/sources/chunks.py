"""Bytes of a file or a pipe as they arrive: by size, and on a pipe by time as well.

An empty chunk means that the time is up; the reader then yields what has arrived. Only the calling thread reads, since
a thread that waits for a pipe would prevent the process from exiting.
Guarantee: gzip that is truncated or damaged is an error, never a shorter file; held by tests/sources/test_chunks.py.
"""

from __future__ import annotations

import codecs
import re
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
from vestige.sources.dialect import Dialect

GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
"""First bytes of a file."""

CHUNK = 1 << 20
_BOM = codecs.BOM_UTF8
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SIGNATURE = 4  # bytes that identify compressions, Parquet and byte-order marks
_OTHERS = {rb"BZh[1-9]": "bzip2", rb"\xfd7zX": "xz", rb"\x28\xb5\x2f\xfd": "zstd", rb"PK\x03\x04": "zip"}
"""How compressions begin that are not read."""
_WITH_HEADER = 31  # zlib: a gzip header and its checksum are expected


def open_bytes(name: str) -> IO[bytes]:
    """Open a path, or standard input for `-`.

    Args:
        name: path, or `-`.

    Returns:
        The raw bytes.

    Raises:
        SourceError: there is no such file, or it is a folder.
    """
    if name == "-":
        if sys.stdin is None:
            raise SourceError("standard input is closed; pipe rows into it, or give a path")
        try:
            return cast(IO[bytes], FileIO(sys.stdin.fileno(), closefd=False))
        except OSError:  # standard input that is not a file, as in a test
            return sys.stdin.buffer
    path = Path(name)
    if not path.exists():
        raise SourceError("does not exist; give a path, or - for standard input")
    if path.is_dir():
        raise SourceError("is a folder; give a file")
    return cast(IO[bytes], FileIO(path))


def read_chunks(stream: IO[bytes], every: float | None) -> Iterator[bytes]:
    """Read a stream in chunks.

    Args:
        stream: file or pipe.
        every: number of seconds after which an empty chunk is yielded; None for never.

    Yields:
        The next bytes; nothing if the time is up.

    Example:
        >>> import io
        >>> list(read_chunks(io.BytesIO(b"1,2"), None))
        [b'1,2']
    """
    due = _find_deadline(every)
    while True:
        if every is not None and not _wait(stream, due - time.monotonic()):
            yield b""
            due = _find_deadline(every)
            continue
        chunk = stream.read(CHUNK)
        if chunk is None:  # a non-blocking pipe has nothing yet
            _wait(stream, None)
            continue
        if not chunk:
            return
        yield chunk
        if time.monotonic() >= due:
            yield b""
            due = _find_deadline(every)


def join_head(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Join the first chunks until they are long enough to recognise the format.

    Args:
        chunks: bytes of a source.

    Yields:
        The same bytes.

    Example:
        >>> list(join_head(iter([b"a", b"bc", b"de", b"f"])))
        [b'', b'', b'abcde', b'f']
    """
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


class Decompressed:
    """Bytes as they are, or decompressed if they are gzip; `is_gzip` is known once the first bytes have arrived.

    Args:
        chunks: bytes of a source.

    Example:
        >>> import gzip
        >>> list(Decompressed(iter([gzip.compress(b"1,2")])))
        [b'1,2']
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = join_head(chunks)
        self.is_gzip = False

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if chunk and not chunk.startswith(GZIP):
                _refuse_packed(chunk)
                yield chunk
                yield from self._chunks
                return
            if chunk:
                self.is_gzip = True
                yield from self._decompress(chunk)
                return
            yield b""

    def _decompress(self, head: bytes) -> Iterator[bytes]:
        decompressor = zlib.decompressobj(_WITH_HEADER)
        complete = False
        for chunk in chain([head], self._chunks):
            rest = chunk
            while rest:
                if complete and not (rest := rest.lstrip(b"\0")):  # the end may be padded with zeros
                    break
                if complete:  # another member follows
                    decompressor, complete = zlib.decompressobj(_WITH_HEADER), False
                try:
                    yield decompressor.decompress(rest, CHUNK)
                except zlib.error:
                    raise SourceError(
                        "is damaged: its gzip data cannot be decompressed; copy or create it again"
                    ) from None
                complete = decompressor.eof
                rest = decompressor.unused_data if complete else decompressor.unconsumed_tail
            if not chunk:
                yield b""
        if not complete:
            raise SourceError("is truncated: its gzip data ends too early; copy or create it again")


def _refuse_packed(head: bytes) -> None:
    """Refuse what is compressed in another way than by gzip."""
    for first, kind in _OTHERS.items():
        if re.match(first, head):
            raise SourceError(f"is compressed by {kind}, which is not read; unpack it, or compress it by gzip")


def strip_bom(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Remove the byte-order mark of UTF-8 that may come first.

    Args:
        chunks: bytes of a source.

    Yields:
        The bytes without the mark.

    Raises:
        SourceError: the bytes are UTF-16.

    Example:
        >>> list(strip_bom(iter([codecs.BOM_UTF8 + b"1,2"])))
        [b'1,2']
    """
    started = False
    for chunk in join_head(chunks):
        if started or not chunk:
            yield chunk
        elif chunk.startswith(_UTF16_BOMS):
            raise SourceError("contains text in UTF-16; give --encoding utf-16, or convert it to UTF-8")
        else:
            started = True
            yield chunk.removeprefix(_BOM)


def decode_chunks(chunks: Iterator[bytes], dialect: Dialect, *, growing: bool) -> Iterator[bytes]:
    r"""Convert text to UTF-8, without a byte-order mark; what begins as a Parquet file stays as it is.

    Args:
        chunks: bytes of a source.
        dialect: dialect whose encoding the text has.
        growing: whether the source may end within a character, which is then left for the next time.

    Yields:
        The bytes of the same text in UTF-8; nothing if the time is up.

    Raises:
        SourceError: the text has another encoding.

    Example:
        >>> list(decode_chunks(iter(["é1,2".encode("latin-1")]), Dialect(encoding="latin-1"), growing=False))
        [b'\xc3\xa91,2']
    """
    if dialect.encoding == "utf-8":
        yield from strip_bom(chunks)
        return
    decoder = codecs.getincrementaldecoder(dialect.encoding)()
    joined, started = join_head(chunks), False
    try:
        for chunk in joined:
            if not started and chunk.startswith(PARQUET):
                yield chunk
                yield from joined
                return
            text = decoder.decode(chunk)
            if text and not started:
                text, started = text.removeprefix("\ufeff"), True
            if text or not chunk:
                yield text.encode()
        rest = "" if growing else decoder.decode(b"", final=True)
    except UnicodeError:  # whose text quotes the bytes
        raise dialect.decode_error() from None
    if rest:
        yield rest.encode()


def _find_deadline(every: float | None) -> float:
    return float("inf") if every is None else time.monotonic() + every


def _wait(stream: IO[bytes], seconds: float | None) -> bool:
    """Wait until there is something to read, or the end; return False if the time is up first."""
    try:
        descriptor = stream.fileno()
    except OSError:  # bytes in memory are always there
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else max(0.0, seconds * 1_000)))
