"""Killed at any moment, a store is as it was before or after an update; the run goes on, and no record counts twice."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from reading import read_streams
from store import victim
from vestige import Clock, Mean, Records, Stream
from vestige.errors import StoreError
from vestige.store import Position, SqliteStore, open_reader
from vestige.store.position import decode_count, encode_count

RECORDS = 40_000
BATCH = victim.RETENTION // 2
HOT = bytes.fromhex("d9d505f920a163d7")  # a journal begins with this once SQLite would roll it back

State = tuple[Clock, Records]


@dataclass(frozen=True)
class Run:
    """A run that nothing interrupted: the state after each update, the one at the end, and what it says."""

    source: Path
    states: dict[int, State]
    answer: object


@dataclass(frozen=True)
class Killed:
    """What a victim left: how far it had come, and the start of its journal, None if there was none."""

    t: int
    journal: bytes | None


class Victims:
    """Runs that are killed, each in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def run(self, source: Path, path: Path, seconds: float | None = None) -> tuple[int, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(source), str(path), seconds]) + "\n")
        self.process.stdin.flush()
        code, took = json.loads(self.process.stdout.readline())
        return int(code), float(took)


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    command = [sys.executable, str(Path(__file__).with_name("victim.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Victims(process)
        finally:
            process.kill()


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder that is not in memory, so that a commit takes long enough to be killed in its midst."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    rows = np.random.default_rng(20).normal(12.0, 40.0, RECORDS)
    source = victim.as_file(rows, tmp_path_factory.mktemp("source") / "delays.csv")
    stream, states = Stream(Mean(), retention=victim.RETENTION, seed=victim.SEED), {}
    states[0] = stream.clock, stream.retained
    for start in range(0, RECORDS, BATCH):
        stream.extend(rows[start : start + BATCH], source=source.name)
        states[stream.t] = stream.clock, stream.retained
    return Run(source, states, stream.estimate().value)


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def check_end(path: Path, whole: Run) -> None:
    """Exactly what a run without interruption leaves, in the file and beside it."""
    ((name, (_, state)),) = read_streams(path).items()
    assert name == victim.NAME
    assert (state.clock, state.retained) == whole.states[RECORDS]
    assert state.positions == {whole.source.name: Position(encode_count(RECORDS), slot=1)}
    assert open_reader(path).verify() == ()
    assert contents(path.parent) == [path.name, f"{path.name}.lock"]


def journal_of(path: Path) -> bytes | None:
    journal = path.with_name(f"{path.name}-journal")
    return journal.read_bytes()[: len(HOT)] if journal.exists() else None


def killed(victims: Victims, whole: Run, path: Path, seconds: float, read_first: bool) -> Killed:
    """Kill one run, look at what it left, and finish it; the first to look may be one who only reads."""
    code, _ = victims.run(whole.source, path, seconds)
    assert code in (0, -9)
    journal = journal_of(path)
    if read_first:
        with suppress(StoreError):  # there may be no store yet
            read_streams(path)
    with SqliteStore(path) as store:
        stream = victim.stored(store)
        t = stream.t
        assert decode_count(stream.position(whole.source.name).value) == t
        assert (stream.clock, stream.retained) == whole.states[t], "the state after an update, or the one before it"
    stream = victim.ingest(whole.source, path)
    assert stream.estimate().value == whole.answer
    assert stream.t == RECORDS
    check_end(path, whole)
    return Killed(t, journal)


def test_a_run_without_interruption(victims: Victims, whole: Run, tmp_path: Path) -> None:
    assert victims.run(whole.source, tmp_path / "delays.db")[0] == 0
    check_end(tmp_path / "delays.db", whole)
    assert victim.ingest(whole.source, tmp_path / "delays.db").estimate().value == whole.answer
    check_end(tmp_path / "delays.db", whole)


@pytest.mark.parametrize("kills", [50, pytest.param(150, marks=pytest.mark.slow(30))])
def test_kills_at_random_moments(victims: Victims, whole: Run, disk: Path, kills: int) -> None:
    lengths = []
    for number in range(5):
        (disk / f"whole{number}").mkdir()
        lengths.append(victims.run(whole.source, disk / f"whole{number}" / "delays.db")[1])
    left = []
    for number, share in enumerate(np.random.default_rng(kills).random(kills)):
        (disk / str(number)).mkdir()
        path = disk / str(number) / "delays.db"
        left.append(killed(victims, whole, path, float(share * np.median(lengths)), number % 2 == 1))
    amid = sum(0 < one.t < RECORDS for one in left)
    hot = sum(one.journal == HOT for one in left)
    cold = sum(one.journal is not None for one in left) - hot
    print(f"{kills} kills: {amid} amid the run, {hot} hot journals, {cold} others, {lengths[0]:.2f} s a run")
    assert amid >= kills / 3
    assert len({one.t for one in left}) >= kills**0.5
    assert hot > 0


def test_opening_a_store_clears_away_the_journal_of_a_killed_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite ignores, and leaves, a journal that was not synced yet; its header is zero, but it has pages."""
    monkeypatch.setattr("vestige.store.sqlite.verify._SETTLING", 0.1)
    path = tmp_path / "delays.db"
    with SqliteStore(path) as store:
        stream = victim.stored(store)
        stream.extend(np.arange(3_000.0))
    path.with_name(f"{path.name}-journal").write_bytes(bytes(516) + path.read_bytes()[4096:8192] + bytes(4))
    assert "open the store again" in open_reader(path).verify()[0]
    with SqliteStore(path) as store:
        assert victim.stored(store).t == 3_000
    assert contents(tmp_path) == [path.name, f"{path.name}.lock"]
    assert open_reader(path).verify() == ()


def test_a_reader_clears_away_a_journal_that_was_never_used(tmp_path: Path) -> None:
    """Its header is zero, so SQLite ignores it; but not the one of a writer that is at work."""
    path = tmp_path / "delays.db"
    with SqliteStore(path) as store:
        victim.stored(store).extend(np.arange(3_000.0))
    journal = path.with_name(f"{path.name}-journal")
    journal.write_bytes(bytes(516) + path.read_bytes()[4096:8192] + bytes(4))
    assert len(read_streams(path)) == 1
    assert not journal.exists()
    with SqliteStore(path) as store:
        with store.transaction():
            store.write("other", store.terms(victim.NAME), store.stream(victim.NAME).read(store.terms(victim.NAME)))
            assert journal.exists()
            assert list(read_streams(path)) == [victim.NAME]
            assert journal.exists()
        assert len(store.names()) == 2


def test_a_writer_killed_while_it_made_the_key_leaves_a_store_that_takes_subjects(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "delays.db") as store:
        (tmp_path / "delays.db.key").touch()
        stream = victim.stored(store)
        stream.push(1.0, subject="somebody")
        assert stream.t == 1
