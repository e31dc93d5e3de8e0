"""Options of commands that listen: where, and with which certificate.

Guarantee: they mean the same in each of them; held by tests/store/test_keyring_server.py and
tests/service/test_serve.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def listen_options(port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --host, --port, --certificate and --private-key to a command, with this port as the default."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(_list_options(port)):
            function = option(function)
        return function

    return add


def _list_options(port: int) -> list[Callable[[Callable[..., Any]], Callable[..., Any]]]:
    return [
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="Name or address of this host to listen on."
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65_535),
            default=port,
            show_default=True,
            help="Port to listen on; 0 chooses one that is free.",
        ),
        click.option(
            "--certificate",
            metavar="FILE",
            help="File with the certificate of this host and those that it was signed with, in PEM.",
        ),
        click.option(
            "--private-key",
            metavar="FILE",
            help="File with the private key of the certificate, in PEM and without a passphrase.  "
            "[default: in --certificate]",
        ),
    ]


def check_certificate(certificate: str | None, private_key: str | None) -> None:
    """Check that there is no private key without a certificate."""
    if private_key is not None and certificate is None:
        raise click.UsageError("--private-key belongs to --certificate; give both, or neither")
