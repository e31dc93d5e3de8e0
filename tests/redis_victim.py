"""A process that reads a Redis Stream into a store until it is killed; it forks a child for each run."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from vestige import KeyedStreams, Mean, Stream, open_store
from vestige.ingest import Ingest, StreamNames, commits, maintenance
from vestige.ingest.definition import Definition
from vestige.service.engine import Engine, count_records
from vestige.service.feed import Feed, FeedOptions
from vestige.sources.columns import Columns
from vestige.sources.redis import RedisSource, reader
from vestige.sources.redis.address import RedisAddress
from vestige.sources.redis.link import Link, StreamState, pair
from vestige.store import Store

PATIENCE = 60.0
AT_ONCE = 20
"""Number of entries that are read at once, so that a run has many commits."""


def make_ingest(address: str, store: Store, *, by: bool) -> Ingest:
    """What `vestige run --no-follow --trim` does."""
    columns = Columns(("v",), None, None, ("k",) if by else (), None)
    source = RedisSource(RedisAddress.parse(address), columns, follow=False, trim=True)
    if by:
        streams = KeyedStreams(Mean(channel="bits"), retention=96, seed=1, store=store.family())
        return Ingest(source, streams, StreamNames("k"), store)
    return Ingest(
        source,
        lambda name: Stream(Mean(channel="bits"), retention=96, seed=1, store=store.stream(name)),
        store=store,
    )


def run(address: str, path: str, *, by: bool) -> None:
    """Read what is there."""
    with open_store(path) as store:
        ingest = make_ingest(address, store, by=by)
        ingest.run()
        if isinstance(ingest.streams, KeyedStreams):
            ingest.streams._workers.shutdown()


def serve(address: str, path: str, *, by: bool) -> None:
    """Feed a service from a queue until all of it is there."""
    engine = Engine(open_store(path))
    engine.start()
    keys = ("k",) if by else ()
    made = Definition(name="s", columns=("v",), by=keys, retention=96, channel="bits", seed=1)
    engine.submit(lambda: engine.catalog.create(made)).result(PATIENCE)
    feed = Feed(engine, FeedOptions.parse(address, trim=True))
    feed.start()
    link, until = Link(RedisAddress.parse(address)), time.monotonic() + PATIENCE
    while time.monotonic() < until:
        added = StreamState.read(link.call("XINFO", "STREAM", "s")).added
        if count_records(engine.catalog.find("s"))[0] == added and not _count_pending(link):
            break
        time.sleep(0.01)
    feed.stop()
    engine.stop()


def _count_pending(link: Link) -> int:
    groups = [pair(reply) for reply in link.call("XINFO", "GROUPS", "s")]
    return sum(said["pending"] for said in groups if said["name"] != b"other")


class Steps:
    """Counts the commands that are sent, before and after each, and kills the process at one of them or soon after.

    Args:
        last: the step; None for never.
        delay: seconds from there to the end.
    """

    def __init__(self, last: int | None, delay: float) -> None:
        self.count, self._last, self._delay, self._send = 0, last, delay, Link.send

    def install(self) -> None:
        """Take the place of `Link.send`."""

        def send(link: Link, commands: Sequence[Sequence[object]], *, together: bool = False) -> list[Any]:
            return self.send(link, commands, together=together)

        Link.send = send  # type: ignore[method-assign, assignment]

    def send(self, link: Link, commands: Sequence[Sequence[object]], *, together: bool = False) -> list[Any]:
        """Send commands, a step before and a step after."""
        self._step()
        replies = self._send(link, commands, together=together)
        self._step()
        return replies

    def _step(self) -> None:
        self.count += 1
        if self.count == self._last and self._delay:
            threading.Timer(self._delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        elif self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Read what to read and when to die; the first run is made here, so that children have all loaded."""
    maintenance.EVERY = commits._SHARE = 0.0
    reader.AT_ONCE = AT_ONCE
    act = {"run": run, "serve": serve}[sys.argv[1]]
    for number, line in enumerate(sys.stdin):
        address, path, by, last, delay = json.loads(line)
        if not number:
            act(address, path, by=by)
            print(json.dumps([0, 0]), flush=True)
            continue
        heard, told = os.pipe()
        child = os.fork()
        if not child:
            steps = Steps(last, delay)
            steps.install()
            try:
                act(address, path, by=by)
                os.write(told, str(steps.count).encode())
                os._exit(0)
            except BaseException:
                os._exit(1)
        os.close(told)
        _, status = os.waitpid(child, 0)
        count = int(os.read(heard, 100) or b"0")
        os.close(heard)
        print(json.dumps([status, count]), flush=True)


if __name__ == "__main__":
    main()
