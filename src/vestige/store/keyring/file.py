"""A keyring in a file: slots of fixed size that are overwritten in place and flushed.

What belongs together lies in one sector of 512 bytes, which disks write whole or not at all: a slot, and the header.
Guarantee: after `settle` no byte of a destroyed key is in the file, and a kill at any write leaves the keys that were
live; held by tests/store/test_keyring.py. What the device keeps below the file system is out of reach; docs/store.md
says so.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple

from vestige.errors import StoreError
from vestige.store.keyring.keyring import KEYRING_ID, MARKER, PAGE, Key, Keyring, KeyTable, Page, find_page
from vestige.store.paths import resolve_path, write_private

VERSION = 1
"""Version of the format of the file."""
_MAGIC = b"VSTGKEYS"
_HEADER = struct.Struct("<8sI16s?3xI")
_FIRST = 1
"""Where the page of the marker lies: the first one after the header."""


class _Header(NamedTuple):
    """What the file begins with.

    Attributes:
        id: see `Keyring`.
        is_used: see `KeyTable`.
    """

    id: bytes
    is_used: bool = False

    def pack(self) -> bytes:
        plain = _HEADER.pack(_MAGIC, VERSION, *self, 0)
        return plain[:-4] + struct.pack("<I", zlib.crc32(plain[:-4]))


class KeyringFile(Keyring):
    """A keyring in a file that only its owner may read.

    Several processes of one host may share it; those of several hosts use `vestige keyring serve`.

    Args:
        path: the file; links are followed. Put it on another device than the store, and into no backup.
        create: whether to create the file if there is none.

    Raises:
        StoreError: there is no such file and `create` is false, it is not a keyring, or it cannot be read.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> keyring = KeyringFile(folder.name + "/visits.keyring", create=True)
        >>> keyring.prepare({0: Key(1, bytes(range(32)))})
        >>> keyring.settle({0: 1})
        >>> keyring.read().find(0)[0].version
        1
        >>> keyring.destroy()
        1
        >>> folder.cleanup()
    """

    address_form: ClassVar = "the path of a file"

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = resolve_path(path, "keyring")
        self.where = str(self.path)
        self._places: dict[int, int] = {}
        """Where pages lie in the file, by their numbers; a page never moves."""
        if create and not self.path.exists():
            header = _Header(secrets.token_bytes(KEYRING_ID)).pack().ljust(PAGE, b"\0")
            write_private(self.path, header + Page(find_page(MARKER)).content)
        with self._open(os.O_RDONLY) as file:
            self.id = self._read_header(file).id

    def read(self, after: int = 0) -> KeyTable:
        """Read keys; nothing but the page of the marker if none is newer."""
        with self._open(os.O_RDONLY) as file:
            is_used = self._read_header(file).is_used
            first = self._parse(os.pread(file, PAGE, PAGE * _FIRST), _FIRST)
            found = KeyTable([first], is_used=is_used)
            if found.newest > after or not after:
                pages = self._read_pages(file)
                newer = [page for page in pages if not after or page.find_newest() > after]
                found.update(KeyTable(newer, is_used=is_used))
        return found

    def prepare(self, keys: Mapping[int, Key]) -> None:
        """Put keys beside those that are live; durable once this returns."""
        with self._open(os.O_RDWR) as file:
            self._change(file, keys, lambda page, slot: page.add(slot, keys[slot]))
            os.fdatasync(file)

    def settle(self, versions: Mapping[int, int]) -> None:
        """Destroy all keys of slots but one; durable once this returns."""
        with self._open(os.O_RDWR) as file:
            self._change(file, versions, lambda page, slot: page.keep(slot, versions[slot]))
            header = self._read_header(file)
            if not header.is_used and any(versions.values()):
                os.pwrite(file, header._replace(is_used=True).pack(), 0)
            os.fdatasync(file)

    def verify(self) -> tuple[str, ...]:
        """Check the rights of the file, its header, and every slot."""
        found = []
        with self._open(os.O_RDONLY) as file:
            rights = stat.S_IMODE(os.fstat(file).st_mode)
            self._read_header(file)
            damaged = list[str]()
            pages = list(self._read_pages(file, damaged))
        if rights & 0o077:
            found.append(f"{self.path}: others than its owner may use it (its rights are {rights:o}); chmod 600 it")
        if KeyTable(pages).is_open:
            found.append(
                f"{self.path}: keys are being written, or a process was killed while it wrote them; the next command "
                "that changes the store settles them"
            )
        found += damaged
        for page in pages:
            found += [f"{self.path}: slot {slot} is damaged" for slot in page.find_damage()]
        return tuple(found)

    def destroy(self) -> int:
        """Overwrite all keys with zeros."""
        with self._open(os.O_RDWR) as file:
            pages = list(self._read_pages(file))
            count = sum(len(page.read(slot)) for page in pages for slot in page.iterate_slots())
            for page in pages:
                os.pwrite(file, Page(page.number).content, PAGE * self._places[page.number])
            os.fsync(file)
        return count

    def _change(self, file: int, slots: Iterable[int], change: Callable[[Page, int], None]) -> None:
        """Change slots, page by page; pages that are not there yet are added at the end."""
        chosen: dict[int, list[int]] = {}
        for slot in slots:
            chosen.setdefault(find_page(slot), []).append(slot)
        self._find_places(file)
        end = os.fstat(file).st_size // PAGE
        for number, inside in chosen.items():
            place = self._places.get(number)
            page = Page(number) if place is None else self._parse(os.pread(file, PAGE, PAGE * place), place)
            for slot in inside:
                try:
                    change(page, slot)
                except ValueError:
                    raise StoreError(
                        f"{self.path}: keys of an earlier transaction were not settled; open the store again"
                    ) from None
            if place is None:
                place, end = end, end + 1
            os.pwrite(file, page.content, PAGE * place)

    def _find_places(self, file: int) -> None:
        """Find where pages lie that were added since, also by other processes."""
        for place in range(1 + len(self._places), os.fstat(file).st_size // PAGE):
            self._places[self._parse(os.pread(file, PAGE, PAGE * place), place).number] = place

    def _read_pages(self, file: int, damaged: list[str] | None = None) -> Iterator[Page]:
        """The pages of the file; one that is damaged is named in the list, or an error without it."""
        content = os.pread(file, os.fstat(file).st_size, 0)
        for place in range(1, len(content) // PAGE):
            try:
                page = self._parse(content[PAGE * place : PAGE * (place + 1)], place)
            except StoreError as problem:
                if damaged is None:
                    raise
                damaged.append(str(problem))
                continue
            self._places[page.number] = place
            yield page

    def _parse(self, content: bytes, place: int) -> Page:
        try:
            return Page.parse(content)
        except ValueError:
            raise StoreError(
                f"{self.path}: the page at byte {PAGE * place:,} is damaged, so what its keys sealed cannot be opened; "
                "restore a copy of this moment, or remove these streams"
            ) from None

    def _read_header(self, file: int) -> _Header:
        content = os.pread(file, _HEADER.size, 0)
        if not content.startswith(_MAGIC):
            raise StoreError(f"{self.path}: is not a keyring; give another path, or make one: vestige keyring init")
        _, version, *facts, checksum = _HEADER.unpack(content.ljust(_HEADER.size, b"\0"))
        if version != VERSION:
            raise StoreError(
                f"{self.path}: is a keyring of version {version}, and this Vestige reads version {VERSION}; use the "
                "Vestige that wrote it"
            )
        if checksum != zlib.crc32(content[:-4]) or os.fstat(file).st_size % PAGE:
            raise StoreError(f"{self.path}: is damaged (cut off, or bits changed); restore a copy of this moment")
        return _Header(*facts)

    @contextmanager
    def _open(self, mode: int) -> Iterator[int]:
        """The file, for one process at a time if it is written."""
        try:
            file = os.open(self.path, mode | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_SH if mode == os.O_RDONLY else fcntl.LOCK_EX)
                yield file
            finally:
                os.close(file)
        except FileNotFoundError:
            raise StoreError(
                f"{self.path}: there is no such keyring; make one with vestige keyring init, or give another path: "
                "without its keyring a store cannot be opened"
            ) from None
        except OSError as problem:
            raise StoreError(
                f"{self.path}: the keyring cannot be read or written ({problem.strerror}); make room, or run this as "
                "its owner, and try again: nothing was changed"
            ) from None
