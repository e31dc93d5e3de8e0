"""Paths that are about the service itself: health, metrics, events, the page and the documentation.

Guarantee: those that need no token say nothing of any stream; held by tests/service/test_access.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.datastructures import Headers

from vestige.service.access import Access, allow
from vestige.service.documents import write_page
from vestige.service.engine import Engine
from vestige.service.events import Events
from vestige.service.feed import Feed
from vestige.service.metrics import Metrics
from vestige.service.models import Health
from vestige.service.problems import RETRY_SECONDS

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def make_general_routes(
    engine: Engine, events: Events, metrics: Metrics, access: Access, feeds: Sequence[Feed] = ()
) -> APIRouter:
    """Make the routes.

    Args:
        engine: the engine.
        events: where the engine tells what happens.
        metrics: what the service counts.
        access: the tokens, which are looked at again while somebody listens.
        feeds: queues that are read into streams.

    Returns:
        The routes.
    """
    routes = APIRouter()

    @routes.get("/ready", response_model=Health, responses={503: {"model": Health, "description": "It is not ready"}})
    @routes.get("/health", response_model=Health, responses={503: {"model": Health, "description": "It is not ready"}})
    async def report_health(request: Request) -> Response:
        """Say whether the service can take all requests.

        503 if the store cannot be written, if streams are open in another process, or if the service stops.
        """
        demo = {"demo": True} if hasattr(request.app.state, "demo") else {}
        failing = {"feeds_failing": sum(feed.is_failing for feed in feeds)} if feeds else {}
        status, unavailable = engine.status, engine.catalog.unavailable
        missing = {"streams_unavailable": unavailable} if unavailable else {}
        headers = {} if status == "ok" else {"Retry-After": str(RETRY_SECONDS)}
        return JSONResponse({"status": status} | missing | failing | demo, 200 if status == "ok" else 503, headers)

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        **allow("read"),
    )
    def show_metrics() -> Response:
        """Show counts, latencies and what is held, in the form of Prometheus."""
        return Response(metrics.write(), media_type=_PROMETHEUS)

    @routes.get(
        "/v1/events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
        **allow("read"),
    )
    async def send_events(request: Request) -> Response:
        """Send events as they happen (server-sent events): commit, erased, removal."""
        events.check_room()
        headers = Headers(scope=request.scope)
        return StreamingResponse(events.listen(lambda: access.find(headers)), media_type="text/event-stream")

    @routes.get("/docs", include_in_schema=False)
    def show_documentation(request: Request) -> Response:
        return Response(write_page(request.app.openapi()), media_type="text/html")

    @routes.get("/", include_in_schema=False)
    def show_page() -> Response:
        return Response((files("vestige.service") / "page" / "index.html").read_text(), media_type="text/html")

    return routes
