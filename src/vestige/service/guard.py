"""What every request passes: host, origin, token, rate and size; and what every answer has: a content policy.

It is the outermost layer, so that an error that nobody has caught is answered and logged here, without its text.
Guarantee: a request of a foreign page, without a token, too long or too slow reaches no route, and no answer or line
of the log has the text of an error; held by tests/service/test_guard.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from vestige.errors import MissingExtraError
from vestige.service.access import HELD, Access
from vestige.service.logs import describe
from vestige.service.problems import RefusalError
from vestige.service.rates import Rates

try:
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ModuleNotFoundError:
    raise MissingExtraError("vestige serve", "serve") from None

HEAD = 32 << 10
"""Bytes of the longest head of a request: path, query and headers."""
BODY = 8 << 20
"""Bytes of the longest body of rows that is taken."""
SMALL_BODY = 1 << 20
"""Bytes of the longest other body."""
BODIES = 256 << 20
"""Bytes of all bodies that are held at the same time; more are refused for a while, and of one token half as many."""
BODY_SECONDS = 30.0
"""Seconds in which a body has to arrive."""
DIGITS = 400
"""Digits of the longest whole number in a body without rows; the time that one takes grows with their square."""
PUBLIC = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json"})
"""Paths that need no token, besides the files of the page."""
STATIC = "/static/"
"""Where the files of the page are."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: nothing but what this service sends."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_WITH_BODY = ("POST", "PUT", "PATCH")
_AS_IT_IS = ("", "identity")
_log = logging.getLogger("vestige.service")


class Guard:
    """The outermost layer of the application.

    Args:
        app: the layers below.
        access: the tokens.
        allowed_hosts: names that the Host of a request may have, without ports.
        rates: how many requests each token may make.
        observe: called with the scope of each request, the status of its answer and the seconds that it took.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        allowed_hosts: frozenset[str],
        rates: Rates,
        observe: Callable[[Scope, int, float], None],
    ) -> None:
        self._app, self._access, self._hosts = app, access, allowed_hosts
        self._rates, self._observe, self._held = rates, observe, Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(raw=message["headers"]).update(_HEADERS)
            await send(message)

        body = _Body(self, receive)
        try:
            try:
                self._admit(scope)
                await body.arrive(scope)
                await self._app(scope, body.receive, send_marked)
            except ClientDisconnect:
                status = status or 499  # nobody is left to answer
            except RefusalError as refusal:
                await answer(refusal)(scope, receive, send_marked)
            except Exception as problem:
                _log.error("a request failed: %s", describe(problem))
                if status:
                    raise RuntimeError("an answer was cut off") from None
                await answer(RefusalError(500, "the service failed; its log says where"))(scope, receive, send_marked)
        finally:
            body.release()
            self._observe(scope, status, time.monotonic() - began)

    def _admit(self, scope: Scope) -> None:
        """Refuse requests that a foreign page makes, that reach this host by a foreign name, or without a token."""
        headers = Headers(scope=scope)
        head = len(scope["path"]) + len(scope["query_string"]) + sum(len(k) + len(v) for k, v in headers.raw)
        if head > HEAD:
            raise RefusalError(431, f"the head of the request is longer than {HEAD:,} bytes; send less")
        host, origin = headers.get("host", ""), headers.get("origin")
        if _strip_port(host) not in self._hosts:
            raise RefusalError(421, "the Host is not one that this service answers for; see --allow-host")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise RefusalError(403, "the Origin is another site; requests of other pages are refused")
        path = scope["path"]
        if path not in PUBLIC and not path.startswith(STATIC):
            scope[HELD] = self._access.find(headers)
            self._rates.count(scope[HELD].label)

    def hold(self, label: str, size: int) -> None:
        """Note that so many bytes more of a token are held, or less."""
        for limit, held in (BODIES, self._held.total()), (BODIES // 2, self._held[label]):
            if size > 0 and held + size > limit:
                raise RefusalError(429, f"bodies of {limit:,} bytes are waiting; send this one again later")
        self._held[label] += size
        if not self._held[label]:
            del self._held[label]


class _Body:
    """The body of one request, which is handed on once it is there."""

    def __init__(self, guard: Guard, receive: Receive) -> None:
        self._guard, self._receive, self._size, self._label = guard, receive, 0, ""
        self._message: Message | None = None

    async def arrive(self, scope: Scope) -> None:
        """Wait for the body, if it is not too long, and the path takes one: public ones do not."""
        if scope["method"] not in _WITH_BODY or HELD not in scope:
            return
        self._label = scope[HELD].label
        headers, has_rows = Headers(scope=scope), scope["path"].endswith("/rows")
        if headers.get("content-encoding", "").strip().lower() not in _AS_IT_IS:
            raise RefusalError(
                415, "the body has a Content-Encoding, such as gzip; send it as it is", {"Accept-Encoding": "identity"}
            )
        limit = BODY if has_rows else SMALL_BODY
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 15 or int(length) > limit:
            raise _refuse_length(limit)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    self._hold(len(parts[-1]), limit)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise RefusalError(
                408, f"the body did not arrive within {BODY_SECONDS:g} s; send it again", {"Connection": "close"}
            ) from None
        content = b"".join(parts)
        if not has_rows:
            _check_json(content)
        self._message = {"type": "http.request", "body": content, "more_body": False}

    def _hold(self, size: int, limit: int) -> None:
        if self._size + size > limit:
            raise _refuse_length(limit)
        self._guard.hold(self._label, size)
        self._size += size

    def release(self) -> None:
        """Note that the body is held no more."""
        self._guard.hold(self._label, -self._size)
        self._size = 0

    async def receive(self) -> Message:
        """Hand the body on, then wait for the end of the connection."""
        message, self._message = self._message, None
        return await self._receive() if message is None else message


def _check_json(content: bytes) -> None:
    """Refuse JSON in which an object has a member twice, of which the last would count, or whose numbers take long.

    What is not JSON passes.
    """
    try:
        json.loads(content or b"0", object_pairs_hook=_make_object, parse_int=_read_number)
    except (ValueError, RecursionError):
        return


def _make_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise RefusalError(422, "an object of the body has a member twice; give each once; nothing was done")
    return made


def _read_number(text: str) -> int:
    if len(text) > DIGITS:
        raise RefusalError(422, f"a number of the body has more than {DIGITS} digits; send a smaller one")
    return int(text)


def _refuse_length(limit: int) -> RefusalError:
    return RefusalError(
        413, f"the body is longer than {limit:,} bytes; send fewer rows at a time", {"Connection": "close"}
    )


def answer(refusal: RefusalError) -> JSONResponse:
    """Answer with a refusal.

    Args:
        refusal: the refusal.

    Returns:
        The answer.

    Example:
        >>> answer(RefusalError(404, "there is no stream of this name")).media_type
        'application/problem+json'
    """
    data: dict[str, Any] = refusal.to_data()
    return JSONResponse(data, refusal.status, refusal.headers, "application/problem+json")


def _strip_port(host: str) -> str:
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0].lower()
