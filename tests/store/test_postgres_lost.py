"""A connection that is lost is begun again, and what others have written meanwhile is never overwritten."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from postgres import Database
from vestige import KeyedStreams, Mean, Stream
from vestige.errors import StoreError
from vestige.operations import forget
from vestige.store import KeyringFile, MemoryStore, PostgresStore, Store
from vestige.store.postgres.connection import Connection

ROWS = np.random.default_rng(0).normal(size=1_000)


def open_stream(store: Store, name: str = "a") -> Stream:
    return Stream(Mean(), retention=96, seed=1, store=store.stream(name))


def open_family(store: PostgresStore) -> KeyedStreams:
    return KeyedStreams(Mean(), retention=96, seed=1, store=store.family())


def expected(n: int) -> Stream:
    stream = open_stream(MemoryStore())
    stream.extend(ROWS[:n])
    return stream


def crash_server(database: Database) -> None:
    database.server.restart(signal.SIGQUIT)


def end_sessions(database: Database) -> None:
    database.end_sessions()


WAYS: list[Callable[[Database], None]] = [crash_server, end_sessions]


@pytest.mark.parametrize("lose", WAYS)
def test_streams_go_on_after_the_connection_was_lost(database: Database, lose: Callable[[Database], None]) -> None:
    with database.open() as store:
        stream = open_stream(store)
        stream.extend(ROWS[:100])
        lose(database)
        stream.extend(ROWS[100:250])
        lose(database)
        assert store.names() == ("a",)
        lose(database)
        store.flush()
        lose(database)
    with database.open() as store:
        again = open_stream(store)
        assert (again.clock, again.retained) == (expected(250).clock, expected(250).retained)
        assert store.verify() == ()


def test_the_server_is_told_of_a_session_that_the_client_has_lost(database: Database) -> None:
    with database.open(patience=5.0) as store:
        stream = open_stream(store)
        stream.extend(ROWS[:10])
        raw = store._session.connection._connection
        assert raw is not None
        store._session.connection._connection = None  # the server goes on with a session that holds the locks
        store.flush()
        assert store.read_stream("a")[1].clock == expected(10).clock  # type: ignore[index]
        raw.close()


@pytest.mark.parametrize("lose", WAYS)
@pytest.mark.parametrize("statement", ["BEGIN", "SELECT body FROM", "INSERT INTO", "COMMIT"])
def test_a_connection_that_is_lost_in_a_transaction_loses_nothing(
    database: Database, lose: Callable[[Database], None], statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.open() as store:
        stream = open_stream(store)
        stream.extend(ROWS[:100])
        store.flush()
        stream.extend(ROWS[100:110])
        with lose_at(monkeypatch, statement, lambda: lose(database)), pytest.raises(StoreError) as raised:
            stream.flush()
        unknown = "not known whether it was made; try again, which is safe"
        assert (unknown if statement == "COMMIT" else "connection to the server was lost") in str(raised.value)
        stream.extend(ROWS[110:200])
        store.flush()
        assert stream.clock == expected(200).clock
    with database.open() as store:
        assert open_stream(store).clock == expected(200).clock
        assert store.verify() == ()


@contextmanager
def lose_at(monkeypatch: pytest.MonkeyPatch, statement: str, lose: Callable[[], None]) -> Iterator[None]:
    """Lose the connection before the first statement that begins so."""
    waiting = [lose]
    find = Connection._find_cursor

    class Watched:
        def __init__(self, cursor: object) -> None:
            self._cursor = cursor

        def __getattr__(self, name: str) -> object:
            return getattr(self._cursor, name)

        def execute(self, query: bytes, *values: object) -> object:
            return self._act("execute", query, values)

        def executemany(self, query: bytes, *values: object) -> object:
            return self._act("executemany", query, values)

        def _act(self, name: str, query: bytes, values: object) -> object:
            if query.startswith(statement.encode()) and waiting:
                waiting.pop()()
            return getattr(self._cursor, name)(query, *values)  # type: ignore[misc]

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "_find_cursor", lambda self: Watched(find(self)))
        yield
    assert not waiting, f"there was no {statement}"


@pytest.mark.parametrize("committed", [False, True])
def test_a_commit_whose_outcome_is_not_known_is_found_out(
    database: Database, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to COMMIT is lost, whether it was carried out or not."""
    with database.open() as store, database.open() as other:
        stream = open_stream(store)
        stream.extend(ROWS[:100], subjects=["ada"] * 100)
        store.flush()
        stream.forget(subject="ada", now=True)
        stream.extend(ROWS[100:110])

        def commit(connection: Connection) -> None:
            raw = connection._connection
            assert raw is not None
            if committed:
                raw.execute("COMMIT")
            database.end_sessions()
            raw.execute("SELECT 1")

        def lost(connection: Connection) -> None:
            with connection.translate_errors():
                commit(connection)

        with monkeypatch.context() as patch:
            patch.setattr(Connection, "commit", lost)
            with pytest.raises(StoreError, match="not known whether it was made"):
                stream.flush()
        found = other.read_stream("a")
        assert found is not None
        assert found[1].clock.t == (110 if committed else 100)
        assert [text for text in other.verify() if "holds keys of rows that were" not in text] == []
        stream.push(ROWS[110])
        store.flush()
        assert other.read_stream("a")[1].clock == stream.clock  # type: ignore[index]
        assert other.verify() == ()


def steal(database: Database) -> None:
    """Another process opens the stream while it can, and changes it."""
    with database.open() as thief:
        stream = open_stream(thief)
        stream.extend(ROWS[500:520])


def steal_as_family(database: Database) -> None:
    with database.open() as thief:
        open_family(thief).extend(["a"], [1.0])


def steal_by_writing(database: Database) -> None:
    """Another process writes the stream without opening it, as operations do."""
    with database.open() as thief:
        found = thief.read_stream("a")
        assert found is not None
        thief.stream("a").write(*found)


def remove(database: Database) -> None:
    with database.open() as thief:
        thief.remove("a")


@pytest.mark.parametrize("lose", WAYS)
@pytest.mark.parametrize("act", [steal, steal_as_family, steal_by_writing, remove])
def test_a_stream_that_was_stolen_is_not_written_over(
    database: Database, lose: Callable[[Database], None], act: Callable[[Database], None]
) -> None:
    with database.open() as store:
        stream, other = open_stream(store), open_stream(store, "b")
        stream.extend(ROWS[:100])
        other.extend(ROWS[:100])
        store.flush()
        stream.push(5.0)
        other.push(5.0)
        lose(database)
        act(database)
        before = database.read().read_stream("a")
        for use in (stream.flush, lambda: stream.push(1.0), stream.sweep):
            with pytest.raises(StoreError, match=r"'a' was opened by another process while .* not flushed is lost"):
                use()
        store.flush()
        assert store.read_stream("a") == before
        if act is not steal_as_family:
            assert other.t == 101
            assert store.read_stream("b")[1].clock.t == 101  # type: ignore[index]
        if act is not remove:
            again = open_stream(store)
            assert again.t == before[1].clock.t  # type: ignore[index]


@pytest.mark.parametrize("act", [steal, steal_by_writing, remove])
def test_a_family_that_was_stolen_is_not_written_over(database: Database, act: Callable[[Database], None]) -> None:
    with database.open() as store:
        family = open_family(store)
        family.extend(["a", "b"], [1.0, 2.0])
        family.take(["a"], [3.0])
        end_sessions(database)
        act(database)
        with pytest.raises(StoreError, match="these streams were opened by another process"):
            family.flush()
        with pytest.raises(StoreError, match="these streams were opened by another process"):
            family.extend(["c"], [3.0])
        again = open_family(store)
        assert sorted(again) == (["b"] if act is remove else ["a", "b"])
        assert store.verify() == ()


def test_a_stream_that_was_opened_and_closed_elsewhere_unchanged_goes_on(database: Database) -> None:
    with database.open() as store:
        stream = open_stream(store)
        stream.extend(ROWS[:100])
        store.flush()
        stream.push(ROWS[100])
        end_sessions(database)
        with database.open() as other:
            open_stream(other)
            other.flush()
        stream.flush()
        assert store.read_stream("a")[1].clock == expected(101).clock  # type: ignore[index]


def test_a_stream_that_is_still_held_elsewhere_is_closed_here(database: Database) -> None:
    with database.open() as store, database.open() as other:
        stream = open_stream(store)
        stream.extend(ROWS[:100])
        store.flush()
        end_sessions(database)
        open_stream(other)
        with pytest.raises(StoreError, match="opened by another process while the connection was lost"):
            stream.extend(ROWS[100:300])


def test_an_erasure_by_another_process_is_not_undone(database: Database) -> None:
    with database.open() as store:
        stream = open_stream(store)
        stream.extend(ROWS[:40], subjects=["ada", "bob"] * 20)
        store.flush()
        end_sessions(database)
        with database.open() as other:
            forget(other, ["ada"], now=True)
        with pytest.raises(StoreError, match="opened by another process"):
            stream.extend(ROWS[:100])
        assert store.pseudonym("ada") not in store.read_stream("a")[1].retained.subjects  # type: ignore[index]


def test_two_that_lost_the_connection_do_not_overwrite_each_other(database: Database) -> None:
    """The second is behind the first, which has written since it connected again."""
    with database.open() as one, database.open() as other:
        first = open_stream(one)
        first.extend(ROWS[:50])
        one.flush()
        end_sessions(database)
        second = open_stream(other)
        assert second.t == 50
        end_sessions(database)
        first.extend(ROWS[50:70])
        first.flush()
        end_sessions(database)
        one.release()
        with pytest.raises(StoreError, match="opened by another process"):
            second.extend(ROWS[:100])


def test_a_server_that_is_gone_is_waited_for(database: Database) -> None:
    with database.open(patience=0.5) as store:
        stream = open_stream(store)
        stream.extend(ROWS[:100])
        database.server.stop()
        with pytest.raises(StoreError, match="no server listens on that socket; start it"):
            store.flush()
        with pytest.raises(StoreError, match="no server listens"):
            store.names()
        database.server.start()
        store.flush()
        assert store.names() == ("a",)


def test_a_session_that_was_interrupted_is_begun_anew(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with database.open() as store:
        stream = open_stream(store)
        stream.extend(ROWS[:100])

        def interrupt() -> None:
            raise KeyboardInterrupt

        for statement in ("SELECT pg_backend_pid(), current_setting", "INSERT INTO", "COMMIT"):
            stream.push(1.0)
            with lose_at(monkeypatch, statement, interrupt), pytest.raises(KeyboardInterrupt):
                stream.flush()
            stream.flush()
        assert store.read_stream("a")[1].clock == stream.clock  # type: ignore[index]
        assert store.verify() == ()
    assert database.ask("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'") == []


def test_an_interrupt_after_a_commit_does_not_destroy_what_was_committed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.open() as store:
        stream = open_stream(store)
        stream.extend(ROWS[:100])

        settle, interrupts = type(store._keyring).settle, [KeyboardInterrupt()]

        def interrupt(keyring: KeyringFile, versions: dict[int, int]) -> None:
            if interrupts:
                raise interrupts.pop()
            settle(keyring, versions)

        with monkeypatch.context() as patch:
            patch.setattr(type(store._keyring), "settle", interrupt)
            with pytest.raises(KeyboardInterrupt):
                stream.flush()
        assert database.read().read_stream("a")[1].clock.t == 100  # type: ignore[index]
        store.flush()
        assert store.verify() == ()


@pytest.mark.parametrize("method", ["prepare", "settle"])
def test_a_process_that_was_stopped_for_long_does_not_destroy_keys_of_others(
    database: Database, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """It had the lock of the store when it was stopped, and has lost it when it goes on."""
    with database.open() as store, database.open() as other:
        streams = open_stream(store), open_stream(other, "b")
        for stream in streams:
            stream.extend(ROWS[:40])
            stream.flush()
        act, stops = getattr(KeyringFile, method), [True]

        def stop(keyring: KeyringFile, *values: object) -> None:
            if stops and keyring is store._keyring:
                stops.clear()
                end_sessions(database)
                streams[1].extend(ROWS[40:140])
                streams[1].flush()
            act(keyring, *values)

        monkeypatch.setattr(KeyringFile, method, stop)
        streams[0].extend(ROWS[40:45])
        with pytest.raises(StoreError):
            streams[0].flush()
        assert not stops
        assert other.read_stream("b")[1].clock.t == 140  # type: ignore[index]
        store.flush()
        assert store.read_stream("a")[1].clock.t == 45  # type: ignore[index]
        assert other.verify() == ()


def test_keys_that_could_not_be_destroyed_are_destroyed_later(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.open() as store:
        stream = open_stream(store)
        stream.extend(ROWS[:100])

        def fail(_: object, _versions: object) -> None:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(type(store._keyring), "settle", fail)
            with pytest.raises(StoreError, match="keys of what it replaced could not be"):
                stream.flush()
        stream.flush()
        assert store.read_stream("a")[1].clock == stream.clock  # type: ignore[index]
        assert store.verify() == ()
