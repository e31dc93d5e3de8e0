"""A service in a process of its own that is killed and started again under load, and clients that count what they sent.

Each client has keys of its own, so that the order of the rows of a key is known, and one stream is shared by all.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vestige import KeyedStreams, open_store
from vestige.client import Client, RowsTaken
from vestige.ingest.definition import Definition

OWN: dict[str, Any] = {"name": "own", "columns": ["x"], "by": ["key"], "retention": 48, "channel": "bits", "seed": 1}
SHARED: dict[str, Any] = {"name": "shared", "columns": ["x"], "retention": 48, "channel": "bits", "seed": 1}
KEYS, ROWS = 3, 20
"""Number of keys of each client, and of rows of each request."""
_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl."""


class ServiceProcess:
    """A service that can be killed and started again on its port; it dies with the tests.

    Args:
        address: the address of its store.
        options: further words of the command line.
    """

    def __init__(self, address: str, *options: str) -> None:
        self._words = (address, *options)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process is not None
        return self._process.pid

    def start(self, seconds: float = 60.0) -> None:
        """Start the service, and wait until it answers."""
        self.launch()
        self.wait(seconds)

    def launch(self) -> None:
        """Start the service."""
        words = [sys.executable, "-m", "vestige", "serve", *self._words, "--open", "--port", str(self.port)]
        prctl = ctypes.CDLL(None).prctl
        self._process = subprocess.Popen(
            words,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: prctl(_DEATH_SIGNAL, signal.SIGKILL),  # noqa: PLW1509  # one system call
        )

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until the service answers."""
        until = time.monotonic() + seconds
        while not self._listens():
            assert self.is_running, "the service has ended"
            assert time.monotonic() < until, "the service does not answer"
            time.sleep(0.02)

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def tell(self, how: signal.Signals) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._process.send_signal(how)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the service, by default without notice."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(120.0)
            self._process = None


@contextmanager
def serve_apart(address: str, *options: str) -> Iterator[ServiceProcess]:
    """A service in a process of its own."""
    made = ServiceProcess(address, *options)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@dataclass
class Sender:
    """One client, and what the service has acknowledged to it.

    Attributes:
        number: its number.
        rounds: number of requests of each stream that it had answered.
        total: what became of all its rows.
        slowest: seconds that its slowest call took.
    """

    number: int
    rounds: int = 0
    total: RowsTaken = field(default_factory=lambda: RowsTaken(0, 0, 0, 0, 0))
    slowest: float = 0.0

    def make_rows(self, turn: int) -> list[dict[str, Any]]:
        """The rows of a turn, which are the same whenever they are asked for."""
        values = np.random.default_rng([self.number, turn]).normal(10.0, 3.0, ROWS)
        return [{"key": f"{self.number}-{i % KEYS}", "x": float(x)} for i, x in enumerate(values)]

    def send(self, url: str, has_ended: threading.Event) -> None:
        """Send rows until the end; each turn is acknowledged before the next."""
        with Client(url, patience=120.0, timeout=20.0) as client:
            while not has_ended.is_set():
                began, rows = time.monotonic(), self.make_rows(self.rounds)
                for name in ("own", "shared"):
                    made = client.send_rows(name, rows)
                    assert (made.taken, made.requests) == (ROWS, 1)
                    self.total += made
                self.rounds += 1
                self.slowest = max(self.slowest, time.monotonic() - began)


def compile_kernels() -> None:
    """Compile what the service needs, if that was not done before, so that clients do not wait for it."""
    with open_store("memory:") as store:
        for number, streams in enumerate(open_streams(store)):
            streams.extend(np.array([f"{number}-{i % 3}" for i in range(500)], np.object_), np.arange(500.0))
            streams.flush()


def send_while_killed(
    service: ServiceProcess, kills: int, clients: int, pause: tuple[float, float], seed: int = 0
) -> list[Sender]:
    """Have clients send rows while the service is killed again and again.

    Args:
        service: the service, started.
        kills: how often it is killed.
        clients: number of clients.
        pause: shortest and longest time between a start and the next kill, in seconds.
        seed: what decides these times.

    Returns:
        The clients, after all that they have sent was acknowledged.
    """
    with Client(service.url, patience=60.0) as client:
        for definition in (OWN, SHARED):
            client.create_stream(definition)
    senders, has_ended, coin = [Sender(i) for i in range(clients)], threading.Event(), random.Random(seed)  # noqa: S311
    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(sender.send, service.url, has_ended) for sender in senders]
        try:
            for _ in range(kills):
                wait_for_answers(senders)
                time.sleep(coin.uniform(*pause))
                service.stop()
                service.start()
            time.sleep(pause[1])
        finally:
            has_ended.set()
        for each in running:
            each.result(150.0)
    return senders


def wait_for_answers(senders: Sequence[Sender], seconds: float = 60.0) -> None:
    """Wait until half of the clients were answered again, so that the next kill comes under load."""
    before, until = [sender.total.requests for sender in senders], time.monotonic() + seconds
    while sum(a.total.requests > b for a, b in zip(senders, before, strict=True)) < len(senders) / 2:
        assert time.monotonic() < until, "the clients are not answered"
        time.sleep(0.01)


def check_acknowledged(streams: KeyedStreams, shared: KeyedStreams, senders: Sequence[Sender]) -> None:
    """Compare streams with what was acknowledged: every row once, in the order of its client."""
    definition = Definition.from_data(OWN)
    plain = definition.make_streams(definition.make_policy())
    for sender in senders:
        rows = [row for turn in range(sender.rounds) for row in sender.make_rows(turn)]
        if rows:
            names = definition.names.find_names(np.array([row["key"] for row in rows], np.object_))
            plain.extend(names, np.array([row["x"] for row in rows]))
    assert sorted(streams) == sorted(plain)
    found = sorted(plain)
    assert streams.counts(found).t.tolist() == plain.counts(found).t.tolist()
    for name in found:
        assert streams.clock(name) == plain.clock(name)
        ours, theirs = streams.retained(name), plain.retained(name)
        assert ours.rounds.tolist() == theirs.rounds.tolist()
        assert ours.values.tolist() == theirs.values.tolist()
    assert shared.counts(["shared"]).t.tolist() == [sum(sender.rounds for sender in senders) * ROWS]


def open_streams(store: Any) -> tuple[KeyedStreams, KeyedStreams]:
    """The streams of both definitions in a store."""
    made = []
    for data in (OWN, SHARED):
        definition = Definition.from_data(data)
        made.append(definition.make_streams(definition.make_policy(), store))
    return made[0], made[1]


def find_disk() -> Path:
    """A folder on a disk, since one in memory flushes nothing."""
    return Path(os.environ.get("VESTIGE_TEST_DISK", Path(__file__).parent.parent.parent / ".cache"))
