"""Receipts of requests to a whole store: the same for everybody, met in time, and kept as long as the user says."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from troubled import KeepsHalf, fill
from vestige import Mean, MemoryStore, SqliteStore, Stream, open_reader
from vestige.errors import ParameterError, StoreError
from vestige.operations import forget, sweep
from vestige.operations.confirmation import LEDGER, confirm_requests
from vestige.store import Ledger, Receipt, Store
from vestige.store.inbox import Request
from vestige.stream import open_stream
from vestige.times import wall_clock

DAY = timedelta(days=1)


def make(store: Store, *, known: bool, max_age: timedelta | None = None) -> None:
    """Three streams, in one of which there are five records of a person, or none."""
    for name in "abc":
        stream = Stream(Mean(), retention=96, max_age=max_age, seed=1, store=store.stream(name))
        who = [f"p-{i}" for i in range(60)]
        if known and name == "b":
            who[50:55] = ["canary-1815"] * 5
        stream.extend(np.arange(60.0), subjects=who)


def list_receipts(store: Store) -> list[Receipt]:
    """The receipts without what differs between any two requests."""
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    return [
        replace(
            receipt,
            id="",
            requested=moment,
            due=receipt.due and moment,
            erased=receipt.erased and moment,
        )
        for receipt in store.read_ledger().receipts
    ]


@pytest.mark.parametrize("now", [True, False])
@pytest.mark.parametrize("max_age", [None, 30 * DAY])
def test_two_stores_one_with_the_person_and_one_without(now: bool, max_age: timedelta | None, tmp_path: Path) -> None:
    """At each step the receipts differ in ids and times alone, and no file tells of subjects or of streams."""
    shown: list[list[list[Receipt]]] = []
    for known in (True, False):
        path = tmp_path / f"{known}.db"
        steps = []
        with SqliteStore(path) as store:
            make(store, known=known, max_age=max_age)
            done = forget(store, ["canary-1815"], now=now, references=["T-1"])
            assert done.unknown == (() if known else (0,))
            steps.append(list_receipts(store))
            for name in "abc":
                stream = store.live(name)
                assert isinstance(stream, Stream)
                stream.extend(np.arange(36.0))
                sweep(store)
                steps.append(list_receipts(store))
        shown.append(steps)
        assert open_reader(path).verify(canaries=[b"canary-1815"]) == ()
        snapshot = open_reader(path).snapshot()
        assert all(not state.receipts for _, state in snapshot.streams.values()), "no stream tells that it was asked"
        (entry,) = snapshot.ledger.entries.values()
        assert (entry.streams, entry.failed, entry.receipt.keep) == ((), (), 1095 * DAY)
    assert shown[0] == shown[1]
    assert [step[0].erased is not None for step in shown[0]] == ([True] * 4 if now else [False, False, False, True])
    assert (shown[0][0][0].requested_round, shown[0][-1][0].erased_round) == (180, 180 if now else 288)


def test_one_stream_tells_its_due_round() -> None:
    for who in ("p-59", "nobody"):
        store = MemoryStore()
        stream = Stream(Mean(), retention=96, seed=1, store=store.stream("a"))
        stream.extend(np.arange(60.0), subjects=[f"p-{i}" for i in range(60)])
        (receipt,) = forget(store, [who]).receipts
        assert (receipt.requested_round, receipt.due_round) == (60, 96)


def test_a_request_is_not_met_while_a_record_is_held() -> None:
    """Each stream has its update in turn; the receipt waits for the last one that holds a record."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        store = MemoryStore()
        for name in "abc":
            stream = Stream(Mean(), retention=96, seed=1, store=store.stream(name))
            stream.extend(rng.normal(size=60), subjects=rng.choice(["ada", "bob"], 60))
        mark = store.pseudonym("ada")
        forget(store, ["ada"])
        for name in [*rng.choice(list("abc"), 6), *"abc"]:
            stream = store.live(name)  # type: ignore[assignment]
            stream.extend(rng.normal(size=40))
            confirm_requests(store, {})
            (receipt,) = store.read_ledger().receipts
            held = any(mark in store.live(n).retained.subjects for n in "abc")  # type: ignore[union-attr]
            assert not (receipt.erased and held)
        assert receipt.erased


def test_a_quiet_stream_meets_it_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    make(store, known=True, max_age=30 * DAY)
    (receipt,) = forget(store, ["canary-1815"]).receipts
    assert receipt.due is not None
    sweep(store)
    assert store.read_ledger().open
    later = receipt.due + timedelta(seconds=1)
    for module in ("retention", "confirmation", "erasure"):
        monkeypatch.setattr(f"vestige.operations.{module}.wall_clock", lambda: later)
    monkeypatch.setattr("vestige.stream.stream.wall_clock", lambda: later)
    sweep(store)
    assert [r.erased for r in store.read_ledger().receipts] == [later]


def test_a_stream_that_could_not_be_asked_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    make(store, known=True)
    with monkeypatch.context() as broken:
        broken.setattr(store.live("b"), "forget_each", lambda *_, **__: 1 / 0)
        done = forget(store, ["canary-1815"], now=True)
    assert list(done.troubles) == ["b"]
    for name in "abc":
        store.live(name).extend(np.arange(36.0))  # type: ignore[union-attr]
    sweep(store)
    assert store.read_ledger().open, "b may hold what it was not asked for"
    store.remove("b")
    sweep(store)
    assert not store.read_ledger().open


def test_a_stream_without_its_policy_is_asked_too() -> None:
    for who in ("person-7", "nobody"):
        store = MemoryStore()
        fill(store, "mine", KeepsHalf())
        store.release()
        forget(store, [who])
        sweep(store)
        assert not store.read_ledger().open


def test_a_removed_stream_leaves_no_name(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        make(store, known=False)
        Stream(Mean(), retention=96, seed=1, store=store.stream("canary-1815")).extend(np.arange(60.0))
        forget(store, ["ada"], streams=["canary-1815", "a"])
        assert store.read_ledger().entries[1].streams == ("canary-1815", "a")
        store.remove("canary-1815")
        assert store.read_ledger().entries[1].streams == ("a",)
    assert open_reader(path).verify(canaries=[b"canary-1815"]) == ()


def test_receipts_are_kept_as_long_as_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        make(store, known=True)
        forget(store, ["canary-1815"], now=True, references=["canary-T-1"], keep_receipts=2 * DAY)
        forget(store, ["nobody"], now=True, references=["T-2"], keep_receipts=9 * DAY)
    later = wall_clock() + 3 * DAY
    (found,) = open_reader(path).verify(at=later)
    assert "the ledger: receipt" in found
    assert "has expired and is still there; run vestige sweep" in found
    monkeypatch.setattr("vestige.operations.confirmation.wall_clock", lambda: later)
    with SqliteStore(path) as store:
        sweep(store)
        assert [receipt.reference for receipt in store.read_ledger().receipts] == ["T-2"]
    assert open_reader(path).verify(at=later, canaries=[b"canary-T-1"]) == ()


def test_requests_carry_references_through_the_inbox() -> None:
    request = Request("forget", ("ab" * 16,), references=("T-1",), keep_receipts=9 * DAY)
    assert Request.parse(request.text) == request
    for wrong in ({"references": ["T-1", "T-2"]}, {"references": [7]}, {"keep_receipts": -1}, {"keep_receipts": "x"}):
        with pytest.raises(StoreError, match="is not a request that can be read"):
            Request.parse(json.dumps(json.loads(request.text) | wrong))


@pytest.mark.parametrize(
    ("references", "text"),
    [
        (["T-1", "T-2"], "references has 2 entries for 1 requests; pass one for each"),
        (["erased: Canary-1815"], "reference number 1 contains its subject"),
        ([""], "is not a text of printable characters"),
        (["a\nb"], "is not a text of printable characters"),
        (["x" * 101], "reference has 101 characters; use up to 100"),
    ],
)
def test_references_that_are_refused(references: list[str], text: str) -> None:
    store = MemoryStore()
    make(store, known=True)
    with pytest.raises(ParameterError, match=text) as caught:
        forget(store, ["canary-1815"], references=references)
    assert "canary" not in str(caught.value)
    assert store.read_ledger() == Ledger()


def test_a_stream_of_ones_own_keeps_the_reference() -> None:
    stream = Stream(Mean(), retention=96)
    stream.extend([1.0, 2.0], subjects=["ada", "bob"])
    receipt = stream.forget(subject="ada", now=True, reference="T-1", keep_receipt=9 * DAY)
    assert (receipt.reference, receipt.keep, receipt.erased_round) == ("T-1", 9 * DAY, 2)
    assert stream.receipts == (receipt,)
    gone = stream.forget(subject="bob", now=True, keep_receipt=timedelta(0))
    assert gone.erased is not None
    assert stream.receipts == (receipt,)


def test_a_damaged_ledger_is_named_and_hides_no_stream(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        make(store, known=True)
        forget(store, ["canary-1815", "nobody"], references=["T-1", "T-2"])
    for change in ("DELETE FROM ledger WHERE id = 1", "UPDATE ledger SET body = x'00'"):
        with SqliteStore(path) as store:
            store._connection.execute(change)
        snapshot = open_reader(path).snapshot()
        assert len(snapshot.streams) == 3
        assert "bits changed outside Vestige" in snapshot.ledger_trouble
        assert snapshot.ledger_trouble in open_reader(path).verify()
        with SqliteStore(path) as store:
            done = sweep(store)
            assert list(done.troubles) == [LEDGER]
            assert len(done.streams) == 3
            with pytest.raises(StoreError, match="bits changed outside Vestige"):
                forget(store, ["bob"])
            assert open_stream(store, "a").t == 60


@pytest.mark.parametrize("known", [True, False])
def test_a_sweep_of_an_earlier_time_meets_nothing(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due has not been erased then, so the receipt stays open, whether the person has records or not."""
    store = MemoryStore()
    make(store, known=known, max_age=30 * DAY)
    (receipt,) = forget(store, ["canary-1815"]).receipts
    assert receipt.due is not None
    earlier, later = receipt.due - DAY, receipt.due + DAY
    for module in ("retention", "confirmation", "erasure"):
        monkeypatch.setattr(f"vestige.operations.{module}.wall_clock", lambda: later)
    sweep(store, at=earlier)
    assert store.read_ledger().open


def test_an_empty_stream_delays_no_receipt() -> None:
    """It holds nothing that could be asked for, and may never be updated again."""
    store, old = MemoryStore(), np.datetime64("2024-01-01T00:00:00", "us")
    quiet = Stream(Mean(), retention=96, max_age=DAY, seed=1, store=store.stream("quiet"))
    quiet.extend(np.arange(60.0), times=np.full(60, old))
    sweep(store)
    assert not len(quiet.retained)
    make(store, known=True)
    forget(store, ["canary-1815"])
    for name in "abc":
        store.live(name).extend(np.arange(36.0))  # type: ignore[union-attr]
    sweep(store)
    assert not store.read_ledger().open
