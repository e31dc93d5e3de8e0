"""Killed at any moment under load, the service loses nothing that it acknowledged and counts nothing twice."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from killed import check_acknowledged, compile_kernels, find_disk, open_streams, send_while_killed, serve_apart

from postgres import Database
from vestige import open_store
from vestige.store import KeyringFile, open_reader

CLIENTS = 50


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk, which is gone at the end."""
    find_disk().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=find_disk()) as folder:
        yield Path(folder)


def check_kills(address: str, keyring: Path | None, kills: int, part: int = 0, clients: int = CLIENTS) -> None:
    """Kill a service under load, then compare its store, also after a last kill, with what was acknowledged."""
    compile_kernels()
    options = () if keyring is None else ("--keyring", str(keyring))
    with serve_apart(address, *options) as service:
        senders = send_while_killed(service, kills, clients, (0.05, 0.7), part)
    with open_store(address, keyring=keyring) as store:
        check_acknowledged(*open_streams(store), senders)
    assert open_reader(address, keyring=keyring).verify() == ()
    replayed = sum(sender.total.replayed for sender in senders)
    requests = sum(sender.total.requests for sender in senders)
    print(f"{kills} kills, {requests:,} requests, {replayed:,} of them taken before their answer was lost")
    assert min(sender.rounds for sender in senders) > 0


def test_nothing_is_lost_or_counted_twice(disk: Path) -> None:
    check_kills(str(disk / "own.db"), None, 3, clients=16)


@pytest.mark.slow(60)
def test_nothing_is_lost_or_counted_twice_in_many_kills(disk: Path) -> None:
    check_kills(str(disk / "own.db"), None, 12, 1)


@pytest.mark.slow(40)
def test_nothing_is_lost_or_counted_twice_in_a_sealed_store(disk: Path) -> None:
    KeyringFile(disk / "own.keyring", create=True)
    check_kills(str(disk / "own.db"), disk / "own.keyring", 8)


@pytest.mark.slow(40)
def test_nothing_is_lost_or_counted_twice_in_postgres(database: Database) -> None:
    check_kills(database.address, database.keyring, 8)
