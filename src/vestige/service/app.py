"""The application: routes over an engine, behind a guard.

Guarantee: 200 means flushed, and no refusal or line of the log has a value of a row, a key or a subject; held by
tests/service/test_validation.py and tests/service/test_fuzz.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files

from vestige.errors import MissingExtraError, ParameterError
from vestige.service.access import Access
from vestige.service.documents import make_document
from vestige.service.engine import Engine
from vestige.service.events import Events
from vestige.service.feed import Feed
from vestige.service.guard import Guard, answer
from vestige.service.logs import hear_loop
from vestige.service.metrics import Metrics
from vestige.service.problems import RefusalError
from vestige.service.rates import RATE, Rates
from vestige.service.sweeper import Sweeper
from vestige.service.validation import explain

try:
    from fastapi import APIRouter, FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.staticfiles import StaticFiles
    from starlette.exceptions import HTTPException
except ModuleNotFoundError:
    raise MissingExtraError("vestige serve", "serve") from None

from vestige.service.routes.definitions import make_definition_routes
from vestige.service.routes.general import make_general_routes
from vestige.service.routes.removals import make_removal_routes
from vestige.service.routes.streams import make_stream_routes


def make_app(
    engine: Engine,
    events: Events,
    *,
    allowed_hosts: frozenset[str],
    access: Access | None = None,
    rate: float = RATE,
    sweeper: Sweeper | None = None,
    routers: Sequence[APIRouter] = (),
    feeds: Sequence[Feed] = (),
) -> FastAPI:
    """Make the application.

    Args:
        engine: the engine, which is started and stopped with the application.
        events: where the engine tells what happens.
        allowed_hosts: names that the Host of a request may have, without ports.
        access: the tokens; default: none is asked for.
        rate: requests a second that one token may make.
        sweeper: what is due while nothing arrives, for the metrics; the engine calls it.
        routers: further routes.
        feeds: queues that are read into streams, started and stopped with the application.

    Returns:
        The application.
    """

    @asynccontextmanager
    async def run(_: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(hear_loop)
        await asyncio.to_thread(engine.start)
        for feed in feeds:
            feed.start()
        yield
        events.end()
        for feed in feeds:
            await asyncio.to_thread(feed.stop)
        await asyncio.to_thread(engine.stop)

    app = FastAPI(title="Vestige", version=version("vestige"), docs_url=None, redoc_url=None, lifespan=run)
    app.router.redirect_slashes = False  # a redirection would repeat what was asked
    known, metrics = access or Access(None), Metrics(engine, events, sweeper, feeds)
    for router in (
        make_general_routes(engine, events, metrics, known, feeds),
        make_definition_routes(engine),
        make_stream_routes(engine, metrics),
        make_removal_routes(engine, events),
        *routers,
    ):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=str(files("vestige.service") / "page")))
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    _add_handlers(app)
    app.add_middleware(Guard, access=known, allowed_hosts=allowed_hosts, rates=Rates(rate), observe=metrics.observe)
    return app


def _document(app: FastAPI) -> dict[str, object]:
    """The OpenAPI document, which is made once."""
    if app.openapi_schema is None:
        app.openapi_schema = make_document(app)
    return app.openapi_schema


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(RefusalError)
    async def refuse(_: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, RefusalError)  # noqa: S101
        return answer(refusal)

    @app.exception_handler(ParameterError)
    async def refuse_request(_: Request, problem: Exception) -> Response:  # noqa: ARG001  # its text may name a stream
        return answer(RefusalError(422, "the request does not fit the streams of this store; see /openapi.json"))

    @app.exception_handler(RequestValidationError)
    async def refuse_parameters(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)  # noqa: S101
        return answer(explain(problem.errors()))

    @app.exception_handler(HTTPException)
    async def refuse_path(_: Request, problem: Exception) -> Response:
        status = problem.status_code if isinstance(problem, HTTPException) else 500
        nothing = "there is nothing at this path for this method; see /openapi.json"
        return answer(RefusalError(status, nothing if status in (404, 405) else "the body cannot be read as JSON"))
