"""What anybody could open who has the files of a sealed store: read by the layout alone, without the package."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PAGE, SECTOR = 4096, 512
COLUMNS = {
    "about": "body",
    "terms": "head, body",
    "sources": "body",
    "ledger": "head, body",
    "subjects": "head, body",
    "buckets": "head, names, body",
}
Files = tuple[bytes, bytes]
"""A database, and its journal."""


def read_files(path: Path) -> Files:
    """The files of a store; no journal is an empty one."""
    journal = path.with_name(f"{path.name}-journal")
    with suppress(FileNotFoundError):
        return path.read_bytes(), journal.read_bytes()
    return path.read_bytes(), b""


def list_secrets(keyring: bytes) -> set[bytes]:
    """All keys of a keyring: two in each of the 31 slots of a page, after a label of 128 bytes."""
    halves = [at for at in range(PAGE, len(keyring), 64) if at % PAGE >= 128]
    return {keyring[at + 8 : at + 40] for at in halves} - {bytes(32)}


def roll_back(database: bytes, journal: bytes) -> bytes:
    """The database before what a journal tells of, also if that was committed: its header may be zero."""
    made, at = bytearray(database), SECTOR
    while at + PAGE + 8 <= len(journal):
        (number,) = struct.unpack_from(">I", journal, at)
        if 0 < number < 1 << 20:
            made += bytes(max(0, number * PAGE - len(made)))
            made[(number - 1) * PAGE : number * PAGE] = journal[at + 4 : at + 4 + PAGE]
            at += PAGE + 8
        else:
            at = (at // SECTOR + 2) * SECTOR  # another header
    return bytes(made)


def list_parts(files: Iterable[Files], scratch: Path) -> set[bytes]:
    """All sealed parts of rows in these files."""
    stored, images = set[bytes](), {image for each in files for image in (each[0], roll_back(*each))}
    for image in images:
        scratch.write_bytes(image)
        with closing(sqlite3.connect(scratch)) as database:
            for table, columns in COLUMNS.items():
                with suppress(sqlite3.Error):
                    for row in database.execute(f"SELECT {columns} FROM {table}"):  # noqa: S608
                        stored |= {part for part in row if isinstance(part, bytes) and part.startswith(b"VSL\x01")}
    scratch.unlink(missing_ok=True)
    return stored


def open_parts(parts: Iterable[bytes], keyring: bytes) -> Iterator[bytes]:
    """What any key of a keyring opens of sealed parts: AES-256-GCM, after 36 bytes that it covers too."""
    ciphers = [AESGCM(secret) for secret in list_secrets(keyring)]
    for part in parts:
        number, length = struct.unpack_from("<B3xI", part, 28)
        for cipher in ciphers:
            with suppress(InvalidTag):
                yield cipher.decrypt(number.to_bytes(12, "little"), part[36 : 36 + length], part[:36])
