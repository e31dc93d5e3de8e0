"""`vestige serve`: streams over HTTP, from a store that this process holds.

Guarantee: without tokens, or without TLS, it listens on this host alone; held by tests/service/test_serve.py.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click

from vestige._numba import limit_interpretation
from vestige.cli.group import command
from vestige.cli.listen_options import check_certificate, listen_options
from vestige.cli.serve_demo import DemoFolder, show_page
from vestige.cli.store_options import StoreOptions, key_option, store_argument
from vestige.errors import MissingExtraError, ParameterError
from vestige.sources import IfReplaced

_OPEN = "without tokens it serves this host alone; leave out --host, or give --tokens"
_IN_CLEAR = (
    "tokens and rows would cross the network in clear; give --certificate, or --behind-proxy if a proxy does TLS, or "
    "listen on 127.0.0.1 alone"
)


@command.command("serve")
@store_argument
@key_option
@click.option("--tokens", metavar="FILE", help="File with the tokens of those who may use it; vestige token makes it.")
@click.option("--open", "is_open", is_flag=True, help="Ask for no token; on this host alone.")
@listen_options(8080)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Further name by which requests may reach it, such as that of a proxy; may be repeated.",
)
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="Listen in clear on a --host that others can reach, because a proxy in front of it does TLS; connections are "
    "not limited by address, since all have that of the proxy.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=1.0),
    default=1_000.0,
    show_default=True,
    help="Requests a second that one token may make.",
)
@click.option(
    "--from",
    "queues",
    multiple=True,
    metavar="NAME=ADDRESS",
    help="Queue to read into the streams of the definition NAME, such as visits=redis://HOST:PORT/DATABASE/STREAM; the "
    "name may be left out if it is that of the queue. May be repeated.",
)
@click.option(
    "--trim",
    is_flag=True,
    help="Remove entries from the queues of --from once they are committed, and all other groups have acknowledged "
    "them.",
)
@click.option(
    "--if-replaced",
    type=click.Choice(get_args(IfReplaced)),
    default="refuse",
    show_default=True,
    help="What to do if a queue of --from is not the one that was read before; see vestige run.",
)
@click.option("--demo", is_flag=True, help="Replay the flights of New York, and show them in the browser; see --open.")
def serve(
    store: StoreOptions,
    tokens: str | None,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    certificate: str | None,
    private_key: str | None,
    rate: float,
    queues: tuple[str, ...],
    if_replaced: IfReplaced,
    *,
    trim: bool,
    is_open: bool,
    behind_proxy: bool,
    demo: bool,
) -> None:
    """Serve STORE over HTTP: take rows, answer, erase.

    An answer of status 200 to rows means that they are flushed. Rows are sent with a header Idempotency-Key: a request
    that is sent again with it is answered again, and not counted twice. Records that are due are erased also while
    nothing arrives. /docs has all paths, /metrics numbers for Prometheus, and / a page that shows what happens.

    Each request needs a token of --tokens, whose scopes say what it allows; see vestige token. With --open none is
    asked for, on this host alone. On another --host it listens over TLS, with --certificate, or in clear if you say
    that a proxy does TLS, with --behind-proxy. SIGTERM and Ctrl-C end the service after what was begun is written. The
    log is on standard error, and never has values, keys or subjects.

    With --from, entries of a queue are read into a definition as rows of a request would be. They are acknowledged once
    they are flushed, so that each counts once, whatever is killed. vestige run --help has more on queues.

    With --demo, STORE may be left out: a temporary one is used, and removed at the end.

    \b
    Examples:
      vestige serve visits.db --open
      vestige serve visits.db --tokens visits.tokens
      vestige serve visits.db --tokens visits.tokens --host 0.0.0.0 --behind-proxy --allow-host visits.example
      vestige serve visits.db --open --from visits=redis://localhost:6379/0/visits
      vestige serve --demo
    """  # noqa: D301  # the sign says to leave the lines as they are
    try:
        from vestige.service.app import make_app  # noqa: PLC0415  # an extra
        from vestige.service.demo_routes import add_demo  # noqa: PLC0415
        from vestige.service.listener import Server  # noqa: PLC0415
        from vestige.store.listener import load_certificate, open_listener  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("vestige serve", "serve") from None
    from vestige.service.access import Access  # noqa: PLC0415
    from vestige.service.engine import Engine  # noqa: PLC0415
    from vestige.service.events import Events  # noqa: PLC0415
    from vestige.service.feed import Feed, FeedOptions  # noqa: PLC0415
    from vestige.service.logs import start_log  # noqa: PLC0415
    from vestige.service.sweeper import Sweeper  # noqa: PLC0415

    is_private = is_open or demo
    _check_options(tokens, certificate, private_key, behind_proxy=behind_proxy, is_open=is_private)
    asked = [FeedOptions.parse(queue, trim=trim, if_replaced=if_replaced) for queue in queues]
    access = Access(tokens)
    context = None if certificate is None else load_certificate(certificate, private_key)
    refusal = _OPEN if is_private else None if behind_proxy or context is not None else _IN_CLEAR
    with open_listener(host, port, refusal=refusal) as listener:
        folder = DemoFolder() if demo and not store.address else None
        store = store if folder is None else replace(store, address=folder.store)
        events = Events()
        limit_interpretation(0.0)  # a service lives long: kernels are compiled before rows wait for them
        engine = Engine(store.open(create=True), events.tell)
        sweeper = Sweeper(engine.store, events.tell)
        engine.maintain = sweeper.run
        allowed = frozenset({"localhost", "127.0.0.1", "[::1]", host.lower(), *(name.lower() for name in hosts)})
        feeds = [Feed(engine, each) for each in asked]
        app = make_app(engine, events, allowed_hosts=allowed, access=access, rate=rate, sweeper=sweeper, feeds=feeds)
        if demo:
            add_demo(app, engine, at_end=None if folder is None else folder.remove)

        def announce(address: str) -> None:
            click.echo(f"Serving {store} at {address}")
            if demo:
                show_page(address)

        start_log()
        try:
            Server(app, events, context, announce, behind_proxy=behind_proxy).run([listener])
        except KeyboardInterrupt:
            sys.exit(130)  # what shells expect of Ctrl-C


def _check_options(
    tokens: str | None, certificate: str | None, private_key: str | None, *, behind_proxy: bool, is_open: bool
) -> None:
    """Check that the options fit together."""
    if is_open == (tokens is not None):
        raise click.UsageError("give either --tokens FILE, or --open to serve this host alone without tokens")
    check_certificate(certificate, private_key)
    if behind_proxy and certificate is not None:
        raise click.UsageError("--behind-proxy says that a proxy does TLS, and --certificate that we do; give one")
    if tokens is not None and not Path(tokens).exists():
        raise ParameterError(
            f"--tokens {tokens}: there is no such file; make it: vestige token {tokens} --add LABEL --scope SCOPE"
        )
