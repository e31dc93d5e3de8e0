"""Durable streams against a bare loop that writes the same rows to SQLite, and many streams against one."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from pyarrow import csv, table

from timing import Row, choose
from vestige import KeyedStreams, Mean, SqliteStore, Stream
from vestige.flights import flights
from vestige.ingest import Ingest, StreamNames
from vestige.records import Records
from vestige.sources import FileSource

BATCH = 256
STREAMS, EACH = choose((10_000, 64), (100, 64))
FLIGHTS = choose(1_000_000, 20_000)
FOLDER = "out"


def rows() -> list[Row]:
    """Compare on the disk that holds the project; a memory file system has nothing to flush."""
    Path(FOLDER).mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        return [*_measure_ingest(Path(folder)), *_measure_many_streams(Path(folder))]


class _BareLoop:
    """A table of records; each batch is one flushed transaction that replaces the previous one."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self.run = sqlite3.connect(path, isolation_level=None)
        self.run.execute(f"PRAGMA synchronous={synchronous}")
        self.run.execute("CREATE TABLE records (round INTEGER PRIMARY KEY, value REAL NOT NULL)")

    def write(self, kept: Records) -> None:
        self.run.execute("BEGIN IMMEDIATE")
        self.run.execute("DELETE FROM records")
        entries = zip(kept.rounds.tolist(), kept.values[:, 0].tolist(), strict=True)
        self.run.executemany("INSERT INTO records VALUES (?, ?)", entries)
        self.run.execute("COMMIT")


def _measure_ingest(folder: Path) -> Iterator[Row]:
    """Time all flights; the three stores alternate batch by batch, so that a slow disk is slow for all."""
    delays = flights("dep_delay")[:FLIGHTS, 0]
    bare = {name: _BareLoop(folder / f"{name}.db", name) for name in ("EXTRA", "FULL")}
    taken = dict.fromkeys(("ours", *bare), 0.0)
    with SqliteStore(folder / "ours.db") as store:
        stream = Stream(Mean(), retention=2 * BATCH, seed=0, store=store.stream("delays"))
        stream.extend(delays[: 2 * BATCH])
        for start in range(2 * BATCH, len(delays) - BATCH, BATCH):
            with _time(taken, "ours"):
                stream.extend(delays[start : start + BATCH])
            for name, loop in bare.items():
                with _time(taken, name):
                    loop.write(stream.retained)
    batches = (len(delays) - 3 * BATCH) // BATCH + 1
    for name in bare:
        what = f"flights, durable, as {name}"
        theirs = f"bare SQLite loop, synchronous={name}: {taken[name] / batches * 1e3:.2f} ms"
        yield Row(what, f"{taken['ours'] / batches * 1e3:.2f} ms a batch", theirs, taken[name] / taken["ours"], 1 / 1.5)


@contextmanager
def _time(taken: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    taken[name] += time.perf_counter() - started


def _measure_many_streams(folder: Path) -> Iterator[Row]:
    """Time the same records in one stream, in ten thousand, and again in one."""
    rng = np.random.default_rng(0)
    records = STREAMS * EACH
    few = records // 10
    keys = np.repeat(np.arange(STREAMS), EACH)
    rng.shuffle(keys)
    path = folder / "records.csv"
    csv.write_csv(table({"key": keys, "value": rng.normal(size=records)}), path)
    short = folder / "short.csv"
    csv.write_csv(table({"key": keys[:few], "value": rng.normal(size=few)}), short)
    before = _time_one_stream(folder / "before.db", short)
    started = time.perf_counter()
    with SqliteStore(folder / "many.db") as store:
        rows = FileSource(str(path), ("value",), by="key")
        streams = KeyedStreams(Mean(), retention=2 * EACH, seed=0, store=store.family())
        Ingest(rows, streams, StreamNames("key"), store=store).run()
    many = time.perf_counter() - started
    one = (before + _time_one_stream(folder / "after.db", short)) / 2
    figure, peer = f"{many / records * 1e6:.1f} us a record", f"one stream: {one / few * 1e6:.1f} us a record"
    yield Row(f"{STREAMS:,} streams in a file", figure, peer, one / few / (many / records), 1 / 3)
    started = time.perf_counter()
    store = SqliteStore(folder / "many.db")
    opened = time.perf_counter() - started
    store.close()
    yield Row(f"open {STREAMS:,} streams", f"{opened * 1e3:.0f} ms", "the limit: 1 s", 1.0 / opened, 1.0)


def _make_stream(store: SqliteStore, name: str) -> Stream:
    return Stream(Mean(), retention=2 * EACH, seed=0, store=store.stream(name))


def _time_one_stream(path: Path, source: Path) -> float:
    started = time.perf_counter()
    with SqliteStore(path) as store:
        rows = FileSource(str(source), ("value",))
        Ingest(rows, lambda name: _make_stream(store, name), store=store).run()
    return time.perf_counter() - started
