"""A keyring: the keys that the rows of a store are sealed with, and the only thing that has to be overwritten to erase.

A key seals one writing of one row, and is destroyed when the row is written again. A slot holds the key of one row:
the live one and, while a transaction is under way, the one that is being written. So a crash at any moment leaves a row
that one of the two opens.
Guarantee: after `settle` only the keys that it names are left; held by tests/store/test_keyring.py.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige.types import Ints

KEY = 32
"""Bytes of a key: AES-256."""
KEYRING_ID = 16
"""Bytes that tell one keyring from another."""
SHORT_ID = 8
"""Bytes of a keyring's id that stand before each row that it seals."""
MARKER = 1
"""The slot whose key each transaction of a store replaces, by one with the highest version of all."""
PAGE = 4096
"""Bytes of a page."""
SLOTS = 31
"""Number of slots in a page; the label of the page takes the room of one."""
_LABEL = struct.Struct("<8sQI12x")
_LABELS = 4
"""How often the label of a page is there, so that a changed bit does not cost all of its keys."""
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

    Attributes:
        is_mended: whether its label was damaged.

    Example:
        >>> page = Page(2)
        >>> page.add(70, Key(5, bytes(range(32))))
        >>> page.read(70)[0].version, page.read(71)
        (5, ())
    """

    def __init__(self, number: int, content: bytes | None = None) -> None:
        self.number = number
        self.content = bytearray(PAGE if content is None else content)
        label = _pack_label(number) * _LABELS
        self.is_mended = content is not None and not content.startswith(label)
        self.content[:_SLOT] = label

    @classmethod
    def parse(cls, content: bytes) -> Page:
        """Read a page by its label, which is there several times; where it is damaged it is mended.

        Args:
            content: its bytes.

        Returns:
            The page.

        Raises:
            ValueError: the label is damaged wherever it is, or these are not the bytes of a page.
        """
        if len(content) == PAGE:
            for at in range(0, _SLOT, _LABEL.size):
                _, number, _ = _LABEL.unpack_from(content, at)
                if content[at : at + _LABEL.size] == _pack_label(number):
                    return cls(number, content)
        raise ValueError("the label of a page is damaged")

    def read(self, slot: int) -> tuple[Key, ...]:
        """Read the keys of a slot.

        Args:
            slot: the number of the slot, which lies in this page.

        Returns:
            Its keys, the oldest first; one that is damaged is left out.
        """
        halves = self._read_half(slot, 0), self._read_half(slot, 1)
        return tuple(sorted([key for key in halves if key is not None]))

    def _read_half(self, slot: int, half: int) -> Key | None:
        """The key in a half of a slot; None if there is none, or it is damaged."""
        version, secret, checksum = _HALF.unpack_from(self.content, self._find(slot, half))
        if not version or checksum != _compute_checksum(slot, version, secret):
            return None
        return Key(version, secret)

    def add(self, slot: int, key: Key) -> None:
        """Put a key beside the one that is there; nothing happens if it is there already.

        Args:
            slot: the number of the slot.
            key: the key.

        Raises:
            ValueError: there are two others.
        """
        held = self.read(slot)
        if key in held:
            return
        for half in (0, 1):
            at = self._find(slot, half)
            if self._read_half(slot, half) is None:  # empty, or damaged and of no use any more
                self.content[at : at + _HALF_SLOT] = _HALF.pack(*key, _compute_checksum(slot, *key)).ljust(
                    _HALF_SLOT, b"\0"
                )
                return
        raise ValueError("the slot holds two keys")

    def keep(self, slot: int, version: int, before: int | None = None) -> None:
        """Overwrite all keys of a slot but one.

        Args:
            slot: the number of the slot.
            version: the version of the key that stays; 0 for none.
            before: a version from which on keys stay as well; default: none do.
        """
        for half in (0, 1):
            at = self._find(slot, half)
            found = int.from_bytes(self.content[at : at + 8], "little")
            if (not version or found != version) and (before is None or found < before):
                self.content[at : at + _HALF_SLOT] = bytes(_HALF_SLOT)

    def find_newest(self) -> int:
        """Find the newest version in the page, whether its key is damaged or not.

        Returns:
            The version; 0 if the page holds no key.
        """
        return int(self.list_versions().max())

    def list_versions(self) -> NDArray[np.uint64]:
        """List the versions of the keys in the page, whether they are damaged or not.

        Returns:
            Those of the two keys of each slot; 0 where there is none; shape (31, 2).
        """
        return self._view()[:, :, 0]

    def list_slots(self) -> Ints:
        """List the slots that hold anything.

        Returns:
            Their numbers, ascending.
        """
        return self.number * SLOTS + np.flatnonzero(self._view().any(axis=(1, 2)))

    def find_damage(self) -> list[int]:
        """Find the slots with a key whose checksum does not fit, or with bytes where none belong.

        Returns:
            Their numbers, ascending.
        """
        damaged = []
        for slot in self.list_slots().tolist():
            for half in (0, 1):
                at, key = self._find(slot, half), self._read_half(slot, half)
                rest = self.content[at + _HALF.size if key else at : at + _HALF_SLOT]
                if any(rest) and slot not in damaged:
                    damaged.append(slot)
        return damaged

    def _view(self) -> NDArray[np.uint64]:
        """The halves of the slots as words of eight bytes, the first of which is the version; shape (31, 2, 8)."""
        return np.frombuffer(self.content, "<u8")[_SLOT // 8 :].reshape(SLOTS, 2, -1)

    def _find(self, slot: int, half: int) -> int:
        """Where a half of a slot lies."""
        return (slot - self.number * SLOTS + 1) * _SLOT + half * _HALF_SLOT


def _pack_label(number: int) -> bytes:
    return _LABEL.pack(_LABEL_MAGIC, number, zlib.crc32(number.to_bytes(8, "little")))


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


def compute_mark(marker: Iterable[Key]) -> bytes:
    """Compute the mark of a keyring: it tells each transaction from all others, since each draws new keys.

    Args:
        marker: the keys in the slot of the marker, the oldest first.

    Returns:
        A digest of 32 bytes.

    Example:
        >>> compute_mark([Key(1, bytes(32))]) == compute_mark([Key(1, bytes(31) + b"1")])
        False
    """
    return hashlib.sha256(b"".join(_HALF.pack(*key, 0) for key in marker)).digest()


def name_keyring(keyring: bytes) -> str:
    """Name a keyring in messages.

    Args:
        keyring: its id, or the part of it that stands before each row that it seals.

    Returns:
        16 digits.

    Example:
        >>> name_keyring(bytes(range(16)))
        '0001020304050607'
    """
    return keyring[:SHORT_ID].hex()


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

    def has_slot(self, slot: int) -> bool:
        """Tell whether a slot holds anything, be it damaged.

        Args:
            slot: the number of the slot.

        Returns:
            False if the slot is empty.
        """
        page = self._pages.get(find_page(slot))
        return page is not None and slot in page.list_slots()

    def list_slots(self, first: int = 0, end: int | None = None) -> Ints:
        """List the slots that hold anything.

        Args:
            first: the first slot to look at.
            end: the slot before which to end; default: all are looked at.

        Returns:
            Their numbers.
        """
        pages = [page for page in self._pages.values() if page.number >= find_page(first)]
        slots = np.concatenate([np.empty(0, np.int64), *(page.list_slots() for page in pages)])
        return slots[(slots >= first) & (slots < (np.iinfo(np.int64).max if end is None else end))]

    def find_unsettled(self, version: int) -> Ints:
        """Find the slots that a transaction has left unsettled.

        Args:
            version: the newest version that was committed.

        Returns:
            The numbers of slots that hold two keys, or a newer one.
        """
        found = [np.empty(0, np.int64)]
        for page in self._pages.values():
            versions = page.list_versions()
            is_wrong = np.logical_or(versions.all(axis=1), (versions > np.uint64(version)).any(axis=1))
            found.append(page.number * SLOTS + np.flatnonzero(is_wrong))
        return np.concatenate(found)

    def list_pages(self) -> tuple[Page, ...]:
        """List the pages.

        Returns:
            The pages, in the order in which they were read.
        """
        return tuple(self._pages.values())

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

    @property
    def name(self) -> str:
        """The first 16 digits of its id, by which messages name it, and which stand before each row that it seals."""
        return name_keyring(self.id)

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
    def settle(self, versions: Mapping[int, int], *, before: int | None = None) -> None:
        """Destroy all keys of slots but one; durable once this returns.

        Args:
            versions: for each slot the version of the key that stays; 0 for none.
            before: a version from which on keys stay as well, so that a call that comes late destroys none that was
                prepared since; default: none do.

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
