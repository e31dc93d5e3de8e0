"""Planted canaries: of a record that is gone, no byte is left in any file of its store."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from limits import SECONDS, kill_late
from reading import read_streams
from store.sealed_decoder import list_parts, open_parts
from vestige import Clock, Mean, Policy, Records, Stream, Window
from vestige.errors import StoreBusyError, StoreError
from vestige.store import KeyringFile, Position, Receipt, SqliteStore, State, Store, Terms, open_reader
from vestige.store.position import encode_count
from vestige.store.receipt import RECEIPTS_KEPT
from vestige.times import wall_clock

RETENTION = 128
RECORDS, PEOPLE = 10_000, 2_000
POLICIES: dict[str, Policy] = {"mean": Mean(), "bits": Mean(channel="bits"), "window": Window(), "quiet": Mean()}
SUBJECTLESS = ("quiet",)
START = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
COUNTERS = {*range(24, 28), *range(40, 44), *range(92, 96)}  # of changes to the file, and of those to its schema

Content = tuple[Clock, Records, tuple[Receipt, ...]]

READER = """
import json, sys
from select import select
from vestige.store import open_reader
print("ready", flush=True)
path, keyring, looks, found = sys.argv[1], (sys.argv[2:] or [None])[0], 0, []
while not select([sys.stdin], [], [], 0.01)[0]:
    open_reader(path, keyring=keyring, patience=20.0).snapshot().all_streams()
    found += open_reader(path, keyring=keyring, patience=20.0).verify()
    looks += 1
print(json.dumps([looks, found]))
"""


@dataclass
class Planted:
    """All records that arrived in a stream, by round from 1 on: their values, and whom they are about."""

    stream: Stream
    values: list[float] = field(default_factory=list)
    subjects: list[str | None] = field(default_factory=list)

    def extend(self, values: list[float], subjects: list[str | None]) -> None:
        self.stream.extend(values, subjects=subjects)
        self.values += values
        self.subjects += subjects

    @property
    def held(self) -> list[int]:
        return [int(r) - 1 for r in self.stream.retained.rounds]


def read_files(path: Path) -> dict[str, bytes]:
    """All files beside a store, read from a copy: to open and close the file itself here would lift SQLite's locks."""
    copy = path.parent.with_name(f"{path.parent.name}.copy")
    subprocess.run(["cp", "-a", str(path.parent), str(copy)], check=True)
    try:
        return {file.name: file.read_bytes() for file in copy.iterdir()} | {"": in_one_piece(copy / path.name)}
    finally:
        shutil.rmtree(copy)


def in_one_piece(path: Path) -> bytes:
    """The rows as SQLite reads them; in the file itself they are cut where a page ends."""
    with closing(sqlite3.connect(path)) as db:
        if not db.execute("SELECT * FROM sqlite_schema WHERE name = 'buckets'").fetchall():
            return b""
        rows = db.execute("SELECT names, body FROM buckets UNION ALL SELECT body, x'' FROM subjects")
        return b"".join(part for row in rows for part in row)


def words(pattern: bytes) -> set[int]:
    """A pattern as words of eight bytes, so that a part of it is found too."""
    return set(np.frombuffer(pattern, "<u8").tolist())


def all_words(content: bytes) -> set[int]:
    """The words of eight bytes at every place of a file."""
    found: set[int] = set()
    for start in range(8):
        end = start + (len(content) - start) // 8 * 8
        found |= words(content[start : max(start, end)])
    return found


def anywhere(path: Path) -> set[int]:
    return set[int]().union(*map(all_words, read_files(path).values()))


def of_values(values: Iterable[float]) -> set[int]:
    """As we write them, and as SQLite would."""
    listed = list(values)
    return words(struct.pack(f"<{len(listed)}d", *listed)) | words(struct.pack(f">{len(listed)}d", *listed))


def of_subjects(subjects: Iterable[str | None]) -> set[int]:
    return words("".join(subject for subject in subjects if subject is not None).encode())


def of_pseudonyms(subjects: Iterable[str | None], store: Store) -> set[int]:
    return words(bytes.fromhex("".join(store.pseudonym(subject) for subject in subjects if subject is not None)))


def people(rng: np.random.Generator) -> list[str]:
    letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"))
    return ["".join(rng.choice(letters, 64)) for _ in range(PEOPLE)]


def drawn(rng: np.random.Generator, name: str, crowd: list[str], n: int) -> tuple[list[float], list[str | None]]:
    subjects = [
        None if name in SUBJECTLESS or rng.random() < 0.3 else crowd[int(i)] for i in rng.integers(len(crowd), size=n)
    ]
    return rng.normal(size=n).tolist(), subjects


def check_erased(path: Path, store: Store, planted: Mapping[str, Planted], durable: bool) -> int:
    """Nothing that is not held any more is in any file; how many records that were erased we looked for.

    What is held and durable is found, so the scan can find it.
    """
    there = anywhere(path)
    all_held: set[str | None] = set()
    for one in planted.values():
        held = set(one.held)
        assert all(index + RETENTION >= one.stream.t for index in held)
        gone = [value for index, value in enumerate(one.values) if index not in held]
        kept = [one.values[index] for index in held]
        assert not of_values(gone) & there
        assert not durable or words(struct.pack(f"<{len(kept)}d", *kept)) <= there
        all_held |= {one.subjects[index] for index in held}
    known = {subject for one in planted.values() for subject in one.subjects}
    assert not of_subjects(known) & there, "subjects are kept as pseudonyms only"
    assert not of_pseudonyms(known - all_held, store) & there
    assert not durable or of_pseudonyms(all_held, store) <= there
    return sum(len(one.values) - len(one.held) for one in planted.values())


def check_forgotten(rng: np.random.Generator, one: Planted) -> None:
    """Have a person and some rounds removed at once."""
    held = one.held
    person = next((one.subjects[i] for i in held if one.subjects[i] is not None), None)
    if person is not None:
        receipt = one.stream.forget(subject=person, now=True)
        assert receipt.erased_round == one.stream.t
        assert person not in [one.subjects[i] for i in one.held]
    rounds = rng.choice(one.stream.retained.rounds, 5)
    one.stream.forget(rounds=rounds, now=True)
    assert not np.isin(rounds, one.stream.retained.rounds).any()


@contextmanager
def readers(path: Path, *keyring: Path) -> Iterator[None]:
    """Another process that reads and verifies the store all the time."""
    command = [sys.executable, "-c", READER, str(path), *map(str, keyring)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with kill_late(process):
            assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            answer, _ = process.communicate("", timeout=SECONDS)
    looks, found = json.loads(answer)
    print(f"{looks} looks from another process")
    assert looks > 10
    assert found == []


def opened(store: Store, name: str) -> Stream:
    return Stream(POLICIES[name], retention=RETENTION, seed=3, store=store.stream(name))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "people.db"


def test_nothing_is_left_of_records_that_are_gone(path: Path) -> None:
    rng = np.random.default_rng(0)
    crowd, total, looked, step = people(rng), 0, 0, 0
    with SqliteStore(path, patience=20.0) as store:
        planted = {name: Planted(opened(store, name)) for name in POLICIES}
        store.flush()
        with readers(path):
            while total < RECORDS:
                name, n = str(rng.choice(list(POLICIES))), int(rng.integers(1, 80))
                planted[name].extend(*drawn(rng, name, crowd, n))
                total += n
                if total < 500 * (step + 1):
                    continue
                step += 1
                if step % 3 == 0:
                    check_forgotten(rng, planted[name])
                    looked += check_erased(path, store, planted, durable=False)
                if step % 5 == 0:
                    planted[name].stream.forget(rounds=planted[name].stream.retained.rounds[:9])
                if step % 8 == 0:
                    store.tidy()
                if step % 2:
                    store.flush()
                assert set(read_streams(path)) <= set(POLICIES)
                looked += check_erased(path, store, planted, durable=bool(step % 2))
                assert open_reader(path).verify() == ()
    assert looked > RECORDS * 5
    assert sorted(read_files(path)) == ["", "people.db", "people.db.key", "people.db.key.count", "people.db.lock"]
    gone = [struct.pack("<d", one.values[0]) for one in planted.values()]
    assert open_reader(path).verify(canaries=gone) == ()


def test_no_copy_of_a_sealed_store_opens_to_what_is_gone(path: Path, tmp_path: Path) -> None:
    """All copies that were ever made are tried with all keys that there are; nothing in them is in clear."""
    rng, keys, parts = np.random.default_rng(6), tmp_path / "keyring", set[bytes]()
    crowd, total, looked, step = people(rng), 0, 0, 0
    with SqliteStore(path, keyring=KeyringFile(keys, create=True), patience=20.0) as store:
        planted = {name: Planted(opened(store, name)) for name in POLICIES}
        store.flush()
        with readers(path, keys):
            while total < RECORDS // 3:
                name, n = str(rng.choice(list(POLICIES))), int(rng.integers(1, 80))
                planted[name].extend(*drawn(rng, name, crowd, n))
                total, step = total + n, step + 1
                if step % 4 == 0:
                    check_forgotten(rng, planted[name])
                if step % 9 == 0:
                    store.tidy()
                store.flush()
                files = read_files(path)
                parts |= list_parts([(files[path.name], files.get(f"{path.name}-journal", b""))], tmp_path / "scratch")
                if step % 3 == 0:
                    looked += check_opened(files, b"".join(open_parts(parts, keys.read_bytes())), store, planted)
    print(f"{len(parts)} parts of rows in copies; {looked} looks for records that are gone")
    assert looked > 3 * RECORDS
    assert sorted(read_files(path)) == ["", "people.db", "people.db.key", "people.db.key.count", "people.db.lock"]
    assert open_reader(path, keyring=keys).verify() == ()


def check_opened(files: Mapping[str, bytes], content: bytes, store: Store, planted: Mapping[str, Planted]) -> int:
    """What opens is what is held, and nothing of it is in the files; how many records that are gone we looked for."""
    there, clear = all_words(content), set[int]().union(*map(all_words, files.values()))
    held, gone, people_held, known = list[float](), list[float](), set[str | None](), set[str | None]()
    for one in planted.values():
        places, known = set(one.held), known | {*one.subjects}
        held += [one.values[place] for place in places]
        gone += [value for place, value in enumerate(one.values) if place not in places]
        people_held |= {one.subjects[place] for place in places}
    assert words(struct.pack(f"<{len(held)}d", *held)) <= there
    assert of_pseudonyms(people_held, store) <= there
    assert not (of_values(gone) | of_subjects(known) | of_pseudonyms(known - people_held, store)) & there
    assert not (of_values(held + gone) | of_subjects(known) | of_pseudonyms(known, store)) & clear
    return len(gone)


def test_a_store_that_is_opened_anew_for_each_few_records(path: Path) -> None:
    rng = np.random.default_rng(1)
    crowd, past = people(rng), {name: Planted(Stream(Mean(), retention=RETENTION)) for name in POLICIES}
    for turn in range(40):
        with SqliteStore(path) as store:
            for name in POLICIES:
                past[name].stream = opened(store, name)
                past[name].extend(*drawn(rng, name, crowd, int(rng.integers(1, 40))))
            if turn % 9 == 8:
                check_forgotten(rng, past[str(rng.choice(list(POLICIES)))])
        with SqliteStore(path) as store:
            check_erased(path, store, past, durable=True)


@pytest.mark.parametrize("policy", [Mean(), Mean(channel="bits"), Window()])
def test_nothing_is_left_of_records_that_are_too_old(path: Path, policy: Policy) -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=700).tolist()
    times = [START + i * DAY / 20 + timedelta(microseconds=int(rng.integers(10**6))) for i in range(700)]
    stamps = np.array([time.replace(tzinfo=None) for time in times], "datetime64[us]").astype("<i8")
    with SqliteStore(path) as store:
        stream = Stream(policy, retention=RETENTION, max_age=4 * DAY, seed=0, store=store.stream("a"))
        planted = Planted(stream, values, [None] * 700)
        for start in range(0, 700, 50):
            stream.extend(values[start : start + 50], times=times[start : start + 50])
            stream.flush()
        assert of_values(values) & all_words(read_files(path)[path.name])
        for time in [times[-1] + i * DAY / 2 for i in range(9)]:
            stream.sweep(time)
            check_erased(path, store, {"a": planted}, durable=True)
            assert open_reader(path).verify(at=time) == ()
            late = [value for value, then in zip(values, times, strict=True) if time - then >= 4 * DAY]
            assert not of_values(late) & anywhere(path)
        assert len(stream.retained) == 0
        assert stream.t == 700
    assert not (of_values(values) | words(stamps.tobytes())) & anywhere(path)


@pytest.mark.parametrize("policy", [Mean(), Window()])
def test_what_could_not_be_erased_at_once_is_erased_by_the_next_sweep(path: Path, policy: Policy) -> None:
    values = np.random.default_rng(8).normal(size=100).tolist()
    now = START + 5 * DAY
    with SqliteStore(path, patience=0.0) as store:
        stream = Stream(policy, retention=RETENTION, max_age=DAY, seed=0, store=store.stream("a"))
        stream.extend(values, times=[START] * 100)
        stream.flush()
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT id FROM buckets").fetchall()
            with pytest.raises(StoreBusyError):
                stream.sweep(now)
        stream.sweep(now)
        assert not of_values(values) & anywhere(path)
        assert open_reader(path).verify(at=now) == ()


def test_nothing_is_left_of_a_stream_that_was_removed(path: Path) -> None:
    values, name, source = np.random.default_rng(9).normal(size=100).tolist(), "ada@example.org", "/of/ada.csv"
    with SqliteStore(path) as store:
        others = [opened(store, other) for other in POLICIES]
        removed = Stream(Window(), retention=RETENTION, store=store.stream(name))
        for stream in (*others, removed):
            stream.extend(values if stream is removed else [1.0], source=source)
        receipt = removed.forget(rounds=[3])
        store.flush()
        for canary in (name.encode(), bytes.fromhex(receipt.id)):
            assert any(canary in content for content in read_files(path).values())
        store.remove(name)
        with pytest.raises(StoreError, match="is not open here any more: its store was closed, it was removed"):
            removed.extend([values[0]])
        for canary in (name.encode(), bytes.fromhex(receipt.id)):
            assert not any(canary in content for content in read_files(path).values())
        assert not of_values(values) & anywhere(path)
        assert store.names() == tuple(sorted(POLICIES))
        for stream in others:
            stream.extend([2.0], source=source)
    assert {n: s.positions for n, (_, s) in read_streams(path).items()} == {
        n: {source: Position(encode_count(2), slot=1)} for n in POLICIES
    }
    assert open_reader(path).verify(canaries=[name.encode()]) == ()


def test_a_stream_that_was_never_written_can_be_removed(path: Path) -> None:
    with SqliteStore(path) as store:
        stream = opened(store, "mean")
        stream.extend([1.0])
        assert store.live("mean") is stream
        store.remove("mean")
        assert store.live("mean") is None
        with pytest.raises(StoreError, match="there is no stream 'mean'"):
            store.remove("mean")
    assert read_streams(path) == {}


def test_the_scan_finds_what_a_plain_table_leaves(path: Path) -> None:
    """The usual way: one row for each record, which is deleted when it is due."""
    rng = np.random.default_rng(3)
    crowd, values, subjects = people(rng), list[float](), list[str | None]()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, value REAL, subject TEXT, more BLOB)")
        while len(values) < RECORDS:
            n = int(rng.integers(1, 80))
            new_values, new_subjects = drawn(rng, "mean", crowd, n)
            rows = [
                (value, who, bytes(int(rng.integers(100)))) for value, who in zip(new_values, new_subjects, strict=True)
            ]
            db.execute("BEGIN")
            db.executemany("INSERT INTO records VALUES (NULL, ?, ?, ?)", rows)
            values, subjects = values + new_values, subjects + new_subjects
            db.execute("DELETE FROM records WHERE id <= ?", (len(values) - RETENTION,))
            db.execute("COMMIT")
    there = all_words(read_files(path)[path.name])
    assert len(of_values(values[:-RETENTION]) & there) > 100
    assert len(of_subjects(set(subjects[:-RETENTION]) - set(subjects[-RETENTION:])) & there) > 100


def test_pages_that_were_freed_are_zero(path: Path) -> None:
    """With secure_delete=FAST, SQLite leaves the bytes of a page that it frees."""
    terms = Terms({}, 1, 10)
    receipts = tuple(Receipt.create(wall_clock(), 1, 2, None, None) for _ in range(2_000))
    with SqliteStore(path) as store:
        store.write("a", terms, State(Clock(), Records.empty(1), receipts=receipts))
        store.write("a", terms, State.empty(1))
        image = read_files(path)[path.name]
        assert store._connection.execute("PRAGMA freelist_count").fetchone()[0] > 10
        assert not any(bytes.fromhex(receipt.id) in image for receipt in receipts)


def test_the_scan_and_verify_find_what_other_pragmas_leave(path: Path) -> None:
    rng = np.random.default_rng(4)
    crowd = people(rng)
    with SqliteStore(path) as store:
        store._connection.execute("PRAGMA secure_delete = OFF")
        store._connection.execute("PRAGMA journal_mode = PERSIST")
        planted = Planted(opened(store, "window"))
        for _ in range(20):
            planted.extend(*drawn(rng, "window", crowd, RETENTION // 2))
        held = set(planted.held)
        gone = [value for index, value in enumerate(planted.values) if index not in held]
        assert of_values(gone) & all_words(read_files(path)[f"{path.name}-journal"])
        with pytest.raises(AssertionError):
            check_erased(path, store, {"window": planted}, durable=True)
    found = open_reader(path).verify(canaries=[struct.pack("<d", value) for value in gone])
    assert any(f"is in {path.name}-journal" in sentence for sentence in found)


def past_and_present(
    path: Path, key: Path, names: Iterable[str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[bytes, dict[str, Content]]:
    """The bytes of a store whose streams differ in all but their newest records, and what it holds."""
    past, present = np.random.default_rng(seed), np.random.default_rng(5)
    last = {name: (present.normal(size=100), present.choice(people(present)[:5], 100)) for name in ("a", "b", "c")}
    with SqliteStore(path, key=key) as store:
        streams = {n: Stream(Window(), retention=64, seed=seed, store=store.stream(n)) for n in names}
        for name, stream in streams.items():
            for _ in range(10):
                stream.extend(past.normal(size=30), subjects=[None, "somebody", f"only in {seed}"] * 10)
                if past.random() < 0.5:
                    stream.flush()
                asked, now = stream.retained.rounds, bool(past.random() < 0.5)
                if now:  # a record that goes while it waits is counted in the clock, which is not of the past
                    asked = asked[asked <= stream.clock.last]
                if len(asked) and past.random() < 0.5:
                    stream.forget(rounds=int(past.choice(asked)), now=now)
            for _ in range(30 * (seed - 1)):  # so that receipts need more than a page
                stream.forget(rounds=1)
            values, subjects = last[name]
            for part in np.split(np.arange(100), np.sort(past.integers(100, size=seed))):
                stream.extend(values[part], subjects=[str(subject) for subject in subjects[part]], source="file")
        store.flush()
        with monkeypatch.context() as later:
            later.setattr("vestige.stream.stream.wall_clock", lambda: wall_clock() + RECEIPTS_KEPT + DAY)
            for stream in streams.values():
                assert stream._state.receipts
                stream.sweep()
        store.tidy()
    assert open_reader(path).verify() == ()
    content = {name: (state.clock, state.retained, state.receipts) for name, (_, state) in read_streams(path).items()}
    return read_files(path)[path.name], content


def differing(one: bytes, other: bytes) -> set[int]:
    assert len(one) == len(other)
    return set(np.flatnonzero(np.frombuffer(one, np.uint8) != np.frombuffer(other, np.uint8)).tolist())


def test_a_tidy_store_says_nothing_of_its_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for number, names in enumerate(["abc", "cab", "bca"], 1):
        (tmp_path / str(number)).mkdir()
        made.append(past_and_present(tmp_path / str(number) / "s.db", tmp_path / "key", names, number, monkeypatch))
    (first, content), *others = made
    assert [(clock.t, len(retained), receipts) for clock, retained, receipts in content.values()] == [(400, 49, ())] * 3
    for other, same in others:
        assert same == content
        assert differing(first, other) <= COUNTERS


def test_a_tidy_store_whose_records_were_too_old_says_only_how_many(tmp_path: Path) -> None:
    made = []
    for seed in (6, 7):
        rng, path = np.random.default_rng(seed), tmp_path / f"{seed}" / "s.db"
        path.parent.mkdir()
        with SqliteStore(path) as store:
            stream = Stream(Mean(), retention=RETENTION, max_age=DAY, seed=seed, store=store.stream("a"))
            for i in range(300):
                stream.push(rng.normal(), time=START + i * DAY / 100 + rng.random() * DAY / 100)
            stream.sweep(START + 5 * DAY)
            assert stream.t == 300
            store.tidy()
        made.append(read_files(path)[path.name])
    assert differing(*made) <= COUNTERS
