"""The application: what each path does, over an engine.

Guarantee: 200 means flushed, and no answer or line of the log has a value of a row, a key or a subject; held by
tests/service/test_app.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Annotated, Any

from vestige.errors import MissingExtraError, ParameterError
from vestige.ingest.definition import Definition, name_fields
from vestige.service import answers
from vestige.service.bodies import read_body
from vestige.service.engine import Engine
from vestige.service.events import Events
from vestige.service.problems import RefusalError
from vestige.service.requests import compute_fingerprint

try:
    from fastapi import FastAPI, Header, Query, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, StreamingResponse
    from fastapi.staticfiles import StaticFiles
    from starlette.exceptions import HTTPException
except ModuleNotFoundError:
    raise MissingExtraError("vestige serve", "serve") from None

BODY = 16 << 20
"""Bytes of the longest body that is taken."""
PAGE = 1_000
"""Largest number of answers in one page."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make_app(engine: Engine, events: Events, *, allowed_hosts: frozenset[str]) -> FastAPI:
    """Make the application.

    Args:
        engine: the engine, which is started and stopped with the application.
        events: where the engine tells what happens.
        allowed_hosts: names that the Host of a request may have, without ports.

    Returns:
        The application.
    """

    @asynccontextmanager
    async def run(_: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        events.end()
        await asyncio.to_thread(engine.stop)

    app = FastAPI(title="Vestige", docs_url=None, redoc_url=None, lifespan=run)
    app.router.redirect_slashes = False
    _add_handlers(app, allowed_hosts)
    _add_general(app, engine, events)
    _add_definitions(app, engine)
    _add_streams(app, engine)
    app.mount("/static", StaticFiles(directory=str(files("vestige.service") / "page")))
    return app


def _answer(refusal: RefusalError) -> JSONResponse:
    return JSONResponse(refusal.to_data(), refusal.status, refusal.headers, "application/problem+json")


def _add_handlers(app: FastAPI, allowed_hosts: frozenset[str]) -> None:
    @app.exception_handler(RefusalError)
    async def refuse(_: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, RefusalError)  # noqa: S101
        return _answer(refusal)

    @app.exception_handler(RequestValidationError)
    async def refuse_parameters(_: Request, problem: Exception) -> Response:
        found = problem.errors()[0] if isinstance(problem, RequestValidationError) else {}
        place = " ".join(str(part) for part in found.get("loc", ())[:2])
        return _answer(RefusalError(422, f"{place} is missing or not of its kind; see /openapi.json"))

    @app.exception_handler(HTTPException)
    async def refuse_path(_: Request, problem: Exception) -> Response:
        status = problem.status_code if isinstance(problem, HTTPException) else 500
        return _answer(RefusalError(status, "there is nothing at this path for this method; see /openapi.json"))

    @app.middleware("http")
    async def protect(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        refusal = _check_origin(request, allowed_hosts)
        response = await proceed(request) if refusal is None else _answer(refusal)
        response.headers.update(_HEADERS)
        return response


def _check_origin(request: Request, allowed: frozenset[str]) -> RefusalError | None:
    """Refuse requests that a foreign page makes, or that reach this host by a foreign name."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    if _strip_port(host) not in allowed:
        return RefusalError(421, "the Host is not one that this service answers for; see --allow-host")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return RefusalError(403, "the Origin is another site; requests of other pages are refused")
    return None


def _strip_port(host: str) -> str:
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0].lower()


def _add_general(app: FastAPI, engine: Engine, events: Events) -> None:
    @app.get("/health")
    async def report_health() -> Response:
        """Say whether the service can write."""
        demo = {"demo": True} if hasattr(app.state, "demo") else {}
        return JSONResponse({"status": engine.status} | demo, 200 if engine.status == "ok" else 503)

    @app.get("/", include_in_schema=False)
    async def show_page() -> Response:
        return Response((files("vestige.service") / "page" / "index.html").read_text(), media_type="text/html")

    @app.get("/v1/events")
    async def send_events() -> Response:
        """Send events as they happen."""
        return StreamingResponse(events.listen(), media_type="text/event-stream")


def _add_definitions(app: FastAPI, engine: Engine) -> None:
    @app.get("/v1/streams")
    def list_streams() -> dict[str, Any]:
        """List the definitions."""
        with engine.read() as catalog:
            return {"streams": [answers.show_definition(served) for _, served in sorted(catalog.served.items())]}

    @app.post("/v1/streams")
    async def create_stream(body: dict[str, Any]) -> Response:
        """Create a definition: 201 if it is new, 200 if there is the same."""
        try:
            definition = Definition.from_data(body)
            definition.check()
            definition.make_policy()
        except ParameterError as problem:
            raise RefusalError(422, name_fields(str(problem))) from None

        def create() -> tuple[bool, dict[str, object]]:
            is_new = engine.catalog.create(definition)
            return is_new, answers.show_definition(engine.catalog.find(str(definition.name)))

        is_new, shown = await asyncio.wrap_future(engine.submit(create))
        return JSONResponse(shown, 201 if is_new else 200)

    @app.get("/v1/streams/{name}")
    def show_stream(name: str) -> dict[str, Any]:
        """Show one definition."""
        with engine.read() as catalog:
            return answers.show_definition(catalog.find(name))

    @app.delete("/v1/streams/{name}")
    async def remove_stream(name: str) -> dict[str, int]:
        """Remove a definition with all its streams."""
        return {"removed": await asyncio.wrap_future(engine.submit(lambda: engine.catalog.remove(name)))}


def _add_streams(app: FastAPI, engine: Engine) -> None:
    @app.post("/v1/streams/{name}/rows")
    async def take_rows(
        name: str,
        request: Request,
        idempotency_key: Annotated[str, Header(min_length=1, max_length=255, pattern="^[!-~]+$")],
    ) -> dict[str, Any]:
        """Take rows: JSON, NDJSON or an Arrow stream; the answer comes once they are flushed."""
        with engine.read() as catalog:
            columns = catalog.find(name).columns
        content, kind = await _receive(request), request.headers.get("content-type", "")
        block = await asyncio.to_thread(read_body, content, kind, columns)
        future = engine.take_rows(name, block, idempotency_key, compute_fingerprint(content, kind))
        counts, is_replayed = await asyncio.wrap_future(future)
        return asdict(counts) | {"replayed": is_replayed}

    @app.get("/v1/streams/{name}/estimates")
    def list_estimates(
        name: str, after: str | None = None, limit: Annotated[int, Query(ge=1, le=PAGE)] = 100
    ) -> dict[str, Any]:
        """List the answers of all keys, a page at a time."""
        with engine.read() as catalog:
            served = catalog.find(name)
            start = None if after is None else served.names.find_name(after)
            names = served.page(start, limit)
            total = len(served.list_names())
            shown = answers.show_estimates(served, names)
        return {"estimates": shown, "total": total, "next": shown[-1]["key"] if len(shown) == limit else None}

    @app.get("/v1/streams/{name}/estimate")
    def show_estimate(name: str, key: str = "") -> dict[str, Any]:
        """Show the answer of one key."""
        with engine.read() as catalog:
            served = catalog.find(name)
            return answers.show_estimates(served, [_find_stream(engine, name, key)])[0]

    @app.delete("/v1/streams/{name}/key")
    async def remove_key(name: str, key: str = "") -> dict[str, int]:
        """Erase the stream of one key."""

        def remove() -> dict[str, int]:
            engine.store.remove(_find_stream(engine, name, key))
            return {"removed": 1}

        return await asyncio.wrap_future(engine.submit(remove))

    @app.get("/v1/streams/{name}/records")
    def show_records(name: str, key: str = "", *, values: bool = False) -> dict[str, Any]:
        """Show the whole state of the stream of one key; with values only if these are asked for."""
        with engine.read() as catalog:
            stream = _find_stream(engine, name, key)
            return answers.show_records(catalog.find(name).streams, stream, has_values=values)


def _find_stream(engine: Engine, name: str, key: str) -> str:
    found = engine.catalog.find(name).find_name(key, engine.store)
    if found is None:
        raise RefusalError(404, "there is no stream of this key; it has had no rows")
    return found


async def _receive(request: Request) -> bytes:
    """The body, if it is not too long."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > BODY:
            raise RefusalError(413, f"the body is longer than {BODY:,} bytes; send fewer rows at a time")
        parts.append(part)
    return b"".join(parts)
