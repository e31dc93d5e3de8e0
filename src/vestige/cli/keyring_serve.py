"""`vestige keyring serve` and `vestige keyring token`: a keyring for stores that several hosts write.

Guarantee: a token is printed once, on standard output, and nothing else is; held by tests/store/test_keyring_server.py.
"""

from __future__ import annotations

import logging
import sys

import click

from vestige.cli.access import json_option
from vestige.cli.keyring import keyring_group
from vestige.cli.listen_options import check_certificate, listen_options
from vestige.cli.token import add_option, manage_tokens, revoke_option
from vestige.store.keyring import KeyringFile
from vestige.store.tokens import KEYRING


@keyring_group.command()
@click.argument("file")
@click.option(
    "--tokens",
    required=True,
    metavar="FILE",
    help="File with the tokens of those who may use the keyring; vestige keyring token makes it.",
)
@listen_options(8443)
@click.option(
    "--without-tls",
    is_flag=True,
    help="Listen in clear, for clients on this host alone; any other --host is refused.",
)
@click.option(
    "--log-requests",
    is_flag=True,
    help="Log each request, not only those that are refused: label of the token, path and status.",
)
def serve(
    file: str,
    tokens: str,
    certificate: str | None,
    private_key: str | None,
    host: str,
    port: int,
    *,
    without_tls: bool,
    log_requests: bool,
) -> None:
    """Serve the keyring in FILE to other hosts.

    Stores name the server as their keyring: --keyring https://HOST:PORT, with a token in the variable
    VESTIGE_KEYRING_TOKEN, or in the file that VESTIGE_KEYRING_TOKEN_FILE names. VESTIGE_KEYRING_CA names the file with
    the certificate of who signed that of the server, if this is not an authority that all hosts trust. Hosts that name
    subjects also need the same file with the key of the subjects: --key FILE.

    A change is confirmed once it is flushed to the device of FILE. SIGTERM and Ctrl-C end the server after the requests
    that are under way; clients try again for ten seconds, enough for a restart. The log is on standard error, and never
    has keys or tokens. A keyring cannot be destroyed over the network.

    \b
    Examples:
      vestige keyring token visits.tokens --add collector-1
      vestige keyring serve visits.keyring --tokens visits.tokens --host 0.0.0.0 \\
          --certificate server.pem --private-key server.key
      vestige keyring serve visits.keyring --tokens visits.tokens --without-tls
    """  # noqa: D301  # the escape keeps click from rewrapping the lines
    from vestige.store.keyring.listener import serve as listen  # noqa: PLC0415  # an extra

    if without_tls == (certificate is not None):
        raise click.UsageError("give --certificate, or --without-tls for clients on this host alone")
    check_certificate(certificate, private_key)
    keyring = KeyringFile(file)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (
        ("vestige.keyring", logging.INFO if log_requests else logging.WARNING),
        ("uvicorn", logging.WARNING),
    ):
        log = logging.getLogger(name)
        log.addHandler(handler)
        log.setLevel(level)

    def announce(address: str) -> None:
        click.echo(f"Serving the keyring {keyring.name} at {address}")

    try:
        listen(
            keyring,
            tokens,
            host=host,
            port=port,
            certificate=certificate,
            private_key=private_key,
            without_tls=without_tls,
            announce=announce,
        )
    except KeyboardInterrupt:
        sys.exit(130)  # what shells expect of Ctrl-C


@keyring_group.command()
@click.argument("file")
@add_option
@click.option(
    "--scope",
    type=click.Choice(list(KEYRING.scopes)),
    help="What the new token allows: read keys and check the keyring, or also write.  [default: write]",
)
@revoke_option
@json_option
def token(file: str, add: str | None, scope: str | None, revoke: str | None, *, machine: bool) -> None:
    """Make, list or revoke the tokens of a keyring server.

    FILE has a line for each token, with its label, scope and hash; the tokens themselves are not in it. Without --add
    and --revoke, the tokens are listed. Hosts that write a store need --scope write; for those that read it, and for
    auditors, --scope read is enough.

    \b
    Examples:
      vestige keyring token visits.tokens --add collector-1
      (umask 077; vestige keyring token visits.tokens --add auditor --scope read > auditor.token)
      vestige keyring token visits.tokens
      vestige keyring token visits.tokens --revoke collector-1
    """  # noqa: D301  # the escape keeps click from rewrapping the lines
    scopes = (scope or "write",) if add is not None else () if scope is None else (scope,)
    use = (
        "Put it into VESTIGE_KEYRING_TOKEN of its host, or into a file for its owner only that "
        "VESTIGE_KEYRING_TOKEN_FILE names."
    )
    manage_tokens(KEYRING, file, add, scopes, revoke, use, machine=machine)
