"""Random schedules of two services on one store: hung, cut off, ended, with answers lost and clients that retry.

After Kyle Kingsbury's Jepsen: whatever happened, each row that was acknowledged is counted once, and each row that is
counted was sent. Each request has a key of rows of its own, so that the count of each request is known.
"""

from __future__ import annotations

import json
import math
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
from killed import ServiceProcess

from vestige.ingest.definition import Definition
from vestige.keyed.rehearsal import rehearse

WRITERS = 3
"""Number of clients that send at the same time."""
TIMEOUT = 0.5
"""Seconds that a client waits for an answer."""
PATIENCE = 240.0
"""Seconds in which everything comes to its end once all is well again."""
_AGAIN = (429, 503)
_SENT_AGAIN = 20
"""Number of requests of each schedule that are sent again at its end."""
_DEFINITION: dict[str, Any] = {"columns": ["x"], "by": "key", "retention": 48, "seed": 1}
Fence = Callable[[int], None]
"""Has the server of the database end the sessions of a service, by its number."""


@dataclass
class Request:
    """Rows that are sent until they are acknowledged, or given up.

    Attributes:
        key: the idempotency key, which the rows have as their key too.
        rows: the rows.
        is_certain: whether they were acknowledged; None while that is open.
    """

    key: str
    rows: list[dict[str, Any]]
    is_certain: bool | None = None


@dataclass
class Pair:
    """Two services on one store.

    Attributes:
        services: the services.
        fence: see `Fence`; None for a store that one process has at a time.
        history: what has happened in the present schedule.
    """

    services: tuple[ServiceProcess, ServiceProcess]
    fence: Fence | None
    history: list[str] = field(default_factory=list)
    _began: float = 0.0

    def begin(self) -> None:
        """Begin another history."""
        self.history, self._began = [], time.monotonic()

    def note(self, text: str) -> None:
        """Note what has happened."""
        self.history.append(f"{time.monotonic() - self._began:.2f} {text}")

    def heal(self) -> None:
        """Have all go on, and start what was ended; of a store that one process has at a time, one."""
        for each in self.services:
            if each.is_running:
                each.tell(signal.SIGCONT)
        wanted = self.services if self.fence else [self.find_running() or self.services[0]]
        for each in wanted:
            if not each.is_running:
                each.launch()
        for each in wanted:
            each.wait(PATIENCE)

    def find_running(self) -> ServiceProcess | None:
        """A service that is there."""
        return next((each for each in self.services if each.is_running), None)

    def end(self, number: int, how: signal.Signals) -> None:
        """End a service, and start it again; or the other one, if only one can have the store."""
        if self.services[number].is_running:
            self.services[number].stop(how)
        other = self.services[number if self.fence else 1 - number]
        if not other.is_running:
            other.launch()


class Schedule:
    """One schedule.

    Args:
        pair: the services, which are well.
        seed: what decides all that happens.
        seconds: how long faults come.
        ends: share of the faults that end a process.
    """

    def __init__(self, pair: Pair, seed: int, seconds: float, ends: float) -> None:
        self._pair, self._seed, self._seconds, self._ends = pair, seed, seconds, ends
        self._definition = _DEFINITION | {"name": f"s{seed}"}
        self._path = f"/v1/streams/s{seed}"
        self._has_ended, self._is_well = threading.Event(), threading.Event()
        self._http = httpx.Client(timeout=TIMEOUT, trust_env=False, verify=False)  # noqa: S501  # in clear, on this host
        self._problems: list[str] = []
        self._until = float("inf")

    def run(self) -> int:
        """Run it, and compare what is counted with what was sent and acknowledged.

        Returns:
            The number of requests.
        """
        self._pair.begin()
        coin = random.Random(self._seed)  # noqa: S311
        statuses = self._settle(coin, "POST", "/v1/streams", self._definition)
        self._expect(set(statuses) <= {200, 201}, f"created: {statuses}")
        with ThreadPoolExecutor(WRITERS) as pool:
            running = [pool.submit(self._write, number) for number in range(WRITERS)]
            try:
                self._disturb(coin)
            finally:
                self._until = time.monotonic() + PATIENCE
                self._has_ended.set()
                self._pair.heal()
                self._is_well.set()
                self._pair.note("healed")
            sent = [request for each in running for request in each.result(2 * PATIENCE)]
        for request in coin.sample(sent, min(_SENT_AGAIN, len(sent))):
            self._insist(coin, request, may_be_lost=False)
        self._compare(coin, sent)
        self._http.close()
        assert not self._problems, (self._seed, self._problems, self._pair.history)
        return len(sent)

    def _expect(self, is_right: bool, text: str) -> None:
        if not is_right:
            self._problems.append(text)

    # Faults.

    def _disturb(self, coin: random.Random) -> None:
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            time.sleep(coin.uniform(0.0, 0.15))
            number = coin.randrange(2)
            if coin.random() < self._ends:
                how = coin.choice([signal.SIGKILL, signal.SIGTERM])
                self._pair.note(f"{how.name} {number}")
                self._pair.end(number, how)
            elif coin.random() < 0.3:
                self._create_again(coin)
            else:
                self._hang(coin, number)

    def _hang(self, coin: random.Random, number: int) -> None:
        """Stop a service for a while, in which the server may end its sessions; or that alone."""
        service, fence = self._pair.services[number], self._pair.fence
        what = coin.choice(["hangs", "hangs", "hangs and is cut off", "hangs and is cut off", "is cut off"])
        if not service.is_running:
            return
        self._pair.note(f"{number} {what}")
        if "hangs" in what:
            service.tell(signal.SIGSTOP)
        time.sleep(coin.uniform(0.0, 0.2))
        if fence is not None and "cut off" in what:
            fence(number)
        if "hangs" in what:
            time.sleep(coin.uniform(0.0, 0.6))
            service.tell(signal.SIGCONT)

    def _create_again(self, coin: random.Random) -> None:
        """Create the stream again, with the same terms or others."""
        change = coin.choice([{}, {"retention": 96}])
        with suppress(httpx.HTTPError):
            answer = self._send(coin.randrange(2), "POST", "/v1/streams", self._definition | change)
            self._pair.note(f"created again: {answer.status_code}")
            self._expect(answer.status_code in (409 if change else 200, 503), f"created again: {answer.text} {change}")

    # Clients.

    def _send(self, number: int, method: str, path: str, body: object = None, key: str | None = None) -> httpx.Response:
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        content = None if body is None else json.dumps(body)
        url = self._pair.services[number].url + path
        return self._http.request(method, url, content=content, headers=headers)

    def _settle(self, coin: random.Random, method: str, path: str, body: object = None) -> list[int]:
        """Send a call until it is answered; the statuses of the last answer, and of those after an answer was lost."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with suppress(httpx.HTTPError):
                answer = self._send(coin.randrange(2), method, path, body)
                if answer.status_code not in _AGAIN:
                    return [answer.status_code]
            time.sleep(0.05)
        return [0]

    def _write(self, number: int) -> list[Request]:
        """Send rows, each request until it is acknowledged or given up; none after one that is open."""
        coin, sent = random.Random(f"{self._seed} {number}"), list[Request]()  # noqa: S311
        while not self._has_ended.is_set():
            key = f"{number}-{len(sent)}"
            rows = [{"key": key, "x": coin.randrange(100)} for _ in range(coin.randrange(1, 6))]
            request = Request(key, rows)
            sent.append(request)
            self._insist(coin, request)
        return sent

    def _insist(self, coin: random.Random, request: Request, *, may_be_lost: bool = True) -> None:
        """Send a request until it is answered, or given up; one that was acknowledged is not counted again."""
        path = f"{self._path}/rows"
        while time.monotonic() < self._until:
            number = coin.randrange(2)
            if may_be_lost and coin.random() < 0.15:
                self._lose_answer(coin, number, path, request)
                if coin.random() < 0.3:
                    return  # given up: it may be counted, or not
                continue
            with suppress(httpx.HTTPError):
                answer = self._send(number, "POST", path, request.rows, request.key)
                if answer.status_code == 200:
                    made = answer.json()
                    is_right = made["taken"] == len(request.rows) and made["replayed"] >= bool(request.is_certain)
                    self._expect(is_right, f"{request}: {made}")
                    request.is_certain = True
                    return
                if answer.status_code not in _AGAIN:
                    self._expect(is_right=False, text=f"{answer.status_code} for {request.key}: {answer.text}")
                    return
            time.sleep(coin.uniform(0.0, 0.05))
        self._expect(is_right=False, text=f"{request.key} was never answered")

    def _lose_answer(self, coin: random.Random, number: int, path: str, request: Request) -> None:
        """Send a request, and go away before its answer."""
        body = json.dumps(request.rows).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Idempotency-Key: {request.key}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with suppress(OSError):
            address = ("127.0.0.1", self._pair.services[number].port)
            with socket.create_connection(address, timeout=TIMEOUT) as connection:
                connection.sendall(head.encode() + body)
                time.sleep(coin.uniform(0.0, 0.03))

    # The end.

    def _compare(self, coin: random.Random, sent: list[Request]) -> None:
        found = self._read_counts(coin)
        for request in sent:
            counted, mean = found.pop(request.key, (0, None))
            allowed = {len(request.rows)} if request.is_certain else {0, len(request.rows)}
            self._expect(counted in allowed, f"{request}: counted {counted}")
            values = [row["x"] for row in request.rows]
            is_right = mean is None or math.isclose(mean, sum(values) / len(values), rel_tol=1e-12)
            self._expect(is_right, f"{request}: mean {mean}")
        self._expect(not found, f"counted and never sent: {found}")
        self._expect(set(self._settle(coin, "DELETE", self._path)) <= {200, 404}, "not deleted")

    def _read_counts(self, coin: random.Random) -> dict[str, tuple[int, float | None]]:
        """What is counted of each request, by its key."""
        until, found, after = time.monotonic() + PATIENCE, dict[str, tuple[int, float | None]](), ""
        while time.monotonic() < until:
            with suppress(httpx.HTTPError):
                answer = self._send(coin.randrange(2), "GET", f"{self._path}/estimates?limit=1000{after}")
                if answer.status_code == 200:
                    page = answer.json()
                    found |= {each["key"]: (each["t"], each["answers"][0]["value"]) for each in page["estimates"]}
                    if page["next"] is None:
                        return found
                    after = f"&after={page['next']}"
                    continue
            time.sleep(0.02)
        self._expect(is_right=False, text="the counts cannot be read")
        return found


@contextmanager
def serve_pair(addresses: tuple[str, str], options: tuple[str, ...], fence: Fence | None) -> Iterator[Pair]:
    """Two services on one store, each with an address of its own for it."""
    definition = Definition.from_data(_DEFINITION)
    rehearse(definition.make_policy(), definition.retention, is_timed=False)  # compiled once, before services need it
    pair = Pair((ServiceProcess(addresses[0], *options), ServiceProcess(addresses[1], *options)), fence)
    try:
        pair.heal()
        yield pair
    finally:
        for each in pair.services:
            if each.is_running:
                each.tell(signal.SIGCONT)
                each.stop(signal.SIGTERM)


def run_schedules(pair: Pair, seeds: range, seconds: float, ends: float) -> None:
    """Run schedules one after the other, on services that go on."""
    requests = sum(Schedule(pair, seed, seconds, ends).run() for seed in seeds)
    print(f"{len(seeds)} schedules, {requests:,} requests")
