"""Events for those who watch: what they hear, how many there may be, and that nobody waits for a slow one."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import pytest
from served import serve_here

from vestige.service import events
from vestige.store import listener

VISITS = {"name": "visits", "columns": ["spent"], "subject": "email", "retention": 96}


def test_what_happens_is_told_without_subjects() -> None:
    with serve_here("memory:") as client:
        client.post("/v1/streams", json=VISITS)
        with client.stream("GET", "/v1/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            assert next(lines) == ": connected"
            rows = [{"spent": 1, "email": "ada"}]
            client.post("/v1/streams/visits/rows", json=rows, headers={"Idempotency-Key": "a"})
            client.post("/v1/removals", json={"subjects": ["ada"], "now": True})
            told: dict[str, object] = {}
            for line in lines:
                if line.startswith("event: "):
                    kind = line[7:]
                    told[kind] = json.loads(next(lines)[6:])
                    if kind == "removal":
                        break
    assert told["commit"] == {"stream": "visits", "taken": 1, "t": 1, "held": 1}
    assert told["removal"] == {"receipts": 1, "now": True}


def test_there_is_a_limit_of_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LISTENERS", 1)
    with serve_here("memory:") as client, client.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": connected"
        with client.stream("GET", "/v1/events") as refused:
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")


def test_one_that_reads_too_slowly_is_dropped_and_the_others_hear_all() -> None:
    async def watch() -> tuple[int, int, int]:
        made = events.Events()
        slow, fast = made.listen(), made.listen()
        await anext(slow)
        await anext(fast)
        heard = 0
        for number in range(3 * events._MOST):
            made.tell("commit", {"t": number})
            await asyncio.sleep(0)
            heard += (await anext(fast)).startswith("event: commit")
        left = made.listeners
        return heard, len([text async for text in slow]), left

    heard, kept, left = asyncio.run(watch())
    assert heard == 3 * events._MOST
    assert kept < events._MOST
    assert left == 1


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such option")
def test_the_connection_of_one_that_reads_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STALLED_SECONDS", 1.0)
    monkeypatch.setattr(events, "_HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(events, "_MOST", 10**9)  # or it is dropped, which ends the answer but not the connection
    with serve_here("memory:") as client, socket.socket() as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        stalled.connect((client.base_url.host, client.base_url.port))
        stalled.sendall(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert stalled.recv(15) == b"HTTP/1.1 200 OK"
        definition = VISITS | {"name": "x" * 200}
        client.post("/v1/streams", json=definition)
        until = time.monotonic() + 60
        while "vestige_listeners 0.0" not in client.get("/metrics").text:
            assert time.monotonic() < until
            for i in range(50):
                headers = {"Idempotency-Key": f"{time.monotonic()}"}
                client.post(f"/v1/streams/{'x' * 200}/rows", json=[{"spent": i}], headers=headers).raise_for_status()
