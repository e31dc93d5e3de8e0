"""A process that reads rows into a store in PostgreSQL and dies doing so: it forks, so that each victim starts warm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vestige import KeyedStreams, Mean, Stream
from vestige.errors import StoreError
from vestige.store import KeyringFile, MemoryStore, PostgresStore
from vestige.store.position import decode_count, encode_count
from vestige.store.postgres.connection import Connection
from vestige.store.table_store import TableStore

ROWS, CHUNK, KEYS = 3_000, 100, 40
SOURCE = "rows"
Result = TypeVar("Result")
PLACES = ("written", "prepared", "sent", "committed", "settled")
"""Where a victim can die in a transaction: sealed rows are in the database; and their keys in the keyring; COMMIT is on
its way; it was answered; and the old keys are destroyed."""


class Order(NamedTuple):
    """What a victim is to do.

    Attributes:
        address: the address of the store.
        keyring: the file of its keyring.
        kind: "stream" or "keyed".
        place: one of `PLACES`; empty if it is not to die of itself.
        number: in which transaction it dies there, counted from 1.
        seconds: when it is killed from outside; None if it is not.
        tries: how often it tries again after an error of the store.
    """

    address: str
    keyring: str
    kind: str = "stream"
    place: str = ""
    number: int = 1
    seconds: float | None = None
    tries: int = 0


def draw_rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    return rng.integers(0, KEYS, ROWS), rng.normal(size=ROWS)


class Patience:
    """Tries again after an error of the store, as often as it is told.

    Args:
        tries: how often, in all.
    """

    def __init__(self, tries: int) -> None:
        self._left = tries

    def attempt(self, act: Callable[[], Result]) -> Result:
        """Do something until it succeeds."""
        while True:
            try:
                return act()
            except StoreError:
                if not self._left:
                    raise
                self._left -= 1
                time.sleep(0.02)


def ingest(store: TableStore, kind: str, tries: int = 0) -> None:
    """Read what was not read yet, in chunks that are written one after the other."""
    (keys, rows), patience = draw_rows(), Patience(tries)
    if kind == "stream":
        stream = patience.attempt(lambda: Stream(Mean(), retention=256, seed=1, store=store.stream("rows")))
        while (start := decode_count(stream.position(SOURCE).value)) < ROWS:
            with suppress(StoreError) if tries else nullcontext():
                stream.extend(rows[start : start + CHUNK], source=SOURCE)
            patience.attempt(stream.flush)
        return
    family = patience.attempt(lambda: KeyedStreams(Mean(), retention=64, seed=1, store=store.family()))
    reading = family.positions.read(SOURCE, decode_count)
    for start in range(decode_count(reading.shared.value), ROWS, CHUNK):
        here = slice(start, start + CHUNK)
        patience.attempt(partial(family.take, keys[here], rows[here]))
        reading.note(encode_count(start + CHUNK))
        patience.attempt(family.flush)


def ingest_into(order: Order) -> None:
    store = Patience(order.tries).attempt(lambda: PostgresStore(order.address, keyring=order.keyring, patience=30.0))
    ingest(store, order.kind, order.tries)
    Patience(order.tries).attempt(store.close)  # which flushes, and may lose the connection too


def make_whole(kind: str) -> MemoryStore:
    """What a run leaves that nothing interrupts."""
    store = MemoryStore()
    ingest(store, kind)
    store.flush()
    return store


def arm(place: str, number: int) -> None:
    """Have this process die at a place of its transaction of a number."""
    left = [number]
    prepare, commit, settle = KeyringFile.prepare, Connection.commit, KeyringFile.settle

    def die(here: str) -> None:
        if here == place:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    def prepare_and_die(keyring: KeyringFile, keys: Any) -> None:
        die("written")
        prepare(keyring, keys)
        die("prepared")

    def commit_and_die(connection: Connection) -> None:
        if place == "sent" and connection._connection is not None:
            left[0] -= 1
            if not left[0]:
                connection._connection.pgconn.send_query(b"COMMIT")
                os.kill(os.getpid(), signal.SIGKILL)
        commit(connection)
        die("committed")

    def settle_and_die(keyring: KeyringFile, versions: Any) -> None:
        settle(keyring, versions)
        die("settled")

    KeyringFile.prepare = prepare_and_die  # type: ignore[method-assign, assignment]
    Connection.commit = commit_and_die  # type: ignore[method-assign, assignment]
    KeyringFile.settle = settle_and_die  # type: ignore[method-assign, assignment]


def run(order: Order) -> int:
    """Let a new process carry out an order; how it ended."""
    process = os.fork()
    if not process:
        code = 1
        try:
            if order.place:
                arm(order.place, order.number)
            ingest_into(order)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if order.seconds is not None:
        time.sleep(order.seconds)
        os.kill(process, signal.SIGKILL)  # nobody has waited for it yet, so the number is still its own
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


class Victims:
    """Processes that die, each a fork of one that is warm.

    Args:
        process: the one that is warm.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[Victims]:
        """Start the process that is warm."""
        command = [sys.executable, str(Path(__file__))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield cls(process)
            finally:
                process.kill()

    def send(self, order: Order) -> None:
        """Have a victim begin."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def wait(self) -> int:
        """Wait for the end of the victim that was begun last; how it ended."""
        assert self._process.stdout is not None
        return int(json.loads(self._process.stdout.readline()))


def main() -> None:
    """Warm up, then answer orders, one a line, until there are no more."""
    for kind in ("stream", "keyed"):
        make_whole(kind)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(Order(*json.loads(line)))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
