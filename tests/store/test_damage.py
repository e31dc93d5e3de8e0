"""Damaged files: whatever bit is flipped or byte cut off, a store says so or answers right; nothing else."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from reading import read_streams
from troubled import damage, find_entry, lose_name, spread
from vestige import Clock, Mean, Records, SqliteStore, Stream
from vestige.errors import StoreError
from vestige.store import Position, Receipt, State, Terms, open_reader
from vestige.store.bucket import find_bucket
from vestige.store.position import encode_count
from vestige.store.rows import TABLES
from vestige.store.sqlite.connection import PAGE
from vestige.store.sqlite.rows import SqliteRows
from vestige.store.tables import Tables
from vestige.times import wall_clock

NAMES = ("ada", "bob", "cat", "dot", "eve", "a much longer name than the others have, so that rows differ in length")
TERMS = Terms({"name": "vestige.Mean", "parameters": {}}, columns=1, capacity=16, retention=16)
LARGE = replace(TERMS, columns=300, capacity=30, retention=30)

Content = dict[str, tuple[Terms, State]]


def state_of(rng: np.random.Generator, terms: Terms, t: int) -> State:
    rounds = np.arange(t - 9, t + 1)
    subjects = [rng.bytes(16).hex() if i % 2 else None for i in range(10)]
    values = rng.normal(size=(10, terms.columns))
    records = Records(rounds, values, None, None, subjects, np.arange(10))
    receipts = tuple(Receipt.create(wall_clock(), t, t + 5, timedelta(days=1), None) for _ in range(2))
    return State(
        Clock(t, t - 9, t),
        records,
        {"x.csv": Position(encode_count(t) + b"mark", 1), "y": Position(encode_count(7))},
        receipts,
    )


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """In memory where that can be had, since thousands of stores are written."""
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def truth(folder: Path) -> tuple[bytes, Content]:
    path, rng = folder / "truth.db", np.random.default_rng(0)
    with SqliteStore(path) as store:
        for i, name in enumerate(NAMES):
            terms = LARGE if name == "dot" else TERMS
            store.stream(name).write(terms, state_of(rng, terms, 20 + i))
        store.pseudonym("somebody")
    return path.read_bytes(), read_streams(path)


def content_of(store: SqliteStore) -> Content:
    there = {}
    for name in store.names():
        terms = store.terms(name)
        there[name] = (terms, store.stream(name).read(terms))
    return there


def survived(path: Path, image: bytes, content: Content, written: str) -> str:
    """What became of a damaged file: it answers right, or it is refused; an assertion or a raw error else."""
    path.write_bytes(image)
    path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
    open_reader(path).verify()
    try:
        assert read_streams(path) == content
        read = "right"
    except StoreError:
        read = "refused"
    terms, state = content[written]
    changed = content | {written: (terms, replace(state, clock=replace(state.clock, t=state.clock.t + 1)))}
    now = content
    try:
        with SqliteStore(path) as store:
            with suppress(StoreError):
                assert content_of(store) == content
            with suppress(StoreError):
                store.stream(written).read(terms)
                store.write(written, *changed[written])
                now = changed
            for name, (terms, state) in now.items():
                with suppress(StoreError):
                    assert store.stream(name).read(terms) == state
        assert read_streams(path) == now
    except StoreError:
        return "refused"
    return read


@pytest.mark.parametrize("flips", [100, pytest.param(4_000, marks=pytest.mark.slow(55))])
def test_no_flipped_bit_gives_a_wrong_answer_or_a_raw_exception(
    folder: Path, truth: tuple[bytes, Content], flips: int
) -> None:
    image, content = truth
    rng, seen = np.random.default_rng(flips), Counter[str]()
    places = rng.choice(len(image) * 8, flips, replace=False)
    if flips < 1_000:  # headers of pages say more than what they hold
        places[::2] = rng.integers(0, 12 * 8, len(places[::2])) + 8 * PAGE * rng.integers(0, len(image) // PAGE)
    for place in places:
        changed = bytearray(image)
        changed[place // 8] ^= 1 << place % 8
        try:
            seen[survived(folder / "flipped.db", bytes(changed), content, NAMES[int(rng.integers(len(NAMES)))])] += 1
        except BaseException:
            print(f"bit {place % 8} of byte {place // 8} of {len(image)}")
            raise
    print(f"{flips} flips: {dict(seen)}")
    assert seen["refused"] > flips / 10


def test_a_file_cut_off_anywhere_is_refused_and_left_as_it_is(folder: Path, truth: tuple[bytes, Content]) -> None:
    image, _ = truth
    path = folder / "cut.db"
    for length in (0, 1, 99, 100, 512, *range(PAGE, len(image), PAGE), len(image) - 1, len(image) - PAGE // 2):
        path.write_bytes(image[:length])
        for use in (SqliteStore, read_streams):
            with pytest.raises(StoreError, match=r"cut\.db: .*(restore|give another path)"):
                use(path)
        assert path.read_bytes() == image[:length]
        assert open_reader(path).verify() != ()


def test_an_empty_file_is_not_taken_for_a_new_store(folder: Path) -> None:
    path = folder / "empty.db"
    path.touch()
    with pytest.raises(StoreError, match=r"empty\.db: is empty, and a store never is .*; restore .* or delete it"):
        SqliteStore(path)
    assert path.stat().st_size == 0
    path.unlink()
    with SqliteStore(path) as store:
        assert store.names() == ()


def test_a_journal_without_its_store_is_not_rolled_into_a_new_one(folder: Path) -> None:
    journal = folder / "gone.db-journal"
    journal.write_bytes(b"of another store")
    with pytest.raises(StoreError, match=r"there is no such store, but its journal .*-journal is there; put"):
        SqliteStore(folder / "gone.db")
    assert not (folder / "gone.db").exists()
    assert journal.read_bytes() == b"of another store"


def test_a_killed_maker_leaves_no_half_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store appears by a rename; until then there is a draft, which the next writer removes."""
    path = folder / "half" / "a.db"
    path.parent.mkdir()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            SqliteStore(path)
    with pytest.raises(StoreError, match="there is no such store"):
        read_streams(path)
    assert len([file for file in path.parent.iterdir() if file.name.endswith(".draft")]) == 1
    with SqliteStore(path) as store:
        assert store.names() == ()
    assert sorted(file.name for file in path.parent.iterdir()) == ["a.db", "a.db.lock"]


@pytest.mark.parametrize("table", ["buckets", "terms", "sources", "subjects"])
def test_rows_that_vanish_or_change_places_are_noticed(folder: Path, truth: tuple[bytes, Content], table: str) -> None:
    _, content = truth
    path, columns = folder / "vanished.db", TABLES[table]
    path.write_bytes(truth[0])
    spread(path)
    image = path.read_bytes()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tables = Tables(SqliteRows(connection, path))
        buckets = sorted(find_bucket(name.encode(), tables.about.buckets) + 1 for name in NAMES)
        listed = sorted({int(prefix) % tables.about.buckets + 1 for prefix in tables.index.read_all()[0]})
    rows = {"buckets": buckets, "terms": [1, 2], "sources": range(1, 13), "subjects": listed}[table]
    changes = [f"DELETE FROM {table} WHERE id = {row}" for row in rows]  # noqa: S608
    other = ", ".join(f"{name} = (SELECT {name} FROM {table} WHERE id = {rows[1]})" for name in columns)  # noqa: S608
    changes += [f"UPDATE {table} SET {other} WHERE id = {rows[0]}"]  # noqa: S608
    for change in changes:
        path.write_bytes(image)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(change)
        assert open_reader(path).verify() != ()
        if table == "subjects":
            continue
        with pytest.raises(StoreError, match=r"vanished|damaged|cannot be read|not those that were written"):
            read_streams(path)
        unreadable = set()
        with suppress(StoreError), SqliteStore(path) as store:
            for name, (terms, state) in content.items():
                try:
                    assert store.stream(name).read(terms) == state
                except StoreError:
                    unreadable.add(name)
            assert unreadable


@pytest.mark.parametrize("harm", ["DELETE FROM subjects WHERE id = {}", "UPDATE subjects SET body = x'' WHERE id = {}"])
def test_subjects_are_found_though_their_index_is_damaged(
    folder: Path, truth: tuple[bytes, Content], harm: str
) -> None:
    image, content = truth
    path, (terms, state) = folder / "index.db", content["bob"]
    who = next(who for who in state.retained.subjects if who is not None)
    path.write_bytes(image)
    path.chmod(0o600)
    spread(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(harm.format(int(who[:2], 16) % 128 + 1))
    assert open_reader(path).verify() != ()
    with SqliteStore(path) as store:
        assert store.find_subjects([who]) == {who: ("bob",)}
        store.write("bob", terms, State.empty(1))
        assert store.find_subjects([who]) == {who: ()}
        store.tidy()
    assert open_reader(path).verify() == ()


@pytest.mark.parametrize("table", ["buckets", "terms", "sources", "subjects"])
def test_a_row_that_nobody_wrote_is_noticed(folder: Path, truth: tuple[bytes, Content], table: str) -> None:
    """Else the next that is written would find its place taken."""
    path, rest = folder / "more.db", ", ".join(TABLES[table])
    path.write_bytes(truth[0])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        query = f"INSERT INTO {table} SELECT 1 + max(id), {rest} FROM {table}"  # noqa: S608
        connection.execute(query)
    with pytest.raises(StoreError, match="the last rows of a table are not those that were written"):
        read_streams(path)
    assert open_reader(path).verify() != ()


def test_a_damaged_row_keeps_no_other_stream_from_being_read(folder: Path, truth: tuple[bytes, Content]) -> None:
    """What is in its own bucket cannot be told any more, and no name of it is given away."""
    image, content = truth
    path = folder / "row.db"
    path.write_bytes(image)
    spread(path)
    lost = lose_name(path, NAMES[0])
    with SqliteStore(path) as store:
        for name in NAMES[1:]:
            terms, state = content[name]
            assert store.stream(name).read(terms) == state
            store.write(name, terms, state)
        store.write("new", TERMS, content[NAMES[0]][1])
        with pytest.raises(StoreError, match="is damaged"):
            store.stream(NAMES[0]).read(TERMS)
        with pytest.raises(StoreError, match="is damaged"):
            store.write(NAMES[0], TERMS, content[NAMES[0]][1])
    assert any(lost in text for text in open_reader(path).verify())
    assert not any("stream 'bob'" in text for text in open_reader(path).verify())


def test_a_damaged_stream_keeps_no_other_from_being_read_or_written(folder: Path, truth: tuple[bytes, Content]) -> None:
    """They are in one bucket; the bytes of the damaged one are copied as they are."""
    image, content = truth
    path = folder / "entry.db"
    path.write_bytes(image)
    damage(path, "cat")
    with closing(sqlite3.connect(path)) as connection:
        before = find_entry(connection, path, "cat")[2]
    with SqliteStore(path) as store:
        for name in (*NAMES, "new"):
            terms, state = content[name if name != "new" else "bob"]
            if name == "cat":
                with pytest.raises(StoreError, match="a stored row is damaged"):
                    store.write(name, terms, state)
            else:
                store.write(name, terms, state)
        assert store.find_due(wall_clock() - timedelta(days=9_000))[0] == ("cat",), "a sweep looks at it and says so"
    with closing(sqlite3.connect(path)) as connection:
        assert find_entry(connection, path, "cat")[2] == before
    assert set(open_reader(path).snapshot().troubles) == {"cat"}


def test_opening_reads_nothing_per_stream(folder: Path) -> None:
    """The same statements for ten streams and for two thousand."""
    path, steps, connect = folder / "many.db", [], sqlite3.connect
    for count in (10, 2_000):
        with SqliteStore(path) as store, store.transaction():
            for i in range(count):
                store.write(f"stream {i}", TERMS, State.empty(1))
        made = Counter[str]()

        def watched(*arguments: object, made: Counter[str] = made, **options: object) -> sqlite3.Connection:
            connection = connect(*arguments, **options)  # type: ignore[call-overload]
            connection.set_progress_handler(lambda: made.update(["step"]), 1)
            return connection  # type: ignore[no-any-return]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sqlite3.connect", watched)
            with SqliteStore(path) as store:
                steps.append(made["step"])
                assert store.stream("stream 7").read(TERMS) == State.empty(1)
                assert made["step"] - steps[-1] < 300
    assert steps[0] == steps[1]


def test_streams_are_told_apart_whatever_they_are_called(folder: Path) -> None:
    names = ["a", "A", "a\0", "a\0\0", "ä", "a\u0308", "\uffff", "x" * 1024, " ", "'; DROP TABLE streams", "🙂"]
    with SqliteStore(folder / "odd.db") as store:
        for i, name in enumerate(names):
            Stream(Mean(), retention=96, store=store.stream(name)).extend(np.arange(i + 1.0), source=name)
    there = read_streams(folder / "odd.db")
    assert {name: state.clock.t for name, (_, state) in there.items()} == {n: i + 1 for i, n in enumerate(names)}
    assert all(list(state.positions) == [name] for name, (_, state) in there.items())
    with SqliteStore(folder / "odd.db") as store:
        store.tidy()
        store.remove("\uffff")
    assert open_reader(folder / "odd.db").verify() == ()
