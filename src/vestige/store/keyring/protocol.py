"""The protocol of a keyring server: a few paths under a version, and bodies of fixed structs.

Each change names the keyring that it is meant for, and the mark of the last transaction that its sender knows of: one
that arrives late, after another process has written, could destroy a key that is live, and is refused.
Guarantee: what is packed is unpacked, and any other bytes are refused without being repeated; held by
tests/store/test_keyring_protocol.py.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from vestige.store.keyring.keyring import KEY, KEYRING_ID, PAGE, Key, KeyTable, Page

VERSION = 1
"""Version of the protocol, and the first part of each path."""
HEADER = "vestige-keyring"
"""The header that each answer of a keyring server has; it says the version of the protocol."""
BODY_LIMIT = 64 << 20
"""Bytes of the longest body that a server takes."""
PATHS = HEALTH, IDENTITY, PAGES, PROBLEMS, PREPARE, SETTLE = tuple(
    f"/v{VERSION}/{name}" for name in ("health", "identity", "pages", "problems", "prepare", "settle")
)
LARGEST = (1 << 63) - 1
"""The largest slot and the largest version."""
_MARK = 32
_HEAD = struct.Struct(f"<{KEYRING_ID}s?")
_KEY = struct.Struct(f"<QQ{KEY}s")
_VERSION = struct.Struct("<QQ")


def pack_head(keyring: bytes, table: KeyTable) -> bytes:
    """Pack what comes before the pages.

    Args:
        keyring: the id of the keyring.
        table: the table that has the pages.

    Returns:
        The first bytes of an answer.

    Example:
        >>> len(pack_head(bytes(16), KeyTable()))
        17
    """
    return _HEAD.pack(keyring, table.is_used)


def unpack_pages(content: bytes) -> tuple[bytes, KeyTable]:
    """Unpack pages.

    Args:
        content: the body of an answer.

    Returns:
        The id of the keyring, and the pages.

    Raises:
        ValueError: it is not such a body.

    Example:
        >>> unpack_pages(pack_head(bytes(16), KeyTable()) + Page(3).content)[1].list_pages()[0].number
        3
    """
    if len(content) < _HEAD.size or (len(content) - _HEAD.size) % PAGE:
        raise ValueError(f"a body of {len(content)} bytes does not hold a head and whole pages")
    keyring, is_used = _HEAD.unpack_from(content)
    pages = [Page.parse(content[at : at + PAGE]) for at in range(_HEAD.size, len(content), PAGE)]
    return keyring, KeyTable(pages, is_used=is_used)


def pack_keys(keyring: bytes, mark: bytes, keys: Mapping[int, Key]) -> bytes:
    """Pack keys that are to be prepared.

    Args:
        keyring: the id of the keyring.
        mark: the mark of the keyring, as the sender knows it.
        keys: the keys by slot.

    Returns:
        The body of a request.

    Example:
        >>> body = pack_keys(bytes(16), bytes(32), {0: Key(5, bytes(32))})
        >>> len(body), unpack_keys(body)[2][0].version
        (96, 5)
    """
    return keyring + mark + b"".join(_KEY.pack(slot, *key) for slot, key in keys.items())


def unpack_keys(content: bytes) -> tuple[bytes, bytes, dict[int, Key]]:
    """Unpack keys that are to be prepared.

    Args:
        content: the body of a request.

    Returns:
        The id of the keyring, its mark as the sender knows it, and the keys by slot.

    Raises:
        ValueError: it is not such a body.
    """
    keyring, mark, entries = _unpack(content, _KEY)
    keys = {slot: Key(version, secret) for slot, version, secret in entries}
    if not all(key.version for key in keys.values()):
        raise ValueError("a version is 0")
    return keyring, mark, keys


def pack_versions(keyring: bytes, mark: bytes, versions: Mapping[int, int]) -> bytes:
    """Pack the versions of keys that are to stay.

    Args:
        keyring: the id of the keyring.
        mark: the mark of the keyring, as the sender knows it.
        versions: for each slot the version of the key that stays; 0 for none.

    Returns:
        The body of a request.

    Example:
        >>> unpack_versions(pack_versions(bytes(16), bytes(32), {7: 3}))[2]
        {7: 3}
    """
    return keyring + mark + b"".join(_VERSION.pack(*each) for each in versions.items())


def unpack_versions(content: bytes) -> tuple[bytes, bytes, dict[int, int]]:
    """Unpack the versions of keys that are to stay.

    Args:
        content: the body of a request.

    Returns:
        The id of the keyring, its mark as the sender knows it, and the versions by slot.

    Raises:
        ValueError: it is not such a body.
    """
    keyring, mark, entries = _unpack(content, _VERSION)
    return keyring, mark, dict[int, int](entries)


def _unpack(content: bytes, entry: struct.Struct) -> tuple[bytes, bytes, list[tuple[Any, ...]]]:
    """The keyring, the mark and the entries of a body, which begin with a slot and a version."""
    start = KEYRING_ID + _MARK
    if len(content) < start or (len(content) - start) % entry.size:
        raise ValueError(f"a body of {len(content)} bytes does not hold whole entries of {entry.size} bytes")
    entries = list(entry.iter_unpack(content[start:]))
    if len({slot for slot, *_ in entries}) < len(entries):
        raise ValueError("a slot is named twice")
    if any(max(slot, version) > LARGEST for slot, version, *_ in entries):
        raise ValueError(f"a slot or a version is larger than {LARGEST}")
    return content[:KEYRING_ID], content[KEYRING_ID:start], entries
