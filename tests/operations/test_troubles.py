"""One stream's trouble is its own: all others keep their deadlines and take their requests."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reading import read_streams
from troubled import MAX_AGE, START, KeepsHalf, damage, fill, lose_name, spread
from vestige import Mean, MemoryStore, Moments, Records, SqliteStore, Stream, Window
from vestige.errors import StoreError
from vestige.operations import forget, sweep
from vestige.store import open_reader

OTHERS = ("a", "c", "d")
LATER = START + MAX_AGE + timedelta(hours=60)


def nobodys(path: Path) -> None:
    with SqliteStore(path) as store:
        fill(store, "b", KeepsHalf())


def damaged(path: Path) -> None:
    with SqliteStore(path) as store:
        fill(store, "b")
    damage(path, "b")


def ahead(path: Path) -> None:
    with SqliteStore(path) as store:
        stream = Stream(Mean(), retention=96, max_age=timedelta(days=30_000), store=store.stream("b"))
        stream.extend(range(3), times=[START, START, LATER + timedelta(hours=25)], subjects=["person-3"] * 3)


TROUBLES: dict[Callable[[Path], None], str] = {
    nobodys: "policy troubled.KeepsHalf is not registered",
    damaged: "is damaged",
    ahead: "1 record is dated more than 1 day, 0:00:00 after the present time, in round 3",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SqliteStore(tmp_path / "s.db") as store:
        for name, policy in zip(OTHERS, (Mean(), Moments(2), Window()), strict=True):
            Stream(policy, retention=300, max_age=MAX_AGE, seed=0, store=store.stream(name)).extend(
                range(100),
                times=[START + timedelta(hours=i) for i in range(100)],
                subjects=[f"person-{i % 10}" for i in range(100)],
            )
    return tmp_path / "s.db"


def held(path: Path, name: str) -> Records:
    with SqliteStore(path) as store:
        terms = store.terms(name)
        return store.stream(name, about=terms.about).read(terms).retained


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_sweep_does_all_the_others(path: Path, trouble: Callable[[Path], None]) -> None:
    trouble(path)
    with SqliteStore(path) as store:
        done = sweep(store, LATER)
    assert list(done.troubles) == ["b"]
    assert TROUBLES[trouble] in done.troubles["b"]
    for name in OTHERS:
        assert done.streams[name].erased
        assert (held(path, name).times > np.datetime64((LATER - MAX_AGE).replace(tzinfo=None), "us")).all()


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("now", [False, True])
def test_a_request_is_carried_out_in_all_the_others(path: Path, trouble: Callable[[Path], None], now: bool) -> None:
    trouble(path)
    with SqliteStore(path) as store:
        done = forget(store, ["person-3", "nobody"], now=now)
        mark = store.pseudonym("person-3")
    is_erased = now and trouble is not damaged
    assert [receipt.erased is not None for receipt in done.receipts] == [is_erased] * 2, "the same for both"
    assert done.unknown == (1,)
    assert set(done.troubles) == ({"b"} if trouble is not ahead else set())
    for name in OTHERS:
        records = held(path, name)
        assert records.leaving[records.subjects == mark].all()
        assert not now or mark not in records.subjects


def test_a_row_without_a_name_keeps_nobody_either(path: Path) -> None:
    """The row that names the stream is damaged, not what it holds."""
    damaged(path)
    spread(path)
    lose_name(path, "b")
    with SqliteStore(path) as store:
        told = forget(store, ["person-3"], now=True)
        done = sweep(store, LATER)
    for found in (told.troubles, done.troubles, open_reader(path).snapshot().troubles):
        ((row, text),) = found.items()
        assert "of the table buckets is damaged" in row
        assert "its name cannot be read" in text
    assert set(done.streams) == set(OTHERS)
    assert [receipt.erased for receipt in told.receipts] == [None], "nobody knows what that stream holds"


def test_what_is_due_goes_without_the_policy(path: Path) -> None:
    nobodys(path)
    with SqliteStore(path) as store:
        done = sweep(store, START + MAX_AGE + timedelta(hours=50))
        assert done.streams["b"].erased
        assert done.streams["b"].restarted
        assert "b" in done.restarted
        assert "and the statistic restarts" in done.troubles["b"]
    with SqliteStore(path) as store:
        stream = Stream(KeepsHalf(), retention=96, max_age=MAX_AGE, store=store.stream("b"))
        assert stream.retained.rounds.tolist() == [97, 98, 99, 100]
        assert stream.clock.since == 97
        assert "Counts from round 97 on" in stream.estimate().notes[0]
        stream.extend(range(100), times=[START + MAX_AGE + timedelta(hours=60)] * 100)
        assert stream.t == 200


def test_a_request_erases_at_once_without_the_policy(path: Path) -> None:
    nobodys(path)
    with SqliteStore(path) as store:
        done = forget(store, ["person-3"])
        assert "without it records are erased immediately" in done.troubles["b"]
        assert "the statistic counts from round 97" in done.troubles["b"]
        mark = store.pseudonym("person-3")
    assert mark not in held(path, "b").subjects
    assert read_streams(path)["b"][1].receipts == ()


def test_a_policy_that_fails_is_not_quoted(path: Path) -> None:
    class Failing(KeepsHalf):
        def update(self, *_: object) -> None:  # type: ignore[override]
            raise KeyError("the value 4711 of a record")

    with SqliteStore(path) as store:
        stream = Stream(Failing(), retention=96, max_age=MAX_AGE, store=store.stream("b"))
        stream.extend(range(40), times=[START + timedelta(hours=i) for i in range(40)])
        done = sweep(store, START + MAX_AGE / 2 + timedelta(hours=1))
        assert done.troubles == {"b": "its policy raises KeyError; open it in Python to see where"}
        assert set(done.streams) >= set(OTHERS)


def test_what_is_wrong_with_the_file_is_everybodys(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the disk in the midst of a group is not blamed on a stream, nor passed over."""

    def failing(*_: object) -> None:
        problem = sqlite3.OperationalError("disk I/O error")
        problem.sqlite_errorname = "SQLITE_IOERR"
        raise problem

    before = read_streams(path)
    with SqliteStore(path) as store:
        monkeypatch.setattr(type(store._tables), "put", failing)
        for action in (lambda: sweep(store, LATER), lambda: forget(store, ["person-3"], now=True)):
            with pytest.raises(StoreError, match="could not be read or written"):
                action()
        monkeypatch.undo()
        store._open.clear()
    assert read_streams(path) == before


class Mine(Mean):
    """A mean in bits of which no store knows that it is one: a record that is missed in its word spoils the answer."""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 70), st.sampled_from(["forget", "sweep", "round", "none"])), max_size=8))
def test_a_stream_goes_on_after_removals_without_its_policy(steps: list[tuple[int, str]]) -> None:
    store, now, t = MemoryStore(), START, 0
    for arrivals, action in steps:
        stream = Stream(Mine(channel="bits"), retention=120, max_age=MAX_AGE, seed=0, store=store.stream("a"))
        times = [now + timedelta(hours=i) for i in range(arrivals)]
        stream.extend(np.full(arrivals, 5.25), times=times, subjects=[f"person-{i % 9}" for i in range(arrivals)])
        store.release()
        t, now = t + arrivals, times[-1]
        if action == "sweep":
            now += MAX_AGE * (arrivals / 50)
            sweep(store, now)
        elif action != "none":
            rounds = {"rounds": [t]} if action == "round" else {"subjects": [f"person-{arrivals % 9}"]}
            forget(store, **rounds, streams=["a"], now=arrivals % 2 == 0)
        again = Stream(Mine(channel="bits"), retention=120, max_age=MAX_AGE, seed=0, store=store.stream("a"))
        assert again.t == t
        assert not again.retained.leaving.any(), "a removal without the policy does not wait"
        if len(again.retained):
            assert abs(float(again.estimate().value) - 5.25) < 1e-6
            assert (again.clock.since == 1) == (not any("Counts from" in note for note in again.estimate().notes))
        store.release()
