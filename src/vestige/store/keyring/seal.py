"""The seal of a row: authenticated encryption under a key that is used for one writing of one row.

A part of a row becomes a prefix in clear, which says what it is, and AES-256-GCM of its bytes with the prefix as
associated data. The key is fresh for each writing, so that the number of the part is nonce enough; where several may
write at once, as attempts of one task do, the nonce has the number of the writer besides.
Guarantee: bits that were changed, a row in the place of another, and a row of an earlier writing are noticed, and each
is named for what it is; held by tests/store/test_sealed_rows.py.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from vestige.errors import MissingExtraError
from vestige.store.keyring.keyring import SHORT_ID, Key
from vestige.store.layout import DamagedError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAGIC = b"VSL\x01"
"""How a sealed part begins."""
_PREFIX = struct.Struct(f"<4s{SHORT_ID}sQQII")
PREFIX = _PREFIX.size
"""Bytes of a prefix."""
TAG = 16
"""Bytes by which a part gets longer, besides its prefix."""
_NONCE = 12
_PART_BITS = 8
WRITERS = 1 << 24
"""How many writers of one version are told apart."""


class SealError(DamagedError):
    """A sealed row cannot be opened; the text says why and what to do."""


class Prefix(NamedTuple):
    """What stands in clear before a sealed part.

    Attributes:
        keyring: the first bytes of the id of its keyring.
        slot: the slot of its key, which says which row it is.
        version: the version of its key.
        part: which part of the row it is.
        length: number of bytes after the prefix.
        writer: number that tells those who write the same version from each other; 0 where only one does.
    """

    keyring: bytes
    slot: int
    version: int
    part: int
    length: int
    writer: int = 0

    def pack(self) -> bytes:
        """Pack it into bytes.

        Returns:
            The bytes.
        """
        part = self.part | self.writer << _PART_BITS
        return _PREFIX.pack(MAGIC, self.keyring, self.slot, self.version, part, self.length)

    @classmethod
    def read(cls, sealed: object) -> Prefix | None:
        """Read the prefix of a sealed part.

        Args:
            sealed: the bytes, and what may come after them.

        Returns:
            The prefix; None if there is none, or the bytes are cut off.
        """
        if not isinstance(sealed, bytes) or (found := cls.parse(sealed)) is None:
            return None
        return found if PREFIX + found.length <= len(sealed) else None

    @classmethod
    def parse(cls, start: bytes) -> Prefix | None:
        """Read a prefix, of whatever comes after it.

        Args:
            start: the bytes from its first one on.

        Returns:
            The prefix; None if there is none.
        """
        if len(start) < PREFIX or not start.startswith(MAGIC):
            return None
        _, keyring, slot, version, part, length = _PREFIX.unpack_from(start)
        return cls(keyring, slot, version, part % (1 << _PART_BITS), length, part >> _PART_BITS)


def find_end(sealed: bytes) -> int:
    """Find where a sealed part ends; what comes after it is padding.

    Args:
        sealed: the part, which has a prefix, and what may come after it.

    Returns:
        Its number of bytes.

    Example:
        >>> find_end(seal_parts([b"visits"], bytes(16), 7, Key(1, bytes(32)))[0] + bytes(10))
        58
    """
    return PREFIX + int(_PREFIX.unpack_from(sealed)[-1])


def seal_parts(parts: Sequence[bytes], keyring: bytes, slot: int, key: Key, writer: int = 0) -> tuple[bytes, ...]:
    """Seal the parts of a row.

    Args:
        parts: the parts.
        keyring: the id of the keyring.
        slot: the slot of the key.
        key: a key that this writer never used before.
        writer: see `Prefix`.

    Returns:
        The sealed parts.

    Example:
        >>> key = Key(1, bytes(32))
        >>> (sealed,) = seal_parts([b"visits"], bytes(16), 7, key)
        >>> len(sealed), open_part(sealed, Prefix.read(sealed), key)
        (58, b'visits')
    """
    cipher, sealed = load_cipher()(key.secret), []
    for part, plain in enumerate(parts):
        prefix = Prefix(keyring[:SHORT_ID], slot, key.version, part, len(plain) + TAG, writer)
        sealed.append(prefix.pack() + cipher.encrypt(_make_nonce(prefix), plain, prefix.pack()))
    return tuple(sealed)


def open_part(sealed: bytes, prefix: Prefix, key: Key) -> bytes:
    """Open a sealed part.

    Args:
        sealed: the part, and what may come after it.
        prefix: its prefix.
        key: the key of its version.

    Returns:
        What was sealed.

    Raises:
        SealError: it is not what was sealed with this key.
    """
    cipher, end = load_cipher()(key.secret), PREFIX + prefix.length
    try:
        return cipher.decrypt(_make_nonce(prefix), sealed[PREFIX:end], sealed[:PREFIX])
    except _load_refusal():
        raise SealError("its seal does not fit: bits were changed outside Vestige, or rows were swapped") from None


def _load_refusal() -> type[Exception]:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # an extra

    return InvalidTag


def decrypt_start(start: bytes, prefix: Prefix, key: Key) -> bytes:
    """Decrypt the first bytes of a part of which the others, and so its tag, are not at hand.

    GCM encrypts in counter mode, whose counter is 1 for the tag and begins at 2 for the first block (NIST SP 800-38D).

    Args:
        start: the first bytes after the prefix.
        prefix: its prefix.
        key: the key of its version.

    Returns:
        As many bytes; noise if they are not what was sealed with this key.

    Example:
        >>> key = Key(1, bytes(32))
        >>> (sealed,) = seal_parts([b"visits of a shop"], bytes(16), 7, key)
        >>> decrypt_start(sealed[PREFIX : PREFIX + 6], Prefix.read(sealed), key)
        b'visits'
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415  # an extra

    counter = _make_nonce(prefix) + (2).to_bytes(4, "big")
    return Cipher(algorithms.AES(key.secret), modes.CTR(counter)).decryptor().update(start)


def _make_nonce(prefix: Prefix) -> bytes:
    return (prefix.part | prefix.writer << _PART_BITS).to_bytes(_NONCE, "little")


@cache
def load_cipher() -> type[AESGCM]:
    """Load the cipher.

    Returns:
        AES-GCM of the library `cryptography`.

    Raises:
        MissingExtraError: the library is not installed.
    """
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtraError("a keyring", "keyring") from None
    return AESGCM
