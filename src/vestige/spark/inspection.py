"""What can still be opened of the files of a query with today's keyring: checkpoint, state store and local folders.

Every byte is looked at; Spark's zip files and blocks of LZ4 are unpacked. A state is found by the prefix that stands in
clear before it, and the keyring tells whether its key is left.
Guarantee: finds the states that a query has written, opens those whose keys are left and no others, and finds a canary
in clear and in a state that opens; held by tests/spark/test_inspection.py.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vestige.errors import MissingExtraError, ParameterError
from vestige.spark.shard_keys import find_shard_slot
from vestige.store import open_keyring
from vestige.store.canaries import CanarySearch
from vestige.store.keyring import Keyring, KeyTable
from vestige.store.keyring.file import MAGIC as KEYRING_MAGIC
from vestige.store.keyring.keyring import SHORT_ID
from vestige.store.keyring.seal import MAGIC, PREFIX, Prefix, SealError, open_part

_BLOCK = b"LZ4Block"
_BLOCK_HEAD = 21
_RAW, _PACKED = 0x10, 0x20
_KEYRING_ID_AT = 12
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
"""What is raised where a packing is damaged, cut off, encrypted or of an unknown kind."""


@dataclass(frozen=True)
class FilesReport:
    """What the files of a query hold.

    Attributes:
        files: number of files that were read.
        states: number of sealed states that were found, each writing of a shard counted once.
        current: number of those that are the only ones of their shards that can be opened.
        unsettled: number of those that can be opened and whose shards have a second key, that of what was replaced or
            never committed; it is destroyed when the shard is called next.
        destroyed: number of those that nobody can open any more.
        findings: what is wrong, one sentence each.
    """

    files: int
    states: int
    current: int
    unsettled: int
    destroyed: int
    findings: tuple[str, ...]

    @property
    def text(self) -> str:
        """What was found, in one sentence."""
        return (
            f"{self.files:,} files with {self.states:,} sealed states: {self.current:,} are current, "
            f"{self.unsettled:,} are about to be replaced, {self.destroyed:,} cannot be opened: their keys are gone."
        )


def inspect_files(
    folders: str | Path | Sequence[str | Path], keyring: str | Path | Keyring, *, canaries: Sequence[bytes] = ()
) -> FilesReport:
    """Find what can still be opened of the files of a query.

    Args:
        folders: its checkpoint, `spark.local.dir`, and whatever else may hold something of it.
        keyring: its keyring, or the address of it.
        canaries: bytes that must not be in the files, nor in what can be opened of them.

    Returns:
        What was found.

    Raises:
        MissingExtraError: pyarrow is not installed.
        ParameterError: there is no such folder, or a canary is empty.
        StoreError: the keyring cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ring = open_keyring(folder + "/visits.keyring", create=True)
        ...     _ = Path(folder, "changelog").write_bytes(b"visits")
        ...     report = inspect_files([folder + "/changelog"], ring, canaries=[b"visit"])
        >>> report.states, report.findings
        (0, ('canary 1 of 1 is in changelog, in clear',))
    """
    given = [folders] if isinstance(folders, str | Path) else list(folders)
    for place in map(Path, given):
        if not place.exists():
            raise ParameterError(
                f"folders: there is no {place}; give the checkpoint and the local folders of the query"
            )
    search = CanarySearch(canaries)
    opened = open_keyring(keyring)
    scan = _Scan(opened, opened.read(), search)
    for place in map(Path, given):
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file():
                scan.read(file.name if file == place else str(file.relative_to(place)), file)
    return scan.report()


class _Scan:
    """What was found so far."""

    def __init__(self, keyring: Keyring, keys: KeyTable, canaries: CanarySearch) -> None:
        self._id, self._keys, self._canaries = keyring.id, keys, canaries
        self._files, self._states, self._openable = 0, set[tuple[int, int, int]](), set[tuple[int, int]]()
        self._findings: dict[str, None] = {}

    def read(self, name: str, file: Path) -> None:
        """Read a file, unless it has vanished meanwhile, as those of a query that runs do."""
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return
        except OSError as problem:
            self._findings[f"{name} cannot be read ({problem.strerror}), so it was not looked at"] = None
            return
        self._files += 1
        try:
            for part in _unpack(content):
                self._search(name, part)
        except _BROKEN:
            self._findings[f"{name} is packed and cannot be unpacked, so not all of it was looked at"] = None

    def _search(self, name: str, content: bytes) -> None:
        for hit in self._canaries.find(content):
            self._findings[self._canaries.describe(hit, name) + ("" if hit.form else ", in clear")] = None
        for at in _find_all(content, KEYRING_MAGIC):
            if content[at + _KEYRING_ID_AT :].startswith(self._id):
                self._findings[f"{name} holds the keyring, or a copy of it; keep it away from the files"] = None
        for at in _find_all(content, MAGIC + self._id[:SHORT_ID]):
            prefix = Prefix.parse(content[at : at + PREFIX])
            if prefix is not None:
                self._open(name, prefix, content[at : at + PREFIX + prefix.length])

    def _open(self, name: str, prefix: Prefix, sealed: bytes) -> None:
        """Note a state, and look into it if its key is left."""
        self._states.add((prefix.slot, prefix.version, prefix.writer))
        for key in self._keys.find(prefix.slot):
            if key.version != prefix.version:
                continue
            self._openable.add((prefix.slot, prefix.version))
            try:
                plain = open_part(sealed, prefix, key)
            except SealError:  # a piece of it, or of another attempt at the same batch
                continue
            for hit in self._canaries.find(plain):
                shard = prefix.slot - find_shard_slot(0)
                said = self._canaries.describe(hit, name)
                self._findings[f"{said}, in the state of shard {shard}, which can be opened"] = None

    def report(self) -> FilesReport:
        """What was found."""
        left = [state for state in self._states if state[:2] in self._openable]
        single = [state for state in left if len(self._keys.find(state[0])) == 1]
        counts = len(self._states), len(single), len(left) - len(single), len(self._states) - len(left)
        return FilesReport(self._files, *counts, tuple(self._findings))


def _find_all(content: bytes, needle: bytes) -> Iterator[int]:
    at = content.find(needle)
    while at >= 0:
        yield at
        at = content.find(needle, at + 1)


def _unpack(content: bytes) -> Iterator[bytes]:
    """The bytes of a file, and what they are a packing of."""
    yield content
    if content.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                yield from _unpack(archive.read(name))
    at = content.find(_BLOCK)
    while at >= 0:
        joined, end = _join_blocks(content, at)
        yield joined
        at = content.find(_BLOCK, max(end, at + 1))


def _join_blocks(content: bytes, at: int) -> tuple[bytes, int]:
    """The bytes that a stream of LZ4 blocks was made of, as far as it is whole; and where it ends."""
    try:
        import pyarrow as pa  # noqa: PLC0415  # an extra
    except ModuleNotFoundError:
        raise MissingExtraError("vestige.spark", "spark") from None
    codec, parts = pa.Codec("lz4_raw"), list[bytes]()
    while content.startswith(_BLOCK, at) and len(content) >= at + _BLOCK_HEAD:
        method = content[at + len(_BLOCK)] & 0xF0
        packed, size = (int.from_bytes(content[at + 9 + 4 * i : at + 13 + 4 * i], "little") for i in (0, 1))
        block = content[at + _BLOCK_HEAD : at + _BLOCK_HEAD + packed]
        if method not in (_RAW, _PACKED) or len(block) < packed:
            break
        parts.append(block if method == _RAW else codec.decompress(block, size).to_pybytes() if size else b"")
        at += _BLOCK_HEAD + packed
    return b"".join(parts), at
