"""How a keyring server listens: over TLS, or in clear where nobody else can listen in.

Guarantee: in clear it listens on this host alone, and a connection that sends no request is closed; held by
tests/store/test_keyring_server.py.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from vestige.errors import MissingExtraError, ParameterError, StoreError
from vestige.store.keyring.file import KeyringFile
from vestige.store.keyring.server import make_app
from vestige.store.keyring.tokens import read_tokens

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError:
    raise MissingExtraError("a keyring server", "serve") from None

CONNECTIONS = 256
"""Number of connections at the same time; more are answered with 503."""
IDLE_SECONDS = 60.0
"""Seconds after which a connection is closed on which no request has begun and its head has not arrived."""
_STOP_SECONDS = 10
"""Seconds that requests under way have when the server is stopped."""


def serve(
    keyring: KeyringFile,
    tokens: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8443,
    certificate: str | Path | None = None,
    private_key: str | Path | None = None,
    without_tls: bool = False,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve a keyring until the process gets SIGTERM or SIGINT; requests under way are finished first.

    To destroy the keyring is not offered over the network.

    Args:
        keyring: the keyring.
        tokens: the file with the tokens, see `vestige.store.keyring.tokens.create_token`.
        host: name or address to listen on.
        port: port to listen on; 0 for any that is free.
        certificate: file with the certificate and those that it was signed with, in PEM.
        private_key: file with its private key, in PEM and without a passphrase; default: in `certificate`.
        without_tls: whether to listen in clear, which is refused unless `host` is this host.
        announce: called with the address once the server listens.

    Raises:
        ParameterError: `certificate` is missing, or `without_tls` is given for another address than this host.
        StoreError: the certificate or the tokens cannot be read, or the port is taken.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> keyring = KeyringFile(folder.name + "/visits.keyring", create=True)
        >>> serve(keyring, folder.name + "/visits.tokens")
        Traceback (most recent call last):
        vestige.errors.ParameterError: certificate=None: keyrings are served over TLS; give one, or without_tls=True
        >>> folder.cleanup()
    """
    context = None if without_tls else _load_certificate(certificate, private_key)
    if without_tls and (certificate or private_key):
        raise ParameterError("without_tls=True does not use a certificate; leave out one of them")
    read_tokens(tokens)
    with _listen(host, port, in_clear=without_tls) as listener:
        name, bound = listener.getsockname()[:2]
        shown = f"[{name}]" if ":" in name else name
        announce(f"{'http' if without_tls else 'https'}://{shown}:{bound}")
        make_server(keyring, tokens, context).run([listener])


def make_server(keyring: KeyringFile, tokens: str | Path, context: ssl.SSLContext | None) -> uvicorn.Server:
    """Make the server with its limits.

    Args:
        keyring: the keyring.
        tokens: the file with the tokens.
        context: how TLS is spoken; None for connections in clear.

    Returns:
        The server.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> keyring = KeyringFile(folder.name + "/visits.keyring", create=True)
        >>> make_server(keyring, folder.name + "/visits.tokens", None).config.access_log
        False
        >>> folder.cleanup()
    """
    config = uvicorn.Config(
        make_app(keyring, tokens),
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,  # the application logs requests, without queries
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    config.load()
    config.ssl = context
    return uvicorn.Server(config)


class _Protocol(H11Protocol):
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


def _load_certificate(certificate: str | Path | None, private_key: str | Path | None) -> ssl.SSLContext:
    if certificate is None:
        raise ParameterError("certificate=None: keyrings are served over TLS; give one, or without_tls=True")
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


def _listen(host: str, port: int, *, in_clear: bool) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise StoreError(f"host={host}: is not an address of this host; give one, such as 127.0.0.1") from None
    if in_clear and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise ParameterError(
            f"host={host}: keys would cross the network in clear; give a certificate, or listen on 127.0.0.1 alone"
        )
    try:
        listener = socket.create_server(address, family=family)
    except OSError as problem:
        reason = os.strerror(problem.errno or 0)
        raise StoreError(
            f"{host}, port {port}: cannot be listened on ({reason}); use another port, or stop what uses it"
        ) from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or each answer waits 40 ms for its second packet
    return listener
