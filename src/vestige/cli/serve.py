"""`vestige serve`: streams over HTTP, from a store that this process holds.

Guarantee: without tokens it listens on this host alone; held by tests/service/test_app.py.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
from dataclasses import replace

import click

from vestige.cli.group import command
from vestige.cli.serve_demo import DemoFolder, show_page
from vestige.cli.store_options import StoreOptions, key_option, store_argument
from vestige.errors import MissingExtraError, ParameterError


@command.command("serve")
@store_argument
@key_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of this host to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 chooses one that is free.",
)
@click.option("--allow-host", "hosts", multiple=True, help="Further name that requests may use; may be repeated.")
@click.option("--demo", is_flag=True, help="Replay the flights of New York, and show them in the browser; see --open.")
@click.option("--open", "is_open", is_flag=True, help="Ask for no token; on this host alone.")
def serve(store: StoreOptions, host: str, port: int, hosts: tuple[str, ...], *, demo: bool, is_open: bool) -> None:
    """Serve STORE over HTTP: take rows, answer, erase.

    An answer to rows means that they are flushed. SIGTERM and Ctrl-C end the service after what waits is written.

    With --demo, STORE may be left out: a temporary one is used, and removed at the end.

    \b
    Examples:
      vestige serve visits.db --open
      vestige serve --demo
    """  # noqa: D301  # the sign says to leave the lines as they are
    try:
        import uvicorn  # noqa: PLC0415  # an extra

        from vestige.service.app import make_app  # noqa: PLC0415
        from vestige.service.demo_routes import add_demo  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError("vestige serve", "serve") from None
    from vestige.service.engine import Engine  # noqa: PLC0415
    from vestige.service.events import Events  # noqa: PLC0415
    from vestige.service.sweeper import Sweeper  # noqa: PLC0415

    folder = DemoFolder() if demo and not store.address else None
    if folder is not None:
        store = replace(store, address=folder.store)
    if not (is_open or demo):
        raise ParameterError("there are no tokens yet; give --open, which serves this host alone")
    if not ipaddress.ip_address(host).is_loopback:
        raise ParameterError(
            f"--open serves this host alone, and --host {host} is not its loopback address; leave it out"
        )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    events = Events()
    engine = Engine(store.open(create=True), events.tell)
    engine.maintain = Sweeper(engine.store, events.tell).run
    allowed = frozenset({"localhost", "127.0.0.1", "[::1]", host, *hosts})
    app = make_app(engine, events, allowed_hosts=allowed)
    if demo:
        add_demo(app, engine, at_end=None if folder is None else folder.remove)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=10,
    )

    class Server(uvicorn.Server):
        """A server that says where it listens once it does."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                url = f"http://{host}:{self.servers[0].sockets[0].getsockname()[1]}"
                click.echo(f"Serving {store} at {url}")
                if demo:
                    show_page(url)

    Server(config).run()
