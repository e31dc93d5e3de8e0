"""Clients and servers die at any moment: the store is as before or after a transaction, and no record counts twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from postgres import Database, Server
from store import postgres_victim
from store.postgres_victim import CHUNK, PLACES, SOURCE, Order, Victims, ingest, make_whole
from vestige.store import MemoryStore
from vestige.store.keyring import file as keyring_file
from vestige.store.position import decode_count

LAST = 28
"""A client reaches each place at least so many times."""


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    with Victims.start() as started:
        yield started


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is about to settle the keys that a victim has left."""
    monkeypatch.setattr(keyring_file, "_SETTLING", 0.02)


@pytest.fixture(scope="module")
def whole() -> dict[str, MemoryStore]:
    return {kind: make_whole(kind) for kind in ("stream", "keyed")}


def make_order(database: Database, kind: str, **options: object) -> Order:
    return Order(database.address, str(database.keyring), kind)._replace(**options)  # type: ignore[arg-type]


def check(database: Database, kind: str, whole: MemoryStore) -> int:
    """What was left is whole and can be read; going on leads to what a run without interruption leaves."""
    if database.ask("SELECT 1 FROM pg_namespace WHERE nspname = 'OURS'"):  # it may not have been created yet
        found = [text for text in database.read().verify() if "holds keys of rows that were" not in text]
        assert found == []
    with database.open(patience=30.0) as store:
        assert store.verify() == ()
        positions = {decode_count(at.value) for at in store.positions(SOURCE).values()}
        arrived = store.count_arrived()[0]
        assert positions <= {arrived}
        assert arrived % CHUNK == 0 or kind == "stream"
        ingest(store, kind)
        store.flush()
        expected = whole.snapshot().all_streams()
        ended = store.snapshot().all_streams()
        assert ended.keys() == expected.keys()
        for name, (_, state) in expected.items():
            assert (ended[name][1].clock, ended[name][1].retained) == (state.clock, state.retained)
        assert store.verify() == ()
    return arrived


@pytest.mark.parametrize("kind", ["stream", "keyed"])
@pytest.mark.parametrize("place", PLACES)
def test_a_client_that_is_killed_in_a_transaction_loses_nothing(
    database: Database, victims: Victims, whole: dict[str, MemoryStore], kind: str, place: str
) -> None:
    for number in (1, 4):
        victims.send(make_order(database, kind, place=place, number=number))
        assert victims.wait() == -signal.SIGKILL
    check(database, kind, whole[kind])


def test_a_store_whose_creation_was_interrupted_is_created(
    database: Database, victims: Victims, whole: dict[str, MemoryStore]
) -> None:
    for place in PLACES:
        victims.send(make_order(database, "stream", place=place))
        assert victims.wait() == -signal.SIGKILL
    check(database, "stream", whole["stream"])


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGKILL])
@pytest.mark.parametrize("kind", ["stream", "keyed"])
def test_a_server_that_is_killed_loses_nothing_that_was_committed(
    database: Database, victims: Victims, whole: dict[str, MemoryStore], how: signal.Signals, kind: str
) -> None:
    database.open().close()
    victims.send(make_order(database, kind, tries=100))
    for _ in range(3):
        time.sleep(0.02)
        database.server.restart(how)
    assert victims.wait() == 0
    check(database, kind, whole[kind])


@pytest.mark.slow(60)
@pytest.mark.parametrize("kind", ["stream", "keyed"])
def test_clients_and_servers_that_are_killed_at_any_time(
    server: Server, victims: Victims, whole: dict[str, MemoryStore], kind: str, tmp_path: Path
) -> None:
    """15 clients and 15 servers are killed with SIGKILL at random moments, and some servers with SIGQUIT besides."""
    rng, arrived, clients, servers = np.random.default_rng(11), set[int](), 0, 0
    while clients < 15 or servers < 15:
        (folder := tmp_path / str(len(list(tmp_path.iterdir())))).mkdir()
        database = Database.create(server, folder)
        if rng.random() < 0.5:
            database.open().close()
        victims.send(make_order(database, kind, seconds=float(rng.uniform(0.0, 0.4))))
        ended = victims.wait()
        assert ended in (0, -signal.SIGKILL)
        clients += ended == -signal.SIGKILL
        victims.send(make_order(database, kind, tries=100))
        for _ in range(int(rng.integers(0, 4))):
            time.sleep(float(rng.uniform(0.0, 0.1)))
            how = signal.SIGKILL if rng.random() < 0.8 else signal.SIGQUIT
            server.restart(how)
            servers += how == signal.SIGKILL
        assert victims.wait() == 0
        arrived.add(check(database, kind, whole[kind]))
        server.ask(f'DROP SCHEMA "{database.schema}" CASCADE')
    assert arrived == {postgres_victim.ROWS}


@pytest.mark.slow(15)
@pytest.mark.parametrize(("place", "kills"), [(place, 24 if place == "prepared" else 8) for place in PLACES])
@pytest.mark.parametrize("kind", ["stream", "keyed"])
def test_clients_that_are_killed_at_every_place(
    server: Server,
    victims: Victims,
    whole: dict[str, MemoryStore],
    kind: str,
    place: str,
    kills: int,
    tmp_path: Path,
) -> None:
    """Each in a transaction drawn at random; most of them between the keyring and the commit."""
    rng, arrived = np.random.default_rng(12), set[int]()
    for run in range(kills):
        (folder := tmp_path / str(run)).mkdir()
        database = Database.create(server, folder)
        victims.send(make_order(database, kind, place=place, number=int(rng.integers(1, LAST + 1))))
        assert victims.wait() == -signal.SIGKILL
        arrived.add(check(database, kind, whole[kind]))
        server.ask(f'DROP SCHEMA "{database.schema}" CASCADE')
    assert len(arrived) > kills // 3
