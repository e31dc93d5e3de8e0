"""A service in a thread of this process, on a loopback address, and a client for it."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from limits import join
from vestige import open_store
from vestige.service.access import Access
from vestige.service.app import make_app
from vestige.service.demo_routes import add_demo
from vestige.service.engine import Engine
from vestige.service.events import Events
from vestige.service.listener import Server
from vestige.service.sweeper import Sweeper
from vestige.store.listener import open_listener


@contextmanager
def serve_here(
    path: Path | str,
    *,
    demo_rate: int | None = None,
    tokens: Path | None = None,
    rate: float = 1e6,
    keyring: Path | None = None,
    context: ssl.SSLContext | None = None,
) -> Iterator[httpx.Client]:
    """A client of a service of the store at an address; with the demo if that has a rate."""
    events = Events()
    engine = Engine(open_store(path, keyring=keyring), events.tell)
    sweeper = Sweeper(engine.store, events.tell)
    engine.maintain = sweeper.run
    hosts = frozenset({"127.0.0.1"})
    app = make_app(engine, events, allowed_hosts=hosts, access=Access(tokens), rate=rate, sweeper=sweeper)
    if demo_rate is not None:
        add_demo(app, engine, demo_rate)
    server = Server(app, events, context)
    thread = threading.Thread(target=server.run, args=([open_listener("127.0.0.1", 0)],), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as client:
            yield client
    finally:
        server.should_exit = True
        join(thread)
