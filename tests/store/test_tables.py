"""Streams in buckets: found by name, by deadline and by subject as if each had been read, however many there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from vestige import Clock, MemoryStore, Receipt, Records, SqliteStore
from vestige.errors import ParameterError
from vestige.store import Position, State, Store, Terms, open_reader
from vestige.store.bucket import BUCKET, Summary, count_buckets, find_bucket, find_weight
from vestige.store.subject_index import find_prefix
from vestige.times import TICK, to_ticks

TERMS = Terms({}, 1, 400)
TIMED = Terms({}, 1, 400, max_age=timedelta(days=8))
START = datetime(2024, 1, 1, tzinfo=UTC)
Both = MemoryStore | SqliteStore
WHO = [f"{i:02x}" * 16 for i in range(1, 7)]


def make_state(rng: np.random.Generator, terms: Terms) -> State:
    """A state of some records, with some subjects, times and requests."""
    n = int(rng.integers(0, 9))
    start = np.datetime64(START.replace(tzinfo=None), "us")
    times = start + rng.integers(0, 5 * 86_400 * 10**6, n) if terms is TIMED else None
    subjects = [None if rng.random() < 0.7 else WHO[int(rng.integers(6))] for _ in range(n)]
    receipts = (Receipt.create(START, 1, 10**9, None, None),) if rng.random() < 0.1 else ()
    records = Records(np.arange(1, n + 1), rng.normal(size=(n, 1)), times=times, subjects=subjects)
    return State(Clock(n), records, {"x.csv": Position(b"1", 1)}, receipts, int(rng.integers(0, 4)))


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Both:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")


def check(store: Both, states: dict[str, tuple[Terms, State]]) -> None:
    """All that the store finds is what its streams say."""
    assert store.names() == tuple(sorted(states))
    assert store.snapshot().streams == {name: states[name] for name in sorted(states)}
    assert store.count() == len(states)
    assert store.count_arrived() == (sum(state.clock.t for _, state in states.values()), ())
    for limit in (1, 7, 1_000):
        for after in (None, "", "50", "zzz"):
            wanted = [name for name in sorted(states) if after is None or name > after]
            assert store.page(after, limit) == wanted[:limit]
    for days in range(-1, 9):
        at = START + timedelta(days=days)
        found, wrong = store.find_due(at)
        named = {n for n, (t, s) in store.snapshot().streams.items() if _is_due(t, s, to_ticks(at))}
        assert (set(found), wrong) == (named, ())
    held = {who: {n for n, (_, s) in states.items() if who in s.retained.subjects} for who in WHO}
    assert {who: set(names) for who, names in store.find_subjects(WHO).items()} == held
    for number in range(5):
        open_ones = {n for n, (_, s) in states.items() if s.receipts}
        waiting = {n for n, (_, s) in states.items() if len(s.retained) and s.settled < number}
        assert set(store.find_waiting(number)[0]) == waiting | open_ones
    assert store.find_damaged() == ((), ())
    assert all(store.has(name) for name in states)
    assert not store.has("not there")


def _is_due(terms: Terms, state: State, at: int) -> bool:
    times = state.retained.times.view("i8")
    if terms.max_age is None or not len(times):
        return False
    return bool(times.min() + terms.max_age // TICK // 2 <= at or times.max() > at)


def test_whatever_is_written_and_removed(store: Both) -> None:
    rng, states = np.random.default_rng(0), dict[str, tuple[Terms, State]]()
    with store:
        for turn in range(12):
            for _ in range(40):
                name = str(rng.integers(200))
                terms = states[name][0] if name in states else (TERMS, TIMED)[int(rng.integers(2))]
                states[name] = terms, make_state(rng, terms)
                store.write(name, *states[name])
            for name in [name for name in states if rng.random() < 0.2]:
                store.remove(name)
                del states[name]
            if turn % 3 == 2:
                store.tidy()
                weight = sum(find_weight(terms) for terms, _ in states.values())
                assert store._tables.about.weight == weight
                assert store._tables.about.buckets == count_buckets(weight)
            check(store, states)
        assert store.verify(at=START) == ()
        for name in list(states):
            store.remove(name)
        store.tidy()
        check(store, {})
        assert store._tables.about.buckets == 1


def test_streams_lie_where_their_names_say(store: Both) -> None:
    with store, store.transaction():
        for i in range(300):
            store.write(f"stream {i}", TERMS, State.empty(1))
        tables = store._tables
        assert tables.about.buckets == count_buckets(300 * find_weight(TERMS)) == 16
        for row in tables.iterate_rows():
            assert tables.read_row(row.bucket) == row
            for name in tables.buckets.read(row.bucket).names:
                assert find_bucket(name, 16) == row.bucket
        epoch = tables.epoch
        assert not tables.reserve(0)
        assert tables.epoch == epoch
        assert tables.reserve(10 * BUCKET)
        assert (tables.about.buckets, tables.epoch != epoch) == (32, True)
        assert store.count() == 300
        assert store.read_stream("stream 7") == (TERMS, State.empty(1))


def test_rows_that_are_written_as_they_are(store: Both) -> None:
    """What others who write many streams at once use."""
    with store:
        with store.transaction():
            store.write("a", TERMS, State(Clock(1), Records([1], [[0.5]], subjects=[WHO[0]])))
        row = store._tables.read_row(0)
        with store.transaction():
            store._tables.write_row(0, Summary(), b"", b"")
            store._tables.add_streams(-1, -find_weight(TERMS))
            prefix = np.array([find_prefix(WHO[0])], np.uint64)
            store._tables.change_subjects((prefix, np.array([0], np.uint32)), (prefix[:0], np.empty(0, np.uint32)))
        assert store.names() == ()
        assert store.verify() == ()
        with store.transaction():
            store._tables.write_row(*row)
            store._tables.add_streams(1, find_weight(TERMS))
            store._tables.change_subjects((prefix[:0], np.empty(0, np.uint32)), (prefix, np.array([0], np.uint32)))
        assert store.find_subjects(WHO[:1]) == {WHO[0]: ("a",)}
        assert store.verify() == ()


def test_what_fails_in_the_midst_leaves_nothing(store: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where buckets were split for it, and other streams are written in the same transaction."""
    with store:
        for i in range(18):
            store.write(f"{i}", TERMS, make_state(np.random.default_rng(i), TERMS))
        about, before = store._tables.about, dict(store.snapshot().streams)

        def fail(*_: object) -> None:
            raise RuntimeError("no")

        with store.transaction():
            store.write("other", TERMS, State.empty(1))
            with monkeypatch.context() as patch:
                patch.setattr(type(store._tables.buckets), "write_row", fail)
                for name in ("0", "new"):
                    with pytest.raises(RuntimeError):
                        store.write(name, TERMS, State.empty(1))
        assert store.snapshot().streams == before | {"other": (TERMS, State.empty(1))}
        assert store.count() == about.streams + 1
        assert store.verify() == ()


def test_a_reader_reads_one_stream_without_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, states = tmp_path / "s.db", {}
    with SqliteStore(path) as store:
        for i in range(50):
            states[str(i)] = TERMS, make_state(np.random.default_rng(i), TERMS)
            store.write(str(i), *states[str(i)])
    monkeypatch.setattr("vestige.store.sqlite.connection.copy_file", None)
    reader = open_reader(path)
    assert {name: reader.read_stream(name) for name in states} == states
    assert reader.read_stream("not there") is None
    assert reader.count() == 50
    assert reader.page("4", 3) == ["40", "41", "42"]
    with pytest.raises(ParameterError, match="is not a name"):
        reader.read_stream(7)  # type: ignore[arg-type]


def test_names_of_earlier_versions_are_read_whatever_they_are(store: Store) -> None:
    names = ["x" * 65_535, "\0", "\udcff"]
    with store:
        for name in names:
            store._place(name, {}).write(TERMS, State.empty(1))
            assert store.stream(name).read(TERMS) == State.empty(1)
            with pytest.raises(ParameterError, match="name="):
                store.stream(name + name)
        assert store.count() == 3
