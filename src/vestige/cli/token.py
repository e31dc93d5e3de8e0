"""`vestige token`: who may use a service; and what it shares with `vestige keyring token`.

Guarantee: a token is printed once, on standard output, and nothing else is; held by tests/service/test_access.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from vestige.cli.access import json_option
from vestige.cli.group import command
from vestige.cli.output import print_json, say, show_table, warn
from vestige.store.tokens import SERVICE, TokenKind, create_token, read_tokens, revoke_token

add_option = click.option(
    "--add", metavar="LABEL", help="Make a token with this label and print it; it is shown this once."
)
revoke_option = click.option(
    "--revoke", metavar="LABEL", help="Revoke the token with this label; a running server refuses it at once."
)


@command.command("token")
@click.argument("file")
@add_option
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(list(SERVICE.scopes)),
    multiple=True,
    help="What the new token allows; may be repeated.",
)
@revoke_option
@json_option
def token(file: str, add: str | None, scopes: tuple[str, ...], revoke: str | None, *, machine: bool) -> None:
    """Make, list or revoke the tokens of a service.

    FILE has a line for each token, with its label, scopes and hash; the tokens themselves are not in it. Without --add
    and --revoke, the tokens are listed. vestige serve --tokens FILE asks for one of them with each request.

    A token allows what its scopes say: ingest to send rows; read to see answers, receipts, metrics and events; erase to
    ask for removals, to erase the stream of a key and to sweep; audit to see the records that are held and to verify
    the store; admin all of this, and to create and delete streams.

    \b
    Examples:
      vestige token visits.tokens --add collector-1 --scope ingest
      (umask 077; vestige token visits.tokens --add board --scope read > board.token)
      vestige token visits.tokens
      vestige token visits.tokens --revoke collector-1
    """  # noqa: D301  # the escape keeps click from rewrapping the lines
    if add is not None and not scopes:
        raise click.UsageError(f"--add {add} needs --scope, what the token allows; give one or more")
    use = "Send it as the header Authorization: Bearer TOKEN."
    manage_tokens(SERVICE, file, add, scopes, revoke, use, machine=machine)


def manage_tokens(
    kind: TokenKind,
    file: str,
    add: str | None,
    scopes: Sequence[str],
    revoke: str | None,
    use: str,
    *,
    machine: bool,
) -> None:
    """Make, list or revoke tokens of a kind; `use` says what to do with a new one."""
    if add is not None and revoke is not None:
        raise click.UsageError("--add and --revoke are both given; give one of them")
    if scopes and add is None:
        raise click.UsageError("--scope belongs to --add; give both, or neither")
    if add is not None:
        secret = create_token(file, add, *scopes, kind=kind)
        if machine:
            print_json({"label": add, "scope": ",".join(scopes), "token": secret})
        else:
            click.echo(secret)
            warn(f"This is the token {add}; it is shown this once. {use}")
        return
    if revoke is not None:
        revoke_token(file, revoke, kind=kind)
    known = read_tokens(file, kind=kind)
    if machine:
        print_json([{"label": each.label, "scope": each.scope, "created": each.created} for each in known])
    elif revoke is not None:
        say(f"{file}: the token {revoke} is revoked; {len(known)} left.")
    else:
        rows = [(each.label, each.scope, each.created) for each in known]
        show_table(("label", "scope", "created"), rows, ("scope", "created"))
