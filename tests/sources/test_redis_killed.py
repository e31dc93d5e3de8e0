"""A reader of a Redis Stream and its server are killed at any moment: each entry counts once, or its loss is said."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import redis
from click.testing import CliRunner

import redis_victim as victim
from redis_server import RedisServer
from vestige import KeyedStreams, Mean, Stream, open_reader, open_store
from vestige.cli import command
from vestige.ingest import StreamNames

PATIENCE = 60.0
ADDED = 200
"""Number of entries that are added before each kill."""
Start = Callable[..., RedisServer]


@contextmanager
def victims(
    how: str, address: str, path: Path, *, by: bool
) -> Iterator[Callable[[int | None, float], tuple[int, int]]]:
    """A function that reads a stream in a process of its own, and kills it at a step or soon after."""
    line = [sys.executable, str(Path(victim.__file__)), how]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def run(last: int | None = None, delay: float = 0.0) -> tuple[int, int]:
            stdin.write(json.dumps([address, str(path), by, last, delay]) + "\n")
            stdin.flush()
            status, steps = json.loads(stdout.readline())
            return status, steps

        try:
            yield run
        finally:
            stdin.close()


def make_rows(start: int, count: int) -> list[tuple[str, float]]:
    rng = np.random.default_rng(start)
    return [
        (f"key {k}", round(float(v), 3))
        for k, v in zip(rng.integers(0, 40, count), rng.lognormal(size=count), strict=True)
    ]


def add(server: RedisServer, rows: Sequence[tuple[str, float]]) -> None:
    server.add("s", ({"k": key, "v": value} for key, value in rows))


def check(path: Path, rows: Sequence[tuple[str, float]], *, by: bool, name: str | None = None) -> None:
    """The streams are those that have taken each row once, in order."""
    streams = open_reader(path).snapshot().all_streams()
    if by:
        keyed = KeyedStreams(Mean(channel="bits"), retention=96, seed=1)
        keyed.extend([key for key, _ in rows], [value for _, value in rows])
        names = StreamNames("k", name)
        expected = {names.find_name(key): (keyed.clock(key), keyed.retained(key)) for key in keyed}
    else:
        stream = Stream(Mean(channel="bits"), retention=96, seed=1)
        stream.extend([value for _, value in rows])
        expected = {name or "main": (stream.clock, stream.retained)}
    assert set(streams) == set(expected)
    for each, (clock, retained) in expected.items():
        assert streams[each][1].clock == clock
        np.testing.assert_array_equal(streams[each][1].retained.values, retained.values)
    assert open_reader(path).verify() == ()


@pytest.mark.parametrize("by", [False, True], ids=["single", "by key"])
@pytest.mark.parametrize(
    ("how", "kills"),
    [("run", 7), ("serve", 3), *(pytest.param(how, 30, marks=pytest.mark.slow(18)) for how in ("run", "serve"))],
)
def test_a_reader_that_is_killed_counts_each_entry_once(
    redis_server: RedisServer, tmp_path: Path, by: bool, how: str, kills: int
) -> None:
    path, rng, rows = tmp_path / "s.db", np.random.default_rng(kills + by), list[tuple[str, float]]()
    redis_server.call("XGROUP", "CREATE", "s", "other", 0, "MKSTREAM")
    killed, read, moments = 0, list[bytes](), set[int]()
    with victims(how, redis_server.address("s"), path, by=by) as run:
        for turn in range(2):
            more = make_rows(turn, ADDED)
            rows += more
            add(redis_server, more)
            status, steps = run(None, 0.0)
            assert status == 0
        for _ in range(kills):
            more = make_rows(len(rows), ADDED)
            rows += more
            add(redis_server, more)
            status, _ = run(int(rng.integers(1, steps)), float(rng.choice([0.0, 0.0, rng.uniform(0.0, 0.02)])))
            killed += status != 0
            moments.add(sum(state.clock.t for _, state in open_reader(path).snapshot().all_streams().values()) % ADDED)
            found = redis_server.call("XREADGROUP", "GROUP", "other", "c", "COUNT", 100, "STREAMS", "s", ">")
            read += [entry[0] for entry in found[0][1]]
            redis_server.call("XACK", "s", "other", *(entry[0] for entry in found[0][1]))
        assert run(None, 0.0)[0] == 0
    check(path, rows, by=by, name="s" if how == "serve" else None)
    assert killed > kills // 2  # one that is to die soon after a late step may end before
    assert len(moments) > 1 + kills // 20  # they were killed in the middle, too
    rest = redis_server.call("XREADGROUP", "GROUP", "other", "c", "STREAMS", "s", ">")
    read += [entry[0] for entry in rest[0][1]]
    assert len(set(read)) == len(read) == len(rows)  # the other group has had all entries, trimmed or not
    names = [dict(zip(reply[::2], reply[1::2], strict=True)) for reply in redis_server.call("XINFO", "GROUPS", "s")]
    (ours,) = [each for each in names if each[b"name"] != b"other"]
    assert (ours[b"pending"], ours[b"lag"]) == (0, 0)


@contextmanager
def reading(server: RedisServer, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that follows a stream."""
    words = ["run", server.address("s"), "--column", "v", "--retention", "96", "--channel", "bits", "--seed", "1"]
    line = [sys.executable, "-m", "vestige", *words, "--store", str(path), "--by", "k"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_server_that_is_killed_loses_nothing_that_it_has_synced(start_redis: Start, tmp_path: Path) -> None:
    server, path = start_redis(appendonly="yes", appendfsync="always"), tmp_path / "s.db"
    rows, done = make_rows(0, 600), threading.Event()
    with reading(server, path) as process:

        def produce() -> None:
            for number, (key, value) in enumerate(rows, 1):
                while True:
                    try:
                        server.call("XADD", "s", f"{number}-0", "k", key, "v", value)
                    except redis.ResponseError as problem:
                        assert "equal or smaller" in str(problem)  # noqa: PT017  # it was added, and the answer lost
                        break
                    except redis.RedisError:
                        time.sleep(0.01)
                    else:
                        break
                time.sleep(0.005)  # so that the server is killed meanwhile
            done.set()

        producer = threading.Thread(target=produce)
        producer.start()
        until = time.monotonic() + PATIENCE
        while not path.exists():  # a reader that finds no server when it starts ends
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        for _ in range(4):
            time.sleep(0.3)
            server.restart()
        producer.join(PATIENCE)
        assert done.is_set()
        while time.monotonic() < until:
            if path.exists() and sum(s.clock.t for _, s in open_reader(path).snapshot().all_streams().values()) == 600:
                break
            assert process.poll() is None
            time.sleep(0.1)
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + 15
    assert "kept in the store" in said
    check(path, rows, by=True)


def test_a_server_that_is_killed_and_keeps_nothing_is_noticed(redis_server: RedisServer, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    rows = make_rows(0, 100)
    add(redis_server, rows)
    with reading(redis_server, path) as process:
        until = time.monotonic() + PATIENCE
        while not path.exists() or not open_reader(path).snapshot().names:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.1)
        redis_server.restart()
        add(redis_server, rows[:5])
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "The server may have lost its data" in said
    check(path, rows, by=True)
    words = ["run", redis_server.address("s"), "--by", "k", "--store", str(path), "--no-follow"]
    again = CliRunner().invoke(command, words)
    assert again.exit_code == 2
    assert "The server may have lost its data" in again.output
    assert CliRunner().invoke(command, [*words, "--if-replaced", "continue"]).exit_code == 0
    with open_store(path) as store:
        assert store.count_arrived()[0] == 105
