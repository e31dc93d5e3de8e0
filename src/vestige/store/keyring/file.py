"""A keyring in a file: slots of fixed size that are overwritten in place and flushed.

What belongs together lies in one sector of 512 bytes, which disks write whole or not at all: a slot, and the header.
Header and labels are there several times, since there may be no other copy of the file.
Guarantee: after `settle` no byte of a destroyed key is in the file; a kill at any write, and a loss of power that keeps
any of the sectors that were not flushed, leaves the keys that were live; held by tests/store/test_keyring.py. What the
device keeps below the file system is out of reach; docs/store.md says so.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import ClassVar, NamedTuple

from vestige.errors import StoreBusyError, StoreError
from vestige.store.keyring.keyring import (
    KEYRING_ID,
    MARKER,
    PAGE,
    Key,
    Keyring,
    KeyTable,
    Page,
    compute_mark,
    find_page,
)
from vestige.store.paths import clear_drafts, find_siblings, is_draft, resolve_path, write_private

VERSION = 1
"""Version of the format of the file."""
MAGIC = b"VSTGKEYS"
"""How the file begins."""
_HEADER = struct.Struct("<8sI16s?3xI")
_SECTOR = 512
"""Bytes from one copy of the header to the next."""
_FIRST = 1
"""Where the page of the marker lies: the first one after the header."""
PATIENCE = 30.0
"""Seconds to wait for others who hold the file, by default."""
_PAUSE = 0.001
"""Seconds between two attempts to hold the file."""
_SETTLING = 2.0
"""Seconds in which keys that are being written are settled."""


class _Header(NamedTuple):
    """What the file begins with.

    Attributes:
        id: see `Keyring`.
        is_used: see `KeyTable`.
    """

    id: bytes
    is_used: bool = False

    def pack(self) -> bytes:
        plain = _HEADER.pack(MAGIC, VERSION, *self, 0)[:-4]
        return (plain + struct.pack("<I", zlib.crc32(plain))).ljust(_SECTOR, b"\0") * (PAGE // _SECTOR)

    @classmethod
    def unpack(cls, content: bytes) -> _Header | None:
        """The header by those of its copies that are sound; None if none is."""
        found = []
        for copy in _list_copies(content):
            header = cls(*_HEADER.unpack(copy)[2:-1])
            found += [header] if header.pack().startswith(copy) else []
        return cls(found[0].id, any(header.is_used for header in found)) if found else None


class _Start(NamedTuple):
    """The header and the page of the marker, as a call finds them; they lie beside each other.

    Attributes:
        content: the bytes of the header, copies that are damaged included.
        header: what they say.
        first: the page of the marker; None if it is damaged.
    """

    content: bytes
    header: _Header
    first: Page | None

    @property
    def marker(self) -> tuple[Key, ...]:
        """The keys of the marker."""
        return () if self.first is None else self.first.read(MARKER)


def _list_copies(content: bytes) -> list[bytes]:
    copies = [content[at : at + _HEADER.size] for at in range(0, PAGE, _SECTOR)]
    return [copy for copy in copies if len(copy) == _HEADER.size]


def _flush(file: int) -> None:
    """Have the device write what it was given; on macOS fsync leaves that in the cache of the drive."""
    if sys.platform == "darwin":
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(file)


def _parse_page(content: bytes) -> Page | None:
    """A page; None if it is damaged. One that is cut off has no keys where it ends."""
    try:
        return Page.parse(content.ljust(PAGE, b"\0"))
    except ValueError:
        return None


class KeyringFile(Keyring):
    """A keyring in a file that only its owner may read.

    Several processes of one host may share it; those of several hosts use `vestige keyring serve`.

    Args:
        path: the file; links are followed. Put it on another device than the store, and into no backup.
        create: whether to create the file if there is none.
        patience: seconds to wait for other processes that hold the file.

    Raises:
        StoreBusyError: another process holds the file for longer.
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

    def __init__(self, path: str | Path, *, create: bool = False, patience: float = PATIENCE) -> None:
        self.path = resolve_path(path, "keyring")
        self.where, self._patience = str(self.path), patience
        self.id = b""
        self._places: dict[int, int] = {}
        """Where pages were found in the file, by their numbers."""
        self._mark: bytes | None = None
        """The mark of what was last read or written here."""
        self._header: tuple[bytes, _Header] | None = None
        """The bytes of the header as they were last read, and what they say."""
        if create and not (self.path.exists() and self.path.stat().st_size):
            self._create()
        with self._open(os.O_RDONLY) as file:
            self.id = self._read_start(file).header.id

    def read(self, after: int = 0) -> KeyTable:
        """Read keys; nothing but the page of the marker if none is newer."""
        with self._open(os.O_RDONLY) as file:
            start = self._read_start(file)
            is_used, first, self._mark = start.header.is_used, start.first, compute_mark(start.marker)
            if first is not None and after and (found := KeyTable([first], is_used=is_used)).newest == after:
                return found
            pages = [page for _, page in self._read_pages(file) if page is not None]
        newer = (page for page in pages if not after or page.number == find_page(MARKER) or page.find_newest() > after)
        return KeyTable(newer, is_used=is_used)

    def prepare(self, keys: Mapping[int, Key], *, mark: bytes | None = None) -> None:
        """Put keys beside those that are live; durable once this returns.

        Args:
            keys: see `Keyring.prepare`.
            mark: see `compute_mark`; if the keyring has another one, a call that would change it is refused. Default:
                that of what was last read or written here.

        Raises:
            StoreError: see `Keyring.prepare`.
        """
        with self._open(os.O_RDWR) as file:
            start = self._read_start(file)
            marker = start.marker
            pages = self._change(file, start, keys, lambda page, slot: page.add(slot, keys[slot]), is_adding=True)
            if keys.get(MARKER) not in marker:  # or a part of this very call was carried out before
                self._check_mark(file, marker, mark, pages)
            self._check_versions(keys, pages)
            self._write(file, marker, dict(sorted(pages.items())))  # the marker first: who is killed then has to settle

    def settle(self, versions: Mapping[int, int], *, before: int | None = None, mark: bytes | None = None) -> None:
        """Destroy all keys of slots but one; durable once this returns.

        Args:
            versions: see `Keyring.settle`.
            before: see `Keyring.settle`.
            mark: see `compute_mark`; if the keyring has another one, a call that would change it is refused. Default:
                that of what was last read or written here.

        Raises:
            StoreError: see `Keyring.settle`.
        """
        with self._open(os.O_RDWR) as file:
            start = self._read_start(file)
            header, marker = start.header, start.marker
            pages = self._change(
                file, start, versions, lambda page, slot: page.keep(slot, versions[slot], before), is_adding=False
            )
            self._check_mark(file, marker, mark, pages)
            wanted = header._replace(is_used=header.is_used or bool(versions.get(MARKER))).pack()
            if start.content != wanted:
                pages[0] = wanted
            # The marker last: who is killed before it settles again.
            self._write(file, marker, dict(sorted(pages.items(), reverse=True)))

    def verify(self) -> tuple[str, ...]:
        """Check the rights of the file, its header, and every slot."""
        found, before, until = list[str](), self._find_unsettled(), time.monotonic() + _SETTLING
        while (is_same := self._find_unsettled() == before) and before and time.monotonic() < until:
            time.sleep(_SETTLING / 100)
        with self._open(os.O_RDONLY) as file:
            about, header, pages = os.fstat(file), self._read_start(file).header, list(self._read_pages(file))
            raw = os.pread(file, about.st_size, 0)
        rights = stat.S_IMODE(about.st_mode)
        if rights & 0o077:
            found.append(f"{self.path}: others than its owner may use it (its rights are {rights:o}); chmod 600 it")
        if before and is_same:
            found.append(
                f"{self.path}: holds keys of rows that were replaced, since a commit does not come to its end or a "
                "process was killed in one; what they open is overdue. Open the store for writing, which destroys "
                "them: vestige sweep"
            )
        if raw[:PAGE] != header.pack():
            found.append(f"{self.path}: a copy of its header is damaged; the next transaction mends it")
        found += [
            f"{file}: was left by a process that was killed; remove it"
            for file in find_siblings(self.path)
            if is_draft(self.path, file)
        ]
        if about.st_size % PAGE:
            found.append(f"{self.path}: is cut off; the rows whose keys are missing cannot be opened")
        for place, page in pages:
            where = f"{self.path}: the page at byte {PAGE * place:,}"
            if page is not None and page.is_mended:
                found.append(f"{where} has a damaged label; the next transaction on its rows mends it")
            elif page is None and any(raw[PAGE * place : PAGE * (place + 1)]):  # else it was never written
                found.append(f"{where} is damaged; rows whose keys it holds cannot be opened, but they can be removed")
            for slot in () if page is None else page.find_damage():
                found.append(f"{self.path}: slot {slot} is damaged; if its row cannot be opened, remove it")
        return tuple(found)

    def destroy(self) -> int:
        """Overwrite all keys with zeros, damaged ones too."""
        with self._open(os.O_RDWR) as file:
            pages = [page for _, page in self._read_pages(file) if page is not None]
            found = sum(len(page.read(slot)) for page in pages for slot in page.list_slots().tolist())
            places = range(_FIRST, -(-os.fstat(file).st_size // PAGE))
            self._write(file, (), dict.fromkeys(places, bytes(PAGE)) | {_FIRST: Page(find_page(MARKER)).content})
            os.ftruncate(file, PAGE * (_FIRST + 1))
            _flush(file)
        return found

    def _create(self) -> None:
        """Create the file, unless another process does so meanwhile."""
        with self._open(os.O_RDWR | os.O_CREAT):
            if not self.path.stat().st_size:
                clear_drafts(self.path)
                header = _Header(secrets.token_bytes(KEYRING_ID))
                write_private(self.path, header.pack() + Page(find_page(MARKER)).content)

    def _find_unsettled(self) -> tuple[int, ...]:
        """The slots that are not settled, and what tells them from those of the next transaction; empty if all are."""
        found = self.read()
        unsettled = [slot for slot in found.find_unsettled(found.newest).tolist() if len(found.find(slot)) > 1]
        return (found.newest, *unsettled) if unsettled else ()

    def _check_mark(
        self, file: int, marker: tuple[Key, ...], mark: bytes | None, pages: Mapping[int, bytes | bytearray]
    ) -> None:
        """Refuse what comes late, after others have written: it could destroy their keys."""
        known = self._mark if mark is None else mark
        if known in (None, compute_mark(marker)):
            return
        if any(os.pread(file, PAGE, PAGE * place) != content for place, content in pages.items()):
            raise StoreError(
                f"{self.path}: was used by another process since this one has read it; nothing was changed: begin the "
                "transaction again. If two copies of one store are open with this keyring, close one: what one of them "
                "writes, the other cannot open"
            )

    def _check_versions(self, keys: Mapping[int, Key], pages: Mapping[int, bytes | bytearray]) -> None:
        """Refuse a key beside another one of its version: what is settled later names keys by their versions."""
        read = {page.number: page for page in (Page.parse(bytes(content)) for content in pages.values())}
        for slot, key in keys.items():
            if sum(other.version == key.version for other in read[find_page(slot)].read(slot)) > 1:
                raise StoreError(f"{self.path}: has another key of this version in slot {slot}; nothing was changed")

    def _change(
        self, file: int, start: _Start, slots: Iterable[int], change: Callable[[Page, int], None], *, is_adding: bool
    ) -> dict[int, bytes | bytearray]:
        """The pages of slots, changed, by place; nothing is written yet.

        A page that is not there yet comes in the place of a damaged one, which may be the one that is missed, or to the
        end.
        """
        chosen: dict[int, list[int]] = {}
        for slot in slots:
            chosen.setdefault(find_page(slot), []).append(slot)
        known, free = self._find_pages(file, start, chosen)
        pages: dict[int, bytes | bytearray] = {}
        for number, inside in chosen.items():
            if number not in known and not is_adding:
                continue
            place, page = known.get(number) or (next(free), Page(number))
            for slot in inside:
                try:
                    change(page, slot)
                except ValueError:
                    raise StoreError(
                        f"{self.path}: keys of an earlier transaction were not settled; open the store again"
                    ) from None
            pages[place] = page.content
        return pages

    def _find_pages(
        self, file: int, start: _Start, numbers: Iterable[int]
    ) -> tuple[dict[int, tuple[int, Page]], Iterator[int]]:
        """Place and content of each page that is there; and the places for those that are not."""
        known = {}
        for number in numbers:
            place = self._places.get(number, 0)
            page = start.first if place == _FIRST else self._read_page(file, place) if place else None
            if page is None or page.number != number:  # it is new, or another process has changed the file
                break
            known[number] = place, page
        else:
            return known, iter(())
        pages = list(self._read_pages(file))
        free = [place for place, page in pages if page is None]
        return {page.number: (at, page) for at, page in pages if page}, chain(free, count(_FIRST + len(pages)))

    def _write(self, file: int, marker: tuple[Key, ...], pages: Mapping[int, bytes | bytearray]) -> None:
        """Write pages to their places, in this order, and flush them; the marker is what it was, or among them."""
        size, self._mark = os.fstat(file).st_size, None
        try:
            for place, content in pages.items():
                done = 0
                while done < PAGE:
                    done += os.pwrite(file, content[done:], PAGE * place + done)
            _flush(file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, size)
            raise
        if _FIRST in pages:
            marker = Page.parse(bytes(pages[_FIRST])).read(MARKER)
        self._mark = compute_mark(marker)

    def _read_pages(self, file: int) -> Iterator[tuple[int, Page | None]]:
        """The pages of the file, each with its place; None for one that is damaged."""
        for place in range(_FIRST, -(-os.fstat(file).st_size // PAGE)):
            page = self._read_page(file, place)
            if page is not None:
                self._places[page.number] = place
            yield place, page

    def _read_page(self, file: int, place: int) -> Page | None:
        return _parse_page(os.pread(file, PAGE, PAGE * place))

    def _read_start(self, file: int) -> _Start:
        found = os.pread(file, PAGE * (_FIRST + 1), 0)
        content = found[:PAGE]
        if self._header is None or self._header[0] != content or len(found) < PAGE * (_FIRST + 1):
            self._header = content, self._parse_header(found)
        header = self._header[1]
        if self.id not in (b"", header.id):
            raise StoreError(f"{self.path}: another keyring was put in its place; put it back, or open the store again")
        return _Start(content, header, _parse_page(found[PAGE:]))

    def _parse_header(self, found: bytes) -> _Header:
        header = _Header.unpack(found[:PAGE])
        copies = [copy for copy in _list_copies(found[:PAGE]) if copy.startswith(MAGIC)]
        if not copies:
            raise StoreError(f"{self.path}: is not a keyring; give another path, or make one: vestige keyring init")
        version = int.from_bytes(copies[0][8:12], "little")
        if header is None and version != VERSION:
            raise StoreError(
                f"{self.path}: is a keyring of version {version}, and this Vestige reads version {VERSION}; use the "
                "Vestige that wrote it"
            )
        if header is None or len(found) < PAGE * (_FIRST + 1):
            raise StoreError(f"{self.path}: is damaged (cut off, or bits changed); restore a copy of this moment")
        return header

    def _lock(self, file: int, kind: int) -> None:
        """Wait for others who hold the file, which takes milliseconds; an error if one does not let go."""
        until = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise StoreBusyError(
                        f"{self.path}: another process holds the keyring and does not let go; end that process (fuser "
                        "or lsof names it) and try again"
                    ) from None
                time.sleep(_PAUSE)
            else:
                return

    @contextmanager
    def _open(self, mode: int) -> Iterator[int]:
        """The file, for one process at a time if it is written."""
        try:
            file = os.open(self.path, mode | os.O_CLOEXEC, 0o600)
            try:
                self._lock(file, fcntl.LOCK_SH if mode == os.O_RDONLY else fcntl.LOCK_EX)
                yield file
            finally:
                os.close(file)
        except FileNotFoundError:
            raise StoreError(
                f"{self.path}: there is no such keyring; give the path of the one that the store has, or, for a store "
                "that has none yet, make one with vestige keyring init"
            ) from None
        except OSError as problem:
            raise StoreError(
                f"{self.path}: the keyring cannot be read or written ({problem.strerror}); make room, or run this as "
                "its owner, and try again"
            ) from None
