"""Nothing of an erased record opens from any byte that PostgreSQL keeps: WAL, archive, replica, base backups, dumps.

What is in clear is looked for at every byte of every file. What is sealed is opened, as far as the keys of a keyring
allow, by a reader of its own, which knows the layout of `vestige.store.keyring.seal` and nothing else of Vestige. A
table that is not sealed shows that what is in clear is found in every place; a keyring of an earlier time shows that
what was erased since would open.
"""

from __future__ import annotations

import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from postgres import Server, find_programs
from vestige import KeyedStreams, Mean, MeanEstimate, open_store
from vestige.store import KeyringFile
from vestige.store.keyring.backup import inspect_backup
from vestige.types import Floats, Words

RETENTION = 56
PREFIX = struct.Struct("<4s8sQQB3xI")
HEX = re.compile(rb"\\\\x([0-9a-f]+)")
NAME = re.compile(rb"canary-[a-z0-9-]+")
SEGMENT = re.compile("[0-9A-F]{24}")
PAGE, FIRST_HEADER, HEADER = 8_192, 40, 24
"""Bytes of a page of the write-ahead log, of the header of the first page of a segment, and of those of the others."""
LONGEST = 1 << 20
PLACES = {"archive", "data", "replica", "late", "early.sql", "late.sql", "last.sql"}
"""Whatever is kept of the cluster."""
Keys = Mapping[int, list[tuple[int, bytes]]]
"""Versions and secrets by slot."""


class Archive(Server):
    """A server that archives its log, and from which copies are taken."""

    def start(self) -> None:
        """Start the server, with an archive beside its data."""
        archive = self.folder / "archive"
        if not archive.exists():
            archive.mkdir()
            (self.folder / "data" / "postgresql.auto.conf").write_text(
                f"archive_mode = on\narchive_command = 'cp %p {archive}/%f'\nwal_keep_size = '64MB'\n"
            )
            (self.folder / "data" / "pg_hba.conf").write_text("local all all trust\nlocal replication all trust\n")
            if self._user is not None:
                shutil.chown(archive, self._user)
        super().start()

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL against the server."""
        self._run(program, "-h", str(self.folder), "-p", str(self.port), "-U", self.superuser, *arguments)

    def dump(self, name: str) -> None:
        """Dump the database as SQL."""
        self.run("pg_dump", "-d", "postgres", "-f", str(self.folder / f"{name}.sql"))

    def back_up(self, name: str) -> Path:
        """Take a base backup, which can be started as a replica."""
        self.run("pg_basebackup", "-D", str(self.folder / name), "-X", "stream", "-c", "fast", "-R")
        return self.folder / name


class Replica:
    """A standby of a server."""

    def __init__(self, server: Archive) -> None:
        folder = server.back_up("replica")
        self._server = server
        settings = {"listen_addresses": "", "archive_mode": "off", "unix_socket_directories": str(folder)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [str(server._programs / "postgres"), "-D", str(folder), *options],
            user=server._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def catch_up(self) -> None:
        """Wait until the standby has all that the server has written."""
        lag = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) FROM pg_stat_replication"
        for _ in range(600):
            if self._server.ask(lag) == [(0,)]:
                return
            time.sleep(0.1)
        raise RuntimeError("the replica does not catch up")

    def stop(self) -> None:
        """End the standby."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)


@pytest.fixture
def server() -> Iterator[Archive]:
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (initdb is not found); install the package postgresql to run this")
    made = Archive(programs)
    try:
        yield made
    finally:
        made.remove()


def iterate_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What is in each file as it is, and in which place it lies; dumps and logs also with their bytes put together."""
    end = b""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink():
            place, content = file.relative_to(folder).parts[0], file.read_bytes()
            yield place, content
            if file.suffix == ".sql":
                yield place, b"\n".join(bytes.fromhex(text.decode()) for text in HEX.findall(content))
            if SEGMENT.fullmatch(file.name):
                pages = np.frombuffer(content, np.uint8).reshape(-1, PAGE)
                log = end + pages[0, FIRST_HEADER:].tobytes() + pages[1:, HEADER:].tobytes()
                yield place, log
                end = log[-LONGEST:]  # what begins in this segment may end in the next


class Canaries:
    """Numbers that are looked for, at whatever place."""

    def __init__(self, values: Words) -> None:
        self._values = np.unique(values)
        self._starts = np.zeros(1 << 16, np.bool_)
        self._starts[self._values >> np.uint64(48)] = True  # few begin like one of these, so the rest is found quickly

    def find(self, content: bytes) -> Words:
        """Which of them are in bytes."""
        found = [np.zeros(0, np.uint64)]
        for start in range(min(8, len(content) - 7)):
            words = np.frombuffer(content, "<u8", (len(content) - start) // 8, start)
            words = words[self._starts[np.frombuffer(content, "<u2", 4 * len(words), start)[3::4]]]
            places = np.minimum(np.searchsorted(self._values, words), len(self._values) - 1)
            found.append(np.unique(words[self._values[places] == words]))
        return np.unique(np.concatenate(found))


class Opened:
    """What a keyring opens of all bytes that are shown to it."""

    def __init__(self, keyring: Path, canaries: Canaries) -> None:
        content = keyring.read_bytes()
        self._magic = b"VSL\x01" + content[12:20]
        self._keys, self._canaries = read_keys(content), canaries
        self.versions, self.openable, self.parts = set[int](), dict[str, set[int]](), 0
        self._values = [np.zeros(0, np.uint64)]

    @property
    def values(self) -> Words:
        """The numbers that were found in what was opened."""
        return np.unique(np.concatenate(self._values))

    def show(self, place: str, content: bytes) -> None:
        """Open each sealed part under each key that its slot has, fitting or not, and look for the numbers in it."""
        plain = []
        for match in re.finditer(re.escape(self._magic), content):
            start = match.start() + PREFIX.size
            if start > len(content):
                continue
            _, _, slot, version, part, length = PREFIX.unpack_from(content, match.start())
            self.versions.add(version)
            self.parts += 1
            for kept, secret in self._keys.get(slot, []):
                counter = part.to_bytes(12, "little") + (2).to_bytes(4, "big")
                sealed = content[start : start + min(length, LONGEST)]
                plain.append(Cipher(AES(secret), CTR(counter)).decryptor().update(sealed))
                if kept == version:
                    self.openable.setdefault(place, set()).add(version)
        self._values.append(self._canaries.find(b"\n".join(plain)))


def read_keys(file: bytes) -> dict[int, list[tuple[int, bytes]]]:
    """The keys of a keyring, by slot."""
    keys: dict[int, list[tuple[int, bytes]]] = {}
    for start in range(4096, len(file), 4096):
        number = struct.unpack_from("<Q", file, start + 8)[0]
        for place in range(62):
            version, secret = struct.unpack_from("<Q32s", file, start + 128 + 64 * place)
            if version:
                keys.setdefault(number * 31 + place // 2, []).append((version, secret))
    return keys


def as_words(values: Floats) -> Words:
    return np.unique(np.ascontiguousarray(values).view(np.uint64))


@dataclass(frozen=True, slots=True)
class Planted:
    """What was planted, and what is left of it.

    Attributes:
        everything: all values.
        early: those that were held when the earlier keyring was copied.
        held: those that are held now.
        older: the earlier keyring.
        versions: which writing of each row the store holds now.
    """

    everything: Words
    early: Words
    held: Words
    older: Path
    versions: dict[int, int]


def plant(server: Archive, keyring: KeyringFile, records: int, keys: int) -> Planted:
    """Plant records, copy on the way, and let most of them go."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=records)
    names = np.array([f"canary-stream-{key}" for key in range(keys)])
    chosen = rng.integers(keys, size=records)
    with open_store(server.address("canaries"), keyring=keyring, key=keyring.path.with_suffix(".subjects")) as store:
        streams = KeyedStreams(Mean(), retention=RETENTION, seed=0, store=store.family())
        for number, block in enumerate(np.array_split(np.arange(records), 20)):
            who = [f"canary-{row}@example.org" for row in block]
            streams.extend(names[chosen[block]], values[block], subjects=who)
            if number == 6:
                server.dump("early")
            if number == 13:
                server.dump("late")
                server.back_up("late")
                older = Path(shutil.copy(keyring.path, keyring.path.with_suffix(".older")))
                early = list_held(streams)
        for key in range(0, keys, 2):
            streams.remove(f"canary-stream-{key}")
        server.dump("last")
        return Planted(as_words(values), early, list_held(streams), older, store.list_versions())


def list_held(streams: KeyedStreams[MeanEstimate]) -> Words:
    return as_words(np.concatenate([streams.retained(name).values[:, 0] for name in streams]))


def plant_control(server: Archive) -> tuple[Words, bytes]:
    """Plant numbers and a name in clear, which must be found."""
    control, name = np.random.default_rng(1).integers(1 << 64, size=100, dtype=np.uint64), "canary-control"
    server.ask("CREATE TABLE control (name text, value bytea)")
    for value in control:
        server.ask("INSERT INTO control VALUES (%s, %s)", name, value.tobytes())
    return np.sort(control), name.encode()


def check(server: Archive, tmp_path: Path, records: int, keys: int) -> None:
    keyring = KeyringFile(tmp_path / "keyring", create=True)
    replica = Replica(server)
    control, name = plant_control(server)
    planted = plant(server, keyring, records, keys)
    server.ask("SELECT pg_switch_wal()")
    server.ask("CHECKPOINT")
    replica.catch_up()
    replica.stop()
    server.stop(signal.SIGINT)
    clear, canaries = dict[str, set[int | bytes]](), Canaries(np.concatenate([planted.everything, control]))
    today, then = Opened(keyring.path, canaries), Opened(planted.older, canaries)
    size = 0
    for place, content in iterate_files(server.folder):
        size += len(content)
        clear.setdefault(place, set()).update(canaries.find(content).tolist(), NAME.findall(content))
        today.show(place, content)
        then.show(place, content)
    print(f"{records:,} records: {size:,} bytes, {today.parts:,} sealed parts of {len(today.versions):,} rows")
    assert size > 10 * 8 * records
    found = {place: values for place, values in clear.items() if values}
    assert found == {place: {*control.tolist(), name} for place in PLACES}, "in clear"
    check_opened(planted, today, then)
    check_reports(server.folder, keyring, planted, today)


def check_opened(planted: Planted, today: Opened, then: Opened) -> None:
    """The keyring of today opens what is held and no more; that of an earlier time opens what was held then."""
    assert len(planted.held) < 0.5 * len(planted.everything)
    assert np.array_equal(today.values, planted.held), "opens with the keyring of today"
    assert set[int]().union(*today.openable.values()) == today.openable["last.sql"], "rows that are not held open"
    assert np.array_equal(np.intersect1d(then.values, planted.early), planted.early), "would open with that keyring"
    assert len(np.setdiff1d(planted.early, planted.held)) > 0.5 * len(planted.early), "most of which is erased"


def check_reports(folder: Path, keyring: KeyringFile, planted: Planted, today: Opened) -> None:
    """What `vestige verify --against` says of all that is kept is what was found here."""
    report = inspect_backup(folder, keyring, lambda: planted.versions)
    assert report.findings == ()
    assert (report.current, report.openable) == (len(planted.versions), 0)
    assert report.rows == pytest.approx(len(today.versions), rel=0.1), "besides prefixes that are cut or overwritten"
    older = inspect_backup(folder, KeyringFile(planted.older), lambda: planted.versions)
    assert "is a copy from an earlier time" in " ".join(older.findings)
    assert older.openable


def test_nothing_that_was_erased_opens_from_what_the_server_keeps(server: Archive, tmp_path: Path) -> None:
    check(server, tmp_path, 20_000, 200)


@pytest.mark.slow(40)
def test_nothing_of_a_hundred_thousand_records_opens(server: Archive, tmp_path: Path) -> None:
    check(server, tmp_path, 100_000, 1_000)
