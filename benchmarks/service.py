"""A service under load beside the bare cost of the same commits: KeyedStreams without HTTP, in the same groups.

Rows arrive over 1,000 keys in requests of 100, from 50 connections, at a rate that does not wait for the service; each
is answered once it is flushed, on SQLite on a disk. Then the connections send as fast as they are answered. What was
committed together is known from the events of the service, and the same requests are then taken in the same groups
without it. `python benchmarks/service.py --seconds 30` measures longer, and `--kind arrow` other bodies.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from timing import Row, choose
from vestige import open_store
from vestige.ingest.definition import Definition
from vestige.types import Floats, Ints

KEYS, ROWS, CONNECTIONS = 1_000, 100, 50
RATE, P99 = 10_000, 0.150
"""Goals: rows a second, and seconds until 99 of 100 requests are answered."""
BODIES = 2_000
"""Number of requests that are prepared; they are sent again, with new keys, after that."""
SECONDS, WARM = choose((10.0, 3.0), (1.0, 0.5))
KINDS = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "arrow": "application/vnd.apache.arrow.stream",
}
DEFINITION: dict[str, Any] = {"name": "bench", "columns": ["x"], "by": ["key"], "retention": 96, "seed": 0}


@dataclass(frozen=True)
class Load:
    """What was measured.

    Attributes:
        seconds: from when each request was due until its answer.
        speed: rows a second.
        groups: number of requests in each commit.
    """

    seconds: Floats
    speed: float
    groups: tuple[int, ...]

    def find_quantile(self, share: float) -> float:
        """Seconds until this share of the requests was answered."""
        return float(np.quantile(self.seconds, share))


def rows(kinds: Sequence[str] = tuple(KINDS), seconds: float = SECONDS) -> Iterator[Row]:
    """Measure each kind of body on the disk of this checkout."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "service"))
    from killed import find_disk, serve_apart  # noqa: PLC0415

    find_disk().mkdir(exist_ok=True)
    for kind in kinds:
        with tempfile.TemporaryDirectory(dir=find_disk()) as folder:
            codes, values = draw_rows()
            requests = [pack_request(kind, *each) for each in zip(codes, values, strict=True)]
            with serve_apart(str(Path(folder) / "bench.db")) as service:
                paced, full = asyncio.run(measure(service.port, requests, seconds))
            bare, _ = take_bare(Path(folder) / "bare.db", codes, values, full.groups)
            _, longest = take_bare(Path(folder) / "paced.db", codes, values, paced.groups)
        p50, p99 = paced.find_quantile(0.5), paced.find_quantile(0.99)
        what, sizes = f"{kind}, {RATE:,} rows/s", f"{np.mean(paced.groups):.1f} requests a commit"
        yield Row(f"{what}: p50", f"{p50 * 1e3:.0f} ms", sizes, None, 0.0)
        yield Row(f"{what}: p99", f"{p99 * 1e3:.0f} ms", f"goal {P99 * 1e3:.0f} ms", P99 / p99, 1.0)
        peer = f"the same commits, bare: p99 {longest * 1e3:.0f} ms"
        yield Row(f"{what}: p99", f"{p99 * 1e3:.0f} ms", peer, longest / p99, 0.0)
        yield Row(f"{what}", f"{paced.speed:,.0f} rows/s", f"goal {RATE:,}", paced.speed / RATE, 0.98)
        yield Row(f"{kind}, full speed", f"{full.speed:,.0f} rows/s", f"goal {RATE:,}", full.speed / RATE, 1.0)
        peer = f"the same commits, bare: {bare:,.0f} rows/s, {np.mean(full.groups):.1f} requests each"
        yield Row(f"{kind}, full speed", f"{full.speed:,.0f} rows/s", peer, full.speed / bare, 0.0)


def draw_rows() -> tuple[Ints, Floats]:
    """Keys and values of all requests; shapes (requests, rows)."""
    rng = np.random.default_rng(0)
    return rng.integers(0, KEYS, (BODIES, ROWS)), rng.normal(100.0, 15.0, (BODIES, ROWS)).round(3)


def pack_request(kind: str, codes: Ints, values: Floats) -> tuple[bytes, bytes]:
    """What is sent before and after the idempotency key."""
    listed = [{"key": f"k{code}", "x": value} for code, value in zip(codes.tolist(), values.tolist(), strict=True)]
    if kind == "arrow":
        table, out = pa.Table.from_pylist(listed), pa.BufferOutputStream()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        body = out.getvalue().to_pybytes()
    else:
        body = (json.dumps(listed) if kind == "json" else "\n".join(map(json.dumps, listed))).encode()
    head = f"POST /v1/streams/bench/rows HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {KINDS[kind]}\r\n"
    return f"{head}Content-Length: {len(body)}\r\nIdempotency-Key: ".encode(), b"\r\n\r\n" + body


class Connection:
    """A connection that sends prepared bytes, since a client would take more of the processor than the service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, request: bytes) -> bytes:
        """Send a request; the body of its answer, which must be one of success."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        body = await self._reader.readexactly(length)
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise RuntimeError(f"the service refuses: {body.decode()}")
        return body

    async def follow_commits(self, groups: list[int]) -> None:
        """Note the number of requests of each commit."""
        self._writer.write(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        kind = b""
        while line := await self._reader.readline():
            if line.startswith(b"event: "):
                kind = line[7:].strip()
            elif line.startswith(b"data: ") and kind == b"commit":
                groups.append(json.loads(line[6:])["taken"] // ROWS)


async def measure(port: int, requests: Sequence[tuple[bytes, bytes]], seconds: float) -> tuple[Load, Load]:
    """Measure at the rate of the goal, and at full speed."""
    connections = [await Connection.open(port) for _ in range(CONNECTIONS)]
    body = json.dumps(DEFINITION).encode()
    head = (
        f"POST /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    await connections[0].send(head.encode() + b"\r\n\r\n" + body)
    groups: list[int] = []
    follower = asyncio.create_task((await Connection.open(port)).follow_commits(groups))
    loads = []
    for rate, length in ((RATE, WARM), (RATE, seconds), (None, WARM), (None, seconds)):
        before = len(groups)
        taken, took = await send_all(connections, requests, rate, length)
        await asyncio.sleep(0.2)  # for the last event
        loads.append(Load(np.array(taken), len(taken) * ROWS / took, tuple(groups[before:])))
    follower.cancel()
    return loads[1], loads[3]


async def send_all(
    connections: Sequence[Connection], requests: Sequence[tuple[bytes, bytes]], rate: int | None, seconds: float
) -> tuple[list[float], float]:
    """Send requests for a time, each due at its own moment if there is a rate; how long each took, and all of them."""
    taken: list[float] = []
    began, number = time.perf_counter(), 0
    total = None if rate is None else int(rate / ROWS * seconds)

    async def work(connection: Connection) -> None:
        nonlocal number
        while number < total if total is not None else time.perf_counter() < began + seconds:
            mine, number = number, number + 1
            due = time.perf_counter() if rate is None else began + mine * ROWS / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            before, after = requests[mine % len(requests)]
            await connection.send(before + f"{began}-{mine}".encode() + after)
            taken.append(time.perf_counter() - due)

    await asyncio.gather(*map(work, connections))
    return taken, time.perf_counter() - began


def take_bare(path: Path, codes: Ints, values: Floats, groups: Sequence[int]) -> tuple[float, float]:
    """Take the same requests in the same groups without a service; rows a second, and the 99th quantile of a commit."""
    definition, number, seconds = Definition.from_data(DEFINITION), 0, list[float]()
    with open_store(path) as store:
        streams = definition.make_streams(definition.make_policy(), store)
        for group in groups:
            began = time.perf_counter()
            with store.transaction():
                for _ in range(group):
                    keys = np.array([f"k{code}" for code in codes[number % BODIES]], np.object_)
                    streams.take(definition.names.find_names(keys), values[number % BODIES])
                    number += 1
                streams.flush()
            seconds.append(time.perf_counter() - began)
    warm = len(groups) // 5
    return sum(groups[warm:]) * ROWS / sum(seconds[warm:]), float(np.quantile(seconds[warm:], 0.99))


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, action="append", help="kind of bodies; default: all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long to measure each load")
    given = parser.parse_args()
    for row in rows(given.kind or tuple(KINDS), given.seconds):
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        print(f"{row.what:<36} {row.ours:>16} {ratio:>8}   {row.peer}", flush=True)


if __name__ == "__main__":
    main()
