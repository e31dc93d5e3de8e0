"""Backups against the keyring: what was erased from the store cannot be opened in a copy from before."""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import shutil
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige import Mean, SqliteStore, Stream
from vestige.errors import ParameterError
from vestige.store import Keyring, KeyringFile, open_reader
from vestige.store.keyring import backup, backup_scan
from vestige.store.keyring.backup import BackupReport, inspect_backup
from vestige.store.keyring.backup_scan import Versions
from vestige.store.keyring.keyring import MARKER, SHORT_ID
from vestige.store.keyring.seal import MAGIC, PREFIX, Prefix
from vestige.store.rows import TABLES
from vestige.store.sqlite.connection import VERSION

GONE, STAYING = "the stream of ada lovelace", "the stream that stays"
CANARY = GONE.encode()


@dataclass(frozen=True)
class Site:
    """A sealed store from which a stream was removed; and copies of it and of its keyring from before."""

    folder: Path
    keyring: Keyring
    old_keyring: Keyring

    @property
    def store(self) -> Path:
        return self.folder / "a.db"

    @property
    def old(self) -> Path:
        return self.folder / "old.db"

    def inspect(self, path: Path, keyring: Keyring | None = None, canaries: tuple[bytes, ...] = ()) -> BackupReport:
        reader = open_reader(self.store, keyring=self.keyring)
        return inspect_backup(path, keyring or self.keyring, reader.list_versions, canaries=canaries)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sealed")
    with SqliteStore(folder / "a.db", keyring=KeyringFile(folder / "a.keyring", create=True)) as store:
        streams = [Stream(Mean(), retention=96, seed=0, store=store.stream(name)) for name in (GONE, STAYING)]
        for stream in streams:
            stream.extend(range(100), source="x")
        store.flush()
        shutil.copy(folder / "a.db", folder / "old.db")
        shutil.copy(folder / "a.keyring", folder / "old.keyring")
        store.remove(GONE)
    return folder


@pytest.fixture
def site(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(backup, "_PAUSE", 0.01)
    folder = tmp_path / "site"
    shutil.copytree(made, folder)
    return Site(folder, KeyringFile(folder / "a.keyring"), KeyringFile(folder / "old.keyring"))


def iterate_parts(path: Path) -> Iterator[tuple[str, int, list[bytes]]]:
    """The rows of a sealed file, their parts without padding."""
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in TABLES.items():
            for row, *parts in connection.execute(f"SELECT id, {', '.join(columns)} FROM {table}"):  # noqa: S608
                prefixes = [Prefix.parse(part) for part in parts]
                yield (
                    table,
                    row,
                    [part[: PREFIX + prefix.length] for part, prefix in zip(parts, prefixes, strict=True) if prefix],
                )


def dump(path: Path) -> bytes:
    """A store as `pg_dump` writes it: hexadecimal, in lines of COPY."""
    lines = [b"--\n-- PostgreSQL database dump\n--\n"]
    for table, row, parts in iterate_parts(path):
        lines.append(f"COPY vestige.{table} (id, {', '.join(TABLES[table])}) FROM stdin;\n".encode())
        lines.append(b"\t".join([str(row).encode(), *(rb"\\x" + part.hex().encode() for part in parts)]) + b"\n\\.\n")
    return b"".join(lines)


def pack_tar(name: str, content: bytes, mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


class Pipe(io.RawIOBase):
    """A place that cannot be gone back in, so that a zip file writes sizes after what they belong to."""

    def __init__(self) -> None:
        self.content = b""

    def writable(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        self.content += bytes(content)
        return len(content)


def pack_zip(
    files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED, *, piped: bool = False, large: bool = False
) -> bytes:
    packed, pipe = io.BytesIO(), Pipe()
    with zipfile.ZipFile(pipe if piped else packed, "w", method) as archive:
        for name, content in files.items():
            (entry := zipfile.ZipInfo(name)).compress_type = method
            with archive.open(entry, "w", force_zip64=large) as file:
                file.write(content)
    return pipe.content if piped else packed.getvalue()


PACKED: dict[str, Callable[[Path], bytes]] = {
    "old.db": Path.read_bytes,
    "dump.sql": dump,
    "dump.sql.gz": lambda path: gzip.compress(dump(path)),
    "dump.sql.bz2": lambda path: bz2.compress(dump(path)),
    "dump.sql.xz": lambda path: lzma.compress(dump(path)),
    "base.tar": lambda path: pack_tar("base/5/16384", path.read_bytes()),
    "base.tar.gz": lambda path: pack_tar("base/5/16384", path.read_bytes(), "w:gz"),
    "packed twice": lambda path: gzip.compress(pack_tar("dump.sql.gz", gzip.compress(dump(path)))),
    "old.zip": lambda path: pack_zip({"empty": b"", "sub/old.db": path.read_bytes(), "more": b"more" * 9_999}),
    "bzip2.zip": lambda path: pack_zip({"old.db": path.read_bytes()}, zipfile.ZIP_BZIP2),
    "stored.zip": lambda path: pack_zip({"a": b"a" * 99, "old.db": path.read_bytes()}, zipfile.ZIP_STORED),
    "piped.zip": lambda path: pack_zip({"a": b"a" * 99, "old.db": path.read_bytes()}, piped=True),
    "large.zip": lambda path: pack_zip({"a": b"a" * 99, "old.db": path.read_bytes()}, large=True),
    "large, piped.zip": lambda path: pack_zip({"a": b"", "b": path.read_bytes()}, piped=True, large=True),
    "zip in zip": lambda path: pack_zip({"old.zip": pack_zip({"old.db": path.read_bytes()}), "b": b"b"}),
    "image": lambda path: os.urandom(5_000) + path.read_bytes() + os.urandom(5_000),
}


@pytest.mark.parametrize("name", PACKED)
def test_what_was_erased_cannot_be_opened_in_a_copy_from_before(site: Site, tmp_path: Path, name: str) -> None:
    copy = tmp_path / name
    copy.write_bytes(PACKED[name](site.old))
    report = site.inspect(copy, canaries=(CANARY,))
    count = sum(1 for _ in iterate_parts(site.old))
    assert (report.rows, report.openable, report.findings, report.notes) == (count, 0, (), ())
    assert report.current == 2, "the rows of the terms and of the sources did not change"
    assert report.destroyed == count - 2
    assert report.text == (
        f"{copy}: {count} sealed rows; 2 of them are in the store now; {count - 2} cannot be opened: their keys were "
        "destroyed."
    )


@pytest.mark.parametrize("name", PACKED)
def test_with_a_keyring_that_was_not_erased_it_can(site: Site, tmp_path: Path, name: str) -> None:
    copy = tmp_path / name
    copy.write_bytes(PACKED[name](site.old))
    report = site.inspect(copy, site.old_keyring, (CANARY,))
    assert (report.rows, report.current, report.destroyed) == (report.openable + 2, 2, 0)
    found = "\n".join(report.findings)
    assert "canary 1 of 1 is in" in found
    assert "row 1 of the table buckets, which can be opened" in found
    assert f"{report.openable} sealed rows that are not in the store now can be opened" in found
    assert f"{report.openable} are not, and can still be opened." in report.text


def test_a_folder_is_looked_at_as_a_whole(site: Site, tmp_path: Path) -> None:
    (folder := tmp_path / "backups").mkdir()
    (folder / "base").mkdir()
    shutil.copy(site.old, folder / "base" / "monday.db")
    (folder / "dump.sql").write_bytes(dump(site.store))
    (folder / "again").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    report = site.inspect(folder)
    assert report.findings == ()
    assert report.current == sum(1 for _ in iterate_parts(site.store))
    assert report.rows == len({part for path in (site.old, site.store) for *_, (part, *_) in iterate_parts(path)})


@pytest.mark.parametrize("width", [1, 2])
def test_what_lies_across_two_windows_is_found(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """At each distance from the border of a window: a part, a store in clear, a copy of the keyring, a canary."""
    monkeypatch.setattr(backup_scan, "_WINDOW", 256)
    SqliteStore(tmp_path / "plain.db").close()
    part = next(parts[1] for table, _, parts in iterate_parts(site.old) if table == "buckets")
    things = [part, CANARY] if width == 1 else [part.hex().encode(), CANARY.hex().encode()]
    things += [(tmp_path / "plain.db").read_bytes()[:100], (site.folder / "a.keyring").read_bytes()[:100]]
    for shift in range(256):
        for thing in things:
            (tmp_path / "copy").write_bytes(bytes(600 + shift) + thing + bytes(400))
            report = site.inspect(tmp_path / "copy", canaries=(CANARY,))
            assert report.rows == (thing is things[0])
            assert len(report.findings) == (thing is not things[0]), (shift, report)


def test_a_part_in_pieces_is_judged_by_its_first_one(site: Site, tmp_path: Path) -> None:
    """As PostgreSQL does: pieces in the order of the page, from its end on."""
    names = next(parts[1] for table, _, parts in iterate_parts(site.old) if table == "buckets")
    pieces = [names[:90], names[90:]]
    copy = tmp_path / "16387"
    copy.write_bytes(bytes(8_000) + pieces[1] + bytes(100) + pieces[0] + bytes(8_000))
    report = site.inspect(copy, canaries=(CANARY[:10],))
    assert (report.rows, report.destroyed, report.findings) == (1, 1, ())
    report = site.inspect(copy, site.old_keyring, (CANARY[:10],))
    assert (report.rows, report.openable) == (1, 1)
    assert "canary 1 of 1 is in it, in row 1 of the table buckets" in report.findings[0]


def write_wal(records: bytes, page: int = 8_192) -> bytes:
    """A segment of a write-ahead log: records that go on behind the header of the next page."""
    pages, first = [], True
    while records or first:
        header = struct.pack("<HHIQI4x", 0xD110, 2 if first else 1, 1, 0, 0)
        header += struct.pack("<QII", 7, 16 << 20, page) if first else b""
        room = page - len(header)
        pages.append(header + records[:room].ljust(room, b"\0"))
        records, first = records[room:], False
    return b"".join(pages)


@pytest.mark.parametrize("cut", [1, 6, 20, PREFIX, PREFIX + 30])
def test_a_record_of_wal_that_goes_on_behind_the_next_header_is_opened(site: Site, tmp_path: Path, cut: int) -> None:
    part = next(parts[1] for table, _, parts in iterate_parts(site.old) if table == "buckets")
    copy = tmp_path / "000000010000000000000001"
    copy.write_bytes(write_wal(bytes(8_192 - 40 - cut) + part + bytes(9_000)))
    assert part not in copy.read_bytes()
    report = site.inspect(copy, site.old_keyring, (CANARY,))
    assert (report.rows, report.openable) == (1, 1)
    assert "row 1 of the table buckets" in report.findings[0]


def test_a_store_from_before_it_was_sealed_is_a_finding(site: Site, tmp_path: Path) -> None:
    SqliteStore(tmp_path / "plain.db").close()
    (found,) = site.inspect(tmp_path / "plain.db").findings
    assert found.startswith(f"it holds a store in clear (version {VERSION} of the format)")
    (tmp_path / "b.tar").write_bytes(pack_tar("monday.db", (tmp_path / "plain.db").read_bytes()))
    (found,) = site.inspect(tmp_path / "b.tar").findings
    assert found.startswith("monday.db holds a store in clear")


def test_a_row_in_clear_in_a_sealed_store_is_a_finding(site: Site) -> None:
    with closing(sqlite3.connect(site.old)) as connection, connection:
        connection.execute("UPDATE terms SET body = x'00'")
    assert "it holds row 1 of the table terms in clear; delete it" in site.inspect(site.old).findings


def test_a_copy_of_the_keyring_is_a_finding(site: Site, tmp_path: Path) -> None:
    (folder := tmp_path / "backups").mkdir()
    shutil.copy(site.old, folder)
    (folder / "home.tar.gz").write_bytes(pack_tar("visits.keyring", (site.folder / "old.keyring").read_bytes(), "w:gz"))
    (found,) = site.inspect(folder).findings
    assert found.startswith("home.tar.gz/visits.keyring holds the keyring, or a copy of it")
    KeyringFile(folder / "other.keyring", create=True)
    assert len(site.inspect(folder).findings) == 1


def test_rows_of_another_keyring_are_noted_and_a_finding_if_there_are_no_others(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    other = KeyringFile(tmp_path / "b.keyring", create=True)
    SqliteStore(folder / "b.db", keyring=other).close()
    alone = site.inspect(folder)
    assert (alone.rows, alone.others, alone.notes) == (0, 2, ())
    (found,) = alone.findings
    assert f"2 sealed rows are of another keyring ({other.id[:8].hex()})" in found
    assert "whether they can be opened is not known here" in found
    assert alone.text.endswith("no sealed row of this keyring.")
    shutil.copy(site.old, folder)
    beside = site.inspect(folder)
    assert (beside.others, beside.findings, beside.notes) == (2, (), (found,))


PERSON = b"ada.lovelace@example.org"
_SHEET = b"<sst><si><t>" + PERSON + b"</t></si></sst>"
HIDDEN = {
    "clear": b"..." + PERSON + b"...",
    "hexadecimal": PERSON.hex().encode(),
    "gzip": gzip.compress(PERSON),
    "tar, gzip": pack_tar("mail", PERSON, "w:gz"),
    "bzip2": bz2.compress(PERSON),
    "xz": lzma.compress(PERSON),
    "UTF-16": "ä ada.lovelace@example.org".encode("utf-16"),
    "another case": b"Ada.Lovelace@Example.org",
    "base64": base64.b64encode(b"To: " + PERSON + b"\n"),
    "hash": hashlib.sha256(PERSON).hexdigest().encode(),
    "xlsx": pack_zip({"[Content_Types].xml": b"<Types/>", "xl/sharedStrings.xml": _SHEET}),
    "zip": pack_zip({"empty": b"", "mail": PERSON}),
}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PGDMP\x01\x0e\x00 ...", "pg_restore -f dump.sql FILE"),
        (b"\x28\xb5\x2f\xfd ...", "zstd -d FILE"),
        (b"7z\xbc\xaf\x27\x1c ...", "7z x FILE"),
        (b"Rar!\x1a\x07 ...", "unrar x FILE"),
        (b"PK\x03\x04 ...", "cannot be read to its end (it is damaged or cut off)"),
        (pack_zip({"a": b"text"}, zipfile.ZIP_LZMA), "a is packed by method 14 of zip"),
        (pack_zip({"a": b"text"}).replace(b"PK\x03\x04\x14\0\0", b"PK\x03\x04\x14\0\1"), "a is encrypted"),
        (pack_zip({"a": b"text"})[:34], "cannot be read to its end (it is damaged or cut off)"),
        (gzip.compress(bytes(10_000))[:-20], "cannot be read to its end (it is damaged or cut off)"),
        (b"\x1f\x8b\x08 not gzip at all", "cannot be read to its end"),
        (bytes(range(256)) * 40, "nothing was recognised"),
        (b"", "nothing was recognised"),
    ],
    ids=[
        "custom dump",
        "zstd",
        "7z",
        "rar",
        "zip",
        "zip, lzma",
        "zip, encrypted",
        "zip, cut off",
        "gzip, cut off",
        "gzip, damaged",
        "noise",
        "empty",
    ],
)
def test_what_cannot_be_looked_into_is_a_finding(site: Site, tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "dump").write_bytes(content)
    report = site.inspect(tmp_path / "dump")
    assert said in report.findings[0]
    (folder := tmp_path / "folder").mkdir()
    shutil.copy(site.old, folder)
    (folder / "dump").write_bytes(content)
    assert bool(site.inspect(folder).findings) == ("nothing" not in said), "the other file is a backup of the store"


@pytest.mark.parametrize("name", HIDDEN)
def test_a_canary_is_found_where_it_hides(site: Site, tmp_path: Path, name: str) -> None:
    (folder := tmp_path / "folder").mkdir()
    (folder / "mail").write_bytes(HIDDEN[name])
    (found,) = site.inspect(folder, canaries=(b"nobody@example.net", PERSON)).findings
    assert re.fullmatch(r"canary 2 of 2 is in mail[^,]*(, in clear)?", found)
    assert PERSON.decode() not in found.lower()


def test_a_file_that_is_gone_is_a_finding(site: Site) -> None:
    (site.folder / "more").mkdir()
    shutil.copy(site.old, site.folder / "more")
    (site.folder / "more" / "link").symlink_to("nowhere")
    (found,) = site.inspect(site.folder / "more").findings
    assert "link cannot be read (No such file or directory), so it was not looked at" in found


def test_a_keyring_of_an_earlier_time_is_named(site: Site) -> None:
    reader = open_reader(site.store, keyring=site.old_keyring)
    report = inspect_backup(site.store, site.old_keyring, reader.list_versions)
    assert (report.newer, report.openable) == (report.rows - 2, 2)
    assert "newer than the keyring, so it is a copy from an earlier time" in report.findings[-1]


def test_a_prefix_that_was_overwritten_in_part_is_not_a_newer_row(site: Site) -> None:
    """PostgreSQL moves rows within a page, so that another one may lie over the version in a prefix."""
    content, whole = site.old.read_bytes(), site.inspect(site.old)
    found = [Prefix.parse(content[match.start() :]) for match in re.finditer(re.escape(MAGIC), content)]
    slot = next(prefix.slot for prefix in found if prefix is not None and prefix.slot != MARKER)
    torn = Prefix(site.keyring.id[:SHORT_ID], slot, 1 << 40, 0, 100).pack()
    site.old.write_bytes(content + torn)
    report = site.inspect(site.old)
    assert (report.rows, report.newer, report.findings) == (whole.rows, 0, whole.findings)
    assert "1 prefix of sealed rows is overwritten in part" in report.notes[-1]
    earlier = open_reader(site.store, keyring=site.old_keyring)
    assert inspect_backup(site.old, site.old_keyring, earlier.list_versions).newer == 1, "in doubt it counts"


def test_a_backup_of_a_later_time_is_named_where_store_and_keyring_were_put_back(site: Site) -> None:
    reader = open_reader(site.old, keyring=site.old_keyring)
    report = inspect_backup(site.store, site.old_keyring, reader.list_versions)
    assert report.newer
    assert "newer than the keyring, so it is a copy from an earlier time" in report.findings[-1]


def test_a_transaction_that_is_under_way_is_waited_for(site: Site) -> None:
    """It was committed between a look at the store and a look at the keyring: the rows that it wrote are no finding."""
    reader, earlier = open_reader(site.store, keyring=site.keyring), open_reader(site.old, keyring=site.old_keyring)
    looks = iter([earlier.list_versions(), *[reader.list_versions()] * 2])
    report = inspect_backup(site.store, site.keyring, looks.__next__)
    assert (report.current, report.openable, report.findings) == (report.rows, 0, ())


def test_a_keyring_that_was_destroyed_opens_nothing(site: Site) -> None:
    site.old_keyring.destroy()
    report = inspect_backup(site.old, site.old_keyring, dict)
    assert (report.destroyed, report.newer, report.findings) == (report.rows, 0, ())


def test_keys_that_a_crash_has_left_are_found(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is written again, and the process ends before it destroys the old key."""
    shutil.copy(site.store, site.folder / "before.db")
    settle, crashed = KeyringFile.settle, tmp_path / "crashed"

    def copy_first(keyring: KeyringFile, versions: Mapping[int, int]) -> None:
        if not crashed.exists():
            shutil.copytree(site.folder, crashed)
        settle(keyring, versions)

    with SqliteStore(site.store, keyring=site.keyring) as store:
        monkeypatch.setattr(KeyringFile, "settle", copy_first)
        Stream(Mean(), retention=96, seed=0, store=store.stream(STAYING)).extend(range(100, 200), source="x")
    assert site.inspect(site.folder / "before.db").findings == ()
    left = Site(crashed, KeyringFile(crashed / "a.keyring"), site.old_keyring)
    report = left.inspect(crashed / "before.db")
    assert report.openable >= 2
    assert "can be opened, since the keys are left" in report.findings[-1]
    SqliteStore(left.store, keyring=left.keyring).close()  # which settles them
    assert left.inspect(crashed / "before.db").findings == ()


def test_a_store_that_cannot_be_read_holds_nothing_that_counts(site: Site) -> None:
    reader = open_reader(site.store, keyring=site.old_keyring)
    report = inspect_backup(site.old, site.old_keyring, reader.list_versions)
    assert (report.current, report.openable) == (0, report.rows)
    assert "the rows of the store cannot be read" in report.notes[0]


def test_progress_ends_at_the_whole(site: Site) -> None:
    told: list[float] = []
    inspect_backup(site.folder, site.keyring, dict, tell=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_wrong_arguments(site: Site, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="there is no such file or folder"):
        site.inspect(tmp_path / "none")
    with pytest.raises(ParameterError, match="canar"):
        site.inspect(site.old, canaries=(b"",))


@given(st.lists(st.integers(1, 1 << 50) | st.integers(1, 5_000)))
def test_versions_are_a_set(numbers: list[int]) -> None:
    versions = Versions()
    for number in numbers:
        versions.add(number)
    assert versions.count == len(set(numbers))
    assert all(number in versions for number in numbers)
    assert all((number + 1 in versions) == (number + 1 in set(numbers)) for number in numbers)
