"""A service while one client holds 1,100 connections open and ends no request: how long others wait.

The client opens them all at once. Others ask `/health` and send rows meanwhile, from the address of that client and
from another one. The goal is that the slowest answer takes 100 ms.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socket import create_connection, socket
from typing import Any

import httpx
import numpy as np

from timing import Row, choose

CONNECTIONS, GOAL = 1_100, 0.1
"""Number of connections, and the goal in seconds."""
REQUESTS = choose(200, 5)
VISITS: dict[str, Any] = {"name": "visits", "columns": ["spent"], "retention": 96}


def rows() -> Iterator[Row]:
    """Measure without such a client, and with one of each address."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "service"))
    from killed import find_disk, serve_apart  # noqa: PLC0415

    find_disk().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=find_disk()) as folder, serve_apart(f"{folder}/visits.db") as service:
        httpx.post(f"{service.url}/v1/streams", json=VISITS, timeout=300.0).raise_for_status()
        measure(service.url, "warm")
        yield from list_rows("nobody", *measure(service.url, "nobody"))
        for source in ("127.0.0.2", "127.0.0.1"):
            has_ended = threading.Event()
            client = threading.Thread(target=hold, args=(service.port, source, has_ended))
            client.start()
            time.sleep(2.0)
            found = measure(service.url, source)
            has_ended.set()
            client.join()
            yield from list_rows(f"{CONNECTIONS:,} of {source}", *found)


def hold(port: int, source: str, has_ended: threading.Event) -> None:
    """Open connections, and leave them as they are."""
    held: list[socket] = []
    for _ in range(CONNECTIONS):
        with suppress(OSError):
            held.append(create_connection(("127.0.0.1", port), 5.0, (source, 0)))
            held[-1].sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
    has_ended.wait()
    for peer in held:
        peer.close()


def measure(url: str, label: str) -> tuple[list[float], list[float]]:
    """Seconds that each of some requests takes, on connections of their own: `/health`, and rows."""
    health, taken = list[float](), list[float]()
    for number in range(REQUESTS):
        with httpx.Client(base_url=url, timeout=30.0, verify=False) as client:  # noqa: S501  # in clear
            began = time.perf_counter()
            client.get("/health").raise_for_status()
            between = time.perf_counter()
            headers = {"Idempotency-Key": f"{label}-{number}"}
            client.post("/v1/streams/visits/rows", json=[{"spent": 1}], headers=headers).raise_for_status()
            health.append(between - began)
            taken.append(time.perf_counter() - between)
    return health, taken


def list_rows(who: str, health: list[float], taken: list[float]) -> Iterator[Row]:
    """The rows of the table: the slowest answer against the goal."""
    for what, seconds in (("/health", health), ("rows", taken)):
        slowest, median = max(seconds), float(np.median(seconds))
        said = f"{median * 1e3:.0f} ms, at most {slowest * 1e3:.0f} ms"
        yield Row(f"{what}, {who}", said, f"goal {GOAL * 1e3:.0f} ms", GOAL / slowest, 1.0)
