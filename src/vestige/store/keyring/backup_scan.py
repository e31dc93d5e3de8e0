"""The search for sealed rows in raw bytes, in a bounded amount of memory.

Sealed parts are found by their prefixes, in binary and in the hexadecimal of a dump, wherever they lie: in pages, in
records of a log, in lines. Besides them, the search finds stores in clear, copies of the keyring, and canaries.
Guarantee: finds what lies across the border of two windows as well; held by tests/store/test_backup.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from vestige.store.canaries import CanarySearch
from vestige.store.keyring.backup_streams import IT, Bytes
from vestige.store.keyring.file import MAGIC as KEYRING_MAGIC
from vestige.store.keyring.keyring import MARKER, SHORT_ID, Key, Keyring
from vestige.store.keyring.seal import MAGIC, PREFIX, TAG, Prefix, SealError, decrypt_start, open_part
from vestige.store.opener import find_row
from vestige.store.row_keys import name_row
from vestige.store.rows import TABLES
from vestige.store.sqlite.connection import APPLICATION, SEALED_VERSION

_WINDOW = 1 << 20
"""Bytes that are searched at once."""
_LONGEST = 1 << 26
"""Bytes of the longest part that is opened; a longer one is judged by its prefix."""
_PIECE = 1_960
"""Bytes after the prefix that lie in the first piece of a part that PostgreSQL has cut into pieces."""
_SQLITE = b"SQLite format 3\0"
_SQLITE_HEADER = 100
_KEYRING_ID_AT = 12
_PAGE = 2_048


class Versions:
    """A set of versions; many that are near each other take hardly more than a bit each.

    Attributes:
        count: how many there are.

    Example:
        >>> versions = Versions()
        >>> for version in (7, 4_096, 7):
        ...     versions.add(version)
        >>> versions.count, 7 in versions, 8 in versions
        (2, True, False)
    """

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self.count = 0

    def add(self, version: int) -> None:
        """Add a version.

        Args:
            version: the version.
        """
        page, place = divmod(version, _PAGE)
        bits, mask = self._pages.setdefault(page, bytearray(_PAGE // 8)), 1 << place % 8
        self.count += not bits[place // 8] & mask
        bits[place // 8] |= mask

    def __contains__(self, version: int) -> bool:
        page, place = divmod(version, _PAGE)
        return page in self._pages and bool(self._pages[page][place // 8] & 1 << place % 8)


class BackupScan:
    """What was found in the bytes of a backup so far.

    Args:
        keyring: the keyring whose rows are looked for.
        canaries: the search for what must not be there, nor in what can be opened.

    Attributes:
        found: the versions of its rows.
        late: those of them that are newer than the keyring was when this began.
        marker: the newest of the row that every transaction writes; 0 if it was not found.
        others: the versions of rows of other keyrings, by the first bytes of their ids.
        sealed_files: the files that are sealed stores of SQLite.
        findings: what is wrong, one sentence each.
    """

    def __init__(self, keyring: Keyring, canaries: CanarySearch) -> None:
        self.found, self.late, self.marker = Versions(), set[int](), 0
        self.others: dict[bytes, Versions] = {}
        self.sealed_files: list[str] = []
        self.findings: list[str] = []
        self._keyring, self._keys = keyring, keyring.read()
        self._opened = set[tuple[int, int]]()
        self._canaries = canaries
        self._overlap = max(_SQLITE_HEADER, 2 * PREFIX, canaries.overlap)

    def read(self, name: str, source: Bytes) -> None:
        """Search the bytes of a file.

        Args:
            name: its name, for the findings; empty for the backup itself.
            source: its bytes.
        """
        window, is_over, called = _Window(source), False, name or IT
        while not is_over:
            is_over = not window.extend(_WINDOW)
            limit = max(len(window.data) - (0 if is_over else self._overlap), 0)
            for width, needle in enumerate((MAGIC, MAGIC.hex().encode()), 1):
                for at in window.find_all(needle, limit):
                    self._read_part(called, window, at, width)
            for at in window.find_all(_SQLITE, limit):
                self._read_sqlite(name, window, at)
            for at in window.find_all(KEYRING_MAGIC, limit):
                if window.take(at + _KEYRING_ID_AT, len(self._keyring.id)) == self._keyring.id:
                    self._report(
                        f"{called} holds the keyring, or a copy of it, which opens all that was in the store when it "
                        "was made; keep the keyring out of backups, delete copies of it, and make them useless: "
                        "vestige keyring rotate"
                    )
            for hit in self._canaries.find(window.data, limit):
                self._report(self._canaries.describe(hit, called) + ("" if hit.form else ", in clear"))
            window.drop(limit)

    def _report(self, text: str) -> None:
        """Note a finding, once."""
        if text not in self.findings:
            self.findings.append(text)

    def _read_part(self, name: str, window: _Window, at: int, width: int) -> None:
        """Look at what may be a sealed part, whose bytes take one or two bytes each."""
        prefix = Prefix.parse(_decode(window.take(at, PREFIX * width), width))
        if prefix is None or not _is_plausible(prefix):
            return
        if prefix.keyring != self._keyring.id[:SHORT_ID]:
            self.others.setdefault(prefix.keyring, Versions()).add(prefix.version)
            return
        self.found.add(prefix.version)
        if prefix.version > self._keys.newest:
            self.late.add(prefix.version)
        if prefix.slot == MARKER:
            self.marker = max(self.marker, prefix.version)
        key = next((key for key in self._keys.find(prefix.slot) if key.version == prefix.version), None)
        if key is not None and (prefix.version, prefix.part) not in self._opened:
            size = PREFIX + min(prefix.length, _LONGEST)
            self._open(name, prefix, key, _decode(window.take(at, size * width), width))

    def _open(self, name: str, prefix: Prefix, key: Key, sealed: bytes) -> None:
        """Open a part, or decrypt its first piece, and look for canaries in it."""
        try:
            plain = open_part(sealed, prefix, key)
            self._opened.add((prefix.version, prefix.part))
        except SealError:
            plain = decrypt_start(sealed[PREFIX : PREFIX + min(prefix.length - TAG, _PIECE)], prefix, key)
        for hit in self._canaries.find(plain):
            self._report(f"{self._canaries.describe(hit, name)}, in {name_row(prefix.slot)}, which can be opened")

    def _read_sqlite(self, name: str, window: _Window, at: int) -> None:
        """Look at what may be the header of a SQLite file."""
        header = window.take(at, _SQLITE_HEADER)
        version, application = (int.from_bytes(header[place : place + 4], "big") for place in (60, 68))
        if application == APPLICATION and version == SEALED_VERSION:
            self.sealed_files.append(name)
        elif application == APPLICATION:
            self._report(
                f"{name or IT} holds a store in clear (version {version} of the format), of the time before it was "
                "sealed or of another store: whoever has it can read all that is in it; delete it"
            )


def _is_plausible(prefix: Prefix) -> bool:
    """Whether it is a prefix, and not a few bytes that begin like one."""
    place = find_row(prefix.slot)
    if place is None or place[1] == 0 or prefix.version == 0:
        return False
    return prefix.part < len(TABLES[place[0]]) and prefix.length >= TAG


def _decode(content: bytes, width: int) -> bytes:
    """Bytes, or those that a text in hexadecimal means, as far as it is one."""
    if width == 1:
        return content
    digits = len(content) - len(content.lstrip(b"0123456789abcdefABCDEF"))
    return bytes.fromhex(content[: digits // 2 * 2].decode())


class _Window:
    """The part of a file that is looked at; it moves forward."""

    def __init__(self, source: Bytes) -> None:
        self._source = source
        self.data = b""

    def extend(self, size: int) -> bool:
        """Read so many bytes more, and tell whether there were any."""
        more = self._source.read(size)
        self.data += more
        return bool(more)

    def take(self, at: int, size: int) -> bytes:
        """Bytes from a place on, which are read if they were not; fewer at the end of the file."""
        while len(self.data) < at + size and self.extend(max(at + size - len(self.data), 1 << 16)):
            pass
        return self.data[at : at + size]

    def find_all(self, needle: bytes, limit: int) -> Iterator[int]:
        """Where a needle begins, before a limit."""
        at = self.data.find(needle)
        while 0 <= at < limit:
            yield at
            at = self.data.find(needle, at + 1)

    def drop(self, count: int) -> None:
        """Move forward."""
        self.data = self.data[count:]
