"""Who may do what: tokens in a file that is looked at for each request, so that a revoked one is refused at once.

Guarantee: without a token of its scope no route but the public ones does anything; held by
tests/service/test_access.py.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from vestige.errors import MissingExtraError, StoreError
from vestige.service.problems import RefusalError
from vestige.store.tokens import SERVICE, Token, find_token, read_tokens

try:
    from fastapi import Depends, Request
    from starlette.datastructures import Headers
except ModuleNotFoundError:
    raise MissingExtraError("vestige serve", "serve") from None

OPEN = Token("open", ("admin",), "", "", SERVICE)
"""The token of everybody where none is asked for."""
HELD = "vestige.token"
"""Where the scope of a request has its token."""


class Access:
    """Knows the tokens.

    Args:
        path: the file with the tokens; None to ask for none.

    Raises:
        StoreError: the file cannot be read.

    Example:
        >>> from starlette.datastructures import Headers
        >>> Access(None).find(Headers()).allows("admin")
        True
    """

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        self._tokens: tuple[Token, ...] = ()
        self._seen: tuple[int, ...] = ()
        if self._path is not None:
            self._read(self._path)

    def find(self, headers: Headers) -> Token:
        """Find the token of a request.

        Args:
            headers: the headers of the request.

        Returns:
            The token.

        Raises:
            RefusalError: it is missing, unknown or revoked.
        """
        if self._path is None:
            return OPEN
        kind, _, secret = headers.get("authorization", "").partition(" ")
        try:
            self._read(self._path)
        except (OSError, StoreError):
            raise RefusalError(503, "the file of tokens cannot be read; see --tokens") from None
        found = find_token(self._tokens, secret.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise RefusalError(
                401, "the token is missing, unknown or revoked; see vestige token", {"WWW-Authenticate": "Bearer"}
            )
        return found

    def _read(self, path: Path) -> None:
        """Read the file again if it is not the one that was read last."""
        there = os.stat(path) if path.exists() else None
        seen = () if there is None else (there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns)
        if not seen or seen != self._seen:
            self._seen = ()
            self._tokens = read_tokens(path, kind=SERVICE)
            self._seen = seen


def find_holder(request: Request) -> Token:
    """Find the token that a request was let in with.

    Args:
        request: the request.

    Returns:
        The token.
    """
    held: Token = request.scope[HELD]
    return held


def allow(*scopes: str, **more: Any) -> dict[str, Any]:
    """Say who may use a route.

    Args:
        scopes: the scopes, of which a token needs one.
        more: more of the route's part of the OpenAPI document.

    Returns:
        Arguments of the route.
    """
    return {"dependencies": [Depends(_require(scopes))], "openapi_extra": {"x-scopes": list(scopes)} | more}


def _require(scopes: tuple[str, ...]) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        held = find_holder(request)
        if not any(held.allows(scope) for scope in scopes):
            raise RefusalError(403, f"the token has scope {held.scope}, and this needs {' or '.join(scopes)}")

    return check
