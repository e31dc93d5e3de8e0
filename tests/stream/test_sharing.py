"""One stream in several hands: threads, copies, pickles, forks, and a store that was closed."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from limits import join
from reading import read_streams
from vestige import Batched, Mean, Stream, Window
from vestige.errors import StoreError
from vestige.store import MemoryStore, SqliteStore, Store

ROWS = np.random.default_rng(0).normal(size=1_000)


@pytest.mark.parametrize("timed", [False, True])
def test_threads_may_push_into_one_stream(timed: bool) -> None:
    limits = {"max_age": timedelta(days=30), "lateness": timedelta(days=1)} if timed else {}
    stream, problems = Stream(Window(), retention=10_000, **limits), []  # type: ignore[arg-type]

    def work(part: int) -> None:
        try:
            for i in range(400):
                stream.push(float(1_000 * part + i))
                if i % 100 == 0:
                    stream.estimate()
                    stream.sweep()
        except BaseException as problem:
            problems.append(problem)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(part,), daemon=True) for part in range(4)]
        for thread in threads:
            thread.start()
        join(*threads)
    finally:
        sys.setswitchinterval(interval)
    assert not problems
    assert sorted(stream.retained.values[:, 0].tolist()) == [1_000.0 * p + i for p in range(4) for i in range(400)]


def test_threads_may_push_into_a_store_that_is_flushed_meanwhile(tmp_path: Path) -> None:
    problems: list[BaseException] = []
    with SqliteStore(tmp_path / "a.db") as store:
        stream = Stream(Mean(), retention=96, seed=0, store=store.stream("a"))

        def work() -> None:
            try:
                for i in range(200):
                    stream.push(float(i))
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            store.flush()
        for thread in threads:
            thread.join(30.0)
            assert not thread.is_alive()
    assert not problems
    assert read_streams(tmp_path / "a.db")["a"][1].clock.t == 600


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda stream: pickle.loads(pickle.dumps(stream))])
def test_a_copy_goes_its_own_way(again: Callable[[Stream], Stream]) -> None:
    stream, plain = (Stream(Mean(), retention=96, seed=0) for _ in range(2))
    stream.extend(ROWS[:130])
    plain.extend(ROWS[:130])
    twin = again(stream)
    twin.extend(ROWS[130:500])
    assert (stream.clock, stream.retained) == (plain.clock, plain.retained)
    plain.extend(ROWS[130:500])
    twin.push(1.0)
    plain.push(1.0)
    assert (twin.clock, twin.retained) == (plain.clock, plain.retained)
    batched = Batched(Mean(), batch=50, seed=0)
    batched.extend(ROWS)
    assert pickle.loads(pickle.dumps(batched)).retained == batched.retained


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_in_a_store_is_not_copied(copied: Callable[[Stream], object]) -> None:
    stream = Stream(Mean(), retention=96, store=MemoryStore().stream("a"))
    with pytest.raises(StoreError, match="stream 'a' is kept in a store, which has only one of it; do not copy"):
        copied(stream)
    stream.push(1.0)


@pytest.mark.parametrize(
    "action",
    [
        lambda stream: stream.push(1.0),
        lambda stream: stream.push(1),
        lambda stream: stream.extend([1.0, 2.0]),
        lambda stream: stream.forget(rounds=[1]),
        lambda stream: stream.forget(rounds=[1], now=True),
        lambda stream: stream.sweep(),
        lambda stream: stream.restart_source("x"),
        lambda stream: stream.move_source("x", b""),
    ],
)
@pytest.mark.parametrize("timed", [False, True])
def test_nothing_is_taken_after_the_store_was_closed(
    action: Callable[[Stream], object], timed: bool, tmp_path: Path
) -> None:
    stores: list[Store] = [SqliteStore(tmp_path / "a.db"), MemoryStore()]
    for store in stores:
        limit = timedelta(days=1) if timed else None
        stream = Stream(Mean(), retention=96, max_age=limit, store=store.stream("a"))
        stream.extend(ROWS[:10])
        store.close()
        before = stream.clock, stream.retained, stream.receipts
        with pytest.raises(StoreError, match="stream 'a' is not open here any more: its store was closed"):
            action(stream)
        assert (stream.clock, stream.retained, stream.receipts) == before
    assert read_streams(tmp_path / "a.db")["a"][1].clock.t == 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_write(tmp_path: Path) -> None:
    for store in (SqliteStore(tmp_path / "a.db"), MemoryStore()):
        stream = Stream(Mean(), retention=96, store=store.stream("a"))
        stream.extend(ROWS[:10])
        child = os.fork()
        if not child:
            code = 1
            try:
                stream.push(1.0)
            except StoreError as problem:
                code = 0 if "was opened before this process was forked; open it again" in str(problem) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stream.push(1.0)
        store.close()
    assert read_streams(tmp_path / "a.db")["a"][1].clock.t == 11
