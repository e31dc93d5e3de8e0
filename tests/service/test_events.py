"""Events for those who watch: what they hear, how many there may be, and that nobody waits for a slow one."""

from __future__ import annotations

import asyncio
import json

import pytest
from served import serve_here

from vestige.service import events

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
