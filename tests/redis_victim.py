"""A process that reads a Redis Stream into a store until it is killed; it forks a child for each run."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from vestige import KeyedStreams, Mean, Stream, open_store
from vestige.ingest import Ingest, StreamNames, commits, maintenance
from vestige.sources.columns import Columns
from vestige.sources.redis import RedisSource, reader
from vestige.sources.redis.address import RedisAddress
from vestige.store import Store

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


def main() -> None:
    """Read addresses and delays; run and kill. The first run is made here, so that children have all loaded."""
    maintenance.EVERY = commits._SHARE = 0.0
    reader.AT_ONCE = AT_ONCE
    for number, line in enumerate(sys.stdin):
        address, path, by, delay = json.loads(line)
        if not number:
            run(address, path, by=by)
            print(json.dumps([0, 0.0]), flush=True)
            continue
        child = os.fork()
        if not child:
            try:
                run(address, path, by=by)
                os._exit(0)
            except BaseException:
                os._exit(1)
        started = time.monotonic()
        if delay is not None:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(json.dumps([status, time.monotonic() - started]), flush=True)


if __name__ == "__main__":
    main()
