"""Paths of definitions: create, list, show and remove streams.

Guarantee: a definition that is created again is the same or refused; held by tests/service/test_app.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from vestige.errors import ParameterError
from vestige.ingest.definition import Definition, name_fields
from vestige.service import answers, models
from vestige.service.access import allow
from vestige.service.engine import Engine
from vestige.service.problems import RefusalError


def make_definition_routes(engine: Engine) -> APIRouter:
    """Make the routes.

    Args:
        engine: the engine.

    Returns:
        The routes.
    """
    routes = APIRouter(prefix="/v1/streams")

    @routes.get("", response_model=models.Streams, **allow("read"))
    def list_streams() -> dict[str, Any]:
        """List the definitions."""
        with engine.read() as catalog:
            return {"streams": [answers.show_definition(served) for _, served in sorted(catalog.served.items())]}

    @routes.post(
        "",
        response_model=models.Stream,
        responses={201: {"model": models.Stream, "description": "It is new"}},
        **allow("admin"),
    )
    async def create_stream(body: models.Definition, response: Response) -> dict[str, object]:
        """Create a definition: 201 if it is new, 200 if there is the same."""
        definition = _read_definition(body)
        await asyncio.wrap_future(engine.prepare(definition))

        def create() -> tuple[bool, dict[str, object]]:
            try:
                is_new = engine.catalog.create(definition)
            except ParameterError as problem:
                raise RefusalError(422, name_fields(str(problem))) from None
            return is_new, answers.show_definition(engine.catalog.find(str(definition.name)))

        is_new, shown = await asyncio.wrap_future(engine.submit(create))
        response.status_code = 201 if is_new else 200
        return shown

    @routes.get("/{name}", response_model=models.Stream, **allow("read"))
    def show_stream(name: str) -> dict[str, Any]:
        """Show one definition."""
        with engine.read() as catalog:
            return answers.show_definition(catalog.find(name))

    @routes.delete("/{name}", response_model=models.Removed, **allow("admin"))
    async def remove_stream(name: str) -> dict[str, int]:
        """Remove a definition with all its streams."""
        return {"removed": await asyncio.wrap_future(engine.submit(lambda: engine.catalog.remove(name)))}

    return routes


def _read_definition(body: models.Definition) -> Definition:
    """The definition that a body describes, whose parts fit together."""
    if "/" in body.name or body.name in {".", ".."}:
        raise RefusalError(422, "name has a slash, or is . or .., which no path can name; use another")
    try:
        definition = Definition.from_data(body.model_dump(exclude_none=True))
        definition.check()
        definition.make_policy()
    except ParameterError as problem:
        raise RefusalError(422, name_fields(str(problem))) from None
    return definition
