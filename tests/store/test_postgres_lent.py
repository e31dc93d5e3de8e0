"""Requests of other processes reach streams that a live one holds: it lends them, and goes on with what was changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from limits import join
from postgres import Database
from vestige import KeyedStreams, Mean, Stream
from vestige.errors import StoreBusyError, StoreError
from vestige.operations import forget, process_inbox, remove, sweep
from vestige.store import Ledger, PostgresStore, Store
from vestige.store.postgres.locks import Locks, Right

ROWS = np.random.default_rng(0).normal(size=1_000)
DAY = timedelta(days=1)


def open_stream(store: Store, name: str = "a", max_age: timedelta | None = None) -> Stream:
    return Stream(Mean(), retention=96, max_age=max_age, seed=1, store=store.stream(name))


def open_family(store: PostgresStore, max_age: timedelta | None = None) -> KeyedStreams:
    return KeyedStreams(Mean(), retention=96, max_age=max_age, seed=1, store=store.family())


@contextmanager
def live(store: PostgresStore) -> Iterator[None]:
    """A process that looks for requests all the time, as `vestige run` does every second."""
    ended, problems = threading.Event(), list[BaseException]()

    def look() -> None:
        try:
            while not ended.is_set():
                process_inbox(store)
                time.sleep(0.01)
        except BaseException as problem:
            problems.append(problem)
            raise

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        join(thread)
    assert not problems


def test_a_request_reaches_an_open_stream(database: Database) -> None:
    with database.open() as run, database.open() as other:
        stream, quiet = open_stream(run), open_stream(run, "b")
        stream.extend(ROWS[:40], subjects=["ada", "bob"] * 20)  # nothing of it is written yet
        quiet.extend(ROWS[:10])
        with live(run):
            done = forget(other, ["ada"], now=True, references=["T-1"])
        assert (done.troubles, done.unknown) == ({}, ())
        assert run.pseudonym("ada") not in stream.retained.subjects
        assert len(stream.retained) == 20
        assert (stream.t, quiet.t) == (40, 10)
        assert run.live("a") is stream
        stream.extend(ROWS[40:60])
        run.flush()
        assert other.read_stream("a")[1].clock.t == 60  # type: ignore[index]
        assert [receipt.reference for receipt in run.read_ledger().receipts] == ["T-1"]
    assert database.read().verify() == ()


def test_a_request_waits_for_the_next_update_of_an_open_stream(database: Database) -> None:
    with database.open() as run, database.open() as other:
        stream = open_stream(run)
        stream.extend(ROWS[:40], subjects=["ada", "bob"] * 20)
        with live(run):
            forget(other, ["ada"])
        assert stream.retained.leaving.sum() == 20
        assert run.read_ledger().open
        stream.extend(ROWS[40:100])
        assert run.pseudonym("ada") not in stream.retained.subjects
        run.flush()
        sweep(other)
        assert not other.read_ledger().open


def test_a_request_reaches_an_open_family(database: Database) -> None:
    with database.open() as run, database.open() as other:
        family = open_family(run)
        family.extend(["x", "y", "x"], [1.0, 2.0, 3.0], subjects=["ada", "ada", "bob"])
        family.take(["z"], [4.0], subjects=["ada"])
        with live(run):
            done = forget(other, ["ada"], now=True)
        assert done.troubles == {}
        assert {key: len(family.retained(key)) for key in family} == {"x": 1, "y": 0, "z": 0}
        family.extend(["x", "new"], [5.0, 6.0])
        assert family.clock("x").t == 3
        assert other.names() == ("new", "x", "y", "z")
    assert database.read().verify() == ()


def test_requests_are_confirmed_by_updates_of_a_family_that_they_did_not_change(database: Database) -> None:
    """Whether a request is met depends on the public clocks of the streams, not on who was in them."""
    with database.open() as run, database.open() as other:
        family = open_family(run)
        family.extend(["x"] * 10, ROWS[:10])
        with live(run):
            forget(other, ["nobody"])
        sweep(other)
        assert other.read_ledger().open
        family.extend(["x"] * 100, ROWS[:100])
        sweep(other)
        assert not other.read_ledger().open


def test_a_sweep_reaches_open_streams(database: Database) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    with database.open() as run, database.open() as other:
        stream, family = open_stream(run, "a", DAY), open_family(run, 2 * DAY)
        stream.extend(ROWS[:10], times=[start] * 10)
        family.extend(["k"] * 5, ROWS[:5], times=[start] * 5)
        run.flush()
        with live(run):
            done = sweep(other, start + 3 * DAY)
        assert done.troubles == {}
        assert done.erased == 15
        assert len(stream.retained) == len(family.retained("k")) == 0
        assert (stream.t, family.clock("k").t) == (10, 5)
    assert database.read().verify() == ()


def test_open_streams_can_be_removed(database: Database) -> None:
    with database.open() as run, database.open() as other:
        stream, unwritten, keyed = open_stream(run), open_stream(run, "new"), open_family(run, DAY)
        stream.extend(ROWS[:10])
        keyed.extend(["k", "l"], [1.0, 2.0])
        unwritten.push(1.0)
        with live(run):
            done = remove(other, ["a", "k", "new", "nobody"])
        assert (done.streams, done.troubles) == ((0, 1, 2, 3), {})
        assert (run.live("a"), run.live("new")) == (None, None)
        assert list(keyed) == ["l"]
        with pytest.raises(StoreError, match="'a' is not open here any more"):
            stream.push(1.0)
        keyed.extend(["k"], [3.0])
        assert run.names() == ("k", "l")
        assert keyed.clock("k").t == 1
    assert database.read().verify() == ()


def test_many_streams_are_lent_at_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    lent, exchange = list[int](), Locks.exchange

    def count(locks: Locks, rights: Sequence[Right], *rest: Any) -> tuple[list[Right], list[Right]]:
        lent.append(len(rights))
        return exchange(locks, rights, *rest)

    monkeypatch.setattr(Locks, "exchange", count)
    with database.open() as run, database.open() as other:
        streams = [open_stream(run, f"n{i}") for i in range(60)]
        for stream in streams:
            stream.extend(ROWS[:4], subjects=["ada"] * 4)
        lent.clear()
        with live(run):
            assert remove(other, [f"n{i}" for i in range(50)]).troubles == {}
        assert len(lent) <= 4, "all were lent in one go"
        assert run.live_names() == tuple(sorted(f"n{i}" for i in range(50, 60)))


@pytest.mark.parametrize("act", ["forget", "remove", "sweep"])
def test_a_process_that_does_not_lend_is_named(database: Database, act: str) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    with database.open() as run, database.open(patience=0.1) as other:
        stream = open_stream(run, "a", DAY)
        stream.extend(ROWS[:10], times=[start] * 10, subjects=["ada"] * 10)
        run.flush()
        open_stream(other, "b").push(1.0)
        other.flush()
        if act == "forget":
            with pytest.raises(
                StoreBusyError, match=r"has not lent it within 0.1 s.*process_inbox.*nothing was changed"
            ):
                forget(other, ["ada"])
            assert other.read_ledger().receipts == ()
            done = forget(other, ["ada"], streams=["a", "b"])
            assert list(done.troubles) == ["a"]
            assert other.read_ledger().open, "the request stays open for the stream that was not reached"
        elif act == "remove":
            gone = remove(other, ["a", "b"])
            assert gone.streams == (1,)
            assert "is open for writing in another process" in gone.troubles["a"]
        else:
            swept = sweep(other, start + 2 * DAY)
            assert "process_inbox" in swept.troubles["a"]
            assert "b" in swept.streams
        assert stream.push(1.0, time=start)
        assert len(other.holdings._locks.held) <= 2, "what was borrowed is given back"


def test_processes_that_ask_each_other_do_not_wait_for_each_other(database: Database) -> None:
    """Each has a stream open that the other wants to change."""
    with database.open(patience=20.0) as one, database.open(patience=20.0) as other:
        streams = [open_stream(one, "a"), open_stream(other, "b")]
        for stream in streams:
            stream.extend(ROWS[:40], subjects=["ada", "bob"] * 20)
        problems = list[BaseException]()

        def act(store: PostgresStore, who: str) -> None:
            try:
                for _ in range(5):
                    assert forget(store, [who], now=True).troubles == {}
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=act, args=each, daemon=True) for each in ((one, "ada"), (other, "bob"))]
        for thread in threads:
            thread.start()
        done = threading.Event()

        def help_out(store: PostgresStore) -> None:
            while not done.is_set():
                process_inbox(store)
                time.sleep(0.01)

        helpers = [threading.Thread(target=help_out, args=(store,), daemon=True) for store in (one, other)]
        for helper in helpers:
            helper.start()
        join(*threads)
        done.set()
        join(*helpers)
        assert problems == []
        assert [len(stream.retained) for stream in streams] == [0, 0]
        assert len(one.read_ledger().receipts) == 10


def test_an_own_open_stream_is_used_as_it_is(database: Database) -> None:
    with database.open() as store:
        stream = open_stream(store)
        stream.extend(ROWS[:40], subjects=["ada", "bob"] * 20)
        assert forget(store, ["ada"], now=True).troubles == {}
        assert len(stream.retained) == 20
        assert store.live("a") is stream
        assert remove(store, ["a"]).streams == (0,)
        assert store.live("a") is None


def test_a_new_key_for_subjects_reaches_open_streams(database: Database) -> None:
    with database.open() as run, database.open() as other:
        stream = open_stream(run)
        stream.extend(ROWS[:10], subjects=["ada"] * 10)
        before = run.pseudonym("ada")
        database.keyring.with_name("store.keyring.key").unlink()
        with live(run):
            other.rekey()
        assert run.pseudonym("ada") == other.pseudonym("ada") != before
        assert set(stream.retained.subjects) == {"f" * 32}
        stream.extend(ROWS[10:20], subjects=["ada"] * 10)
        run.flush()
        assert other.find_subjects([other.pseudonym("ada")]) == {other.pseudonym("ada"): ("a",)}


def test_a_key_that_others_use_is_not_replaced(database: Database) -> None:
    with database.open() as run, database.open() as other:
        run.pseudonym("ada")
        database.keyring.with_name("store.keyring.key").unlink()
        with pytest.raises(StoreError, match="is missing, so the subjects"):
            other.pseudonym("ada")


def test_two_processes_create_one_key(database: Database) -> None:
    with database.open() as one, database.open() as other:
        found = list[str]()
        threads = [
            threading.Thread(target=lambda store=store: found.append(store.pseudonym("ada"))) for store in (one, other)
        ]
        for thread in threads:
            thread.start()
        join(*threads)
        assert len(found) == 2
        assert len(set(found)) == 1


def test_requests_of_two_processes_are_all_filed(database: Database) -> None:
    with database.open() as one, database.open() as other:

        def ask(store: PostgresStore) -> None:
            for number in range(10):
                forget(store, ["ada"], references=[f"{id(store)} {number}"])

        with live(one), live(other):
            threads = [threading.Thread(target=ask, args=(store,), daemon=True) for store in (one, other)]
            for thread in threads:
                thread.start()
            join(*threads)
        ledger = one.read_ledger()
        assert len({receipt.reference for receipt in ledger.receipts}) == 20
        assert ledger.newest == 20


def test_requests_that_are_filed_at_the_same_time_are_all_filed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.open() as one, database.open() as other:
        open_stream(one).push(1.0)
        open_stream(other, "b").push(1.0)
        read, threads = one.read_ledger, list[threading.Thread]()

        def read_and_wait() -> Ledger:
            """Give the other some time to file its request after this one has read the ledger."""
            found = read()
            threads.append(
                threading.Thread(target=forget, args=(other, ["ada"]), kwargs={"streams": ["b"]}, daemon=True)
            )
            threads[-1].start()
            threads[-1].join(0.3)
            return found

        with monkeypatch.context() as patch:
            patch.setattr(one, "read_ledger", read_and_wait)
            forget(one, ["ada"], streams=["a"])
        join(*threads)
        assert len(one.read_ledger().receipts) == 1 + len(threads)


def test_reading_continues_where_it_was_after_streams_were_lent(database: Database) -> None:
    """A run by key holds on to how far it has read a source, also while its streams are read again."""
    with database.open() as run, database.open() as other:
        family = open_family(run)
        reading = family.positions.read("rows.csv", len)
        family.take(["x", "y"], [1.0, 2.0])
        reading.note(b"..")
        with live(run):
            remove(other, ["y"])
        family.take(["x"], [3.0])
        reading.note(b"...")
        family.flush()
        assert run.positions("rows.csv") == other.positions("rows.csv")
        assert other.positions("rows.csv")["x"].value == b"..."
        with live(run):
            remove(other, ["x"])
        reading.note(b"....")
        family.extend(["z"], [1.0])
        assert other.positions("rows.csv")["z"].value == b"...."
