"""The OpenAPI document, and a page that is written from it: no script and no network.

Guarantee: each route is in it with its scopes, its model and its refusals; held by tests/service/test_documents.py.
"""

from __future__ import annotations

from html import escape
from typing import Any

from vestige.errors import MissingExtraError

try:
    from fastapi import FastAPI
    from fastapi.openapi.utils import get_openapi
except ModuleNotFoundError:
    raise MissingExtraError("vestige serve", "serve") from None

from vestige.service.models import Problem

_ABOUT = (
    "Streams over HTTP. An answer of status 200 to rows means that they are flushed. A refusal is "
    "application/problem+json and never repeats what was sent."
)
_REFUSALS = {
    "400": "The request is not HTTP, or its body is not JSON",
    "401": "The token is missing, unknown or revoked",
    "403": "The token lacks the scope, or the request comes from another site",
    "404": "There is no such stream, key or receipt",
    "408": "The body did not arrive in time",
    "409": "There is another stream of this name, or the Idempotency-Key was used with another body",
    "413": "The body is too long, or has too many rows",
    "415": "The Content-Type is not known, or the body has a Content-Encoding",
    "421": "The Host is not one that this service answers for",
    "422": "A parameter, the definition or a row is not valid; nothing was taken",
    "431": "The head of the request is too long",
    "429": "Too many requests, or too many wait; see Retry-After",
    "503": "Not written, or open elsewhere: send it again, with the same Idempotency-Key; see Retry-After",
}
_PUBLIC_REFUSALS = ("403", "421", "431")
_METHODS = ("get", "post", "delete")


def make_document(app: FastAPI) -> dict[str, Any]:
    """Make the OpenAPI document of an application.

    Args:
        app: the application.

    Returns:
        The document.
    """
    document = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.routes)
    parts = document.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema()
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for operations in document["paths"].values():
        for method in _METHODS:
            if method in operations:
                _complete(operations[method])
    return document


def _complete(operation: dict[str, Any]) -> None:
    """Add what every route has: refusals, and a token for all but the public ones."""
    is_public = "x-scopes" not in operation
    if not is_public:
        operation["security"] = [{"token": []}]
        operation["description"] += f"\n\nScope: {' or '.join(operation['x-scopes'])}."
    answers = operation["responses"]
    for status in _PUBLIC_REFUSALS if is_public else _REFUSALS:
        content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        answers[status] = {"description": _REFUSALS[status], "content": content}


def write_page(document: dict[str, Any]) -> str:
    """Write the page of the documentation.

    Args:
        document: the OpenAPI document.

    Returns:
        HTML without scripts.

    Example:
        >>> "<h1>" in write_page({"info": {"title": "Vestige", "version": "1"}, "paths": {}})
        True
    """
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{escape(info['title'])}: the interface</title><link rel=stylesheet href=static/docs.css>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info.get('description', ''))}</p>",
        "<p>The same for programs: <a href=openapi.json>openapi.json</a>.</p>",
    ]
    for path, operations in document["paths"].items():
        parts += [
            _write_operation(path, method, operations[method], document) for method in _METHODS if method in operations
        ]
    return "\n".join(parts)


def _write_operation(path: str, method: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    rows = [
        (each["name"], f"in the {each['in']}", each.get("description", each["schema"].get("description", "")))
        for each in operation.get("parameters", ())
    ]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        rows.append(("body", kind, content["schema"].get("description", "")))
        rows += [(name, "in the body", part) for name, part in _list_members(content["schema"], document)]
    for status, answered in sorted(operation["responses"].items()):
        rows.append((status, "answer", answered["description"]))
        for content in answered.get("content", {}).values() if status < "300" else ():
            rows += [(name, "in the answer", part) for name, part in _list_members(content["schema"], document)]
    table = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    told = "".join(f"<p>{escape(text)}</p>" for text in operation["description"].split("\n\n"))
    head = "".join(f"<th scope=col>{name}</th>" for name in ("Name", "Where", "What it is"))
    titled = f"<h2>{method.upper()} <code>{escape(path)}</code></h2>{told}"
    return f"{titled}<table><thead><tr>{head}</tr></thead><tbody>{table}</tbody></table>"


def _list_members(schema: dict[str, Any], document: dict[str, Any]) -> list[tuple[str, str]]:
    """The members of an object that has a model, with what is said of them."""
    name = schema.get("$ref", "").rpartition("/")[2]
    members = document.get("components", {}).get("schemas", {}).get(name, {}).get("properties", {})
    return [(member, part.get("description", "")) for member, part in members.items()]
