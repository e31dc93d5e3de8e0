"""How a keyring server is run: over TLS, or in clear where nobody else can listen in.

Guarantee: in clear it listens on this host alone, and a connection that sends no request is closed; held by
tests/store/test_keyring_server.py.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from vestige.errors import MissingExtraError, ParameterError
from vestige.store.keyring.file import KeyringFile
from vestige.store.keyring.server import make_app
from vestige.store.listener import Server, configure, load_certificate, open_listener
from vestige.store.tokens import read_tokens

try:
    import uvicorn
except ModuleNotFoundError:
    raise MissingExtraError("a keyring server", "serve") from None

CONNECTIONS, CLIENT_CONNECTIONS = 256, 64
"""Number of connections at the same time, of all clients and of one."""
_IN_CLEAR = "keys would cross the network in clear; give a certificate, or listen on 127.0.0.1 alone"


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
        tokens: the file with the tokens, see `vestige.store.tokens.create_token`.
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
    if certificate is None and not without_tls:
        raise ParameterError("certificate=None: keyrings are served over TLS; give one, or without_tls=True")
    context = None if without_tls or certificate is None else load_certificate(certificate, private_key)
    if without_tls and (certificate or private_key):
        raise ParameterError("without_tls=True does not use a certificate; leave out one of them")
    read_tokens(tokens)
    with open_listener(host, port, refusal=_IN_CLEAR if without_tls else None) as listener:
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
    return Server(configure(make_app(keyring, tokens), context, CONNECTIONS, CLIENT_CONNECTIONS, lifespan="off"))
