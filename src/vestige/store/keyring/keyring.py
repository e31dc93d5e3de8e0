"""A keyring: the keys that the rows of a store are sealed with, and the only thing that has to be overwritten to erase.

A key seals one writing of one row, and is destroyed when the row is written again. A slot holds the key of one row:
the live one and, while a transaction is under way, the one that is being written. So a crash at any moment leaves a row
that one of the two opens.
Guarantee: after `settle` only the keys that it names are left; held by tests/store/test_keyring.py.
"""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

KEY = 32
"""Bytes of a key: AES-256."""
KEYRING_ID = 16
"""Bytes that tell one keyring from another."""
MARKER = 1
"""The slot whose key each transaction of a store replaces, by one with the highest version of all."""
PAGE = 4096
"""Bytes of a page."""
SLOTS = 31
"""Number of slots in a page; the label of the page takes the room of one."""
_LABEL = struct.Struct("<8sQI")
_LABEL_MAGIC = b"VSTGPAGE"
_HALF = struct.Struct("<Q32sI")
_SLOT, _HALF_SLOT = 128, 64


class Key(NamedTuple):
    """The key of one writing of a row.

    Attributes:
        version: number of the writing, different for all writings in a store.
        secret: the key itself.
    """

    version: int
    secret: bytes


class Page:
    """A page of slots: bytes of fixed places, so that overwriting a slot leaves nothing of what was there.

    Both keys of a slot lie in one sector of 512 bytes, which disks write whole or not at all.

    Args:
        number: number of the page; it holds the slots from 31 times this on.
        content: its bytes; default: a page without keys.

    Example:
        >>> page = Page(2)
        >>> page.add(70, Key(5, bytes(range(32))))
        >>> page.read(70)[0].version, page.read(71)
        (5, ())
    """

    def __init__(self, number: int, content: bytes | None = None) -> None:
        self.number = number
        self.content = bytearray(PAGE if content is None else content)
        if content is None:
            _LABEL.pack_into(self.content, 0, _LABEL_MAGIC, number, zlib.crc32(number.to_bytes(8, "little")))

    @classmethod
    def parse(cls, content: bytes) -> Page:
        """Read a page by its label.

        Args:
            content: its bytes.

        Returns:
            The page.

        Raises:
            ValueError: the label is damaged.
        """
        magic, number, checksum = _LABEL.unpack_from(content)
        if magic != _LABEL_MAGIC or checksum != zlib.crc32(number.to_bytes(8, "little")) or len(content) != PAGE:
            raise ValueError("the label of a page is damaged")
        return cls(number, content)

    def read(self, slot: int) -> tuple[Key, ...]:
        """Read the keys of a slot.

        Args:
            slot: the number of the slot, which lies in this page.

        Returns:
            Its keys, the oldest first; one that is damaged is left out.
        """
        found = []
        for half in (0, 1):
            version, secret, checksum = _HALF.unpack_from(self.content, self._find(slot, half))
            if version and checksum == _compute_checksum(slot, version, secret):
                found.append(Key(version, secret))
        return tuple(sorted(found))

    def add(self, slot: int, key: Key) -> None:
        """Put a key beside the one that is there.

        Args:
            slot: the number of the slot.
            key: the key.

        Raises:
            ValueError: there are two.
        """
        for half in (0, 1):
            at = self._find(slot, half)
            if not any(self.content[at : at + _HALF_SLOT]):
                _HALF.pack_into(self.content, at, *key, _compute_checksum(slot, *key))
                return
        raise ValueError("the slot holds two keys")

    def keep(self, slot: int, version: int) -> None:
        """Overwrite all keys of a slot but one.

        Args:
            slot: the number of the slot.
            version: the version of the key that stays; 0 for none.
        """
        for half in (0, 1):
            at = self._find(slot, half)
            if not version or int.from_bytes(self.content[at : at + 8], "little") != version:
                self.content[at : at + _HALF_SLOT] = bytes(_HALF_SLOT)

    def find_newest(self) -> int:
        """Find the newest version in the page.

        Returns:
            The version; 0 if the page holds no key.
        """
        return max((key.version for slot in self.iterate_slots() for key in self.read(slot)), default=0)

    def iterate_slots(self) -> Iterator[int]:
        """Iterate over the slots that hold anything.

        Yields:
            Their numbers.
        """
        for place in range(1, SLOTS + 1):
            if any(self.content[place * _SLOT : (place + 1) * _SLOT]):
                yield self.number * SLOTS + place - 1

    def find_damage(self) -> Iterator[int]:
        """Find the slots with a key whose checksum does not fit, or with bytes where none belong.

        Yields:
            Their numbers.
        """
        for slot in self.iterate_slots():
            at = [self._find(slot, half) for half in (0, 1)]
            used = sum(any(self.content[start : start + _HALF_SLOT]) for start in at)
            if len(self.read(slot)) != used or any(any(self.content[i + _HALF.size : i + _HALF_SLOT]) for i in at):
                yield slot

    def _find(self, slot: int, half: int) -> int:
        """Where a half of a slot lies."""
        return (slot - self.number * SLOTS + 1) * _SLOT + half * _HALF_SLOT


def _compute_checksum(slot: int, version: int, secret: bytes) -> int:
    return zlib.crc32(struct.pack("<QQ", slot, version) + secret)


def find_page(slot: int) -> int:
    """Find the page of a slot.

    Args:
        slot: the number of the slot.

    Returns:
        The number of the page.

    Example:
        >>> find_page(30), find_page(31)
        (0, 1)
    """
    return slot // SLOTS


class KeyTable:
    """The keys of a keyring, as they were read; pages are looked at when they are needed.

    Args:
        pages: the pages.
        is_used: whether keys were ever settled in the keyring.

    Attributes:
        is_used: whether keys were ever settled in the keyring.

    Example:
        >>> keys = KeyTable()
        >>> keys.add({MARKER: Key(1, bytes(32))})
        >>> keys.newest, keys.is_open
        (1, False)
    """

    def __init__(self, pages: Iterable[Page] = (), *, is_used: bool = True) -> None:
        self._pages = {page.number: page for page in pages}
        self.is_used = is_used

    @property
    def newest(self) -> int:
        """Version of the newest key of the marker; 0 if it has none."""
        return max((key.version for key in self.find(MARKER)), default=0)

    @property
    def is_open(self) -> bool:
        """Whether the keys of a transaction were prepared and not settled."""
        return len(self.find(MARKER)) > 1

    def find(self, slot: int) -> tuple[Key, ...]:
        """Find the keys of a slot.

        Args:
            slot: the number of the slot.

        Returns:
            Its keys, the oldest first.
        """
        page = self._pages.get(find_page(slot))
        return () if page is None else page.read(slot)

    def iterate_slots(self) -> Iterator[int]:
        """Iterate over the slots that hold a key.

        Yields:
            Their numbers.
        """
        for page in self._pages.values():
            yield from page.iterate_slots()

    def update(self, other: KeyTable) -> None:
        """Take over pages that were read later.

        Args:
            other: the later pages.
        """
        self._pages |= other._pages
        self.is_used = other.is_used

    def add(self, keys: Mapping[int, Key]) -> None:
        """Note that keys were prepared.

        Args:
            keys: the keys by slot.
        """
        for slot, key in keys.items():
            number = find_page(slot)
            self._pages.setdefault(number, Page(number)).add(slot, key)

    def keep(self, versions: Mapping[int, int]) -> None:
        """Note that keys were settled.

        Args:
            versions: for each slot the version of the key that stays; 0 for none.
        """
        for slot, version in versions.items():
            if (page := self._pages.get(find_page(slot))) is not None:
                page.keep(slot, version)


class Keyring(ABC):
    """Keys that can be destroyed; `vestige.store.open_keyring` opens one by its address.

    Whoever prepares and settles holds the lock of the store whose rows the keys seal.

    Attributes:
        address_form: how addresses of this kind of keyring look, for error messages.
        where: where it is, for error messages.
        id: sixteen random bytes that tell it from others.
    """

    address_form: ClassVar[str]
    where: str
    id: bytes

    @abstractmethod
    def read(self, after: int = 0) -> KeyTable:
        """Read keys.

        Args:
            after: only the page of the marker, and pages with a key that is newer than this version; default: all.

        Returns:
            The keys. Of slots that were only emptied meanwhile, `after` leaves out the page.

        Raises:
            StoreError: the keyring cannot be read.
        """

    @abstractmethod
    def prepare(self, keys: Mapping[int, Key]) -> None:
        """Put keys beside those that are live; durable once this returns.

        Args:
            keys: the keys by slot, newer than those that are there.

        Raises:
            StoreError: the keyring cannot be written; or a slot already has two keys.
        """

    @abstractmethod
    def settle(self, versions: Mapping[int, int]) -> None:
        """Destroy all keys of slots but one; durable once this returns.

        Args:
            versions: for each slot the version of the key that stays; 0 for none.

        Raises:
            StoreError: the keyring cannot be written.
        """

    @abstractmethod
    def verify(self) -> tuple[str, ...]:
        """Check the keyring.

        Returns:
            What is wrong, one sentence each.

        Raises:
            StoreError: the keyring cannot be read.
        """

    @abstractmethod
    def destroy(self) -> int:
        """Destroy all keys; what they sealed can never be opened again.

        Returns:
            The number of keys that were destroyed.

        Raises:
            StoreError: the keyring cannot be written.
        """
