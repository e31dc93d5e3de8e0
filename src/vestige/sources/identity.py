"""Identity of a file: how it is recognised when it is read again.

A file is recognised by its place in the file system, its header, and the records of it that are still held
(`vestige.sources.comparison`). No digest of any record is stored, since a digest would confirm guesses about records
that were erased.
Guarantee: a file that was rotated, truncated or rewritten is noticed, unless it was rewritten in place with the same
header, is not shorter, and is the same in each row that is still held; held by tests/ingest/test_replaced_files.py.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from codecs import BOM_UTF8, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from vestige.errors import SourceError
from vestige.sources.chunks import GZIP, PARQUET
from vestige.sources.dialect import Dialect
from vestige.sources.positions import decode_position
from vestige.sources.protocol import SourcePositions

_LAYOUT = struct.Struct("<QQQI16s12sQ")
_PROBE = "vestige: which key is this"
_WORD = 2**64 - 1
_HEAD = 1 << 16
_WIDE_START = BOM_UTF16_LE + b"\0 \t\r\n"  # what may come first in UTF-16 and UTF-32
_SIZE_BITS = 48  # of the 64 bits of a size; the others hold the mark of a file that was read to its end
_MAX_SIZE = (1 << _SIZE_BITS) - 1
_ROW_BITS = 48  # of the 64 bits of a row; the others hold the dialect


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What a file looks like from outside.

    Attributes:
        device: number of the file system.
        inode: number of the file in it.
        size: number of bytes when the identity was read.
        generation: number of times that the user said that another file took its place.
        header: digest of the names of its columns; never of a record.
        key: digest of the key that subjects are hashed with; zeros if there are no subjects.
        other_key: last row whose subject was hashed with a key that has been lost since.
        whole: 1 if all rows of the file were taken; 0 if it may have more. It was the number of streams before.
        dialect: the dialect that it was read in; None if that is not known.
    """

    device: int
    inode: int
    size: int
    generation: int
    header: bytes
    key: bytes = bytes(12)
    other_key: int = 0
    whole: int = 0
    dialect: Dialect | None = None

    @classmethod
    def read(cls, path: str, generation: int = 0) -> FileIdentity:
        """Read the identity of a file as it is now.

        Args:
            path: path of the file.
            generation: see `FileIdentity`.

        Returns:
            The identity.

        Raises:
            SourceError: the path is not a file, or the file cannot be read.
            OSError: nothing exists at the path.
        """
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(f"{path}: is not a file any more")
        header = blake2b(_read_header(path), digest_size=16).digest()
        return cls(status.st_dev & _WORD, status.st_ino & _WORD, status.st_size, generation, header)

    @classmethod
    def decode(cls, body: bytes) -> FileIdentity | None:
        """Decode an identity.

        Args:
            body: what `encode` returned.

        Returns:
            The identity; None if these bytes are not one.

        Example:
            >>> FileIdentity.decode(b"") is None
            True
        """
        if len(body) != _LAYOUT.size:
            return None
        device, inode, size, generation, header, key, row = _LAYOUT.unpack(body)
        other_key, dialect = row & (1 << _ROW_BITS) - 1, Dialect.decode(row >> _ROW_BITS)
        return cls(device, inode, size & _MAX_SIZE, generation, header, key, other_key, size >> _SIZE_BITS, dialect)

    def encode(self) -> bytes:
        """Encode the identity.

        Returns:
            64 bytes.

        Example:
            >>> identity = FileIdentity(1, 2, 500, 0, bytes(16))
            >>> FileIdentity.decode(identity.encode()) == identity
            True
        """
        size = min(self.size, _MAX_SIZE) | self.whole << _SIZE_BITS
        row = self.other_key | (0 if self.dialect is None else self.dialect.encode()) << _ROW_BITS
        return _LAYOUT.pack(self.device, self.inode, size, self.generation, self.header, self.key, row)

    def mark_whole(self) -> FileIdentity:
        """Note that all rows of the file were taken.

        Returns:
            The identity with the mark.

        Example:
            >>> identity = FileIdentity(1, 2, 500, 0, bytes(16)).mark_whole()
            >>> identity.is_whole(FileIdentity(1, 2, 500, 0, bytes(16)))
            True
        """
        return replace(self, whole=1)

    def is_whole(self, now: FileIdentity) -> bool:
        """Tell whether a file has no rows beyond those that were taken.

        Args:
            now: identity of the file that exists now.

        Returns:
            Whether there is nothing more to take.
        """
        return self.whole == 1 and replace(self, whole=0, dialect=None) == replace(now, dialect=None)

    def explain_change(self, now: FileIdentity) -> str:
        """Say why another identity is not that of the same file.

        Args:
            now: identity of the file that exists now.

        Returns:
            The end of a sentence about the file; empty if it may be the same file.

        Example:
            >>> FileIdentity(1, 2, 500, 0, bytes(16)).explain_change(FileIdentity(1, 2, 400, 0, bytes(16)))
            'has 400 bytes, but had 500 when it was read before'
        """
        if (self.device, self.inode) != (now.device, now.inode):
            return "is not the file that was read under this name before"
        if now.size < self.size:
            return f"has {now.size:,} bytes, but had {self.size:,} when it was read before"
        if now.header != self.header:
            return "has another header than when it was read before"
        return ""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """How far the streams of a run have read a file.

    Attributes:
        identity: newest identity of the file; None if it was not read before.
        value: number of rows that all streams have read but those of `own`.
        newcomers: number of rows that were read for keys without a stream.
        own: number of rows that other streams have read, by key or name.
        outdated: keys or names of the streams that have read an earlier file under its name, and nothing of this one.
    """

    identity: FileIdentity | None = None
    value: int = 0
    newcomers: int = 0
    own: Mapping[str, int] = field(default_factory=dict)
    outdated: tuple[str, ...] = ()

    @classmethod
    def collect(cls, positions: SourcePositions) -> FileProgress:
        """Collect the progress of streams.

        Args:
            positions: their positions in the file.

        Returns:
            The progress of all streams.

        Example:
            >>> FileProgress.collect(SourcePositions(own={"a": (7).to_bytes(8, "little")})).furthest
            7
        """
        decoded = {name: decode_position(position) for name, position in positions.own.items()}
        identities = {name: FileIdentity.decode(identity) for name, (_, identity) in decoded.items()}
        value, shared = decode_position(positions.value)
        known = [each for each in (FileIdentity.decode(shared), *identities.values()) if each is not None]
        newest = max(known, key=_find_age, default=None)
        now = _find_generation(newest)
        return cls(
            newest,
            value,
            decode_position(positions.newcomers)[0],
            {name: rows for name, (rows, _) in decoded.items() if _find_generation(identities[name]) == now},
            tuple(name for name, identity in identities.items() if _find_generation(identity) != now),
        )

    @property
    def furthest(self) -> int:
        """Number of rows that the stream that has read most has read."""
        return max((self.value, *self.own.values()))

    @property
    def least(self) -> int:
        """Number of rows that have been read for each stream and each key without one."""
        return 0 if self.outdated else min((self.newcomers, *self.own.values()))

    def is_whole(self, now: FileIdentity) -> bool:
        """Tell whether the file has no rows beyond those that were taken.

        Args:
            now: identity of the file that exists now.

        Returns:
            Whether there is nothing more to take.
        """
        return self.identity is not None and self.least == self.furthest and self.identity.is_whole(now)


def _find_generation(identity: FileIdentity | None) -> int:
    return 0 if identity is None else identity.generation


def _find_age(identity: FileIdentity) -> tuple[int, int, int]:
    return identity.generation, identity.size, identity.whole


def digest_key(pseudonym: Callable[[str], str]) -> bytes:
    """Digest the key that subjects are hashed with.

    Args:
        pseudonym: function from a subject to its pseudonym in the store.

    Returns:
        12 bytes by which the key is recognised.

    Example:
        >>> digest_key(str.upper) == digest_key(str.lower)
        False
    """
    return blake2b(pseudonym(_PROBE).encode(), digest_size=12).digest()


def find_name(path: str, known: Iterable[str]) -> str:
    """Find the name under which a store knows a file.

    Args:
        path: path in any form, also through links.
        known: names of the sources that were read before.

    Returns:
        A known path of the same file, or the real path.

    Raises:
        OSError: nothing exists at the path.

    Example:
        >>> import os
        >>> find_name(os.curdir, []) == os.getcwd()
        True
    """
    real = os.path.realpath(path)
    known = set(known)
    if real not in known:
        here = os.stat(real)
        for other in sorted(known):
            try:
                if os.path.samestat(os.stat(other), here):
                    return other
            except (OSError, ValueError):
                continue
    return real


def _read_header(path: str) -> bytes:
    """Read the line with the column names, or the names in a Parquet file; nothing if each row has its own names."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(_HEAD)
            if head.startswith(GZIP):
                head = zlib.decompressobj(31).decompress(head, _HEAD)
            if head.startswith(PARQUET):
                from vestige.sources.parquet import read_names  # noqa: PLC0415  # Arrow takes long to import

                return "\n".join(read_names(file)).encode()
    except (SourceError, zlib.error, OSError):
        raise SourceError(f"{path}: cannot be read; it is truncated or damaged, or permission is denied") from None
    head = head.removeprefix(BOM_UTF8).lstrip()
    return b"" if head.lstrip(_WIDE_START).startswith(b"{") else head.splitlines()[0] if head else b""
