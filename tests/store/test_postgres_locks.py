"""A stream has one writer, a store many; and what two of them do at the same time is what they do one after another."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from postgres import Database
from vestige import Clock, KeyedStreams, Mean, Records, Stream
from vestige.errors import ParameterError, StoreBusyError, StoreError, StreamsError
from vestige.store import KeyringFile, MemoryStore, PostgresStore, State, Store
from vestige.store.postgres.locks import Locks, Right


def open_stream(store: Store, name: str, retention: int = 96) -> Stream:
    return Stream(Mean(), retention=retention, seed=1, store=store.stream(name))


def open_family(store: PostgresStore, retention: int = 96) -> KeyedStreams:
    return KeyedStreams(Mean(), retention=retention, seed=1, store=store.family())


def test_a_stream_that_is_open_elsewhere_is_refused_until_it_is_closed(database: Database) -> None:
    with database.open() as one, database.open() as other:
        open_stream(one, "a").push(1.0)
        with pytest.raises(StoreBusyError, match="stream 'a' is open for writing elsewhere; a stream has one writer"):
            open_stream(other, "a")
        one.release_stream("a")
        assert open_stream(other, "a").t == 1
        with pytest.raises(StoreBusyError, match="'a' is open"):
            open_stream(one, "a")
        other.remove("a")
        assert open_stream(one, "a").t == 0
        one.close()
        assert open_stream(other, "a").t == 0


def test_a_stream_that_could_not_be_opened_is_free_for_others(database: Database) -> None:
    with database.open() as one, database.open() as other:
        open_stream(one, "a").push(1.0)
        one.release()
        with pytest.raises(StoreError, match="other terms"):
            open_stream(one, "a", retention=48)
        assert open_stream(other, "a").t == 1
        one.stream("bad").write(open_stream(one, "new").terms, State(Clock(t=100), Records.empty(1)))
        for store in (one, other):
            with pytest.raises(ParameterError, match="does not fit updates"):
                open_stream(store, "bad")


def test_a_family_is_open_as_a_whole_or_stream_by_stream(database: Database) -> None:
    with database.open() as one, database.open() as other:
        family = open_family(one)
        family.extend(["a", "b"], [1.0, 2.0])
        with pytest.raises(StoreBusyError, match="stream 'a' is open for writing elsewhere"):
            open_stream(other, "a")
        with pytest.raises(StoreBusyError, match="streams with these terms are open for writing elsewhere"):
            open_family(other)
        open_stream(other, "c", retention=48)
        one.release()
        open_stream(other, "a").push(3.0)
        with pytest.raises(StoreBusyError, match="streams with these terms"):
            open_family(one)
        open_stream(one, "b").push(3.0)
        other.release()
        one.release()
        assert sorted(open_family(other)) == ["a", "b"]


def test_a_second_stream_here_takes_the_place_of_the_first(database: Database) -> None:
    with database.open() as one, database.open() as other:
        open_stream(one, "a").push(1.0)
        again = open_stream(one, "a")
        assert again.t == 1
        with pytest.raises(StoreBusyError, match="'a' is open"):
            open_stream(other, "a")
        assert len(one.holdings._locks.held) == 2
        one.release()
        open_stream(other, "a")


def test_a_stream_that_is_open_elsewhere_cannot_be_written_or_removed_here(database: Database) -> None:
    with database.open() as one, database.open() as other:
        stream = open_stream(one, "a")
        stream.push(1.0)
        stream.flush()
        found = other.read_stream("a")
        assert found is not None
        with pytest.raises(StoreBusyError, match="'a' is open"):
            other.stream("a").write(*found)
        with pytest.raises(StoreBusyError, match="'a' is open"):
            other.remove("a")
        one.release()
        other.stream("a").write(*found)
        assert open_stream(one, "a").t == 1, "who wrote without opening has let go of it"


def test_a_name_with_other_terms_is_refused_when_it_is_written(database: Database) -> None:
    with database.open() as one, database.open() as other:
        mine = open_stream(one, "a")
        open_family(other, retention=48).extend(["a"], [1.0])
        mine.push(1.0)
        with pytest.raises(StoreError, match="stream 'a' was created with other terms"):
            mine.flush()
        assert other.terms("a").retention == 48
        one._drop("a")


def test_a_key_that_another_process_has_given_other_terms_is_refused_when_it_is_written(database: Database) -> None:
    with database.open() as one, database.open() as other:
        mine = open_family(one)
        mine.extend(["z"], [1.0])
        mine.take(["a", "b"], [1.0, 2.0])
        stream = open_stream(other, "a", retention=48)
        stream.push(5.0)
        stream.flush()
        with pytest.raises(StreamsError, match=r"'a' first: stream 'a' was created with other .* others were written"):
            mine.flush()
        assert other.names() == ("a", "b", "z")
        assert other.terms("a").retention == 48
        assert list(mine.take(["a", "b"], [1.0, 2.0]).troubles) == ["a"]
        assert one.verify() == ()
        mine.flush()


def test_a_key_that_another_process_creates_meanwhile_is_its_own_trouble(
    database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.open() as one, database.open() as other:
        mine, theirs = open_family(one), open_family(other, retention=48)
        with monkeypatch.context() as patch:
            write = mine._write
            patch.setattr(mine, "_write", lambda: (theirs.extend(["a"], [5.0]), write()))
            with pytest.raises(StreamsError, match="stream 'a' was created with other terms") as raised:
                mine.extend(["a", "b"], [1.0, 2.0])
        assert list(raised.value.troubles) == ["a"]
        assert other.names() == ("a", "b")
        mine.take(["c", "d"], [1.0, 2.0])
        theirs.extend(["c"], [5.0])
        one.close()  # writes what is left
        assert "stream 'c' was created with other terms" in caplog.text
        assert other.names() == ("a", "b", "c", "d")
        assert other.verify() == ()
        assert theirs.clock("a").t == theirs.clock("c").t == 1


def test_new_keys_are_checked_in_the_buckets_that_another_process_has_split(database: Database) -> None:
    with database.open() as one, database.open() as other:
        mine = open_family(one)
        mine.extend(["z"], [1.0])
        names = [f"n{i}" for i in range(300)]
        place = other.family(about={"of": "others"})
        KeyedStreams(Mean(), retention=96, seed=1, store=place).extend(names, np.arange(300.0))
        assert other._session.tables.about.buckets > 1
        made = mine.take([*names, "mine"], np.arange(301.0))
        assert sorted(made.troubles) == sorted(names)
        mine.flush()
        assert one.count() == 302
        assert one.verify() == ()


def write(address: str, keyring: Path, names: list[str], seed: int, barrier: Connection) -> None:
    """What one of the processes does: some streams, pushed and flushed in turn with the others."""
    rng = np.random.default_rng(seed)
    with PostgresStore(address, keyring=keyring, patience=60.0) as store:
        streams = [open_stream(store, name) for name in names]
        barrier.send("ready")
        assert barrier.poll(60)
        barrier.recv()
        for _ in range(25):
            for stream in streams:
                stream.extend(rng.normal(size=int(rng.integers(1, 60))), source="rows", subjects=None)
            if rng.random() < 0.5:
                store.flush()
            if rng.random() < 0.1:
                store.tidy()


def test_processes_write_at_the_same_time(database: Database) -> None:
    database.open().close()
    given = {seed: [f"{seed}-{i}" for i in range(4)] for seed in (1, 2, 3)}
    context = multiprocessing.get_context("fork")
    pipes, workers = [], []
    for seed, names in given.items():
        here, there = context.Pipe()
        given_to = database.address, database.keyring, names, seed, there
        worker = context.Process(target=write, args=given_to, daemon=True)
        worker.start()
        there.close()  # so that the end of the process is the end of the pipe
        workers.append(worker)
        pipes.append(here)
    for pipe in pipes:
        assert pipe.poll(60), "a process has not opened its streams within a minute"
        assert pipe.recv() == "ready"
    for pipe in pipes:
        pipe.send("go")
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    memory = MemoryStore()
    for seed, names in given.items():
        rng = np.random.default_rng(seed)
        streams = [open_stream(memory, name) for name in names]
        for _ in range(25):
            for stream in streams:
                stream.extend(rng.normal(size=int(rng.integers(1, 60))), source="rows", subjects=None)
            rng.random()
            rng.random()
    memory.flush()
    found = database.read().snapshot().all_streams()
    assert found.keys() == memory.snapshot().all_streams().keys()
    for name, (_, state) in memory.snapshot().all_streams().items():
        assert (found[name][1].clock, found[name][1].retained) == (state.clock, state.retained)
        assert found[name][1].positions == state.positions
    assert database.read().verify() == ()


def test_a_commit_waits_for_others_and_says_so_in_the_end(database: Database) -> None:
    with database.open(patience=0.2) as one, database.open(patience=0.2) as other:
        stream = open_stream(one, "a")
        stream.push(1.0)
        with other._use(), pytest.raises(StoreBusyError, match=r"reads or writes the store .* nothing was changed"):
            stream.flush()
        stream.flush()
        with other.transaction(), pytest.raises(StoreBusyError, match="nothing was changed"):
            one.names()
        assert other.names() == ("a",)


def test_readers_do_not_wait_for_each_other(database: Database) -> None:
    with database.open(patience=0.2) as one, database.open(patience=0.2) as other, one._use():
        assert other.names() == ()


def test_locks_of_one_store_are_not_those_of_another(database: Database, tmp_path: Path) -> None:
    (folder := tmp_path / "another").mkdir()
    another = Database.create(database.server, folder)
    with database.open() as one, another.open() as other:
        open_stream(one, "a")
        open_stream(other, "a")


def test_a_rotation_that_fails_lets_others_open_the_store(database: Database, tmp_path: Path) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with database.open() as store:
        with pytest.raises(KeyboardInterrupt):
            store.rotate(KeyringFile(tmp_path / "new", create=True), tell=stop)
        with database.open(patience=0.2) as other:
            assert open_stream(other, "a").t == 0
        assert store.verify() == ()


def test_too_many_streams_for_the_locks_of_the_server_are_refused_with_the_setting(database: Database) -> None:
    room = 64 * 100  # max_locks_per_transaction times max_connections, and a little more
    with database.open() as store:
        locks: Locks = store._session.locks
        rights: list[Right] = [locks.make_stream(str(number), None) for number in range(room // 2)]
        assert locks.acquire(rights) == ([], [])
        with pytest.raises(StoreError, match="max_locks_per_transaction"):
            locks.acquire([locks.make_stream(f"more {number}", None) for number in range(2 * room)])
        assert store.names() == (), "it connects again"
