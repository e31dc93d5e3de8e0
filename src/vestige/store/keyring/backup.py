"""What can still be opened of a backup with today's keyring: its raw bytes are searched for sealed rows.

The prefix of a sealed part stands in clear and says which row and which writing it is, so that the keyring can tell
whether it can be opened; parts of which it has the key are opened. A part that is cut into pieces, as PostgreSQL does
with long ones, is judged by its prefix, and its first piece is decrypted.
Guarantee: finds every sealed row in a copy of a SQLite store and in a plain dump, opens those whose keys are left and
no others, and does not call a backup safe in which it recognises nothing; held by tests/store/test_backup.py.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from vestige.errors import ParameterError, StoreError
from vestige.store.canaries import CanarySearch
from vestige.store.keyring.backup_scan import BackupScan
from vestige.store.keyring.backup_streams import IT, read_backup
from vestige.store.keyring.keyring import MARKER, Keyring, KeyTable, name_keyring
from vestige.store.keyring.seal import Prefix
from vestige.store.row_keys import name_row
from vestige.store.rows import TABLES

_NAMED = 5
"""Number of rows that are named in a sentence."""
_LOOKS, _PAUSE = 20, 0.5
"""How often, and after how many seconds, a store is looked at again in which a transaction is under way."""


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup holds that the keyring can say something about.

    Attributes:
        path: the backup.
        rows: number of sealed rows that were found in it, each writing of a row counted once.
        current: number of those that the store holds now.
        openable: number of those that the store does not hold, and that can be opened.
        destroyed: number of those that cannot be opened, because their keys were destroyed.
        newer: number of those that are newer than the keyring.
        others: number of sealed rows of other keyrings.
        findings: what is wrong, one sentence each.
        notes: what else to know, one sentence each.
    """

    path: str
    rows: int
    current: int
    openable: int
    destroyed: int
    newer: int
    others: int
    findings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """What was found, in one sentence."""
        if not self.rows:
            return f"{self.path}: no sealed row of this keyring."
        said = [_count(self.rows, "sealed row"), f"{self.current:,} of them {_be(self.current)} in the store now"]
        if self.openable:
            said.append(f"{self.openable:,} {_be(self.openable)} not, and can still be opened")
        if self.newer:
            said.append(f"{self.newer:,} {_be(self.newer)} newer than the keyring")
        if self.destroyed:
            keys = "its key was" if self.destroyed == 1 else "their keys were"
            said.append(f"{self.destroyed:,} cannot be opened: {keys} destroyed")
        return f"{self.path}: {'; '.join(said)}."


def inspect_backup(
    path: str | Path,
    keyring: Keyring,
    list_versions: Callable[[], Mapping[int, int]],
    *,
    canaries: Sequence[bytes] = (),
    tell: Callable[[float], object] = lambda _: None,
) -> BackupReport:
    """Find what can still be opened of a backup with a keyring.

    Only this keyring is asked: a copy of it that was taken earlier may open more. Bytes that are encrypted or
    compressed in a way that cannot be undone here hide what they hold; a backup in which nothing is recognised is a
    finding.

    Args:
        path: a copy of a SQLite store, a plain dump, a data folder or base backup of PostgreSQL, a folder of its
            write-ahead log, or any other file or folder; also packed with tar, zip, gzip, bzip2 or xz.
        keyring: the keyring of the store as it is today.
        list_versions: lists which writing of each row the store holds now; see `Reader.list_versions`.
        canaries: bytes that must not be in the backup, nor in what can be opened of it.
        tell: called with the share of the backup that was read.

    Returns:
        What was found.

    Raises:
        ParameterError: there is no such file or folder; or a canary is empty, or is not bytes.
        StoreError: the keyring cannot be read.

    Example:
        >>> import shutil, tempfile
        >>> from vestige import Mean, Stream
        >>> from vestige.store import open_keyring, open_store
        >>> folder = tempfile.TemporaryDirectory()
        >>> keyring = open_keyring(folder.name + "/visits.keyring", create=True)
        >>> with open_store(folder.name + "/visits.db", keyring=keyring) as store:
        ...     stream = Stream(Mean(), retention=96, seed=0, store=store.stream("visits"))
        ...     _ = stream.extend(range(100))
        ...     store.flush()
        ...     _ = shutil.copy(store.path, folder.name + "/old.db")
        ...     _ = stream.extend(range(100))
        ...     store.flush()
        ...     report = inspect_backup(folder.name + "/old.db", keyring, store.list_versions)
        >>> report.rows, report.current, report.openable, report.destroyed
        (3, 1, 0, 2)
        >>> folder.cleanup()
    """
    search = CanarySearch(canaries)
    place = Path(path)
    if not place.exists():
        raise ParameterError(f"{path}: there is no such file or folder to look at; give the path of a backup")
    scan = BackupScan(keyring, search)
    read_backup(place, scan.read, scan.findings.append, tell)
    for name in dict.fromkeys(scan.sealed_files):
        scan.findings += _find_rows_in_clear(name or IT, place / name)
    return _judge(str(path), scan, keyring, list_versions)


def _judge(
    path: str, scan: BackupScan, keyring: Keyring, list_versions: Callable[[], Mapping[int, int]]
) -> BackupReport:
    """Compare what was found with what the store and its keyring hold now."""
    findings, notes = list(scan.findings), list[str]()
    try:
        versions, keys = _read_now(keyring, list_versions)
    except StoreError:
        versions, keys = {}, keyring.read()
        notes.append("the rows of the store cannot be read, so none that was found counts as one that it holds now")
    live = {version for version in versions.values() if version in scan.found}
    left = {key.version: slot for slot in keys.list_slots().tolist() for key in keys.find(slot)}
    openable = {version: slot for version, slot in left.items() if version in scan.found and version not in live}
    late = {version for version in scan.late if version > keys.newest > 0 and version not in live}  # 0: all destroyed
    torn = len(_find_torn(late, scan.marker, versions, keys))
    rows, newer = scan.found.count - torn, len(late) - torn
    others = sum(each.count for each in scan.others.values())
    if openable:
        named = [name_row(slot) for slot in sorted(openable.values())[:_NAMED]]
        more = f" and {len(openable) - _NAMED:,} more" if len(openable) > _NAMED else ""
        findings.append(
            f"{_count(len(openable), 'sealed row')} that {_be(len(openable))} not in the store now can be opened, "
            f"since the keys are left ({', '.join(named)}{more}); destroy them: vestige keyring rotate. If the keyring "
            "is a copy from an earlier time, delete it, and give the present one"
        )
    if newer:
        findings.append(
            f"{_count(newer, 'sealed row')} {_be(newer)} newer than the keyring, so it is a copy from an earlier time; "
            "give the present one"
        )
    if torn:
        notes.append(
            f"{_count(torn, 'prefix', 'prefixes')} of sealed rows {_be(torn)} overwritten in part and left out: no "
            "transaction has reached the version that is read there"
        )
    if others:
        named = [name_keyring(each) for each in scan.others]
        (notes if rows else findings).append(  # a dump may hold other stores too, but not only those
            f"{_count(others, 'sealed row')} {_be(others)} of another keyring ({', '.join(named[:_NAMED])}); whether "
            "they can be opened is not known here: look again with that keyring, or destroy it"
        )
    if not rows and not findings:
        findings.append(
            "nothing was recognised: it is not a backup of this store, or it is encrypted, or compressed in a way that "
            "is not known here; unpack it first"
        )
    destroyed = rows - len(live) - len(openable) - newer
    return BackupReport(path, rows, len(live), len(openable), destroyed, newer, others, tuple(findings), tuple(notes))


def _find_torn(late: set[int], marker: int, versions: Mapping[int, int], keys: KeyTable) -> set[int]:
    """Versions that are not versions: PostgreSQL moves rows within a page over what was left of others.

    A transaction writes the marker too. So what is newer than the marker of the backup was not written by one, if the
    keyring is the present one, whose newest key is that of the marker in the store. In doubt a version counts.
    """
    return {version for version in late if version > marker} if versions.get(MARKER) == keys.newest else set()


def _read_now(keyring: Keyring, list_versions: Callable[[], Mapping[int, int]]) -> tuple[Mapping[int, int], KeyTable]:
    """What the store and its keyring hold, at one moment between two transactions if there is one."""
    last = None
    for _ in range(_LOOKS):
        versions, keys = list_versions(), keyring.read()
        state = versions.get(MARKER), keys.newest, keys.is_open
        if state in ((keys.newest, keys.newest, False), last):  # or a process was killed, and nothing moves
            break
        last = state
        time.sleep(_PAUSE)
    return versions, keys


def _find_rows_in_clear(name: str, file: Path) -> Iterator[str]:
    """Rows that are not sealed, of a sealed store that is not packed; one that is damaged was searched all the same."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro&immutable=1", uri=True)) as connection,
    ):
        for table, columns in TABLES.items():
            for row, *parts in connection.execute(f"SELECT id, {', '.join(columns)} FROM {table}"):  # noqa: S608
                if any(Prefix.read(part) is None for part in parts):
                    yield f"{name} holds row {row} of the table {table} in clear; delete it"


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def _be(number: int) -> str:
    return "is" if number == 1 else "are"
