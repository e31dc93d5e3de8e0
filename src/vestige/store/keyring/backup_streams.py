"""The bytes of a backup: files and folders, unpacked as far as the standard library can, and never copied whole.

Guarantee: what cannot be read or unpacked is named, and never left out without a word; held by
tests/store/test_backup.py.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, Protocol

IT = "it"
"""What a backup that is one file is called in a sentence about it."""
_HEAD = 512
"""Bytes by which the kind of a file is recognised: a header of tar."""
_PIECE = 1 << 14
"""Bytes of a file in a zip file that are unpacked at once, of which each may become a thousand."""
_DEPTH = 4
"""How often something is unpacked that was packed in another way."""
_UNPACKERS: dict[bytes, Callable[[BufferedReader], Bytes]] = {
    b"\x1f\x8b\x08": lambda packed: gzip.GzipFile(fileobj=packed),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_PACKED = {
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; unpack it first: zstd -d FILE",
    b"\x04\x22\x4d\x18": "is compressed with lz4; unpack it first: lz4 -d FILE",
    b"7z\xbc\xaf\x27\x1c": "is packed by 7-Zip; unpack it first: 7z x FILE",
    b"Rar!": "is packed by RAR; unpack it first: unrar x FILE",
    b"PGDMP": "is a dump in PostgreSQL's custom format; make a plain one of it first: pg_restore -f dump.sql FILE",
}
_ZIP = b"PK\x03\x04"
_ZIP_HEAD = struct.Struct("<2xHHxxxx4xIIHH")
"""What follows the first four bytes of a file in a zip file: flags, method, two sizes, lengths of name and extras."""
_ZIP_LONG = 0xFFFFFFFF
_ENCRYPTED, _SIZES_LATER = 1, 8
_STORED = 0
_INFLATERS: dict[int, Callable[[], Any]] = {8: lambda: zlib.decompressobj(-zlib.MAX_WBITS), 12: bz2.BZ2Decompressor}
_TAR = b"ustar"
_TAR_AT = 257
_WAL = struct.Struct("<HHIQIIQII")
"""Header of the first page of a segment of a write-ahead log: a magic number, flags, the size of a page last."""
_WAL_MAGIC = range(0xD000, 0xD200)
_WAL_SIZES = (1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16)
_WAL_HEADER, _WAL_LONG = 24, 2
_FAILURES = (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error)


class Bytes(Protocol):
    """Bytes that are read once, from the first to the last."""

    def read(self, size: int, /) -> bytes:
        """Read at most so many bytes; none at the end."""


Scan = Callable[[str, Bytes], None]
"""What is called with the name and the bytes of each file."""


def read_backup(path: Path, scan: Scan, report: Callable[[str], None], tell: Callable[[float], object]) -> None:
    """Read all files of a backup, unpacked.

    Args:
        path: a file, or a folder with all that is in it; links are followed.
        scan: called with the name and the bytes of each file; of an archive, of each file in it. The name is relative
            to the backup, and empty for the backup itself.
        report: called with a sentence about each file that cannot be read.
        tell: called with the share of the bytes that was read.
    """
    files = list(_list_files(path, report))
    total, done = max(sum(size for _, size in files), 1), 0
    for file, size in files:
        name = "" if file == path else str(file.relative_to(path))
        try:
            with file.open("rb") as opened:
                _unpack(name, _Counted(opened, tell, done, total), scan, report)
        except _FAILURES as problem:
            report(f"{name or IT} cannot be read to its end ({_explain(problem)}), so the rest was not looked at")
        done += size


def _list_files(path: Path, report: Callable[[str], None]) -> Iterator[tuple[Path, int]]:
    """All files with their sizes, in the order of their names; pipes and sockets hold nothing."""
    if path.is_file():
        yield path, path.stat().st_size
        return
    seen = set[tuple[int, int]]()
    for folder, folders, names in os.walk(path, onerror=lambda problem: report(_name(problem)), followlinks=True):
        found = os.stat(folder)
        if (found.st_dev, found.st_ino) in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add((found.st_dev, found.st_ino))
        folders.sort()
        for name in sorted(names):
            try:
                found = os.stat(file := Path(folder, name))
            except OSError as problem:
                report(_name(problem))
                continue
            if stat.S_ISREG(found.st_mode):
                yield file, found.st_size


def _unpack(name: str, source: Bytes, scan: Scan, report: Callable[[str], None], depth: int = 0) -> None:
    """Scan a file, or what it is a packing of."""
    stream = _Stream(source)
    for magic, text in _PACKED.items():
        if stream.head.startswith(magic):
            report(f"{name or IT} {text}")
    unpacker = next((each for magic, each in _UNPACKERS.items() if stream.head.startswith(magic)), None)
    if depth == _DEPTH:
        scan(name, stream)
    elif unpacker is not None:
        _unpack(name, unpacker(BufferedReader(stream)), scan, report, depth + 1)
    elif stream.head[_TAR_AT:].startswith(_TAR):
        with tarfile.open(fileobj=BufferedReader(stream), mode="r|") as archive:
            for member in archive:
                if (inner := archive.extractfile(member) if member.isfile() else None) is not None:
                    _unpack(f"{name}/{member.name}".lstrip("/"), inner, scan, report, depth + 1)
    elif stream.head.startswith(_ZIP):
        _unpack_zip(name, _Kept(stream), scan, report, depth)
    else:
        scan(name, _strip_wal_headers(stream))


def _unpack_zip(name: str, source: _Kept, scan: Scan, report: Callable[[str], None], depth: int) -> None:
    """Scan the files in a zip file in the order in which they lie there, then its directory, which has their names."""
    while (start := _read_exactly(source, len(_ZIP))) == _ZIP:
        if len(head := _read_exactly(source, _ZIP_HEAD.size)) < _ZIP_HEAD.size:
            raise EOFError
        flags, method, packed, _, *lengths = _ZIP_HEAD.unpack(head)
        called, extra = (_read_exactly(source, length) for length in lengths)
        inner = f"{name}/{called.decode(errors='replace')}".lstrip("/")
        if packed == _ZIP_LONG:
            packed = _read_long_size(extra)
        is_open = bool(flags & _SIZES_LATER and not packed)
        member: _Packed | _Limited = _Limited(source, packed)
        if method in _INFLATERS and not flags & _ENCRYPTED:
            member = _Packed(source, _INFLATERS[method]())
        elif is_open:
            report(f"{inner} does not say how long it is, so neither it nor what follows was unpacked; unpack it first")
            break
        elif method != _STORED or flags & _ENCRYPTED:
            kind = "is encrypted" if flags & _ENCRYPTED else f"is packed by method {method} of zip"
            report(f"{inner} {kind}, so it was not looked at; unpack it first")
            member.skip()
            continue
        _unpack(inner, member, scan, report, depth + 1)
        member.skip()
        if flags & _SIZES_LATER:
            _skip_sizes(source)
    source.put_back(start)
    scan(name, source)
    if not start.startswith(b"PK"):
        raise EOFError


def _read_long_size(extra: bytes) -> int:
    """The packed size of a file of 4 GiB and more, which stands behind its unpacked size."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1 and length >= 16:
            return int.from_bytes(extra[at + 12 : at + 20], "little")
        at += 4 + length
    return 0


def _skip_sizes(source: _Kept) -> None:
    """Skip the sizes that follow a file: three numbers of 4 or 8 bytes, maybe after a signature."""
    ahead = _read_exactly(source, 24)
    at = next((at for at in (12, 16, 20, 24) if ahead[at : at + 2] == b"PK" or at == len(ahead)), 0)
    source.put_back(ahead[at:])


def _explain(problem: Exception) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or "it is damaged or cut off"


def _name(problem: OSError) -> str:
    return f"{problem.filename} cannot be read ({problem.strerror}), so it was not looked at"


class _Counted:
    """Bytes of which is told how many were read, with those of earlier files, as a share of the total."""

    def __init__(self, source: Bytes, tell: Callable[[float], object], done: int, total: int) -> None:
        self._source, self._tell, self._done, self._total = source, tell, done, total

    def read(self, size: int, /) -> bytes:
        found = self._source.read(size)
        self._done += len(found)
        self._tell(min(self._done / self._total, 1.0))
        return found


class _Stream(RawIOBase):
    """Bytes whose first ones are known before they are read."""

    def __init__(self, source: Bytes) -> None:
        super().__init__()
        self._source = source
        self.head = self._rest = _read_exactly(source, _HEAD)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return self.readall()
        found, self._rest = self._rest[:size], self._rest[size:]
        return found or self._source.read(size)

    def readinto(self, buffer: Any, /) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)


class _Kept:
    """Bytes that can be put back."""

    def __init__(self, source: Bytes) -> None:
        self._source, self._rest = source, b""

    def read(self, size: int, /) -> bytes:
        found, self._rest = self._rest[:size], self._rest[size:]
        return found or self._source.read(size)

    def put_back(self, content: bytes) -> None:
        """Let these bytes be read next."""
        self._rest = content + self._rest


class _Limited:
    """So many bytes of others."""

    def __init__(self, source: Bytes, size: int) -> None:
        self._source, self._left = source, size

    def read(self, size: int, /) -> bytes:
        found = self._source.read(min(size, self._left))
        self._left -= len(found)
        return found

    def skip(self) -> None:
        """Read the rest."""
        while self.read(1 << 16):
            pass
        if self._left:
            raise EOFError


class _Packed:
    """The bytes of a file in a zip file, unpacked; what follows it is put back."""

    def __init__(self, source: _Kept, unpacker: Any) -> None:
        self._source, self._unpacker, self._rest = source, unpacker, b""

    def read(self, size: int, /) -> bytes:
        while not self._rest and not self._unpacker.eof:
            if not (more := self._source.read(_PIECE)):
                raise EOFError
            self._rest = self._unpacker.decompress(more)
            if self._unpacker.eof:
                self._source.put_back(self._unpacker.unused_data)
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def skip(self) -> None:
        """Read the rest."""
        while self.read(1 << 16):
            pass


def _read_exactly(source: Bytes, size: int) -> bytes:
    """So many bytes; fewer only at the end."""
    found = b""
    while len(found) < size and (more := source.read(size - len(found))):
        found += more
    return found


def _strip_wal_headers(stream: _Stream) -> Bytes:
    """The same bytes; those of a write-ahead log without the headers of its pages, which cut records in two."""
    if len(stream.head) < _WAL.size:
        return stream
    magic, flags, *_, page = _WAL.unpack_from(stream.head)
    is_wal = magic in _WAL_MAGIC and flags & _WAL_LONG and page in _WAL_SIZES
    return _WalRecords(stream, magic, page) if is_wal else stream


class _WalRecords:
    """A write-ahead log without the headers of its pages; a page without such a header is left as it is."""

    def __init__(self, stream: Bytes, magic: int, page: int) -> None:
        self._stream, self._magic, self._page = stream, magic, page

    def read(self, size: int, /) -> bytes:
        found = []
        for _ in range(max(size // self._page, 1)):
            page = _read_exactly(self._stream, self._page)
            magic, flags = struct.unpack_from("<HH", page.ljust(4, b"\0"))
            start = 0 if magic != self._magic else _WAL.size if flags & _WAL_LONG else _WAL_HEADER
            found.append(page[start:])
        return b"".join(found)
