"""Paths of streams: take rows, answer, show and erase.

Guarantee: 200 means flushed; held by tests/service/test_app.py and tests/service/test_engine.py.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request

from vestige.service import answers, models
from vestige.service.access import allow
from vestige.service.bodies import ARROW, JSON, NDJSON, find_kind, read_body
from vestige.service.engine import Engine
from vestige.service.metrics import Metrics
from vestige.service.problems import RefusalError
from vestige.service.requests import compute_fingerprint

PAGE = 1_000
"""Largest number of answers in one page."""
SMALL = 1 << 14
"""Bytes of a body that is parsed at once: it takes about a millisecond, less than to hand it to a thread and back."""
PARSERS = 4
"""Number of bodies that are parsed at the same time; the others wait."""
_Key = Annotated[str, Query(max_length=10_000, description="The key; leave it out for a stream without keys.")]
_IdempotencyKey = Annotated[
    str,
    Header(
        min_length=1,
        max_length=255,
        pattern="^[!-~]+$",
        description="A new text for each body; a request that is sent again with it is answered, not counted again.",
    ),
]
_ROWS = {"type": "array", "items": {"type": "object"}}
_BODY = {
    "required": True,
    "content": {
        JSON: {"schema": {"anyOf": [_ROWS, {"type": "object", "required": ["rows"], "properties": {"rows": _ROWS}}]}},
        NDJSON: {"schema": {"type": "string", "description": "One object per line."}},
        ARROW: {"schema": {"type": "string", "format": "binary", "description": "An Arrow IPC stream."}},
    },
}


def make_stream_routes(engine: Engine, metrics: Metrics) -> APIRouter:
    """Make the routes.

    Args:
        engine: the engine.
        metrics: what the service counts.

    Returns:
        The routes.
    """
    routes, parsers = APIRouter(prefix="/v1/streams/{name}"), asyncio.Semaphore(PARSERS)

    @routes.post("/rows", response_model=models.Taken, **allow("ingest", requestBody=_BODY))
    async def take_rows(name: str, request: Request, idempotency_key: _IdempotencyKey) -> dict[str, Any]:
        """Take rows: JSON, NDJSON or an Arrow stream; the answer comes once they are flushed."""
        served = engine.catalog.served.get(name)  # without the lock, which a commit holds: it would stop all others
        columns = (await asyncio.to_thread(engine.find, name) if served is None else served).columns
        content, kind = await request.body(), find_kind(request.headers.get("content-type", ""))
        if len(content) <= SMALL:
            block, absent = read_body(content, kind, columns)
        else:
            async with parsers:
                block, absent = await asyncio.to_thread(read_body, content, kind, columns)
        future = engine.take_rows(name, block, idempotency_key, compute_fingerprint(content, kind), columns)
        counts, is_replayed = await asyncio.wrap_future(future)
        metrics.count_rows(counts, is_replayed=is_replayed)
        return asdict(counts) | {"replayed": is_replayed, "absent": absent}

    @routes.get("/estimates", response_model=models.Estimates, **allow("read"))
    def list_estimates(
        name: str,
        after: Annotated[str | None, Query(max_length=10_000, description="The key before the page.")] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
    ) -> dict[str, Any]:
        """List the answers of all keys, a page at a time."""
        engine.prepare_page(name)
        with engine.read() as catalog:
            served = catalog.find(name)
            start = None if after is None else served.names.find_name(after)
            names = served.page(start, limit)
            total = served.count()
            shown = answers.show_estimates(served, names)
        return {"estimates": shown, "total": total, "next": shown[-1]["key"] if len(shown) == limit else None}

    @routes.get("/estimate", response_model=models.Estimate, **allow("read"))
    def show_estimate(name: str, key: _Key = "") -> dict[str, Any]:
        """Show the answer of one key."""
        with engine.read() as catalog:
            return answers.show_estimates(catalog.find(name), [_find_stream(engine, name, key)])[0]

    @routes.delete("/key", response_model=models.Removed, **allow("erase"))
    async def remove_key(name: str, key: _Key = "") -> dict[str, int]:
        """Erase the stream of one key."""

        def remove() -> dict[str, int]:
            engine.store.remove(_find_stream(engine, name, key))
            return {"removed": 1}

        return await asyncio.wrap_future(engine.submit(remove))

    @routes.get("/records", response_model=models.Records, response_model_exclude_unset=True, **allow("audit"))
    def show_records(name: str, key: _Key = "", *, values: bool = False) -> dict[str, Any]:
        """Show the whole state of the stream of one key; with values only if these are asked for."""
        with engine.read() as catalog:
            stream = _find_stream(engine, name, key)
            return answers.show_records(catalog.find(name).streams, stream, has_values=values)

    return routes


def _find_stream(engine: Engine, name: str, key: str) -> str:
    served = engine.catalog.find(name)
    if served.definition.by and not key:
        raise RefusalError(422, "key is missing, since there is a stream for each key; /estimates lists them")
    if key and not served.definition.by:
        raise RefusalError(422, "key is given, but this stream has no keys; leave it out")
    found = served.find_name(key, engine.store)
    if found is None:
        raise RefusalError(404, "there is no stream of this key; it has had no rows")
    return found
