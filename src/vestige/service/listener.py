"""How a service listens: over TLS, in clear on this host, or in clear behind a proxy that does TLS.

Guarantee: a service that is asked to stop ends those who listen to events, answers what it has begun, and then closes
the store; held by tests/service/test_serve.py.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from vestige.errors import MissingExtraError
from vestige.service.events import Events
from vestige.service.guard import HEAD
from vestige.store import listener

try:
    from fastapi import FastAPI
except ModuleNotFoundError:
    raise MissingExtraError("vestige serve", "serve") from None

CONNECTIONS, CLIENT_CONNECTIONS = 1_000, 256
"""Number of connections at the same time, of all clients and of one."""


class Server(listener.Server):
    """A server that says where it listens once it does, and ends events when it stops.

    Args:
        app: the application.
        events: where it tells what happens.
        context: how TLS is spoken; None for connections in clear.
        announce: called with the address once the server listens.
        behind_proxy: whether all connections are those of a proxy, so that they are not limited by client.
    """

    def __init__(
        self,
        app: FastAPI,
        events: Events,
        context: ssl.SSLContext | None = None,
        announce: Callable[[str], None] = lambda _: None,
        *,
        behind_proxy: bool = False,
    ) -> None:
        each = CONNECTIONS if behind_proxy else CLIENT_CONNECTIONS
        more = {"lifespan": "on", "h11_max_incomplete_event_size": HEAD}
        super().__init__(listener.configure(app, context, CONNECTIONS, each, **more))
        self._events, self._announce, self._scheme = events, announce, "http" if context is None else "https"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say where.

        Args:
            sockets: what to listen on.
        """
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._announce(f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; those who listen to events would keep it waiting.

        Args:
            sockets: what was listened on.
        """
        self._events.end()
        await super().shutdown(sockets)
