"""Nothing of an erased record opens from any byte that PostgreSQL keeps: WAL, archive, replica, base backups, dumps.

What is in clear is looked for at every byte of every file. What is sealed is opened, as far as the keys of a keyring
allow, by a reader of its own, which knows the layout of `vestige.store.keyring.seal` and nothing else of Vestige.
"""

from __future__ import annotations

import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from postgres import Server, find_programs
from vestige import KeyedStreams, Mean, open_store
from vestige.store import KeyringFile
from vestige.types import Floats, Words

RETENTION = 56
PREFIX = struct.Struct("<4s8sQQB3xI")
HEX = re.compile(rb"\\\\x([0-9a-f]+)")


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


def iterate_files(folder: Path) -> Iterator[bytes]:
    """What is in each file; dumps as they are and with their bytes put back."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink():
            content = file.read_bytes()
            yield content
            if file.suffix == ".sql":
                yield from (bytes.fromhex(text.decode()) for text in HEX.findall(content))


def find_values(content: bytes, values: Words) -> set[int]:
    """Which of some sorted numbers are in bytes, at whatever place."""
    found: set[int] = set()
    starts = np.zeros(1 << 16, np.bool_)
    starts[values >> np.uint64(48)] = True  # few numbers begin like one of these, so that the rest is looked up quickly
    for start in range(min(8, len(content) - 7)):
        words = np.frombuffer(content, "<u8", (len(content) - start) // 8, start)
        words = words[starts[np.frombuffer(content, "<u2", 4 * len(words), start)[3::4]]]
        places = np.minimum(np.searchsorted(values, words), len(values) - 1)
        found |= set(words[values[places] == words].tolist())
    return found


def open_all(content: bytes, keyring: bytes, keys: Mapping[int, list[tuple[int, bytes]]]) -> Iterator[bytes]:
    """What comes out of each sealed part, under each key that its slot has, fitting or not."""
    for match in re.finditer(re.escape(b"VSL\x01" + keyring[:8]), content):
        head = content[match.start() : match.start() + PREFIX.size]
        if len(head) == PREFIX.size:
            _, _, slot, _, part, length = PREFIX.unpack(head)
            sealed = content[match.end() - 12 + PREFIX.size :][: min(length, 1 << 20)]
            for _, secret in keys.get(slot, []):
                counter = part.to_bytes(12, "little") + (2).to_bytes(4, "big")
                yield Cipher(AES(secret), CTR(counter)).decryptor().update(sealed)


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


def plant(server: Archive, keyring: KeyringFile, records: int, keys: int) -> tuple[Words, Words, bytes]:
    """Plant records, copy on the way, and let most of them go; all values, those that are held, an older keyring."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=records)
    names = np.array([f"canary-stream-{key}" for key in range(keys)])
    chosen = rng.integers(keys, size=records)
    with open_store(server.address("canaries"), keyring=keyring, key=keyring.path.with_suffix(".subjects")) as store:
        streams = KeyedStreams(Mean(), retention=RETENTION, seed=0, store=store.family())
        blocks = np.array_split(np.arange(records), 20)
        for number, block in enumerate(blocks):
            who = [f"canary-{row}@example.org" for row in block]
            streams.extend(names[chosen[block]], values[block], subjects=who)
            if number == 6:
                server.dump("early")
            if number == 13:
                server.dump("late")
                server.back_up("late")
                older = keyring.path.read_bytes()
        for key in range(0, keys, 2):
            streams.remove(f"canary-stream-{key}")
        held = [streams.retained(name).values[:, 0] for name in streams]
    return as_words(values), as_words(np.concatenate(held)), older


def check(server: Archive, tmp_path: Path, records: int, keys: int) -> None:
    keyring = KeyringFile(tmp_path / "keyring", create=True)
    replica = Replica(server)
    everything, held, older = plant(server, keyring, records, keys)
    erased = np.setdiff1d(everything, held)
    assert len(erased) > 0.5 * records
    server.ask("SELECT pg_switch_wal()")
    server.ask("CHECKPOINT")
    replica.catch_up()
    replica.stop()
    server.stop(signal.SIGINT)
    secrets, older_secrets = read_keys(keyring.path.read_bytes()), read_keys(older)
    size, opened, old = 0, set[int](), set[int]()
    for content in iterate_files(server.folder):
        size += len(content)
        assert not find_values(content, everything), "in clear"
        assert b"canary-" not in content, "in clear"
        for plain in open_all(content, keyring.id, secrets):
            opened |= find_values(plain, everything)
        for plain in open_all(content, keyring.id, older_secrets):
            old |= find_values(plain, everything)
    assert size > 10 * 8 * records
    assert not opened & set(erased.tolist()), "what was erased opens with the keyring of today"
    assert opened, "what is held opens with it"
    assert old & set(erased.tolist()), "a keyring of that time would open it"


def test_nothing_that_was_erased_opens_from_what_the_server_keeps(server: Archive, tmp_path: Path) -> None:
    check(server, tmp_path, 20_000, 200)


@pytest.mark.slow
def test_nothing_of_a_million_records_opens(server: Archive, tmp_path: Path) -> None:
    check(server, tmp_path, 1_000_000, 10_000)
