"""How servers listen: over TLS, or in clear where nobody else can listen in.

Guarantee: in clear they listen on this host alone unless told otherwise, and a connection is closed that sends no
request, or takes nothing of an answer; held by tests/store/test_keyring_server.py, tests/service/test_serve.py and
tests/service/test_events.py.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from pathlib import Path
from typing import Any, NoReturn

from vestige.errors import MissingExtraError, ParameterError, StoreError

try:
    import uvicorn
    from starlette.types import ASGIApp
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError:
    raise MissingExtraError("a server", "serve") from None

IDLE_SECONDS = 60.0
"""Seconds after which a connection is closed on which no request has begun and its head has not arrived."""
STALLED_SECONDS = 60.0
"""Seconds after which a connection is closed whose other end takes nothing of what is sent to it."""
STOP_SECONDS = 10
"""Seconds that requests under way have when a server is stopped."""


def configure(app: ASGIApp, context: ssl.SSLContext | None, connections: int, **more: Any) -> uvicorn.Config:
    """Configure a server, which logs no requests: what they ask may not be written anywhere.

    Args:
        app: its application.
        context: how TLS is spoken; None for connections in clear.
        connections: number of connections at the same time; more are answered with 503.
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
        **more,
    )
    config.load()
    config.ssl = context
    return config


class Protocol(H11Protocol):
    """HTTP/1.1 in which a connection without a whole request is closed, however slowly it sends one."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._unset_keepalive_if_required()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(IDLE_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


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
