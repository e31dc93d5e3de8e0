"""How servers listen: over TLS, or in clear where nobody else can listen in.

Guarantee: in clear they listen on this host alone unless told otherwise, and a connection is closed that sends no
request, or takes nothing of an answer; held by tests/store/test_keyring_server.py, tests/service/test_serve.py and
tests/service/test_events.py. Connections without a request keep nobody from being answered; held by
tests/store/test_listener.py and tests/service/test_half_open.py.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from vestige.errors import MissingExtraError, ParameterError, StoreError

try:
    import uvicorn
    from starlette.types import ASGIApp
    from uvicorn.protocols.http.flow_control import service_unavailable
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError:
    raise MissingExtraError("a server", "serve") from None

IDLE_SECONDS = 60.0
"""Seconds after which a connection is closed on which no other request has begun."""
HEAD_SECONDS = 10.0
"""Seconds in which the head of a request has to arrive, and before the first one the whole beginning of TLS."""
STALLED_SECONDS = 60.0
"""Seconds after which a connection is closed whose other end takes nothing of what is sent to it."""
STOP_SECONDS = 10
"""Seconds that requests under way have when a server is stopped."""
_BACKLOG, _AT_ONCE = 2_048, 128
"""Number of connections that the system holds until they are accepted; and that are accepted before others go on."""


def configure(app: ASGIApp, context: ssl.SSLContext | None, connections: int, each: int, **more: Any) -> uvicorn.Config:
    """Configure a server, which logs no requests: what they ask may not be written anywhere.

    Args:
        app: its application.
        context: how TLS is spoken; None for connections in clear.
        connections: number of connections at the same time; for another, one is closed on which no request is under
            way, and without such a one it is answered with 503.
        each: the same for those of one client.
        more: further settings of uvicorn.

    Returns:
        The configuration.
    """
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=Protocol,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=connections,
        timeout_graceful_shutdown=STOP_SECONDS,
        backlog=_AT_ONCE,
        **more,
    )
    config.load()
    config.http_protocol_class = partial(Protocol, Clients(connections, each))  # type: ignore[assignment]
    config.ssl = context
    return config


class Server(uvicorn.Server):
    """A server that gives the beginning of TLS as much time as the head of a request."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start.

        Args:
            sockets: what to listen on.
        """
        loop = asyncio.get_running_loop()
        if self.config.ssl is not None:
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HEAD_SECONDS)  # type: ignore[method-assign]
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)  # asyncio accepts as many at once as it lets the system hold


class Clients:
    """The connections of each client, those on which something was answered last at the end.

    Args:
        most: number of connections at the same time.
        each: number of connections of one client.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most, self._each, self._count = most, each, 0
        self._open: dict[str, dict[Protocol, None]] = {}

    def add(self, new: Protocol, address: str) -> bool:
        """Add a connection; if there are too many, the one that has waited longest for a request is closed.

        Args:
            new: the connection.
            address: the address of its client.

        Returns:
            False if requests are under way on all others.
        """
        own = self._open.setdefault(address, {})
        own[new] = None
        self._count += 1
        if len(own) <= self._each:
            if self._count < self._most:
                return True
            own = max(self._open.values(), key=len)
        oldest = next((each for each in own if each is not new and each.is_waiting), None)
        if oldest is not None:
            oldest.end()
        return oldest is not None

    def renew(self, known: Protocol, address: str) -> None:
        """Note that something was answered on a connection.

        Args:
            known: the connection.
            address: the address of its client.
        """
        if known in self._open.get(address, {}):
            self._open[address][known] = self._open[address].pop(known)

    def discard(self, gone: Protocol, address: str) -> None:
        """Note that a connection is closed.

        Args:
            gone: the connection.
            address: the address of its client.
        """
        own = self._open.get(address, {})
        if gone in own:
            del own[gone]
            self._count -= 1
            if not own:
                del self._open[address]


class Protocol(H11Protocol):
    """HTTP/1.1 in which a connection without a whole request is closed, however slowly it sends one.

    Args:
        clients: the connections of all clients.
        more: what uvicorn gives a protocol.
    """

    def __init__(self, clients: Clients, **more: Any) -> None:
        super().__init__(**more)
        self._clients, self._address, self._has_begun = clients, "", True
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._address = "" if self.client is None else self.client[0]
        if not self._clients.add(self, self._address):
            self.app = service_unavailable
        self._wait(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if not self._has_begun and self.is_waiting:
            self._has_begun = True
            self._wait(HEAD_SECONDS)
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._unset_keepalive_if_required()
        self._clients.renew(self, self._address)
        self._has_begun = False
        self._wait(IDLE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._clients.discard(self, self._address)
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if self.is_waiting:
            self.transport.close()

    def end(self) -> None:
        """Close the connection, which is not waited for."""
        self._clients.discard(self, self._address)
        self.transport.abort()


def load_certificate(certificate: str | Path, private_key: str | Path | None) -> ssl.SSLContext:
    """Load the certificate of a server.

    Args:
        certificate: file with the certificate and those that it was signed with, in PEM.
        private_key: file with its private key, in PEM and without a passphrase; None if it is in `certificate`.

    Returns:
        How TLS is spoken.

    Raises:
        StoreError: they cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    named = f"{certificate}" if private_key is None else f"{certificate}, {private_key}"

    def refuse() -> NoReturn:
        raise StoreError(f"{named}: the private key has a passphrase; give one without, which only its owner can read")

    try:
        context.load_cert_chain(certificate, private_key, refuse)
    except ssl.SSLError as problem:  # before OSError, which it is one of
        reason = problem.reason or "not in PEM"
        raise StoreError(
            f"{named}: not a certificate and its private key ({reason}); give both, in PEM, that belong together"
        ) from None
    except OSError as problem:
        raise StoreError(f"{named}: cannot be read ({problem.strerror}); give a certificate and its key") from None
    return context


def open_listener(host: str, port: int, *, refusal: str | None = None) -> socket.socket:
    """Listen on an address.

    Args:
        host: name or address to listen on.
        port: port to listen on; 0 for any that is free.
        refusal: why only this host may be listened on, and what to do; None if others may reach it.

    Returns:
        The socket.

    Raises:
        ParameterError: the address is not of this host alone.
        StoreError: it is not an address of this host, or the port is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise StoreError(f"host={host}: is not an address of this host; give one, such as 127.0.0.1") from None
    if refusal is not None and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise ParameterError(f"host={host}: {refusal}")
    try:
        listener = socket.create_server(address, family=family)
    except OSError as problem:
        reason = os.strerror(problem.errno or 0)
        raise StoreError(
            f"{host}, port {port}: cannot be listened on ({reason}); use another port, or stop what uses it"
        ) from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or each answer waits 40 ms for its second packet
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # of Linux; whoever is connected has it too
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1_000 * STALLED_SECONDS))
    return listener
