"""A keyring over TLS, for stores that several hosts write: the server, which holds the file.

An answer of status 200 to a change means that it is flushed to the device of the server. A token allows to read keys,
or also to write them. To destroy a whole keyring is not offered over the network: whoever holds a token of a host could
end all of its stores; run `vestige keyring destroy` where the file is.
Guarantee: a server that is killed at any moment has what it has confirmed, damages no slot, and repeats in no log and
no answer what it was sent; held by tests/store/test_keyring_server.py.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from vestige.errors import MissingExtraError, StoreError
from vestige.store.keyring import protocol
from vestige.store.keyring.file import KeyringFile
from vestige.store.keyring.keyring import PAGE, Page
from vestige.store.tokens import Token, find_token, read_tokens

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ModuleNotFoundError:
    raise MissingExtraError("a keyring server", "serve") from None

BODY_SECONDS = 30.0
"""Seconds in which the body of a request has to arrive."""
BODIES = 4
"""Number of changes that are received and carried out at the same time; the others wait."""
_PAGES = 256
"""Number of pages that are sent at once."""
_METHODS = ("GET", "HEAD", "POST")
_BINARY = "application/octet-stream"
_LABEL = "vestige.label"
_log = logging.getLogger("vestige.keyring")
_Result = TypeVar("_Result")


def make_app(keyring: KeyringFile, tokens: str | Path, *, body_limit: int = protocol.BODY_LIMIT) -> ASGIApp:
    """Make the application of a keyring server; `listener.serve` runs it over TLS.

    | request | scope | answer |
    |---|---|---|
    | `GET /v1/health` | none | 200 if the keyring can be read, 503 if not |
    | `GET /v1/identity` | read | the id of the keyring |
    | `GET /v1/pages?after=VERSION` | read | the same, the page of the marker, and pages with newer keys |
    | `GET /v1/problems` | read | what is wrong with the keyring: a list of sentences, in JSON |
    | `POST /v1/prepare` | write | 200 once the keys are flushed; the same request again changes nothing |
    | `POST /v1/settle?before=VERSION` | write | 200 once the other (older) keys are overwritten and that is flushed |

    Refusals: 400 a body or a parameter that is not one, 401 an unknown or revoked token, 403 a token that may only
    read, 408 a body that does not arrive, 409 what the keyring refuses, with its sentence, 411 and 413 a body without a
    length or too long, 412 a change that is meant for another keyring.

    Args:
        keyring: the keyring.
        tokens: the file with the tokens; it is read for each request, so that a token can be revoked at any time.
        body_limit: bytes of the longest body that is taken.

    Returns:
        The application.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> keyring = KeyringFile(folder.name + "/visits.keyring", create=True)
        >>> callable(make_app(keyring, folder.name + "/visits.tokens"))
        True
        >>> folder.cleanup()
    """
    endpoints = _Endpoints(keyring, Path(tokens), body_limit)
    routes = [
        Route(protocol.HEALTH, endpoints.report_health, methods=["GET"]),
        Route(protocol.IDENTITY, endpoints.send_identity, methods=["GET"]),
        Route(protocol.PAGES, endpoints.send_pages, methods=["GET"]),
        Route(protocol.PROBLEMS, endpoints.send_problems, methods=["GET"]),
        Route(protocol.PREPARE, endpoints.prepare, methods=["POST"]),
        Route(protocol.SETTLE, endpoints.settle, methods=["POST"]),
    ]
    handlers = {HTTPException: _answer_refusal, StoreError: _answer_trouble}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False  # a redirection would repeat what was asked
    return _Journal(app)


class _Endpoints:
    """What each path does."""

    def __init__(self, keyring: KeyringFile, tokens: Path, body_limit: int) -> None:
        self._keyring, self._tokens, self._body_limit = keyring, tokens, body_limit
        self._turn = asyncio.Lock()  # first come, first served: readers cannot keep a writer waiting for ever
        self._bodies = asyncio.Semaphore(BODIES)

    async def report_health(self, _: Request) -> Response:
        found = b""
        with suppress(StoreError):
            found = (await self._use(KeyringFile, self._keyring.path)).id
        if found != self._keyring.id:
            return PlainTextResponse("the keyring cannot be read", HTTPStatus.SERVICE_UNAVAILABLE)
        return PlainTextResponse("the keyring can be read")

    async def send_identity(self, request: Request) -> Response:
        await self._check_token(request, "read")
        return Response(self._keyring.id, media_type=_BINARY)

    async def send_pages(self, request: Request) -> Response:
        await self._check_token(request, "read")
        table = await self._use(self._keyring.read, _read_version(request, "after") or 0)
        return _PagesResponse(protocol.pack_head(self._keyring.id, table), table.list_pages())

    async def send_problems(self, request: Request) -> Response:
        await self._check_token(request, "read")
        return JSONResponse(list(await asyncio.to_thread(self._keyring.verify)))  # it waits for those who write

    async def prepare(self, request: Request) -> Response:
        await self._check_token(request, "write")
        async with self._bodies:
            keyring, mark, keys = await self._receive(request, protocol.unpack_keys)
            return await self._change(keyring, lambda: self._keyring.prepare(keys, mark=mark))

    async def settle(self, request: Request) -> Response:
        await self._check_token(request, "write")
        async with self._bodies:
            before = _read_version(request, "before")
            keyring, mark, versions = await self._receive(request, protocol.unpack_versions)
            return await self._change(keyring, lambda: self._keyring.settle(versions, before=before, mark=mark))

    async def _change(self, keyring: bytes, change: Callable[[], None]) -> Response:
        if keyring != self._keyring.id:
            raise HTTPException(HTTPStatus.PRECONDITION_FAILED, "this is another keyring than the request names")
        await self._use(change)
        return Response()

    async def _use(self, operation: Callable[..., _Result], *arguments: object) -> _Result:
        """Use the file, which blocks: in a thread, and one at a time."""
        async with self._turn:
            return await asyncio.to_thread(operation, *arguments)

    async def _check_token(self, request: Request, scope: str) -> None:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        token: Token | None = None
        if kind.lower() == "bearer":
            token = find_token(await asyncio.to_thread(read_tokens, self._tokens), secret)
        if token is None:
            raise HTTPException(
                HTTPStatus.UNAUTHORIZED, "the token is missing, unknown or revoked", {"www-authenticate": "Bearer"}
            )
        request.scope[_LABEL] = token.label
        if not token.allows(scope):
            raise HTTPException(HTTPStatus.FORBIDDEN, f"the token may {token.scope}, and this needs {scope}")

    async def _receive(self, request: Request, unpack: Callable[[bytes], _Result]) -> _Result:
        """The body of a change."""
        length = request.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            raise HTTPException(HTTPStatus.LENGTH_REQUIRED, "the request has no content-length")
        if len(length) > 15 or int(length) > self._body_limit:
            raise HTTPException(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {self._body_limit:,} bytes"
            )
        try:
            async with asyncio.timeout(BODY_SECONDS):
                content = await request.body()
            return await asyncio.to_thread(unpack, content)
        except TimeoutError:
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive in time") from None
        except ClientDisconnect:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "the body is cut off") from None
        except ValueError as problem:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(problem)) from None


def _read_version(request: Request, name: str) -> int | None:
    """A version in the query of a request; None if there is none."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= protocol.LARGEST):
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name} is not a version from 0 to {protocol.LARGEST}")
    return int(text)


class _PagesResponse(Response):
    """Pages, a part at a time; the length that it announces says whether they have arrived whole."""

    def __init__(self, head: bytes, pages: Sequence[Page]) -> None:
        super().__init__(head, media_type=_BINARY)
        self.headers["content-length"] = str(len(head) + PAGE * len(pages))
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = self.body
        for start in range(0, len(self._pages), _PAGES):
            await send({"type": "http.response.body", "body": body, "more_body": True})
            body = b"".join(page.content for page in self._pages[start : start + _PAGES])
        await send({"type": "http.response.body", "body": body})


async def _answer_refusal(_: Request, problem: Exception) -> Response:
    status, text, headers = (getattr(problem, name) for name in ("status_code", "detail", "headers"))
    return PlainTextResponse(text, status, headers)


async def _answer_trouble(_: Request, problem: Exception) -> Response:
    """What the file says; it names files and slots, never keys."""
    _log.error("%s", problem)
    return PlainTextResponse(str(problem), HTTPStatus.CONFLICT)


class _Journal:
    """Marks each answer, and logs who has called which path; never what was sent or answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, status = time.monotonic(), 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                marks = {protocol.HEADER: str(protocol.VERSION), "cache-control": "no-store"}
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in marks.items())]
            await send(message)

        try:
            await self._app(scope, receive, send_marked)
        finally:
            method, path = scope["method"], scope["path"]
            _log.log(
                logging.INFO if status < 400 else logging.WARNING,
                "%s %s %s %d %.1f ms",
                scope.get(_LABEL, "-"),
                method if method in _METHODS else "?",
                path if path in protocol.PATHS else "?",
                status,
                1e3 * (time.monotonic() - start),
            )
